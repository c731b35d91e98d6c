/* Statistics of speed over numbers of threads: medians, their confidence intervals, and scaling laws.
 *
 * With S(n) the speed of n threads against that of one:
 *   Amdahl                       S(n) = n / (1 + a (n - 1))                 a: the share that one thread does alone
 *   universal scalability law    S(n) = n / (1 + a (n - 1) + b n (n - 1))   b: what each pair costs (Gunther)
 * Both are fitted by least squares of n / S(n) - 1, which is linear in a and b, under a, b >= 0. Pure arithmetic. */
#pragma once

#include <stdint.h>

/* A median with the bounds of its 95 % confidence interval (order statistics; the extremes for fewer than 6 values). */
typedef struct hd_median {
  double value, low, high;
} hd_median;

/* Sorts `values` (count >= 1). */
hd_median hd__median(double *values, int count);

typedef struct hd_law {
  double amdahl;                /* a of Amdahl's law fitted alone */
  double contention, coherence; /* a and b of the universal law */
  double best;                  /* number of threads at which the universal law is highest; INFINITY without a limit */
} hd_law;

/* Fits the laws to speeds at numbers of threads; some entry must have threads 1. */
hd_law hd__fit_law(const int32_t *threads, const double *speed, int count);

/* S(n) of the universal law. */
double hd__law_speedup(const hd_law *law, double threads);
