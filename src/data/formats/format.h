/* The interface of a format's reader: it decides whether it accepts a name or path, and opens it.
 *
 * Input files are untrusted. A reader bounds every size before allocating, reads nothing beyond what it checked, and
 * every failure is one line that begins with the file. */
#pragma once

#include "base/status.h"
#include "data/formats/dataset.h"

typedef struct hd_format hd_format;

/* Names of classes. */
typedef struct hd_names {
  const char **name; /* `count` of them; NULL: none */
  char *text;        /* the names, each with its NUL */
  int count;
} hd_names;

/* Samples that a reader keeps in memory, an array for each kind. */
typedef struct hd_resident_samples {
  uint8_t *images; /* memory of the split's fields of these names, or NULL */
  float *floats;
  int32_t *labels;
  float *targets;
  double *numbers; /* of rows of a table, where floats would round some of them; else NULL */
} hd_resident_samples;

/* Lines for the user of the data set: a class without samples, a folder that is not used. */
enum { HD_DATA_NOTES = 6 };

/* An opened data set: it owns the memory behind both splits, freed after a failure too; `release` frees the rest of
 * *self. */
typedef struct hd_opened {
  hd_dataset split[2]; /* training, test */
  hd_resident_samples resident[2];
  hd_names names;
  hd_features features;          /* of a table */
  char *note[HD_DATA_NOTES + 1]; /* NULL after the last */
  bool first_rules;              /* of the request */
  hd_fold fold;                  /* of the request */
  bool whole;                    /* of the request, */
  bool shared;                   /* and so both splits are the same samples, in memory that the first has */
  bool divided;                  /* its test set is a part of its samples, a fifth or a fold */
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
/* Names: digits, random:CxHxW[:CLASSES], published sets (named_datasets.c). */
extern const hd_format hd__format_digits, hd__format_random, hd__format_named;
/* Paths. */
extern const hd_format hd__format_idx, hd__format_cifar, hd__format_npy, hd__format_npz, hd__format_csv,
    hd__format_image_folder;

/* Allocates the reader's state, zeroed, as out->self. Without one, out->release stays NULL. */
hd_status hd__opened_hold(void **self, hd_opened *out, hd_ctx *ctx, size_t bytes, void (*release)(void *self));

/* Adds a note; those beyond HD_DATA_NOTES are left out. */
hd_status hd__opened_note(hd_opened *out, hd_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Whether `path` has this ending, ignoring case. */
bool hd__path_ends(const char *path, const char *end);

/* Marks the test set of a data set that has none: a fifth of `count` samples, rounded, at least one; or the requested
 * fold. `labels`: their classes, the share is taken of each; NULL: they have none. The caller frees the marks, after a
 * failure too. HD_E_FORMAT, naming `path`, with fewer than two samples, or fewer than folds. */
hd_status hd__data_fifth(uint8_t **marks, hd_opened *opened, hd_ctx *ctx, const char *path, int64_t count,
                         const int32_t *labels);

/* Adds notes on classes without training samples and, if the set was divided, with fewer than two to test. */
hd_status hd__note_classes(hd_opened *opened, hd_ctx *ctx, const char *name);

/* Reads a file of exactly `count` lines; empty ones do not count. Names are cleaned to valid UTF-8 without control
 * characters. */
hd_status hd__names_read(hd_names *out, hd_ctx *ctx, const char *path, int count);

/* Allocates what `split` needs by its count, shape, element, classes and outputs, and sets its pointers; pointers
 * that are not NULL stay. `path` is for messages. */
hd_status hd__resident_make(hd_resident_samples *out, hd_dataset *split, hd_ctx *ctx, const char *path);

/* Changes labels to the numbers that their classes have in a run, by name; owned[s] is memory that the caller frees,
 * after a failure too, or NULL: labels are unchanged. Labels without names are unchanged. HD_E_FORMAT for a class that
 * the run does not have. */
hd_status hd__match_classes(int32_t *owned[2], hd_opened *opened, hd_ctx *ctx, const char *path,
                            const hd_class_names *names, int ignored);

/* Divides the training samples of a set with a test set, if a fold was requested: the fold becomes the test set. */
hd_status hd__data_fold(hd_opened *opened, hd_ctx *ctx, const char *name);

void hd__resident_fini(hd_resident_samples *samples);

/* Frees everything. */
void hd__opened_fini(hd_opened *opened);

/* If the whole set was requested: both splits become split[0]. */
bool hd__opened_share(hd_opened *opened);

/* Divides split[0], all of which resident[0] holds, into a training and a test set, by hd__data_fifth; both keep
 * their order; or shares it. Labels must have been read. */
hd_status hd__resident_divide(hd_opened *opened, hd_ctx *ctx, const char *path);

/* Sets the classes of both splits to one more than the largest label; `ignored` does not count. HD_E_FORMAT if a label
 * is negative or beyond HD_DATA_MAX_CLASSES. */
hd_status hd__resident_classes(hd_dataset split[2], hd_ctx *ctx, const char *path, int ignored);

/* ---- Names of published data sets; their reader is hd__format_named ---- */

bool hd__data_is_published(const char *name);
