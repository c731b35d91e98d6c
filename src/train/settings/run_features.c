/* Features in run.json: see run_features.h. */
#include "train/settings/run_features.h"

#include <math.h>

#include "base/alloc.h"
#include "data/split/split.h"
#include "data/tables/csv_table.h"

static const char TARGETS[] = "targets", CLASSES[] = "classes";

static void set_text(json_t *object, const char *key, const char *text) {
  if (text)
    json_object_set_new(object, key, json_string(text));
}

static json_t *one_json(const hd_feature *f) {
  json_t *object = json_object();
  set_text(object, "column", f->column);
  json_object_set_new(object, "place", json_integer(f->place));
  set_text(object, "category", f->category);
  if (f->empty)
    json_object_set_new(object, "empty", json_true());
  json_object_set_new(object, "mean", json_real(f->mean));
  json_object_set_new(object, "std", json_real(f->std));
  if (!isnan(f->fill))
    json_object_set_new(object, "fill", json_real(f->fill));
  return object;
}

static json_t *target_json(const hd_target_column *t) {
  json_t *object = json_object(), *list = t->class_name ? json_array() : NULL;
  set_text(object, "column", t->column);
  for (int32_t c = 0; c < t->classes; c++)
    json_array_append_new(list, json_string(t->class_name[c]));
  if (list)
    json_object_set_new(object, CLASSES, list);
  return object;
}

json_t *hd__features_json(const hd_features *f) {
  json_t *object = json_object(), *list = json_array();
  json_object_set_new(object, "columns", json_integer(f->columns));
  set_text(object, "label", f->label);
  if (f->given)
    json_object_set_new(object, "given", json_true());
  for (int32_t i = 0; i < f->count; i++)
    json_array_append_new(list, one_json(&f->feature[i]));
  json_object_set_new(object, "of", list);
  if (f->targets > 0)
    json_object_set_new(object, TARGETS, list = json_array());
  for (int32_t k = 0; k < f->targets; k++)
    json_array_append_new(list, target_json(&f->target[k]));
  return object;
}

/* A copy of a text; NULL where there is none. */
static bool read_text(char **out, const json_t *object, const char *key) {
  const json_t *text = json_object_get(object, key);
  *out = json_is_string(text) ? hd__strdup(json_string_value(text)) : NULL;
  return !text || *out;
}

static bool read_one(hd_feature *out, const json_t *from) {
  const json_t *fill = json_object_get(from, "fill"), *place = json_object_get(from, "place");
  const json_t *is[] = {json_object_get(from, "mean"), json_object_get(from, "std")};
  const double mean = json_number_value(is[0]), std = json_number_value(is[1]);
  const json_int_t at = json_integer_value(place);
  *out = (hd_feature){.place = at >= 0 && at <= UINT16_MAX ? (int32_t)at : -1,
                      .empty = json_is_true(json_object_get(from, "empty")),
                      .fill = fill ? json_number_value(fill) : NAN,
                      .mean = mean,
                      .std = std};
  const bool texts = read_text(&out->column, from, "column"), category = read_text(&out->category, from, "category");
  return texts && category && json_is_integer(place) && out->place >= 0 && json_is_number(is[0]) &&
         json_is_number(is[1]) && fabs(mean) < 1e300 && isnormal(std) && std > 0 && (!fill || json_is_number(fill));
}

static bool read_target(hd_target_column *out, const json_t *from) {
  const json_t *classes = json_object_get(from, CLASSES);
  const size_t count = json_array_size(classes);
  const char **name = hd__calloc(count + 1, sizeof *name);
  bool good =
      name && read_text(&out->column, from, "column") && (!classes || (count > 0 && count <= HD_DATA_MAX_CLASSES));
  for (size_t c = 0; c < count && good; c++)
    good = (name[c] = json_string_value(json_array_get(classes, c))) != NULL;
  good = good && (!classes || hd__target_column_name(out, name, (int32_t)count));
  hd__free(name);
  return good;
}

static bool read_targets(hd_features *out, const json_t *list) {
  const size_t count = json_array_size(list);
  out->target = count >= 2 && count <= HD_CSV_MOST_LABELS ? hd__calloc(count, sizeof *out->target) : NULL;
  out->targets = out->target ? (int32_t)count : 0;
  bool good = out->target != NULL;
  for (size_t k = 0; k < count && good; k++)
    good = json_is_object(json_array_get(list, k)) && read_target(&out->target[k], json_array_get(list, k));
  return good;
}

bool hd__features_read(hd_features *out, const json_t *from) {
  const json_t *list = json_object_get(from, "of");
  const size_t count = json_array_size(list);
  *out = (hd_features){.columns = (int32_t)json_integer_value(json_object_get(from, "columns")),
                       .given = json_is_true(json_object_get(from, "given"))};
  bool good = count >= 1 && count <= INT32_MAX && read_text(&out->label, from, "label");
  out->feature = good ? hd__calloc(count, sizeof *out->feature) : NULL;
  good = good && out->feature;
  out->count = good ? (int32_t)count : 0;
  for (size_t i = 0; i < count && good; i++)
    good = read_one(&out->feature[i], json_array_get(list, i));
  if (good && json_object_get(from, TARGETS))
    good = read_targets(out, json_object_get(from, TARGETS));
  return good;
}
