/* Data sets by callbacks, or of arrays; see heddle/dataset.h.
 *
 * Labels and targets are stored when a sample is read for the first time, which opening the set does for every
 * sample; of several threads that read the same sample at once, one stores them and the others wait. A test set split
 * off the training set maps indices by a list. */
#include "heddle/dataset.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "data/formats/formats.h"
#include "data/split/split_statistics.h"
#include "data/split/skipped_samples.h"

enum { MOST_NAME = 32, MOST_OUTPUTS = 1 << 20 };

/* States of a label: the sample was not read yet; a thread is storing its label and targets. */
enum { NOT_READ = -1, STORING = -2 };

/* The custom data sets of a context. */
typedef struct known {
  hd_custom_data data[HD_CUSTOM_DATASETS];
  int count;
} known;

/* One split. */
typedef struct custom_split {
  const hd_custom_data *data;
  void *user;
  uint32_t *index;   /* samples of `user`, NULL: all */
  atomic_int *label; /* the split's labels, while they are read */
  float *targets;
  int32_t ignored; /* a label that need not be a class; -1: none */
} custom_split;

typedef struct custom_set {
  custom_split split[2];
} custom_set;

static void end(void *self) {
  known *k = self;
  for (int i = 0; i < k->count; i++) {
    const hd_custom_data *d = &k->data[i];
    if (d->free && d->train)
      d->free(d->train);
    if (d->free && d->test)
      d->free(d->test);
  }
  hd__free(k);
}

static const hd_custom_data *find(const hd_ctx *ctx, const char *name) {
  const known *k = ctx ? ctx->custom_data : NULL;
  for (int i = 0; k && i < k->count; i++)
    if (!strcmp(k->data[i].name, name))
      return &k->data[i];
  return NULL;
}

static bool is_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return name && *name && strlen(name) <= MOST_NAME && strspn(name, letters) == strlen(name) &&
         strcmp(name, "digits") && strcmp(name, "sums") && !hd__dataset_is_published(name);
}

static bool within(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

static hd_status check(hd_ctx *ctx, const hd_custom_data *d) {
  if (!is_name(d->name) || find(ctx, d->name))
    return hd__fail(
        ctx, HD_E_USAGE,
        "expected a new name of 1 to %d letters, digits, '_' and '-' for a data set, found '%s'; choose another",
        MOST_NAME, d->name ? d->name : "");
  if (!within(d->channels, 1, HD_DATA_MAX_CHANNELS) || !within(d->height, 1, HD_DATA_MAX_SIDE) ||
      !within(d->width, 1, HD_DATA_MAX_SIDE) || (d->dtype != HD_U8 && d->dtype != HD_F32))
    return hd__fail(ctx, HD_E_USAGE,
                    "data set '%s': expected HD_U8 or HD_F32 samples of 1 to %d channels and sides of 1 to %d, found "
                    "%dx%dx%d of type %d; change its shape",
                    d->name, HD_DATA_MAX_CHANNELS, HD_DATA_MAX_SIDE, (int)d->channels, (int)d->height, (int)d->width,
                    (int)d->dtype);
  if (d->classes ? !within(d->classes, 1, HD_DATA_MAX_CLASSES) || d->outputs : !within(d->outputs, 1, MOST_OUTPUTS))
    return hd__fail(ctx, HD_E_USAGE,
                    "data set '%s': expected 1 to %d classes or, without classes, 1 to %d outputs, found %d and %d; "
                    "give one of the two",
                    d->name, HD_DATA_MAX_CLASSES, MOST_OUTPUTS, (int)d->classes, (int)d->outputs);
  if (!d->len && !d->get && d->train)
    return HD_OK; /* arrays, which are checked when they are opened */
  if (!d->len || !d->get)
    return hd__fail(ctx, HD_E_USAGE, "data set '%s': expected len and get, or arrays, found no %s; set it", d->name,
                    d->len ? "get" : "len");
  return HD_OK;
}

hd_status hd_data_add(hd_ctx *ctx, const hd_custom_data *data) {
  known *k = ctx->custom_data;
  hd_custom_data d;
  HD_TRY(hd__struct_read(&d, ctx, data, sizeof d, "hd_custom_data"));
  HD_TRY(check(ctx, &d));
  if (k && k->count == HD_CUSTOM_DATASETS)
    return hd__fail(ctx, HD_E_USAGE,
                    "data set '%s': expected at most %d data sets in a context, found more; use another context",
                    d.name, HD_CUSTOM_DATASETS);
  if (!k) {
    k = ctx->custom_data = hd__calloc(1, sizeof *k);
    HD_TRY(HD_ALLOCATED(k, ctx, "data set '%s': out of memory", d.name));
    ctx->end_custom_data = end;
  }
  k->data[k->count++] = d;
  return HD_OK;
}

static void release(void *self) {
  custom_set *set = self;
  for (int i = 0; i < 2; i++)
    hd__free(set->split[i].index);
}

static hd_status failed(hd_ctx *ctx, const hd_custom_data *d, int64_t index, const char *why) {
  return hd__fail(ctx, HD_E_IO, "data set '%s': sample %lld: the get function failed: %s; fix get", d->name,
                  (long long)index, *why ? why : "no reason was given");
}

/* Whether a label is a class, or the one that the loss ignores. */
static bool is_label(const hd_custom_data *d, int32_t label, int32_t ignored) {
  return within(label, 0, d->classes - 1) || (label >= 0 && label == ignored);
}

static hd_status check_sample(hd_ctx *ctx, const hd_split *split, int64_t index, const hd_custom_sample *s) {
  const custom_split *custom = split->self;
  const hd_custom_data *d = custom->data;
  if (d->classes && !is_label(d, s->label, custom->ignored))
    return hd__fail(ctx, HD_E_FORMAT,
                    "data set '%s': expected labels from 0 to %d, found %d in sample %lld; fix its get function",
                    d->name, (int)d->classes - 1, (int)s->label, (long long)index);
  bool finite = true;
  for (int32_t i = 0; i < d->outputs; i++)
    finite = finite && isfinite(s->targets[i]);
  for (int64_t i = 0; s->floats && i < hd__split_elems(split); i++)
    finite = finite && isfinite(s->floats[i]);
  return finite
             ? HD_OK
             : hd__fail(
                   ctx, HD_E_FORMAT,
                   "data set '%s': expected finite numbers, found NaN or infinity in sample %lld; fix its get function",
                   d->name, (long long)index);
}

/* Stores a sample's label and targets; returns when they are stored. */
static void store(const custom_split *custom, int64_t sample, int32_t label, const float *targets) {
  const hd_custom_data *d = custom->data;
  atomic_int *stored = &custom->label[sample];
  int seen = atomic_load_explicit(stored, memory_order_acquire);
  if (seen == NOT_READ && atomic_compare_exchange_strong(stored, &seen, STORING)) {
    if (d->outputs > 0)
      memcpy(custom->targets + sample * d->outputs, targets, (size_t)d->outputs * sizeof *targets);
    atomic_store_explicit(stored, d->classes ? label : 0, memory_order_release);
  }
  while (atomic_load_explicit(stored, memory_order_acquire) == STORING)
    sched_yield();
}

static hd_status get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  const custom_split *custom = split->self;
  const hd_custom_data *d = custom->data;
  const int64_t index = custom->index ? custom->index[sample] : sample;
  const bool bytes = d->dtype == HD_U8;
  /* Targets go to a separate buffer: other threads may be reading those of the split. */
  HD_OWNED float *targets = d->outputs > 0 ? hd__malloc((size_t)d->outputs * sizeof *targets) : NULL;
  HD_TRY(HD_ALLOCATED(targets || d->outputs == 0, ctx, "data set '%s': out of memory for targets", d->name));
  hd_custom_sample s = {.bytes = bytes ? elems : NULL, .floats = bytes ? NULL : elems, .targets = targets};
  const int code = d->get(custom->user, index, &s);
  s.why[sizeof s.why - 1] = 0;
  HD_TRY(code == 0 ? check_sample(ctx, split, index, &s) : failed(ctx, d, index, s.why));
  store(custom, sample, s.label, s.targets);
  size[0] = split->height;
  size[1] = split->width;
  return HD_OK;
}

/* Lists the samples of the training set that belong to one split. */
static hd_status list_part(custom_split *custom, hd_ctx *ctx, int64_t *count, const uint8_t *marks, int wanted) {
  const int64_t all = *count;
  HD_TRY(HD_NEW_RAW(custom->index, all, ctx, "data set '%s': out of memory for a list of samples", custom->data->name));
  *count = 0;
  for (int64_t i = 0; i < all; i++)
    if (marks[i] == wanted)
      custom->index[(*count)++] = (uint32_t)i;
  return HD_OK;
}

static hd_status describe(hd_split *out, hd_split_memory *to, custom_split *custom, hd_ctx *ctx, int64_t count) {
  const hd_custom_data *d = custom->data;
  to->labels = hd__malloc((size_t)count * sizeof *to->labels);
  if (d->outputs > 0)
    to->targets = custom->targets = hd__malloc((size_t)count * (size_t)d->outputs * sizeof *to->targets);
  if (!to->labels || (d->outputs > 0 && !to->targets))
    return hd__fail(ctx, HD_E_NOMEM, "data set '%s': out of memory for %lld labels", d->name, (long long)count);
  _Static_assert(sizeof(atomic_int) == sizeof(int32_t), "labels are written one by one");
  custom->label = (atomic_int *)(void *)to->labels;
  for (int64_t i = 0; i < count; i++)
    atomic_init(&custom->label[i], NOT_READ);
  *out = (hd_split){.count = count,
                    .elem = d->dtype == HD_U8 ? HD_ELEM_U8 : HD_ELEM_F32,
                    .channels = d->channels,
                    .height = d->height,
                    .width = d->width,
                    .get = get,
                    .self = custom,
                    .labels = d->classes ? to->labels : NULL,
                    .classes = d->classes,
                    .class_names = d->class_names,
                    .targets = to->targets,
                    .outputs = d->outputs};
  return HD_OK;
}

static hd_status count_samples(int64_t *out, hd_ctx *ctx, const hd_custom_data *d, void *user) {
  *out = d->len(user);
  if (within(*out, 1, UINT32_MAX))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT, "data set '%s': expected 1 to %u samples, found a len of %lld; fix it", d->name,
                  UINT32_MAX, (long long)*out);
}

/* ---- Arrays ---- */

static const char *const split_name[] = {"training set", "test set"};

static hd_status check_finite(hd_ctx *ctx, const char *name, int s, const float *number, int64_t count, int64_t each) {
  bool finite = true;
  for (int64_t i = 0; i < count; i++)
    finite = finite && isfinite(number[i]);
  int64_t at = 0;
  while (!finite && isfinite(number[at]))
    at++;
  return finite ? HD_OK
                : hd__fail(ctx, HD_E_FORMAT,
                           "data set '%s': expected finite numbers, found %s in sample %lld of the %s; fix the array",
                           name, isnan(number[at]) ? "NaN" : "infinity", (long long)(at / each), split_name[s]);
}

static hd_status check_arrays(hd_ctx *ctx, const hd_custom_data *d, const hd_split *split, int s, int ignored) {
  const int64_t elems = hd__split_elems(split);
  if (!hd__split_in_memory(split) || (d->classes ? !split->labels && !split->masks : !split->targets))
    return hd__fail(ctx, HD_E_USAGE,
                    "data set '%s': expected arrays of %s and %s for the %s, found one missing; add it", d->name,
                    d->dtype == HD_U8 ? "bytes" : "floats", d->classes ? "labels" : "targets", split_name[s]);
  if (!within(split->count, 1, UINT32_MAX))
    return hd__fail(ctx, HD_E_USAGE, "data set '%s': expected 1 to %u samples in the %s, found %lld; check the arrays",
                    d->name, UINT32_MAX, split_name[s], (long long)split->count);
  for (int64_t i = 0; split->masks && i < split->count * hd__split_plane(split); i++)
    if (split->masks[i] != HD_NO_CLASS && split->masks[i] >= d->classes)
      return hd__fail(
          ctx, HD_E_FORMAT,
          "data set '%s': expected classes of pixels from 0 to %d, or 255 for none, found %d in picture %lld "
          "of the %s; number the classes from 0",
          d->name, (int)d->classes - 1, split->masks[i], (long long)(i / hd__split_plane(split)), split_name[s]);
  for (int64_t i = 0; split->labels && i < split->count; i++)
    if (!is_label(d, split->labels[i], ignored))
      return hd__fail(ctx, HD_E_FORMAT,
                      "data set '%s': expected labels from 0 to %d, found %d in sample %lld of the %s; number the "
                      "classes from 0",
                      d->name, (int)d->classes - 1, (int)split->labels[i], (long long)i, split_name[s]);
  if (split->targets)
    HD_TRY(check_finite(ctx, d->name, s, split->targets, split->count * d->outputs, d->outputs));
  return split->floats ? check_finite(ctx, d->name, s, split->floats, split->count * elems, elems) : HD_OK;
}

static hd_status take_arrays(hd_split *out, hd_ctx *ctx, const hd_custom_data *d, int s, int ignored) {
  hd_custom_arrays a;
  HD_TRY(hd__struct_read(&a, ctx, s ? d->test : d->train, sizeof a, "hd_custom_arrays"));
  *out = (hd_split){.count = a.count,
                    .elem = d->dtype == HD_U8 ? HD_ELEM_U8 : HD_ELEM_F32,
                    .channels = d->channels,
                    .height = d->height,
                    .width = d->width,
                    .flat = d->channels == 1 && d->height == 1,
                    .images = d->dtype == HD_U8 ? a.bytes : NULL,
                    .floats = d->dtype == HD_U8 ? NULL : a.floats,
                    .borrowed = true,
                    .labels = d->classes && !a.masks ? a.labels : NULL,
                    .masked = d->classes && a.masks,
                    .masks = d->classes ? a.masks : NULL,
                    .classes = d->classes,
                    .class_names = d->class_names,
                    .targets = d->classes ? NULL : a.targets,
                    .outputs = d->outputs,
                    .weights = a.weights};
  return check_arrays(ctx, d, out, s, ignored);
}

/* A last class that the loss ignores is none, as in files, unless classes are matched to a run's by name. */
static hd_status open_arrays(hd_dataset *out, hd_ctx *ctx, const hd_custom_data *d, const hd_dataset_request *request) {
  const int ignored = request->ignored;
  const bool matches = request->classes.count > 0 && d->class_names;
  HD_TRY(take_arrays(&out->split[0], ctx, d, 0, ignored));
  HD_TRY(d->test ? take_arrays(&out->split[1], ctx, d, 1, ignored) : hd__dataset_divide(out, ctx, d->name));
  return d->classes && ignored == d->classes - 1 && !matches
             ? hd__dataset_count_classes(out->split, ctx, d->name, ignored)
             : HD_OK;
}

static bool takes(hd_ctx *ctx, const char *name) { return find(ctx, name) != NULL; }

/* Marks a fifth of the training set, which is read once for its labels. */
static hd_status mark_fifth(uint8_t **marks, hd_dataset *out, hd_ctx *ctx, const hd_custom_data *d, int64_t count,
                            const hd_dataset_request *request) {
  custom_split all = {.data = d, .user = d->train, .ignored = request->ignored};
  hd_split_memory read = {0};
  hd_split split;
  hd_skips *skips = NULL;
  if (!d->classes || out->first_rules)
    return hd__dataset_mark_test(marks, out, ctx, d->name, count, NULL);
  hd_status status = describe(&split, &read, &all, ctx, count);
  HD_THEN(status, request->skip ? hd__skips_find(&skips, &split, ctx) : hd__split_walk(ctx, &split, NULL, NULL));
  HD_THEN(status, hd__dataset_mark_test(marks, out, ctx, d->name, count, split.labels));
  hd__skips_destroy(skips);
  hd__free(read.labels);
  return status;
}

static hd_status open_data(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  const hd_custom_data *d = find(ctx, request->name);
  int64_t count[2];
  HD_OWNED uint8_t *marks = NULL;
  void *self;
  if (!d->len)
    return open_arrays(out, ctx, d, request);
  HD_TRY(hd__dataset_hold(&self, out, ctx, sizeof(custom_set), release));
  custom_set *set = self;
  const bool has_test = d->test && request->fold.of == 0;
  for (int s = 0; s < 2; s++)
    set->split[s] = (custom_split){.data = d, .user = s && has_test ? d->test : d->train, .ignored = request->ignored};
  HD_TRY(count_samples(&count[0], ctx, d, d->train));
  count[1] = count[0];
  if (has_test)
    HD_TRY(count_samples(&count[1], ctx, d, d->test));
  else if (!request->whole)
    HD_TRY(mark_fifth(&marks, out, ctx, d, count[0], request));
  for (int s = 0; s < 2; s++) {
    if (marks)
      HD_TRY(list_part(&set->split[s], ctx, &count[s], marks, s));
    HD_TRY(describe(&out->split[s], &out->memory[s], &set->split[s], ctx, count[s]));
  }
  if (!has_test)
    hd__dataset_share(out);
  out->read_later = d->classes > 0;
  return HD_OK;
}

const hd_format hd__format_custom = {.name = "a custom data set", .takes = takes, .open = open_data};
