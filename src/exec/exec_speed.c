/* Timing lanes on cores of several kinds, once a team: a product that stays in the first-level cache, by the kernels
 * that will run, on all lanes at once, as they will be. What comes out divides the work and touches no result. */
#include <string.h>

#include "base/alloc.h"
#include "exec/exec_state.h"
#include "sys/clock.h"

enum { ROWS = 16, SIZE = 64, CALLS = 8, ELEMS = (SIZE + 2 * ROWS) * SIZE };

static const double TRIAL_S = 0.002;

typedef struct trial {
  const hd_kernels *kernels;
  float *memory; /* ELEMS for each lane */
  double *rate;
} trial;

static void time_lane(void *arg, int lane) {
  const trial *t = arg;
  float *w = t->memory + (int64_t)lane * ELEMS, *x = w + SIZE * SIZE, *y = x + ROWS * SIZE;
  const hd_geom geom = {.ci = SIZE,
                        .hi = 1,
                        .wi = 1,
                        .co = SIZE,
                        .ho = 1,
                        .wo = 1,
                        .kh = 1,
                        .kw = 1,
                        .sh = 1,
                        .sw = 1,
                        .groups = 1,
                        .pool = 1,
                        .hp = 1,
                        .wp = 1};
  hd_call call = {.g = &geom, .rows = ROWS, .in = {x, w}, .in_stride = {SIZE}, .out = {y}, .out_stride = {SIZE}};
  memset(w, 0, ELEMS * sizeof *w);
  double start_s = hd__clock_s(), before_s = start_s, now_s = start_s, least_s = TRIAL_S;
  while (now_s - start_s < TRIAL_S) {
    for (int i = 0; i < CALLS; i++)
      t->kernels->run[HD_OP_linear](&call);
    now_s = hd__clock_s();
    least_s = now_s - before_s < least_s ? now_s - before_s : least_s;
    before_s = now_s;
  }
  t->rate[lane] = 1 / least_s;
}

hd_status hd__exec_time_lanes(hd_lanes *lanes, hd_ctx *ctx, const hd_kernels *kernels) {
  if (!hd__lanes_want_rates(lanes))
    return HD_OK;
  size_t count = (size_t)hd__lanes_count(lanes);
  trial t = {.kernels = kernels,
             .memory = hd__malloc_aligned(count * ELEMS * sizeof *t.memory),
             .rate = hd__malloc(count * sizeof *t.rate)};
  hd_status status = HD_E_NOMEM;
  if (t.memory && t.rate)
    status = hd__lanes_run(lanes, ctx, time_lane, &t);
  else
    hd__fail(ctx, status, "out of memory for timing %zu lanes", count);
  if (status == HD_OK)
    hd__lanes_take_rates(lanes, t.rate);
  hd__free(t.memory);
  hd__free(t.rate);
  return status;
}
