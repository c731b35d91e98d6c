/* The order in which an epoch takes a feed's samples: --sampler and --no-shuffle.
 *
 * random: a new permutation in each epoch; sequential: the file's order; balanced: as many draws as there are samples,
 * with replacement, in which every class that occurs is equally likely. The weight of a label follows from the feed's
 * samples, those of the training set that are not held out. */
#ifndef HD_TRAIN_SESSION_SAMPLER_OPTION_H
#define HD_TRAIN_SESSION_SAMPLER_OPTION_H

#include "train/settings/config.h"
#include "train/session/sample_feed.h"

/* Sets the feed's sampler as the options say. HD_E_USAGE for balanced samples that have no labels; `data_name` is for
 * that message. */
hd_status hd__order_feed(hd_feed *feed, hd_ctx *ctx, const hd_config *config, const char *data_name);

#endif
