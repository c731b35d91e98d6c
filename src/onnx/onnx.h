/* ONNX files: writing a network, and reading one as a model's description and its weights.
 *
 * src/onnx/onnx.proto has the messages; protobuf-c packs and unpacks them. A build without it fails with
 * HD_E_UNSUPPORTED. Both directions use the names of layers: a weight is called as in model.safetensors
 * ("conv1.weight"), a node as its layer. */
#pragma once

#include <stdio.h>

#include "base/safetensors.h"
#include "graph/graph.h"

/* A network to write. */
typedef struct hd_onnx_network {
  const char *name;
  const hd_graph *graph;      /* as written */
  const float *const *param;  /* the elements of each parameter, in the order of files */
  const float *scale, *shift; /* of each channel: the graph's first nodes map its input, x * scale + shift */
  const double *mean, *std;   /* of each element: (x - mean) / std in double instead; NULL: by channels */
  /* Of each score: score * std + mean in double last; NULL: scores as they are. */
  const double *target_mean, *target_std;
  const char *class_names; /* a list in JSON, for the file's metadata; NULL: none */
  const char *features;    /* the meaning of each element of a row, the same */
  const char *transforms;  /* what made the run's samples, a list as options have it; NULL: nothing */
  const char *elements;    /* of the input, HD_ONNX_BYTES or HD_ONNX_FLOATS; NULL: tokens */
} hd_onnx_network;

hd_status hd__onnx_write(FILE *to, hd_ctx *ctx, const hd_onnx_network *network);

/* The key of the file's metadata that has the loss of head %d, as a model file states it; the outputs are the heads. */
#define HD_ONNX_HEAD_LOSS "heddle.loss.%d"

/* The key of the elements of the run's samples: what x is in a file whose input is float32 all the same. */
#define HD_ONNX_ELEMENTS "heddle.elements"
#define HD_ONNX_BYTES "uint8"
#define HD_ONNX_FLOATS "float32"

enum { HD_ONNX_CHANNELS = 64 };

/* The normalisation by the first nodes of a network: x * scale + shift of each channel, or (x - mean) / std of each
 * element of a row. It is not a layer of the description. `maps`: there is one. The range of x for pictures is only
 * known if the input is `bytes`; that of heddle 0.2's files `may_be_bytes`. An input with more channels than
 * fit here has no map, and `channels` is 0. */
typedef struct hd_onnx_input {
  bool maps, bytes, may_be_bytes;
  int32_t channels;
  double scale[HD_ONNX_CHANNELS], shift[HD_ONNX_CHANNELS];
  int64_t elems;      /* of a row where each element has a map of its own, (x - mean) / std; 0: none has */
  double *mean, *std; /* of these; one block of memory at `mean`, which its owner frees */
} hd_onnx_input;

/* The names of a classifier's classes in the order of its scores, one after the other, each with its NUL; the owner
 * frees `text`. None where the file has none, or only the numbers of the scores. */
typedef struct hd_onnx_classes {
  char *text;
  int32_t count;
} hd_onnx_classes;

/* A network that was read. */
typedef struct hd_onnx_model {
  hd_onnx_input input;
  hd_onnx_classes classes;
  char *text;         /* its description, as a model file has it */
  hd_st_list weights; /* its parameters by heddle's names; the list owns the names, and `memory` the elements */
  float **memory;
} hd_onnx_model;

/* Reads an ONNX file. HD_E_FORMAT, HD_E_UNSUPPORTED: it is damaged, or has something that heddle does not support; the
 * message names the node and its operator. Nothing is left to release after a failure. */
hd_status hd__onnx_read(hd_onnx_model *out, hd_ctx *ctx, const char *path);
hd_status hd__onnx_parse(hd_onnx_model *out, hd_ctx *ctx, const char *path, const unsigned char *bytes, size_t length);
void hd__onnx_fini(hd_onnx_model *model);

/* A model that ends with its scope. */
#define HD_ONNX_OWNED HD_RELEASED(hd__onnx_fini) hd_onnx_model

/* Whether a path names an ONNX file. */
bool hd__onnx_is_path(const char *path);
