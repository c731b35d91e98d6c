/* Finding a model's description: built in, in a file, or recorded in a checkpoint. */
#ifndef HD_TRAIN_SETTINGS_MODEL_SOURCE_H
#define HD_TRAIN_SETTINGS_MODEL_SOURCE_H

#include <stddef.h>

#include "base/tools_api.h"
#include "base/status.h"
#include "data/formats/dataset.h"
#include "graph/graph.h"
#include "train/settings/loss_target.h"

typedef struct hd_network {
  char *text; /* YAML */
  size_t length;
  char *source; /* for messages */
  char *name;   /* the name in the description */
  hd_target target;
  double label_smoothing; /* in place of the description's; -1: none given */
} hd_network;

/* `name_or_path`: a built-in model, a file (a name with '/' or ending in .yaml or .yml), or a description (a text of
 * more than one line). */
HD_TOOLS_API hd_status hd__network_find(hd_network *out, hd_ctx *ctx, const char *name_or_path);

/* From a recorded text. */
hd_status hd__network_from_text(hd_network *out, hd_ctx *ctx, const char *text, const char *source);
HD_TOOLS_API void hd__network_fini(hd_network *network);

/* Checks that the graph takes the split's images, transformed or not as they are now, and its loss the split's
 * targets. */
hd_status hd__network_check(hd_ctx *ctx, const hd_network *network, const hd_graph *graph, const hd_dataset *split,
                            const char *data_name, bool transformed);

/* Parses the description into a new graph. */
HD_TOOLS_API hd_status hd__network_graph(hd_graph **out, hd_ctx *ctx, const hd_network *network);

#endif
