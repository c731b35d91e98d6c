/* Medians and scaling laws: see scaling.h. */
#include "tools/tune/scaling.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The ranks count/2 -+ 0.98 sqrt(count) enclose the median with 95 %, by the normal approximation of the binomial
 * distribution. */
hd_median hd__median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  int low = (int)floor(count / 2.0 - 0.98 * sqrt(count)), high = count - 1 - low;
  low = low < 0 ? 0 : low;
  high = high > count - 1 ? count - 1 : high;
  double middle = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
  return (hd_median){middle, values[low], values[high]};
}

static double speed_of_one(const int32_t *threads, const double *speed, int count) {
  for (int i = 0; i < count; i++)
    if (threads[i] == 1)
      return speed[i];
  return speed[0];
}

hd_law hd__fit_law(const int32_t *threads, const double *speed, int count) {
  double one = speed_of_one(threads, speed, count);
  double xx = 0, xz = 0, zz = 0, xy = 0, zy = 0; /* x = n - 1, z = n (n - 1), y = n / S - 1 */
  for (int i = 0; i < count; i++) {
    double n = threads[i], x = n - 1, z = n * (n - 1), y = n * one / speed[i] - 1;
    xx += x * x;
    xz += x * z;
    zz += z * z;
    xy += x * y;
    zy += z * y;
  }
  hd_law law = {.best = INFINITY};
  if (xx == 0)
    return law;
  law.amdahl = fmin(fmax(xy / xx, 0), 1);
  double determinant = xx * zz - xz * xz;
  double a = determinant > 0 ? (zz * xy - xz * zy) / determinant : fmax(xy / xx, 0);
  double b = determinant > 0 ? (xx * zy - xz * xy) / determinant : 0;
  if (a < 0) { /* the nearest allowed point lies on an edge */
    a = 0;
    b = zz > 0 ? zy / zz : 0;
  }
  if (b < 0) {
    b = 0;
    a = fmax(xy / xx, 0);
  }
  if (a > 1) { /* more threads are slower than one: coherence alone can say by how much */
    a = 1;
    b = zz > 0 ? (zy - xz) / zz : 0;
  }
  law.contention = a;
  law.coherence = fmax(b, 0);
  if (law.contention == 1)
    law.best = 1; /* no number of threads is faster than one */
  else if (law.coherence > 0)
    law.best = fmax(sqrt((1 - law.contention) / law.coherence), 1);
  return law;
}

double hd__law_speedup(const hd_law *law, double n) {
  return n / (1 + law->contention * (n - 1) + law->coherence * n * (n - 1));
}
