/* What HEDDLE_PLAN leaves out of a plan, for comparison: every choice that plans and kernels make for speed alone.
 * None of them changes a bit; what defines numbers stays (docs/determinism.md, "The plain plan").
 *
 *     plain          all of them: every value has memory of its own and a page without access behind it, and the
 *                    reference kernels compute it
 *     -NAME,...      some: passes and fusions by name, an operation's kernels by the operation's
 *     check,...      the plan is checked after each pass (plan/check.h), as it is in builds with sanitizers */
#pragma once

#include "kernel/kernel.h"
#include "plan/plan.h"

typedef struct hd_omissions {
  bool plain, check;
  uint32_t passes; /* hd_omission bits */
  bool form;       /* gradients are not formed inside the reduction */
  bool outputs;    /* threads never divide a layer by its outputs */
  bool op[HD_OP_COUNT];
} hd_omissions;

/* Those of HEDDLE_PLAN; none, if it is unset. HD_E_USAGE names what is unknown, and what is known. */
hd_status hd__omissions_read(hd_omissions *out, hd_ctx *ctx);

/* The table without what is left out, for which `reference` (of floats or of bfloat16) stands in; equal tables for
 * equal omissions, kept until the program ends. */
hd_status hd__omissions_kernels(const hd_kernels **table, hd_ctx *ctx, const hd_kernels *reference,
                                const hd_omissions *omissions);
