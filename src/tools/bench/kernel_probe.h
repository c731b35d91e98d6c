/* A probe: a table of kernels that forwards every call to another table and measures it.
 *
 * A plan calls all kernels through its table, so a plan with a probe's table runs unchanged and is measured from the
 * inside: real data, caches as a step leaves them, gradients as sparse as they are. The node of a call follows from the
 * address of its geometry, which lies in the node.
 *
 * The table's functions find their probe in a thread-local variable. So a probe measures only the thread that entered
 * it; hd__probe_enter and _leave are called in pairs around a run. */
#pragma once

#include <stdbool.h>

#include "plan/plan.h"

/* Sums over all calls so far. */
typedef struct hd_probe_sum {
  double s;
  int64_t calls;
  double bytes;     /* read and written once in each call; 0 for nodes */
  double live_rows; /* counting: rows times the share of their gradient that is not zero */
  double rows;
} hd_probe_sum;

typedef struct hd_probe {
  const hd_plan *plan;
  const hd_kernels *inner;
  bool counting;      /* count zeros in gradients instead of taking times */
  double tick_s;      /* the time of reading the clock */
  hd_probe_sum *node; /* per node of the plan's graph */
  hd_probe_sum updates, reductions, gathers, packs;
  hd_kernels table;
} hd_probe;

/* The plan may already run through the probe's table; it must be set back to `inner` before the probe is destroyed. */
hd_status hd__probe_init(hd_probe *probe, hd_ctx *ctx, const hd_plan *plan);
void hd__probe_fini(hd_probe *probe);

void hd__probe_enter(hd_probe *probe);
void hd__probe_leave(void);

/* Clears times and calls, and keeps the counts. */
void hd__probe_restart(hd_probe *probe);
