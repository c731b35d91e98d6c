/* Converts arrays to samples; see named_arrays.h. An array in the layout of samples is not copied. */
#include "data/formats/named_arrays.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { X_TRAIN, Y_TRAIN, X_TEST, Y_TEST, PARTS, MOST_OUTPUTS = 1 << 20 };

/* Weights of samples, which need not be there: of the training and the test set, and of a set without one. */
static const char *const weights[] = {"sample_weight_train", "sample_weight_test"};
static const char one_weights[] = "sample_weight";

static const char *const names[][PARTS] = {{"x_train", "y_train", "x_test", "y_test"},
                                           {"train_images", "train_labels", "test_images", "test_labels"},
                                           {"images", "labels"},
                                           {"x", "y"}};

typedef struct array_set {
  hd_named_array part[PARTS], weights[2];
} array_set;

static void free_array(hd_named_array *array) {
  hd__file_unmap(&array->mapping);
  hd__free(array->copy);
}

static void release(void *self) {
  array_set *set = self;
  for (int i = 0; i < PARTS; i++)
    free_array(&set->part[i]);
  for (int i = 0; i < 2; i++)
    free_array(&set->weights[i]);
}

/* The first set of names of which any exists; NULL if none. */
static const char *const *names_of(const hd_named_arrays *arrays) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (int k = 0; k < PARTS && names[i][k]; k++)
      if (arrays->has(arrays->self, names[i][k]))
        return names[i];
  return NULL;
}

bool hd__arrays_there(const hd_named_arrays *arrays) { return names_of(arrays) != NULL; }

/* The dimensions of samples, channels, rows and columns in an array. */
typedef struct strides {
  int64_t stride[4];
} strides;

/* The axis of an array's channels: the first of those before and behind the sides that has 1 to 4 elements; or of more
 * channels the one beside equal sides, or that which is smaller than both; -1: neither is. */
static int channel_axis(const hd_npy *a) {
  enum { FIRST = 1, LAST = 3, FEW = 4 };
  const int64_t first = a->size[FIRST], middle = a->size[2], last = a->size[LAST];
  if (first <= FEW || last <= FEW)
    return first <= FEW ? FIRST : LAST;
  if (middle == 1 || middle == last) /* a signal, or a square */
    return FIRST;
  if (first == middle)
    return LAST;
  return first < middle && first < last ? FIRST : last < first && last < middle ? LAST : -1;
}

/* Derives the samples' shape from the array's. */
static hd_status see_samples(hd_split *out, strides *v, hd_ctx *ctx, const hd_named_array *array) {
  const hd_npy *a = &array->npy;
  int c = -1, h = -1, w = -1;
  if (a->rank == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected an array of samples, found a single number; save an array",
                    array->name);
  if (a->rank == 2)
    w = 1;
  if (a->rank == 3)
    h = 1, w = 2;
  if (a->rank == 4) {
    c = channel_axis(a);
    h = c == 1 ? 2 : 1;
    w = h + 1;
    if (c < 0)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected channels, first or last, that are fewer than rows and columns, found samples of "
                      "%lldx%lldx%lld, of which either may be channels; make the pictures square",
                      array->name, (long long)a->size[1], (long long)a->size[2], (long long)a->size[3]);
  }
  const int axis[4] = {0, c, h, w};
  int64_t size[4];
  for (int i = 0; i < 4; i++) {
    size[i] = axis[i] < 0 ? 1 : a->size[axis[i]];
    v->stride[i] = axis[i] < 0 ? 0 : a->stride[axis[i]];
  }
  const int64_t most = HD_DATA_MAX_SIDE;
  if (size[0] < 1 || size[1] < 1 || size[1] > HD_DATA_MAX_CHANNELS || size[2] < 1 || size[2] > most || size[3] < 1 ||
      size[3] > most)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected at least one sample of 1 to %d channels, first or last, and sides of 1 to %d, found "
                    "%lld of %lldx%lldx%lld; save it in another shape",
                    array->name, HD_DATA_MAX_CHANNELS, HD_DATA_MAX_SIDE, (long long)size[0], (long long)size[1],
                    (long long)size[2], (long long)size[3]);
  *out = (hd_split){.count = size[0],
                    .elem = a->kind == 'u' && a->elem_bytes == 1 ? HD_ELEM_U8 : HD_ELEM_F32,
                    .channels = (int)size[1],
                    .height = (int)size[2],
                    .width = (int)size[3],
                    .flat = a->rank <= 2};
  return HD_OK;
}

/* Whether the array's memory can be used as samples. */
static bool lies_as_samples(const hd_npy *a, const hd_split *d, const strides *v) {
  const int64_t plane = (int64_t)d->height * d->width, elems = plane * d->channels;
  const bool order = (d->count == 1 || v->stride[0] == elems) && (d->channels == 1 || v->stride[1] == plane) &&
                     (d->height == 1 || v->stride[2] == d->width) && (d->width == 1 || v->stride[3] == 1);
  const bool floats = a->kind == 'f' && a->elem_bytes == 4 && !a->swapped && (uintptr_t)a->bytes % sizeof(float) == 0;
  return order && (d->elem == HD_ELEM_U8 || floats);
}

static void copy_samples(hd_split_memory *to, const hd_npy *a, const hd_split *d, const strides *v) {
  int64_t at = 0;
  for (int64_t n = 0; n < d->count; n++)
    for (int c = 0; c < d->channels; c++)
      for (int y = 0; y < d->height; y++)
        for (int x = 0; x < d->width; x++, at++) {
          const int64_t from = n * v->stride[0] + c * v->stride[1] + y * v->stride[2] + x * v->stride[3];
          if (to->images)
            to->images[at] = a->bytes[from];
          else
            to->floats[at] = hd__npy_float(a, from);
        }
}

static hd_status check_finite(hd_ctx *ctx, const char *name, const float *number, int64_t count, int64_t per_sample) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(number[i]))
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected finite numbers, found %s in sample %lld; fix the array", name,
                      isnan(number[i]) ? "NaN" : "infinity", (long long)(i / per_sample));
  return HD_OK;
}

/* A class for each pixel. */
static hd_status see_masks(hd_split *d, hd_ctx *ctx, const hd_named_array *array) {
  const hd_npy *a = &array->npy;
  if (a->kind == 'f')
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected integers as classes of pixels, found floats; convert them",
                    array->name);
  if (d->flat || a->size[0] != d->count || a->size[1] != d->height || a->size[2] != d->width)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected a class for each pixel of %lld pictures of %dx%d (N, H, W), found %lldx%lldx%lld; the "
        "arrays do not belong together",
        array->name, (long long)d->count, d->height, d->width, (long long)a->size[0], (long long)a->size[1],
        (long long)a->size[2]);
  d->masked = true;
  return HD_OK;
}

/* Checks shapes first, so that memory is allocated once: samples, and classes or targets. */
static hd_status see_labels(hd_split *d, hd_ctx *ctx, const hd_named_array *array, hd_labels labels) {
  const hd_npy *a = &array->npy;
  if (a->rank == 3)
    return see_masks(d, ctx, array);
  const int64_t outputs = a->rank == 2 ? a->size[1] : 1;
  if (a->rank < 1 || a->rank > 2 || outputs < 1 || outputs > MOST_OUTPUTS)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected labels of the shape (N), (N, H, W) for classes of pixels, or up to %d targets per sample, found "
        "%d dimensions and %lld; save it in another shape",
        array->name, MOST_OUTPUTS, a->rank, (long long)outputs);
  if (a->size[0] != d->count)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected %lld labels, one per sample, found %lld; the arrays do not belong together",
                    array->name, (long long)d->count, (long long)a->size[0]);
  const bool classes = a->kind != 'f' && outputs == 1 && labels != HD_LABELS_NUMBERS;
  d->outputs = classes ? 0 : (int)outputs;
  return HD_OK;
}

static hd_status copy_masks(uint8_t *to, hd_ctx *ctx, const hd_split *d, const hd_named_array *array) {
  enum { NO_CLASS_OF_TORCH = -100 };
  const hd_npy *a = &array->npy;
  for (int64_t n = 0; n < d->count; n++)
    for (int y = 0; y < d->height; y++)
      for (int x = 0; x < d->width; x++) {
        const int64_t class = hd__npy_int(a, n * a->stride[0] + y * a->stride[1] + x * a->stride[2]);
        if (class != NO_CLASS_OF_TORCH && (class < 0 || class > HD_NO_CLASS))
          return hd__fail(ctx, HD_E_FORMAT,
                          "%s: expected classes of pixels from 0 to %d, or -100 or 255 for none, found %lld in picture "
                          "%lld; number the classes from 0",
                          array->name, HD_NO_CLASS - 1, (long long)class, (long long)n);
        *to++ = class < 0 ? HD_NO_CLASS : (uint8_t) class;
      }
  return HD_OK;
}

static hd_status copy_labels(hd_split_memory *to, hd_ctx *ctx, const hd_split *d, const hd_named_array *array) {
  const hd_npy *a = &array->npy;
  if (d->masked)
    return copy_masks(to->masks, ctx, d, array);
  for (int64_t i = 0; i < d->count && d->outputs == 0; i++) {
    const int64_t label = hd__npy_int(a, i * a->stride[0]);
    if (label < 0 || label >= HD_DATA_MAX_CLASSES)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected class labels from 0 to %d, found %lld at index %lld; number the classes from 0, "
                      "or save numbers to predict as floats",
                      array->name, HD_DATA_MAX_CLASSES - 1, (long long)label, (long long)i);
    to->labels[i] = (int32_t)label;
  }
  for (int64_t i = 0; i < d->count * d->outputs; i++)
    to->targets[i] =
        hd__npy_float(a, i / d->outputs * a->stride[0] + i % d->outputs * (a->rank == 2 ? a->stride[1] : 0));
  return d->outputs ? check_finite(ctx, array->name, to->targets, d->count * d->outputs, d->outputs) : HD_OK;
}

/* Their memory is a copy if `owned` is set or the array has another layout than samples. */
static hd_status take_samples(hd_split *d, hd_split_memory *to, hd_ctx *ctx, const hd_named_array *x, const strides *v,
                              bool owned) {
  const bool direct = !owned && lies_as_samples(&x->npy, d, v);
  if (direct && d->elem == HD_ELEM_U8)
    d->images = x->npy.bytes;
  else if (direct)
    d->floats = (const float *)(const void *)x->npy.bytes;
  HD_TRY(hd__split_allocate(to, d, ctx, x->name));
  if (!direct)
    copy_samples(to, &x->npy, d, v);
  return d->floats ? check_finite(ctx, x->name, d->floats, d->count * hd__split_elems(d), hd__split_elems(d)) : HD_OK;
}

hd_status hd__array_split_open(hd_array_split *out, hd_ctx *ctx, const char *path) {
  strides v;
  *out = (hd_array_split){0};
  snprintf(out->array.name, sizeof out->array.name, "%s", path);
  HD_TRY(hd__file_map(&out->array.mapping, ctx, path));
  HD_TRY(hd__npy_parse(&out->array.npy, ctx, path, out->array.mapping.bytes, out->array.mapping.length));
  HD_TRY(see_samples(&out->split, &v, ctx, &out->array));
  HD_TRY(take_samples(&out->split, &out->memory, ctx, &out->array, &v, false));
  memset(out->memory.labels, 0, (size_t)out->split.count * sizeof *out->memory.labels);
  out->split.classes = 1;
  return HD_OK;
}

void hd__array_split_fini(hd_array_split *one) {
  hd__file_unmap(&one->array.mapping);
  hd__free(one->memory.images);
  hd__free(one->memory.floats);
  hd__free(one->memory.labels);
  *one = (hd_array_split){0};
}

/* One split. */
static hd_status take_split(hd_split *d, hd_split_memory *to, hd_ctx *ctx, const hd_named_array *x,
                            const hd_named_array *y, hd_labels labels, bool owned) {
  strides v;
  HD_TRY(see_samples(d, &v, ctx, x));
  HD_TRY(see_labels(d, ctx, y, labels));
  HD_TRY(take_samples(d, to, ctx, x, &v, owned));
  return copy_labels(to, ctx, d, y);
}

/* Weights that are there, of a split whose samples are known. */
static hd_status read_weights(hd_dataset *out, int part, hd_ctx *ctx, hd_named_array *array,
                              const hd_named_arrays *arrays, const char *name) {
  hd_split *d = &out->split[part];
  hd_split_memory *to = &out->memory[part];
  const hd_npy *a = &array->npy;
  if (!arrays->has(arrays->self, name))
    return HD_OK;
  HD_TRY(arrays->read(array, ctx, arrays->self, name));
  if (a->rank != 1 || a->size[0] != d->count)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected %lld weights, one for each sample, found %lld of %d dimension%s; the arrays do not "
                    "belong together",
                    array->name, (long long)d->count, (long long)a->count, a->rank, a->rank == 1 ? "" : "s");
  HD_TRY(hd__split_take_weights(to, d, ctx, array->name));
  for (int64_t i = 0; i < d->count; i++)
    to->weights[i] = hd__npy_float(a, i * a->stride[0]);
  return hd__dataset_note(out, ctx, "%s: the weights of samples in losses and scores", array->name);
}

/* Names that belong to the other kind of set are a mistake. */
static hd_status refuse_weights(hd_ctx *ctx, const hd_named_arrays *arrays, bool both) {
  const char *const wrong[] = {both ? one_weights : weights[0], both ? one_weights : weights[1]};
  for (int i = 0; i < 2; i++)
    if (arrays->has(arrays->self, wrong[i]))
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected weights as %s, found %s; rename it", arrays->path,
                      both ? "sample_weight_train and sample_weight_test" : one_weights, wrong[i]);
  return HD_OK;
}

static hd_status read_parts(array_set *set, hd_ctx *ctx, const hd_named_arrays *arrays, const char *const *name) {
  for (int i = 0; i < PARTS && name[i]; i++) {
    if (!arrays->has(arrays->self, name[i]))
      return hd__fail(ctx, HD_E_IO, "%s: expected an array %s next to the others, found none; save it too",
                      arrays->path, name[i]);
    HD_TRY(arrays->read(&set->part[i], ctx, arrays->self, name[i]));
  }
  return HD_OK;
}

hd_status hd__arrays_open(hd_dataset *out, hd_ctx *ctx, const hd_named_arrays *arrays,
                          const hd_dataset_request *request) {
  const hd_labels labels = request->table.labels;
  const char *const *name = names_of(arrays);
  void *self;
  if (!name)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected arrays x_train, y_train, x_test and y_test, or images and labels, or x and y, found "
                    "none of these names; rename them",
                    arrays->path);
  HD_TRY(hd__dataset_hold(&self, out, ctx, sizeof(array_set), release));
  array_set *set = self;
  HD_TRY(read_parts(set, ctx, arrays, name));
  const bool both = name[X_TEST] != NULL;
  HD_TRY(refuse_weights(ctx, arrays, both));
  HD_TRY(take_split(&out->split[0], &out->memory[0], ctx, &set->part[X_TRAIN], &set->part[Y_TRAIN], labels, !both));
  HD_TRY(read_weights(out, 0, ctx, &set->weights[0], arrays, both ? weights[0] : one_weights));
  if (both)
    HD_TRY(take_split(&out->split[1], &out->memory[1], ctx, &set->part[X_TEST], &set->part[Y_TEST], labels, false));
  if (both)
    HD_TRY(read_weights(out, 1, ctx, &set->weights[1], arrays, weights[1]));
  else
    HD_TRY(hd__dataset_divide(out, ctx, arrays->path));
  if (out->split[0].outputs > 0 || out->split[1].outputs > 0)
    return HD_OK; /* dataset.c checks whether both have targets */
  return hd__dataset_count_classes(out->split, ctx, arrays->path, request->ignored);
}
