/* A feed as the options say: the order of its samples, and their transforms.
 *
 * --sampler random: a new permutation in each epoch; sequential: the file's order; balanced: as many draws as there are
 * samples, with replacement, in which every class that occurs is equally likely. The weight of a label follows from the
 * feed's samples, those of the training set without the validation set. */
#pragma once

#include "data/feed/feed.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

/* Sets the feed's sampler as the options say. HD_E_USAGE for balanced samples that have no labels; `data_name` is for
 * that message. */
hd_status hd__feed_set_order(hd_feed *feed, hd_ctx *ctx, const hd_config *config, const char *data_name);

/* Both lists as text, "" for none, and their origins (see hd__config_origin), "" for none. */
typedef struct hd_transform_lists {
  const char *train, *eval, *train_origin, *eval_origin;
  int32_t classes; /* of a trained network, of which other data may lack some; 0: those of the data */
} hd_transform_lists;

hd_transform_lists hd__transform_lists(const hd_config *config);

/* Sets the transforms of a feed: those of training, and for other samples those of evaluation or, without such a list,
 * the deterministic transforms of training that the mode keeps. They draw by the seed. Without lists the feed stays as
 * it is. */
hd_status hd__feed_set_transforms(hd_feed *feed, hd_ctx *ctx, const hd_transform_lists *lists, hd_pipeline_mode mode,
                                  uint64_t seed);

/* Checks that the graph takes the feed's images, and its loss the targets, as they are after the transforms. */
hd_status hd__feed_check(hd_ctx *ctx, const hd_feed *feed, const hd_network *network, const hd_graph *graph,
                         const char *data_name);

/* Whether targets are numbers that transforms made from the feed's labels. */
bool hd__feed_makes_targets(const hd_feed *feed);

/* The same for lists alone, for data with labels. */
bool hd__transform_lists_make_numbers(const hd_transform_lists *lists);
