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

  uint8_t *mask;            /* classes of pixels of the last call's samples, `masks` of them, */
  int64_t masks, mask_room; /* (bytes) */
  int32_t mask_size[2];     /* of this size */
};

/* Whether it predicts the class of each pixel. */
bool hd__predicts_pixels(const hd_predictor *p);

/* Room for the masks of a call's samples, of the input's size; does nothing with other predictions. */
hd_status hd__masks_begin(hd_predictor *p, hd_ctx *ctx, int64_t samples, const int32_t input[3]);

/* Adds the masks of some evaluated samples, and their shares of classes. */
void hd__masks_take(double *value, hd_predictor *p, int64_t samples);

/* Replaces the mask of a single sample by one of the size of its picture. */
hd_status hd__masks_resize(double *value, hd_predictor *p, hd_ctx *ctx, int32_t height, int32_t width);

/* Predicts up to HD_PREDICTED_AT_ONCE samples, which are normalised if the run normalises columns. */
hd_status hd__predict_some(double *value, hd_predictor *p, hd_ctx *ctx, const hd_split *samples, hd_pipeline_mode mode);
