/* Features in run.json: see run_features.h. */
#include "train/settings/run_features.h"

#include <math.h>

#include "base/alloc.h"

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

json_t *hd__features_json(const hd_features *f) {
  json_t *object = json_object(), *list = json_array();
  json_object_set_new(object, "columns", json_integer(f->columns));
  set_text(object, "label", f->label);
  if (f->given)
    json_object_set_new(object, "given", json_true());
  for (int32_t i = 0; i < f->count; i++)
    json_array_append_new(list, one_json(&f->feature[i]));
  json_object_set_new(object, "of", list);
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
  return good;
}
