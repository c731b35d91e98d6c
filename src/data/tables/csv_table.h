/* One CSV file as a table: whether it has a header, which column is the label, and the kinds of its columns.
 *
 * The label is the column that --label names, or several, whose names are written as a line of a table is; else the
 * one called label, target, class or species in upper or lower case, else the last. A first line is a header if it has
 * one of these names, or a text in a column whose other fields are numbers, or as label a text that does not occur
 * again although all others do; where this is unclear, as for 0,1,2 over numbers, --header is required. A first column
 * without a name that counts up is an index, and is left out. Rows to predict have a label only if a column has the
 * given name, or one of these; without names if there are as many columns as in training. */
#pragma once

#include "data/tables/csv_text.h"

enum { HD_CSV_MOST_COLUMNS = 65536, HD_CSV_MOST_LABELS = 256, HD_CSV_NAME_BYTES = 256, HD_CSV_CATEGORIES = 50 };

typedef enum hd_csv_header { HD_CSV_HEADER_AUTO, HD_CSV_HEADER_YES, HD_CSV_HEADER_NO } hd_csv_header;

/* The meaning of whole numbers as labels; AUTO: classes, except in a column called target. */
typedef enum hd_labels { HD_LABELS_AUTO, HD_LABELS_CLASSES, HD_LABELS_NUMBERS } hd_labels;

/* The options for reading a table. */
typedef struct hd_csv_options {
  const char *label;   /* the column's name, or its number from 1 on where there is no header, or several of these with
                          commas between them; "": by itself */
  const char *weights; /* the name of the column of weights; "" or NULL: none */
  hd_csv_header header;
  int32_t categories; /* the most texts of a column that become features; 0: HD_CSV_CATEGORIES */
  bool refuses_empty; /* no field may be empty */
  hd_labels labels;
  bool is_found;         /* the label is the column that training chose by default, which determines what its numbers
                         are */
  bool may_lack_weights; /* other rows than training's need not have that column */
  bool is_unlabelled;    /* rows to predict: they need no label, and may come on standard input, "-" */
  int32_t columns;       /* of those: training's where columns have no names, its label's among them */
} hd_csv_options;

typedef struct hd_csv_column {
  hd_csv_field name;               /* in the header */
  int64_t numbers, empties, texts; /* fields of each kind */
  hd_csv_field first, first_text;  /* the first line's field; the first that is a text */
  int64_t first_text_line, first_empty_line;
  bool comes_again; /* the first line's text does, below */
  bool inexact;     /* some number is not a float */
  bool counts;      /* each number is the one above and one more */
  double above;
  hd_csv_field *text; /* different texts, sorted; NULL once there are too many */
  int64_t *text_count;
  int32_t texts_found;
  hd_csv_field *field; /* of each row, where the column has labels or weights; else NULL */
} hd_csv_column;

typedef struct hd_csv_table {
  const char *path;
  hd_mapping file;
  hd_csv_cursor rows; /* at the first row */
  hd_csv_column *column;
  int32_t columns, labels;
  int32_t label[HD_CSV_MOST_LABELS]; /* the columns of labels, `labels` of them, in the order of --label */
  int32_t weight;                    /* that of weights; -1: there is none */
  bool by_name;                      /* the label's column has a usual name, or --label named it */
  bool is_doubtful;   /* --label is a number that the first line has: a column's name, or a field of a sample */
  bool is_target;     /* it is called target */
  bool is_class;      /* it is called label, class or species */
  bool header, index; /* there is one */
  int64_t count;      /* rows */
  int64_t *line;      /* of each row */
} hd_csv_table;

/* Reads a file once. The table is to be released after a failure, too. HD_E_FORMAT, naming the line, for rows of
 * different lengths, if --label names no column, or --header is needed. */
hd_status hd__csv_open(hd_csv_table *out, hd_ctx *ctx, const char *path, const hd_csv_options *options);
void hd__csv_close(hd_csv_table *table);

/* The fields of label column `k`, one for each row. */
static inline const hd_csv_field *hd__csv_labels(const hd_csv_table *table, int32_t k) {
  return table->column[table->label[k]].field;
}

/* Whether a column holds numbers: not fewer of its fields than are texts. */
bool hd__csv_has_numbers(const hd_csv_column *column);

/* "column 'age'", or "column 3". */
const char *hd__csv_column_name(char text[HD_CSV_NAME_BYTES + 16], const hd_csv_table *table, int32_t column);

/* HD_E_FORMAT for a field that is no number, with what may have been meant. */
hd_status hd__csv_no_number(hd_ctx *ctx, const hd_csv_table *table, int64_t line, int32_t column,
                            const hd_csv_field *field);
