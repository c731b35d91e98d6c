/* CSV files: one row per sample, one column for the class or the target (data/tables).
 *
 *     PATH.csv, of which a fifth becomes the test set (format.h), or a folder
 * with train.csv and test.csv
 *
 * If a label is a text in some row, labels are classes, numbered in the order of their bytes; otherwise whole numbers
 * are classes, other numbers targets; a column called target holds numbers to predict if it has no text. A requested
 * loss decides whether whole numbers are classes. Several columns of labels are targets, one each; a column of texts
 * has the numbers of its classes. */
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
      inexact = inexact || (!set->table[i].column[c].field &&
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
                               .outputs = t->labels}; /* for now; labels need as much memory as targets */
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

/* The texts of a label column, sorted, each once. */
typedef struct label_texts {
  hd_csv_field *sorted;
  int64_t count;
} label_texts;

static void release_texts(label_texts *texts) { hd__free(texts->sorted); }

/* The texts of the training set's label column `k`, and their names. */
static hd_status collect_names(label_texts *out, hd_names *names, hd_ctx *ctx, const hd_csv_table *t, int32_t k) {
  HD_TRY(HD_NEW_RAW(out->sorted, t->count, ctx, "%s: out of memory for the names of classes", t->path));
  hd_csv_field *sorted = memcpy(out->sorted, hd__csv_labels(t, k), (size_t)t->count * sizeof *sorted);
  qsort(sorted, (size_t)t->count, sizeof *sorted, hd__csv_compare);
  int64_t kept = 0;
  for (int64_t i = 0; i < t->count; i++)
    if (kept == 0 || hd__csv_compare(&sorted[kept - 1], &sorted[i]))
      sorted[kept++] = sorted[i];
  out->count = kept;
  if (kept > HD_DATA_MAX_CLASSES)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected up to %d classes, found %lld; name another column with --label",
                    t->path, HD_DATA_MAX_CLASSES, (long long)kept);
  names->name = hd__calloc((size_t)kept, sizeof *names->name);
  names->text = hd__malloc((size_t)kept * HD_CSV_NAME_BYTES);
  HD_TRY(HD_ALLOCATED(names->name && names->text, ctx, "%s: out of memory for the names of classes", t->path));
  for (int64_t i = 0; i < kept; i++) {
    char *name = names->text + i * HD_CSV_NAME_BYTES;
    hd__csv_name(name, HD_CSV_NAME_BYTES, &sorted[i]);
    names->name[i] = name;
  }
  names->count = (int)kept;
  return refuse_equal_names(names, ctx, t->path);
}

/* The place of a row's label `k` among the texts of the training set. */
static hd_status find_class(int32_t *out, hd_ctx *ctx, const hd_csv_table *t, int32_t k, int64_t row,
                            const label_texts *texts) {
  const hd_csv_field *f = &hd__csv_labels(t, k)[row];
  const hd_csv_field *found = bsearch(f, texts->sorted, (size_t)texts->count, sizeof *f, hd__csv_compare);
  char text[48];
  if (found) {
    *out = (int32_t)(found - texts->sorted);
    return HD_OK;
  }
  hd__csv_name(text, sizeof text, f);
  return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a class of the training set, found '%s'; correct the file",
                  t->path, (long long)t->line[row], text);
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
  HD_RELEASED(release_texts) label_texts texts = {0};
  HD_TRY(collect_names(&texts, &out->names, ctx, &set->table[0], 0));
  for (int i = 0; i < set->files; i++) {
    HD_TRY(make_labels(&out->memory[i], &split[i], ctx, set->table[i].path));
    for (int64_t row = 0; row < set->table[i].count; row++)
      HD_TRY(find_class(&out->memory[i].labels[row], ctx, &set->table[i], 0, row, &texts));
    split[i].classes = (int)texts.count;
    split[i].class_names = out->names.name;
  }
  return HD_OK;
}

static hd_status take_class(int32_t *out, hd_ctx *ctx, const hd_csv_table *t, int64_t row, double value) {
  const hd_csv_field *f = &hd__csv_labels(t, 0)[row];
  if (hd__csv_is_whole(f) && value < HD_DATA_MAX_CLASSES) {
    *out = (int32_t)value;
    return HD_OK;
  }
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:%lld: expected a class from 0 to %d as label, found '%.*s'; train with --loss mse if labels are "
                  "numbers to predict, or name another column with --label",
                  t->path, (long long)t->line[row], HD_DATA_MAX_CLASSES - 1, (int)(f->length < 40 ? f->length : 40),
                  f->at);
}

static hd_status take_number(double *out, hd_ctx *ctx, const hd_csv_table *t, int32_t k, int64_t row) {
  const hd_csv_field *f = &hd__csv_labels(t, k)[row];
  return hd__csv_number(out, f) ? HD_OK : hd__csv_no_number(ctx, t, t->line[row], t->label[k], f);
}

static hd_status take_numbers(hd_dataset *out, const csv_set *set, hd_ctx *ctx, bool classes) {
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    hd_split_memory *to = &out->memory[i];
    if (classes)
      HD_TRY(make_labels(to, &out->split[i], ctx, t->path));
    for (int64_t row = 0; row < t->count; row++) {
      double value;
      HD_TRY(take_number(&value, ctx, t, 0, row));
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
      const hd_csv_field *f = &hd__csv_labels(&set->table[i], 0)[row];
      whole = !hd__csv_number(&value, f) || (hd__csv_is_whole(f) && value < HD_DATA_MAX_CLASSES);
    }
  return set->labels == HD_LABELS_AUTO ? !t->is_target && (whole || t->is_class) : whole;
}

/* Whether most labels are numbers, but some are no class numbers. */
static bool has_decimals(const hd_csv_table *t, int32_t k) {
  bool decimals = false;
  for (int64_t row = 0; row < t->count && hd__csv_has_numbers(&t->column[t->label[k]]) && !decimals; row++) {
    double value;
    decimals = hd__csv_number(&value, &hd__csv_labels(t, k)[row]) && value != floor(value);
  }
  return decimals;
}

/* A text in a column of numbers is a mistake; for a loss that reads no numbers it is a class. */
static hd_status refuse_texts(const csv_set *set, hd_ctx *ctx) {
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    const hd_csv_column *c = &t->column[t->label[0]];
    const bool numbers = set->labels == HD_LABELS_NUMBERS;
    char name[HD_CSV_NAME_BYTES + 16], text[48];
    if (c->texts == 0 || set->labels == HD_LABELS_CLASSES)
      continue;
    if (has_decimals(t, 0) || (numbers && hd__csv_has_numbers(c)))
      return hd__csv_no_number(ctx, t, c->first_text_line, t->label[0], &c->first_text);
    hd__csv_name(text, sizeof text, &c->first_text);
    if (numbers)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s:%lld: expected numbers for the loss in %s, found '%s'; train classes with --loss "
                      "cross_entropy, or name another column with --label",
                      t->path, (long long)c->first_text_line, hd__csv_column_name(name, t, t->label[0]), text);
  }
  return HD_OK;
}

/* NA is text here: a class may be called so. */
static hd_status refuse_empty(const csv_set *set, hd_ctx *ctx) {
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    for (int32_t k = 0; k < t->labels; k++)
      for (int64_t row = 0; row < t->count; row++)
        if (hd__csv_labels(t, k)[row].length == 0)
          return hd__fail(ctx, HD_E_FORMAT, "%s:%lld: expected a label, found an empty field; drop the row", t->path,
                          (long long)t->line[row]);
  }
  return HD_OK;
}

static hd_status refuse_new_texts(hd_ctx *ctx, const hd_csv_table *t, int32_t k) {
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:%lld: expected numbers as labels, as the run's classes have no names, found text; number the "
                  "classes as in training",
                  t->path, (long long)t->column[t->label[k]].first_text_line);
}

static hd_status take_label(hd_dataset *out, const csv_set *set, hd_ctx *ctx, const hd_dataset_request *request) {
  const hd_csv_table *t = &set->table[0];
  const bool named = request->classes.count > 0, texts = t->column[t->label[0]].texts > 0;
  if (request->of_run && !named && texts)
    return refuse_new_texts(ctx, t, 0);
  if (!named && !request->first_rules)
    HD_TRY(refuse_texts(set, ctx));
  return named || texts ? take_texts(out, set, ctx) : take_numbers(out, set, ctx, are_classes(set));
}

/* ---- Several columns of labels ---- */

static void release_names(hd_names *names) {
  hd__free(names->name);
  hd__free(names->text);
}

/* The run's number of each class of a table, found by its name. */
static hd_status match_names(int32_t *number, hd_ctx *ctx, const hd_csv_table *t, const hd_names *names,
                             const hd_target_column *of_run) {
  for (int32_t i = 0; i < names->count; i++) {
    int32_t tried = 0; /* from number i on, which it mostly is */
    while (tried < of_run->classes && strcmp(names->name[i], of_run->class_name[(i + tried) % of_run->classes]))
      tried++;
    if (tried == of_run->classes)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected classes of the training set, found '%.100s'; leave it out, or train with it",
                      t->path, names->name[i]);
    number[i] = (i + tried) % of_run->classes;
  }
  return HD_OK;
}

/* Targets of a column of texts: the numbers of its classes. */
static hd_status take_target_texts(hd_dataset *out, const csv_set *set, hd_ctx *ctx, int32_t k) {
  hd_target_column *column = &out->features.target[k];
  HD_RELEASED(release_texts) label_texts texts = {0};
  HD_RELEASED(release_names) hd_names names = {0};
  HD_OWNED int32_t *number = NULL;
  HD_TRY(collect_names(&texts, &names, ctx, &set->table[0], k));
  HD_TRY(HD_NEW_RAW(number, texts.count, ctx, "%s: out of memory for the names of classes", set->table[0].path));
  if (!column->class_name && !hd__target_column_name(column, names.name, names.count))
    return HD_ALLOCATED(false, ctx, "%s: out of memory for the names of classes", set->table[0].path);
  HD_TRY(match_names(number, ctx, &set->table[0], &names, column));
  for (int i = 0; i < set->files; i++)
    for (int64_t row = 0; row < set->table[i].count; row++) {
      int32_t class;
      HD_TRY(find_class(&class, ctx, &set->table[i], k, row, &texts));
      out->memory[i].targets[row * out->split[i].outputs + k] = (float)number[class];
    }
  return HD_OK;
}

static hd_status take_target(hd_dataset *out, const csv_set *set, hd_ctx *ctx, const hd_dataset_request *request,
                             int32_t k) {
  const hd_csv_table *t = &set->table[0];
  const hd_csv_column *c = &t->column[t->label[k]];
  const bool named = k < out->features.targets && out->features.target[k].class_name;
  if (c->texts > 0 && !named && request->of_run)
    return refuse_new_texts(ctx, t, k);
  if (c->texts > 0 && has_decimals(t, k))
    return hd__csv_no_number(ctx, t, c->first_text_line, t->label[k], &c->first_text);
  if (named || c->texts > 0)
    return take_target_texts(out, set, ctx, k);
  for (int i = 0; i < set->files; i++)
    for (int64_t row = 0; row < set->table[i].count; row++) {
      double value;
      HD_TRY(take_number(&value, ctx, &set->table[i], k, row));
      out->memory[i].targets[row * out->split[i].outputs + k] = (float)value;
    }
  return HD_OK;
}

/* Each column is one target of a row. */
static hd_status take_targets(hd_dataset *out, const csv_set *set, hd_ctx *ctx, const hd_dataset_request *request) {
  const hd_csv_table *t = &set->table[0];
  const int32_t of_run = out->features.targets;
  if (request->of_run && of_run != t->labels && of_run > 0)
    return hd__fail(ctx, HD_E_USAGE, "%s: expected %d columns of labels as in training, found %d; name them by --label",
                    t->path, of_run, t->labels);
  for (int32_t k = 0; k < t->labels; k++)
    HD_TRY(take_target(out, set, ctx, request, k));
  for (int i = 0; i < 2; i++)
    out->split[i].target_column = out->features.target;
  return HD_OK;
}

static hd_status take_weights(hd_dataset *out, const csv_set *set, hd_ctx *ctx) {
  for (int i = 0; i < set->files; i++) {
    const hd_csv_table *t = &set->table[i];
    if (t->weight < 0)
      continue;
    HD_TRY(hd__split_take_weights(&out->memory[i], &out->split[i], ctx, t->path));
    for (int64_t row = 0; row < t->count; row++) {
      double weight;
      const hd_csv_field *f = &t->column[t->weight].field[row];
      if (!hd__csv_number(&weight, f))
        return hd__csv_no_number(ctx, t, t->line[row], t->weight, f);
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
  HD_TRY(refuse_empty(&set, ctx));
  HD_TRY((set.table[0].labels > 1 ? take_targets : take_label)(out, &set, ctx, request));
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
