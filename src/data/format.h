/* What a reader of a format is to dataset.c: it says whether a name or path is its own, and opens it.
 *
 * A file is a stranger's. A reader bounds every size before it allocates for it, reads nothing beyond what it checked,
 * and every failure is one line that begins with the file. */
#ifndef HD_DATA_FORMAT_H
#define HD_DATA_FORMAT_H

#include "data/dataset.h"

typedef struct hd_format hd_format;

/* What a reader makes. `self` holds the memory behind both splits; `release` frees it, after a failure too. */
typedef struct hd_opened {
  hd_dataset split[2]; /* training, test */
  void *self;
  void (*release)(void *self);
  const hd_format *format; /* who opened it */
} hd_opened;

struct hd_format {
  const char *name; /* "a folder of IDX files" */
  bool (*takes)(hd_ctx *ctx, const char *name_or_path);
  hd_status (*open)(hd_opened *out, hd_ctx *ctx, const hd_data_request *request);
};

/* What a program made known by hd_data_add. */
extern const hd_format hd__format_own;
/* Names: digits, random:CxHxW, published sets (named.h). */
extern const hd_format hd__format_digits, hd__format_random, hd__format_named;
/* Paths. */
extern const hd_format hd__format_idx, hd__format_cifar, hd__format_npy, hd__format_npz, hd__format_csv,
    hd__format_image_folder;

/* Allocates what a reader keeps, cleared, as out->self. */
hd_status hd__opened_hold(void **self, hd_opened *out, hd_ctx *ctx, size_t bytes, void (*release)(void *self));

/* Whether `path` ends so, in lower or upper case. */
bool hd__path_ends(const char *path, const char *end);

/* Marks a fifth of `count` samples, rounded, at least one: the test set of a data set that has none. They are the last
 * ones of a permutation that depends on the count alone. HD_E_FORMAT, naming `path`, with fewer than two samples. */
hd_status hd__data_fifth(uint8_t **marks, hd_ctx *ctx, const char *path, int64_t count);

#endif
