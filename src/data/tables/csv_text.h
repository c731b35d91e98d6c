/* The text of a CSV file: lines of fields, as RFC 4180 has them.
 *
 * Fields are separated by commas. A field in double quotes may hold commas, line ends and, doubled, quotes. Lines end
 * with LF, CR LF, or CR alone, as spreadsheets on a Mac wrote them; empty lines are ignored, and spaces around a field.
 * Every error names the line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "platform/file.h"

typedef struct hd_csv_field {
  const char *at; /* in the file, without its quotes */
  size_t length;
  bool quoted;
} hd_csv_field;

typedef struct hd_csv_cursor {
  const char *path; /* for messages */
  const char *at, *end;
  int64_t line; /* of the next field, counted from 1 */
} hd_csv_cursor;

hd_csv_cursor hd__csv_begin(const hd_mapping *file, const char *path);

/* The number of line ends from `from` to before `to`. No row takes less than one, but for the last. */
int64_t hd__csv_line_ends(const char *from, const char *to);

/* Skips empty lines; false at the end. */
bool hd__csv_more(hd_csv_cursor *cursor);

/* Reads a field and its comma; *last: it ends its line. HD_E_FORMAT for quotes that are not closed or are followed by
 * more. */
hd_status hd__csv_next(hd_csv_field *out, bool *last, hd_csv_cursor *cursor, hd_ctx *ctx);

/* A finite decimal number that fits float, with a point, whatever the locale. */
bool hd__csv_number(double *out, const hd_csv_field *field);

/* A whole number without a sign. */
bool hd__csv_is_whole(const hd_csv_field *field);

/* No text, or a usual word for none: NA, NaN, null. */
bool hd__csv_is_empty(const hd_csv_field *field);

/* The text, as hd__utf8_clean writes it. Returns whether that is all of it: UTF-8 without control characters that has
 * room in `bytes`. */
bool hd__csv_text(char *out, size_t bytes, const hd_csv_field *field);

/* The text as the name of a class: hd__utf8_escape. */
void hd__csv_name(char *out, size_t bytes, const hd_csv_field *field);

/* The order of the texts' bytes, for qsort and bsearch. */
int hd__csv_compare(const void *a, const void *b);

/* Whether a field's text is this one, ignoring the case of ASCII letters. */
bool hd__csv_is(const hd_csv_field *field, const char *text);
bool hd__csv_is_nearly(const hd_csv_field *field, const char *text);

/* Whether a text is written as a number that cannot be read: 0,5 or inf or 1e999. */
bool hd__csv_is_bad_number(const hd_csv_field *field);
