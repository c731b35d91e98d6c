/* Features of tables: see features.h. */
#include "data/tables/features.h"

#include <math.h>

#include "base/alloc.h"

static const char NO_MEMORY[] = "out of memory for the columns of a table";

void hd__features_fini(hd_features *f) {
  for (int32_t i = 0; f->feature && i < f->count; i++) {
    hd__free(f->feature[i].column);
    hd__free(f->feature[i].category);
  }
  for (int32_t k = 0; f->target && k < f->targets; k++) {
    hd__free(f->target[k].column);
    for (int32_t c = 0; f->target[k].class_name && c < f->target[k].classes; c++)
      hd__free(f->target[k].class_name[c]);
    hd__free(f->target[k].class_name);
  }
  hd__free(f->feature);
  hd__free(f->target);
  hd__free(f->label);
  *f = (hd_features){0};
}

bool hd__target_column_name(hd_target_column *column, const char *const *name, int32_t count) {
  column->class_name = hd__calloc((size_t)count, sizeof *column->class_name);
  column->classes = count;
  bool enough = column->class_name != NULL;
  for (int32_t c = 0; c < count && enough; c++)
    enough = (column->class_name[c] = hd__strdup(name[c])) != NULL;
  return enough;
}

static bool copy_text(char **text) {
  if (*text)
    *text = hd__strdup(*text);
  return *text != NULL;
}

static bool copy_target(hd_target_column *to, const hd_target_column *from) {
  to->column = from->column;
  return (!to->column || copy_text(&to->column)) &&
         (!from->class_name || hd__target_column_name(to, (const char *const *)from->class_name, from->classes));
}

hd_status hd__features_copy(hd_features *out, hd_ctx *ctx, const hd_features *f) {
  *out = (hd_features){.count = f->count, .columns = f->columns, .given = f->given, .label = f->label};
  bool enough = !f->label || copy_text(&out->label);
  HD_TRY(HD_NEW(out->feature, f->count, ctx, NO_MEMORY));
  for (int32_t i = 0; i < f->count; i++) {
    hd_feature *to = &out->feature[i];
    *to = f->feature[i];
    enough = (!to->column || copy_text(&to->column)) && enough;
    enough = (!to->category || copy_text(&to->category)) && enough;
  }
  if (f->targets == 0)
    return HD_ALLOCATED(enough, ctx, NO_MEMORY);
  HD_TRY(HD_NEW(out->target, f->targets, ctx, NO_MEMORY));
  out->targets = f->targets;
  for (int32_t k = 0; k < f->targets; k++)
    enough = copy_target(&out->target[k], &f->target[k]) && enough;
  return HD_ALLOCATED(enough, ctx, NO_MEMORY);
}

hd_status hd__features_numbers(hd_features *out, hd_ctx *ctx, int32_t count) {
  *out = (hd_features){0};
  HD_TRY(HD_NEW(out->feature, count, ctx, NO_MEMORY));
  out->count = count;
  for (int32_t i = 0; i < count; i++)
    out->feature[i] = (hd_feature){.place = i, .fill = NAN, .std = 1};
  return HD_OK;
}

/* Rows of numbers. */
typedef struct table_rows {
  const double *numbers;
  const float *floats, *weights;
  int64_t rows;
  int32_t count;
} table_rows;

static double at(const table_rows *t, int64_t i) { return t->numbers ? t->numbers[i] : (double)t->floats[i]; }

static double weight_of(const table_rows *t, int64_t row) { return t->weights ? (double)t->weights[row] : 1; }

/* Adds x - origin of each column, and finds the largest; empty fields are NAN and do not count. */
static void add_differences(double *sum, double *largest, double *there, const table_rows *t, const double *origin) {
  for (int64_t row = 0; row < t->rows; row++) {
    const double weight = weight_of(t, row);
    for (int32_t c = 0; c < t->count && weight > 0; c++) {
      const double d = at(t, row * t->count + c) - origin[c];
      sum[c] += isnan(d) ? 0 : weight * d;
      largest[c] = fabs(d) > largest[c] ? fabs(d) : largest[c];
      there[c] += isnan(d) ? 0 : weight;
    }
  }
}

/* Adds the squares of (x - mean) / largest, which neither overflow nor vanish. */
static void add_squares(double *sum, const double *largest, const table_rows *t, const double *mean) {
  for (int64_t row = 0; row < t->rows; row++) {
    const double weight = weight_of(t, row);
    for (int32_t c = 0; c < t->count && weight > 0; c++) {
      const double d = (at(t, row * t->count + c) - mean[c]) / largest[c];
      sum[c] += isnan(d) ? 0 : weight * (d * d);
    }
  }
}

/* The first number of a column that counts; 0 if there is none. */
static double first_of(const table_rows *t, int32_t column) {
  int64_t row = 0;
  while (row < t->rows && (isnan(at(t, row * t->count + column)) || weight_of(t, row) == 0))
    row++;
  return row < t->rows ? at(t, row * t->count + column) : 0;
}

hd_status hd__features_measure(hd_features *f, hd_ctx *ctx, const double *numbers, const float *floats,
                               const float *weights, int64_t rows) {
  const table_rows t = {.numbers = numbers, .floats = floats, .weights = weights, .rows = rows, .count = f->count};
  double counted = 0;
  HD_OWNED double *mean = NULL;
  HD_OWNED double *sum = NULL;
  HD_OWNED double *largest = NULL;
  HD_OWNED double *there = NULL;
  HD_TRY(HD_NEW(mean, f->count, ctx, NO_MEMORY));
  HD_TRY(HD_NEW(sum, f->count, ctx, NO_MEMORY));
  HD_TRY(HD_NEW(largest, f->count, ctx, NO_MEMORY));
  HD_TRY(HD_NEW(there, f->count, ctx, NO_MEMORY));
  for (int64_t row = 0; row < rows; row++)
    counted += weight_of(&t, row);
  for (int32_t c = 0; c < f->count; c++)
    mean[c] = first_of(&t, c);
  add_differences(sum, largest, there, &t, mean);
  for (int32_t c = 0; c < f->count; c++) {
    mean[c] += there[c] > 0 ? sum[c] / there[c] : 0;
    sum[c] = 0;
  }
  add_squares(sum, largest, &t, mean);
  for (int32_t c = 0; c < f->count; c++) {
    hd_feature *to = &f->feature[c];
    const double std = largest[c] * sqrt(sum[c] / counted);
    to->mean = mean[c];
    to->std = largest[c] > 0 && isnormal(std) ? std : 1;
    to->fill = isnan(to->fill) ? NAN : mean[c];
  }
  return HD_OK;
}

void hd__features_fill(double *numbers, float *floats, const hd_features *f, int64_t rows) {
  for (int64_t row = 0; row < rows; row++)
    for (int32_t c = 0; c < f->count; c++) {
      const int64_t i = row * f->count + c;
      if (numbers && isnan(numbers[i]))
        numbers[i] = f->feature[c].fill;
      if (isnan(floats[i]))
        floats[i] = (float)f->feature[c].fill;
    }
}

void hd__features_apply(float *floats, const hd_features *f, const double *numbers, int64_t rows) {
  const table_rows t = {.numbers = numbers, .floats = floats, .rows = rows, .count = f->count};
  for (int64_t row = 0; row < rows; row++)
    for (int32_t c = 0; c < f->count; c++) {
      const int64_t i = row * f->count + c;
      floats[i] = (float)((at(&t, i) - f->feature[c].mean) / f->feature[c].std);
    }
}
