/* Which transforms the samples of a run go through: the lists of --transforms and --eval-transforms. */
#ifndef HD_TRAIN_AUGMENT_H
#define HD_TRAIN_AUGMENT_H

#include "train/config.h"
#include "train/feed.h"
#include "train/network.h"

/* Both lists as text, "" for none, and where they came from (see hd__config_origin), "" for nowhere. */
typedef struct hd_augment {
  const char *train, *eval, *train_origin, *eval_origin;
} hd_augment;

hd_augment hd__augment_of(const hd_config *config);

/* Lets a feed's samples go through the training's list; or, unless they are for training, through that of evaluation,
 * or else through what the mode leaves of the training's. Without lists the feed stays as it is. */
hd_status hd__augment_feed(hd_feed *feed, hd_ctx *ctx, const hd_augment *lists, hd_pipeline_mode mode,
                           const double *mean, const double *std, uint64_t seed);

/* The graph takes the feed's images, and its loss the targets, as they are behind the transforms. */
hd_status hd__augment_check(hd_ctx *ctx, const hd_feed *feed, const hd_network *network, const hd_graph *graph,
                            const char *data_name);

/* Whether targets are numbers that were made of the feed's labels. */
bool hd__augment_of_classes(const hd_feed *feed);

/* The same of lists alone, for data with labels. */
bool hd__augment_makes_numbers(const hd_augment *lists);

#endif
