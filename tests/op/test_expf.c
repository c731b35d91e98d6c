/* exp, log, tanh and erf of base/exact_math.h against the C library's in double: errors in units of the last place over
 * millions of floats, and the exact cases. That the vector versions have the same bits is seen in test_kernels,
 * through cross-entropy. */
#include <math.h>
#include <stdint.h>

#include "base/exact_math.h"
#include "tap.h"

/* Every STRIDE-th float bit pattern, an odd number so that all low bits occur. */
enum { STRIDE = 509 };

/* Bounds in units of the last place. Over all floats the largest errors are 0.94 (exp), 2.06 (log, at 0.607), 1.59
 * (tanh) and 1.21 (erf). */
static const double EXP_BOUND_ULP = 1, LOG_BOUND_ULP = 2.1, TANH_BOUND_ULP = 1.6, ERF_BOUND_ULP = 1.25;

/* The distance between neighbouring floats around `exact`. */
static double ulp_of(double exact) {
  int exponent;
  frexp(exact, &exponent);
  return ldexp(1, exponent - 24);
}

static double error_ulp(float got, double exact) { return fabs((double)got - exact) / ulp_of(exact); }

typedef struct sweep {
  double largest_ulp;
  float worst;
  long points, wrong; /* wrong: outside the range, where the result must be exact */
} sweep;

static void note(sweep *s, float x, double error) {
  s->points++;
  if (!(error <= s->largest_ulp)) {
    s->largest_ulp = error;
    s->worst = x;
  }
}

static void sweep_exp(sweep *s) {
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += STRIDE) {
    float x = hd__float_of_bits((uint32_t)bits), e = hd__expf(x);
    if (isnan(x))
      s->wrong += !isnan(e);
    else if (x < HD_EXPF_LOW)
      s->wrong += e != 0 || signbit(e);
    else if (x > HD_EXPF_HIGH)
      s->wrong += e != INFINITY;
    else
      note(s, x, error_ulp(e, exp((double)x)));
  }
}

static void sweep_log(sweep *s) {
  for (uint64_t bits = UINT64_C(1) << 23; bits < UINT64_C(1) << 32; bits += STRIDE) {
    float x = hd__float_of_bits((uint32_t)bits), l = hd__logf(x);
    if (isnan(x) || x < 0)
      s->wrong += x != 0 && !isnan(l);
    else if (isinf(x))
      s->wrong += l != INFINITY;
    else
      note(s, x, error_ulp(l, log((double)x)));
  }
}

/* Odd functions that go to 1: every sign, magnitude and zero. */
static void sweep_odd(sweep *s, float (*own)(float), double (*exact)(double)) {
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += STRIDE) {
    float x = hd__float_of_bits((uint32_t)bits), y = own(x);
    if (isnan(x))
      s->wrong += !isnan(y);
    else if (isinf(x))
      s->wrong += y != copysignf(1, x);
    else if (fabsf(x) < 0x1p-126f)
      s->wrong += signbit(y) != signbit(x) || fabsf(y) > 0x1p-125f;
    else
      note(s, x, error_ulp(y, exact((double)x)));
  }
}

/* The loss takes log of sums just above 1 and exp of differences just below 0: every float there. */
static void sweep_near(sweep *exps, sweep *logs) {
  for (uint32_t i = 1; i < 1 << 20; i++) {
    float below = -(float)i * 0x1p-24f, above = hd__float_of_bits(0x3f800000 + i);
    note(exps, below, error_ulp(hd__expf(below), exp((double)below)));
    note(logs, above, error_ulp(hd__logf(above), log((double)above)));
  }
}

static int is_positive_zero(float x) { return x == 0 && !signbit(x); }

int main(void) {
  sweep exps = {0}, logs = {0};
  sweep_exp(&exps);
  sweep_log(&logs);
  sweep_near(&exps, &logs);
  diag("exp: %.3f ulp at %a over %ld floats; log: %.3f ulp at %a over %ld", exps.largest_ulp, (double)exps.worst,
       exps.points, logs.largest_ulp, (double)logs.worst, logs.points);
  ok(exps.points > 1000000 && exps.largest_ulp <= EXP_BOUND_ULP, "exp is within 1 unit of the last place");
  ok(exps.wrong == 0, "exp is 0 below its range, infinite above, NaN of a NaN");
  ok(hd__expf(0.0f) == 1 && hd__expf(-0.0f) == 1, "exp of both zeros is 1");
  ok(hd__expf(HD_EXPF_LOW) >= 0x1p-126f && isfinite(hd__expf(HD_EXPF_HIGH)), "exp is normal at both ends of its range");
  ok(is_positive_zero(hd__expf(-INFINITY)) && hd__expf(INFINITY) == INFINITY, "exp of both infinities is exact");
  ok(logs.points > 1000000 && logs.largest_ulp <= LOG_BOUND_ULP, "log is within 2.1 units of the last place");
  ok(logs.wrong == 0, "log is NaN of a negative number and of a NaN, infinite of infinity");
  ok(is_positive_zero(hd__logf(1.0f)), "log of 1 is 0");
  ok(hd__logf(0.0f) == -INFINITY && hd__logf(-0.0f) == -INFINITY, "log of both zeros is minus infinity");
  sweep tanhs = {0}, erfs = {0};
  sweep_odd(&tanhs, hd__tanhf, tanh);
  sweep_odd(&erfs, hd__erff, erf);
  diag("tanh: %.3f ulp at %a over %ld floats; erf: %.3f ulp at %a over %ld", tanhs.largest_ulp, (double)tanhs.worst,
       tanhs.points, erfs.largest_ulp, (double)erfs.worst, erfs.points);
  ok(tanhs.points > 1000000 && tanhs.largest_ulp <= TANH_BOUND_ULP, "tanh is within 1.6 units of the last place");
  ok(erfs.points > 1000000 && erfs.largest_ulp <= ERF_BOUND_ULP, "erf is within 1.25 units of the last place");
  ok(tanhs.wrong == 0 && erfs.wrong == 0,
     "tanh and erf of a NaN are NaN, of infinities and tiny numbers what they are");
  ok(hd__tanhf(-0.0f) == 0 && hd__tanhf(0) == 0 && hd__erff(-0.0f) == 0 && hd__erff(0) == 0,
     "tanh and erf of zeros are zero");
  return done_testing();
}
