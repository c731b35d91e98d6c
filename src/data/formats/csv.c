/* CSV files: one row per sample, one column for the class or the target (data/tables).
 *
 *     PATH.csv, of which a fifth becomes the test set (format.h), or a folder
 * with train.csv and test.csv
 *
 * If a label is a text in some row, labels are classes, numbered in the order of their bytes; otherwise whole numbers
 * are classes, other numbers targets; a column called target holds numbers to predict if it has no text. A requested
 * loss decides whether whole numbers are classes. */
#include "data/formats/formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "data/split/sample_weights.h"
#include "data/tables/csv_table.h"
#include "data/tables/table_features.h"
#include "platform/file.h"

typedef struct csv_set {
  hd_csv_table table[2];
  int files;
  hd_labels labels;
  char path[2][HD_PATH_BYTES];
} csv_set;

static void release(csv_set *set) {
  for (int i = 0; i < 2; i++)
    hd__csv_close(&set->table[i]);
}

/* ---- Rows ---- */

/* Whether floats would round some numbers, or the means that empty fields are read as. */
static bool is_inexact(const csv_set *set) {
  bool inexact = false;
  for (int i = 0; i < set->files; i++)
    for (int32_t c = 0; c < set->table[i].columns; c++)
      inexact = inexact || (c != set->table[i].label && c != set->table[i].weight &&
                            (set->table[i].column[c].inexact || set->table[i].column[c].empties > 0));
  return inexact;
}

/* of_arrays: for a run on arrays, whose numbers were floats. */
static hd_status read_rows(hd_dataset *out, hd_ctx *ctx, const csv_set *set, bool of_arrays) {
  const bool inexact = is_inexact(set) && !of_arrays;
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    hd_split_memory *to = &out->memory[i];
    out->split[i] = (hd_split){.count = t->count,
                               .elem = HD_ELEM_F32,
                               .channels = 1,
                               .height = 1,
                               .width = out->features.count,
                               .flat = true,
                               .outputs = 1}; /* for now; labels need as much memory as targets */
    HD_TRY(hd__split_allocate(to, &out->split[i], ctx, t->path));
    if (inexact)
      HD_TRY(HD_NEW_RAW(to->numbers, t->count * out->features.count, ctx, "%s: out of memory for %lld rows", t->path,
                        (long long)t->count));
    HD_TRY(hd__table_numbers(to->floats, to->numbers, ctx, t, &out->features));
  }
  return HD_OK;
}

/* The statistics of a run on arrays, for columns in the order of the file. */
static hd_status take_features(hd_dataset *out, hd_ctx *ctx, const hd_features *of_run) {
  hd__features_fini(&out->features);
  return hd__features_copy(&out->features, ctx, of_run);
}

/* ---- Labels ---- */

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Other tables find a class by its name, so no two classes may have the same one. */
static hd_status refuse_equal_names(const hd_names *names, hd_ctx *ctx, const char *path) {
  HD_OWNED const char **sorted = NULL;
  HD_TRY(HD_NEW_RAW(sorted, names->count, ctx, "%s: out of memory for the names of classes", path));
  memcpy(sorted, names->name, (size_t)names->count * sizeof *sorted);
  qsort(sorted, (size_t)names->count, sizeof *sorted, compare_names);
  for (int i = 1; i < names->count; i++)
    if (!strcmp(sorted[i - 1], sorted[i]))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected class names that differ in their first %d bytes of UTF-8, found two called "
                      "'%.48s'; rename one, or save the file as UTF-8",
                      path, HD_CSV_NAME_BYTES - 1, sorted[i]);
  return HD_OK;
}

/* The texts of the training set's labels, sorted, each once. */
static hd_status collect_names(hd_csv_field **sorted, int64_t *count, hd_names *names, hd_ctx *ctx,
                               const hd_csv_table *t) {
  HD_TRY(HD_NEW_RAW(*sorted, t->count, ctx, "%s: out of memory for the names of classes", t->path));
  memcpy(*sorted, t->label_text, (size_t)t->count * sizeof **sorted);
  qsort(*sorted, (size_t)t->count, sizeof **sorted, hd__csv_compare);
  int64_t kept = 0;
  for (int64_t i = 0; i < t->count; i++)
    if (kept == 0 || hd__csv_compare(&(*sorted)[kept - 1], &(*sorted)[i]))
      (*sorted)[kept++] = (*sorted)[i];
  *count = kept;
  if (kept > HD_DATA_MAX_CLASSES)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected up to %d classes, found %lld; name another column with --label",
                    t->path, HD_DATA_MAX_CLASSES, (long long)kept);
  names->name = hd__calloc((size_t)kept, sizeof *names->name);
  names->text = hd__malloc((size_t)kept * HD_CSV_NAME_BYTES);
  HD_TRY(HD_ALLOCATED(names->name && names->text, ctx, "%s: out of memory for the names of classes", t->path));
  for (int64_t i = 0; i < kept; i++) {
    char *name = names->text + i * HD_CSV_NAME_BYTES;
    hd__csv_name(name, HD_CSV_NAME_BYTES, &(*sorted)[i]);
    names->name[i] = name;
  }
  names->count = (int)kept;
  return refuse_equal_names(names, ctx, t->path);
}

static hd_status take_names(int32_t *out, hd_ctx *ctx, const hd_csv_table *t, const hd_csv_field *sorted,
                            int64_t count) {
  for (int64_t i = 0; i < t->count; i++) {
    const hd_csv_field *found = bsearch(&t->label_text[i], sorted, (size_t)count, sizeof *sorted, hd__csv_compare);
    char text[48];
    hd__csv_name(text, sizeof text, &t->label_text[i]);
    if (!found)
      return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a class of the training set, found '%s'; correct the file",
                      t->path, (long long)t->line[i], text);
    out[i] = (int32_t)(found - sorted);
  }
  return HD_OK;
}

/* Replaces the memory of targets by labels. */
static hd_status make_labels(hd_split_memory *to, hd_split *d, hd_ctx *ctx, const char *path) {
  hd__free(to->targets);
  to->targets = NULL;
  d->targets = NULL;
  d->outputs = 0;
  return hd__split_allocate(to, d, ctx, path);
}

static hd_status take_texts(hd_dataset *out, const csv_set *set, hd_ctx *ctx) {
  hd_split *split = out->split;
  HD_OWNED hd_csv_field *sorted = NULL;
  int64_t count = 0;
  HD_TRY(collect_names(&sorted, &count, &out->names, ctx, &set->table[0]));
  for (int i = 0; i < set->files; i++) {
    HD_TRY(make_labels(&out->memory[i], &split[i], ctx, set->table[i].path));
    HD_TRY(take_names(out->memory[i].labels, ctx, &set->table[i], sorted, count));
    split[i].classes = (int)count;
    split[i].class_names = out->names.name;
  }
  return HD_OK;
}

static hd_status take_class(int32_t *out, hd_ctx *ctx, const hd_csv_table *t, int64_t row, double value) {
  const hd_csv_field *f = &t->label_text[row];
  *out = (int32_t)value;
  if (hd__csv_is_whole(f) && value < HD_DATA_MAX_CLASSES)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:%lld: expected a class from 0 to %d as label, found '%.*s'; train with --loss mse if labels are "
                  "numbers to predict, or name another column with --label",
                  t->path, (long long)t->line[row], HD_DATA_MAX_CLASSES - 1, (int)(f->length < 40 ? f->length : 40),
                  f->at);
}

static hd_status take_numbers(hd_dataset *out, const csv_set *set, hd_ctx *ctx, bool classes) {
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    hd_split_memory *to = &out->memory[i];
    if (classes)
      HD_TRY(make_labels(to, &out->split[i], ctx, t->path));
    for (int64_t row = 0; row < t->count; row++) {
      double value;
      if (!hd__csv_number(&value, &t->label_text[row]))
        return hd__csv_no_number(ctx, t, t->line[row], t->label, &t->label_text[row]);
      if (classes)
        HD_TRY(take_class(&to->labels[row], ctx, t, row, value));
      else
        to->targets[row] = (float)value;
    }
  }
  return HD_OK;
}

/* Numbers of classes: all are whole, and small enough. A column called label, class or species has no others. */
static bool are_classes(const csv_set *set) {
  const hd_csv_table *t = &set->table[0];
  bool whole = set->labels != HD_LABELS_NUMBERS;
  for (int i = 0; i < set->files; i++)
    for (int64_t row = 0; row < set->table[i].count && whole; row++) {
      double value;
      const hd_csv_field *f = &set->table[i].label_text[row];
      whole = !hd__csv_number(&value, f) || (hd__csv_is_whole(f) && value < HD_DATA_MAX_CLASSES);
    }
  return set->labels == HD_LABELS_AUTO ? !t->is_target && (whole || t->is_class) : whole;
}

/* Whether most labels are numbers, but some are no class numbers. */
static bool has_decimals(const hd_csv_table *t) {
  bool decimals = false;
  for (int64_t row = 0; row < t->count && hd__csv_has_numbers(&t->column[t->label]) && !decimals; row++) {
    double value;
    decimals = hd__csv_number(&value, &t->label_text[row]) && value != floor(value);
  }
  return decimals;
}

/* A text in a column of numbers is a mistake; for a loss that reads no numbers it is a class. */
static hd_status refuse_texts(const csv_set *set, hd_ctx *ctx) {
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    const hd_csv_column *c = &t->column[t->label];
    const bool numbers = set->labels == HD_LABELS_NUMBERS;
    char name[HD_CSV_NAME_BYTES + 16], text[48];
    if (c->texts == 0 || set->labels == HD_LABELS_CLASSES)
      continue;
    if (has_decimals(t) || (numbers && hd__csv_has_numbers(c)))
      return hd__csv_no_number(ctx, t, c->first_text_line, t->label, &c->first_text);
    hd__csv_name(text, sizeof text, &c->first_text);
    if (numbers)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s:%lld: expected numbers for the loss in %s, found '%s'; train classes with --loss "
                      "cross_entropy, or name another column with --label",
                      t->path, (long long)c->first_text_line, hd__csv_column_name(name, t, t->label), text);
  }
  return HD_OK;
}

static hd_status take_labels(hd_dataset *out, const csv_set *set, hd_ctx *ctx, const hd_dataset_request *request) {
  const hd_csv_table *t = &set->table[0];
  const bool named = request->classes.count > 0;
  if (request->of_run && !named && t->column[t->label].texts > 0)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s:%lld: expected numbers as labels, as the run's classes have no names, found text; number the "
                    "classes as in training",
                    t->path, (long long)t->column[t->label].first_text_line);
  for (int64_t row = 0; row < t->count; row++)
    if (t->label_text[row].length == 0)
      return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a label, found an empty field; drop the row", t->path,
                      (long long)t->line[row]);
  if (!named && !request->first_rules)
    HD_TRY(refuse_texts(set, ctx));
  return named || t->column[t->label].texts > 0 ? take_texts(out, set, ctx)
                                                : take_numbers(out, set, ctx, are_classes(set));
}

static hd_status take_weights(hd_dataset *out, const csv_set *set, hd_ctx *ctx) {
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    if (t->weight < 0)
      continue;
    HD_TRY(hd__split_take_weights(&out->memory[i], &out->split[i], ctx, t->path));
    for (int64_t row = 0; row < t->count; row++) {
      double weight;
      if (!hd__csv_number(&weight, &t->weight_text[row]))
        return hd__csv_no_number(ctx, t, t->line[row], t->weight, &t->weight_text[row]);
      if (!hd__weight_is_valid(weight))
        return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected " HD_WEIGHT_WORDS ", found %g; correct the line", t->path,
                        (long long)t->line[row], weight);
      out->memory[i].weights[row] = (float)weight;
    }
  }
  return HD_OK;
}

/* ---- Files ---- */

static bool find_tables(char out[2][HD_PATH_BYTES], const char *path) {
  return snprintf(out[0], HD_PATH_BYTES, "%s/train.csv", path) < HD_PATH_BYTES && hd__file_exists(out[0]) &&
         snprintf(out[1], HD_PATH_BYTES, "%s/test.csv", path) < HD_PATH_BYTES;
}

static bool takes(hd_ctx *ctx, const char *path) {
  char tables[2][HD_PATH_BYTES];
  return hd__path_ends(path, ".csv") || find_tables(tables, path);
}

/* Opens the files; the label of all but the first is the column with the first one's name. */
static hd_status open_tables(csv_set *set, hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  hd_csv_options options = request->table;
  options.label = options.label ? options.label : "";
  options.categories = options.categories > 0 ? options.categories : HD_CSV_CATEGORIES;
  if (request->features && request->features->columns > 0) {
    HD_TRY(hd__features_copy(&out->features, ctx, request->features));
    if (options.header == HD_CSV_HEADER_AUTO)
      options.header = out->features.feature[0].column ? HD_CSV_HEADER_YES : HD_CSV_HEADER_NO;
  }
  for (int i = 0; i < set->files; i++) {
    if (out->features.label && !request->of_run)
      options.label = out->features.label;
    HD_TRY(hd__csv_open(&set->table[i], ctx, set->files == 2 ? set->path[i] : request->name, &options));
    HD_TRY(hd__table_check_empty(ctx, &set->table[i], &options));
    if (out->features.count == 0 && request->of_run)
      HD_TRY(hd__table_plain(&out->features, ctx, &set->table[i], &options,
                             request->features ? request->features->count : 0));
    else if (out->features.count == 0)
      HD_TRY(hd__table_features(&out->features, ctx, &set->table[i], &options));
  }
  return HD_OK;
}

static hd_status add_notes(hd_dataset *out, hd_ctx *ctx, const hd_csv_table *t) {
  char note[HD_TABLE_NOTES][HD_TABLE_NOTE_BYTES] = {"", ""};
  hd__table_describe(note, t, &out->features);
  for (int i = 0; i < HD_TABLE_NOTES; i++)
    if (*note[i])
      HD_TRY(hd__dataset_note(out, ctx, "%s", note[i]));
  return HD_OK;
}

/* Notes a table beside the two of a folder that looks like a validation set. */
static hd_status note_unused(hd_dataset *out, hd_ctx *ctx, const char *path) {
  static const char *const names[] = {"val.csv", "valid.csv", "validation.csv", "dev.csv"};
  char table[HD_PATH_BYTES];
  for (size_t n = 0; n < sizeof names / sizeof *names; n++)
    if (snprintf(table, sizeof table, "%s/%s", path, names[n]) < HD_PATH_BYTES && hd__file_exists(table))
      HD_TRY(hd__dataset_note(out, ctx, "%s: not used: %s; --val-split holds out a part of train.csv", path, names[n]));
  return HD_OK;
}

static hd_status open_path(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  HD_RELEASED(release) csv_set set = {0};
  set.files = find_tables(set.path, request->name) ? 2 : 1;
  set.labels = request->table.labels;
  HD_TRY(open_tables(&set, out, ctx, request));
  const bool of_arrays = request->of_run && out->features.columns == 0;
  HD_TRY(read_rows(out, ctx, &set, of_arrays));
  if (of_arrays && request->features)
    HD_TRY(take_features(out, ctx, request->features));
  HD_TRY(take_labels(out, &set, ctx, request));
  HD_TRY(take_weights(out, &set, ctx));
  HD_TRY(add_notes(out, ctx, &set.table[0]));
  if (set.files == 2)
    HD_TRY(note_unused(out, ctx, request->name));
  if (set.files == 1)
    HD_TRY(hd__dataset_divide(out, ctx, request->name));
  return out->split[0].labels && !out->split[0].class_names
             ? hd__dataset_count_classes(out->split, ctx, request->name, request->ignored)
             : HD_OK;
}

const hd_format hd__format_csv = {.name = "a .csv file",
                                  .takes = takes,
                                  .open = open_path,
                                  .folder = "train.csv and test.csv",
                                  .file = "a .csv",
                                  .table = true};
