/* The ring of loader workers: all workers give the same rows, failures come with their batch, starts and ends are
 * clean. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "data/loader/batch_ring.h"
#include "tap.h"

enum { ROWS = 37, ROW_BYTES = 64, SCRATCH_BYTES = 1000, NONE = -1 };

static hd_ctx *ctx;

/* Rows hold their number. */
typedef struct book {
  int64_t bad_batch, bad_row;               /* fails there, and at all rows after it of that batch */
  atomic_int open;                          /* 0: fills wait */
  int64_t held_row;                         /* fills of this row and those behind it wait in batch 0 until `released` */
  atomic_int released, inside[2], overlaps; /* inside: of a ring of two batches */
  atomic_llong fills, highest;
} book;

static hd_status fill(void *self, hd_ctx *worker, void *scratch, int64_t batch, int64_t first, int64_t rows, char *to) {
  book *b = self;
  memset(scratch, 0xff, SCRATCH_BYTES); /* one for each worker */
  atomic_fetch_add(&b->fills, 1);
  long long seen = atomic_load(&b->highest);
  while (batch > seen && !atomic_compare_exchange_weak(&b->highest, &seen, batch)) {
  }
  while (!atomic_load(&b->open))
    sched_yield();
  if (b->held_row && first >= b->held_row) {
    atomic_fetch_add(&b->overlaps, atomic_fetch_add(&b->inside[batch % 2], 1) > 0);
    while (batch == 0 && !atomic_load(&b->released))
      sched_yield();
    atomic_fetch_sub(&b->inside[batch % 2], 1);
  }
  for (int64_t r = first; r < first + rows; r++, to += ROW_BYTES) {
    if (batch == b->bad_batch && r >= b->bad_row)
      return hd__fail(worker, HD_E_FORMAT, "row %lld of batch %lld is bad", (long long)r, (long long)batch);
    memset(to, 0, ROW_BYTES);
    memcpy(to, &batch, sizeof batch);
    memcpy(to + sizeof batch, &r, sizeof r);
  }
  return HD_OK;
}

static hd_ring *make(book *b, int workers, int batches, bool pin) {
  hd_ring *ring;
  const hd_ring_settings settings = {.workers = workers,
                                     .batches = batches,
                                     .rows = ROWS,
                                     .row_bytes = ROW_BYTES,
                                     .scratch_bytes = SCRATCH_BYTES,
                                     .pin = pin,
                                     .fill = fill,
                                     .self = b};
  if (hd__ring_create(&ring, ctx, &settings) != HD_OK)
    fail("a ring: %s", hd_ctx_message(ctx));
  return ring;
}

static int is_right(const char *rows, int64_t batch, int64_t first, int64_t count) {
  for (int64_t r = first; rows && r < first + count; r++, rows += ROW_BYTES)
    if (memcmp(rows, &batch, sizeof batch) || memcmp(rows + sizeof batch, &r, sizeof r))
      return 0;
  return rows != NULL;
}

/* Takes batches `step` rows at a time. */
static int take_all(hd_ring *ring, int64_t first, int64_t end, int64_t step) {
  int right = 1;
  for (int64_t b = first; b < end; b++) {
    for (int64_t r = 0; r < ROWS; r += step) {
      int64_t count = ROWS - r < step ? ROWS - r : step;
      right &= is_right(hd__ring_take(ring, b, r, count), b, r, count);
    }
    hd__ring_release(ring, b);
  }
  return right;
}

static void test_rows(void) {
  const int workers[] = {1, 2, 8}, batches[] = {1, 2, 16};
  for (int w = 0; w < 3; w++)
    for (int s = 0; s < 3; s++) {
      book b = {.bad_batch = NONE, .open = 1};
      hd_ring *ring = make(&b, workers[w], batches[s], false);
      hd__ring_seek(ring, 5, 105);
      ok(take_all(ring, 5, 105, 5), "%d workers, %d batches: each row is the requested one", workers[w], batches[s]);
      is_int(hd__ring_workers(ring), workers[w], "all workers run");
      int64_t filled = 0;
      for (int i = 0; i < workers[w]; i++)
        filled += hd__ring_filled(ring, i);
      is_int(filled, atomic_load(&b.fills), "every part was filled by a worker");
      is_int(atomic_load(&b.highest), 104, "nothing was filled behind the end");
      hd__ring_destroy(ring);
    }
}

/* Workers stop where the ring is full, whatever is not given back. */
static void test_bound(void) {
  book b = {.bad_batch = NONE, .open = 1};
  hd_ring *ring = make(&b, 3, 4, false);
  hd__ring_seek(ring, 0, 1000);
  hd__ring_take(ring, 3, 0, ROWS); /* the last of the slots */
  is_int(atomic_load(&b.highest), 3, "no more than the ring's batches are filled ahead");
  ok(is_right(hd__ring_take(ring, 0, 0, ROWS), 0, 0, ROWS), "the oldest batch is still there");
  hd__ring_release(ring, 1);
  ok(is_right(hd__ring_take(ring, 5, 0, ROWS), 5, 0, ROWS), "what is given back is filled again");
  is_int(atomic_load(&b.highest), 5, "and no more than that");
  hd__ring_destroy(ring);
}

static void test_seek(void) {
  book b = {.bad_batch = NONE, .open = 1};
  hd_ring *ring = make(&b, 2, 3, false);
  hd__ring_seek(ring, 0, 50);
  ok(take_all(ring, 0, 7, ROWS), "from the start");
  hd__ring_seek(ring, 40, 50);
  ok(take_all(ring, 40, 50, ROWS), "from further on, to the end");
  hd__ring_seek(ring, 3, 4);
  ok(take_all(ring, 3, 4, 1), "and back");
  hd__ring_destroy(ring);
}

static void test_failure(void) {
  book b = {.bad_batch = 6, .bad_row = 11, .open = 1};
  hd_ring *ring = make(&b, 4, 3, false);
  hd__ring_seek(ring, 0, 20);
  ok(take_all(ring, 0, 6, 4), "batches before the bad one are whole");
  ok(is_right(hd__ring_take(ring, 6, 0, 9), 6, 0, 9), "so are parts before the bad one");
  ok(!hd__ring_take(ring, 6, 30, 2) && !hd__ring_take(ring, 6, 0, ROWS), "a part that failed is not given");
  is_int(hd__ring_failure(ring, ctx, 6), HD_E_FORMAT, "the batch has a failure");
  is_str(hd_ctx_message(ctx), "row 11 of batch 6 is bad", "that of the first row, whichever failed first");
  is_int(hd__ring_failure(ring, ctx, 7), HD_OK, "the next batch has none");
  hd__ring_release(ring, 6);
  ok(take_all(ring, 7, 20, ROWS), "the ring goes on");
  hd__ring_destroy(ring);
}

typedef struct taker {
  hd_ring *ring;
  int64_t first;
  int right;
} taker;

static void *take_third(void *arg) {
  taker *t = arg;
  t->right = is_right(hd__ring_take(t->ring, 0, t->first, 12), 0, t->first, 12);
  return NULL;
}

/* Takers that come before the rows are there sleep, and wake. */
static void test_waiting(void) {
  book b = {.bad_batch = NONE};
  hd_ring *ring = make(&b, 2, 2, true);
  taker all[3];
  pthread_t thread[3];
  hd__ring_seek(ring, 0, 10);
  for (int i = 0; i < 3; i++) {
    all[i] = (taker){.ring = ring, .first = 12 * i};
    pthread_create(&thread[i], NULL, take_third, &all[i]);
  }
  while (atomic_load(&b.fills) < 2 || hd__ring_sleeping(ring) < 3)
    sched_yield();
  atomic_store(&b.open, 1);
  for (int i = 0; i < 3; i++)
    pthread_join(thread[i], NULL);
  ok(all[0].right && all[1].right && all[2].right, "three threads waited for their rows");
  ok(hd__ring_waited_ns(ring) > 0, "the time they waited is counted");
  hd__ring_destroy(ring);
}

/* What a batch was before hd__ring_seek is forgotten: it is filled anew, also where it had failed. */
static void test_fixed(void) {
  int failed = 0, right = 1;
  for (int i = 0; i < 50; i++) {
    book b = {.bad_batch = 2, .bad_row = 0, .open = 1};
    hd_ring *ring = make(&b, 1, 4, false);
    hd__ring_seek(ring, 2, 3);
    failed += hd__ring_take(ring, 2, 0, ROWS) == NULL;
    hd__ring_seek(ring, 0, 0); /* waits for the worker */
    b.bad_batch = NONE;
    hd__ring_seek(ring, 2, 3);
    right &= is_right(hd__ring_take(ring, 2, ROWS - 1, 1), 2, ROWS - 1, 1);
    hd__ring_destroy(ring);
  }
  is_int(failed, 50, "a bad batch fails");
  ok(right, "and is there once what fills it is fixed");
}

/* A short batch is given back while a worker still fills its last part, which no thread needs: its place is not filled
 * again before the worker is done, and is whole then. (A ring that loses count of that part waits for ever.) */
static void test_short_batch(void) {
  int right = 1, overlaps = 0;
  for (int i = 0; i < 50; i++) {
    book b = {.bad_batch = NONE, .open = 1, .held_row = ROWS - 1};
    hd_ring *ring = make(&b, 2, 2, false);
    hd__ring_seek(ring, 0, 6);
    right &= is_right(hd__ring_take(ring, 0, 0, ROWS - 1), 0, 0, ROWS - 1);
    right &= is_right(hd__ring_take(ring, 1, 0, ROWS - 1), 1, 0, ROWS - 1);
    hd__ring_release(ring, 1);
    right &= is_right(hd__ring_take(ring, 2, 0, ROWS - 1), 2, 0, ROWS - 1);
    for (int k = 0; k < 20; k++)
      sched_yield();
    atomic_store(&b.released, 1);
    right &= take_all(ring, 2, 6, ROWS);
    overlaps += atomic_load(&b.overlaps);
    hd__ring_destroy(ring);
  }
  ok(right, "what lies behind a short batch is there");
  is_int(overlaps, 0, "no part is filled by two workers at once");
}

static void test_starts_and_ends(void) {
  int right = 1;
  for (int i = 0; i < 200; i++) {
    book b = {.bad_batch = i % 3 ? NONE : 1, .bad_row = 0, .open = 1};
    hd_ring *ring = make(&b, 1 + i % 8, 1 + i % 5, i % 2);
    if (i % 4)
      hd__ring_seek(ring, 0, 100);
    if (i % 4 == 1)
      right &= is_right(hd__ring_take(ring, 0, 0, ROWS), 0, 0, ROWS);
    hd__ring_destroy(ring);
  }
  ok(right, "200 starts and ends, in the middle of things or not");
}

int main(void) {
  static void (*const tests[])(void) = {test_rows,    test_bound, test_seek,        test_failure,
                                        test_waiting, test_fixed, test_short_batch, test_starts_and_ends};
  hd_ctx_create(&ctx);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    alarm(20); /* a ring that hangs is a failure, too */
    tests[i]();
  }
  hd__ring_destroy(NULL);
  hd_ctx_destroy(ctx);
  return done_testing();
}
