/* Fuzzing of untrusted input, one target per format: any bytes at all must end in success or in one line of
 * error, with nothing left behind.
 *
 * A target takes bytes, reads them as the library would, and aborts if a promise is broken. libfuzzer.c drives one
 * with inputs that clang's libFuzzer makes up (tools/fuzz); test_fuzz.c replays those that were kept under corpus/,
 * one folder a target, with any compiler. */
#ifndef HD_TESTS_FUZZ_H
#define HD_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

typedef void fuzz_fn(const uint8_t *bytes, size_t length);

typedef struct fuzz_target {
  const char *name;
  fuzz_fn *run;
} fuzz_target;

/* Ends with a NULL name. */
extern const fuzz_target fuzz_targets[];

/* Inputs that were refused, and that were taken, since the start. */
extern long fuzz_refused, fuzz_taken;

#endif
