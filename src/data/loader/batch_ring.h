/* Loader workers: threads that fill a bounded ring of batches in advance.
 *
 * Batches are numbered from 0 through all epochs of a run; batch b lies in slot b mod `batches`. A batch is divided
 * into blocks, the unit of a worker's work. Workers claim blocks in order, so that a batch completes early, and at
 * most `batches` ahead of the oldest batch that has not been released: memory does not grow.
 *
 *     slot 0: | block 0 | block 1 | ... | slot 1: | block 0 | ...
 *
 * Which worker fills a block depends on timing. Its content does not: `fill` is a function of batch and row.
 *
 * Claiming takes the ring's lock. Taking a complete block, and releasing a batch while all workers are busy, takes
 * no lock. The ring is independent of samples and files. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "heddle/topology.h"

typedef struct hd_ring hd_ring;

typedef struct hd_ring_settings {
  int32_t workers;         /* at least 1 */
  int32_t batches;         /* slots */
  int64_t rows, row_bytes; /* of a batch */
  int64_t scratch_bytes;   /* of each worker */
  bool pin;                /* lock the ring in memory, if the system permits */
  const hd_binding *place; /* of each worker; NULL: unbound */

  /* Called by any worker, with a scratch of scratch_bytes: writes rows [first, first + rows) of batch `batch` to
   * `to`. Does not write rows past the batch's end. A failure is returned when the block is taken; the ring
   * continues. */
  hd_status (*fill)(void *self, hd_ctx *ctx, void *scratch, int64_t batch, int64_t first, int64_t rows, char *to);
  void *self; /* must outlive the ring */
} hd_ring_settings;

/* Starts the workers, which wait for hd__ring_seek. */
hd_status hd__ring_create(hd_ring **out, hd_ctx *ctx, const hd_ring_settings *settings);

/* Ends the workers, each after its current block. NULL is allowed. */
void hd__ring_destroy(hd_ring *ring);

/* Refuses a child by fork of the process that started the workers. */
hd_status hd__ring_check_process(const hd_ring *ring, hd_ctx *ctx);

/* Continues with batches first, first + 1, ... up to `end`, exclusive; what was filled before is discarded. No other
 * call may run at the same time. */
void hd__ring_seek(hd_ring *ring, int64_t first, int64_t end);

/* Rows [first, first + rows) of a batch, with stride row_bytes: waits until they are filled. NULL if one of their
 * blocks failed. They stay valid until the batch is released. Any thread. */
const char *hd__ring_take(hd_ring *ring, int64_t batch, int64_t first, int64_t rows);

/* Releases this batch and those before it. One thread at a time. */
void hd__ring_release(hd_ring *ring, int64_t batch);

/* The failure of a batch that has one: that of its first failed row. */
hd_status hd__ring_failure(hd_ring *ring, hd_ctx *ctx, int64_t batch);

int32_t hd__ring_workers(const hd_ring *ring);

/* Whether locking the ring in memory was requested and failed. */
bool hd__ring_is_unpinned(const hd_ring *ring);

/* The total wait of takers so far, and the number of blocks that each worker filled. */
int64_t hd__ring_waited_ns(const hd_ring *ring);
int64_t hd__ring_filled(hd_ring *ring, int32_t index);

/* The number of takers that sleep until their rows are filled. */
int32_t hd__ring_sleeping(hd_ring *ring);
