/* Teams of threads for measurements: see measured_work.h.
 *
 * They are plain threads and not hd_threads, which are bound and counted for a run. A team starts working when all its
 * threads exist, so that one thread refused by the system ends the measurement without a deadlock. */
#include "tools/doctor/measured_work.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/clock.h"
#include "platform/cpu_set.h"
#include "platform/barrier.h"
#include "platform/thread_start.h"

enum {
  UNIT = 48,
  UNITS_A_STEP = 64
}; /* a product that stays in the first-level cache; a step of about 0.1 ms on one core */

static float *floats(int64_t count) {
  float *p = hd__malloc_aligned((size_t)count * sizeof *p);
  for (int64_t i = 0; p && i < count; i++)
    p[i] = (float)(i % 7) - 3;
  return p;
}

hd_status hd__product_init(hd_product *p, hd_ctx *ctx, const hd_kernels *kernels, int size) {
  int64_t stride = (size + 15) / 16 * 16, elems = stride * (size + 16);
  *p = (hd_product){.kernels = kernels, .size = size, .x = floats(elems), .w = floats(elems), .y = floats(elems)};
  if (!p->x || !p->w || !p->y) {
    hd__product_fini(p);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  }
  p->g = (hd_geom){
      .ci = size, .hi = 1, .wi = 1, .co = size, .ho = 1, .wo = 1, .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1}};
  p->g.conv.groups = p->g.conv.pool = p->g.hp = p->g.wp = 1;
  p->call = (hd_call){.rows = size, .in = {p->x, p->w}, .in_stride = {stride}, .out = {p->y}, .out_stride = {stride}};
  return HD_OK;
}

void hd__product_fini(hd_product *p) {
  hd__free(p->x);
  hd__free(p->w);
  hd__free(p->y);
  *p = (hd_product){0};
}

void hd__product_run(void *product) {
  hd_product *p = product;
  p->call.g = &p->g;
  p->kernels->run[HD_OP_linear](&p->call);
}

double hd__work_gflops(void (*work)(void *self), void *self, double flops) {
  enum { RUNS = 12 };
  const double run_s = 0.004;
  double best = 0;
  work(self);
  for (int run = 0; run < RUNS; run++) {
    double start = hd__clock_thread_s(), spent;
    int calls = 0;
    do {
      work(self);
      calls++;
      spent = hd__clock_thread_s() - start;
    } while (spent < run_s);
    double rate = 1e-9 * flops * calls / spent;
    best = rate > best ? rate : best;
  }
  return best;
}

typedef struct team team;

typedef struct member {
  _Alignas(128) team *of;
  hd_thread thread;
  int index, cpu; /* -1: not bound */
  hd_product product;
  double cpu_s, rate[3]; /* rate: in thirds of the time */
} member;

struct team {
  int count;
  member *member;
  atomic_int start; /* 0: wait, 1: start, -1: return */
  double seconds, start_s;
  void (*work)(member *m);
  hd_barrier barrier;
  hd_barrier_line *line;
  int64_t steps;
};

static void *run_member(void *arg) {
  member *m = arg;
  hd_cpu_set set;
  hd__cpu_set_one(&set, m->cpu);
  if (m->cpu >= 0)
    hd__cpu_set_bind(&set);
  int start;
  while (!(start = atomic_load(&m->of->start)))
    sched_yield();
  if (start > 0)
    m->of->work(m);
  return NULL;
}

static hd_status prepare(team *t, hd_ctx *ctx, const hd_kernels *kernels, int count) {
  t->count = count;
  t->member = hd__malloc_aligned((size_t)count * sizeof *t->member);
  t->line = hd__malloc_aligned((size_t)HD_BARRIER_LINES(count) * sizeof *t->line);
  HD_TRY(HD_ALLOCATED(t->member && t->line, ctx, "out of memory for a measurement"));
  memset(t->member, 0, (size_t)count * sizeof *t->member);
  memset(t->line, 0, (size_t)HD_BARRIER_LINES(count) * sizeof *t->line);
  for (int i = 0; i < count; i++) {
    t->member[i].of = t;
    t->member[i].index = i;
    t->member[i].cpu = -1;
    HD_TRY(hd__product_init(&t->member[i].product, ctx, kernels, UNIT));
  }
  return HD_OK;
}

static void fini(team *t) {
  for (int i = 0; t->member && i < t->count; i++)
    hd__product_fini(&t->member[i].product);
  hd__free(t->member);
  hd__free(t->line);
}

/* Starts all members, lets them work, joins them. */
static hd_status run(team *t, hd_ctx *ctx) {
  int started = 0;
  while (started < t->count && !hd__thread_start(&t->member[started].thread, run_member, &t->member[started]))
    started++;
  t->start_s = hd__clock_s();
  atomic_store(&t->start, started == t->count ? 1 : -1);
  for (int i = 0; i < started; i++)
    hd__thread_join(&t->member[i].thread);
  if (started == t->count)
    return HD_OK;
  return hd__fail(ctx, HD_E_SYSTEM, "expected %d threads for a measurement, found %d; raise the limit on processes",
                  t->count, started);
}

/* Does a thread's share of every step, until the first thread sets the end flag. */
static void work_in_steps(member *m) {
  team *t = m->of;
  int first = UNITS_A_STEP * m->index / t->count, end = UNITS_A_STEP * (m->index + 1) / t->count;
  uint32_t over;
  double begin = hd__clock_thread_s();
  do {
    for (int i = first; i < end; i++)
      hd__product_run(&m->product);
    over = m->index == 0 && hd__clock_s() - t->start_s >= t->seconds;
    t->steps += m->index == 0;
    over = hd__barrier_wait(&t->barrier, m->index, over);
  } while (!over);
  m->cpu_s = hd__clock_thread_s() - begin;
}

hd_status hd__work_steps(hd_pace *out, hd_ctx *ctx, const hd_kernels *kernels, int threads, int cpus, double seconds) {
  team t = {.seconds = seconds, .work = work_in_steps};
  hd_status status = prepare(&t, ctx, kernels, threads);
  if (status == HD_OK) {
    hd__barrier_init(&t.barrier, t.line, threads, threads > cpus);
    status = run(&t, ctx);
    double cpu_s = 0, wall_s = hd__clock_s() - t.start_s;
    for (int i = 0; i < threads; i++)
      cpu_s += t.member[i].cpu_s;
    *out = (hd_pace){.wall = (double)t.steps / wall_s, .cpu = cpu_s > 0 ? (double)t.steps / cpu_s : 0};
  }
  fini(&t);
  return status;
}

/* Runs products for the given time; the rates of its thirds. */
static void work_alone(member *m) {
  double begin = hd__clock_thread_s(), mark = begin;
  for (int third = 0; third < 3; third++) {
    int64_t products = 0;
    while (hd__clock_s() - m->of->start_s < m->of->seconds * (third + 1) / 3) {
      hd__product_run(&m->product);
      products++;
    }
    double now = hd__clock_thread_s();
    m->rate[third] = now > mark ? (double)products / (now - mark) : 0;
    mark = now;
  }
  m->cpu_s = mark - begin;
}

hd_status hd__work_effort(hd_effort *out, hd_ctx *ctx, const hd_kernels *kernels, int threads, double seconds) {
  team t = {.seconds = seconds, .work = work_alone};
  hd_status status = prepare(&t, ctx, kernels, threads);
  HD_THEN(status, run(&t, ctx));
  *out = (hd_effort){.threads = threads, .wall_s = hd__clock_s() - t.start_s};
  for (int i = 0; status == HD_OK && i < threads; i++) {
    const member *m = &t.member[i];
    out->cpu_s += m->cpu_s;
    if (m->rate[0] > 0 && m->rate[2] > 0) { /* other programs may keep a thread from running for a while */
      out->early += m->rate[0] / threads;
      out->late += m->rate[2] / threads;
    }
  }
  fini(&t);
  return status;
}

hd_status hd__work_beside(double *out, hd_ctx *ctx, const hd_kernels *kernels, int a, int b, double seconds) {
  team t = {.seconds = seconds, .work = work_alone};
  hd_status status = prepare(&t, ctx, kernels, b < 0 ? 1 : 2);
  if (status == HD_OK) {
    t.member[0].cpu = a;
    if (b >= 0)
      t.member[1].cpu = b;
    status = run(&t, ctx);
    *out = 0;
    for (int third = 0; third < 3; third++)
      *out = t.member[0].rate[third] > *out ? t.member[0].rate[third] : *out;
  }
  fini(&t);
  return status;
}
