/* A probe: a table of kernels that passes every call on to another one and notes what it took.
 *
 * A plan calls everything through its table, so a plan that is given a probe's table runs as it always does and is
 * measured from the inside: real data, caches as a step leaves them, gradients as sparse as they are. Which node a call
 * belongs to is read from its geometry, which lies in the node.
 *
 * The table's functions find their probe in a variable of their thread. So a probe measures one lane alone, the thread
 * that entered it; hd__probe_enter and _leave come in pairs around a run. */
#ifndef HD_BENCH_PROBE_H
#define HD_BENCH_PROBE_H

#include <stdbool.h>

#include "plan/plan.h"

/* What was done so far. */
typedef struct hd_probe_sum {
  double s;
  int64_t calls;
  double bytes;     /* read and written once in each call; of nodes hd__probe_bytes tells it */
  double live_rows; /* counting: rows times the share of their gradient that is not zero */
  double rows;
} hd_probe_sum;

typedef struct hd_probe {
  const hd_plan *plan;
  const hd_kernels *inner;
  hd_op update;
  bool counting;      /* count zeros in gradients instead of taking times */
  double tick_s;      /* what reading the clock takes */
  hd_probe_sum *node; /* per node of the plan's graph */
  hd_probe_sum updates, folds, gathers, packs;
  hd_kernels table;
} hd_probe;

/* The plan may already run through the probe's table, and must go back to `inner` before the probe ends. */
hd_status hd__probe_init(hd_probe *probe, hd_ctx *ctx, const hd_plan *plan, hd_op update);
void hd__probe_fini(hd_probe *probe);

void hd__probe_enter(hd_probe *probe);
void hd__probe_leave(void);

/* Forgets times and calls, not what was counted. */
void hd__probe_restart(hd_probe *probe);

#endif
