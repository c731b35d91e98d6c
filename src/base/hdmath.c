/* exp, log, sin, cos: see hdmath.h for the methods and the guarantees.
 *
 * Every expression is evaluated as written; reordering one changes digests. */
#include "base/hdmath.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/exact_exp.h"

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must round to double after every operation");

static const double SQRT_HALF_UP = 0x1.6a09e667f3bcdp-1; /* sqrt 1/2, rounded up */
static const double TWO_OVER_PI = 0x1.45f306dc9c883p-1;
static const double PIO2_1 = 0x1.921fb54400000p+0, PIO2_2 = 0x1.0b4611a600000p-34, PIO2_3 = 0x1.3198a2e037073p-69;

/* A number as the unevaluated sum of two doubles, |lo| at most half an ulp of hi. */
typedef struct pair {
  double hi, lo;
} pair;

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

double hd__exp(double x) { return hd__exp_of(x); }

/* x > 0 and finite: x = 2^k m with m in [sqrt 1/2, sqrt 2). */
static double split_exponent(double x, int *k) {
  int shift = 0;
  if (x < DBL_MIN) {
    x *= 0x1p54;
    shift = 54;
  }
  uint64_t bits = bits_of(x);
  int exponent = (int)(bits >> 52) - 1022;
  double m = hd__double_of_bits((bits & 0xfffffffffffffu) | (uint64_t)1022 << 52); /* [1/2, 1) */
  if (m < SQRT_HALF_UP) {
    m *= 2;
    exponent--;
  }
  *k = exponent - shift;
  return m;
}

double hd__log(double x) {
  static const double coef[] = {/* 2 / (2j + 3): log(1 + f) = 2s + s (z coef[0] + z^2 coef[1] + ...), z = s^2 */
                                2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                                2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
  if (isnan(x))
    return x;
  if (x == 0)
    return -(double)INFINITY;
  if (x < 0)
    return (double)NAN;
  if (isinf(x))
    return x;
  int k;
  double m = split_exponent(x, &k), f = m - 1;
  double s = f / (2 + f), z = s * s;
  double half = 0.5 * f * f; /* 2s = f - s f = f - half + s half */
  double tail = s * (half + z * hd__polynomial(z, coef, 11));
  return k * HD_LN2_HIGH - ((half - (tail + k * HD_LN2_LOW)) - f);
}

/* x = k pi/2 + r for |x| <= 2^20; returns k mod 4. */
static int reduce_angle(pair *r, double x) {
  double k = (x * TWO_OVER_PI + HD_ROUNDER) - HD_ROUNDER;
  double a = x - k * PIO2_1;                      /* exact */
  double second = k * PIO2_2, third = k * PIO2_3; /* the first is exact */
  double b = a - second;
  double shadow = b - a; /* Knuth's two-sum: b + lost is a - second exactly */
  double lost = (a - (b - shadow)) - (second + shadow);
  r->hi = b - third;
  r->lo = ((b - r->hi) - third) + lost;
  return (int)((int64_t)k & 3);
}

static double sin_kernel(pair r) {
  static const double coef[] = {/* -1 / 3!, 1 / 5!, ... */
                                -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
                                -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
  double z = r.hi * r.hi;
  double tail = r.hi * z * hd__polynomial(z, coef, 8) + r.lo * (1 - 0.5 * z);
  return r.hi + tail;
}

static double cos_kernel(pair r) {
  static const double coef[] = {/* 1 / 4!, -1 / 6!, ... */
                                1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
                                1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
  double z = r.hi * r.hi, half = 0.5 * z;
  double w = 1 - half;
  return w + (((1 - w) - half) + (z * z * hd__polynomial(z, coef, 8) - r.hi * r.lo));
}

static double sin_or_cos(double x, int quarter_turns) {
  if (!(fabs(x) <= 0x1p20))
    return (double)NAN;
  pair r;
  int quadrant = (reduce_angle(&r, x) + quarter_turns) & 3;
  double value = quadrant & 1 ? cos_kernel(r) : sin_kernel(r);
  return quadrant & 2 ? -value : value;
}

double hd__sin(double x) { return x == 0 ? x : sin_or_cos(x, 0); }

double hd__cos(double x) { return sin_or_cos(x, 1); }

double hd__pow_int(double base, uint64_t n) {
  double result = 1;
  for (; n; n >>= 1) {
    if (n & 1)
      result *= base;
    base *= base;
  }
  return result;
}

void hd__two_normals(float y[2], uint32_t radius_word, uint32_t angle_word) {
  const double two_pi = 6.283185307179586;
  const double radius = sqrt(-2 * hd__log(((double)radius_word + 1) * 0x1p-32));
  const double angle = two_pi * ((double)angle_word * 0x1p-32);
  y[0] = (float)(radius * hd__cos(angle));
  y[1] = (float)(radius * hd__sin(angle));
}
