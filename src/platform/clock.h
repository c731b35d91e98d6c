/* Time, for reports only: nothing that is computed depends on it. */
#pragma once

#include <stdint.h>

#include "base/tools_api.h"

/* Seconds of a clock that never jumps. */
HD_TOOLS_API double hd__clock_s(void);

/* Seconds that the calling thread has had a CPU. */
HD_TOOLS_API double hd__clock_thread_s(void);

/* hd__clock_s in nanoseconds. */
HD_TOOLS_API int64_t hd__clock_ns(void);

/* The same clock, some milliseconds late, read in a few nanoseconds: for use in every step. */
double hd__clock_coarse_s(void);

/* Seconds since this process was started, by the kernel's clock; 0: unknown. */
double hd__clock_process_s(void);
