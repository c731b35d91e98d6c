/* The threads of all ranks of a host, on CPUs that no other rank uses.
 *
 * Ranks with the same affinity mask share its CPUs: the host's first rank places the threads of all, and divides the
 * budget by the ranks if its request gives no number. Another rank may make the same request, also in other words, or
 * none; a different one is refused by name. Ranks that were bound to different masks, as by mpirun, each place their
 * threads in their mask, by their own request. A malformed request is refused on any rank. */
#pragma once

#include "exec/exchange/local_group.h"
#include "platform/placement.h"
#include "platform/threads.h"

/* Opens this rank's threads. A call of all ranks of the host. Without a local group (NULL): hd__threads_open. */
hd_status hd__rank_threads_open(hd_threads **out, hd_ctx *ctx, hd_local_group *local,
                                const hd_placement_request *request);
