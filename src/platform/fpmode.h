/* The floating-point mode that every thread computes in: round to nearest, values that underflow flushed to zero.
 *
 * Libraries and user code may leave another mode behind, so it is set at every entry and put back at the exit. */
#pragma once

#include <stdint.h>

/* Sets heddle's mode, returns the mode before. */
uint64_t hd__fpmode_enter(void);
void hd__fpmode_leave(uint64_t before);
