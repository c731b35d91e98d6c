/* The number of samples a second that a loader delivers: read, transformed and normalised by its workers or by this
 * thread, and all summed here, since a training step would read them. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "tools/bench/machine_limits.h"
#include "base/sized_struct.h"
#include "heddle/loader.h"
#include "platform/clock.h"
#include "platform/machine.h"
#include "train/placement/run_plan.h"
#include "tools/tune/scaling.h"

enum { TURNS = 15 };

/* Sums over the delivered samples; of squares too if `squared`. */
typedef struct tally {
  const hd_kernels *kernels;
  bool squared;
  double sum, squares;
  int64_t samples, elems;
} tally;

static void add_sample(tally *t, const float *x, int64_t elems) {
  for (int64_t i = 0; i < elems; i += HD_ARRAY_BLOCK) {
    const int64_t count = elems - i < HD_ARRAY_BLOCK ? elems - i : HD_ARRAY_BLOCK;
    t->sum += (double)t->kernels->array.sum[HD_F32](x + i, count).f;
    if (t->squared)
      t->squares += t->kernels->sum_squares(x + i, count);
  }
  t->samples++;
  t->elems += elems;
}

/* The next batch; after the last, the first of the next epoch. */
static hd_status take_batch(tally *t, hd_loader *loader, hd_ctx *ctx, uint32_t *epoch) {
  const hd_loader_shape *shape = hd_loader_shape_of(loader);
  const int64_t elems = (int64_t)shape->channels * shape->height * shape->width;
  const hd_batch *b;
  HD_TRY(hd_loader_next(&b, loader, ctx));
  if (b->count == 0) {
    HD_TRY(hd_loader_begin(loader, ctx, ++*epoch));
    HD_TRY(hd_loader_next(&b, loader, ctx));
  }
  for (int64_t i = 0; i < b->count; i++)
    add_sample(t, b->x + i * b->stride, elems);
  return HD_OK;
}

static hd_status measure(hd_bench_loader_result *out, hd_ctx *ctx, hd_loader *loader, double seconds) {
  const hd_loader_shape *shape = hd_loader_shape_of(loader);
  double rate[TURNS];
  uint32_t epoch = 0;
  const hd_kernels *kernels;
  HD_TRY(hd__planned_kernels(&kernels, ctx));
  tally all = {.kernels = kernels, .squared = true};
  for (int64_t b = 0; b < shape->batches; b++)
    HD_TRY(take_batch(&all, loader, ctx, &epoch));
  out->samples = all.samples;
  out->mean = all.sum / (double)all.elems;
  out->std = sqrt(all.squares / (double)all.elems - out->mean * out->mean);
  for (out->turns = 0; out->turns < TURNS; out->turns++) {
    tally t = {.kernels = kernels};
    const double start = hd__clock_s();
    double end = start;
    for (; end - start < seconds / TURNS; end = hd__clock_s())
      HD_TRY(take_batch(&t, loader, ctx, &epoch));
    rate[out->turns] = (double)t.samples / (end - start);
  }
  const hd_median m = hd__median(rate, TURNS);
  out->samples_per_s = m.value;
  out->low = m.low;
  out->high = m.high;
  return HD_OK;
}

static hd_status bench_loader(hd_bench_loader_result *out, hd_ctx *ctx, const hd_config *config, double seconds) {
  hd_loader *loader;
  HD_TRY(hd__bench_check_seconds(ctx, seconds));
  const double start = hd__clock_s();
  HD_TRY(hd_loader_create(&loader, ctx, config, HD_LOADER_TRAINING, NULL));
  out->start_s = hd__clock_s() - start;
  const hd_loader_shape *shape = hd_loader_shape_of(loader);
  hd__cpu_name(out->cpu, sizeof out->cpu);
  snprintf(out->data, sizeof out->data, "%s", hd_config_get(config, "data"));
  out->workers = shape->workers;
  out->batch = hd_config_get_int(config, HD_OPT_BATCH);
  hd_status status = measure(out, ctx, loader, seconds);
  const double stop = hd__clock_s();
  hd_loader_destroy(loader);
  out->stop_s = hd__clock_s() - stop;
  return status;
}

hd_status hd_bench_loader(hd_bench_loader_result *out, hd_ctx *ctx, const hd_config *config, double seconds) {
  hd_bench_loader_result result = {0};
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_bench_loader_result"));
  const hd_status status = bench_loader(&result, ctx, config, seconds);
  hd__struct_write(out, &result, sizeof result);
  return status;
}
