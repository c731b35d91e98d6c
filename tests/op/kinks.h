/* How far a call's inputs lie from a kink: where a ReLU bends, or where a window's maximum moves to another element.
 *
 * Finite differences mean something only away from kinks. The distance is the smallest change of any pre-activation
 * (what a ReLU or a maximum looks at) that could change which way an element goes; HUGE_VAL where nothing bends. Works
 * on calls of the double reference table alone: every float of the call is a double. */
#ifndef HD_TEST_KINKS_H
#define HD_TEST_KINKS_H

#include "kernel/kernel.h"

double kink_distance(hd_op op, const hd_call *call);

#endif
