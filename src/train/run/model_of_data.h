/* A network for a data set: what its text leaves to the data, and its loss.
 *
 * The loss is that of --loss, else the text's, else the one that the targets have: cross_entropy for classes, mse for
 * numbers. Targets of zeros and ones alone are refused without one: they may be classes, probabilities or numbers. */
#pragma once

#include "base/text_buffer.h"
#include "data/feed/feed.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

/* Resolves the network's text for the samples of a training feed, after their transforms; `note` receives a line for
 * the user. `data_name` is for messages. */
hd_status hd__network_fit(hd_network *network, hd_line *note, hd_ctx *ctx, const hd_config *config,
                          const hd_feed *train, const char *data_name);
