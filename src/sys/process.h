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

/* What a process does. */
typedef struct hd_process_look {
  char state;     /* as ps shows it: R, S, D, T (stopped), Z (ended, not yet waited for), ...; 0: there is none */
  bool has_ended; /* Z, or none */
  bool lingers;   /* ended, but for threads that may still write and hold files: they are at the disk */
  bool knows_end; /* and `end` is how, as waitpid says it */
  int end;
} hd_process_look;

/* Looks at the process that has this number and this start. How one ended is known while its parent has not waited for
 * it, and to processes of the same user. */
hd_process_look hd__process_look(int pid, uint64_t start);

/* Sends a signal to the process that has this number and this start; 0, or an errno: ESRCH if it has ended. */
int hd__process_signal(int pid, uint64_t start, int number);

#endif
