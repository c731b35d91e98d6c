/* Batches that loader workers read ahead of the threads, from a feed into a ring.
 *
 * Step n of a run, counted from 0 through all epochs, is batch n of the ring. Threads copy their rows out of it while
 * these are in the caches; a batch is released when its step has counted. The ring holds less than an epoch, since a
 * feed keeps the orders of two epochs. */
#pragma once

#include "data/loader/batch_ring.h"
#include "data/feed/feed.h"

typedef struct hd_batches hd_batches;

typedef struct hd_batches_settings {
  hd_feed *feed; /* must outlive the batches */
  uint64_t seed;
  int64_t batch, steps_per_epoch;
  int64_t sample_elems;    /* floats of a sample */
  int32_t outputs;         /* floats of a target; 0: a class number */
  bool weighs;             /* with the samples' weights */
  int32_t workers;         /* at least 1 */
  int32_t prefetch_factor; /* batches in the ring for each worker */
  bool pin;
  const hd_exec *exec;     /* only rows that its threads fetch are read; NULL: all */
  int64_t repeats;         /* step n reads the batch of step n mod this, for rehearsals; 0: never */
  const hd_binding *place; /* of each worker; NULL: not bound */
} hd_batches_settings;

/* Floats from one row of the ring to the next: a sample, then its target and weight, in whole cache lines. */
int64_t hd__batches_row_elems(int64_t sample_elems, int32_t outputs, bool weighs);

/* Starts the workers, which wait for hd__batches_seek. */
hd_status hd__batches_create(hd_batches **out, hd_ctx *ctx, const hd_batches_settings *settings);
void hd__batches_destroy(hd_batches *batches); /* NULL is allowed */

/* Steps `first` to `end` - 1 will be read. Does nothing if the workers are already at `first` and continue to `end`. */
void hd__batches_seek(hd_batches *batches, int64_t first, int64_t end);

/* Copies rows [first, first + rows) of a step. Fails as its first sample that could not be read. */
hd_status hd__batches_read(hd_batches *batches, hd_ctx *ctx, int64_t step, int64_t first, int64_t rows,
                           const hd_slots *to);

/* Releases the batch of a step that counted; called in the order of steps. */
void hd__batches_done(hd_batches *batches, int64_t step);

hd_ring *hd__batches_ring(hd_batches *batches);
