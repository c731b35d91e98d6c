/* Sets of CPUs by the system's numbers, for any machine: a cpu_set_t ends at CPU 1023, and where the system has more of
 * them it does not even tell such a one. */
#ifndef HD_SYS_CPU_SET_H
#define HD_SYS_CPU_SET_H

#include <stdbool.h>

enum { HD_CPU_SET_CPUS = 8192, HD_CPU_SET_WORDS = HD_CPU_SET_CPUS / (8 * (int)sizeof(unsigned long)) };

/* As the system wants it: bit i of the whole is CPU i. Equal sets have equal bytes. No Linux has more CPUs. */
typedef struct hd_cpu_set {
  unsigned long word[HD_CPU_SET_WORDS];
} hd_cpu_set;

/* What this thread may run on; false, and none, where the system does not say. */
bool hd__cpu_set_read(hd_cpu_set *out);

/* Binds this thread to it. False where it stays as it was. */
bool hd__cpu_set_bind(const hd_cpu_set *set);

/* That CPU alone; none where its number is out of range. */
void hd__cpu_set_one(hd_cpu_set *out, int cpu);

bool hd__cpu_set_has(const hd_cpu_set *set, int cpu);
int hd__cpu_set_count(const hd_cpu_set *set);

#endif
