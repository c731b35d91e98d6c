/* Whether the program's OpenMP runtime has bound this thread. With OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY or
 * KMP_AFFINITY set, a runtime binds the first thread of the program, when it is loaded or in its first region; then the
 * thread's mask no longer says which CPUs the process may use. */
#pragma once

#include <stdbool.h>

#include "platform/cpu_set.h"

/* True if a runtime has bound this thread to one of its places; *all: the CPUs of all places. */
bool hd__openmp_has_bound(hd_cpu_set *all);

/* The variable whose list of places excludes CPUs that this process could otherwise use; NULL: there is none. */
const char *hd__openmp_limit(void);

/* The CPUs that the program may use from this thread on: those, else the thread's mask. False, and an empty set, where
 * the system call fails. */
bool hd__openmp_unbound(hd_cpu_set *out);
