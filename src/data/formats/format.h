/* The interface of a format's reader: it decides whether it accepts a name or path, and opens it.
 *
 * Input files are untrusted. A reader bounds every size before allocating, reads nothing beyond what it checked, and
 * every failure is one line that begins with the file. */
#ifndef HD_DATA_FORMATS_FORMAT_H
#define HD_DATA_FORMATS_FORMAT_H

#include "data/formats/data_request.h"
#include "data/loader/dataset_split.h"

typedef struct hd_format hd_format;

/* An opened data set. `self` owns the memory behind both splits; `release` frees it, after a failure too. */
typedef struct hd_opened {
  hd_dataset split[2]; /* training, test */
  void *self;
  void (*release)(void *self);
  const hd_format *format; /* its reader */
} hd_opened;

struct hd_format {
  const char *name; /* "a folder of IDX files" */
  bool (*takes)(hd_ctx *ctx, const char *name_or_path);
  hd_status (*open)(hd_opened *out, hd_ctx *ctx, const hd_data_request *request);
};

/* Data sets registered by hd_data_add. */
extern const hd_format hd__format_custom;
/* Names: digits, random:CxHxW, published sets (published_datasets.h). */
extern const hd_format hd__format_digits, hd__format_random, hd__format_named;
/* Paths. */
extern const hd_format hd__format_idx, hd__format_cifar, hd__format_npy, hd__format_npz, hd__format_csv,
    hd__format_image_folder;

/* Allocates the reader's state, zeroed, as out->self. */
hd_status hd__opened_hold(void **self, hd_opened *out, hd_ctx *ctx, size_t bytes, void (*release)(void *self));

/* Whether `path` has this ending, ignoring case. */
bool hd__path_ends(const char *path, const char *end);

/* Marks a fifth of `count` samples, rounded, at least one: the test set of a data set that has none. They are the
 * last of a permutation that depends on the count alone. HD_E_FORMAT, naming `path`, with fewer than two samples. */
hd_status hd__data_fifth(uint8_t **marks, hd_ctx *ctx, const char *path, int64_t count);

#endif
