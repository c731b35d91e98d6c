/* Lanes: the compute threads of a run, in one OpenMP region at a time.
 *
 * The number of lanes is what a first region delivered, never what was asked for. Lane i is pinned to the i-th CPU of
 * the placement while a region runs, and computes in heddle's floating-point mode; both are put back at the end,
 * because the threads belong to the process and not to us. */
#ifndef HD_SYS_LANES_H
#define HD_SYS_LANES_H

#include "base/status.h"

typedef struct hd_lanes hd_lanes;

/* Asks for `wanted` lanes (>= 1). A refusal of the system is HD_E_SYSTEM. */
hd_status hd__lanes_create(hd_lanes **out, hd_ctx *ctx, int wanted);
void hd__lanes_destroy(hd_lanes *lanes);

int hd__lanes_count(const hd_lanes *lanes);

/* More lanes than the CPUs that this process may use. */
int hd__lanes_crowded(const hd_lanes *lanes);

/* Runs work(arg, lane) on every lane and waits for all. Fails, without running anything, if fewer threads came. */
hd_status hd__lanes_run(hd_lanes *lanes, hd_ctx *ctx, void (*work)(void *arg, int lane), void *arg);

#endif
