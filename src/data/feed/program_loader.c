/* Loaders for the caller's program: batches of a feed, read ahead or by the calling thread; see heddle/loader.h. */
#include "heddle/loader.h"

#include "base/alloc.h"
#include "base/event_log.h"
#include "base/rounding.h"
#include "platform/fpmode.h"
#include "platform/threads.h"
#include "data/feed/feed_options.h"
#include "train/placement/run_plan.h"
#include "data/feed/batches.h"
#include "data/formats/formats.h"

struct hd_loader {
  hd_dataset *data;
  hd_feed feed;
  hd_batches *ahead; /* NULL: without workers */
  float *rows;       /* without workers: a batch, */
  void *scratch;     /* and what transforms need */
  hd_loader_shape shape;
  hd_batch given; /* the last one */
  uint64_t seed;
  int64_t batch, row_elems;
  uint32_t epoch;
  int64_t next; /* batch of the epoch */
};

static hd_status open_feed(hd_loader *l, hd_ctx *ctx, const hd_config *config, hd_loader_part part) {
  const hd_kernels *kernels;
  const bool trains = part == HD_LOADER_TRAINING;
  const hd_transform_lists lists = hd__transform_lists(config);
  HD_TRY(hd__planned_kernels(&kernels, ctx));
  hd_dataset_request request = hd__config_data(config);
  request.rows = true; /* no model makes pictures of them */
  HD_TRY(hd__dataset_open(&l->data, ctx, &request));
  const double *mean = l->data->statistics.mean, *std = l->data->statistics.std;
  const hd_split *split = trains ? hd__dataset_train(l->data) : hd__dataset_test(l->data);
  HD_TRY(hd__feed_init(&l->feed, ctx, split, kernels, mean, std));
  if (split->validation > 0) {
    HD_FEED_OWNED validation = {0};
    HD_TRY(hd__feed_take_validation(&validation, &l->feed, ctx));
  }
  return hd__feed_set_transforms(&l->feed, ctx, &lists, trains ? HD_PIPELINE_TRAINING : HD_PIPELINE_EVALUATION,
                                 l->seed);
}

/* Takes over `given`. */
static hd_status order(hd_loader *l, hd_ctx *ctx, const hd_config *config, hd_loader_part part, hd_sampler *given) {
  if (given && hd__sampler_samples(given) > l->feed.count) {
    hd_status status =
        hd__fail(ctx, HD_E_USAGE, "expected a sampler of at most the %lld samples of %s, found one of %lld",
                 (long long)l->feed.count, l->data->name, (long long)hd__sampler_samples(given));
    hd_sampler_destroy(given);
    return status;
  }
  if (given)
    return hd__feed_sample_by(&l->feed, ctx, given);
  return part == HD_LOADER_TRAINING ? hd__feed_set_order(&l->feed, ctx, config, l->data->name) : HD_OK;
}

static hd_status describe(hd_loader *l, hd_ctx *ctx, const hd_config *config) {
  const hd_split seen = hd__feed_seen(&l->feed);
  const int64_t whole = l->feed.count / l->batch, rest = l->feed.count % l->batch;
  const bool drops = hd__settings(config)->drop_last;
  if (seen.window || seen.masked)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected samples with one target each, found %s; train on the data",
                    l->data->name, seen.window ? "a text" : "a class for each pixel");
  if (seen.mixed)
    return hd__fail(ctx, HD_E_SHAPE, "%s: expected samples of one size, found %s; resize them with a transform",
                    l->data->name, seen.mixed);
  l->shape = (hd_loader_shape){.channels = seen.channels,
                               .height = seen.height,
                               .width = seen.width,
                               .classes = seen.labels ? seen.classes : 0,
                               .outputs = seen.labels ? 0 : seen.outputs,
                               .samples = drops ? whole * l->batch : l->feed.count,
                               .batches = whole + (rest > 0 && !drops)};
  if (l->shape.batches == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "drop-last expects at least one full batch of %lld, found %lld samples; use a smaller batch",
                    (long long)l->batch, (long long)l->feed.count);
  return HD_OK;
}

static int64_t sample_elems(const hd_loader *l) {
  return (int64_t)l->shape.channels * l->shape.height * l->shape.width;
}

static hd_status start_workers(hd_loader *l, hd_ctx *ctx, const hd_config *config) {
  const hd_placement_request request = hd__config_placement(config);
  hd_placement *place;
  HD_TRY(hd__threads_place(&place, ctx, &request));
  const hd_batches_settings settings = {.feed = &l->feed,
                                        .seed = l->seed,
                                        .batch = l->batch,
                                        .steps_per_epoch = l->shape.batches,
                                        .sample_elems = sample_elems(l),
                                        .outputs = l->shape.outputs,
                                        .workers = request.workers,
                                        .prefetch_factor = (int32_t)hd__settings(config)->prefetch_factor,
                                        .pin = hd__settings(config)->pin_memory,
                                        .place = place->worker};
  hd_status status = hd__batches_create(&l->ahead, ctx, &settings);
  hd_placement_destroy(place);
  if (status == HD_OK)
    l->shape.workers = hd__ring_workers(hd__batches_ring(l->ahead));
  return status;
}

static hd_status take_rows(hd_loader *l, hd_ctx *ctx) {
  l->rows = hd__malloc_aligned((size_t)(l->batch * l->row_elems) * sizeof *l->rows);
  l->scratch = hd__malloc_aligned((size_t)hd__feed_scratch_bytes(&l->feed) + 1);
  return HD_ALLOCATED(l->rows && l->scratch, ctx, "out of memory for a batch of %lld", (long long)l->batch);
}

/* Takes over the sampler in any case. */
static hd_status open_all(hd_loader *l, hd_ctx *ctx, const hd_config *config, hd_loader_part part,
                          hd_sampler *sampler) {
  hd_status status = hd__log_start(ctx);
  HD_THEN(status, open_feed(l, ctx, config, part));
  if (status != HD_OK) {
    hd_sampler_destroy(sampler);
    return status;
  }
  HD_TRY(order(l, ctx, config, part, sampler));
  l->feed.batch = l->batch;
  HD_TRY(describe(l, ctx, config));
  l->row_elems = hd__batches_row_elems(sample_elems(l), l->shape.outputs, false);
  return hd__settings(config)->workers > 0 ? start_workers(l, ctx, config) : take_rows(l, ctx);
}

hd_status hd_loader_create(hd_loader **out, hd_ctx *ctx, const hd_config *config, hd_loader_part part,
                           hd_sampler *sampler) {
  HD_ROUNDING_TO_NEAREST;
  hd_loader *l = *out = hd__calloc(1, sizeof *l);
  if (!l) {
    hd_sampler_destroy(sampler);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a loader");
  }
  l->seed = (uint64_t)hd__settings(config)->seed;
  l->batch = hd__settings(config)->batch;
  hd_status status = open_all(l, ctx, config, part, sampler);
  HD_THEN(status, hd_loader_begin(l, ctx, 0));
  return HD_CREATED(status, out, hd_loader_destroy);
}

void hd_loader_destroy(hd_loader *l) {
  if (!l)
    return;
  hd__batches_destroy(l->ahead); /* before the feed that its workers read */
  hd__feed_fini(&l->feed);
  hd__dataset_close(l->data);
  hd__free(l->rows);
  hd__free(l->scratch);
  hd__free(l);
}

const hd_loader_shape *hd_loader_shape_of(const hd_loader *l) { return &l->shape; }

/* The number of a batch of this epoch, counted through all epochs. */
static int64_t number_of(const hd_loader *l, int64_t batch) { return l->epoch * l->shape.batches + batch; }

hd_status hd_loader_begin(hd_loader *l, hd_ctx *ctx, uint32_t epoch) {
  HD_ROUNDING_TO_NEAREST;
  if (l->ahead)
    HD_TRY(hd__ring_check_process(hd__batches_ring(l->ahead), ctx));
  if (l->ahead && l->next > 0)
    hd__batches_done(l->ahead, number_of(l, l->next - 1));
  l->epoch = epoch;
  l->next = 0;
  if (l->ahead)
    hd__batches_seek(l->ahead, number_of(l, 0), INT64_MAX);
  else
    hd__feed_shuffle(&l->feed, l->seed, epoch);
  return HD_OK;
}

/* Reads rows on the calling thread, in the floating-point mode of threads and workers. */
static hd_status read_rows(hd_loader *l, hd_ctx *ctx, int64_t first, int64_t rows) {
  const hd_slots to = {.x = l->rows,
                       .x_stride = l->row_elems,
                       .target = l->rows + sample_elems(l),
                       .target_stride = l->row_elems,
                       .outputs = l->shape.outputs,
                       .scratch = l->scratch};
  const uint64_t mode = hd__fpmode_enter();
  hd_status status = hd__feed_read(&l->feed, ctx, l->epoch, first, rows, &to);
  hd__fpmode_leave(mode);
  return status;
}

hd_status hd_loader_next(const hd_batch **out, hd_loader *l, hd_ctx *ctx) {
  hd_batch *const batch = &l->given;
  *out = batch;
  *batch = (hd_batch){0};
  if (l->next == l->shape.batches)
    return HD_OK;
  if (l->ahead && l->next > 0)
    hd__batches_done(l->ahead, number_of(l, l->next - 1));
  const int64_t now = l->next++, first = now * l->batch, left = l->shape.samples - first;
  const int64_t rows = left < l->batch ? left : l->batch;
  const float *x = l->rows;
  if (l->ahead)
    x = (const float *)hd__ring_take(hd__batches_ring(l->ahead), number_of(l, now), 0, rows);
  if (!x)
    return hd__ring_failure(hd__batches_ring(l->ahead), ctx, number_of(l, now));
  if (!l->ahead)
    HD_TRY(read_rows(l, ctx, first, rows));
  const float *target = x + sample_elems(l);
  *batch = (hd_batch){.count = rows, .first = first, .stride = l->row_elems, .x = x};
  if (l->shape.outputs > 0)
    batch->target = target;
  else
    batch->label = (const int32_t *)target;
  return HD_OK;
}
