/* Words of a model file that stand for facts of the data, and replacing them by these:
 *
 *     input: data           the samples' shape: [C, H, W], or [N] for rows of N numbers
 *     out: classes          of a layer: as many outputs as there are classes, or numbers to predict
 *     tokens: classes       of an embedding
 *
 * A missing loss is added, too. The rest of the text is unchanged, with its comments and lines. */
#pragma once

#include "base/yaml_bind.h"
#include "graph/graph.h"

/* What a text says about itself before the data are known. */
typedef struct hd_model_outline {
  char *name;          /* the model's; owned, NULL without one */
  bool input, classes; /* left to the data */
  int32_t context;     /* numbers of a row that the input states; 0: it does not */
  bool rows;           /* the input has neither channels nor height, or may have none */
  bool has_loss;       /* an entry `loss` */
  hd_op loss;          /* stated, or cross_entropy */
  int32_t ignored;     /* by the loss: a label, -1 for none */
} hd_model_outline;

/* Fails only if the text is no YAML: hd__model_parse checks it. The caller frees the name. */
hd_status hd__model_outline(hd_model_outline *out, hd_ctx *ctx, const char *text, size_t length, const char *source);

/* The facts that replace the words. */
typedef struct hd_model_facts {
  hd_shape input; /* rank 3, or 1 for rows */
  int32_t classes;
  const char *loss; /* the loss in place of the text's, or as a new entry; NULL: as written */
} hd_model_facts;

/* The facts of the default data: 1x28x28, and 10 outputs for cross_entropy, 1 for a loss on numbers. `loss` is the
 * field of that name. */
hd_model_facts hd__model_default_facts(const hd_model_outline *outline, const char *loss);

/* The text with the facts in place of the words. The caller frees *out; it is NULL if nothing is to be replaced. */
hd_status hd__model_resolve(char **out, hd_ctx *ctx, const char *text, size_t length, const char *source,
                            const hd_model_facts *facts);

/* The text with another number of outputs, or the word `classes`, in its last layer, which is a linear one with weights
 * of its own. HD_E_USAGE: it is not; the message says what --head expects. The caller frees *out. */
hd_status hd__model_with_head(char **out, hd_ctx *ctx, const char *text, size_t length, const char *source,
                              const char *outputs);

/* Whether the second text is the first one with its words replaced by some facts. */
hd_status hd__model_is_resolved(bool *out, hd_ctx *ctx, const char *written, const char *resolved);
