/* Inspecting data sets, and custom data sets, by callbacks or as arrays.
 *
 * Inspecting a set gives what `heddle data` prints (counts, shapes, mean and standard deviation, unreadable samples)
 * and draws a contact sheet.
 *
 * A custom data set supplies samples through callbacks and is selected by name.
 *
 *     static int64_t len(void *self) { return 60000; }
 *     static int get(void *self, int64_t index, hd_custom_sample *sample) {
 *       ... fill sample->bytes or sample->floats, sample->label or sample->targets ...
 *       return 0;
 *     }
 *     static const hd_custom_data mine = {.struct_bytes = sizeof mine, .name = "mine", .channels = 1, .height = 28,
 *                                      .width = 28, .dtype = HD_U8, .classes = 10, .len = len, .get = get};
 *     hd_data_add(ctx, &mine);
 *     hd_config_set_text(config, ctx, HD_OPT_DATA, "mine");
 *
 * A sample must depend on its index alone: the training set is read when a session is created, to compute its mean
 * and standard deviation, and kept if it fits into memory (the option cache); otherwise, and with cache none, `get`
 * is called again in each epoch. Randomness belongs in the transforms of a run.
 *
 * A sample lies in planes: element (c, y, x) at (c * height + y) * width + x. Bytes stand for pixels and are
 * divided by 255, floats are taken as they are; both are normalised with the training set's mean and standard
 * deviation per channel, rounded to 4 decimals.
 *
 * Samples that are in memory need no callback: without `len` and `get`, `train` and `test` are hd_custom_arrays. The
 * run reads them where they lie. They must not change while anything made with the context uses them: a session that
 * ends or saves after they did fails with HD_E_USAGE.
 *
 * Ownership: the struct is copied; what it points to must outlive the context, whose end calls `free` once for
 * `train` and once for `test`, unless that is NULL. Sessions, predictors and everything else made with the context
 * must be destroyed before. Thread safety: `get` is called by several threads at once, each for different samples;
 * `len` and `free` by one. */
#ifndef HEDDLE_DATASET_H
#define HEDDLE_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/dtype.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_CUSTOM_DATASETS = 16 /* of one context */, HD_CUSTOM_DATA_WHY_BYTES = 256 };

/* The elements that `get` fills: bytes or floats, as the dtype says, channels * height * width of them; with classes
 * the label, from 0 to classes - 1 or the one that the loss ignores, else `outputs` finite targets. */
typedef struct hd_custom_sample {
  uint8_t *bytes; /* NULL with HD_F32 */
  float *floats;  /* NULL with HD_U8 */
  int32_t label;
  float *targets;                     /* NULL with classes */
  char why[HD_CUSTOM_DATA_WHY_BYTES]; /* message of a `get` that fails: the file, the error */
} hd_custom_sample;

/* Samples in memory, one after the other, each in planes. Where there is a test set nothing is copied; without one the
 * run divides a copy. */
typedef struct hd_custom_arrays {
  size_t struct_bytes; /* sizeof(hd_custom_arrays) */
  int64_t count;       /* samples, 1 or more */
  const uint8_t *bytes;
  const float *floats;   /* one of both, as the dtype says: count x channels x height x width, finite */
  const int32_t *labels; /* with classes: a class of each */
  const float *targets;  /* without: count x outputs, finite */
  const float *weights;  /* of each sample in losses and scores, 0 or from 1e-18 to 1e18; NULL: all count once */
  const uint8_t *masks;  /* with up to 255 classes, in place of labels: the class of each pixel, count x height x width,
                          * 255 for none; NULL: there are labels */
} hd_custom_arrays;

typedef struct hd_custom_data {
  size_t struct_bytes;             /* sizeof(hd_custom_data) */
  const char *name;                /* its name in `data`: 1 to 32 letters, digits, '_' and '-', not a built-in one */
  int32_t channels, height, width; /* 1 to 64, 1 to 65535 */
  hd_dtype dtype;                  /* HD_U8 or HD_F32 */
  int32_t classes;                 /* up to 65536; 0: targets */
  int32_t outputs;                 /* targets a sample; 0 with classes */
  const char *const *class_names;  /* as many as classes, in UTF-8, no two alike; NULL if they have none */
  void *train, *test;              /* passed to the callbacks; test NULL: a fifth of the training set becomes it */
  /* Both NULL: train and test are hd_custom_arrays. */
  int64_t (*len)(void *self); /* samples, 1 or more; called when a session opens the data */
  int (*get)(void *self, int64_t index, hd_custom_sample *sample); /* 0, or anything else if it fails */
  void (*free)(void *self);                                        /* may be NULL */
} hd_custom_data;

/* Registers the data set under its name for everything opened with this context. HD_E_USAGE: a name that is taken or
 * unfit, sizes out of bounds, a missing callback, more than HD_CUSTOM_DATASETS; `free` is not called then. A `get` that
 * fails ends the run with HD_E_IO and its message. */
HD_API hd_status hd_data_add(hd_ctx *ctx, const hd_custom_data *data);

/* Distributes samples over `of` folds: fold[i] is the fold of sample i, from 1. `labels`: the class of each, from 0;
 * all folds get equally many samples of each class, or one more; NULL: none. The folds depend on the count and the
 * labels alone, and are those of the option fold: with "2/5" the samples of fold 2 of 5 are the test set. HD_E_USAGE:
 * fewer than 2 or more than 10,000 folds, or fewer samples than folds. */
HD_API hd_status hd_folds(int32_t *fold, hd_ctx *ctx, int64_t count, const int32_t *labels, int32_t of);

/* An inspection of any data set, custom or not. */
typedef struct hd_data_look hd_data_look;

/* A sample that cannot be read. */
typedef struct hd_data_bad {
  int32_t part;    /* 0: of the training set, 1: of the test set */
  int64_t sample;  /* its number there */
  const char *why; /* one line, which names the file */
} hd_data_bad;

/* A column of a table, or of rows of numbers; without the column of labels. */
typedef struct hd_data_column {
  const char *name; /* NULL: it has none */
  int32_t number;   /* in the file, from 0 on */
  int32_t texts;    /* different texts; 0: numbers */
  double empty;     /* fraction of the training set's fields that are empty */
  double mean, std; /* of the training set's numbers, as for normalize column; NAN for texts */
} hd_data_column;

/* All texts and arrays are owned by the hd_data_look. Arrays of two: training set, test set. */
typedef struct hd_data_facts {
  const char *name;                /* as asked for */
  const char *format;              /* "a folder of IDX files" */
  hd_dtype dtype;                  /* of elements: HD_U8, pixels, or HD_F32 */
  int32_t channels, height, width; /* of every sample; height and width 0: they differ */
  int32_t smallest[2], largest[2]; /* height and width: the least and the most of each in any sample */
  int64_t samples[2];              /* unreadable ones too */
  int64_t bytes[2];                /* of the decoded samples */
  int32_t classes;                 /* 0 with targets */
  const char *const *class_names;  /* NULL if they have none */
  const int64_t *per_class[2];     /* samples of each class; NULL with targets */
  int32_t outputs;                 /* targets a sample; 0 with classes */
  double target_low, target_high;  /* of all targets of the training set */
  double mean[4], std[4];          /* of the first channels of the training set; of bytes as numbers from 0 to 1 */
  int64_t bad_count;               /* only with on-error skip; else such a sample is a failure */
  const hd_data_bad *bad;          /* in the order of the sets */
  const char *const *notes;        /* lines: classes without samples, folders that are not used; NULL after the last */
  int64_t validation;              /* of the training set, the last samples: a validation set that came with it */
  int32_t columns;                 /* of rows; 0: samples are no rows */
  const hd_data_column *column;
  int32_t window;         /* of a text: tokens of a sample, which are numbered as classes; 0: it is none */
  const char *tokens_are; /* "characters", "bytes" or "numbers" */
  int64_t tokens[2];      /* of training and validation, and of the test set */
  const double *channel_mean, *channel_std; /* of all channels, as mean and std */
} hd_data_facts;

/* Opens the data set of a configuration's options data and data-dir and reads every sample. With on-error skip
 * unreadable samples are listed in the facts, and the next readable sample is counted in place of each; otherwise
 * the first one is the failure, as when a session opens the set. */
HD_API hd_status hd_data_look_create(hd_data_look **out, hd_ctx *ctx, const hd_config *config);
HD_API void hd_data_look_destroy(hd_data_look *look); /* NULL is allowed */

/* Valid until the look is destroyed. */
HD_API const hd_data_facts *hd_data_look_facts(const hd_data_look *look);

/* Writes a contact sheet of the training set as PNG: a dozen samples of each class, a row a class, with names; of up to
 * 128 classes. */
HD_API hd_status hd_data_look_sheet(const hd_data_look *look, hd_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
