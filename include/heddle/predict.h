/* Inference: a loaded checkpoint that predicts classes with probabilities, or numbers.
 *
 *     hd_predictor *predictor;
 *     double probability[10];
 *     hd_predictor_create(&predictor, ctx, "runs/cnn-1", NULL);
 *     hd_predict_picture(probability, predictor, ctx, "seven.png");
 *     int seven = hd_predict_class(probability, hd_predictor_count(predictor));
 *     hd_predictor_destroy(predictor);
 *
 * Predictions have the same bits for any number of threads and samples per call. Probabilities are computed from the
 * model's scores in double.
 *
 * Thread safety: a predictor may be used by one thread at a time; two predictors share no state. */
#ifndef HEDDLE_PREDICT_H
#define HEDDLE_PREDICT_H

#include <stdint.h>

#include "heddle/config.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_predictor hd_predictor;

/* Loads a checkpoint: a run's folder (its last step) or a step's. Of the configuration (NULL: all defaults) it uses
 * `threads` and `device`, and `data` and `data-dir` for hd_predict_item. The caller owns the predictor and ends it with
 * hd_predictor_destroy (NULL allowed). HD_E_IO, HD_E_FORMAT: the checkpoint is missing or damaged.
 * If an earlier heddle stored some weights in another order, the context's message notes that they were converted. */
HD_API hd_status hd_predictor_create(hd_predictor **out, hd_ctx *ctx, const char *checkpoint, const hd_config *config);
HD_API void hd_predictor_destroy(hd_predictor *predictor);

/* The kind of prediction, which follows from the model's loss. */
typedef enum hd_prediction {
  HD_PREDICTS_CLASSES, /* cross_entropy, or bce_with_logits with one output (two classes): a probability for each class,
                          the softmax of the scores; they sum to 1 but for rounding */
  HD_PREDICTS_CHANCES, /* bce_with_logits with several outputs: an independent probability for each */
  HD_PREDICTS_NUMBERS  /* mse, l1, huber: the outputs */
} hd_prediction;

HD_API hd_prediction hd_predictor_gives(const hd_predictor *predictor);

/* The number of values in a prediction, and the model's input: channels, height, width. */
HD_API int32_t hd_predictor_count(const hd_predictor *predictor);
HD_API void hd_predictor_input(int32_t shape[3], const hd_predictor *predictor);

/* `count` samples of 8-bit pixels, each in planes (channel, row, column) as data sets have them: light ink on black for
 * digits. Normalised as in training. value: count x hd_predictor_count. */
HD_API hd_status hd_predict_pixels(double *value, hd_predictor *predictor, hd_ctx *ctx, const uint8_t *pixels,
                                   int64_t count);

/* The same with samples of floats, as data sets of floats have them. */
HD_API hd_status hd_predict_floats(double *value, hd_predictor *predictor, hd_ctx *ctx, const float *samples,
                                   int64_t count);

/* A PNG or JPEG file of any size (up to 32768 pixels a side, 67,108,864 in all), colour type and bit depth.
 *
 * For a model with one channel it is fitted as MNIST was prepared: converted to grey, transparent parts white; dark
 * ink on light paper inverted; scaled to 20/28 of the input, centred by its centre of mass. A picture that has the
 * input's size is not scaled. For a model with three channels the run's evaluation transforms are applied, a resize
 * or a crop for example; without these the picture must have the input's size (HD_E_SHAPE). HD_E_UNSUPPORTED:
 * another number of channels. HD_E_FORMAT: the file is damaged or truncated, or the picture is blank. value:
 * hd_predictor_count. */
HD_API hd_status hd_predict_picture(double *value, hd_predictor *predictor, hd_ctx *ctx, const char *path);

/* Sample `index` of the test set of the configuration's data, or of the data that the run was trained on. *label gets
 * its label, -1 where the data has float targets (label may be NULL). The first call opens the data. HD_E_USAGE: no
 * such index. */
HD_API hd_status hd_predict_item(double *value, int32_t *label, hd_predictor *predictor, hd_ctx *ctx, int64_t index);

/* The name of that data set; owned by the predictor. */
HD_API const char *hd_predictor_data(const hd_predictor *predictor);

/* The most probable class: the first of the largest. */
HD_API int32_t hd_predict_class(const double *probability, int32_t classes);

#ifdef __cplusplus
}
#endif
#endif
