/* The exp, log, sin and cos of hdmath.h in double: errors against the C library's in long double, the exact cases,
 * and a checksum of many results, the same on every machine and with every compiler, since digests are made of them.
 * And products and sums with one rounding, by the instruction where the CPU has it, against libm's. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/fma.h"
#include "base/hdmath.h"
#include "tap.h"

enum { POINTS = 100000 };

/* A sequence of 64-bit numbers that is the same everywhere (splitmix64). */
static uint64_t draw(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static double between(uint64_t *state, double low, double high) {
  return low + (high - low) * (double)(draw(state) >> 11) * 0x1p-53;
}

/* Any positive finite number, each exponent as likely as any other, subnormal ones among them. */
static double positive(uint64_t *state) {
  double x;
  do {
    const uint64_t bits = draw(state) >> 1;
    memcpy(&x, &bits, sizeof x);
  } while (!(x > 0) || isinf(x));
  return x;
}

static double error_ulp(double got, long double exact) {
  int exponent;
  frexpl(exact, &exponent);
  return (double)(fabsl((long double)got - exact) / ldexpl(1, exponent - 53));
}

static uint64_t add_bits(uint64_t sum, double x) { /* FNV-1a, a word at a time */
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return (sum ^ bits) * 0x100000001b3u;
}

typedef struct function {
  const char *name;
  double (*own)(double x);
  long double (*exact)(long double x);
  double low, high;  /* of the points; both 0: any positive number */
  uint64_t checksum; /* to change one is to change digests */
} function;

static const function functions[] = {
    {"exp, normal results", hd__exp, expl, -708, 709.5, 0x62972638cbb468d2u},
    {"exp near 0", hd__exp, expl, -1, 1, 0xab5538688640f7d4u},
    {"log", hd__log, logl, 0, 0, 0x1d5a8c842103405bu},
    {"log near 1", hd__log, logl, 0.5, 2, 0xa91f2f5a1621551u},
    {"sin", hd__sin, sinl, -0x1p20, 0x1p20, 0x385ce7820ad8a91u},
    {"sin of a turn", hd__sin, sinl, -6.3, 6.3, 0xf78d3c2e1b14c016u},
    {"cos", hd__cos, cosl, -0x1p20, 0x1p20, 0x616a0f4b8e550d3au},
    {"cos of a turn", hd__cos, cosl, -6.3, 6.3, 0x1b461aa75f6554dbu},
};

static void test_errors(const function *f) {
  uint64_t state = 1, checksum = 0xcbf29ce484222325u;
  double largest = 0, worst = 0;
  for (int i = 0; i < POINTS; i++) {
    const double x = f->low < f->high ? between(&state, f->low, f->high) : positive(&state), got = f->own(x);
    const double error = error_ulp(got, f->exact(x));
    checksum = add_bits(checksum, got);
    if (!(error <= largest)) {
      largest = error;
      worst = x;
    }
  }
  if (!ok(largest < 1, "%s: errors stay below 1 ulp, the largest is %.2f", f->name, largest))
    diag("at %a", worst);
  if (!ok(checksum == f->checksum, "%s: the bits are those of every machine", f->name))
    diag("expected %#llx, found %#llx", (unsigned long long)f->checksum, (unsigned long long)checksum);
}

static void test_exact(void) {
  ok(hd__exp(0) == 1 && hd__exp(-INFINITY) == 0 && isinf(hd__exp(INFINITY)) && isinf(hd__exp(710)),
     "exp of 0, of infinities, and too large");
  ok(hd__exp(-746) == 0 && hd__exp(-745) == 0x1p-1074, "exp ends in the smallest subnormal number, then 0");
  ok(hd__log(1) == 0 && hd__log(0) == -INFINITY && hd__log(INFINITY) == INFINITY && isnan(hd__log(-1)),
     "log of 1, 0, infinity and of a negative number");
  ok(hd__sin(0) == 0 && signbit(hd__sin(-0.0)) && hd__cos(0) == 1, "sin keeps the sign of zero, cos 0 is 1");
  ok(isnan(hd__sin(0x1.00002p20)) && isnan(hd__cos(INFINITY)), "sin and cos are for angles up to 2^20");
  ok(isnan(hd__exp(NAN)) && isnan(hd__log(NAN)) && isnan(hd__sin(NAN)) && isnan(hd__cos(NAN)), "NaN gives NaN");
}

static void test_powers(void) {
  int wrong = 0;
  for (uint64_t n = 1; n <= 300; n++)
    wrong += !(error_ulp(hd__pow_int(0.9, n), powl((long double)0.9, (long double)n)) <= (double)n);
  is_int(wrong, 0, "0.9^n is off by at most n ulp, for n up to 300");
  ok(hd__pow_int(0.9, 0) == 1 && hd__pow_int(0, 0) == 1 && hd__pow_int(-2, 5) == -32, "powers 0 and 5");
}

static bool same(double a, double b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

/* Any bits, and sums that nearly cancel, whose last bits a second rounding would change. */
static void test_fused(void) {
  uint64_t state = 3;
  int wrong = 0;
  for (int i = 0; i < POINTS; i++) {
    double d[3];
    float f[6];
    for (int k = 0; k < 3; k++) {
      const uint64_t bits = draw(&state);
      memcpy(&d[k], &bits, sizeof bits);
      memcpy(&f[2 * k], &bits, sizeof bits);
    }
    if (i % 2) {
      for (int k = 0; k < 3; k++)
        d[k] = between(&state, -4, 4), f[k] = (float)d[k];
      d[2] = -d[0] * d[1], f[2] = -f[0] * f[1];
    }
    wrong += !same(hd__fma(d[0], d[1], d[2]), fma(d[0], d[1], d[2]));
    wrong += !same(hd__fmaf(f[0], f[1], f[2]), fmaf(f[0], f[1], f[2]));
  }
  is_int(wrong, 0, "a product and a sum with one rounding have libm's bits");
}

int main(void) {
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
    test_errors(&functions[f]);
  test_exact();
  test_powers();
  test_fused();
  return done_testing();
}
