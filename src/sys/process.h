/* Other processes: which one a number means, and signals that never reach the wrong one.
 *
 * The system gives the number of a process that ended to a new one. Only together with the time of its start does a
 * number mean one process for ever. */
#ifndef HD_SYS_PROCESS_H
#define HD_SYS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* When a process was started, in ticks since boot (sysconf(_SC_CLK_TCK) a second); pid 0: this one. 0 if there is no
 * such process. */
uint64_t hd__process_start(int pid);

/* Sends a signal to the process that has this number and this start; 0, or an errno: ESRCH if it has ended. */
int hd__process_signal(int pid, uint64_t start, int number);

#endif
