/* Facts about a data set (hd_data_look): see heddle/dataset.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "base/rounding.h"
#include "data/dataset/format.h"
#include "data/formats/formats.h"
#include "data/images/contact_sheet.h"
#include "data/split/skipped_samples.h"
#include "data/split/split_statistics.h"
#include "heddle/dataset.h"
#include "train/settings/config.h"

struct hd_data_look {
  hd_dataset *data;
  int64_t *per_class; /* of both splits */
  hd_data_bad *bad;
  hd_features measured; /* of rows of an array that has none */
  hd_data_column *column;
  hd_data_facts facts;
};

static const hd_split *split_of(const hd_data_look *l, int split) {
  return split ? hd__dataset_test(l->data) : hd__dataset_train(l->data);
}

static void count_tokens(void *self, const int32_t *label, int32_t labels) {
  int64_t *const count = self;
  for (int32_t i = 0; i < labels; i++)
    if (label[i] >= 0)
      count[label[i]]++;
}

static hd_status count_classes(hd_data_look *l, hd_ctx *ctx) {
  const int32_t classes = l->facts.classes;
  HD_TRY(HD_NEW(l->per_class, 2 * (size_t)classes + 1, ctx, "out of memory for the counts of %d classes", classes));
  for (int p = 0; p < 2 && classes > 0; p++) {
    const hd_split *d = split_of(l, p);
    int64_t *count = l->per_class + p * classes;
    if (d->window)
      hd__split_walk_labels(d, count_tokens, count);
    for (int64_t i = 0; d->masks && i < hd__split_mask_bytes(d); i++)
      if (d->masks[i] < classes)
        count[d->masks[i]]++;
    for (int64_t i = 0; i < d->count && d->labels; i++)
      count[d->labels[i]]++;
    l->facts.per_class[p] = count;
  }
  return HD_OK;
}

static void describe_windows(hd_data_look *l) {
  const hd_split *d = split_of(l, 0);
  if (!d->window)
    return;
  l->facts.window = d->width;
  l->facts.tokens_are = d->class_names ? "characters" : d->token_bytes > 0 ? "bytes" : "numbers";
  for (int p = 0; p < 2; p++)
    l->facts.tokens[p] = split_of(l, p)->tokens ? split_of(l, p)->tokens : split_of(l, p)->count * d->width;
}

static void find_targets(hd_data_look *l) {
  const hd_split *d = split_of(l, 0);
  if (!d->targets)
    return;
  l->facts.target_low = l->facts.target_high = (double)d->targets[0];
  for (int64_t i = 0; i < d->count * d->outputs; i++) {
    const double target = (double)d->targets[i];
    l->facts.target_low = target < l->facts.target_low ? target : l->facts.target_low;
    l->facts.target_high = target > l->facts.target_high ? target : l->facts.target_high;
  }
}

static hd_status measure(void *self, hd_ctx *ctx, int64_t sample, const void *elems, const int size[2]) {
  hd_data_facts *f = self;
  (void)ctx, (void)sample, (void)elems;
  for (int i = 0; i < 2; i++) {
    f->smallest[i] = f->smallest[i] == 0 || size[i] < f->smallest[i] ? size[i] : f->smallest[i];
    f->largest[i] = size[i] > f->largest[i] ? size[i] : f->largest[i];
  }
  return HD_OK;
}

static hd_status find_sizes(hd_data_look *l, hd_ctx *ctx) {
  hd_data_facts *f = &l->facts;
  const int size[2] = {f->height, f->width};
  for (int p = 0; p < 2; p++) {
    const hd_split *d = split_of(l, p);
    f->samples[p] = d->count;
    f->bytes[p] = (d->mixed ? d->all_elems : d->count * hd__split_elems(d)) * hd__split_elem_bytes(d);
    HD_TRY(d->mixed ? hd__split_walk(ctx, d, measure, f) : measure(f, ctx, 0, NULL, size));
  }
  return HD_OK;
}

/* Reads each unreadable sample again, for its message. */
static hd_status list_bad(hd_data_look *l, hd_ctx *ctx) {
  const int64_t all = hd__skips_count(split_of(l, 0)) + hd__skips_count(split_of(l, 1));
  if (all == 0)
    return HD_OK;
  l->bad = hd__calloc((size_t)all, sizeof *l->bad);
  int64_t most = hd__split_most_bytes(split_of(l, 0)), other = hd__split_most_bytes(split_of(l, 1)), at = 0;
  HD_OWNED void *elems = hd__malloc((size_t)(most > other ? most : other));
  bool enough = l->bad && elems;
  for (int p = 0; p < 2; p++)
    for (int64_t i = 0; i < split_of(l, p)->count && at < all && enough; i++) {
      hd_ctx item_ctx = {0};
      int size[2];
      if (!hd__skips_has(split_of(l, p), i))
        continue;
      const bool again = hd__split_get(elems, size, &item_ctx, split_of(l, p), i) != HD_OK;
      l->bad[at] = (hd_data_bad){p, i, hd__strdup(again ? item_ctx.message : "it can be read by now; check again")};
      enough = l->bad[at++].why != NULL;
    }
  l->facts.bad = l->bad;
  l->facts.bad_count = at;
  return HD_ALLOCATED(enough, ctx, "out of memory for a list of samples");
}

static void add_feature(hd_data_column *to, const hd_feature *f) {
  to->name = f->column;
  to->number = f->place;
  to->texts += f->category != NULL;
  if (f->empty)
    to->empty = f->mean;
  else
    to->mean = f->category ? NAN : f->mean;
  if (!f->empty)
    to->std = f->category ? NAN : f->std;
}

/* Features of one column stand together. */
static hd_status list_columns(hd_data_look *l, hd_ctx *ctx) {
  const hd_split *d = split_of(l, 0);
  const hd_features *f = hd__dataset_features(l->data);
  if (!f && d->flat && d->floats) {
    HD_TRY(hd__features_numbers(&l->measured, ctx, d->width));
    HD_TRY(hd__features_measure(&l->measured, ctx, NULL, d->floats, d->weights, d->count));
    f = &l->measured;
  }
  if (!f)
    return HD_OK;
  HD_TRY(HD_NEW(l->column, f->count, ctx, "out of memory for %d columns", f->count));
  int32_t columns = 0;
  for (int32_t i = 0; i < f->count; i++) {
    columns += i == 0 || f->feature[i].place != f->feature[i - 1].place;
    add_feature(&l->column[columns - 1], &f->feature[i]);
  }
  l->facts.columns = columns;
  l->facts.column = l->column;
  return HD_OK;
}

/* What a run with a loss of classes says. */
static hd_status note_many_classes(const hd_data_look *l, hd_ctx *ctx) {
  const hd_split *d = split_of(l, 0);
  if (!d->flat || !d->labels || d->class_names || d->classes <= HD_MANY_CLASSES)
    return HD_OK;
  return hd__dataset_note(
      l->data, ctx, "the labels were read as %d classes; heddle train --loss mse reads them as numbers to predict",
      d->classes);
}

static hd_status look(hd_data_look *l, hd_ctx *ctx, const hd_config *config) {
  hd_dataset_request request = hd__config_data(config);
  request.cache = HD_CACHE_NONE; /* so that list_bad reads the files again */
  HD_TRY(hd__dataset_open(&l->data, ctx, &request));
  const hd_split *d = split_of(l, 0);
  HD_TRY(note_many_classes(l, ctx));
  l->facts = (hd_data_facts){.name = l->data->name,
                             .format = l->data->format->name,
                             .dtype = d->elem == HD_ELEM_U8 ? HD_U8 : HD_F32,
                             .channels = d->channels,
                             .height = d->height,
                             .width = d->width,
                             .classes = d->labels || d->window || d->masks ? d->classes : 0,
                             .class_names = d->class_names,
                             .outputs = d->outputs,
                             .notes = (const char *const *)l->data->note,
                             .validation = hd__dataset_train(l->data)->validation};
  memcpy(l->facts.mean, l->data->statistics.mean, sizeof l->facts.mean);
  memcpy(l->facts.std, l->data->statistics.std, sizeof l->facts.std);
  l->facts.channel_mean = l->data->statistics.mean;
  l->facts.channel_std = l->data->statistics.std;
  find_targets(l);
  describe_windows(l);
  HD_TRY(list_columns(l, ctx));
  HD_TRY(count_classes(l, ctx));
  HD_TRY(find_sizes(l, ctx));
  return list_bad(l, ctx);
}

hd_status hd_data_look_create(hd_data_look **out, hd_ctx *ctx, const hd_config *config) {
  HD_ROUNDING_TO_NEAREST;
  hd_data_look *l = *out = hd__calloc(1, sizeof *l);
  HD_TRY(HD_ALLOCATED(l, ctx, "out of memory while inspecting a data set"));
  hd_status status = hd__log_start(ctx);
  HD_THEN(status, look(l, ctx, config));
  return HD_CREATED(status, out, hd_data_look_destroy);
}

void hd_data_look_destroy(hd_data_look *l) {
  if (!l)
    return;
  for (int64_t i = 0; l->bad && i < l->facts.bad_count; i++)
    hd__free((void *)(uintptr_t)l->bad[i].why);
  hd__free(l->bad);
  hd__free(l->per_class);
  hd__free(l->column);
  hd__features_fini(&l->measured);
  hd__dataset_close(l->data);
  hd__free(l);
}

const hd_data_facts *hd_data_look_facts(const hd_data_look *l) { return &l->facts; }

hd_status hd_data_look_sheet(const hd_data_look *l, hd_ctx *ctx, const char *path) {
  HD_ROUNDING_TO_NEAREST;
  const hd_data_facts *f = &l->facts;
  char title[200], shape[80];
  if (f->height)
    snprintf(shape, sizeof shape, "%dx%dx%d", f->channels, f->height, f->width);
  else
    snprintf(shape, sizeof shape, "%dx%dx%d to %dx%dx%d", f->channels, f->smallest[0], f->smallest[1], f->channels,
             f->largest[0], f->largest[1]);
  if (split_of(l, 0)->window)
    return hd__fail(ctx, HD_E_USAGE, "--sheet expects pictures or rows, found the text %s; leave it out", f->name);
  if (split_of(l, 0)->masks)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--sheet expects samples with a label, found a class for each pixel in %s; "
                    "leave it out",
                    f->name);
  const char *base = strrchr(f->name, '/');
  snprintf(title, sizeof title, "%.60s: %lld samples of %s", base && base[1] ? base + 1 : f->name,
           (long long)f->samples[0], shape);
  return hd__contact_sheet(ctx, path, title, split_of(l, 0));
}
