/* Placement of the threads of all ranks of a host on CPUs that no other rank uses. */
#ifndef HD_TRAIN_SESSION_RANK_THREADS_H
#define HD_TRAIN_SESSION_RANK_THREADS_H

#include "exec/exchange/local_group.h"
#include "platform/threads.h"

/* Opens this rank's threads. Ranks with the same affinity mask share its CPUs: rank 0 places the threads of all, the
 * budget divided by the ranks where the request gives no number. Ranks that were bound to different masks, as by
 * mpirun, each place their threads in their mask. Without a local group (NULL): hd__threads_open. */
hd_status hd__rank_threads_open(hd_threads **out, hd_ctx *ctx, hd_local_group *local,
                                const hd_placement_request *request);

#endif
