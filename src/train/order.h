/* In which order an epoch takes a feed's samples: --sampler and --no-shuffle.
 *
 * random: another permutation in each epoch; sequential: the file's order; balanced: as many draws as there are
 * samples, with replacement, in which every class that occurs is as likely as any other. What a label counts for
 * follows from the feed's own samples, those of the training set that are not held out. */
#ifndef HD_TRAIN_ORDER_H
#define HD_TRAIN_ORDER_H

#include "train/config.h"
#include "train/feed.h"

/* Samples come as the options say from now on. HD_E_USAGE for balanced samples that have no labels; `data_name` is for
 * that message. */
hd_status hd__order_feed(hd_feed *feed, hd_ctx *ctx, const hd_config *config, const char *data_name);

#endif
