/* Weights of classes (--class-weight): each training sample counts in the loss as often as its class does, beside its
 * own weight. Samples of the test set keep their weights. */
#pragma once

#include "data/dataset/dataset.h"

/* `text`: "balanced", so that all classes that have samples count alike, or "cat=2,dog=1", where others count once;
 * "": nothing is changed. To be called before the samples are read. */
hd_status hd__dataset_weigh_classes(hd_dataset *data, hd_ctx *ctx, const char *text);
