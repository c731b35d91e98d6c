/* Use of CPU, memory and power, from the files of recorded and synthetic machines. */
#include "scratch.h"

#include "made_up_files.h"
#include "tools/monitor/machine_use.h"

static void test_cpus(void) {
  const char *root = begin();
  hd_cpu_time before[4], now[4];
  put("proc", "stat",
      "cpu  4000 0 400 5000 100 0 0 0 300 0\ncpu0 1000 10 100 2000 50 1 2 3 300 0\ncpu1 1 2 3 4 5 6 7 8 9 10\n"
      "cpu3 100 0 0 100 0 0 0 0 0 0\ncpu9 1 1 1 1 1 1 1 1 1 1\nintr 1 2 3\nctxt 5\n");
  hd__use_cpus(before, 4, root);
  near(before[0].all, 3166, 0, "all time of CPU 0: guests' is not counted twice");
  near(before[0].busy, 1116, 0, "idle and waiting for disks are not busy");
  near(before[1].all, 36, 0, "CPU 1");
  near(before[2].all, 0, 0, "CPU 2 is offline");
  near(before[3].busy, 100, 0, "CPU 3; CPU 9 has no place");
  put("proc", "stat",
      "cpu0 1050 10 100 2050 50 1 2 3 300 0\ncpu1 1 2 3 4 5 6 7 8 9 10\ncpu2 9 9 9 9 9 9 9 9\ncpu3 140 0 0 150 0 0 0 "
      "0\n");
  hd__use_cpus(now, 4, root);
  near(hd__use_between(before[0], now[0]), 0.5, 1e-12, "50 of 100 ticks");
  ok(isnan(hd__use_between(before[1], now[1])), "no tick has passed: unknown");
  ok(isnan(hd__use_between(before[2], now[2])), "it has just come: unknown");
  near(hd__use_between(before[3], now[3]), 40.0 / 90, 1e-12, "40 of 90");
  near(hd__use_between((hd_cpu_time){50, 100}, (hd_cpu_time){40, 110}), 0, 0, "time that runs backwards is none");
  near(hd__use_between((hd_cpu_time){50, 100}, (hd_cpu_time){70, 110}), 1, 0, "nor more than all");
  put("proc", "stat", "cpu0 1 2 3\ncpux 1 2 3 4 5 6 7 8\ncpu-1 1 1 1 1 1 1 1 1\ncpu1 a b c\n\n\xff\xff");
  hd__use_cpus(now, 4, root);
  ok(now[0].all == 0 && now[1].all == 0, "malformed lines are ignored");
  hd__use_cpus(now, 4, in_scratch("missing"));
  ok(now[0].all == 0, "no file, no time");
}

static void test_memory(void) {
  const char *root = begin();
  put("proc", "meminfo",
      "MemTotal:       24683668 kB\nMemFree:          417356 kB\nMemAvailable:   20937632 kB\nSwapCached: 0 kB\n"
      "SwapTotal:       8388604 kB\nSwapFree:        8388092 kB\n");
  hd_memory_use use = hd__use_memory(root);
  is_int(use.bytes, 24683668LL * 1024, "memory");
  is_int(use.used_bytes, (24683668LL - 20937632) * 1024, "used is what is not available");
  is_int(use.swap_bytes, 8388604LL * 1024, "swap");
  is_int(use.swap_used_bytes, 512LL * 1024, "used swap");
  put("proc", "meminfo", "MemTotal: 1000 kB\nMemAvailable: 2000 kB\nSwapTotal: x\n");
  use = hd__use_memory(root);
  is_int(use.used_bytes, -1, "more available than there is: unknown");
  is_int(use.swap_bytes, -1, "no number: unknown");
  put("proc", "meminfo", "MemTotal: 9223372036854775807 kB\n");
  is_int(hd__use_memory(root).bytes, -1, "a number of kibibytes that is none of bytes");
  is_int(hd__use_memory(in_scratch("missing")).bytes, -1, "no file: unknown");
  double load[3];
  put("proc", "loadavg", "1.25 0.80 0.50 3/456 7890\n");
  hd__use_load(load, root);
  ok(load[0] == 1.25 && load[1] == 0.8 && load[2] == 0.5, "load");
  hd__use_load(load, in_scratch("missing"));
  ok(isnan(load[0]), "no file: unknown");
}

static void test_temperature(void) {
  const char *root = begin();
  ok(isnan(hd__use_temperature(root)), "no sensor: unknown");
  put("sys/class/thermal/thermal_zone0", "type", "acpitz\n");
  put("sys/class/thermal/thermal_zone0", "temp", "41000\n");
  put("sys/class/thermal/thermal_zone1", "type", "iwlwifi_1\n");
  put("sys/class/thermal/thermal_zone1", "temp", "80000\n");
  put("sys/class/thermal/cooling_device0", "type", "Processor\n");
  near(hd__use_temperature(root), 41, 1e-9, "a zone of the firmware, where there is nothing better; not the radio's");
  put("sys/class/hwmon/hwmon0", "name", "nvme\n");
  put("sys/class/hwmon/hwmon0", "temp1_input", "71850\n");
  near(hd__use_temperature(root), 41, 1e-9, "a disk is no processor");
  put("sys/class/hwmon/hwmon3", "name", "coretemp\n");
  put("sys/class/hwmon/hwmon3", "temp1_input", "52000\n");
  put("sys/class/hwmon/hwmon3", "temp2_input", "49000\n");
  put("sys/class/hwmon/hwmon3", "temp14_input", "56000\n");
  near(hd__use_temperature(root), 56, 1e-9, "Intel: the hottest of package and cores");
  put("sys/class/hwmon/hwmon4", "name", "k10temp\n");
  put("sys/class/hwmon/hwmon4", "temp1_input", "63125\n");
  near(hd__use_temperature(root), 63.125, 1e-9, "AMD");
  put("sys/class/hwmon/hwmon4", "temp1_input", "-273000\n");
  put("sys/class/hwmon/hwmon4", "temp3_input", "255000\n");
  near(hd__use_temperature(root), 56, 1e-9, "sensors that are not connected are passed over");
  put("sys/class/hwmon/hwmon4", "temp1_input", "hot\n");
  put("sys/class/hwmon/hwmon4", "temp2_input", "");
  near(hd__use_temperature(root), 56, 1e-9, "as is nonsense");
}

static void put_meter(const char *zone, const char *name, const char *joule) {
  char folder[128];
  snprintf(folder, sizeof folder, "sys/class/powercap/%s", zone);
  put(folder, "name", name);
  put(folder, "energy_uj", joule);
  put(folder, "max_energy_range_uj", "262143328850\n");
}

static void test_power(void) {
  const char *root = begin();
  hd_energy before = hd__use_energy(root);
  is_int(before.meters, 0, "no meter");
  ok(isnan(hd__use_power_between(&before, &before, 1)), "no power");
  put("sys/class/powercap/intel-rapl", "enabled", "1\n");
  put_meter("intel-rapl:0", "package-0\n", "100000000\n");
  put_meter("intel-rapl:0:0", "core\n", "50000000\n");
  put_meter("intel-rapl:1", "package-1\n", "262143000000\n");
  put_meter("intel-rapl:2", "psys\n", "1\n");
  put_meter("intel-rapl-mmio:0", "package-0\n", "7\n");
  before = hd__use_energy(root);
  is_int(before.meters, 2, "two packages: parts, the platform and the second way to a meter do not count");
  put_meter("intel-rapl:0", "package-0\n", "130000000\n");
  put_meter("intel-rapl:1", "package-1\n", "19671150\n");
  hd_energy now = hd__use_energy(root);
  near(hd__use_power_between(&before, &now, 2), (30 + 20) / 2.0, 1e-6, "30 J and, over the wrap, 20 J in 2 s");
  ok(isnan(hd__use_power_between(&before, &now, 0)), "in no time no power");
  scratch_remove(in_scratch("root/sys/class/powercap/intel-rapl:1"));
  now = hd__use_energy(root);
  ok(isnan(hd__use_power_between(&before, &now, 2)), "a package that went offline");
  chmod(in_scratch("root/sys/class/powercap/intel-rapl:0/energy_uj"), 0);
  if (lose_rights()) {
    is_int(hd__use_energy(root).meters, 0, "meters that only root may read are none");
    regain_rights();
  } else {
    skip(1, "cannot become another user");
  }
  ok(isnan(hd__use_power(root)), "no sensor of power");
  put("sys/class/hwmon/hwmon1", "name", "zenpower\n");
  put("sys/class/hwmon/hwmon1", "power1_input", "35500000\n");
  put("sys/class/hwmon/hwmon2", "name", "fam15h_power\n");
  put("sys/class/hwmon/hwmon2", "power1_average", "4500000\n");
  put("sys/class/hwmon/hwmon5", "name", "amdgpu\n");
  put("sys/class/hwmon/hwmon5", "power1_average", "99000000\n");
  near(hd__use_power(root), 40, 1e-9, "sensors of power of processors alone");
}

int main(void) {
  test_cpus();
  test_memory();
  test_temperature();
  test_power();
  const char *root = in_scratch("root");
  held before = held_now();
  hd_cpu_time time[4];
  hd__use_cpus(time, 4, root);
  hd__use_temperature(root);
  hd__use_power(root);
  hd__use_energy(root);
  hd__use_memory(root);
  holds_same(before, "nothing stays open");
  return done_testing();
}
