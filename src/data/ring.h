/* Loader workers: threads that fill a bounded ring of batches ahead of those who use them.
 *
 * Batches are numbered from 0 through all epochs of a run; batch b lies in slot b mod `batches`. A batch has parts, and
 * a part is what one worker fills at a time. Workers claim parts in order, so that a batch is whole soon, and never
 * more than `batches` ahead of the oldest batch that has not been given back: memory does not grow.
 *
 *     slot 0:  | part 0 | part 1 | ... |       slot 1:  | part 0 | ...
 *
 * Which worker fills what is a matter of time. What a part holds is not: it is the source's function of batch and row.
 *
 * Claiming takes the ring's lock. Taking a part that is there, and giving a batch back while all workers are at work,
 * takes none. The ring knows neither samples nor files. */
#ifndef HD_DATA_RING_H
#define HD_DATA_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "heddle/topology.h"

enum { HD_RING_MAX_WORKERS = 256, HD_RING_MAX_BATCHES = 1 << 16 };

typedef struct hd_ring hd_ring;

typedef struct hd_ring_source {
  void *self;
  /* Any worker, with scratch_bytes of its own: writes rows [first, first + rows) of batch `batch`, the first of them at
   * `to`. Leaves rows behind the batch's end alone. A failure is told to whoever takes the part; the ring goes on. */
  hd_status (*fill)(void *self, hd_ctx *ctx, void *scratch, int64_t batch, int64_t first, int64_t rows, char *to);
} hd_ring_source;

typedef struct hd_ring_settings {
  int32_t workers;         /* 1 .. HD_RING_MAX_WORKERS */
  int32_t batches;         /* slots */
  int64_t rows, row_bytes; /* of a batch */
  int64_t scratch_bytes;   /* of each worker */
  bool pin;                /* lock the ring in memory, if the system lets us */
  const hd_binding *place; /* of each worker; NULL: anywhere */
} hd_ring_settings;

/* Starts the workers; they wait for hd__ring_seek. The source must outlive the ring. */
hd_status hd__ring_create(hd_ring **out, hd_ctx *ctx, const hd_ring_settings *settings, const hd_ring_source *source);

/* Ends the workers, each after the part in its hands. NULL is allowed. */
void hd__ring_destroy(hd_ring *ring);

/* From now on batches first, first + 1, ... up to but not with `end`; whatever was filled before is forgotten. Nobody
 * may be taking meanwhile. */
void hd__ring_seek(hd_ring *ring, int64_t first, int64_t end);

/* Rows [first, first + rows) of a batch, at row_bytes from each other: waits until they are there. NULL if one of their
 * parts failed. They stay until the batch is given back. Any thread. */
const char *hd__ring_take(hd_ring *ring, int64_t batch, int64_t first, int64_t rows);

/* Nobody needs this batch or those before it any longer. One thread at a time. */
void hd__ring_give_back(hd_ring *ring, int64_t batch);

/* The failure of a batch that has one: that of its first row that failed, whichever worker met it. */
hd_status hd__ring_failure(hd_ring *ring, hd_ctx *ctx, int64_t batch);

int32_t hd__ring_workers(const hd_ring *ring);

/* Whether the ring was to be locked in memory and is not. */
bool hd__ring_is_loose(const hd_ring *ring);

/* What takers waited for so far, all together, and how many parts each worker filled. */
int64_t hd__ring_waited_ns(const hd_ring *ring);
int64_t hd__ring_filled(hd_ring *ring, int32_t index);

/* How many takers sleep until their rows are there. */
int32_t hd__ring_sleeping(hd_ring *ring);

#endif
