/* TAP, the Test Anything Protocol, for tests written in C: one header, no library.
 *
 * A test program calls ok() and its relatives, then returns done_testing(). Lines go out at once, so that a crash shows
 * how far the test came. A failed check prints where it stands and what was expected. */
#ifndef HD_TESTS_TAP_H
#define HD_TESTS_TAP_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int tap_count, tap_failed;

/* 1: make check, 2: make check-all, 3: make check-long. */
__attribute__((unused)) static int check_depth(void) {
  const char *depth = getenv("HD_DEPTH");
  return depth && *depth ? atoi(depth) : 1;
}

__attribute__((unused, format(printf, 1, 2))) static void diag(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  printf("# ");
  vprintf(fmt, args);
  printf("\n");
  va_end(args);
  fflush(stdout);
}

__attribute__((unused, format(printf, 4, 5))) static int tap_ok(int pass, const char *file, int line, const char *fmt,
                                                                ...) {
  va_list args;
  va_start(args, fmt);
  printf("%s %d - ", pass ? "ok" : "not ok", ++tap_count);
  vprintf(fmt, args);
  printf("\n");
  va_end(args);
  if (!pass) {
    tap_failed++;
    diag("failed at %s:%d", file, line);
  }
  fflush(stdout);
  return pass;
}

#define ok(condition, ...) tap_ok((condition) != 0, __FILE__, __LINE__, __VA_ARGS__)
#define pass(...) tap_ok(1, __FILE__, __LINE__, __VA_ARGS__)
#define fail(...) tap_ok(0, __FILE__, __LINE__, __VA_ARGS__)

#define is_int(got, want, ...) tap_is_int((long long)(got), (long long)(want), __FILE__, __LINE__, __VA_ARGS__)
#define is_str(got, want, ...) tap_is_str(got, want, __FILE__, __LINE__, __VA_ARGS__)
#define is_bytes(got, want, length, ...) tap_ok(memcmp(got, want, length) == 0, __FILE__, __LINE__, __VA_ARGS__)
#define near(got, want, tolerance, ...) tap_near(got, want, tolerance, __FILE__, __LINE__, __VA_ARGS__)

/* A name made of the caller's format. */
#define TAP_NAME                                                                                                       \
  char name[512];                                                                                                      \
  va_list args;                                                                                                        \
  va_start(args, fmt);                                                                                                 \
  vsnprintf(name, sizeof name, fmt, args);                                                                             \
  va_end(args)

__attribute__((unused, format(printf, 5, 6))) static int tap_is_int(long long got, long long want, const char *file,
                                                                    int line, const char *fmt, ...) {
  TAP_NAME;
  if (!tap_ok(got == want, file, line, "%s", name))
    diag("expected %lld, found %lld", want, got);
  return got == want;
}

__attribute__((unused, format(printf, 5, 6))) static int tap_is_str(const char *got, const char *want, const char *file,
                                                                    int line, const char *fmt, ...) {
  TAP_NAME;
  int same = got && want ? !strcmp(got, want) : got == want;
  if (!tap_ok(same, file, line, "%s", name))
    diag("expected '%s', found '%s'", want ? want : "(null)", got ? got : "(null)");
  return same;
}

__attribute__((unused, format(printf, 6, 7))) static int tap_near(double got, double want, double tolerance,
                                                                  const char *file, int line, const char *fmt, ...) {
  TAP_NAME;
  int close = fabs(got - want) <= tolerance;
  if (!tap_ok(close, file, line, "%s", name))
    diag("expected %.17g within %g, found %.17g", want, tolerance, got);
  return close;
}

__attribute__((unused, format(printf, 2, 3))) static void skip(int count, const char *fmt, ...) {
  TAP_NAME;
  for (int i = 0; i < count; i++)
    printf("ok %d # SKIP %s\n", ++tap_count, name);
  fflush(stdout);
}

__attribute__((unused, noreturn, format(printf, 1, 2))) static void skip_all(const char *fmt, ...) {
  TAP_NAME;
  printf("1..0 # SKIP %s\n", name);
  exit(0);
}

__attribute__((unused, noreturn, format(printf, 1, 2))) static void bail_out(const char *fmt, ...) {
  TAP_NAME;
  printf("Bail out! %s\n", name);
  exit(1);
}

__attribute__((unused)) static int done_testing(void) {
  printf("1..%d\n", tap_count);
  return tap_failed ? 1 : 0;
}

#endif
