/* Sets of CPUs by the system's numbers, for any machine: a cpu_set_t ends at CPU 1023, and a system with more CPUs
 * fails to fill one. */
#pragma once

#include <stdbool.h>

#include "base/tools_api.h"

enum { HD_CPU_SET_CPUS = 8192, HD_CPU_SET_WORDS = HD_CPU_SET_CPUS / (8 * (int)sizeof(unsigned long)) };

/* In the system's format: bit i of the array is CPU i. Equal sets have equal bytes. No Linux has more CPUs. */
typedef struct hd_cpu_set {
  unsigned long word[HD_CPU_SET_WORDS];
} hd_cpu_set;

/* The CPUs that this thread may run on; false, and an empty set, where the system call fails. */
HD_TOOLS_API bool hd__cpu_set_read(hd_cpu_set *out);

/* Binds this thread to the set. False: the binding is unchanged. */
HD_TOOLS_API bool hd__cpu_set_bind(const hd_cpu_set *set);

/* The set of one CPU; empty if its number is out of range. */
HD_TOOLS_API void hd__cpu_set_one(hd_cpu_set *out, int cpu);

/* Adds a CPU, unless its number is out of range; adds the CPUs of another set. */
void hd__cpu_set_add(hd_cpu_set *set, int cpu);
void hd__cpu_set_join(hd_cpu_set *set, const hd_cpu_set *other);

HD_TOOLS_API bool hd__cpu_set_has(const hd_cpu_set *set, int cpu);
HD_TOOLS_API int hd__cpu_set_count(const hd_cpu_set *set);
