/* Data sets for training: a training and a test split (data/loader/dataset_split.h).
 *
 * A name or a path is opened by the first format of a table that accepts it (dataset.c). The mean and standard
 * deviation are the training set's, per channel, of pixels in [0, 1] or of the floats, rounded to 4 decimals
 * (data_statistics.h). */
#pragma once

#include "base/tools_api.h"
#include "data/images/image_file.h"
#include "data/loader/dataset_split.h"
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
typedef struct hd_data_request {
  const char *name;      /* or path */
  const char *data_dir;  /* searched first for named sets; may be NULL or "" */
  int ignored;           /* a label that need not be a class; -1: none */
  hd_cache_choice cache; /* where decoded samples are kept */
  bool skip;             /* skip unreadable samples, in formats that read samples one by one */
  hd_normalize_choice normalize;
  bool rows;                   /* the model reads rows: its input has neither height nor channels */
  hd_csv_options table;        /* how CSV files are read */
  hd_class_names classes;      /* of a run: labels get the numbers that these have */
  const hd_features *features; /* those of a run, for normalize column; NULL: those of this data */
  const double *mean, *std;    /* `columns` each: for normalize column, in place of those of this data; NULL: those */
  int64_t columns;
  bool of_run;      /* it is read for an existing run, with the classes and features above */
  bool first_rules; /* by the rules of the first version */
  hd_fold fold;     /* the test set */
  bool whole;       /* a set without a test set is not divided: both splits are all of it */
  bool allow_empty; /* class folders without pictures are accepted */
  hd_photo_rules photos;
} hd_data_request;

typedef struct hd_data hd_data;

/* Opens both splits. */
hd_status hd__data_open(hd_data **out, hd_ctx *ctx, const hd_data_request *request);
void hd__data_close(hd_data *data); /* NULL allowed */

const hd_dataset *hd__data_train(const hd_data *data);
const hd_dataset *hd__data_test(const hd_data *data);
const char *hd__data_name(const hd_data *data);
const char *hd__data_format(const hd_data *data); /* "a folder of IDX files" */
bool hd__data_has_first_rules(const hd_data *data);
const char *const *hd__data_notes(const hd_data *data); /* lines for the user; NULL after the last */
const double *hd__data_mean(const hd_data *data);       /* per channel */
const double *hd__data_std(const hd_data *data);
hd_normalize_choice hd__data_normalize(const hd_data *data); /* never auto */

/* The features of a table; NULL: samples are no rows, or are normalised by channels and have no texts. */
const hd_features *hd__data_features(const hd_data *data);

/* Whether both splits are all samples, as the request asked. */
bool hd__data_is_whole(const hd_data *data);

/* Whether it was read from CSV files. */
bool hd__data_is_table(const hd_data *data);

/* Whether it was read from class folders of pictures. */
bool hd__data_is_folder(const hd_data *data);

/* Training samples, training labels, test samples, test labels. */
HD_TOOLS_API const uint64_t *hd__data_checksums(const hd_data *data);
