/* Time, for reports only: nothing that is computed depends on it. */
#ifndef HD_SYS_CLOCK_H
#define HD_SYS_CLOCK_H

#include <stdint.h>

/* Seconds of a clock that never jumps. */
double hd__clock_s(void);

/* The same clock in nanoseconds. */
int64_t hd__clock_ns(void);

/* The same clock, some milliseconds behind, in a few nanoseconds: for what every step asks. */
double hd__clock_coarse_s(void);

/* Seconds since this process was started, as the kernel counts; 0 where that is not known. */
double hd__clock_process_s(void);

#endif
