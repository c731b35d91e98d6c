/* The use of this process's CPUs by other processes while it works: from /proc/stat, below $HEDDLE_SYSROOT. */
#pragma once

#include <stdbool.h>

#include "base/tools_api.h"

/* A moment: the time that the CPUs of this process have been busy since the system started, and that this process
 * used. */
typedef struct hd_cpu_load {
  double busy_s, own_s, at_s; /* busy_s: NAN if unknown */
  int cpus;
} hd_cpu_load;

/* Reads the CPUs that this thread may run on. */
HD_TOOLS_API void hd__cpu_load_now(hd_cpu_load *out);

/* The number of CPUs that other processes kept busy since then, on average; NAN: unknown. */
HD_TOOLS_API double hd__cpu_load_others(const hd_cpu_load *since);

/* The seconds that the CPUs of /proc/stat for which `counts` is true were busy; `ticks` are those of a second. NAN: the
 * text has none of them. */
double hd__cpu_load_read(int *cpus, const char *stat, bool (*counts)(const void *of, int cpu), const void *of,
                         double ticks);
