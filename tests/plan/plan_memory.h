/* Whether a plan's memory holds what its calls expect: found by running the calls over owners instead of numbers. */
#ifndef HD_TEST_PLAN_MEMORY_H
#define HD_TEST_PLAN_MEMORY_H

#include <stddef.h>

#include "plan/plan.h"

/* Walks the plan's calls in order. Every byte of the arena and of the batch memory remembers which value was written
 * there last; a call that reads a value finds all its bytes still owned by it, and what is read after the last call (a
 * deferred gradient's inputs, an evaluation's logits) does too. An output lies over an input only where its operation
 * may work in place. Returns NULL, or text filled with the first thing that is wrong. */
const char *plan_memory_fault(char *text, size_t bytes, const hd_plan *plan);

/* The same for what lies side by side for good: parameters, shard sums, packed copies and chunks are disjoint and
 * complete. */
const char *plan_parts_fault(char *text, size_t bytes, const hd_plan *plan);

#endif
