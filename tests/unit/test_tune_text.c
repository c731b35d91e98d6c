/* The report of heddle tune on scaling: no more than the measurements show. */
#include <math.h>

#include "tap.h"

#include "cli/tune_page.h"

static hd_tune tune_of(int count, double amdahl, double contention, double best) {
  hd_tune t = {.count = count, .amdahl = amdahl, .contention = contention, .predicted_best = best};
  for (int i = 0; i < count; i++)
    t.settings[i].threads = i + 1;
  return t;
}

static void says(int count, double amdahl, double contention, double best, const char *serial, const char *limit) {
  char text[TUNE_LAW_BYTES];
  static hd_tune t;
  t = tune_of(count, amdahl, contention, best);
  is_str(tune_amdahl(text, &t), serial, "Amdahl's law with %g", amdahl);
  is_str(tune_limit(text, &t), limit, "the limit with contention %g and the peak %g", contention, best);
}

int main(void) {
  says(2, 0.1, 0.05, 22.4, "s = 0.100: 10.0 % of the work does not run in parallel", "fastest with 22 threads");
  says(2, 0, 0, INFINITY, "s = 0.000: 0.0 % of the work does not run in parallel", "no limit in sight");
  says(2, 0.1, 0.1, INFINITY, "s = 0.100: 10.0 % of the work does not run in parallel",
       "at most 10 times as fast as one thread, however many there are");
  says(4, 1, 1, 1, "s = 1: no number of threads is faster than one", "fastest with 1 thread");
  says(1, 0, 0, INFINITY, "a single number of threads does not show how much of the work runs in parallel",
       "unknown from a single number of threads");
  return done_testing();
}
