/* The load of CPUs by others, from the text of /proc/stat. */
#include "tap.h"

#include <math.h>

#include "platform/cpu_load.h"

static bool first_two(const void *of, int cpu) { return cpu < 2; }
static bool none(const void *of, int cpu) { return false; }

int main(void) {
  static const char STAT[] = "cpu  999 999 999 999 999 999 999 999 0 0\n"
                             "cpu0 100 20 30 4000 500 6 7 8 90 90\n"
                             "cpu1 1 0 0 7000 0 0 0 0 0 0\n"
                             "cpu12 5000 0 0 0 0 0 0 0 0 0\n"
                             "intr 1 2 3\n";
  int cpus;
  const double busy = hd__cpu_load_read(&cpus, STAT, first_two, NULL, 100);
  ok(fabs(busy - 1.72) < 1e-9, "all but idle and iowait of the CPUs that count (%g s)", busy);
  is_int(cpus, 2, "of two CPUs");
  ok(isnan(hd__cpu_load_read(&cpus, STAT, none, NULL, 100)), "unknown where no CPU counts");
  ok(isnan(hd__cpu_load_read(&cpus, "", first_two, NULL, 100)), "or nothing can be read");
  ok(fabs(hd__cpu_load_read(&cpus, "cpu0 3 4", first_two, NULL, 1) - 7) < 1e-9, "a line of an old kernel is shorter");
  return done_testing();
}
