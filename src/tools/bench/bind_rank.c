/* Binding the ranks of a bench to CPUs: see bind_rank.h. */
#include "tools/bench/bind_rank.h"

#include "platform/cpu_set.h"

int hd__bench_bind_rank(int rank, int ranks) {
  hd_cpu_set all, one;
  if (!hd__cpu_set_read(&all))
    return 0;
  const int cpus = hd__cpu_set_count(&all);
  int this_rank = -1;
  for (int cpu = 0, at = 0; cpus >= ranks && cpu < HD_CPU_SET_CPUS; cpu++)
    if (hd__cpu_set_has(&all, cpu) && at++ == rank)
      this_rank = cpu;
  hd__cpu_set_one(&one, this_rank);
  if (this_rank >= 0)
    hd__cpu_set_bind(&one);
  return cpus;
}
