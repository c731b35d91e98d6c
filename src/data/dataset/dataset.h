/* Data in four nouns, each made of the one before:
 *
 *   dataset   what a name or a path was opened as, by one of the formats (data/formats): two splits, the training set's
 *             statistics, the names of classes
 *   split     its training samples or its test samples (data/split/split.h)
 *   feed      samples of a split in the order of an epoch, transformed and normalised as a network reads them
 *             (data/feed/feed.h)
 *   batch     samples of a feed for one step: threads read their rows from the feed, or copy them from batches that
 *             loader workers have read ahead (data/feed/batches.h)
 *
 * The mean and standard deviation of a data set are the training set's, per channel, of pixels in [0, 1] or of the
 * floats, rounded to 4 decimals (split_statistics.h). */
#pragma once

#include "data/images/image_file.h"
#include "data/split/sample_cache.h"
#include "data/split/skipped_samples.h"
#include "data/split/split.h"
#include "data/split/split_statistics.h"
#include "data/tables/table_features.h"
#include "heddle/options.h"

/* Names of a run's classes, which outlive the data. */
typedef struct hd_class_names {
  const char *const *name;
  int32_t count; /* 0: the run has none */
} hd_class_names;

/* A part of the training samples that replaces the test set, to train a model once for each part. */
typedef struct hd_fold {
  int32_t number, of; /* from 1 to `of`; 0, 0: none */
} hd_fold;
enum { HD_MOST_FOLDS = 10000 };

/* More classes than these, where labels are whole numbers, may be meant as numbers to predict. */
enum { HD_MANY_CLASSES = 50 };

/* The version of the rules by which files become samples; run.json has it. The first rules, those of runs without a
 * version, took a fifth of all samples as the test set whatever their classes, did not know validation/ and dev/ as
 * test sets of pictures, and ignored the transparency and the EXIF orientation of pictures. */
enum { HD_DATA_RULES = 2 };

/* The data set to open, and how. Samples are normalised by
 *
 * channel  (x - mean) / std of each channel, over all its pixels, rounded to 4 decimals
 * column   (x - mean) / std of each column of a table, in double (data/tables/features.h); samples come normalised
 * none     x, and pixels in [0, 1]
 * auto     column for rows of floats in memory under a model that reads rows, else channel */
typedef struct hd_dataset_request {
  const char *name;      /* or path */
  const char *data_dir;  /* searched first for named sets; may be NULL or "" */
  int ignored;           /* a label that need not be a class; -1: none */
  hd_cache_choice cache; /* where decoded samples are kept */
  bool skip;             /* skip unreadable samples, in formats that read samples one by one */
  hd_normalize_choice normalize;
  bool rows;                   /* the model reads rows: its input has neither height nor channels */
  hd_csv_options table;        /* how CSV files are read */
  hd_class_names classes;      /* of a run: labels get the numbers that these have */
  const hd_palette *palette;   /* of a run's masks: theirs has its colours, unless classes have names; NULL: any */
  const hd_features *features; /* those of a run, for normalize column; NULL: those of this data */
  const double *mean, *std;    /* `columns` each: for normalize column, in place of those of this data; NULL: those */
  int64_t columns;
  bool of_run;      /* it is read for an existing run, with the classes and features above */
  bool first_rules; /* by the rules of the first version */
  hd_fold fold;     /* the test set */
  bool whole;       /* a set without a test set is not divided: both splits are all of it */
  bool allow_empty; /* class folders without pictures are accepted */
  hd_photo_rules photos;
  int32_t context; /* of texts: tokens of a window; 0: the format decides */
  bool bytes;      /* of texts: bytes are the tokens, not characters */
} hd_dataset_request;

/* Names of classes. */
typedef struct hd_names {
  const char **name; /* `count` of them; NULL: none */
  char *text;        /* the names, each with its NUL */
  int count;
} hd_names;

/* Memory of a split whose samples are there, an array for each kind. */
typedef struct hd_split_memory {
  uint8_t *images; /* memory of the split's fields of these names, or NULL */
  float *floats;
  int32_t *labels;
  uint8_t *masks;
  float *targets, *weights;
  double *numbers; /* of rows of a table, where floats would round some of them; else NULL */
} hd_split_memory;

/* Lines for the user of the data set: a class without samples, a folder that is not used. */
enum { HD_DATA_NOTES = 6 };

/* A format fills the first part (format.h), hd__dataset_finish the second one. It owns the memory behind both splits,
 * and is read only once it is open. */
typedef struct hd_dataset {
  char *name; /* as requested */
  const struct hd_format *format;
  hd_split split[2]; /* training, test */
  hd_split_memory memory[2];
  hd_names names;
  hd_palette palette;            /* of masks */
  hd_features features;          /* of a table, or of rows normalised by columns; count 0: none */
  char *note[HD_DATA_NOTES + 1]; /* NULL after the last */
  bool first_rules;              /* of the request */
  hd_fold fold;                  /* of the request */
  bool whole;                    /* of the request, */
  bool shared;                   /* and so both splits are the same samples, in memory that the first has */
  bool read_later;               /* labels of a custom data set arrive as its samples are read */
  bool divided;                  /* its test set is a part of its samples, a fifth or a fold */
  void *self;                    /* of the format, */
  void (*release)(void *self);   /* which frees the rest of it */

  hd_skips *skips[2];
  hd_sample_cache cache[2];
  hd_statistics statistics;
  uint64_t lent[2][2];           /* checksums of labels and weights in arrays of the program */
  hd_normalize_choice normalize; /* never auto */
  float *rows[2];                /* normalised by columns */
  int32_t *labels[2];            /* with the numbers of a run's classes, or NULL */
} hd_dataset;

static inline const hd_split *hd__dataset_train(const hd_dataset *data) { return &data->split[0]; }
static inline const hd_split *hd__dataset_test(const hd_dataset *data) { return &data->split[1]; }

/* The features of its rows; NULL: samples are no rows, or are normalised by channels and have no texts. */
static inline const hd_features *hd__dataset_features(const hd_dataset *data) {
  return data->features.count > 0 ? &data->features : NULL;
}

/* HD_E_USAGE where the program has changed arrays that a custom data set reads in place. */
hd_status hd__dataset_check_unchanged(const hd_dataset *data, hd_ctx *ctx);

/* Frees everything, after a failure too; NULL is allowed. hd__dataset_open is in data/formats/formats.h. */
void hd__dataset_close(hd_dataset *data);
