/* Checks of a plan while it is made: they find faults of the passes, so that a faulty plan is refused instead of
 * training wrong numbers. They run after every pass if hd_plan_settings.check is set: in builds with sanitizers, and
 * with HEDDLE_PLAN=check, as in the tests. No check relies on what a pass meant to do. */
#pragma once

#include "plan/plan.h"

/* The first fault found. */
typedef struct hd_finding {
  bool found, no_memory;
  char text[256];
} hd_finding;

/* Records a fault, unless one was recorded before. */
__attribute__((format(printf, 2, 3))) void hd__plan_fault(hd_finding *finding, const char *fmt, ...);

/* The graph after any pass, and what the passes so far have found of its nodes: every index is in bounds, every value's
 * producer writes it, every input is made before its reader, and a sum over shards in an earlier segment. */
void hd__check_graph(hd_finding *finding, const hd_plan *plan);

/* The memory of a complete plan, by walking its calls in order: every byte of the arenas and of batch memory
 * remembers which value was written there last. A call that reads a value finds all its bytes still owned by it, and
 * what is read after the last call (a deferred gradient's inputs, an evaluation's logits) does too. An output lies
 * over an input only where its operation may work in place. */
void hd__check_memory(hd_finding *finding, const hd_plan *plan);

/* The parts of a complete plan that never share memory: parameters, sums of shards, packed copies, chunks and phases
 * are disjoint and complete. */
void hd__check_parts(hd_finding *finding, const hd_plan *plan);

/* All checks that can be made after the pass; HD_E_SYSTEM names it and the first fault. */
hd_status hd__check_pass(const hd_plan *plan, hd_ctx *ctx, const char *pass);
