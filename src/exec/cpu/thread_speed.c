/* Measures the speed of threads that run on cores of several kinds, once per team. All threads at once compute a
 * product that stays in the first-level cache, with the kernels of the run. The speeds divide the work and change no
 * result. */
#include <string.h>

#include "base/alloc.h"
#include "exec/cpu/cpu_executor_state.h"
#include "platform/clock.h"

enum { ROWS = 16, SIZE = 64, CALLS = 8, ELEMS = (SIZE + 2 * ROWS) * SIZE };

static const double TRIAL_S = 0.002;

typedef struct trial {
  const hd_kernels *kernels;
  float *memory; /* ELEMS for each thread */
  double *rate;
} trial;

static void time_thread(void *arg, int thread) {
  const trial *t = arg;
  float *w = t->memory + (int64_t)thread * ELEMS, *x = w + SIZE * SIZE, *y = x + ROWS * SIZE;
  const hd_geom geom = {.ci = SIZE,
                        .hi = 1,
                        .wi = 1,
                        .co = SIZE,
                        .ho = 1,
                        .wo = 1,
                        .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1},
                        .conv = {.groups = 1, .pool = 1},
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
  t->rate[thread] = 1 / least_s;
}

hd_status hd__exec_time_threads(hd_threads *threads, hd_ctx *ctx, const hd_kernels *kernels) {
  if (!hd__threads_need_speeds(threads))
    return HD_OK;
  size_t count = (size_t)hd__threads_count(threads);
  trial t = {.kernels = kernels,
             .memory = hd__malloc_aligned(count * ELEMS * sizeof *t.memory),
             .rate = hd__malloc(count * sizeof *t.rate)};
  hd_status status = HD_E_NOMEM;
  if (t.memory && t.rate)
    status = hd__threads_run(threads, ctx, time_thread, &t);
  else
    hd__fail(ctx, status, "out of memory for timing %zu threads", count);
  if (status == HD_OK)
    hd__threads_set_speeds(threads, t.rate);
  hd__free(t.memory);
  hd__free(t.rate);
  return status;
}
