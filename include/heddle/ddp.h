/* A session whose steps several processes share, as PyTorch's DistributedDataParallel with its DistributedSampler.
 *
 *     hd_group *group;
 *     hd_session *session;
 *     hd_group_init(&group, ctx, NULL);
 *     hd_ddp(&session, ctx, config, group);
 *     hd_session_train(session, ctx, on_event, NULL);
 *     hd_session_destroy(session);
 *     hd_group_destroy(group);
 *
 * The batch of the configuration is that of a step, over all ranks; each rank reads only the samples of its threads.
 * Gradients are summed once a step, for any number of micro-batches of --accumulate: each thread sums its shards,
 * and the partial sums are added in one fixed order. So the weights are, bit for bit, those of one process. Weights,
 * gradients and optimizer states are stored once, in memory that the ranks share.
 *
 * Every rank makes the same calls for its session, including hd_session_evaluate and hd_session_save, and gets the
 * same losses and report, except for values per rank: threads, workers, times. Rank 0 writes the run's folder. The
 * callback of every rank gets all events. hd_session_stop in one rank stops all after the same step. */
#ifndef HEDDLE_DDP_H
#define HEDDLE_DDP_H

#include "heddle/group.h"
#include "heddle/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The group is one that hd_group_init made, of all ranks, and is destroyed after the session; NULL: this process
 * alone, as for hd_session_create. Errors beside those of hd_session_create: HD_E_USAGE names a setting that differs
 * between ranks, HD_E_PEER the lost rank. A failure in hd_ddp or in training ends the sessions of the other ranks,
 * too. */
HD_API hd_status hd_ddp(hd_session **out, hd_ctx *ctx, const hd_config *config, const hd_group *group);

#ifdef __cplusplus
}
#endif
#endif
