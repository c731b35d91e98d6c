/* The interface of a format: it decides whether it accepts a name or path, and fills a data set from there.
 * docs/add-a-data-format.md adds one.
 *
 * Input files are untrusted. A format bounds every size before allocating, reads nothing beyond what it checked, and
 * every failure is one line that begins with the file. */
#pragma once

#include "base/status.h"
#include "data/dataset/dataset.h"

enum { HD_FORMAT_NAMES = 5 };

typedef struct hd_format {
  const char *name; /* "a folder of IDX files" */
  bool (*takes)(hd_ctx *ctx, const char *name_or_path);

  /* Fills both splits; what it leaves in *out is freed, after a failure too. */
  hd_status (*open)(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request);

  /* What --data may be, for the message that nothing was recognised: names; a folder that has files, "of NPY files
   * (x_train.npy, ...)"; a kind of file, "an .npz". NULL: no such thing. */
  const char *names[HD_FORMAT_NAMES + 1];
  const char *folder, *file;

  bool table, pictures, text; /* it has the options of CSV files; of class folders of pictures; of texts */
} hd_format;

/* Allocates the format's state, zeroed, as out->self. Without one, out->release stays NULL. */
hd_status hd__dataset_hold(void **self, hd_dataset *out, hd_ctx *ctx, size_t bytes, void (*release)(void *self));

/* Adds a note; those beyond HD_DATA_NOTES are left out. */
hd_status hd__dataset_note(hd_dataset *out, hd_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Whether `path` has this ending, ignoring case. */
bool hd__path_ends(const char *path, const char *end);

/* Reads a file of exactly `count` lines, 0: as many as there are; empty ones do not count. Names are cleaned to valid
 * UTF-8 without control characters. */
hd_status hd__names_read(hd_names *out, hd_ctx *ctx, const char *path, int count);

/* Allocates what `split` needs by its count, shape, element, classes and outputs, and sets its pointers; pointers
 * that are not NULL stay. `path` is for messages. */
hd_status hd__split_allocate(hd_split_memory *out, hd_split *split, hd_ctx *ctx, const char *path);
/* Allocates a weight for each sample of the split, which the format fills. */
hd_status hd__split_take_weights(hd_split_memory *out, hd_split *split, hd_ctx *ctx, const char *path);

/* Marks the test set of a data set that has none: a fifth of `count` samples, rounded, at least one; or the requested
 * fold. `labels`: their classes, the share is taken of each; NULL: they have none. The caller frees the marks, after a
 * failure too. HD_E_FORMAT, naming `path`, with fewer than two samples, or fewer than folds. */
hd_status hd__dataset_mark_test(uint8_t **marks, hd_dataset *data, hd_ctx *ctx, const char *path, int64_t count,
                                const int32_t *labels);

/* If the whole set was requested: both splits become split[0]. */
bool hd__dataset_share(hd_dataset *data);

/* Divides split[0], which is in memory, into a training and a test set, by hd__dataset_mark_test; both keep their
 * order; or shares it. What memory[0] does not hold is copied. Labels must have been read. */
hd_status hd__dataset_divide(hd_dataset *data, hd_ctx *ctx, const char *path);

/* Divides the training samples of a set with a test set, if a fold was requested: the fold becomes the test set.
 * Formats whose samples are not in memory leave out a test set instead, and divide the rest. */
hd_status hd__dataset_take_fold(hd_dataset *data, hd_ctx *ctx);

/* Sets the classes of both splits to one more than the largest label; `ignored` does not count. HD_E_FORMAT if a label
 * is negative or beyond HD_DATA_MAX_CLASSES, or if pixels have classes in one split alone. */
hd_status hd__dataset_count_classes(hd_split split[2], hd_ctx *ctx, const char *path, int ignored);
