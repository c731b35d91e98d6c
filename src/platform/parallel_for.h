/* Loops whose items are independent, outside of training: used by data sets while they are opened. */
#pragma once

#include <stdint.h>

/* Calls work(arg, first, end) for ranges of at most `grain` items that together are [0, count), on as many threads as
 * OMP_NUM_THREADS says, else as there are CPUs that the process may use. This call starts and ends the threads;
 * where the system starts none, the calling thread does all. */
void hd__parallel_for(int64_t count, int64_t grain, void (*work)(void *arg, int64_t first, int64_t end), void *arg);
