/* Which transforms the samples of a run go through: the lists of --transforms and --eval-transforms. */
#ifndef HD_TRAIN_AUGMENT_H
#define HD_TRAIN_AUGMENT_H

#include "train/config.h"
#include "train/feed.h"

/* Both lists as text, "" for none, and where they came from (see hd__config_origin), "" for nowhere. */
typedef struct hd_augment {
  const char *train, *eval, *train_origin, *eval_origin;
} hd_augment;

hd_augment hd__augment_of(const hd_config *config);

/* Lets a feed's samples go through the training's list; or, unless they are for training, through that of evaluation, or
 * else through what the mode leaves of the training's. Without lists the feed stays as it is. */
hd_status hd__augment_feed(hd_feed *feed, hd_ctx *ctx, const hd_augment *lists, hd_pipeline_mode mode,
                           const double *mean, const double *std, uint64_t seed);

/* Whether targets are numbers that were made of the feed's labels. */
bool hd__augment_of_classes(const hd_feed *feed);

#endif
