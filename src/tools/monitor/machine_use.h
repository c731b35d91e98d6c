/* The use of CPUs, memory, temperature and power, from the system's files.
 *
 * Paths begin with `root`, "" for this machine: tests pass recorded trees. Missing or implausible values are NAN or
 * -1. */
#pragma once

#include <stdint.h>

enum { HD_USE_PATH_BYTES = 1024, HD_MOST_METERS = 64 };

/* A CPU's time, in the kernel's ticks. */
typedef struct hd_cpu_time {
  double busy, all; /* all 0: unknown */
} hd_cpu_time;

/* Of CPUs 0 to count - 1, from /proc/stat; CPUs that are offline get zeros. */
void hd__use_cpus(hd_cpu_time *time, int count, const char *root);

/* The share of time that a CPU was busy between two readings; NAN if unknown. */
double hd__use_between(hd_cpu_time before, hd_cpu_time now);

typedef struct hd_memory_use {
  int64_t bytes, used_bytes, swap_bytes, swap_used_bytes;
} hd_memory_use;

hd_memory_use hd__use_memory(const char *root);

void hd__use_load(double load[3], const char *root);

/* Of the hottest processor, in degrees Celsius: from its sensors (hwmon), else from the firmware's thermal zones. */
double hd__use_temperature(const char *root);

/* Counters of energy, which wrap round: one of each package (RAPL). */
typedef struct hd_energy {
  int meters;
  double joule[HD_MOST_METERS], most[HD_MOST_METERS]; /* it wraps at `most` */
} hd_energy;

/* Without meters where there are none or only root may read them. */
hd_energy hd__use_energy(const char *root);

/* The power between two readings, in watts; NAN without meters. */
double hd__use_power_between(const hd_energy *before, const hd_energy *now, double seconds);

/* Power from the sensors of processors (hwmon), in watts: for machines without such counters. */
double hd__use_power(const char *root);
