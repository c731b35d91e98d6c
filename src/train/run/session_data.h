/* The data set of a configuration and a network. */
#pragma once

#include "data/dataset/dataset.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

/* Opens it for this network, and sets --normalize to what was chosen. */
hd_status hd__session_data(hd_dataset **out, hd_ctx *ctx, hd_config *config, const hd_network *network);
