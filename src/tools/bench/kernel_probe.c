/* The kernel table of a probe: see kernel_probe.h. */
#include "tools/bench/kernel_probe.h"

#include "base/alloc.h"
#include "graph/graph.h"
#include "platform/clock.h"

static _Thread_local hd_probe *here;

static void add_since(hd_probe_sum *sum, double start_s) {
  double spent = hd__clock_s() - start_s - here->tick_s;
  sum->s += spent > 0 ? spent : 0;
  sum->calls++;
}

/* A call of the inner table, whose time is added to a sum. */
#define TIMED(sum, call)                                                                                               \
  do {                                                                                                                 \
    const double start_s = hd__clock_s();                                                                              \
    call;                                                                                                              \
    add_since(sum, start_s);                                                                                           \
  } while (0)

static int node_of(const hd_geom *g) {
  return (int)((const hd_node *)(const void *)((const char *)g - offsetof(hd_node, geom)) - here->plan->graph->nodes);
}

/* The share of input `slot` that is not zero: rows of `elems`. */
static double live_share(const hd_call *call, int slot, int64_t elems) {
  const float *x = call->in[slot];
  int64_t live = 0;
  for (int64_t r = 0; r < call->rows; r++)
    for (int64_t i = 0; i < elems; i++)
      live += x[r * call->in_stride[slot] + i] != 0;
  return (double)live / (double)(elems * call->rows);
}

/* The share of the products that a kernel must compute: that of the nonzero elements of a pooled gradient, in[0] of
 * conv2d_dx and in[1] of conv2d_dw, and of samples. */
static double live_products(const hd_call *call, hd_op op) {
  const hd_geom *g = call->g;
  if ((op == HD_OP_conv2d_dx || op == HD_OP_conv2d_dw) && g->conv.pool > 1)
    return live_share(call, op == HD_OP_conv2d_dw, (int64_t)g->hp * g->wp * g->co);
  return op == HD_OP_shifted_linear ? live_share(call, 0, g->ci) : 1;
}

static void count(hd_probe_sum *sum, const hd_call *call, hd_op op) {
  sum->live_rows += live_products(call, op) * (double)call->rows;
  sum->rows += (double)call->rows;
}

static void run(const hd_call *call) {
  hd_probe *p = here;
  int index = node_of(call->g);
  hd_op op = p->plan->graph->nodes[index].op;
  hd_probe_sum *sum = &p->node[index];
  if (p->counting)
    count(sum, call, op);
  TIMED(sum, hd_kernels_for(p->inner, op, call->g)->run[op](call));
}

static void run_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  int index = node_of(call->g);
  hd_op op = here->plan->graph->nodes[index].op;
  hd_probe_sum *sum = &here->node[index];
  if (here->counting)
    count(sum, call, op);
  TIMED(sum, here->inner->run_outputs[op](call, j0, j1));
}

static void form(const hd_form *f) {
  int index = node_of(f->g);
  const hd_op op = here->plan->graph->nodes[index].op;
  TIMED(&here->node[index], hd_form_for(here->inner, op, f->g)(f));
}

static int update(const hd_update *u) {
  int arrays = 3, bad;
  for (int s = 0; s < HD_MAX_STATES; s++)
    arrays += u->s[s] ? 2 : 0;
  TIMED(&here->updates, bad = here->inner->update[u->hyper->op](u));
  here->updates.bytes += (double)(u->count * arrays) * sizeof *u->g;
  return bad;
}

static void reduce(float *out, const float *const *sums, const hd_reduction *f, int64_t count) {
  TIMED(&here->reductions, here->inner->reduce(out, sums, f, count));
  here->reductions.bytes += (double)(count * (f->count + 1)) * sizeof *out;
}

/* A kernel of samples of one type. */
#define GATHER(name, type, inner_name)                                                                                 \
  static void name(float *out, const type *pixels, int64_t plane, int32_t channels, const float *scale,                \
                   const float *shift) {                                                                               \
    TIMED(&here->gathers, here->inner->inner_name(out, pixels, plane, channels, scale, shift));                        \
    here->gathers.bytes += (double)(plane * channels) * (sizeof *out + sizeof *pixels);                                \
  }

GATHER(gather, uint8_t, gather_u8)
GATHER(gather_floats, float, gather_f32)

static void pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const hd_plan_packed *copy = (const hd_plan_packed *)(const void *)((const char *)g - offsetof(hd_plan_packed, geom));
  TIMED(&here->packs, hd_kernels_for(here->inner, copy->op, g)->pack[copy->op](g, w, packed, j0, j1));
  here->packs.bytes += 8.0 * (double)copy->elems * (j1 - j0) / (g->window.transposed ? g->ci : g->co);
}

static double shortest_tick(void) {
  double least = 1;
  for (int i = 0; i < 1000; i++) {
    double start = hd__clock_s(), spent = hd__clock_s() - start;
    least = spent < least ? spent : least;
  }
  return least;
}

hd_status hd__probe_init(hd_probe *p, hd_ctx *ctx, const hd_plan *plan) {
  *p = (hd_probe){.plan = plan, .inner = plan->kernels, .tick_s = shortest_tick()};
  HD_TRY(HD_NEW(p->node, plan->graph->node_count, ctx, "out of memory for a measurement"));
  p->table = *p->inner;
  for (int i = 0; i < HD_OP_COUNT; i++) {
    p->table.supports[i] = NULL;
    p->table.run[i] = p->inner->run[i] ? run : NULL;
    p->table.run_outputs[i] = p->inner->run_outputs[i] ? run_outputs : NULL;
    p->table.form[i] = p->inner->form[i] ? form : NULL;
    p->table.update[i] = p->inner->update[i] ? update : NULL;
    p->table.pack[i] = p->inner->pack[i] ? pack : NULL;
  }
  p->table.reduce = reduce;
  p->table.gather_u8 = gather;
  p->table.gather_f32 = gather_floats;
  return HD_OK;
}

void hd__probe_fini(hd_probe *p) {
  hd__free(p->node);
  *p = (hd_probe){0};
}

void hd__probe_enter(hd_probe *p) { here = p; }
void hd__probe_leave(void) { here = NULL; }

static void restart(hd_probe_sum *sum) {
  sum->s = sum->bytes = 0;
  sum->calls = 0;
}

void hd__probe_restart(hd_probe *p) {
  for (int i = 0; i < p->plan->graph->node_count; i++)
    restart(&p->node[i]);
  restart(&p->updates);
  restart(&p->reductions);
  restart(&p->gathers);
  restart(&p->packs);
}
