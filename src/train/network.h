/* Finding a model's description: built in, a file, or what a checkpoint recorded. */
#ifndef HD_TRAIN_NETWORK_H
#define HD_TRAIN_NETWORK_H

#include <stddef.h>

#include "base/status.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "train/target.h"

typedef struct hd_network {
  char *text; /* YAML */
  size_t length;
  char *source; /* for messages */
  char *name;   /* what the description calls itself */
  hd_target target;
  double label_smoothing; /* in place of the description's; -1: none given */
} hd_network;

/* `name_or_path`: a built-in model, a file (a name with '/' or ending in .yaml or .yml), or a description itself (a
 * text of more than one line). */
hd_status hd__network_find(hd_network *out, hd_ctx *ctx, const char *name_or_path);

/* From a recorded text. */
hd_status hd__network_from_text(hd_network *out, hd_ctx *ctx, const char *text, const char *source);
void hd__network_fini(hd_network *network);

/* The graph takes the split's images and its loss the split's targets. */
hd_status hd__network_check(hd_ctx *ctx, const hd_network *network, const hd_graph *graph, const hd_dataset *split,
                            const char *data_name);

/* Builds its graph anew. */
hd_status hd__network_graph(hd_graph **out, hd_ctx *ctx, const hd_network *network);

#endif
