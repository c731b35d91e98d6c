/* Predictions for the samples in a file: see heddle/predict.h. They are read as eval reads a data set's. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/rounding.h"
#include "data/formats/named_arrays.h"
#include "data/tables/table_rows.h"
#include "train/inference/predictor.h"

struct hd_rows {
  char *path;
  hd_split samples;
  hd_table_rows table; /* of a CSV file */
  hd_array_split array;
  bool is_table;
  float *floats;   /* normalised rows of an array */
  int32_t *labels; /* zeros: the executor reads some */
  int32_t *truth;  /* of a table, classes */
  double *target;  /* and numbers */
  char text[HD_CSV_NAME_BYTES];
};

/* ---- The model's input ---- */

static int64_t elems_of(const hd_predictor *p) {
  int32_t shape[3];
  hd_predictor_input(shape, p);
  return (int64_t)shape[0] * shape[1] * shape[2];
}

/* Whether the model takes samples as the run's transforms leave them. */
static hd_status check_fit(const hd_rows *r, hd_ctx *ctx, hd_predictor *p) {
  int32_t shape[3];
  HD_FEED_OWNED feed = {0};
  hd_predictor_input(shape, p);
  HD_TRY(hd__trained_check_kind(&p->trained, ctx, r->path, &r->samples));
  HD_TRY(hd__trained_feed(&feed, ctx, &p->trained, &r->samples, HD_PIPELINE_EVALUATION));
  const hd_split seen = hd__feed_seen(&feed);
  const bool fits = seen.flat && shape[0] == 1 && seen.width == elems_of(p);
  if (fits || (seen.channels == shape[0] && seen.height == shape[1] && seen.width == shape[2]))
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE,
                  "%s: the model reads samples of %dx%dx%d, found %dx%dx%d; give samples of that shape", r->path,
                  shape[0], shape[1], shape[2], seen.channels, seen.height, seen.width);
}

/* ---- Files ---- */

static hd_status normalise_array(hd_rows *r, hd_ctx *ctx, const hd_features *f) {
  hd_split *d = &r->samples;
  const int64_t elems = hd__split_elems(d);
  if (elems != f->count)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected %d numbers per row as in training, found %lld; give rows of that length", r->path,
                    f->count, (long long)elems);
  HD_TRY(HD_NEW_RAW(r->floats, d->count * elems, ctx, "%s: out of memory for rows", r->path));
  for (int64_t i = 0; i < d->count * elems; i++)
    r->floats[i] = d->images ? (float)d->images[i] : d->floats[i];
  hd__features_apply(r->floats, f, NULL, d->count);
  d->elem = HD_ELEM_F32;
  d->images = NULL;
  d->floats = r->floats;
  return HD_OK;
}

static hd_status open_array(hd_rows *r, hd_ctx *ctx, const hd_predictor *p) {
  HD_TRY(hd__array_split_open(&r->array, ctx, r->path));
  r->samples = r->array.split;
  return hd__trained_reads_columns(&p->trained) ? normalise_array(r, ctx, &p->trained.features) : HD_OK;
}

/* The number of a class; -1: it has none. */
static int32_t class_of(const hd_predictor *p, const hd_csv_field *f) {
  char name[HD_CSV_NAME_BYTES];
  const hd_trained *t = &p->trained;
  const int32_t classes = hd_predictor_gives(p) == HD_PREDICTS_CLASSES ? hd_predictor_count(p) : 0;
  int64_t number;
  hd__csv_name(name, sizeof name, f);
  for (int32_t c = 0; c < t->class_names && classes > 0; c++)
    if (!strcmp(name, t->class_name[c]))
      return c;
  const bool is_number = t->class_names == 0 && hd__csv_is_whole(f) && hd__parse_int64(&number, name);
  return is_number && number < classes ? (int32_t)number : -1;
}

/* The labels of rows that have one each. */
static const hd_csv_field *labels_of(const hd_csv_table *t) { return t->labels == 1 ? hd__csv_labels(t, 0) : NULL; }

/* Labels; of a regression each must be a number, or empty. */
static hd_status take_truth(hd_rows *r, hd_ctx *ctx, const hd_predictor *p) {
  const hd_csv_table *t = &r->table.table;
  HD_TRY(HD_NEW_RAW(r->truth, t->count, ctx, "%s: out of memory for labels", r->path));
  HD_TRY(HD_NEW_RAW(r->target, t->count, ctx, "%s: out of memory for labels", r->path));
  for (int64_t i = 0; i < t->count; i++) {
    const hd_csv_field *f = labels_of(t) ? &labels_of(t)[i] : NULL;
    r->truth[i] = f ? class_of(p, f) : -1;
    r->target[i] = NAN;
    if (!f || hd_predictor_gives(p) != HD_PREDICTS_NUMBERS || hd__csv_is_empty(f))
      continue;
    if (!hd__csv_number(&r->target[i], f))
      return hd__csv_no_number(ctx, t, t->line[i], t->label[0], f);
  }
  return HD_OK;
}

static hd_status open_table(hd_rows *r, hd_ctx *ctx, const hd_predictor *p) {
  const hd_trained *trained = &p->trained;
  const bool columns = hd__trained_reads_columns(trained);
  const hd_csv_options options = hd__trained_table(trained, p->config);
  const hd_features *f = trained->features.count > 0 ? &trained->features : NULL;
  hd_table_rows *t = &r->table;
  r->is_table = true;
  HD_TRY(hd__table_rows_open(t, ctx, r->path, f, (int32_t)elems_of(p), &options));
  if (columns)
    hd__features_apply(t->floats, f, t->numbers, t->table.count);
  r->samples = (hd_split){.count = t->table.count,
                          .elem = HD_ELEM_F32,
                          .floats = t->floats,
                          .channels = 1,
                          .height = 1,
                          .width = f ? f->count : (int)elems_of(p),
                          .flat = true,
                          .classes = 1};
  return take_truth(r, ctx, p);
}

static hd_status open_any(hd_rows *r, hd_ctx *ctx, hd_predictor *p, const char *path) {
  r->path = hd__strdup(path);
  HD_TRY(HD_ALLOCATED(r->path, ctx, "out of memory for a file's samples"));
  HD_TRY(hd__path_ends(path, ".npy") ? open_array(r, ctx, p) : open_table(r, ctx, p));
  HD_TRY(HD_NEW(r->labels, r->samples.count, ctx, "%s: out of memory for rows", r->path));
  r->samples.labels = r->labels;
  return check_fit(r, ctx, p);
}

hd_status hd_rows_open(hd_rows **out, hd_ctx *ctx, hd_predictor *p, const char *path) {
  HD_ROUNDING_TO_NEAREST;
  hd_rows *r = *out = hd__calloc(1, sizeof *r);
  HD_TRY(HD_ALLOCATED(r, ctx, "out of memory for a file's samples"));
  const hd_status status = open_any(r, ctx, p, path);
  return HD_CREATED(status, out, hd_rows_close);
}

void hd_rows_close(hd_rows *r) {
  if (!r)
    return;
  hd__table_rows_close(&r->table);
  hd__array_split_fini(&r->array);
  hd__free(r->floats);
  hd__free(r->labels);
  hd__free(r->truth);
  hd__free(r->target);
  hd__free(r->path);
  hd__free(r);
}

int64_t hd_rows_count(const hd_rows *r) { return r->samples.count; }
int64_t hd_rows_line(const hd_rows *r, int64_t row) { return r->is_table ? r->table.table.line[row] : 0; }

const char *hd_rows_truth(int32_t *label, double *target, hd_rows *r, int64_t row) {
  const hd_csv_field *labels = r->is_table ? labels_of(&r->table.table) : NULL;
  const bool there = labels != NULL;
  if (label)
    *label = there ? r->truth[row] : -1;
  *target = there ? r->target[row] : NAN;
  if (!there)
    return NULL;
  hd__csv_name(r->text, sizeof r->text, &labels[row]);
  return r->text;
}

hd_status hd_predict_rows(double *value, hd_predictor *p, hd_ctx *ctx, const hd_rows *r, int64_t first, int64_t count) {
  HD_ROUNDING_TO_NEAREST;
  const int64_t elems = hd__split_elems(&r->samples), values = hd_predictor_count(p);
  if (first < 0 || count < 0 || count > r->samples.count - first)
    return hd__fail(ctx, HD_E_USAGE, "%s: expected samples from 0 to %lld, found %lld from %lld on", r->path,
                    (long long)r->samples.count - 1, (long long)count, (long long)first);
  int32_t shape[3];
  hd_predictor_input(shape, p);
  HD_TRY(hd__masks_begin(p, ctx, count, shape));
  for (int64_t at = 0; at < count; at += HD_PREDICTED_AT_ONCE) {
    hd_split some = r->samples;
    some.count = count - at < HD_PREDICTED_AT_ONCE ? count - at : HD_PREDICTED_AT_ONCE;
    some.images = some.images ? some.images + (first + at) * elems : NULL;
    some.floats = some.floats ? some.floats + (first + at) * elems : NULL;
    HD_TRY(hd__predict_some(value + at * values, p, ctx, &some, HD_PIPELINE_EVALUATION));
  }
  return HD_OK;
}
