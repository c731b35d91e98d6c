/* Finding a model's description: built in, in a file, or recorded in a checkpoint. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/tools_api.h"
#include "data/dataset/dataset.h"
#include "graph/graph.h"
#include "graph/model_words.h"
#include "onnx/onnx.h"
#include "train/settings/config.h"

/* A head of a network with several losses: its layer, and what it reads of the scores and targets. */
enum { HD_TARGET_HEAD_BYTES = 65 };
typedef struct hd_target_head {
  char name[HD_TARGET_HEAD_BYTES];
  hd_loss_head is;
} hd_target_head;

/* How a loss reads a split's targets: whether they fit, and whether a guess can be judged.
 *
 * cross_entropy reads class labels or, where transforms made probabilities of the labels, these. The other losses read
 * numbers, or class labels as numbers where the model has one output. */
typedef struct hd_target {
  hd_op loss;
  int32_t scores;
  int32_t numbers; /* of the target of a sample, where it is numbers: as many as scores, but for several heads */
  int32_t heads;   /* of weighted_sum; else 0 */
  hd_target_head *head;
  int32_t ignored; /* a label, -1 for none */
  int32_t places;  /* of a sample with scores and a label for each; 0: it has one label */
  bool of_classes; /* targets are numbers made of labels, a score for each class */
  bool of_program; /* the program computes losses: their mean is over samples */
  double *weight;  /* one per class, `scores` of them; NULL: all are 1 */
} hd_target;

hd_status hd__target_init(hd_target *out, hd_ctx *ctx, const hd_graph *graph);

/* The name of the loss. */
const char *hd__target_loss(const hd_target *target);

/* The number of classes that a model with this loss distinguishes: its scores where they are classes', 2 for a single
 * bce_with_logits score, else 0. */
int32_t hd__target_classes(const hd_target *target);

/* The name of a head's loss. */
const char *hd__head_loss(const hd_target_head *head);

/* Whether its outputs are numbers of the targets' kind: mse, l1, huber. */
bool hd__target_numbers(const hd_target *target);

/* Whether guesses of classes can be compared with the split's labels. */
HD_TOOLS_API bool hd__target_judges(const hd_target *target, const hd_split *split);

/* Whether the guess for this sample counts: its label is not ignored, and it could be read. */
bool hd__target_counts(const hd_target *target, const hd_split *split, int64_t sample);

/* ---- Descriptions ---- */

typedef struct hd_network {
  char *text; /* YAML */
  size_t length;
  char *written; /* the text as found, where the data have changed it; else NULL */
  char *source;  /* for messages */
  char *name;    /* the name in the description */
  hd_target target;
  hd_onnx_input input;     /* of an ONNX file */
  hd_onnx_classes classes; /* the same */
  double label_smoothing;  /* in place of the description's; -1: none given */

  /* The text leaves the samples' shape, or numbers of outputs, to the data (graph/model_words.h): until the facts
   * replace these words the target has no scores. */
  bool asks_input, asks_classes;
  bool input_of_data; /* it left the samples' shape to the data, which have taken its place */
  int32_t context;    /* the numbers of a row that it reads; 0: not stated, or it reads no rows */
  bool reads_rows;    /* its input has neither channels nor height, or is that of the data */
  bool has_loss;      /* the text states one */
} hd_network;

/* Whether it predicts the token after each of a text; a network of pictures with scores for each place gives pixels
 * their classes. */
static inline bool hd__network_reads_text(const hd_network *network) {
  return network->target.places > 0 && network->reads_rows;
}

/* `name_or_path`: a built-in model, a file (a name with '/' or ending in .yaml, .yml or .onnx), or a description (a
 * text of more than one line). */
HD_TOOLS_API hd_status hd__network_find(hd_network *out, hd_ctx *ctx, const char *name_or_path);

/* Whether this is the name of a built-in model. */
HD_TOOLS_API bool hd__network_is_built_in(const char *name);

/* From a recorded text. */
HD_TOOLS_API hd_status hd__network_from_text(hd_network *out, hd_ctx *ctx, const char *text, const char *source);
HD_TOOLS_API void hd__network_fini(hd_network *network);

/* Replaces the words of the text by the facts of the data, and its loss by theirs. A network without words left is
 * checked as a whole. */
hd_status hd__network_resolve(hd_network *network, hd_ctx *ctx, const hd_model_facts *facts);

/* Gives the last layer, a linear one, as many outputs as --head says: "auto", as there are classes or numbers to
 * predict, or a number. */
hd_status hd__network_set_head(hd_network *network, hd_ctx *ctx, const char *head);

/* Whether a recorded text is that of this description with its words replaced by facts of some data. */
hd_status hd__network_is_of(bool *out, hd_ctx *ctx, const char *recorded, const char *description);

/* The text as found. */
static inline const char *hd__network_written(const hd_network *network) {
  return network->written ? network->written : network->text;
}

/* The request for the configuration's data set as this network reads it: its ignored label, and, unless --loss is given
 * or the first rules are the run's, numbers as labels of a table where it states a loss on numbers. */
hd_dataset_request hd__network_request(const hd_network *network, const hd_config *config);

/* Checks that the graph takes the split's images, transformed or not as they are now, and its loss the split's
 * targets. */
hd_status hd__network_check(hd_ctx *ctx, const hd_network *network, const hd_graph *graph, const hd_split *split,
                            const char *data_name, bool transformed);

/* Parses the description into a new graph. */
HD_TOOLS_API hd_status hd__network_graph(hd_graph **out, hd_ctx *ctx, const hd_network *network);
