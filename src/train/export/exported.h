/* A trained network as exporters read it: a checkpoint, opened, and how its input is normalised. */
#pragma once

#include <stdio.h>

#include "train/inference/trained_model.h"

typedef struct hd_exported {
  const hd_trained *trained;
  const char *digest;     /* of the weights */
  bool bytes;             /* samples are bytes, else floats */
  hd_affine normalise;    /* samples */
  const char *transforms; /* the list that made the run's samples; "": none, or rows. The file has only its to_float and
                             normalise */
} hd_exported;

/* Writes one C file without dependencies. */
hd_status hd__export_c(FILE *to, hd_ctx *ctx, const hd_exported *network);

/* Writes an ONNX file. */
hd_status hd__export_onnx(FILE *to, hd_ctx *ctx, const hd_exported *network);
