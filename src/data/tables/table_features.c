/* Features of tables: see table_features.h. */
#include "data/tables/table_features.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text_buffer.h"

static const char NO_MEMORY[] = "%s: out of memory for a table";

static bool is_left_out(const hd_csv_table *t, int32_t column) {
  return t->column[column].field || (column == 0 && t->index); /* of labels or weights, or an index */
}

/* ---- Features of a training table ---- */

hd_status hd__table_check_empty(hd_ctx *ctx, const hd_csv_table *t, const hd_csv_options *options) {
  char name[HD_CSV_NAME_BYTES + 16];
  for (int32_t i = 0; i < t->columns && options->refuses_empty; i++)
    if (!is_left_out(t, i) && t->column[i].empties > 0)
      return hd__fail(
          ctx, HD_E_FORMAT,
          "%s:%lld: expected no empty field with --missing refuse, found one in %s; fill it or drop the row", t->path,
          (long long)t->column[i].first_empty_line, hd__csv_column_name(name, t, i));
  return HD_OK;
}

static bool is_control(char byte) { return (unsigned char)byte < ' ' || byte == 0x7f; }

/* Texts become JSON and lines of output, and must stay different there. */
static hd_status check_text(hd_ctx *ctx, const hd_csv_table *t, const hd_csv_field *f, const char *name) {
  char text[HD_CSV_NAME_BYTES];
  size_t control = 0;
  if (hd__csv_text(text, sizeof text, f))
    return HD_OK;
  while (control < f->length && !is_control(f->at[control]))
    control++;
  const int64_t line = 1 + hd__csv_line_ends((const char *)t->file.bytes, f->at);
  if (control < f->length)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s:%lld: expected text without line breaks and other control characters in %s, found '%.48s'; "
                    "replace it, or drop the column",
                    t->path, (long long)line, name, text);
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:%lld: expected UTF-8 text of up to %d bytes in %s, found '%.48s'; save the file as UTF-8, or "
                  "shorten the text",
                  t->path, (long long)line, HD_CSV_NAME_BYTES - 1, name, text);
}

static hd_status check_column(hd_ctx *ctx, const hd_csv_table *t, int32_t column, const hd_csv_options *options) {
  const hd_csv_column *c = &t->column[column];
  char name[HD_CSV_NAME_BYTES + 16];
  hd__csv_column_name(name, t, column);
  if (c->numbers + c->texts == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected some fields in %s, found only empty ones; drop the column", t->path,
                    name);
  if (hd__csv_has_numbers(c))
    return c->texts == 0 ? HD_OK : hd__csv_no_number(ctx, t, c->first_text_line, column, &c->first_text);
  if (hd__csv_is_bad_number(&c->first_text))
    return hd__csv_no_number(ctx, t, c->first_text_line, column, &c->first_text);
  for (int32_t i = 0; i < c->texts_found && c->texts_found <= options->categories; i++)
    HD_TRY(check_text(ctx, t, &c->text[i], name));
  if (c->texts_found > options->categories)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected numbers or up to %d different texts in %s, found more; drop the column or raise --categories",
        t->path, options->categories, name);
  return HD_OK;
}

/* How many features a column is. */
static int32_t features_of(const hd_csv_table *t, int32_t column) {
  const hd_csv_column *c = &t->column[column];
  return is_left_out(t, column) ? 0 : (hd__csv_has_numbers(c) ? 1 : c->texts_found) + (c->empties > 0);
}

static char *text_of(const hd_csv_field *f) {
  char text[HD_CSV_NAME_BYTES];
  hd__csv_text(text, sizeof text, f);
  return hd__strdup(text);
}

/* Fills the features of one column; false without memory. */
static bool fill(hd_feature *to, const hd_csv_table *t, int32_t column) {
  const hd_csv_column *c = &t->column[column];
  const int32_t count = features_of(t, column), numbers = hd__csv_has_numbers(c) ? 1 : 0;
  bool enough = true;
  for (int32_t i = 0; i < count; i++) {
    const bool tells_empty = i == count - 1 && c->empties > 0;
    to[i] = (hd_feature){.place = column, .empty = tells_empty, .fill = NAN, .std = 1};
    if (numbers && c->empties > 0 && !tells_empty)
      to[i].fill = 0; /* the mean, once it is known */
    if (t->header)
      enough = (to[i].column = text_of(&c->name)) != NULL && enough;
    if (!numbers && !tells_empty)
      enough = (to[i].category = text_of(&c->text[i])) != NULL && enough;
  }
  return enough;
}

/* The name of the label's column, or those of several. */
static hd_status name_labels(hd_features *out, hd_ctx *ctx, const hd_csv_table *t, const hd_csv_options *options) {
  bool enough = true;
  if (t->header && t->labels > 0)
    enough = (out->label = t->labels > 1 ? hd__strdup(options->label) : text_of(&t->column[t->label[0]].name)) != NULL;
  if (t->labels < 2)
    return HD_ALLOCATED(enough, ctx, NO_MEMORY, t->path);
  HD_TRY(HD_NEW(out->target, t->labels, ctx, NO_MEMORY, t->path));
  out->targets = t->labels;
  for (int32_t k = 0; k < t->labels && t->header; k++)
    enough = (out->target[k].column = text_of(&t->column[t->label[k]].name)) != NULL && enough;
  return HD_ALLOCATED(enough, ctx, NO_MEMORY, t->path);
}

hd_status hd__table_features(hd_features *out, hd_ctx *ctx, const hd_csv_table *t, const hd_csv_options *options) {
  int64_t count = 0;
  bool enough = true;
  *out = (hd_features){0};
  for (int32_t i = 0; i < t->columns; i++) {
    if (!is_left_out(t, i))
      HD_TRY(check_column(ctx, t, i, options));
    count += features_of(t, i);
  }
  if (count < 1 || count >= HD_CSV_MOST_COLUMNS)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected 1 to %d numbers per row, found %lld; drop columns or lower --categories", t->path,
                    HD_CSV_MOST_COLUMNS - 1, (long long)count);
  HD_TRY(HD_NEW(out->feature, count, ctx, NO_MEMORY, t->path));
  out->count = (int32_t)count;
  out->columns = t->columns;
  for (int32_t i = 0, at = 0; i < t->columns; at += features_of(t, i), i++)
    enough = fill(out->feature + at, t, i) && enough;
  HD_TRY(HD_ALLOCATED(enough, ctx, NO_MEMORY, t->path));
  return name_labels(out, ctx, t, options);
}

hd_status hd__table_plain(hd_features *out, hd_ctx *ctx, const hd_csv_table *t, const hd_csv_options *options,
                          int32_t count) {
  char name[HD_CSV_NAME_BYTES + 16];
  HD_TRY(hd__table_features(out, ctx, t, options));
  for (int32_t i = 0; i < out->count; i++) {
    const hd_feature *f = &out->feature[i];
    const hd_csv_column *c = &t->column[f->place];
    if (f->category)
      return hd__csv_no_number(ctx, t, c->first_text_line, f->place, &c->first_text);
    if (f->empty)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s:%lld: expected no empty field in %s, as training's array had none, found one; fill it",
                      t->path, (long long)c->first_empty_line, hd__csv_column_name(name, t, f->place));
  }
  out->columns = 0;
  if (out->count == count || count == 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE, "%s: expected %d numbers per row as in training, found %d; give rows of that length",
                  t->path, count, out->count);
}

/* ---- Numbers of rows ---- */

/* Of each column of a table: its features. */
typedef struct span {
  int32_t first, count;
} span;

/* The places of columns without names: rows without labels have training's other columns alone. */
static int32_t place_of(const hd_csv_table *t, const hd_features *all, const hd_feature *f) {
  int32_t place = 0;
  if (t->labels > 0 || all->columns == 0 || t->columns == all->columns)
    return f->place;
  for (int32_t i = 1; i < all->count && all->feature[i].place <= f->place; i++)
    place += all->feature[i].place != all->feature[i - 1].place;
  return place;
}

static int32_t find_column(const hd_csv_table *t, const hd_features *all, const hd_feature *f) {
  char name[HD_CSV_NAME_BYTES];
  const int32_t place = place_of(t, all, f);
  if (!f->column)
    return place < t->columns ? place : -1;
  if (f->place < t->columns && !is_left_out(t, f->place) && hd__csv_is(&t->column[f->place].name, f->column))
    return f->place;
  for (int32_t i = 0; i < t->columns; i++) {
    hd__csv_text(name, sizeof name, &t->column[i].name);
    if (!is_left_out(t, i) && !strcmp(name, f->column))
      return i;
  }
  return -1;
}

static bool same_column(const hd_feature *a, const hd_feature *b) { return a->place == b->place; }

/* The index column of training's table need not count up here. */
static bool is_unnamed(const hd_csv_table *t, int32_t column) {
  const hd_csv_field *name = &t->column[column].name;
  return t->header && (name->length == 0 || hd__csv_is(name, "Unnamed: 0"));
}

static hd_status find_spans(span *out, hd_ctx *ctx, const hd_csv_table *t, const hd_features *f) {
  char name[HD_CSV_NAME_BYTES + 16];
  for (int32_t i = 0, next; i < f->count; i = next) {
    const int32_t column = find_column(t, f, &f->feature[i]);
    for (next = i + 1; next < f->count && same_column(&f->feature[i], &f->feature[next]);)
      next++;
    if (column < 0)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected column '%s' as in training, found none; add it", t->path,
                      f->feature[i].column ? f->feature[i].column : "(without a name)");
    out[column] = (span){i, next - i};
  }
  for (int32_t i = 0; i < t->columns; i++)
    if (out[i].count == 0 && !is_left_out(t, i) && !(i == 0 && is_unnamed(t, i)))
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected only columns of training, found %s too; drop it", t->path,
                      hd__csv_column_name(name, t, i));
  return HD_OK;
}

/* Whether both training's table and this one have names of columns, or neither has. */
static hd_status check_header(hd_ctx *ctx, const hd_csv_table *t, const hd_features *f) {
  const bool named = f->feature[0].column != NULL;
  const int32_t labels = f->targets > 0 ? f->targets : 1;
  const bool lacks_label = t->labels == 0 && t->columns == f->columns - labels;
  if (f->columns == 0 || (named == t->header && (named || t->columns == f->columns || lacks_label)))
    return HD_OK;
  if (named == t->header)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected %d columns as in training, found %d; give the same columns",
                    t->path, f->columns, t->columns);
  return hd__fail(ctx, HD_E_FORMAT, "%s:1: expected %s as in training, found %s; %s", t->path,
                  named ? "a header" : "no header", named ? "none" : "one",
                  named ? "add the line of names" : "remove the line of names, or say --header no");
}

/* The value of a field in one feature of its column; false: the field does not fit the feature. */
static bool read_as(double *out, const hd_feature *feature, const hd_csv_field *field, const char *text, bool empty) {
  if (feature->empty || feature->category)
    *out = feature->empty ? empty : !empty && !strcmp(text, feature->category);
  else if (empty)
    *out = NAN;
  else
    return hd__csv_number(out, field);
  return true;
}

typedef struct row {
  float *floats;
  double *numbers; /* or NULL */
} row;

static hd_status read_field(row *to, hd_ctx *ctx, const hd_csv_table *t, const hd_features *f, const span *is,
                            const hd_csv_field *field, int64_t line, int32_t column) {
  char text[HD_CSV_NAME_BYTES] = "", name[HD_CSV_NAME_BYTES + 16];
  const hd_feature *last = &f->feature[is->first + is->count - 1];
  const bool empty = hd__csv_is_empty(field), texts = f->feature[is->first].category != NULL;
  bool known = !texts;
  if (empty && !last->empty)
    return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected no empty field in %s, as in training, found one; fill it",
                    t->path, (long long)line, hd__csv_column_name(name, t, column));
  const bool whole = !texts || hd__csv_text(text, sizeof text, field);
  for (int32_t i = is->first; i < is->first + is->count; i++) {
    double value = 0;
    if (!read_as(&value, &f->feature[i], field, text, empty))
      return hd__csv_no_number(ctx, t, line, column, field);
    known = known || value != 0;
    to->floats[i] = (float)value;
    if (to->numbers)
      to->numbers[i] = value;
  }
  if (known && whole)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s:%lld: expected a text of the training set in %s, found '%.48s'; drop the row, or train with such rows",
      t->path, (long long)line, hd__csv_column_name(name, t, column), text);
}

hd_status hd__table_numbers(float *floats, double *numbers, hd_ctx *ctx, const hd_csv_table *t, const hd_features *f) {
  HD_OWNED span *spans = NULL;
  HD_TRY(check_header(ctx, t, f));
  HD_TRY(HD_NEW(spans, t->columns, ctx, NO_MEMORY, t->path));
  HD_TRY(find_spans(spans, ctx, t, f));
  hd_csv_cursor c = t->rows;
  for (int64_t i = 0; i < t->count && hd__csv_more(&c); i++) {
    row to = {floats + i * f->count, numbers ? numbers + i * f->count : NULL};
    bool last = false;
    for (int32_t column = 0; !last; column++) {
      hd_csv_field field;
      HD_TRY(hd__csv_next(&field, &last, &c, ctx));
      if (spans[column].count > 0)
        HD_TRY(read_field(&to, ctx, t, f, &spans[column], &field, t->line[i], column));
    }
  }
  return HD_OK;
}

/* ---- Assumptions, for the user ---- */

static void describe_columns(char *note, const hd_csv_table *t, const hd_features *f) {
  char label[HD_CSV_NAME_BYTES + 16];
  int32_t texts = 0, columns = 0;
  for (int32_t i = 0; i < t->columns; i++) {
    columns += !is_left_out(t, i);
    texts += !is_left_out(t, i) && !hd__csv_has_numbers(&t->column[i]);
  }
  hd_line line = {.text = note, .bytes = HD_TABLE_NOTE_BYTES};
  hd__line_add(&line, "%.100s: %s, ", t->path, t->header ? "the first line is a header" : "no header");
  for (int32_t k = 0; k < t->labels; k++)
    hd__line_add(&line, "%s%.100s",
                 k               ? ", "
                 : t->labels > 1 ? "the labels are "
                                 : "the label is ",
                 hd__csv_column_name(label, t, t->label[k]));
  hd__line_add(&line, "; %d other column%s", columns, columns == 1 ? "" : "s");
  if (t->weight >= 0)
    hd__line_add(&line, ", weights in %.100s", hd__csv_column_name(label, t, t->weight));
  if (texts > 0)
    hd__line_add(&line, ", %d of texts: %d numbers per row", texts, f->count);
  if (t->index)
    hd__line_add(&line, "; the first column, an index, is left out");
}

static void describe_empties(char *note, const hd_csv_table *t) {
  char name[HD_CSV_NAME_BYTES + 16];
  int64_t empties = 0;
  int32_t columns = 0, first = 0;
  for (int32_t i = 0; i < t->columns; i++)
    if (!is_left_out(t, i) && t->column[i].empties > 0) {
      first = columns++ ? first : i;
      empties += t->column[i].empties;
    }
  if (columns == 0)
    return;
  hd__csv_column_name(name, t, first);
  int n = snprintf(note, HD_TABLE_NOTE_BYTES, "%lld empty field%s in %.100s", (long long)empties,
                   empties == 1 ? "" : "s", name);
  if (columns > 1)
    n += snprintf(note + n, (size_t)(HD_TABLE_NOTE_BYTES - n), " and %d other columns", columns - 1);
  snprintf(note + n, (size_t)(HD_TABLE_NOTE_BYTES - n),
           ": filled with the column's mean, with one more number that marks them (--missing refuse rejects them)");
}

void hd__table_describe(char note[HD_TABLE_NOTES][HD_TABLE_NOTE_BYTES], const hd_csv_table *t, const hd_features *f) {
  describe_columns(note[0], t, f);
  describe_empties(note[1], t);
}
