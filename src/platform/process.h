/* Other processes: identifying them, and sending signals that never reach the wrong process.
 *
 * The system reuses the number of a process that ended. A number together with the start time identifies one
 * process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/tools_api.h"

/* When a process was started, in ticks since boot (sysconf(_SC_CLK_TCK) a second); pid 0: this one. 0 if there is no
 * such process. */
HD_TOOLS_API uint64_t hd__process_start(int pid);

/* The largest amount of memory that this program has had, in bytes. The system's other figure, ru_maxrss, is kept
 * across exec: it may be that of the program that started this one. */
int64_t hd__process_peak_bytes(void);

/* The name of a process's program, as ps shows it; "" if there is no such process. */
void hd__process_name(char *out, size_t bytes, int pid);

/* The state of a process. */
typedef struct hd_process_state {
  char state;        /* as ps shows it: R, S, D, T (stopped), Z (ended, not yet waited for), ...; 0: there is none */
  bool has_ended;    /* Z, or none */
  bool lingers;      /* ended, except threads that may still write and hold files: they wait for the disk */
  bool end_is_known; /* `end` is valid */
  int end;           /* the status as of waitpid */
} hd_process_state;

/* The state of the process with this number and start. Its end status is known while its parent has not waited for
 * it, and to processes of the same user. */
hd_process_state hd__process_read(int pid, uint64_t start);

/* Sends a signal to the process with this number and start; 0, or an errno: ESRCH if it has ended. */
HD_TOOLS_API int hd__process_signal(int pid, uint64_t start, int number);

/* A descriptor of the process with this number and start, which becomes readable at its end; -1 if the process has
 * ended, or the system gives none (kernels before 5.3, some containers). */
int hd__process_open(int pid, uint64_t start);

/* The same for a child that was not waited for: its number is not reused until then, unless the program ignores
 * SIGCHLD. */
int hd__child_open(int pid);

/* Sends a signal to a child that was not waited for, by its descriptor or, with -1, by its number; never to a
 * process that is no child. */
void hd__child_signal(int fd, int pid, int number);
