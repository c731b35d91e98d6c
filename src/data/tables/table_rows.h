/* Rows of a CSV file for a run: columns become the features that training made from its own table.
 *
 * Columns are found by their names, or by their places where there are none. Rows of a run on an array are its numbers
 * in order. The label need not be there. */
#pragma once

#include "data/tables/table_features.h"

typedef struct hd_table_rows {
  hd_csv_table table;
  float *floats;   /* features of each row, empty fields filled, not normalised */
  double *numbers; /* the same before they are rounded; NULL for a run on arrays, whose numbers were floats */
} hd_table_rows;

/* Reads a file, or standard input ("-"). features: the run's; without columns, or NULL: it read arrays, of `width`
 * numbers. Errors name the file and the line. The rows are to be released after a failure, too. */
hd_status hd__table_rows_open(hd_table_rows *out, hd_ctx *ctx, const char *path, const hd_features *features,
                              int32_t width, const hd_csv_options *options);
void hd__table_rows_close(hd_table_rows *rows);
