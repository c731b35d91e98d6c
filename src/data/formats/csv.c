/* CSV files: one row per sample, one column per number, one column for the class or the target.
 *
 *     PATH.csv, of which a fifth becomes the test set (format.h), or a folder
 * with train.csv and test.csv
 *
 * Fields are separated by commas and may be in double quotes; lines end with LF or CRLF; empty lines are ignored. If
 * no field of the first line is a number, or one is called label or target, that line is a header. The column
 * `label` holds classes, `target` a number to predict; without either the last column is used: whole numbers or
 * texts are classes, other numbers targets. Texts are numbered in the order of their bytes. Numbers are decimal with
 * a point, whatever the locale; empty fields, NaN and infinity are refused. Every error names the line. */
#include "data/formats/format.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/utf8.h"
#include "platform/file.h"

enum { MOST_COLUMNS = HD_DATA_MAX_SIDE + 1, MOST_NUMBER = 64, MOST_NAME = 256 };

typedef struct field {
  const char *at;
  size_t length;
  bool quoted;
} field;

typedef struct cursor {
  const char *at, *end;
  int64_t line; /* of the next field, counted from 1 */
} cursor;

typedef enum column_kind { LAST, LABEL, TARGET } column_kind;

/* State of reading one file. */
typedef struct table {
  const char *path;
  hd_mapping file;
  int64_t columns, special; /* the column of the class or target */
  column_kind kind;
  field *label; /* of each row */
  int64_t *line;
} table;

typedef struct csv_set {
  table table[2];
  char path[2][HD_PATH_BYTES];
} csv_set;

static void release(csv_set *set) {
  for (int i = 0; i < 2; i++) {
    hd__file_unmap(&set->table[i].file);
    hd__free(set->table[i].label);
    hd__free(set->table[i].line);
  }
}

static bool at_line_end(const cursor *c) {
  return c->at == c->end || *c->at == '\n' || (*c->at == '\r' && (c->at + 1 == c->end || c->at[1] == '\n'));
}

static void end_line(cursor *c) {
  if (c->at < c->end && *c->at == '\r')
    c->at++;
  if (c->at < c->end)
    c->at++;
  c->line++;
}

/* Skips empty lines; false at the end. */
static bool more_lines(cursor *c) {
  while (c->at < c->end && at_line_end(c))
    end_line(c);
  return c->at < c->end;
}

/* Reads the next field of the line and its comma; *last is set if there was none. */
static hd_status next_field(field *out, bool *last, cursor *c, hd_ctx *ctx, const char *path) {
  const char *from = c->at;
  out->quoted = c->at < c->end && *c->at == '"';
  if (out->quoted) {
    for (c->at++; c->at < c->end && *c->at != '\n' && (*c->at != '"' || (c->at + 1 < c->end && c->at[1] == '"'));)
      c->at += *c->at == '"' ? 2 : 1;
    *out = (field){from + 1, (size_t)(c->at - from) - 1, true};
    if (c->at == c->end || *c->at != '"')
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s:%lld: expected a quote at the end of a field, found the line's end; add one", path,
                      (long long)c->line);
    c->at++;
    if (!at_line_end(c) && *c->at != ',')
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s:%lld: expected a comma behind a field in quotes, found '%c'; double quotes inside of it",
                      path, (long long)c->line, *c->at);
  } else {
    while (!at_line_end(c) && *c->at != ',')
      c->at++;
    *out = (field){from, (size_t)(c->at - from), false};
  }
  *last = at_line_end(c);
  if (*last)
    end_line(c);
  else
    c->at++;
  while (out->length > 0 && (*out->at == ' ' || *out->at == '\t'))
    out->at++, out->length--;
  while (out->length > 0 && (out->at[out->length - 1] == ' ' || out->at[out->length - 1] == '\t'))
    out->length--;
  return HD_OK;
}

/* A finite number that fits float, with a fast path for short whole numbers such as pixels. */
static bool number_of(float *out, const field *f) {
  char text[MOST_NUMBER];
  double value;
  int32_t whole = 0;
  size_t i = 0;
  for (; i < f->length && i < 8 && f->at[i] >= '0' && f->at[i] <= '9'; i++)
    whole = 10 * whole + (f->at[i] - '0');
  *out = (float)whole;
  if (i == f->length && i > 0)
    return true;
  if (f->length == 0 || f->length >= sizeof text)
    return false;
  memcpy(text, f->at, f->length);
  text[f->length] = 0;
  if (strlen(text) != f->length || !hd__parse_double(&value, text) || fabs(value) > (double)FLT_MAX)
    return false;
  *out = (float)value;
  return true;
}

static bool is_whole(const field *f) {
  for (size_t i = 0; i < f->length; i++)
    if (f->at[i] < '0' || f->at[i] > '9')
      return false;
  return f->length > 0;
}

static hd_status no_number(hd_ctx *ctx, const char *path, int64_t line, int64_t column, const field *f) {
  char text[48];
  hd__utf8_clean(text, sizeof text, f->at, f->length);
  const bool comma = memchr(f->at, ',', f->length) != NULL, semicolon = memchr(f->at, ';', f->length) != NULL;
  return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a finite number in column %lld, found %s%s%s; %s", path,
                  (long long)line, (long long)column + 1, f->length ? "'" : "an empty field", f->length ? text : "",
                  f->length ? "'" : "",
                  comma       ? "write a decimal point, not a comma"
                  : semicolon ? "separate fields by commas and write decimal points"
                              : "mend the file");
}

/* The first line: columns, and whether it is a header. */
static hd_status see_first_line(table *t, bool *header, hd_ctx *ctx, const cursor *start) {
  cursor c = *start;
  float unused;
  bool last = false, numbers = false;
  for (t->columns = 0; !last; t->columns++) {
    field f;
    HD_TRY(next_field(&f, &last, &c, ctx, t->path));
    if (t->columns == MOST_COLUMNS)
      return hd__fail(ctx, HD_E_UNSUPPORTED, "%s:%lld: expected up to %d columns, found more; drop some", t->path,
                      (long long)start->line, MOST_COLUMNS);
    numbers = numbers || number_of(&unused, &f);
    const bool label = f.length == 5 && !memcmp(f.at, "label", 5), target = f.length == 6 && !memcmp(f.at, "target", 6);
    if ((label || target) && t->kind != LAST)
      return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected one column label or target, found two; rename one", t->path,
                      (long long)start->line);
    if (label || target) {
      t->kind = label ? LABEL : TARGET;
      t->special = t->columns;
    }
  }
  *header = !numbers || t->kind != LAST;
  if (t->columns < 2)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s:%lld: expected at least two columns with commas between them, found %lld; separate fields by commas",
        t->path, (long long)start->line, (long long)t->columns);
  if (t->kind == LAST)
    t->special = t->columns - 1;
  return HD_OK;
}

static hd_status read_row(table *t, float *numbers, int64_t row, cursor *c, hd_ctx *ctx) {
  const int64_t line = c->line;
  bool last = false;
  int64_t column = 0;
  for (; !last; column++) {
    field f;
    HD_TRY(next_field(&f, &last, c, ctx, t->path));
    if (column == t->special)
      t->label[row] = f;
    else if (column < t->columns && !number_of(numbers++, &f))
      return no_number(ctx, t->path, line, column, &f);
  }
  if (column != t->columns)
    return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected %lld fields as in the first line, found %lld; mend the line",
                    t->path, (long long)line, (long long)t->columns, (long long)column);
  t->line[row] = line;
  return HD_OK;
}

static hd_status read_table(table *t, hd_dataset *d, hd_resident_samples *to, hd_ctx *ctx) {
  HD_TRY(hd__file_read(&t->file, ctx, t->path));
  const char *text = t->file.bytes ? (const char *)t->file.bytes : "";
  cursor c = {text, text + t->file.length, 1};
  if (t->file.length >= 3 && !memcmp(c.at, "\xef\xbb\xbf", 3))
    c.at += 3;
  bool header = false;
  if (more_lines(&c))
    HD_TRY(see_first_line(t, &header, ctx, &c));
  while (header && c.at < c.end && *c.at != '\n')
    c.at++;
  if (header)
    end_line(&c);
  int64_t rows = 0;
  for (cursor k = c; more_lines(&k); rows++) {
    const char *end = memchr(k.at, '\n', (size_t)(k.end - k.at));
    k.at = end ? end : k.end;
  }
  if (rows == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at least one row of numbers, found none; add some", t->path);
  /* Upper bound of the number of rows: a row has at least a byte per column. Ragged rows are found when reading. */
  const int64_t fit = (int64_t)t->file.length / t->columns + 1;
  rows = rows < fit ? rows : fit;
  *d = (hd_dataset){
      .count = rows, .elem = HD_ELEM_F32, .channels = 1, .height = 1, .width = (int)t->columns - 1, .flat = true};
  t->label = hd__malloc((size_t)rows * sizeof *t->label);
  t->line = hd__malloc((size_t)rows * sizeof *t->line);
  HD_TRY(HD_ALLOCATED(t->label && t->line, ctx, "%s: out of memory for %lld rows", t->path, (long long)rows));
  d->outputs = 1; /* for now; labels need as much memory as targets */
  HD_TRY(hd__resident_make(to, d, ctx, t->path));
  for (int64_t row = 0; row < rows && more_lines(&c); row++)
    HD_TRY(read_row(t, to->floats + row * d->width, row, &c, ctx));
  return HD_OK;
}

static int by_bytes(const void *a, const void *b) {
  const field *x = a, *y = b;
  const int order = memcmp(x->at, y->at, x->length < y->length ? x->length : y->length);
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

/* The texts of the training set's labels, sorted, each once. */
static hd_status collect_names(field **sorted, int64_t *count, hd_names *names, hd_ctx *ctx, const table *t,
                               int64_t rows) {
  HD_TRY(HD_NEW_RAW(*sorted, rows, ctx, "%s: out of memory for the names of classes", t->path));
  memcpy(*sorted, t->label, (size_t)rows * sizeof **sorted);
  qsort(*sorted, (size_t)rows, sizeof **sorted, by_bytes);
  int64_t kept = 0;
  for (int64_t i = 0; i < rows; i++)
    if (kept == 0 || by_bytes(&(*sorted)[kept - 1], &(*sorted)[i]))
      (*sorted)[kept++] = (*sorted)[i];
  *count = kept;
  if (kept > HD_DATA_MAX_CLASSES)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected up to %d classes, found %lld; name the column target for numbers",
                    t->path, HD_DATA_MAX_CLASSES, (long long)kept);
  names->name = hd__calloc((size_t)kept, sizeof *names->name);
  names->text = hd__malloc((size_t)kept * MOST_NAME);
  HD_TRY(HD_ALLOCATED(names->name && names->text, ctx, "%s: out of memory for the names of classes", t->path));
  for (int64_t i = 0; i < kept; i++) {
    char *name = names->text + i * MOST_NAME;
    hd__utf8_clean(name, MOST_NAME, (*sorted)[i].at, (*sorted)[i].length);
    names->name[i] = name;
  }
  names->count = (int)kept;
  return HD_OK;
}

static hd_status take_names(int32_t *out, hd_ctx *ctx, const table *t, int64_t rows, const field *sorted,
                            int64_t count) {
  for (int64_t i = 0; i < rows; i++) {
    const field *found = bsearch(&t->label[i], sorted, (size_t)count, sizeof *sorted, by_bytes);
    char text[48];
    hd__utf8_clean(text, sizeof text, t->label[i].at, t->label[i].length);
    if (!found)
      return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a class of the training set, found '%s'; mend the file",
                      t->path, (long long)t->line[i], text);
    out[i] = (int32_t)(found - sorted);
  }
  return HD_OK;
}

/* Replaces the memory of targets by labels. */
static hd_status make_labels(hd_resident_samples *to, hd_dataset *d, hd_ctx *ctx, const char *path) {
  hd__free(to->targets);
  to->targets = NULL;
  d->targets = NULL;
  d->outputs = 0;
  return hd__resident_make(to, d, ctx, path);
}

static hd_status take_texts(hd_opened *out, const csv_set *set, hd_ctx *ctx, int files) {
  hd_dataset *split = out->split;
  HD_OWNED field *sorted = NULL;
  int64_t count = 0;
  HD_TRY(collect_names(&sorted, &count, &out->names, ctx, &set->table[0], split[0].count));
  for (int i = 0; i < files; i++) {
    HD_TRY(make_labels(&out->resident[i], &split[i], ctx, set->table[i].path));
    HD_TRY(take_names(out->resident[i].labels, ctx, &set->table[i], split[i].count, sorted, count));
    split[i].classes = (int)count;
    split[i].class_names = out->names.name;
  }
  return HD_OK;
}

static hd_status take_numbers(hd_opened *out, const csv_set *set, hd_ctx *ctx, int files, bool classes) {
  hd_dataset *split = out->split;
  for (int i = 0; i < files; i++) {
    const table *t = &set->table[i];
    if (classes)
      HD_TRY(make_labels(&out->resident[i], &split[i], ctx, t->path));
    for (int64_t row = 0; row < split[i].count; row++) {
      float value;
      if (!number_of(&value, &t->label[row]))
        return no_number(ctx, t->path, t->line[row], t->special, &t->label[row]);
      if (!classes)
        out->resident[i].targets[row] = value;
      else if (!is_whole(&t->label[row]) || value >= HD_DATA_MAX_CLASSES)
        return hd__fail(
            ctx, HD_E_FORMAT,
            "%s:%lld: expected a class from 0 to %d as label, found '%.*s'; name the column target for numbers",
            t->path, (long long)t->line[row], HD_DATA_MAX_CLASSES - 1,
            (int)(t->label[row].length < 40 ? t->label[row].length : 40), t->label[row].at);
      else
        out->resident[i].labels[row] = (int32_t)value;
    }
  }
  return HD_OK;
}

/* Decides between texts, classes and targets: all labels must be of the first one's kind; whole numbers are targets
 * if any is not whole. */
static hd_status take_labels(hd_opened *out, const csv_set *set, hd_ctx *ctx, int files) {
  const hd_dataset *split = out->split;
  const column_kind kind = set->table[0].kind;
  float unused;
  if (kind != TARGET && !number_of(&unused, &set->table[0].label[0]))
    return take_texts(out, set, ctx, files);
  bool whole = kind != TARGET;
  for (int i = 0; i < files && kind == LAST; i++)
    for (int64_t row = 0; row < split[i].count && whole; row++)
      whole = is_whole(&set->table[i].label[row]) || !number_of(&unused, &set->table[i].label[row]);
  return take_numbers(out, set, ctx, files, whole);
}

static bool find_tables(char out[2][HD_PATH_BYTES], const char *path) {
  return snprintf(out[0], HD_PATH_BYTES, "%s/train.csv", path) < HD_PATH_BYTES && hd__file_exists(out[0]) &&
         snprintf(out[1], HD_PATH_BYTES, "%s/test.csv", path) < HD_PATH_BYTES;
}

static bool takes(hd_ctx *ctx, const char *path) {
  char tables[2][HD_PATH_BYTES];
  return hd__path_ends(path, ".csv") || find_tables(tables, path);
}

static hd_status check_tables(const csv_set *set, hd_ctx *ctx) {
  const table *a = &set->table[0], *b = &set->table[1];
  if (a->columns == b->columns && a->special == b->special && a->kind == b->kind)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s: expected %lld columns with the label in column %lld as in training, found %lld and %lld; make both alike",
      b->path, (long long)a->columns, (long long)a->special + 1, (long long)b->columns, (long long)b->special + 1);
}

static hd_status open_path(hd_opened *out, hd_ctx *ctx, const hd_data_request *request) {
  HD_RELEASED(release) csv_set set = {0};
  const int files = find_tables(set.path, request->name) ? 2 : 1;
  for (int i = 0; i < files; i++) {
    set.table[i].path = files == 2 ? set.path[i] : request->name;
    HD_TRY(read_table(&set.table[i], &out->split[i], &out->resident[i], ctx));
  }
  if (files == 2)
    HD_TRY(check_tables(&set, ctx));
  HD_TRY(take_labels(out, &set, ctx, files));
  if (files == 1)
    HD_TRY(hd__resident_divide(out, ctx, request->name));
  return out->split[0].labels && !out->split[0].class_names
             ? hd__resident_classes(out->split, ctx, request->name, request->ignored)
             : HD_OK;
}

const hd_format hd__format_csv = {"a .csv file", takes, open_path};
