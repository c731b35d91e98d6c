/* The report of heddle tune on scaling: no more than the measurements show. */
#include <math.h>
#include <string.h>

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

/* With loader workers one thread may be faster than one alone: its marks stand below the top of both charts. */
static void test_marks(void) {
  static hd_tune t = {.count = 2, .best = 1, .amdahl = 1, .predicted_best = 1};
  char *page;
  size_t bytes;
  double x, y, highest = INFINITY;
  int marks = 0;
  for (int i = 0; i < 2; i++) {
    const double speed = i ? 230 : 100;
    t.settings[i] = (hd_tune_setting){
        .threads = 1, .workers = i, .turns = 1, .samples_per_s = speed, .low = 0.9 * speed, .high = 1.1 * speed};
  }
  FILE *to = open_memstream(&page, &bytes);
  tune_write_page(to, &t);
  fclose(to);
  for (const char *at = page; (at = strstr(at, "translate(")); at++)
    if (sscanf(at, "translate(%lf %lf) scale", &x, &y) == 2 && x > 84) {
      highest = fmin(highest, y);
      marks++;
    }
  ok(marks >= 4 && highest > 0, "%d marks, the highest at %g", marks, highest);
  free(page);
}

int main(void) {
  says(2, 0.1, 0.05, 22.4, "s = 0.100: 10.0 % of the work does not run in parallel", "fastest with 22 threads");
  says(2, 0, 0, INFINITY, "s = 0.000: 0.0 % of the work does not run in parallel", "no limit in sight");
  says(2, 0.1, 0.1, INFINITY, "s = 0.100: 10.0 % of the work does not run in parallel",
       "at most 10 times as fast as one thread, however many there are");
  says(4, 1, 1, 1, "s = 1: no number of threads is faster than one", "fastest with 1 thread");
  says(1, 0, 0, INFINITY, "a single number of threads does not show how much of the work runs in parallel",
       "unknown from a single number of threads");
  test_marks();
  return done_testing();
}
