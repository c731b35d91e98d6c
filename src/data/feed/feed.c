/* Orders of epochs, and the gather that threads call for their rows. */
#include "data/feed/feed.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "data/split/skipped_samples.h"

hd_status hd__feed_init(hd_feed *feed, hd_ctx *ctx, const hd_split *split, const hd_kernels *kernels,
                        const double *mean, const double *std) {
  *feed = (hd_feed){.split = split,
                    .mean = mean,
                    .std = std,
                    .kernels = kernels,
                    .count = split->count,
                    .lock = PTHREAD_MUTEX_INITIALIZER};
  if (split->channels > HD_DATA_MAX_CHANNELS)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "expected images of at most %d channels, found %d", HD_DATA_MAX_CHANNELS,
                    split->channels);
  for (int c = 0; c < split->channels; c++) {
    feed->scale[c] = (float)(1 / ((split->elem == HD_ELEM_U8 ? 255 : 1) * std[c]));
    feed->shift[c] = (float)(-mean[c] / std[c]);
  }
  return HD_OK;
}

void hd__feed_fini(hd_feed *feed) {
  hd_pipeline_destroy(feed->pipeline);
  hd__free(feed->mask_room);
  hd__free(feed->members);
  hd__free(feed->order[0]);
  hd__free(feed->order[1]);
  hd__free(feed->scratch);
  hd_sampler_destroy(feed->sampler);
  *feed = (hd_feed){0};
}

hd_status hd__feed_sample_by(hd_feed *feed, hd_ctx *ctx, hd_sampler *sampler) {
  const size_t bytes = (size_t)hd_sampler_count(sampler) * sizeof *feed->order[0];
  feed->sampler = sampler;
  feed->count = hd_sampler_count(sampler);
  feed->scratch = hd__malloc(hd__sampler_words(sampler) * sizeof *feed->scratch + 1);
  for (int i = 0; i < 2; i++) {
    feed->order[i] = hd__malloc(bytes);
    feed->epoch[i] = -1;
  }
  return HD_ALLOCATED(feed->scratch && feed->order[0] && feed->order[1], ctx,
                      "out of memory for the order of %lld samples", (long long)feed->count);
}

/* Where the windows of a text begin in an epoch. */
static int64_t window_offset(const hd_split *split, uint64_t seed, uint32_t epoch) {
  uint32_t word[4];
  hd__rng_block(word, seed, HD_RNG_WINDOW, epoch, 0, 0, 0);
  return split->offsets > 1 ? hd__rng_below(word[0], (uint32_t)split->offsets) : 0;
}

bool hd__feed_shuffle(hd_feed *feed, uint64_t seed, uint32_t epoch) {
  const int at = epoch & 1;
  if (!feed->sampler)
    return false;
  pthread_mutex_lock(&feed->lock);
  const bool missing = feed->epoch[at] != epoch;
  if (missing) {
    hd__sampler_write(feed->order[at], feed->sampler, feed->scratch, seed, epoch);
    for (int64_t i = 0; feed->members && i < feed->count; i++)
      feed->order[at][i] = feed->members[feed->order[at][i]];
    feed->offset[at] = window_offset(feed->split, seed, epoch);
    feed->epoch[at] = epoch;
    HD_LOG(DATA, "order of epoch %lld drawn: %lld samples", (long long)epoch + 1, (long long)feed->count);
  }
  pthread_mutex_unlock(&feed->lock);
  return missing;
}

/* Makes both lists of members from a mark per sample. */
static void list_members(hd_feed *validation, hd_feed *feed, const char *held) {
  int64_t kept = 0, taken = 0, all = feed->count;
  for (int64_t i = 0; i < all; i++)
    if (held[i])
      validation->members[taken++] = (uint32_t)i;
    else
      feed->members[kept++] = (uint32_t)i;
  validation->count = taken;
  feed->count = kept;
}

static bool mark_share(char *held, int64_t all, int64_t taken, uint64_t seed) {
  HD_OWNED uint64_t *scratch = hd__malloc(hd__permute_words(all) * sizeof *scratch);
  if (!scratch)
    return false;
  const uint64_t *sorted = hd__permute(scratch, all, seed, HD_RNG_SPLIT, 0);
  for (int64_t i = all - taken; i < all; i++)
    held[(uint32_t)sorted[i]] = 1;
  return true;
}

/* Moves `taken` samples of the feed to `validation`: the last of a permutation or, without a seed, of the feed. */
static hd_status hold_out(hd_feed *validation, hd_feed *feed, hd_ctx *ctx, int64_t taken, const uint64_t *seed) {
  const int64_t all = feed->count;
  *validation = *feed;
  validation->pipeline = NULL; /* not shared: each feed gets a pipeline */
  validation->mask_room = NULL;
  validation->members = hd__malloc((size_t)taken * sizeof *validation->members);
  feed->members = hd__malloc((size_t)(all - taken) * sizeof *feed->members);
  HD_OWNED char *held = hd__calloc((size_t)all, 1);
  const bool enough = validation->members && feed->members && held && (!seed || mark_share(held, all, taken, *seed));
  HD_TRY(HD_ALLOCATED(enough, ctx, "out of memory for the split of %lld samples", (long long)all));
  if (!seed)
    memset(held + all - taken, 1, (size_t)taken);
  list_members(validation, feed, held);
  return HD_OK;
}

hd_status hd__feed_hold_out(hd_feed *validation, hd_feed *feed, hd_ctx *ctx, double share, uint64_t seed) {
  int64_t all = feed->count, taken = (int64_t)(share * (double)all + 0.5);
  *validation = (hd_feed){0};
  if (feed->split->window)
    return hd__fail(ctx, HD_E_USAGE,
                    "--val-split expects samples that stand alone, found windows of a text, which move from epoch to "
                    "epoch; give a folder with val.txt");
  if (taken < 1 || taken >= all)
    return hd__fail(ctx, HD_E_USAGE,
                    "--val-split expects a fraction that leaves samples on both sides, found %lld of %lld held out; "
                    "use another",
                    (long long)taken, (long long)all);
  return hold_out(validation, feed, ctx, taken, &seed);
}

hd_status hd__feed_take_validation(hd_feed *validation, hd_feed *feed, hd_ctx *ctx) {
  return hold_out(validation, feed, ctx, feed->split->validation, NULL);
}

int64_t hd__feed_sample(const hd_feed *feed, uint32_t epoch, int64_t position) {
  return feed->sampler ? feed->order[epoch & 1][position] : feed->members ? feed->members[position] : position;
}

static int64_t offset_of(const hd_feed *feed, uint32_t epoch) { return feed->sampler ? feed->offset[epoch & 1] : 0; }

void hd__feed_labels(int32_t *label, const hd_feed *feed, uint32_t epoch, int64_t position, int32_t first,
                     int32_t count) {
  const hd_window some = {hd__feed_sample(feed, epoch, position), offset_of(feed, epoch), first, count};
  feed->split->window(NULL, label, feed->split, &some);
}

static void fetch_target(const hd_feed *feed, int64_t sample, int64_t row, const hd_slots *to) {
  const hd_split *split = feed->split;
  if (to->outputs == 0) {
    ((int32_t *)to->target)[row * to->target_stride] = split->labels[sample];
    return;
  }
  float *target = (float *)to->target + row * to->target_stride;
  for (int32_t i = 0; i < to->outputs; i++)
    target[i] = hd__split_number(split, sample, i);
  for (int32_t i = 0; feed->targets && i < to->outputs; i++)
    target[i] = hd__target_scaled(feed->targets, i, target[i]);
}

/* Prefetches the image that the same thread gathers next time at this place. In shuffled order every image would
 * otherwise be a cache miss, and gathering one takes as long as fetching another. (Inlined always: gcc treats a
 * function that only prefetches as one without effect.) */
static inline __attribute__((always_inline)) void prefetch_next(const hd_feed *feed, uint32_t epoch, int64_t position,
                                                                int64_t bytes) {
  enum { LINE_BYTES = 64 };
  if (!feed->sampler || position >= feed->count || !hd__split_in_memory(feed->split))
    return;
  const uint8_t *all = feed->split->images ? feed->split->images : (const uint8_t *)feed->split->floats;
  const uint8_t *image = all + hd__feed_sample(feed, epoch, position) * bytes;
  for (int64_t i = 0; i < bytes; i += LINE_BYTES)
    __builtin_prefetch(image + i, 0, 2);
  __builtin_prefetch(image + bytes - 1, 0, 2);
}

static int64_t whole_lines(int64_t bytes) {
  enum { LINE_BYTES = 64 };
  return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* Scratch holds the transforms' memory, then a decoded sample, then its partner. */
static int64_t pipeline_bytes(const hd_feed *feed) {
  return feed->pipeline ? whole_lines((int64_t)hd_pipeline_shape_of(feed->pipeline)->scratch_bytes) : 0;
}

static int64_t room_bytes(const hd_feed *feed) {
  return hd__split_in_memory(feed->split) ? 0 : whole_lines(hd__split_most_bytes(feed->split));
}

static bool has_partner(const hd_feed *feed) { return feed->pipeline && hd_pipeline_shape_of(feed->pipeline)->partner; }

int64_t hd__feed_scratch_bytes(const hd_feed *feed) {
  const hd_split seen = hd__feed_seen(feed);
  const int64_t read = pipeline_bytes(feed) + (has_partner(feed) ? 2 : 1) * room_bytes(feed);
  const int64_t moved = feed->view ? hd__split_elems(&seen) * (int64_t)sizeof(float) : 0;
  return moved > read ? moved : read;
}

hd_split hd__feed_seen(const hd_feed *feed) {
  hd_split seen = *feed->split;
  if (!feed->pipeline)
    return seen;
  const hd_pipeline_shape *shape = hd_pipeline_shape_of(feed->pipeline);
  seen.channels = shape->channels;
  seen.height = shape->height;
  seen.width = shape->width;
  seen.mixed = NULL;
  seen.flat = seen.flat && seen.channels == 1 && seen.height == 1;
  if (shape->targets && seen.labels) {
    seen.labels = NULL;
    seen.outputs = shape->targets;
  }
  return seen;
}

/* The shift that the last pass adds to each channel. */
static float *last_shift(hd_feed *feed) { return feed->pipeline ? hd__pipeline_shift(feed->pipeline) : feed->shift; }

void hd__feed_affine(hd_affine *out, hd_feed *feed) {
  out->scale = feed->pipeline ? hd__pipeline_scale(feed->pipeline) : feed->scale;
  out->shift = last_shift(feed);
  out->left = feed->left;
}

bool hd__feed_shift(float *shift, hd_feed *feed) {
  static const float MOST = 4;
  *shift = *last_shift(feed) + feed->left; /* one of them is 0 */
  return hd__feed_seen(feed).channels == 1 && fabsf(*shift) <= MOST;
}

void hd__feed_leave_shift(hd_feed *feed, bool leaves) {
  const float shift = *last_shift(feed) + feed->left;
  feed->left = leaves ? shift : 0;
  *last_shift(feed) = leaves ? 0 : shift;
}

/* A sample in memory, or decoded into `room`. Another sample may replace it; *sample is then that one. */
static hd_status sample_at(hd_sample *out, void *room, const hd_feed *feed, hd_ctx *ctx, int64_t *sample) {
  const hd_split *split = feed->split;
  const int64_t elems = hd__split_elems(split);
  int size[2] = {split->height, split->width};
  *out = (hd_sample){.pixels = room, .number = *sample};
  if (split->images)
    out->pixels = split->images + *sample * elems;
  else if (split->floats)
    out->pixels = split->floats + *sample * elems;
  else
    HD_TRY(hd__skips_get(room, size, ctx, split, sample));
  out->label = split->labels ? split->labels[*sample] : 0;
  out->target = split->targets ? split->targets + *sample * split->outputs : NULL;
  out->height = size[0];
  out->width = size[1];
  return HD_OK;
}

/* Where transforms write a row's target, which they make of a label, or by mixing two; NULL if they make none. */
static float *target_of(const hd_feed *feed, int64_t row, const hd_slots *to) {
  const hd_pipeline_shape *shape = feed->pipeline ? hd_pipeline_shape_of(feed->pipeline) : NULL;
  const bool made = to->target && shape && shape->targets > 0 && (feed->split->labels || shape->partner);
  return made ? (float *)to->target + row * to->target_stride : NULL;
}

/* The place of a sample among the feed's in file order. */
static int64_t place_of(const hd_feed *feed, int64_t sample) {
  int64_t low = 0, high = feed->count;
  while (feed->members && low < high) {
    const int64_t middle = (low + high) / 2;
    if (feed->members[middle] < sample)
      low = middle + 1;
    else
      high = middle;
  }
  return feed->members ? low : sample;
}

static const float *kept_values(const hd_feed *feed, uint32_t epoch, int64_t sample) {
  const int64_t view = feed->views > 0 ? epoch % feed->views : 0;
  return feed->features.memory + (view * feed->count + place_of(feed, sample)) * feed->features.elems;
}

bool hd__feed_draws(const hd_feed *feed) { return feed->pipeline && hd__pipeline_draws(feed->pipeline); }

/* The key of the random numbers of a sample at a position of an epoch. */
static hd_sample_key key_of(const hd_feed *feed, uint32_t epoch, int64_t position, int64_t number) {
  hd_sample_key key = {.seed = feed->seed, .epoch = epoch, .position = position, .count = feed->count};
  if (feed->views > 0) {
    key.epoch = epoch % (uint32_t)feed->views;
    key.position = place_of(feed, number);
  }
  return key;
}

const uint8_t *hd__feed_mask(const hd_feed *feed, uint32_t epoch, int64_t position, void *room) {
  const hd_split *split = feed->split;
  const int64_t number = hd__feed_sample(feed, epoch, position);
  const hd_mask_place place = hd__split_mask(split, number);
  const uint8_t *mask = split->masks + place.at;
  const hd_sample sample = {.pixels = mask, .height = place.size[0], .width = place.size[1], .number = number};
  const hd_sample_key key = key_of(feed, epoch, position, number);
  return feed->pipeline ? hd__pipeline_mask(feed->pipeline, &sample, &key, room) : mask;
}

static void fetch_mask(int32_t *label, const hd_feed *feed, uint32_t epoch, int64_t position, void *scratch) {
  const hd_split seen = hd__feed_seen(feed);
  const uint8_t *mask = hd__feed_mask(feed, epoch, position, scratch);
  for (int64_t i = 0; i < hd__split_plane(&seen); i++)
    label[i] = mask[i] == HD_NO_CLASS ? -1 : mask[i];
}

static hd_status transform_sample(float *x, float *target, const hd_feed *feed, hd_ctx *ctx, uint32_t epoch,
                                  int64_t position, int64_t *number, void *scratch) {
  const hd_sample_key key = key_of(feed, epoch, position, *number);
  hd_sample sample, partner = {0};
  char *room = (char *)scratch + pipeline_bytes(feed);
  HD_TRY(sample_at(&sample, room, feed, ctx, number));
  if (has_partner(feed)) {
    int64_t other = hd__feed_sample(feed, epoch, hd_pipeline_partner(position, feed->count));
    HD_TRY(sample_at(&partner, room + room_bytes(feed), feed, ctx, &other));
  }
  hd_pipeline_apply(x, target, feed->pipeline, &sample, &partner, &key, scratch);
  return HD_OK;
}

/* Without transforms. */
static hd_status normalise_sample(float *x, const hd_feed *feed, hd_ctx *ctx, int64_t *number, void *scratch) {
  const hd_split *split = feed->split;
  const int64_t plane = (int64_t)split->height * split->width;
  hd_sample sample;
  HD_TRY(sample_at(&sample, scratch, feed, ctx, number));
  if (split->elem == HD_ELEM_U8)
    feed->kernels->gather_u8(x, sample.pixels, plane, split->channels, feed->scale, feed->shift);
  else
    feed->kernels->gather_f32(x, sample.pixels, plane, split->channels, feed->scale, feed->shift);
  return HD_OK;
}

hd_status hd__feed_read(const hd_feed *feed, hd_ctx *ctx, uint32_t epoch, int64_t first, int64_t rows,
                        const hd_slots *to) {
  const hd_split *split = feed->split;
  const int64_t bytes = hd__split_elems(split) * hd__split_elem_bytes(split);
  for (int64_t r = 0; r < rows; r++) {
    int64_t sample = hd__feed_sample(feed, epoch, first + r);
    if (to->sample) {
      to->sample[r] = (int32_t)sample;
      continue;
    }
    float *x = to->x + r * to->x_stride, *target = target_of(feed, r, to);
    if (split->window) {
      const hd_window all = {.sample = sample, .offset = offset_of(feed, epoch), .count = split->width};
      split->window(x, (int32_t *)to->target + r * to->target_stride, split, &all);
      continue;
    }
    if (feed->features.memory)
      memcpy(x, kept_values(feed, epoch, sample), (size_t)feed->features.elems * sizeof *x);
    else if (feed->pipeline)
      HD_TRY(transform_sample(x, target, feed, ctx, epoch, first + r, &sample, to->scratch));
    else
      HD_TRY(normalise_sample(x, feed, ctx, &sample, to->scratch));
    if (!feed->features.memory)
      prefetch_next(feed, epoch, first + r + feed->batch, bytes);
    if (to->target && split->masks)
      fetch_mask((int32_t *)to->target + r * to->target_stride, feed, epoch, first + r, to->scratch);
    else if (!target && to->target)
      fetch_target(feed, sample, r, to);
    if (to->weight)
      to->weight[r * to->target_stride] = (float)hd__split_weight(split, sample);
    if (feed->view) {
      const hd_split seen = hd__feed_seen(feed);
      hd__view_take(x, to->scratch, feed->view, seen.height, seen.width, seen.channels);
    }
  }
  return HD_OK;
}

void hd__feed_target(void *target, const hd_feed *feed, int64_t position, int32_t outputs) {
  const hd_split *split = feed->split;
  const int64_t sample = hd__feed_sample(feed, 0, position);
  const hd_slots to = {.target = target, .outputs = outputs};
  float *const made = target_of(feed, 0, &to);
  if (split->window)
    split->window(NULL, target, split, &(hd_window){.sample = sample, .count = split->width});
  else if (split->masks)
    fetch_mask(target, feed, 0, position, feed->mask_room);
  else if (made)
    hd__pipeline_target(made, feed->pipeline,
                        &(hd_sample){.label = split->labels ? split->labels[sample] : 0,
                                     .target = split->targets ? split->targets + sample * split->outputs : NULL});
  else
    fetch_target(feed, sample, 0, &to);
}

bool hd__feed_table(hd_sample_table *out, const hd_feed *feed) {
  const hd_split *split = feed->split;
  *out = (hd_sample_table){.data = split->images ? (const void *)split->images : split->floats,
                           .labels = split->labels,
                           .count = split->count,
                           .elems = hd__split_elems(split),
                           .plane = (int64_t)split->height * split->width,
                           .bytes = split->elem == HD_ELEM_U8};
  memcpy(out->scale, feed->scale, sizeof out->scale);
  memcpy(out->shift, feed->shift, sizeof out->shift);
  return hd__split_in_memory(split) && split->channels <= HD_TABLE_MAX_CHANNELS && !feed->pipeline &&
         !feed->features.memory && split->labels && !split->weights && split->count <= INT32_MAX;
}

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  return hd__feed_read(self, ctx, step->epoch, step->cursor + first, rows, to);
}

hd_step_source hd__feed_source(hd_feed *feed) { return (hd_step_source){.self = feed, .fetch = fetch}; }
