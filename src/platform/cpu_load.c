/* The load of this process's CPUs by others: see cpu_load.h. */
#include "platform/cpu_load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/cpu_set.h"
#include "platform/file.h"

enum { STAT_BYTES = 1 << 20 };

/* Ticks of user, nice, system, idle, iowait, irq, softirq and steal: all but idle and iowait. */
static double busy_ticks(const char *at) {
  enum { TIMES = 8, IDLE = 3, IOWAIT = 4 };
  double busy = 0;
  char *end;
  for (int i = 0; i < TIMES && *at != '\n'; i++, at = end) {
    const unsigned long long ticks = strtoull(at, &end, 10);
    if (end == at)
      break;
    busy += i == IDLE || i == IOWAIT ? 0 : (double)ticks;
  }
  return busy;
}

double hd__cpu_load_read(int *cpus, const char *stat, bool (*counts)(const void *of, int cpu), const void *of,
                         double ticks) {
  double busy = 0;
  *cpus = 0;
  for (const char *line = stat; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    char *end;
    if (strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9' || !counts(of, (int)strtol(line + 3, &end, 10)))
      continue;
    busy += busy_ticks(end);
    ++*cpus;
  }
  return *cpus > 0 && ticks > 0 ? busy / ticks : NAN;
}

static bool is_ours(const void *of, int cpu) { return hd__cpu_set_has(of, cpu); }

static double own_s(void) {
  struct rusage use;
  if (getrusage(RUSAGE_SELF, &use) != 0)
    return NAN;
  return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

void hd__cpu_load_now(hd_cpu_load *out) {
  const char *root = getenv("HEDDLE_SYSROOT");
  char path[4096];
  hd_cpu_set ours;
  snprintf(path, sizeof path, "%s/proc/stat", root ? root : "");
  char *text = malloc(STAT_BYTES);
  *out = (hd_cpu_load){.busy_s = NAN, .own_s = own_s(), .at_s = hd__clock_s()};
  if (text && hd__file_text(text, STAT_BYTES, path) > 0 && hd__cpu_set_read(&ours))
    out->busy_s = hd__cpu_load_read(&out->cpus, text, is_ours, &ours, (double)sysconf(_SC_CLK_TCK));
  free(text);
}

double hd__cpu_load_others(const hd_cpu_load *since) {
  hd_cpu_load now;
  hd__cpu_load_now(&now);
  const double seconds = now.at_s - since->at_s;
  if (!(seconds > 0) || now.cpus != since->cpus || isnan(now.busy_s) || now.busy_s < since->busy_s)
    return NAN;
  return fmax(0, (now.busy_s - since->busy_s - (now.own_s - since->own_s)) / seconds);
}
