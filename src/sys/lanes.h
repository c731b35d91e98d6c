/* Lanes: the compute threads of a run, in one OpenMP region at a time.
 *
 * The number of lanes is what a first region delivered, never what was asked for. Lane i is bound to its place while a
 * region runs, and computes in heddle's floating-point mode; both are put back at the end, because the threads belong
 * to the process and not to us. Where the system refuses to bind, lanes run unbound: that costs speed, not results.
 *
 * Lanes on cores of several kinds differ in speed. Someone who can time them tells it here, for all executors; all
 * lanes of a kind count as equally fast. HEDDLE_LANE_SPEEDS says it beforehand. */
#ifndef HD_SYS_LANES_H
#define HD_SYS_LANES_H

#include "base/status.h"
#include "heddle/topology.h"

typedef struct hd_lanes hd_lanes;

/* Asks for a placement's lanes. A refusal of the system is HD_E_SYSTEM. The placement is copied. */
hd_status hd__lanes_create(hd_lanes **out, hd_ctx *ctx, const hd_placement *place);
void hd__lanes_destroy(hd_lanes *lanes);

/* Looks at this machine and places lanes on it; as many as the context says where the request does not. */
hd_status hd__lanes_place(hd_placement **out, hd_ctx *ctx, const hd_placement_request *request);

/* The same, and asks for them; other jobs see which CPUs the lanes are bound to, and keep off. */
hd_status hd__lanes_open(hd_lanes **out, hd_ctx *ctx, const hd_placement_request *request);

/* The same in places that somebody chose already. */
hd_status hd__lanes_open_at(hd_lanes **out, hd_ctx *ctx, const hd_placement *place);

/* Asks for `count` more lanes, in the places of the first of others; nothing of this is claimed. */
hd_status hd__lanes_first(hd_lanes **out, hd_ctx *ctx, const hd_lanes *others, int count);

/* Leaves the lanes wherever the system puts them: for regions so short that binding costs more than it gives. */
void hd__lanes_unbind(hd_lanes *lanes);

int hd__lanes_count(const hd_lanes *lanes);

/* The CPU that a lane is bound to, -1: none. */
int hd__lanes_cpu(const hd_lanes *lanes, int lane);

/* The third-level cache that a bound lane lives under, by the machine's number; -1: unknown. */
int hd__lanes_cache(const hd_lanes *lanes, int lane);

/* Where loader workers were placed beside the lanes, as many as were asked for; NULL: none were. */
const hd_binding *hd__lanes_workers(const hd_lanes *lanes);

/* Another job is bound to one of these CPUs, too. */
int hd__lanes_disputed(const hd_lanes *lanes);

/* CPUs that may be busy at once, and whether there are more lanes than these. */
int hd__lanes_cpus(const hd_lanes *lanes);
int hd__lanes_crowded(const hd_lanes *lanes);

/* Relative speeds, 0 (gets no share of the work) to 1000; NULL: all alike. */
const int32_t *hd__lanes_speeds(const hd_lanes *lanes);

/* Whether the lanes' speeds differ, as far as is known, and nobody has told them yet; and tells them: a rate for each
 * lane, in any unit. */
int hd__lanes_want_rates(const hd_lanes *lanes);
void hd__lanes_take_rates(hd_lanes *lanes, const double *rate);

/* Whether the lanes run on several NUMA nodes. */
int hd__lanes_far_apart(const hd_lanes *lanes);

/* Binds memory that nobody has touched yet to the nodes of the lanes: lane i's is [from[i], from[i + 1]). A refusal
 * costs speed, not results. */
void hd__lanes_bind_memory(hd_lanes *lanes, char *const *from);

/* One line about what the system refused so far, binding lanes or their memory; NULL: nothing. */
const char *hd__lanes_refused(const hd_lanes *lanes);

/* Runs work(arg, lane) on every lane and waits for all. Fails, without running anything, if fewer threads came. */
hd_status hd__lanes_run(hd_lanes *lanes, hd_ctx *ctx, void (*work)(void *arg, int lane), void *arg);

#endif
