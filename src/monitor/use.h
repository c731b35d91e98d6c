/* What the system's files say of use: CPUs, memory, temperature, power.
 *
 * Paths begin with `root`, "" for this machine: tests hand over recorded trees. What is not there, or makes no sense,
 * is NAN or -1. */
#ifndef HD_MONITOR_USE_H
#define HD_MONITOR_USE_H

#include <stdint.h>

enum { HD_USE_PATH_BYTES = 1024, HD_MOST_METERS = 64 };

/* A CPU's time, in the kernel's ticks. */
typedef struct hd_cpu_time {
  double busy, all; /* all 0: nothing is known */
} hd_cpu_time;

/* Of CPUs 0 to count - 1, from /proc/stat; those that are offline have none. */
void hd__use_cpus(hd_cpu_time *time, int count, const char *root);

/* The share of time that a CPU was busy between two readings; NAN if it cannot be told. */
double hd__use_between(hd_cpu_time before, hd_cpu_time now);

typedef struct hd_memory_use {
  int64_t bytes, used_bytes, swap_bytes, swap_used_bytes;
} hd_memory_use;

hd_memory_use hd__use_memory(const char *root);

void hd__use_load(double load[3], const char *root);

/* Of the hottest processor, in degrees Celsius: its own sensors (hwmon), else the zones that the firmware knows. */
double hd__use_temperature(const char *root);

/* Counters of energy, which wrap round: one of each package (RAPL). */
typedef struct hd_energy {
  int meters;
  double joule[HD_MOST_METERS], most[HD_MOST_METERS]; /* it wraps at `most` */
} hd_energy;

/* No meters where there are none or only root may read them. */
hd_energy hd__use_energy(const char *root);

/* The power between two readings, in watts; NAN without meters. */
double hd__use_power_between(const hd_energy *before, const hd_energy *now, double seconds);

/* What sensors of processors (hwmon) say of their power, in watts: for machines without such counters. */
double hd__use_power(const char *root);

#endif
