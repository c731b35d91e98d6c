/* Batches of a feed in the ring: written by workers, copied out by threads. */
#include "data/feed/batches.h"

#include <string.h>

#include "base/alloc.h"
#include "base/event_log.h"

struct hd_batches {
  hd_batches_settings is;
  int64_t row_elems;
  int64_t next, end; /* the steps that the workers are to read and that are not done */
  hd_ring *ring;
};

enum { LINE_ELEMS = 16 };

static int32_t target_elems(int32_t outputs) { return outputs > 0 ? outputs : 1; }

int64_t hd__batches_row_elems(int64_t sample_elems, int32_t outputs, bool weighs) {
  return (sample_elems + target_elems(outputs) + weighs + LINE_ELEMS - 1) / LINE_ELEMS * LINE_ELEMS;
}

/* Fills a worker's rows of a batch; the last batch of an epoch may be short. */
static hd_status fill(void *self, hd_ctx *ctx, void *scratch, int64_t batch, int64_t first, int64_t rows, char *to) {
  const hd_batches *s = self;
  const int64_t step = s->is.repeats > 0 ? batch % s->is.repeats : batch;
  const uint32_t epoch = (uint32_t)(step / s->is.steps_per_epoch);
  const int64_t cursor = step % s->is.steps_per_epoch * s->is.batch + first, left = s->is.feed->count - cursor;
  float *x = (float *)to;
  const hd_slots slots = {.x = x,
                          .x_stride = s->row_elems,
                          .target = x + s->is.sample_elems,
                          .target_stride = s->row_elems,
                          .outputs = s->is.outputs,
                          .weight = s->is.weighs ? x + s->is.sample_elems + target_elems(s->is.outputs) : NULL,
                          .scratch = scratch};
  const int64_t rest = left + first, samples = rest < s->is.batch ? rest : s->is.batch;
  if (left <= 0 || (s->is.exec && !hd__exec_fetches(s->is.exec, samples, first, rows)))
    return HD_OK;
  hd__feed_shuffle(s->is.feed, s->is.seed, epoch);
  HD_LOG(DATA, "batch %lld: rows %lld to %lld", (long long)batch + 1, (long long)first,
         (long long)(first + (rows < left ? rows : left)) - 1);
  return hd__feed_read(s->is.feed, ctx, epoch, cursor, rows < left ? rows : left, &slots);
}

hd_status hd__batches_create(hd_batches **out, hd_ctx *ctx, const hd_batches_settings *settings) {
  hd_batches *s = *out = hd__calloc(1, sizeof *s);
  HD_TRY(HD_ALLOCATED(s, ctx, "out of memory for the loader"));
  s->is = *settings;
  s->row_elems = hd__batches_row_elems(settings->sample_elems, settings->outputs, settings->weighs);
  const int64_t wanted = (int64_t)settings->workers * settings->prefetch_factor;
  const hd_ring_settings ring = {.workers = settings->workers,
                                 .batches =
                                     (int32_t)(wanted < settings->steps_per_epoch ? wanted : settings->steps_per_epoch),
                                 .rows = settings->batch,
                                 .row_bytes = s->row_elems * (int64_t)sizeof(float),
                                 .scratch_bytes = hd__feed_scratch_bytes(settings->feed),
                                 .pin = settings->pin,
                                 .place = settings->place,
                                 .fill = fill,
                                 .self = s};
  hd_status status = hd__ring_create(&s->ring, ctx, &ring);
  return HD_CREATED(status, out, hd__free);
}

void hd__batches_destroy(hd_batches *s) {
  if (!s)
    return;
  hd__ring_destroy(s->ring);
  hd__free(s);
}

void hd__batches_seek(hd_batches *s, int64_t first, int64_t end) {
  if (s->next != first || s->end != end)
    hd__ring_seek(s->ring, first, end);
  s->next = first;
  s->end = end;
}

hd_status hd__batches_read(hd_batches *s, hd_ctx *ctx, int64_t step, int64_t first, int64_t rows, const hd_slots *to) {
  const float *x = (const float *)hd__ring_take(s->ring, step, first, rows);
  if (!x)
    return hd__ring_failure(s->ring, ctx, step);
  for (int64_t r = 0; r < rows; r++, x += s->row_elems) {
    memcpy(to->x + r * to->x_stride, x, (size_t)s->is.sample_elems * sizeof *x);
    memcpy((float *)to->target + r * to->target_stride, x + s->is.sample_elems,
           (size_t)target_elems(s->is.outputs) * sizeof *x);
    if (to->weight)
      to->weight[r * to->target_stride] = x[s->is.sample_elems + target_elems(s->is.outputs)];
  }
  return HD_OK;
}

void hd__batches_done(hd_batches *s, int64_t step) {
  s->next = step + 1;
  hd__ring_release(s->ring, step);
}

hd_ring *hd__batches_ring(hd_batches *s) { return s->ring; }
