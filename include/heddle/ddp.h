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
 * The batch of the configuration is that of a step, over all ranks; each rank reads the samples that its threads take,
 * and none is seen twice. Gradients are summed once a step, however many parts --accumulate makes of it: each thread
 * sums the shards that it owns, and what it adds goes into the others' sums in one fixed order. So the weights are, bit
 * for bit, those of one process. Weights, gradients and optimizer states lie once in memory that the ranks share.
 *
 * Every rank makes the same calls for its session, hd_session_evaluate and hd_session_save too, and gets the same
 * losses and report, but for what is its own: threads, workers, times. Rank 0 keeps the run's folder. Events come to
 * the callback of every rank. hd_session_stop of one stops all after the same step. */
#ifndef HEDDLE_DDP_H
#define HEDDLE_DDP_H

#include "heddle/group.h"
#include "heddle/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The group is one that hd_group_init made, of all ranks, and is destroyed after the session; NULL: this process alone,
 * as hd_session_create. Besides its failures: HD_E_USAGE names what ranks do not agree on, HD_E_PEER the rank that is
 * lost. A session that fails while it is made or trained ends the others, too. */
HD_API hd_status hd_ddp(hd_session **out, hd_ctx *ctx, const hd_config *config, const hd_group *group);

#ifdef __cplusplus
}
#endif
#endif
