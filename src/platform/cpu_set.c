/* Sets of CPUs; see cpu_set.h. */
#include "platform/cpu_set.h"

#include <sched.h>

enum { WORD_BITS = 8 * (int)sizeof(unsigned long) };

bool hd__cpu_set_read(hd_cpu_set *out) {
  *out = (hd_cpu_set){0};
  return sched_getaffinity(0, sizeof *out, (cpu_set_t *)out) == 0;
}

bool hd__cpu_set_bind(const hd_cpu_set *set) { return sched_setaffinity(0, sizeof *set, (const cpu_set_t *)set) == 0; }

static bool in_range(int cpu) { return cpu >= 0 && cpu < HD_CPU_SET_CPUS; }

void hd__cpu_set_add(hd_cpu_set *set, int cpu) {
  if (in_range(cpu))
    set->word[cpu / WORD_BITS] |= 1UL << cpu % WORD_BITS;
}

void hd__cpu_set_one(hd_cpu_set *out, int cpu) {
  *out = (hd_cpu_set){0};
  hd__cpu_set_add(out, cpu);
}

void hd__cpu_set_join(hd_cpu_set *set, const hd_cpu_set *other) {
  for (int i = 0; i < HD_CPU_SET_WORDS; i++)
    set->word[i] |= other->word[i];
}

bool hd__cpu_set_has(const hd_cpu_set *set, int cpu) {
  return in_range(cpu) && (set->word[cpu / WORD_BITS] >> cpu % WORD_BITS & 1);
}

int hd__cpu_set_count(const hd_cpu_set *set) {
  int count = 0;
  for (int i = 0; i < HD_CPU_SET_WORDS; i++)
    count += __builtin_popcountl(set->word[i]);
  return count;
}
