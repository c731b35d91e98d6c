/* Medians, their confidence, and the fitted laws. */
#include <math.h>

#include "tap.h"
#include "tools/tune/scaling.h"

static void test_medians(void) {
  double one[] = {7}, even[] = {4, 1, 3, 2}, many[101];
  hd_median m = hd__median(one, 1);
  ok(m.value == 7 && m.low == 7 && m.high == 7, "the median of one value is the value");
  m = hd__median(even, 4);
  ok(m.value == 2.5 && m.low == 1 && m.high == 4, "four values: the middle, and all there is");
  for (int i = 0; i < 101; i++)
    many[i] = (i * 37) % 101;
  m = hd__median(many, 101);
  ok(m.value == 50 && m.low == 40 && m.high == 60, "a hundred and one: ranks 40 and 60 enclose the middle (%g, %g)",
     m.low, m.high);
}

static void make_speeds(double *speed, const int32_t *threads, int count, double a, double b) {
  for (int i = 0; i < count; i++) {
    double n = threads[i];
    speed[i] = 1000 * n / (1 + a * (n - 1) + b * n * (n - 1));
  }
}

static void test_laws(void) {
  static const int32_t threads[] = {1, 2, 3, 4, 8, 16};
  double speed[6];
  make_speeds(speed, threads, 6, 0.05, 0.002);
  hd_law law = hd__fit_law(threads, speed, 6);
  ok(fabs(law.contention - 0.05) < 1e-9 && fabs(law.coherence - 0.002) < 1e-9, "a universal law is found again");
  ok(fabs(law.best - sqrt(0.95 / 0.002)) < 1e-6, "and its peak, %.1f threads", law.best);
  ok(fabs(hd__law_speedup(&law, 8) - speed[4] / 1000) < 1e-9, "and what it predicts");
  make_speeds(speed, threads, 6, 0.1, 0);
  law = hd__fit_law(threads, speed, 6);
  ok(fabs(law.amdahl - 0.1) < 1e-9 && fabs(law.contention - 0.1) < 1e-6 && law.coherence < 1e-9,
     "Amdahl's law is found again");
  make_speeds(speed, threads, 6, 0, 0);
  law = hd__fit_law(threads, speed, 6);
  ok(law.amdahl == 0 && law.contention == 0 && law.coherence == 0 && isinf(law.best), "perfect scaling has no limit");
  make_speeds(speed, threads, 6, -0.02, 0); /* caches can make that */
  law = hd__fit_law(threads, speed, 6);
  ok(law.amdahl == 0 && law.contention == 0 && law.coherence >= 0, "more than perfect scaling counts as perfect");
  for (int i = 0; i < 6; i++)
    speed[i] = 1000.0 / threads[i];
  law = hd__fit_law(threads, speed, 6);
  ok(law.contention <= 1 && law.best == 1, "where more threads are slower, one is best");
  for (int count = 2; count <= 6; count++) {
    for (int i = 0; i < count; i++)
      speed[i] = 1000;
    law = hd__fit_law(threads, speed, count);
    ok(law.amdahl == 1 && law.contention == 1 && law.coherence == 0 && law.best == 1,
       "where %d numbers of threads are equally fast, one is best", count);
  }
  const double slower[] = {1000, 810};
  law = hd__fit_law(threads, slower, 2);
  ok(fabs(hd__law_speedup(&law, 2) - 0.81) < 1e-9 && law.best == 1,
     "two threads that are slower: the law has the point");
  make_speeds(speed, threads, 6, 1, 0.03);
  law = hd__fit_law(threads, speed, 6);
  ok(fabs(law.coherence - 0.03) < 1e-9 && law.best == 1, "and six points, %g", law.coherence);
  law = hd__fit_law(threads, speed, 1);
  ok(law.amdahl == 0 && isinf(law.best), "one setting gives no scaling");
}

int main(void) {
  test_medians();
  test_laws();
  return done_testing();
}
