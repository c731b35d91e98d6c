/* Convolutions alone: calls of the kernels on one thread, hot, in turns.
 *
 * Shapes are given, or those of a model as planned, with the operations fused into them. A call takes as many samples
 * as stay in the second-level cache. Images and weights are random; of the gradient of a max pool half is zero, as
 * after a ReLU, and the other values go to random places of the windows. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "tools/bench/machine_limits.h"
#include "op/op.h"
#include "platform/clock.h"
#include "platform/threads.h"
#include "train/settings/model_source.h"
#include "train/placement/run_plan.h"
#include "tools/tune/scaling.h"

static const double LIVE = 0.5; /* share of a pooled gradient that is not zero */

enum { TURNS = 9, OPERANDS = 8, CALL_BYTES = 512 << 10, MOST_ROWS = 16, SHAPE_BYTES = 256 };

/* One kernel and its arguments. */
typedef struct job {
  hd_op op;
  hd_geom g;
  hd_call call;
  void *operand[OPERANDS];
  int operands;
  double turn[TURNS]; /* seconds a sample */
} job;

typedef struct experiment {
  const hd_kernels *kernels;
  hd_bench_conv_result *out;
  job *jobs; /* one per operation of `out` */
  uint64_t seed;
  double seconds; /* of one job in one turn */
} experiment;

static int64_t slot(int64_t elems, int64_t to) { return (elems + to - 1) / to * to; }

static void *take(job *j, int64_t bytes) {
  void *memory = hd__malloc_aligned((size_t)bytes + 128);
  if (memory)
    memset(memory, 0, (size_t)bytes + 128);
  j->operand[j->operands++] = memory;
  return memory;
}

static uint32_t draw(experiment *e, int64_t i) {
  uint32_t out[4], counter[4] = {(uint32_t)(i / 4), (uint32_t)(i >> 34), 0, 0};
  hd__philox(out, e->seed, counter);
  return out[i % 4];
}

/* Uniform in +-0.5; the share `zeros` of them 0. */
static float *random_floats(experiment *e, job *j, int64_t count, double zeros) {
  float *out = take(j, count * (int64_t)sizeof *out);
  for (int64_t i = 0; out && i < count; i++) {
    double x = draw(e, i) * 0x1p-32;
    out[i] = x < zeros ? 0 : (float)((x - zeros) / (1 - zeros)) - 0.5f;
  }
  e->seed++;
  return out;
}

static uint8_t *random_places(experiment *e, job *j, int64_t count, int below) {
  uint8_t *out = take(j, count);
  for (int64_t i = 0; out && i < count; i++)
    out[i] = (uint8_t)(draw(e, i) % (uint32_t)below);
  e->seed++;
  return out;
}

static hd_status make_call(experiment *e, job *j, hd_ctx *ctx) {
  const hd_geom *g = &j->g;
  const hd_kernels *k = e->kernels;
  int64_t x = slot((int64_t)g->hi * g->wi * g->ci, 16), y = slot((int64_t)g->hp * g->wp * g->co, 16);
  int64_t at = slot(y, 64), w = slot((int64_t)g->window.kh * g->window.kw * (g->ci / g->conv.groups) * g->co, 16),
          b = slot(g->co, 16);
  int64_t n = CALL_BYTES / ((x + y) * (int64_t)sizeof(float));
  n = n < 1 ? 1 : n > MOST_ROWS ? MOST_ROWS : n;
  float *xs = random_floats(e, j, n * x, 0), *ys = random_floats(e, j, n * y, j->op == HD_OP_conv2d ? 0 : 1 - LIVE);
  float *ws = random_floats(e, j, w, 0), *bs = random_floats(e, j, b, 0);
  uint8_t *places = g->conv.pool > 1 ? random_places(e, j, n * at, g->conv.pool * g->conv.pool) : NULL;
  if (j->op == HD_OP_conv2d)
    j->call = (hd_call){.in = {xs, ws, bs}, .out = {ys, places}, .in_stride = {x}, .out_stride = {y, at}};
  else if (j->op == HD_OP_conv2d_dx)
    j->call = (hd_call){.in = {ys, ws, places}, .out = {xs}, .in_stride = {y, 0, at}, .out_stride = {x}};
  else
    j->call = (hd_call){.in = {xs, ys, places}, .out = {ws, bs}, .in_stride = {x, y, at}};
  j->call.g = g;
  j->call.rows = n;
  const int64_t packed = hd_packed_elems(k, j->op, g);
  float *copy = take(j, packed * (int64_t)sizeof *copy);
  if (packed && copy && ws)
    k->pack[j->op](g, ws, copy, 0, g->co);
  j->call.packed = copy;
  j->call.scratch = take(j, hd_scratch_bytes(k, j->op, g));
  for (int i = 0; i < j->operands; i++)
    HD_TRY(HD_ALLOCATED(j->operand[i], ctx, "out of memory for a measurement"));
  return HD_OK;
}

static void describe(experiment *e, const job *j, hd_bench_op *op) {
  const hd_geom *g = &j->g;
  double n = (double)j->call.rows;
  double images = (double)g->hi * g->wi * g->ci + (double)g->hp * g->wp * g->co * (g->conv.pool > 1 ? 1.25 : 1);
  double weights = ((double)g->window.kh * g->window.kw * (g->ci / g->conv.groups) + 1) * g->co;
  double column[TURNS];
  memcpy(column, j->turn, sizeof column);
  op->op = hd__op_info(j->op)->name;
  op->calls = 1;
  op->s = hd__median(column, TURNS).value;
  op->flops = (double)hd__op_flops(j->op, g);
  op->executed_flops = op->flops * hd__bench_executed_share(j->op, g, LIVE, false);
  op->bytes_at_once = (images * n + weights) * sizeof(float);
  op->bytes = op->bytes_at_once / n;
  hd__bench_bound(op, e->out->machine);
}

static void time_jobs(void *arg, int thread) {
  experiment *e = arg;
  for (int t = -1; t < TURNS; t++) /* the first turn warms up */
    for (int i = 0; i < e->out->op_count; i++) {
      job *j = &e->jobs[i];
      int64_t calls = 0;
      double start = hd__clock_s(), spent;
      do {
        e->kernels->run[j->op](&j->call);
        calls++;
        spent = hd__clock_s() - start;
      } while (spent < e->seconds);
      j->turn[t < 0 ? 0 : t] = spent / (double)(calls * j->call.rows);
    }
}

static hd_status make_room(experiment *e, hd_ctx *ctx, int count) {
  e->out->ops = hd__calloc((size_t)count, sizeof *e->out->ops);
  e->jobs = hd__calloc((size_t)count, sizeof *e->jobs);
  return HD_ALLOCATED(e->out->ops && e->jobs, ctx, "out of memory for a measurement");
}

static hd_status add_job(experiment *e, hd_ctx *ctx, const char *name, hd_op op, const hd_geom *g) {
  int i = e->out->op_count++;
  snprintf(e->out->ops[i].name, sizeof e->out->ops[i].name, "%s", name);
  e->jobs[i].op = op;
  e->jobs[i].g = *g;
  return make_call(e, &e->jobs[i], ctx);
}

/* Appends ", stride 2" or ", stride 1x2", unless both are as usual. */
static int pair_text(char *text, size_t bytes, const char *name, const int32_t value[2], int32_t usual) {
  if (value[0] == usual && value[1] == usual)
    return 0;
  return value[0] == value[1] ? snprintf(text, bytes, ", %s %d", name, value[0])
                              : snprintf(text, bytes, ", %s %dx%d", name, value[0], value[1]);
}

/* "32x13x13, 64 of 3x3, pool 2": unusual attributes are appended. */
static void shape_text(char text[SHAPE_BYTES], const hd_bench_conv_shape *s) {
  const size_t bytes = SHAPE_BYTES; /* more than any numbers take */
  int at = snprintf(text, bytes, "%dx%dx%d, %d of %dx%d", s->channels, s->height, s->width, s->out, s->kernel[0],
                    s->kernel[1]);
  at += pair_text(text + at, bytes - (size_t)at, "stride", s->stride, 1);
  at += pair_text(text + at, bytes - (size_t)at, "padding", s->padding, 0);
  if (s->groups > 1)
    at += snprintf(text + at, bytes - (size_t)at, ", groups %d", s->groups);
  if (s->pool > 1)
    snprintf(text + at, bytes - (size_t)at, ", pool %d", s->pool);
}

static bool is_sound(const hd_bench_conv_shape *s) {
  enum { MOST = 4096 };
  const int32_t positive[] = {s->channels,  s->height,    s->width,     s->out,    s->kernel[0],
                              s->kernel[1], s->stride[0], s->stride[1], s->groups, s->pool};
  bool sound = s->padding[0] >= 0 && s->padding[0] <= MOST && s->padding[1] >= 0 && s->padding[1] <= MOST;
  for (size_t i = 0; i < sizeof positive / sizeof *positive; i++)
    sound = sound && positive[i] >= 1 && positive[i] <= MOST;
  return sound && s->channels % s->groups == 0 && s->out % s->groups == 0 && (s->pool == 1 || s->groups == 1) &&
         s->pool <= 16;
}

static hd_status add_shape(experiment *e, hd_ctx *ctx, const hd_bench_conv_shape *s) {
  char name[SHAPE_BYTES];
  hd_geom g = {.ci = s->channels,
               .hi = s->height,
               .wi = s->width,
               .co = s->out,
               .window = {.kh = s->kernel[0],
                          .kw = s->kernel[1],
                          .sh = s->stride[0],
                          .sw = s->stride[1],
                          .ph = s->padding[0],
                          .pw = s->padding[1]},
               .conv = {.groups = s->groups, .pool = s->pool},
               .relu = 1};
  shape_text(name, s);
  if (!is_sound(s) || !hd__geom_finish(&g) || g.hp < 1 || g.wp < 1)
    return hd__fail(ctx, HD_E_SHAPE,
                    "expected a convolution with outputs, of at most 4096 each, groups that divide its channels and no "
                    "pool with groups, found %s; change the shape",
                    name);
  HD_TRY(add_job(e, ctx, name, HD_OP_conv2d, &g));
  HD_TRY(add_job(e, ctx, name, HD_OP_conv2d_dx, &g));
  return add_job(e, ctx, name, HD_OP_conv2d_dw, &g);
}

static bool is_conv(const hd_node *node) {
  return node->op == HD_OP_conv2d || node->op == HD_OP_conv2d_dx || node->op == HD_OP_conv2d_dw;
}

static hd_status add_nodes(experiment *e, hd_ctx *ctx, const hd_graph *graph, const char *model) {
  int count = 0;
  for (int i = 0; i < graph->node_count; i++)
    count += is_conv(&graph->nodes[i]);
  if (count == 0)
    return hd__fail(ctx, HD_E_USAGE, "expected a model with convolutions, found %s; name another one, or shapes",
                    model);
  HD_TRY(make_room(e, ctx, count));
  for (int i = 0; i < graph->node_count; i++)
    if (is_conv(&graph->nodes[i]))
      HD_TRY(add_job(e, ctx, graph->nodes[i].name, graph->nodes[i].op, &graph->nodes[i].geom));
  return HD_OK;
}

/* As planned for training: gradients that are not needed are left out. */
static hd_status add_model(experiment *e, hd_ctx *ctx, const hd_config *config) {
  hd_network network = {0};
  hd_graph *graph;
  hd_plan *plan = NULL;
  hd_plan_settings settings = hd__planned_passes(config, true);
  HD_TRY(hd__network_find(&network, ctx, hd__settings(config)->model));
  hd_status status = hd__network_graph(&graph, ctx, &network);
  HD_THEN(status, hd__plan_create(&plan, ctx, graph, e->kernels, &settings));
  HD_THEN(status, add_nodes(e, ctx, plan->graph, network.name));
  hd__plan_destroy(plan);
  hd__network_fini(&network);
  return status;
}

static hd_status run(experiment *e, hd_ctx *ctx, const hd_config *config, const hd_bench_conv_shape *shapes,
                     int32_t count, double seconds) {
  hd_placement_request request = hd__config_placement(config);
  hd_threads *threads;
  HD_TRY(hd__planned_kernels(&e->kernels, ctx));
  e->seed = (uint64_t)hd__settings(config)->seed;
  if (count == 0)
    HD_TRY(add_model(e, ctx, config));
  else
    HD_TRY(make_room(e, ctx, 3 * count));
  for (int i = 0; i < count; i++)
    HD_TRY(add_shape(e, ctx, &shapes[i]));
  HD_TRY(hd__bench_machine_measure(&e->out->machine, ctx, config));
  e->seconds = seconds / (TURNS + 1) / e->out->op_count;
  request.threads = 1;
  HD_TRY(hd__threads_open(&threads, ctx, &request));
  hd_status status = hd__threads_run(threads, ctx, time_jobs, e);
  hd__threads_destroy(threads);
  for (int i = 0; status == HD_OK && i < e->out->op_count; i++)
    describe(e, &e->jobs[i], &e->out->ops[i]);
  return status;
}

hd_status hd_bench_conv(hd_bench_conv_result **out, hd_ctx *ctx, const hd_config *config,
                        const hd_bench_conv_shape *shapes, int32_t count, double seconds) {
  *out = NULL;
  HD_TRY(hd__bench_check_seconds(ctx, seconds));
  experiment e = {.out = hd__calloc(1, sizeof *e.out)};
  HD_TRY(HD_ALLOCATED(e.out, ctx, "out of memory for a measurement"));
  hd_status status = run(&e, ctx, config, shapes, count, seconds);
  for (int i = 0; e.jobs && i < e.out->op_count; i++)
    for (int o = 0; o < e.jobs[i].operands; o++)
      hd__free(e.jobs[i].operand[o]);
  hd__free(e.jobs);
  *out = e.out;
  return HD_CREATED(status, out, hd_bench_conv_destroy);
}

void hd_bench_conv_destroy(hd_bench_conv_result *result) {
  if (!result)
    return;
  hd__free((void *)result->machine);
  hd__free(result->ops);
  hd__free(result);
}
