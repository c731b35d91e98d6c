/* Reading /proc/stat, /proc/meminfo, hwmon, thermal zones and powercap: see machine_use.h. */
#include "tools/monitor/machine_use.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"

/* ---- Small files ---- */

/* Reads the first line of a system file, "" if there is none; returns whether there is one. */
__attribute__((format(printf, 3, 4))) static bool read_line(char *line, size_t bytes, const char *path, ...) {
  char full[HD_USE_PATH_BYTES];
  va_list args;
  va_start(args, path);
  const int length = vsnprintf(full, sizeof full, path, args);
  va_end(args);
  line[0] = 0;
  const bool got = length < (int)sizeof full && hd__file_text(line, bytes, full) > 0;
  line[strcspn(line, "\n")] = 0;
  return got;
}

/* The number in a file; NAN if there is none. */
static double read_number(const char *folder, const char *file) {
  char line[64], *end;
  if (!read_line(line, sizeof line, "%s/%s", folder, file))
    return NAN;
  const double value = strtod(line, &end);
  return end == line || *end || !isfinite(value) ? NAN : value;
}

static bool is_one_of(const char *name, const char *const *list) {
  for (; *list; list++)
    if (!strncmp(name, *list, strlen(*list)))
      return true;
  return false;
}

/* Calls `take` with each folder in root/path. */
static void each_folder(const char *root, const char *path, void (*take)(void *self, const char *folder), void *self) {
  char full[HD_USE_PATH_BYTES];
  if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full)
    return;
  DIR *folder = opendir(full);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char inner[HD_USE_PATH_BYTES];
    if (entry->d_name[0] != '.' && snprintf(inner, sizeof inner, "%s/%s", full, entry->d_name) < (int)sizeof inner)
      take(self, inner);
  }
  if (folder)
    closedir(folder);
}

/* ---- CPUs, memory ---- */

void hd__use_cpus(hd_cpu_time *time, int count, const char *root) {
  char path[HD_USE_PATH_BYTES], *line = NULL;
  size_t room = 0;
  memset(time, 0, (size_t)count * sizeof *time);
  snprintf(path, sizeof path, "%s/proc/stat", root);
  FILE *file = fopen(path, "re");
  /* cpuN user nice system idle iowait irq softirq steal; guests' time is part of user's */
  while (file && getline(&line, &room, file) > 0) {
    double n[8];
    int cpu;
    if (strncmp(line, "cpu", 3) || sscanf(line, "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &cpu, &n[0], &n[1], &n[2],
                                          &n[3], &n[4], &n[5], &n[6], &n[7]) != 9)
      continue;
    if (cpu < 0 || cpu >= count)
      continue;
    for (int i = 0; i < 8; i++)
      time[cpu].all += n[i];
    time[cpu].busy = time[cpu].all - n[3] - n[4];
  }
  free(line);
  if (file)
    fclose(file);
}

/* Time spent waiting for disks may run backwards, so the result is clamped at both ends. */
double hd__use_between(hd_cpu_time before, hd_cpu_time now) {
  const double all = now.all - before.all, busy = now.busy - before.busy;
  if (!(before.all > 0) || !(all > 0))
    return NAN;
  return fmin(fmax(busy / all, 0), 1);
}

hd_memory_use hd__use_memory(const char *root) {
  static const char *const name[] = {"MemTotal:", "MemAvailable:", "SwapTotal:", "SwapFree:"};
  long long kib[4] = {-1, -1, -1, -1};
  char path[HD_USE_PATH_BYTES], line[256];
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file))
    for (int i = 0; i < 4; i++)
      if (!strncmp(line, name[i], strlen(name[i])) && sscanf(line + strlen(name[i]), "%lld", &kib[i]) != 1)
        kib[i] = -1;
  if (file)
    fclose(file);
  hd_memory_use use = {-1, -1, -1, -1};
  for (int i = 0; i < 4; i++)
    kib[i] = kib[i] > INT64_MAX / 1024 ? -1 : kib[i];
  if (kib[0] > 0)
    use.bytes = kib[0] * 1024;
  if (kib[0] > 0 && kib[1] >= 0 && kib[1] <= kib[0])
    use.used_bytes = (kib[0] - kib[1]) * 1024;
  if (kib[2] >= 0)
    use.swap_bytes = kib[2] * 1024;
  if (kib[2] >= 0 && kib[3] >= 0 && kib[3] <= kib[2])
    use.swap_used_bytes = (kib[2] - kib[3]) * 1024;
  return use;
}

void hd__use_load(double load[3], const char *root) {
  char line[128];
  read_line(line, sizeof line, "%s/proc/loadavg", root);
  if (sscanf(line, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3)
    load[0] = load[1] = load[2] = NAN;
}

/* ---- Temperature ---- */

/* Names of the drivers of processor sensors, and of thermal zones of processors. */
static const char *const processors[] = {"coretemp",    "k10temp",      "zenpower",   "k8temp",
                                         "cpu_thermal", "fam15h_power", "amd_energy", NULL};
static const char *const zones[] = {"x86_pkg_temp", "cpu-thermal", "cpu_thermal", "soc-thermal", "acpitz", NULL};

static void hotter(double *hottest, double millidegrees) {
  const double celsius = millidegrees / 1000;
  if (celsius > 0 && celsius < 150 && !(*hottest >= celsius)) /* other values come from unconnected sensors */
    *hottest = celsius;
}

static bool is_processor(const char *folder) {
  char name[64];
  return read_line(name, sizeof name, "%s/name", folder) && is_one_of(name, processors);
}

static void read_sensor(void *self, const char *folder) {
  char file[32];
  for (int i = 1; i < HD_MOST_METERS && is_processor(folder); i++) {
    snprintf(file, sizeof file, "temp%d_input", i);
    hotter(self, read_number(folder, file));
  }
}

static void read_zone(void *self, const char *folder) {
  char type[64];
  if (read_line(type, sizeof type, "%s/type", folder) && is_one_of(type, zones))
    hotter(self, read_number(folder, "temp"));
}

double hd__use_temperature(const char *root) {
  double hottest = NAN;
  each_folder(root, "/sys/class/hwmon", read_sensor, &hottest);
  if (isnan(hottest))
    each_folder(root, "/sys/class/thermal", read_zone, &hottest);
  return hottest;
}

/* ---- Power ---- */

/* Packages only: their parts, the whole platform, and the second interface to the same counters (intel-rapl-mmio) would
 * count twice. */
static void read_meter(void *self, const char *folder) {
  hd_energy *energy = self;
  char name[64];
  if (strncmp(strrchr(folder, '/'), "/intel-rapl:", 12))
    return;
  const double joule = 1e-6 * read_number(folder, "energy_uj");
  if (energy->meters == HD_MOST_METERS || isnan(joule) || !read_line(name, sizeof name, "%s/name", folder) ||
      strncmp(name, "package-", 8))
    return;
  energy->joule[energy->meters] = joule;
  energy->most[energy->meters++] = 1e-6 * read_number(folder, "max_energy_range_uj");
}

hd_energy hd__use_energy(const char *root) {
  hd_energy energy = {0};
  each_folder(root, "/sys/class/powercap", read_meter, &energy);
  return energy;
}

double hd__use_power_between(const hd_energy *before, const hd_energy *now, double seconds) {
  double joule = 0;
  if (now->meters == 0 || before->meters != now->meters || !(seconds > 0))
    return NAN;
  for (int i = 0; i < now->meters; i++) {
    const double more = now->joule[i] - before->joule[i];
    joule += more < 0 ? more + now->most[i] : more;
  }
  return joule >= 0 ? joule / seconds : NAN;
}

static void read_power(void *self, const char *folder) {
  double *sum = self, watt = NAN;
  static const char *const file[] = {"power1_input", "power1_average"};
  if (!is_processor(folder))
    return;
  for (int i = 0; i < 2 && isnan(watt); i++)
    watt = 1e-6 * read_number(folder, file[i]);
  if (watt >= 0)
    *sum = isnan(*sum) ? watt : *sum + watt;
}

double hd__use_power(const char *root) {
  double sum = NAN;
  each_folder(root, "/sys/class/hwmon", read_power, &sum);
  return sum;
}
