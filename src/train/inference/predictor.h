/* A predictor: a checkpoint's network with room for the outcome of some samples. */
#pragma once

#include "heddle/predict.h"
#include "data/feed/feed.h"
#include "train/inference/trained_model.h"

enum { HD_PREDICTED_AT_ONCE = 256 }; /* samples */

struct hd_predictor {
  hd_trained trained;
  hd_config *config;
  hd_dataset *data; /* opened by the first hd_predict_item */
  hd_feed feed;     /* over the samples at hand */
  hd_exec_outcome outcome;
  uint8_t *pixels; /* one sample: a fitted picture */
};

/* Predicts up to HD_PREDICTED_AT_ONCE samples, which are normalised if the run normalises columns. */
hd_status hd__predict_some(double *value, hd_predictor *p, hd_ctx *ctx, const hd_split *samples, hd_pipeline_mode mode);
