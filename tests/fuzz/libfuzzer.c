/* Drives the target that FUZZ_TARGET names with what libFuzzer makes up; see fuzz.h and tools/fuzz. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fuzz_fn *target;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  const char *name = getenv("FUZZ_TARGET");
  for (const fuzz_target *t = fuzz_targets; t->name; t++)
    if (name && !strcmp(t->name, name))
      target = t->run;
  if (target)
    return 0;
  fprintf(stderr, "expected a target in FUZZ_TARGET, found '%s'; use", name ? name : "");
  for (const fuzz_target *t = fuzz_targets; t->name; t++)
    fprintf(stderr, " %s", t->name);
  fprintf(stderr, "\n");
  exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  target(bytes, length);
  return 0;
}
