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
  HD_PREDICTS_NUMBERS, /* mse, l1, huber: the outputs */
  HD_PREDICTS_HEADS,   /* several losses: for each head what its loss says above, one after the other; chances with
                          bce_with_logits, also with one output */
  HD_PREDICTS_PIXELS   /* cross_entropy with scores for each pixel: the class of each (hd_predictor_mask); the values
                          are the share of pixels that have each class */
} hd_prediction;

HD_API hd_prediction hd_predictor_gives(const hd_predictor *predictor);

/* A head of a model with several losses: the layer's name, owned by the predictor, what it gives, and which values of a
 * prediction are its own. Returns 0 where there is no such head. */
typedef struct hd_predicted_head {
  const char *name;
  hd_prediction gives;
  int32_t first, count;
} hd_predicted_head;
HD_API int hd_predictor_head(hd_predicted_head *out, const hd_predictor *predictor, int32_t index);

/* The name of a class of that head, where it was trained on a table's texts; NULL: it has none. */
HD_API const char *hd_predictor_head_class(const hd_predictor *predictor, int32_t index, int32_t class_number);

/* The number of values in a prediction, and the model's input: channels, height, width. */
HD_API int32_t hd_predictor_count(const hd_predictor *predictor);
HD_API void hd_predictor_input(int32_t shape[3], const hd_predictor *predictor);

/* The name of a class in the data that the run was trained on; NULL: it has none. Owned by the predictor. */
HD_API const char *hd_predictor_class_name(const hd_predictor *predictor, int32_t class_number);

/* `count` samples of 8-bit pixels, each in planes (channel, row, column) as data sets have them: light ink on black for
 * digits. Normalised as in training; of the run's other transforms only lists with one of the program's are applied, as
 * in an evaluation. value: count x hd_predictor_count. */
HD_API hd_status hd_predict_pixels(double *value, hd_predictor *predictor, hd_ctx *ctx, const uint8_t *pixels,
                                   int64_t count);

/* The same with samples of floats, as data sets of floats have them. HD_E_NOTFINITE: one is NaN or infinite. Of both,
 * HD_E_SHAPE: the run was trained on samples of the other kind, unless its rows are normalised by columns, or these are
 * pictures of floats from 0 to 1 in place of bytes. */
HD_API hd_status hd_predict_floats(double *value, hd_predictor *predictor, hd_ctx *ctx, const float *samples,
                                   int64_t count);

/* A PNG or JPEG file of any size (up to 32768 pixels a side, 67,108,864 in all), colour type and bit depth.
 *
 * It is read as a sample of the run's data, in grey for a model with one channel, and the run's evaluation transforms
 * are applied, a resize or a crop for example; without these it must have the input's size (HD_E_SHAPE). A model with
 * one channel whose classes have no names takes it for the drawing of a digit, and fits it as MNIST was prepared:
 * converted to grey, transparent parts white; dark ink on light paper inverted; scaled to 20/28 of the input, centred
 * by its centre of mass. A picture that has the input's size is not scaled. HD_E_UNSUPPORTED: another number of
 * channels than 1 or 3. HD_E_FORMAT: the file is damaged or truncated, or the drawing is blank. value:
 * hd_predictor_count. */
HD_API hd_status hd_predict_picture(double *value, hd_predictor *predictor, hd_ctx *ctx, const char *path);

/* Sample `index` of the test set of the configuration's data, or of the data that the run was trained on. *label gets
 * its label, -1 where the data has float targets (label may be NULL). The first call opens the data. HD_E_USAGE: no
 * such index. */
HD_API hd_status hd_predict_item(double *value, int32_t *label, hd_predictor *predictor, hd_ctx *ctx, int64_t index);

/* The float targets of that sample, after hd_predict_item: up to hd_predictor_count numbers. Returns how many, 0 where
 * the data has labels. */
HD_API int32_t hd_predict_item_targets(double *target, const hd_predictor *predictor, int64_t index);

/* The name of that data set; owned by the predictor. */
HD_API const char *hd_predictor_data(const hd_predictor *predictor);

/* ---- The class of each pixel ---- */

/* With HD_PREDICTS_PIXELS, sample `index` of the last call that predicted: the class of each pixel, row by row. size
 * gets height and width: those of the network's input; or, for a picture or an item that the run's transforms resize
 * and do not crop, those of the picture, by the nearest pixel. NULL: there is no such sample. Owned by the predictor,
 * valid until its next prediction. */
HD_API const uint8_t *hd_predictor_mask(int32_t size[2], const hd_predictor *predictor, int64_t index);

/* Writes it as a PNG file: as grey numbers of classes or, if the masks of the run's data had a palette, as places in
 * it. HD_E_USAGE: there is no such sample. */
HD_API hd_status hd_predictor_write_mask(const hd_predictor *predictor, hd_ctx *ctx, int64_t index, const char *path);

/* ---- Pictures in a folder ---- */

/* The pictures (.png, .jpg, .jpeg) in a folder and in those inside it, sorted by the bytes of their paths. Other files,
 * and names that begin with a dot, are left out; a folder to which several paths lead, by links, is read once. */
typedef struct hd_pictures hd_pictures;

/* HD_OK with a note as the context's message, else "": files that are no pictures were left out. HD_E_FORMAT: there is
 * no picture; HD_E_IO: a folder cannot be read. The caller ends the list with hd_pictures_close (NULL
 * allowed). */
HD_API hd_status hd_pictures_open(hd_pictures **out, hd_ctx *ctx, const char *folder);
HD_API void hd_pictures_close(hd_pictures *pictures);

/* How many there are, and the path of one, with the folder's in front; NULL: there is no such one. */
HD_API int64_t hd_pictures_count(const hd_pictures *pictures);
HD_API const char *hd_pictures_path(const hd_pictures *pictures, int64_t index);

/* ---- Samples in a file ---- */

/* The rows of a CSV file, if the run was trained on one, or the samples of an NPY file. */
typedef struct hd_rows hd_rows;

/* Reads a file, by its ending, or "-": CSV on standard input. Columns are found by their names, and become numbers as
 * those of training did; the label's column need not be there. Of the predictor's configuration it uses `label`,
 * `header` and `missing`, where they are given in place of the run's. HD_E_FORMAT, HD_E_SHAPE: a field, or the rows,
 * are not what the model reads; the message names file and line. The caller ends it with hd_rows_close (NULL
 * allowed), before the predictor. */
HD_API hd_status hd_rows_open(hd_rows **out, hd_ctx *ctx, hd_predictor *predictor, const char *path);
HD_API void hd_rows_close(hd_rows *rows);

/* The number of samples, and the line on which a sample begins, 0 for an array's. */
HD_API int64_t hd_rows_count(const hd_rows *rows);
HD_API int64_t hd_rows_line(const hd_rows *rows, int64_t row);

/* The label of a sample in the file: its text, "" for an empty field, NULL if there is no label column. *label (may be
 * NULL) gets the number of that class, -1 if the model does not have it; *target the text's value as a number, NAN if
 * it is not one. The text is valid until the next call. */
HD_API const char *hd_rows_truth(int32_t *label, double *target, hd_rows *rows, int64_t row);

/* Predicts samples [first, first + count). value: count x hd_predictor_count. */
HD_API hd_status hd_predict_rows(double *value, hd_predictor *predictor, hd_ctx *ctx, const hd_rows *rows,
                                 int64_t first, int64_t count);

/* The most probable class: the first of the largest. */
HD_API int32_t hd_predict_class(const double *probability, int32_t classes);

#ifdef __cplusplus
}
#endif
#endif
