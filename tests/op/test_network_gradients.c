/* Whole networks' gradients against central differences, in double: what the gradient rules, the fusions and the
 * planned memory make together.
 *
 * A model is planned for the double reference table and its calls are run where the plan put every value: the arena at
 * twice its bytes, since a float of the plan is a double here. Each element of each parameter is moved; the difference
 * of the mean loss must be the gradient that the plan's calls leave. The arena starts as NaN before each run: a value
 * that is read before it is written, or after another one took its place, shows. Some networks have what a pass looks
 * for; the others are drawn from the table of operations, every one of which must occur. */
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "graph/model.h"
#include "op/op.h"
#include "op/kernel_case.h"
#include "op/kinks.h"
#include "plan/plan.h"
#include "tap.h"

static const double STEP = 0x1p-20;
static const double TOLERANCE = 1e-6; /* relative to the larger of both values */
static const double ROUNDING = 5e-9;  /* of a loss near 1, over twice the step */
static const double CLEAR = 1e-3;     /* how near a kink an activation may lie: some thousand steps */
enum { ROWS = 3, DIRECTIONS = 3, MAX_DRAWS = 400 };
enum { DRAWN = 500, MOST_LAYERS = 12, MOST_ELEMS = 40 }; /* networks, the layers of one, the elements of a value */

static const struct {
  const char *title, *text;
} models[] = {
    {"a wide layer that adds the shift of samples",
     "model: w\ninput: [1, 3, 5]\nlayers:\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 65}\n  - s: {op: tanh}\n  - m: {op: linear, out: 3}\n"},
    {"convolution, ReLU, pool, flatten, two linear layers",
     "model: a\ninput: [2, 7, 6]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 3, padding: 1}\n  - r: {op: relu}\n  - p: {op: max_pool2d, kernel: 2}\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 5}\n  - s: {op: relu}\n  - m: {op: linear, out: 4}\n"},
    {"pool before ReLU, strides, no bias",
     "model: b\ninput: [1, 11, 10]\nlayers:\n"
     "  - c: {op: conv2d, out: 2, kernel: [2, 3], stride: [1, 2], bias: false}\n  - p: {op: max_pool2d, kernel: 2}\n"
     "  - r: {op: relu}\n  - d: {op: conv2d, out: 3, kernel: 2, padding: 1}\n  - f: {op: flatten}\n"
     "  - l: {op: linear, out: 3, bias: false}\n"},
    {"a residual branch, a separate ReLU and an overlapping pool",
     "model: c\ninput: [1, 5, 5]\nlayers:\n"
     "  - c: {op: conv2d, out: 2, kernel: 3, padding: 1}\n  - d: {op: conv2d, out: 2, kernel: 3, padding: 1}\n"
     "  - a: {op: add, from: [d, c]}\n  - r: {op: relu}\n"
     "  - p: {op: max_pool2d, kernel: 3, stride: 2, padding: 1}\n  - f: {op: flatten}\n  - l: {op: linear, out: 3}\n"},
    {"one value read three times, once twice by one layer",
     "model: d\ninput: [2, 4, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 2, kernel: 1}\n  - r: {op: relu, from: c}\n  - t: {op: add, from: [c, c]}\n"
     "  - a: {op: add, from: [t, r]}\n  - b: {op: add, from: [a, c]}\n  - f: {op: flatten}\n"
     "  - l: {op: linear, out: 2}\n"},
    {"branches joined after flatten, each with a use of the sample",
     "model: e\ninput: [1, 4, 3]\nlayers:\n"
     "  - f: {op: flatten}\n  - u: {op: linear, out: 6}\n  - v: {op: linear, out: 6, from: f}\n  - w: {op: relu, from: "
     "v}\n"
     "  - a: {op: add, from: [u, w]}\n  - b: {op: relu}\n  - c: {op: add, from: [b, v]}\n  - l: {op: linear, out: "
     "3}\n"},
    {"scores that lie in memory as an image",
     "model: f\ninput: [3, 4, 5]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 2}\n  - r: {op: relu}\n  - d: {op: conv2d, out: 2, kernel: 2}\n"
     "  - f: {op: flatten}\n"},
    {"a flattened image through ReLU and add",
     "model: g\ninput: [1, 4, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 3}\n  - f: {op: flatten}\n  - r: {op: relu}\n  - a: {op: add, from: [r, f]}\n"
     "  - l: {op: linear, out: 4}\n"},
    {"a pool upon a pool, a ReLU upon a ReLU",
     "model: h\ninput: [1, 9, 9]\nlayers:\n"
     "  - c: {op: conv2d, out: 2, kernel: 2}\n  - p: {op: max_pool2d, kernel: 2}\n"
     "  - q: {op: max_pool2d, kernel: 2}\n  - d: {op: conv2d, out: 2, kernel: 2}\n  - r: {op: relu}\n"
     "  - s: {op: relu}\n  - f: {op: flatten}\n"},
    {"groups of channels, a depthwise one and a pool behind it",
     "model: k\ninput: [2, 7, 6]\nlayers:\n"
     "  - c: {op: conv2d, out: 4, kernel: 3, padding: 1, groups: 2}\n  - r: {op: relu}\n"
     "  - d: {op: conv2d, out: 4, kernel: 3, stride: [1, 2], padding: 1, groups: 4, bias: false}\n"
     "  - p: {op: max_pool2d, kernel: 2}\n  - e: {op: conv2d, out: 8, kernel: 1, groups: 4}\n  - f: {op: flatten}\n"
     "  - l: {op: linear, out: 3}\n"},
    {"parts put together: of images, of flattened ones, of flat values",
     "model: s\ninput: [1, 5, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 2}\n  - d: {op: conv2d, out: 2, kernel: 2, from: input}\n"
     "  - j: {op: concat, from: [c, d, c]}\n  - f: {op: flatten, from: d}\n  - g: {op: flatten, from: j}\n"
     "  - k: {op: concat, from: [g, f]}\n  - l: {op: linear, out: 5}\n  - m: {op: linear, out: 4, from: k}\n"
     "  - n: {op: concat, from: [l, m]}\n  - o: {op: linear, out: 3}\n"},
    {"gates: a number for each channel, for each pixel, for all; a quotient, differences",
     "model: g\ninput: [2, 3, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 1}\n  - m: {op: global_avg_pool2d}\n  - g: {op: sigmoid}\n"
     "  - x: {op: mul, from: [c, g]}\n  - p: {op: conv2d, out: 1, kernel: 1}\n  - q: {op: sigmoid}\n"
     "  - y: {op: div, from: [x, q]}\n  - z: {op: sub, from: [g, y]}\n  - o: {op: global_avg_pool2d, from: p}\n"
     "  - d: {op: sub, from: [z, o]}\n  - e: {op: mul, from: [q, d]}\n  - f: {op: flatten}\n"
     "  - l: {op: linear, out: 2}\n  - s: {op: linear, out: 1, from: f}\n  - h: {op: sigmoid}\n"
     "  - r: {op: div, from: [l, h]}\n"},
    {"pools that do not fuse: strides, padding, sides",
     "model: i\ninput: [1, 7, 7]\nlayers:\n"
     "  - c: {op: conv2d, out: 2, kernel: 2}\n  - p: {op: max_pool2d, kernel: 2, stride: 1}\n"
     "  - d: {op: conv2d, out: 2, kernel: 2}\n  - q: {op: max_pool2d, kernel: 2, padding: 1}\n"
     "  - e: {op: conv2d, out: 3, kernel: 1}\n  - s: {op: max_pool2d, kernel: [3, 1]}\n  - f: {op: flatten}\n"},
    {"three heads with a loss each, two of one layer",
     "model: heads\ninput: [1, 3, 4]\nlayers:\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 7}\n  - t: {op: tanh}\n  - near: {op: linear, out: 2}\n"
     "  - far: {op: linear, out: 3, from: t}\n  - flag: {op: linear, out: 1, from: l}\n"
     "loss:\n  - near: {op: huber, delta: 0.5, loss_weight: 0.25}\n  - far: mse\n"
     "  - flag: {op: bce_with_logits, loss_weight: 2}\n"},
    {"layers that share their weights, of two strides and in a chain",
     "model: l\ninput: [1, 8, 8]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 3}\n  - r: {op: relu}\n  - d: {op: conv2d, out: 3, kernel: 3, padding: 1}\n"
     "  - e: {op: conv2d, out: 3, kernel: 3, stride: 2, share: d}\n  - f: {op: flatten}\n  - l: {op: linear, out: 5}\n"
     "  - m: {op: linear, out: 5}\n  - s: {op: relu}\n  - n: {op: linear, out: 5, share: m}\n"
     "  - o: {op: linear, out: 5, share: n}\n"},
    {"batch norm in a residual network, and of flat values",
     "model: j\ninput: [1, 6, 6]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 3, bias: false}\n  - n: {op: batch_norm}\n  - r: {op: relu}\n"
     "  - d: {op: conv2d, out: 3, kernel: 3, padding: 1}\n  - m: {op: batch_norm, eps: 0.01, momentum: 0.5}\n"
     "  - a: {op: add, from: [m, r]}\n  - s: {op: relu}\n  - f: {op: flatten}\n  - l: {op: linear, out: 5}\n"
     "  - b: {op: batch_norm, eps: 0.1}\n  - t: {op: relu}\n  - k: {op: linear, out: 3}\n"},
    {"text: an embedding, positions, attention of the places before, scores of each place by the embedding's weight",
     "model: t\ninput: [5]\nlayers:\n"
     "  - e: {op: embedding, tokens: 4, out: 4}\n  - p: {op: position}\n  - q: {op: linear, out: 12, bias: false}\n"
     "  - a: {op: attention, heads: 2}\n  - o: {op: linear, out: 4}\n  - s: {op: add, from: [o, p]}\n"
     "  - h: {op: linear, out: 4, bias: false, share: e}\n"},
    {"attention whose heads share keys, of all places",
     "model: u\ninput: [1, 2, 3]\nlayers:\n"
     "  - c: {op: conv2d, out: 8, kernel: 1}\n  - a: {op: attention, heads: 2, key_heads: 1, causal: false}\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 3}\n"},
    {"rotary positions, attention that drops weights, a gated layer",
     "model: v\ninput: [5]\nlayers:\n"
     "  - e: {op: embedding, tokens: 4, out: 4}\n  - n: {op: rms_norm}\n  - q: {op: linear, out: 16}\n"
     "  - r: {op: rotary, heads: 2, key_heads: 1, base: 3}\n"
     "  - a: {op: attention, heads: 2, key_heads: 1, dropout: 0.3}\n  - o: {op: linear, out: 4}\n"
     "  - s: {op: add, from: [o, e]}\n  - g: {op: linear, out: 3, from: s}\n  - w: {op: swish}\n"
     "  - u: {op: linear, out: 3, from: s}\n  - m: {op: mul, from: [w, u]}\n  - h: {op: linear, out: 4}\n"},
    {"recurrent layers of a text, one over the other",
     "model: r\ninput: [4]\nlayers:\n"
     "  - e: {op: embedding, tokens: 4, out: 3}\n  - l: {op: lstm, hidden_size: 2, num_layers: 2}\n"
     "  - g: {op: gru, hidden_size: 3}\n  - b: {op: gru, hidden_size: 3, bias: false}\n"
     "  - s: {op: add, from: [g, b]}\n  - h: {op: linear, out: 4}\n"},
    {"recurrent layers of a signal, of a single place",
     "model: w\ninput: [2, 1, 3]\nlayers:\n"
     "  - l: {op: lstm, hidden_size: 2, bias: false}\n  - p: {op: max, over: pixels}\n"
     "  - g: {op: gru, hidden_size: 2}\n  - f: {op: flatten}\n  - o: {op: linear, out: 3}\n"},
    {"batch norm by shards, behind one of the batch",
     "model: n\ninput: [1, 5, 5]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 3, bias: false}\n  - n: {op: batch_norm}\n  - r: {op: relu}\n"
     "  - d: {op: conv2d, out: 3, kernel: 3, padding: 1}\n  - m: {op: batch_norm, eps: 0.01, stats: shard}\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 4}\n"},
};

static bool occurs[HD_OP_COUNT];

/* A plan's memory, in double. */
typedef struct network {
  hd_plan *plan;
  double *arena, *batch, *params, *direct, *gathered, *x, *scratch;
  int64_t arena_elems, batch_elems, x_elems;
  double losses[ROWS];
  void *target;   /* of the rows: int32_t labels or doubles */
  double *weight; /* of the loss, NULL for none */
  double divisor;
  double nearest_kink; /* of the calls of the last run, if watched */
} network;

static double *doubles(int64_t count) {
  double *memory = calloc((size_t)count + 1, sizeof *memory);
  if (!memory)
    bail_out("out of memory");
  return memory;
}

static const double SHIFT = -0.375; /* of samples, where a plan adds it */

/* Whether samples have weights: in every other network whose targets are numbers. */
static bool weighs;

static hd_graph *graph_of(const char *text) {
  hd_ctx *ctx;
  hd_graph *graph;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  if (hd__model_parse(&graph, NULL, ctx, text, strlen(text), "model") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_ctx_destroy(ctx);
  if (weighs && graph->values[graph->label].dtype == HD_F32)
    hd__graph_weigh_samples(graph);
  return graph;
}

static hd_plan *plan_of(const char *text) {
  hd_plan *plan;
  if (hd__plan_create(&plan, NULL, graph_of(text), hd__kernels_reference_f64(),
                      &(hd_plan_settings){.train = true, .may_shift = true, .shift = (float)SHIFT}) != HD_OK)
    bail_out("no plan");
  return plan;
}

/* The loss's weights as doubles. */
static double *weights_of(const hd_graph *graph) {
  int value = hd__graph_loss_node(graph)->in[2];
  if (value < 0)
    return NULL;
  int64_t count = hd__shape_elems(&graph->values[value].shape);
  double *weight = doubles(count);
  for (int64_t i = 0; i < count; i++)
    weight[i] = graph->values[value].constant[i];
  return weight;
}

/* An offset of the plan is in bytes of floats per sample: a quarter of it counts elements. */
static void network_create(network *n, const char *text) {
  *n = (network){.plan = plan_of(text)};
  const hd_plan *plan = n->plan;
  n->arena_elems = plan->size.arena_bytes / 4 * ROWS;
  n->batch_elems = plan->size.batch_bytes / 4 * ROWS;
  n->x_elems = hd__shape_elems(&plan->graph->values[plan->graph->input].shape);
  n->arena = doubles(n->arena_elems);
  n->batch = doubles(n->batch_elems);
  n->params = doubles(plan->size.param_elems);
  n->direct = doubles(plan->size.direct_elems);
  n->gathered = doubles(plan->size.gathered_elems);
  n->scratch = doubles(plan->size.scratch_bytes / 8);
  n->x = doubles(n->x_elems * ROWS);
  n->target = doubles(hd__value_stride(&plan->graph->values[plan->graph->label]) * ROWS);
  n->weight = weights_of(plan->graph);
}

static void network_destroy(network *n) {
  free(n->arena);
  free(n->batch);
  free(n->params);
  free(n->direct);
  free(n->gathered);
  free(n->scratch);
  free(n->x);
  free(n->target);
  free(n->weight);
  hd__plan_destroy(n->plan);
}

/* The plan's offsets are of floats. There is one shard: its sums are the batch's. */
static void *resolve(network *n, const hd_place *place) {
  const int64_t size = sizeof(double);
  const hd_origin origin[HD_WHERES] = {[HD_AT_ARENA] = {n->arena, .scale = size / 4 * ROWS},
                                       [HD_AT_BATCH] = {n->batch, .scale = size / 4 * ROWS},
                                       [HD_AT_LABELS] = {.base = n->target},
                                       [HD_AT_LOSSES] = {.base = n->losses},
                                       [HD_AT_PARAM] = {n->params, .scale = size},
                                       [HD_AT_CONST] = {n->weight, .scale = size},
                                       [HD_AT_DIRECT] = {n->direct, .scale = size},
                                       [HD_AT_GATHERED] = {n->gathered, .scale = size}};
  return hd__place_at(place, origin);
}

static void run_call(network *n, const hd_plan_call *planned, bool watch) {
  const hd_geom *g = planned->geom;
  hd_call call = {.g = g,
                  .rows = ROWS,
                  .divisor = (float)n->divisor,
                  .batch_rows = ROWS,
                  .scratch = n->scratch,
                  .draw = {.seed = 3, .node = planned->written}};
  for (int i = 0; i < HD_MAX_IN; i++) {
    call.in[i] = resolve(n, &planned->in[i]);
    call.in_stride[i] = planned->in[i].stride;
  }
  for (int i = 0; i < HD_MAX_OUT; i++) {
    call.out[i] = resolve(n, &planned->out[i]);
    call.out_stride[i] = planned->out[i].stride;
  }
  if (watch)
    n->nearest_kink = fmin(n->nearest_kink, kink_distance(planned->op, &call));
  planned->run(&call);
  if (planned->class == HD_CLASS_STATS) /* after all rows */
    for (int c = 0; c < g->ci; c++)
      ((double *)call.out[1])[c] /= (double)(ROWS * g->hi * g->wi);
  for (const hd_place *out = planned->out; out < planned->out + HD_MAX_OUT && planned->gathered; out++)
    for (int64_t i = 0; out->where == HD_AT_DIRECT && i < out->elems; i++)
      n->gathered[out->gathered + i] = n->direct[out->offset + i];
}

/* Forward and backward for all rows as one shard; returns the mean loss. */
static double network_run(network *n, bool watch) {
  n->nearest_kink = HUGE_VAL;
  for (int64_t i = 0; i < n->arena_elems; i++)
    n->arena[i] = NAN;
  for (int64_t i = 0; i < n->batch_elems; i++)
    n->batch[i] = NAN;
  double *x = resolve(n, &n->plan->io.input);
  for (int64_t i = 0; i < n->x_elems * ROWS; i++)
    x[i / n->x_elems * n->plan->io.input.stride + i % n->x_elems] = n->x[i];
  for (int i = 0; i < n->plan->call_count; i++)
    run_call(n, &n->plan->calls[i], watch);
  double sum = 0;
  for (int r = 0; r < ROWS; r++)
    sum += n->losses[r];
  return sum / n->divisor;
}

/* Labels, or numbers from 0 to 1; and a divisor, which the driver of a run chooses. */
static void draw_targets(network *n, random_stream *random) {
  const hd_value *label = &n->plan->graph->values[n->plan->graph->label];
  int32_t scores = n->plan->graph->values[n->plan->graph->logits].shape.dim[0];
  n->divisor = label->dtype == HD_I32 ? ROWS * hd__shape_elems(&label->shape) : ROWS * scores;
  for (int64_t i = 0; i < ROWS * hd__value_stride(label); i++)
    if (label->dtype == HD_I32)
      ((int32_t *)n->target)[i] = (int32_t)random_below(random, (uint32_t)scores);
    else
      ((double *)n->target)[i] = (1 + random_float(random)) / 2;
}

/* Samples of an embedding. */
static void draw_numbers(network *n, random_stream *random) {
  const hd_node *first = &n->plan->graph->nodes[0];
  for (int64_t i = 0; i < n->x_elems * ROWS && hd__op_info(first->op)->rule->numbers; i++)
    n->x[i] = random_below(random, (uint32_t)first->geom.embedding.tokens);
}

/* Samples, targets and parameters, drawn until no activation lies near a kink; returns whether one such was found. */
static bool draw_network(network *n, uint32_t seed) {
  for (uint32_t draw = 0; draw < MAX_DRAWS; draw++) {
    random_stream random = {.seed = seed + 1000 * draw};
    for (int64_t i = 0; i < n->x_elems * ROWS; i++)
      n->x[i] = random_float(&random);
    draw_numbers(n, &random);
    for (int64_t i = 0; i < n->plan->size.param_elems; i++)
      n->params[i] = random_float(&random);
    draw_targets(n, &random);
    network_run(n, true);
    if (n->nearest_kink > CLEAR)
      return true;
  }
  return false;
}

static bool agrees(double found, double expected) {
  double larger = fmax(fabs(found), fabs(expected));
  return fabs(found - expected) <= TOLERANCE * larger + ROUNDING * fmax(1, larger);
}

static bool judge(const char *what, int64_t at, double found, double expected) {
  if (agrees(found, expected))
    return true;
  diag("%s at %lld: plan %.12g, differences %.12g", what, (long long)at, found, expected);
  return false;
}

/* Adds up the gradients of a parameter's uses. */
static void take_gradient(double *sum, const network *n, int param) {
  const hd_plan_param *way = &n->plan->params[param];
  for (int u = way->first_use; u < way->first_use + way->uses; u++)
    for (int64_t i = 0; i < hd__param_elems(&n->plan->graph->params[param]); i++)
      sum[i] += n->direct[n->plan->update.uses[u].direct + i];
}

/* Every element of one parameter; `grad` is a copy of its gradient. Returns how many are wrong. */
static int check_elements(network *n, int param, const double *grad) {
  const hd_param *info = &n->plan->graph->params[param];
  double *w = n->params + n->plan->params[param].offset;
  int wrong = 0;
  for (int64_t i = 0; i < hd__param_elems(info); i++) {
    double was = w[i];
    w[i] = was + STEP;
    double ahead = network_run(n, false);
    w[i] = was - STEP;
    double behind = network_run(n, false);
    w[i] = was;
    wrong += !judge(n->plan->graph->values[info->value].name, i, grad[i], (ahead - behind) / (2 * STEP));
  }
  return wrong;
}

/* All parameters at once along random directions. `grad` lies as the parameters do. */
static int check_directions(network *n, const double *grad, uint32_t seed) {
  int64_t count = n->plan->size.param_elems;
  double *was = doubles(count), *direction = doubles(count);
  random_stream random = {.seed = seed};
  int wrong = 0;
  memcpy(was, n->params, (size_t)count * sizeof *was);
  for (int d = 0; d < DIRECTIONS; d++) {
    double slope = 0, loss[2];
    for (int64_t i = 0; i < count; i++) {
      direction[i] = random_float(&random);
      slope += direction[i] * grad[i];
    }
    for (int side = 0; side < 2; side++) {
      for (int64_t i = 0; i < count; i++)
        n->params[i] = was[i] + (side ? -STEP : STEP) * direction[i];
      loss[side] = network_run(n, false);
    }
    wrong += !judge("slope along a direction", d, slope, (loss[0] - loss[1]) / (2 * STEP));
  }
  memcpy(n->params, was, (size_t)count * sizeof *was);
  free(was);
  free(direction);
  return wrong;
}

/* The mean loss of the graph as written: no passes, a buffer for each value. */
static double loss_as_written(network *n, const char *text) {
  hd_graph *graph = graph_of(text);
  void **at = calloc((size_t)graph->value_count, sizeof *at);
  for (int v = 0; v < graph->value_count; v++)
    at[v] = doubles(hd__value_stride(&graph->values[v]) * ROWS);
  for (int64_t i = 0; i < n->x_elems * ROWS; i++)
    ((double *)at[graph->input])[i / n->x_elems * hd__value_stride(&graph->values[graph->input]) + i % n->x_elems] =
        n->x[i] + (n->plan->shifts ? SHIFT : 0);
  const hd_value *label = &graph->values[graph->label];
  memcpy(at[graph->label], n->target,
         (size_t)(hd__value_stride(label) * ROWS) * (label->dtype == HD_I32 ? sizeof(int32_t) : sizeof(double)));
  if (n->weight)
    memcpy(at[hd__graph_loss_node(graph)->in[2]], n->weight,
           (size_t)hd__shape_elems(&graph->values[graph->logits].shape) * sizeof(double));
  for (int p = 0; p < graph->param_count; p++) { /* the batch's statistics stand in for the running ones */
    const hd_param *param = &n->plan->graph->params[p];
    memcpy(at[graph->params[p].value],
           param->running ? resolve(n, &n->plan->place[param->statistic]) : n->params + n->plan->params[p].offset,
           (size_t)hd__param_elems(&graph->params[p]) * sizeof(double));
  }
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    hd_call call = {.g = &node->geom,
                    .rows = ROWS,
                    .divisor = (float)n->divisor,
                    .batch_rows = ROWS,
                    .draw = {.seed = 3, .node = (uint32_t)node->written}};
    for (int k = 0; k < HD_MAX_IN; k++)
      if (node->in[k] >= 0) {
        call.in[k] = at[node->in[k]];
        call.in_stride[k] = hd__value_stride(&graph->values[node->in[k]]);
      }
    for (int k = 0; k < HD_MAX_OUT; k++)
      if (node->out[k] >= 0) {
        call.out[k] = at[node->out[k]];
        call.out_stride[k] = hd__value_stride(&graph->values[node->out[k]]);
      }
    if (node->view)
      memcpy(call.out[0], call.in[0], (size_t)(call.out_stride[0] * ROWS) * sizeof(double));
    else
      hd__kernels_reference_f64()->run[node->op](&call);
  }
  double sum = 0;
  const int64_t unused = hd__value_stride(label) - hd__shape_elems(&label->shape) + 1; /* behind the weight, and it */
  for (int r = 0; r < ROWS; r++)
    sum += ((const double *)at[graph->loss])[r] *
           (graph->weighs ? ((const double *)n->target)[(r + 1) * hd__value_stride(label) - unused] : 1);
  for (int v = 0; v < graph->value_count; v++)
    free(at[v]);
  free(at);
  hd__graph_destroy(graph);
  return sum / n->divisor;
}

/* Returns whether there is a draw of its parameters clear of kinks. */
static bool check_network(const char *title, const char *text, uint32_t seed) {
  network n;
  weighs = seed % 2;
  network_create(&n, text);
  if (!draw_network(&n, seed)) {
    network_destroy(&n);
    return false;
  }
  for (int i = 0; i < n.plan->graph->node_count; i++)
    occurs[n.plan->graph->nodes[i].op] |= !n.plan->graph->nodes[i].view;
  near(network_run(&n, false), loss_as_written(&n, text), 1e-12, "%s: the loss of the model as written", title);
  double *grad = doubles(n.plan->size.param_elems);
  int64_t elems = 0;
  int wrong = 0;
  for (int p = 0; p < n.plan->param_count; p++) {
    int64_t count = hd__param_elems(&n.plan->graph->params[p]);
    if (n.plan->graph->params[p].running)
      continue;
    take_gradient(grad + n.plan->params[p].offset, &n, p);
    elems += count;
  }
  for (int p = 0; p < n.plan->param_count; p++)
    if (!n.plan->graph->params[p].running)
      wrong += check_elements(&n, p, grad + n.plan->params[p].offset);
  wrong += check_directions(&n, grad, seed);
  if (!ok(wrong == 0, "%s: %lld gradients equal central differences", title, (long long)elems))
    diag("%s", text);
  free(grad);
  network_destroy(&n);
  return true;
}

/* ---- Random networks ---- */

/* The text of a model as it grows, and its values: `input`, then that of each layer. */
typedef struct drawing {
  random_stream random;
  char text[4000], title[400];
  int values;
  hd_shape shape[MOST_LAYERS + 1], order[MOST_LAYERS + 1];
} drawing;

static void add_text(char *text, size_t size, const char *format, ...) {
  const size_t at = strlen(text);
  va_list list;
  va_start(list, format);
  vsnprintf(text + at, size - at, format, list);
  va_end(list);
}

/* A value for the setting, small and far from where nothing is smooth; it goes into the attributes as well. Weights are
 * the test's own, so the settings of first weights are left out. */
static void draw_setting(char *text, size_t size, hd_attrs *attrs, const hd_op_setting *setting, int scores,
                         random_stream *random) {
  void *field = (char *)attrs + setting->field;
  const int low = setting->low < 0 ? 0 : (int)setting->low;
  if (setting->type == HD_SETTING_LAYER || !strncmp(setting->key, "init", 4) ||
      (setting->type != HD_SETTING_REAL && !setting->required && random_below(random, 2)))
    return;
  add_text(text, size, ", %s: ", setting->key);
  switch (setting->type) {
  case HD_SETTING_INT:
    *(int32_t *)field = low + (int32_t)random_below(random, 4);
    add_text(text, size, "%d", *(int32_t *)field);
    break;
  case HD_SETTING_FLAG:
  case HD_SETTING_CHOICE:
    *(int32_t *)field = (int32_t)random_below(random, 2);
    add_text(text, size, "%s",
             setting->type == HD_SETTING_CHOICE ? setting->choices[*(int32_t *)field]
             : *(int32_t *)field                ? "true"
                                                : "false");
    break;
  case HD_SETTING_REAL:
    *(float *)field = (float)low + 0.0625f + 0.0625f * (float)random_below(random, 7);
    add_text(text, size, "%g", (double)*(float *)field);
    break;
  case HD_SETTING_SIDES:
    for (int side = 0; side < 2; side++)
      ((int32_t *)field)[side] = low + (int32_t)random_below(random, low ? 3 : 2);
    add_text(text, size, "[%d, %d]", ((int32_t *)field)[0], ((int32_t *)field)[1]);
    break;
  case HD_SETTING_WEIGHTS:
    for (int i = 0; i < scores; i++)
      add_text(text, size, "%s%g", i ? ", " : "[", 0.5 + 0.25 * random_below(random, 5));
    add_text(text, size, "]");
    break;
  case HD_SETTING_LAYER: break;
  }
}

static void draw_settings(char *text, size_t size, hd_attrs *attrs, const hd_op_rule *rule, int scores,
                          random_stream *random) {
  hd__op_defaults(attrs, rule->settings);
  for (const hd_op_setting *s = rule->settings; s && s->key; s++)
    draw_setting(text, size, attrs, s, scores, random);
}

static int drawn[HD_OP_COUNT]; /* how often */

/* A loss, a layer or a layer that multiplies; every other time the one that was drawn least. */
static hd_op draw_op(bool loss, bool multiplies, random_stream *random) {
  hd_op chosen = HD_OP_COUNT;
  uint32_t seen = 0;
  const bool least = random_below(random, 2);
  for (hd_op op = 0; op < HD_OP_COUNT; op++) {
    const hd_op_rule *rule = hd__op_info(op)->rule;
    if (!rule || hd__op_info(op)->role != HD_ROLE_FORWARD || (loss ? !rule->loss : rule->most == 0) || rule->numbers ||
        rule->several || (multiplies && !rule->macs))
      continue;
    seen++;
    if (chosen == HD_OP_COUNT || (least ? drawn[op] < drawn[chosen] : random_below(random, seen) == 0))
      chosen = op;
  }
  return chosen;
}

/* Whether the layer takes its inputs; its output. A recurrent layer becomes nodes of other shapes. */
static bool infer(hd_op_shapes *s, const hd_op_rule *rule) {
  if (rule->gates == 0)
    return rule->shapes(s) == HD_OK;
  s->y = (hd_shape){3, {s->attrs->hidden_size, 1, s->x[0].dim[2]}};
  return s->x[0].rank == 3 && s->x[0].dim[1] == 1;
}

/* One more layer if its shapes are right. It reads the last value and, if it has several inputs, any others. The first
 * one multiplies, so that the gradients of all others are needed. */
static void add_layer(drawing *d) {
  const hd_op op = draw_op(false, d->values == 1, &d->random);
  const hd_op_rule *rule = hd__op_info(op)->rule;
  const int last = d->values - 1, most = rule->most < 3 ? rule->most : 3;
  char layer[400] = "", from[100] = "";
  hd_attrs attrs;
  hd_op_shapes s = {.layer = "drawn", .op = hd__op_info(op)->name, .attrs = &attrs};
  s.inputs = rule->fewest + (int)random_below(&d->random, (uint32_t)(most - rule->fewest + 1));
  for (int i = 0; i < s.inputs; i++) {
    const int value = i ? (int)random_below(&d->random, (uint32_t)d->values) : last;
    s.x[i] = d->shape[value];
    s.order[i] = d->order[value];
    if (value)
      add_text(from, sizeof from, "%sv%d", i ? ", " : "", value);
    else
      add_text(from, sizeof from, "%sinput", i ? ", " : "");
  }
  add_text(layer, sizeof layer, "  - v%d: {op: %s, from: %s%s%s", d->values, s.op, s.inputs > 1 ? "[" : "", from,
           s.inputs > 1 ? "]" : "");
  draw_settings(layer, sizeof layer, &attrs, rule, 0, &d->random);
  if (!infer(&s, rule) || hd__shape_elems(&s.y) > MOST_ELEMS)
    return;
  drawn[op]++;
  add_text(d->text, sizeof d->text, "%s}\n", layer);
  add_text(d->title, sizeof d->title, " %s", s.op);
  d->shape[d->values] = s.y;
  d->order[d->values++] = s.y_order;
}

/* Some layers, up to one with a flat value, and a loss; returns whether there is such a network. */
static bool draw_model(drawing *d, uint32_t seed) {
  *d = (drawing){.random = {seed, 0}, .values = 1, .title = "drawn:"};
  d->shape[0] = (hd_shape){3,
                           {1 + (int32_t)random_below(&d->random, 3), 2 + (int32_t)random_below(&d->random, 3),
                            2 + (int32_t)random_below(&d->random, 3)}};
  add_text(d->text, sizeof d->text, "model: drawn\ninput: [%d, %d, %d]\nlayers:\n", d->shape[0].dim[0],
           d->shape[0].dim[1], d->shape[0].dim[2]);
  const int layers = 3 + (int)random_below(&d->random, 6);
  for (int tries = 0; d->values <= layers || d->shape[d->values - 1].rank != 1; tries++) {
    if (tries == 300 || d->values > MOST_LAYERS)
      return false;
    add_layer(d);
  }
  hd_attrs attrs;
  const hd_op loss = draw_op(true, false, &d->random);
  drawn[loss]++;
  add_text(d->text, sizeof d->text, "loss: {op: %s", hd__op_info(loss)->name);
  draw_settings(d->text, sizeof d->text, &attrs, hd__op_info(loss)->rule, d->shape[d->values - 1].dim[0], &d->random);
  add_text(d->text, sizeof d->text, "}\n");
  add_text(d->title, sizeof d->title, ", %s", hd__op_info(loss)->name);
  return true;
}

static void check_drawn(void) {
  static drawing d;
  int checked = 0;
  for (uint32_t seed = 1; checked < DRAWN && seed < 100 * DRAWN; seed++)
    checked += draw_model(&d, 100000 * seed) && check_network(d.title, d.text, seed);
  is_int(checked, DRAWN, "networks drawn from the table of operations");
}

int main(void) {
  hd_geom g;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    if (!check_network(models[i].title, models[i].text, (uint32_t)i + 1))
      bail_out("%s: no draw lies clear of kinks", models[i].title);
  check_drawn();
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (hd__op_info(op)->class != HD_CLASS_UPDATE && hd__op_sample(&g, op, 0)) /* else the custom operation */
      ok(occurs[op], "%s ran in one of these networks", hd__op_info(op)->name);
  return done_testing();
}
