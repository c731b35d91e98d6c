/* Where the lanes of all ranks of a host go: beside each other, never on top of each other. */
#ifndef HD_TRAIN_RANK_LANES_H
#define HD_TRAIN_RANK_LANES_H

#include "comm/world.h"
#include "sys/lanes.h"

/* Opens this rank's lanes. Ranks with the same affinity mask share what there is: rank 0 places the lanes of all, the
 * budget divided by the ranks where the request says no number. Ranks that were bound to masks of their own, as mpirun
 * does it, place theirs there. A world of NULL: hd__lanes_open. */
hd_status hd__rank_lanes_open(hd_lanes **out, hd_ctx *ctx, hd_world *world, const hd_placement_request *request);

#endif
