/* Reading a table once, to determine its structure: see csv_table.h. */
#include "data/tables/csv_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/text_buffer.h"
#include "base/utf8.h"

static const char NO_MEMORY[] = "%s: out of memory for a table";

void hd__csv_close(hd_csv_table *t) {
  for (int32_t i = 0; t->column && i < t->columns; i++) {
    hd__free(t->column[i].text);
    hd__free(t->column[i].text_count);
    hd__free(t->column[i].field);
  }
  hd__free(t->column);
  hd__free(t->line);
  hd__file_unmap(&t->file);
  *t = (hd_csv_table){0};
}

bool hd__csv_has_numbers(const hd_csv_column *c) { return c->numbers >= c->texts; }

const char *hd__csv_column_name(char text[HD_CSV_NAME_BYTES + 16], const hd_csv_table *t, int32_t column) {
  char name[HD_CSV_NAME_BYTES];
  hd__csv_text(name, sizeof name, &t->column[column].name);
  if (t->header && *name)
    snprintf(text, HD_CSV_NAME_BYTES + 16, "column '%s'", name);
  else
    snprintf(text, HD_CSV_NAME_BYTES + 16, "column %d", column + 1);
  return text;
}

hd_status hd__csv_no_number(hd_ctx *ctx, const hd_csv_table *t, int64_t line, int32_t column, const hd_csv_field *f) {
  char text[48], name[HD_CSV_NAME_BYTES + 16];
  hd__utf8_clean(text, sizeof text, f->at, f->length);
  const bool comma = memchr(f->at, ',', f->length) != NULL, semicolon = memchr(f->at, ';', f->length) != NULL;
  return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a finite number in %s, found %s%s%s; %s", t->path,
                  (long long)line, hd__csv_column_name(name, t, column), f->length ? "'" : "",
                  f->length ? text : "an empty field", f->length ? "'" : "",
                  comma       ? "write a decimal point, not a comma"
                  : semicolon ? "separate fields by commas and write decimal points"
                              : "correct the field, or drop the row");
}

/* ---- The first line ---- */

static hd_status add_column(hd_csv_table *t, hd_ctx *ctx, const hd_csv_field *f) {
  if (t->columns == HD_CSV_MOST_COLUMNS)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s:%lld: expected up to %d columns, found more; drop some", t->path,
                    (long long)t->rows.line, HD_CSV_MOST_COLUMNS);
  if ((t->columns & (t->columns - 1)) == 0) { /* a power of two; all places are used */
    const size_t room = t->columns ? 2 * (size_t)t->columns : 1;
    hd_csv_column *more = hd__realloc(t->column, room * sizeof *more);
    HD_TRY(HD_ALLOCATED(more, ctx, NO_MEMORY, t->path));
    t->column = more;
  }
  t->column[t->columns++] = (hd_csv_column){.first = *f, .name = *f, .counts = true};
  return HD_OK;
}

static hd_status read_first_line(hd_csv_table *t, hd_ctx *ctx, hd_csv_cursor *c, const hd_csv_options *options) {
  const int64_t line = c->line;
  bool last = false;
  while (!last) {
    hd_csv_field f;
    HD_TRY(hd__csv_next(&f, &last, c, ctx));
    HD_TRY(add_column(t, ctx, &f));
  }
  if (t->columns >= 2 || options->is_unlabelled)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s:%lld: expected at least two columns with commas between them, found %d; separate fields by commas", t->path,
      (long long)line, t->columns);
}

/* ---- The columns of labels and weights ---- */

enum { NONE = -1, SEVERAL = -2 };

/* The column of this name, else the one of this name in another case; NONE or SEVERAL. */
static int32_t find_named(const hd_csv_table *t, const char *name) {
  int32_t found = NONE;
  for (int32_t i = 0; i < t->columns; i++)
    if (hd__csv_is(&t->column[i].first, name))
      return i;
  for (int32_t i = 0; i < t->columns; i++)
    if (hd__csv_is_nearly(&t->column[i].first, name))
      found = found == NONE ? i : SEVERAL;
  return found;
}

static const char *const usual[] = {"label", "target", "class", "species"};
enum { USUAL = sizeof usual / sizeof *usual, TARGET = 1 };

static void take_kind(hd_csv_table *t, int name) {
  t->is_target = name == TARGET;
  t->is_class = name != TARGET;
}

/* `what` the column is, "label's column", and the option that names it. */
static hd_status refuse_column(hd_ctx *ctx, const hd_csv_table *t, const char *label, const char *what,
                               const char *option) {
  enum { BYTES = 64, SHOWN = 8 };
  char name[BYTES], best[BYTES], list[SHOWN * (BYTES + 2)] = "";
  hd_nearest nearest = {.word = label};
  hd_line shown = {.text = list, .bytes = sizeof list};
  for (int32_t i = 0; i < t->columns; i++) {
    hd__csv_name(name, sizeof name, &t->column[i].first);
    hd__nearest_try(&nearest, name);
    if (nearest.name == name)
      nearest.name = memcpy(best, name, sizeof best); /* `name` is the next one's */
    double number;                                    /* the first line of a file without names */
    if (i < SHOWN && !hd__csv_number(&number, &t->column[i].first))
      hd__line_add(&shown, "%s%s", *list ? ", " : ": ", name);
  }
  if (nearest.name)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s:1: expected the %s '%.200s' in the first line, found none; did you mean '%s'?", t->path, what,
                    label, best);
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:1: expected the %s '%.200s' in the first line, found none; name one with %s%s%s", t->path, what,
                  label, option, list, *list && t->columns > SHOWN ? " and others" : "");
}

static bool is_label(const hd_csv_table *t, int32_t column) {
  int32_t k = 0;
  while (k < t->labels && t->label[k] != column)
    k++;
  return k < t->labels;
}

/* The column of labels of this name or number, which rows to predict need not have. */
static hd_status add_label(hd_csv_table *t, hd_ctx *ctx, const hd_csv_options *options, const char *name) {
  int64_t number;
  const bool is_number = hd__parse_int64(&number, name) && number >= 1 && number <= t->columns;
  int32_t column = options->header == HD_CSV_HEADER_NO ? NONE : find_named(t, name);
  const bool is_doubtful = column >= 0 && is_number && options->header == HD_CSV_HEADER_AUTO;
  t->is_doubtful = t->is_doubtful || is_doubtful;
  t->by_name = t->by_name || (column >= 0 && !is_doubtful);
  const bool by_number = !options->is_unlabelled || options->header != HD_CSV_HEADER_YES;
  if (column < 0 && by_number && is_number)
    column = (int32_t)number - 1;
  if (column == SEVERAL)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s:1: expected one column '%.200s', found several that differ in case; write the name as the file "
                    "has it",
                    t->path, name);
  if (column < 0)
    return options->is_unlabelled ? HD_OK : refuse_column(ctx, t, name, "label's column", "--label");
  if (is_label(t, column) || t->labels == HD_CSV_MOST_LABELS)
    return hd__fail(ctx, HD_E_USAGE, "%s: --label expects up to %d different columns, found '%.200s' %s", t->path,
                    HD_CSV_MOST_LABELS, name, is_label(t, column) ? "twice; name each once" : "beyond them");
  t->label[t->labels++] = column;
  return HD_OK;
}

/* Several columns, which are named as a line of a table has its fields. */
static hd_status add_each(hd_csv_table *t, hd_ctx *ctx, const hd_csv_options *options) {
  hd_csv_cursor c = {"--label", options->label, options->label + strlen(options->label), 1};
  for (bool last = false; !last;) {
    hd_csv_field f;
    char name[HD_CSV_NAME_BYTES];
    HD_TRY(hd__csv_next(&f, &last, &c, ctx));
    hd__csv_text(name, sizeof name, &f);
    if (f.length == 0 || (last && c.at < c.end))
      return hd__fail(ctx, HD_E_USAGE, "--label expects names of columns with commas between them, found '%.200s'",
                      options->label);
    HD_TRY(add_label(t, ctx, options, name));
  }
  return HD_OK;
}

static hd_status take_named(hd_csv_table *t, hd_ctx *ctx, const hd_csv_options *options) {
  const bool is_whole = options->header != HD_CSV_HEADER_NO && find_named(t, options->label) >= 0;
  HD_TRY(is_whole || !strchr(options->label, ',') ? add_label(t, ctx, options, options->label)
                                                  : add_each(t, ctx, options));
  for (int i = 0; i < USUAL && t->by_name && options->is_found; i++)
    if (!strcasecmp(options->label, usual[i]))
      take_kind(t, i);
  return HD_OK;
}

/* Weights have a name in the first line. */
static hd_status find_weights(hd_csv_table *t, hd_ctx *ctx, const hd_csv_options *options) {
  t->weight = NONE;
  if (!options->weights || !*options->weights)
    return HD_OK;
  if (options->header == HD_CSV_HEADER_NO)
    return hd__fail(ctx, HD_E_USAGE,
                    "--weights expects a table whose first line has names, found --header no; name "
                    "the columns");
  t->weight = find_named(t, options->weights);
  if (t->weight == SEVERAL || is_label(t, t->weight))
    return hd__fail(ctx, HD_E_FORMAT, "%s:1: expected a column '%.200s' of weights, found %s", t->path,
                    options->weights,
                    t->weight < 0 ? "several; rename all but one" : "it as the label; name the label with --label");
  if (t->weight >= 0 || options->may_lack_weights)
    return HD_OK;
  return refuse_column(ctx, t, options->weights, "column of weights", "--weights");
}

/* The column of a usual name, else the last where there is a label. */
static hd_status take_usual(hd_csv_table *t, hd_ctx *ctx, bool has_label) {
  t->labels = has_label;
  t->label[0] = t->columns - 1;
  for (int i = 0; i < USUAL; i++) {
    const int32_t found = find_named(t, usual[i]);
    if (found == SEVERAL || (found >= 0 && t->by_name))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s:1: expected one column called label, target, class or species, found several; name one with "
                      "--label",
                      t->path);
    if (found >= 0) {
      t->labels = 1;
      t->label[0] = found;
      t->by_name = true;
      take_kind(t, i);
    }
  }
  return HD_OK;
}

static hd_status find_label(hd_csv_table *t, hd_ctx *ctx, const hd_csv_options *options) {
  const bool has_label = !options->is_unlabelled || t->columns == options->columns;
  if (*options->label && (has_label || options->header != HD_CSV_HEADER_NO))
    return take_named(t, ctx, options);
  if (options->header != HD_CSV_HEADER_NO)
    return take_usual(t, ctx, !options->is_unlabelled);
  t->labels = has_label;
  t->label[0] = t->columns - 1;
  return HD_OK;
}

/* ---- The columns' fields ---- */

static hd_status add_text(hd_csv_column *c, hd_ctx *ctx, const hd_csv_table *t, const hd_csv_field *f, int32_t most) {
  int32_t low = 0, high = c->texts_found;
  if (c->texts_found > most)
    return HD_OK;
  if (!c->text) {
    HD_TRY(HD_NEW_RAW(c->text, most + 1, ctx, NO_MEMORY, t->path));
    HD_TRY(HD_NEW_RAW(c->text_count, most + 1, ctx, NO_MEMORY, t->path));
  }
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    const int order = hd__csv_compare(f, &c->text[middle]);
    if (order == 0) {
      c->text_count[middle]++;
      return HD_OK;
    }
    low = order > 0 ? middle + 1 : low;
    high = order < 0 ? middle : high;
  }
  memmove(c->text + low + 1, c->text + low, (size_t)(c->texts_found - low) * sizeof *c->text);
  memmove(c->text_count + low + 1, c->text_count + low, (size_t)(c->texts_found - low) * sizeof *c->text_count);
  c->text[low] = *f;
  c->text_count[low] = 1;
  if (++c->texts_found > most) {
    hd__free(c->text);
    hd__free(c->text_count);
    c->text = NULL;
    c->text_count = NULL;
  }
  return HD_OK;
}

static void add_number(hd_csv_column *c, double number) {
  c->counts = c->counts && (c->numbers == 0 || number == c->above + 1);
  c->inexact = c->inexact || (double)(float)number != number;
  c->above = number;
  c->numbers++;
}

/* Texts are collected from the first field on, numbers among them, until they are too many. */
static hd_status add_field(hd_csv_column *c, hd_ctx *ctx, const hd_csv_table *t, const hd_csv_field *f, int64_t line,
                           int32_t most) {
  double number;
  if (hd__csv_is_empty(f)) {
    c->first_empty_line = c->empties++ ? c->first_empty_line : line;
    return HD_OK;
  }
  if (hd__csv_number(&number, f)) {
    add_number(c, number);
  } else {
    c->first_text = c->texts ? c->first_text : *f;
    c->first_text_line = c->texts++ ? c->first_text_line : line;
  }
  return add_text(c, ctx, t, f, most);
}

static hd_status read_row(hd_csv_table *t, hd_ctx *ctx, hd_csv_cursor *c, int32_t most) {
  const int64_t line = c->line;
  bool last = false;
  int32_t column = 0;
  for (; !last; column++) {
    hd_csv_field f;
    HD_TRY(hd__csv_next(&f, &last, c, ctx));
    if (column >= t->columns)
      continue;
    hd_csv_column *to = &t->column[column];
    to->comes_again = to->comes_again || (f.length > 0 && hd__csv_compare(&f, &to->first) == 0);
    if (to->field)
      to->field[t->count] = f;
    HD_TRY(add_field(to, ctx, t, &f, line, most));
  }
  if (column != t->columns)
    return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected %d fields as in the first line, found %d; correct the line",
                    t->path, (long long)line, t->columns, column);
  t->line[t->count++] = line;
  return HD_OK;
}

/* An upper bound of the rows below the first line: each has a line's end and a byte for each column. */
static int64_t most_rows(const hd_csv_table *t, const hd_csv_cursor *from) {
  const int64_t lines = 1 + hd__csv_line_ends(from->at, from->end);
  const int64_t fit = (from->end - from->at) / t->columns + 1;
  return lines < fit ? lines : fit;
}

/* In a table of one column an empty line is a row with an empty field, or no row. */
static hd_status refuse_empty_line(const hd_csv_table *t, hd_ctx *ctx, int64_t expected, int64_t found) {
  if (t->columns > 1 || found == expected)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s:%lld: expected a field in the only column, found an empty line; write \"\" for an empty field, or "
      "drop the line",
      t->path, (long long)expected);
}

/* Memory for the fields of the columns of labels and weights, the first line's among them. */
static hd_status keep_fields(hd_csv_table *t, hd_ctx *ctx, int64_t room) {
  for (int32_t i = 0; i < t->columns; i++) {
    hd_csv_column *c = &t->column[i];
    if (i != t->weight && !is_label(t, i))
      continue;
    HD_TRY(HD_NEW_RAW(c->field, room, ctx, NO_MEMORY, t->path));
    c->field[0] = c->first;
  }
  return HD_OK;
}

/* Reads the first line, as a row for now, and all rows below it. */
static hd_status read_rows(hd_csv_table *t, hd_ctx *ctx, hd_csv_cursor c, int64_t first_line, int32_t most) {
  const int64_t room = most_rows(t, &c) + 1;
  HD_TRY(keep_fields(t, ctx, room));
  HD_TRY(HD_NEW_RAW(t->line, room, ctx, NO_MEMORY, t->path));
  t->line[0] = first_line;
  t->count = 1;
  HD_TRY(refuse_empty_line(t, ctx, 1, first_line));
  bool more = true;
  while (more) {
    const int64_t line = c.line;
    more = hd__csv_more(&c);
    HD_TRY(refuse_empty_line(t, ctx, line, c.line));
    assert(!more || t->count < room);
    if (more)
      HD_TRY(read_row(t, ctx, &c, most));
  }
  return HD_OK;
}

/* ---- The header ---- */

/* A text over numbers. */
static bool is_name(const hd_csv_column *c) {
  double number;
  return !hd__csv_is_empty(&c->first) && !hd__csv_number(&number, &c->first) && c->numbers > 0 && c->texts == 0;
}

typedef enum answer { NO, YES, UNKNOWN } answer;

/* A text that does not occur again, over texts that all do; unknown if only some do. */
static answer is_name_of_texts(const hd_csv_column *c, int32_t most) {
  double number;
  int32_t again = 0;
  if (c->texts == 0 || c->texts_found > most || c->comes_again || hd__csv_is_empty(&c->first) ||
      hd__csv_number(&number, &c->first))
    return NO;
  for (int32_t i = 0; i < c->texts_found; i++)
    again += c->text_count[i] > 1;
  return again == 0 ? NO : again == c->texts_found ? YES : UNKNOWN;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Whether the first label is a number that does not occur again, over whole numbers that all do: the name of a column,
 * or the only sample of a class. */
static hd_status is_number_of_its_own(bool *out, const hd_csv_table *t, hd_ctx *ctx, const hd_csv_field *field) {
  HD_OWNED double *label = NULL;
  *out = false;
  if (t->count < 3)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(label, t->count, ctx, NO_MEMORY, t->path));
  for (int64_t row = 0; row < t->count; row++)
    if (!hd__csv_number(&label[row], &field[row]) || !hd__csv_is_whole(&field[row]))
      return HD_OK;
  const double first = label[0];
  qsort(label, (size_t)t->count, sizeof *label, by_value);
  for (int64_t i = 0, again; i < t->count; i += again) {
    for (again = 1; i + again < t->count && label[i + again] == label[i]; again++)
      ;
    if ((again == 1) != (label[i] == first))
      return HD_OK;
  }
  *out = true;
  return HD_OK;
}

/* 0, 1, 2, ..., the names of columns without names. */
static bool counts_up(const hd_csv_table *t) {
  double number = 0;
  int32_t i = 0;
  while (i < t->columns && hd__csv_number(&number, &t->column[i].first) && number == i)
    i++;
  return i == t->columns;
}

/* Whether a text of the first line occurs again in its column: it is no name. */
static bool comes_again(const hd_csv_table *t) {
  double number;
  for (int32_t i = 0; i < t->columns; i++) {
    const hd_csv_column *c = &t->column[i];
    if (c->comes_again && !hd__csv_is_empty(&c->first) && !hd__csv_number(&number, &c->first))
      return true;
  }
  return false;
}

/* A first line of texts alone may be either. */
static answer has_header(const hd_csv_table *t, int32_t most) {
  double number;
  bool numbers = false;
  if (t->by_name || t->weight >= 0)
    return YES;
  for (int32_t i = 0; i < t->columns; i++)
    if (is_name(&t->column[i]))
      return YES;
  if (comes_again(t))
    return NO;
  for (int32_t k = 0; k < t->labels; k++) {
    const answer by_label = is_name_of_texts(&t->column[t->label[k]], most);
    if (by_label != NO)
      return by_label;
  }
  for (int32_t i = 0; i < t->columns; i++) {
    const bool is_number = hd__csv_number(&number, &t->column[i].first);
    if (is_number && t->column[i].texts > 1 && t->column[i].numbers == 0)
      return counts_up(t) ? YES : UNKNOWN; /* a number over texts */
    numbers = numbers || is_number;
  }
  if (counts_up(t))
    return UNKNOWN; /* as columns without names are numbered; or a sample */
  return numbers ? NO : t->count == 1 ? YES : UNKNOWN;
}

static hd_status find_header(hd_csv_table *t, hd_ctx *ctx, const hd_csv_options *options) {
  answer found = options->header == HD_CSV_HEADER_AUTO  ? has_header(t, options->categories)
                 : options->header == HD_CSV_HEADER_YES ? YES
                                                        : NO;
  for (int32_t k = 0; k < t->labels && options->header == HD_CSV_HEADER_AUTO && found == NO; k++) {
    bool alone;
    HD_TRY(is_number_of_its_own(&alone, t, ctx, hd__csv_labels(t, k)));
    found = alone ? UNKNOWN : NO;
  }
  t->header = found == YES;
  if (found != UNKNOWN && (t->header || !t->is_doubtful))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:1: expected a first line that is clearly a header or not, found one that may be either; say "
                  "--header yes or --header no",
                  t->path);
}

/* The first line becomes the header, or a row. */
static hd_status settle_first_line(hd_csv_table *t, hd_ctx *ctx, const hd_csv_options *options) {
  if (t->header) {
    t->count--;
    for (int32_t i = 0; i < t->columns; i++)
      if (t->column[i].field)
        memmove(t->column[i].field, t->column[i].field + 1, (size_t)t->count * sizeof *t->column[i].field);
    memmove(t->line, t->line + 1, (size_t)t->count * sizeof *t->line);
    return HD_OK;
  }
  for (int32_t i = 0; i < t->columns; i++) {
    hd_csv_column *c = &t->column[i];
    const int64_t texts = c->texts, empties = c->empties;
    c->name.length = 0;
    HD_TRY(add_field(c, ctx, t, &c->first, t->line[0], options->categories));
    c->first_text = c->texts > texts ? c->first : c->first_text;
    c->first_text_line = c->texts > texts ? t->line[0] : c->first_text_line;
    c->first_empty_line = c->empties > empties ? t->line[0] : c->first_empty_line;
  }
  return HD_OK;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* Columns are found by their names as they are kept, so these differ; and no byte of them may be a mere '?'. */
static hd_status check_names(const hd_csv_table *t, hd_ctx *ctx) {
  HD_OWNED char(*name)[HD_CSV_NAME_BYTES] = NULL;
  HD_TRY(HD_NEW_RAW(name, t->columns, ctx, NO_MEMORY, t->path));
  for (int32_t i = 0; i < t->columns; i++) {
    const hd_csv_field *f = &t->column[i].name;
    hd__csv_text(name[i], sizeof name[i], f);
    if (!hd__utf8_is(f->at, f->length))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s:1: expected names of columns in UTF-8, found '%.48s'; save the file as UTF-8", t->path,
                      name[i]);
  }
  qsort(name, (size_t)t->columns, sizeof *name, by_text);
  for (int32_t i = 1; i < t->columns; i++)
    if (*name[i] && !strcmp(name[i - 1], name[i]))
      return hd__fail(ctx, HD_E_FORMAT, "%s:1: expected columns with different names, found '%s' twice; rename one",
                      t->path, name[i]);
  return HD_OK;
}

/* Fields such as 5;2 are numbers of a file whose fields end with semicolons. */
static hd_status check_commas(const hd_csv_table *t, hd_ctx *ctx) {
  for (int32_t i = 0; i < t->columns; i++) {
    const hd_csv_field *f = &t->column[i].first_text;
    const char *semicolon = t->column[i].texts > 0 && !f->quoted ? memchr(f->at, ';', f->length) : NULL;
    const hd_csv_field before = {f->at, semicolon ? (size_t)(semicolon - f->at) : 0, false};
    double number;
    if (semicolon && hd__csv_number(&number, &before))
      return hd__csv_no_number(ctx, t, t->column[i].first_text_line, i, f);
  }
  return HD_OK;
}

static void find_index(hd_csv_table *t) {
  const hd_csv_column *c = &t->column[0];
  const bool unnamed = c->name.length == 0 || hd__csv_is(&c->name, "Unnamed: 0");
  t->index = t->header && unnamed && !c->field && t->columns > 2 && c->counts && c->numbers == t->count;
}

hd_status hd__csv_open(hd_csv_table *t, hd_ctx *ctx, const char *path, const hd_csv_options *options) {
  const bool input = options->is_unlabelled && !strcmp(path, "-");
  path = input ? "standard input" : path;
  *t = (hd_csv_table){.path = path, .weight = NONE};
  HD_TRY((input ? hd__file_read_input : hd__file_read)(&t->file, ctx, path));
  hd_csv_cursor c = hd__csv_begin(&t->file, path);
  t->rows = c;
  if (!hd__csv_more(&c))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at least one row of numbers, found none; add some", path);
  t->rows = c;
  const int64_t line = c.line;
  HD_TRY(read_first_line(t, ctx, &c, options));
  HD_TRY(find_label(t, ctx, options));
  HD_TRY(find_weights(t, ctx, options));
  HD_TRY(read_rows(t, ctx, c, line, options->categories));
  HD_TRY(find_header(t, ctx, options));
  HD_TRY(settle_first_line(t, ctx, options));
  if (t->count == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at least one row of numbers, found none; add some", path);
  HD_TRY(check_commas(t, ctx));
  if (!t->header)
    return HD_OK;
  t->rows = c;
  find_index(t);
  return check_names(t, ctx);
}
