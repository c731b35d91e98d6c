/* Data sets as the trainer sees them: a training and a test split of 8-bit images with class labels or, for regression,
 * with float targets.
 *
 * Names are `digits` (drawn by heddle), `mnist` and `fashion` (looked for in known folders) and `random:CxHxW` (noise of
 * that shape); anything else is a path to a folder of IDX files. The mean and standard deviation are the training set's,
 * of pixels in [0, 1], computed in integers and rounded to 4 decimals. Checksums are XXH3-64 over the decompressed
 * bytes. */
#ifndef HD_DATA_DATASET_H
#define HD_DATA_DATASET_H

#include <stdint.h>

#include "base/status.h"

/* One split. Images lie sample by sample, each in planes: channel, row, column. */
typedef struct hd_dataset {
  const uint8_t *images;
  const uint8_t *labels; /* class numbers; NULL with targets */
  int64_t count;
  int channels, height, width;
  int classes;          /* 0 with targets */
  const float *targets; /* finite numbers, `outputs` a sample; NULL with labels */
  int outputs;
} hd_dataset;

/* What a loss on numbers reads: a target, or the label as a number. */
static inline float hd__dataset_number(const hd_dataset *split, int64_t sample, int output) {
  return split->targets ? split->targets[sample * split->outputs + output] : (float)split->labels[sample];
}

enum { HD_DATA_MAX_CHANNELS = 4, HD_DATA_PARTS = 4 };

typedef struct hd_data hd_data;

/* Opens both splits. `data_dir` may be NULL or "". Labels are checked to be classes or `ignored` (-1: no label). */
hd_status hd__data_open(hd_data **out, hd_ctx *ctx, const char *name_or_path, const char *data_dir, int ignored);
void hd__data_close(hd_data *data);

const hd_dataset *hd__data_train(const hd_data *data);
const hd_dataset *hd__data_test(const hd_data *data);
const char *hd__data_name(const hd_data *data);
const double *hd__data_mean(const hd_data *data); /* per channel */
const double *hd__data_std(const hd_data *data);

/* Training images, training labels, test images, test labels. */
const uint64_t *hd__data_checksums(const hd_data *data);

/* Mean and standard deviation of bytes in [0, 1], rounded to 4 decimals; a standard deviation of 0 becomes 1. */
void hd__data_statistics(double *mean, double *std, const hd_dataset *split, int channel);

#endif
