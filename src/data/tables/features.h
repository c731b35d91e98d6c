/* Features: the numbers that a network reads of a row of a table, each made of one column.
 *
 *     a number        the field's number; of an empty field the column's mean, where training had such fields
 *     a category      1 where the field is this text, else 0; a column of texts has one for each text
 *     an empty field  1 where the field is empty, else 0
 *
 * The network reads (x - mean) / std, computed in double, with the training set's mean and standard deviation of each
 * feature; neither is rounded. The standard deviation of a constant is 1. Features are stored with a run, so that other
 * rows are read as the training set's were. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct hd_feature {
  char *column;   /* its name, or NULL: the table has no header */
  int32_t place;  /* the column's number in the training file, from 0 on */
  char *category; /* NULL: not a category */
  bool empty;     /* 1 for empty fields */
  double fill;    /* of a number: the value of an empty field; NAN: none may be empty */
  double mean, std;
} hd_feature;

/* One of several columns of labels: numbers, or texts, which are classes. */
typedef struct hd_target_column {
  char *column;      /* its name, or NULL */
  char **class_name; /* `classes` of them, in the order of their numbers; NULL: numbers */
  int32_t classes;
} hd_target_column;

typedef struct hd_features {
  hd_feature *feature;      /* in the order in which a row has them */
  int32_t count;            /* 0: samples are no rows of a table */
  int32_t columns;          /* of the training file, the label among them; 0: an array's */
  bool given;               /* means and standard deviations are a network's own, not the training set's */
  char *label;              /* name of the column of labels or targets, or NULL; of several as --label has them */
  hd_target_column *target; /* `targets` of them, where several columns are labels; else NULL */
  int32_t targets;
} hd_features;

void hd__features_fini(hd_features *features);

/* A copy that the caller releases. */
hd_status hd__features_copy(hd_features *out, hd_ctx *ctx, const hd_features *features);

/* Names the classes of a column of labels; false without memory. */
bool hd__target_column_name(hd_target_column *column, const char *const *name, int32_t count);

/* `count` numbers of columns without names, mean 0 and std 1. */
hd_status hd__features_numbers(hd_features *out, hd_ctx *ctx, int32_t count);

/* Computes the means and standard deviations of `rows` rows, which are doubles or, where those are NULL, floats; NAN is
 * an empty field, and does not count towards the mean, which it is read as. Each sum runs down the rows, over
 * differences to the first number, in double. `weights`: of rows; NULL: all count once. */
hd_status hd__features_measure(hd_features *features, hd_ctx *ctx, const double *numbers, const float *floats,
                               const float *weights, int64_t rows);

/* Fills empty fields in the floats and, unless NULL, the doubles. */
void hd__features_fill(double *numbers, float *floats, const hd_features *features, int64_t rows);

/* Writes (x - mean) / std of each number, which is a double or, where those are NULL, what is in `floats`. */
void hd__features_apply(float *floats, const hd_features *features, const double *numbers, int64_t rows);
