/* Tables as features: the features of a training table's columns, and the numbers of a table's rows.
 *
 * A column of numbers is one feature, a column of texts one for each text, in the order of their bytes; a column with
 * empty fields has one more, which is 1 for them. Columns of another table are found by their names, or without names
 * by their places. */
#pragma once

#include "data/tables/csv_table.h"
#include "data/tables/features.h"

enum { HD_TABLE_NOTES = 2, HD_TABLE_NOTE_BYTES = 320 };

/* The features of a training table, with the label's name. HD_E_FORMAT for a column that is neither numbers nor a few
 * texts, or that has no field. The caller releases them, after a failure too. */
hd_status hd__table_features(hd_features *out, hd_ctx *ctx, const hd_csv_table *table, const hd_csv_options *options);

/* The same for a run on an array: `count` columns (0: as many as there are), each a number in every row. */
hd_status hd__table_plain(hd_features *out, hd_ctx *ctx, const hd_csv_table *table, const hd_csv_options *options,
                          int32_t count);

/* HD_E_FORMAT for an empty field, if the options refuse them. */
hd_status hd__table_check_empty(hd_ctx *ctx, const hd_csv_table *table, const hd_csv_options *options);

/* Writes features->count numbers for each row; `numbers` is NULL where none is wanted. An empty field is NAN.
 * HD_E_FORMAT for columns that are missing or not among the features, and for fields that training had none of. */
hd_status hd__table_numbers(float *floats, double *numbers, hd_ctx *ctx, const hd_csv_table *table,
                            const hd_features *features);

/* The assumptions about a training table, for the user: a line each, or "". */
void hd__table_describe(char note[HD_TABLE_NOTES][HD_TABLE_NOTE_BYTES], const hd_csv_table *table,
                        const hd_features *features);
