/* Whole networks' gradients against central differences, in double: what the gradient rules, the fusions and the
 * planned memory make together.
 *
 * A model is planned for the double reference table and its calls are run where the plan put every value: the arena at
 * twice its bytes, since a float of the plan is a double here. Each element of each parameter is moved; the difference
 * of the mean loss must be the gradient that the plan's calls leave. The arena starts as NaN before each run: a value
 * that is read before it is written, or after another one took its place, shows. Every operation that a model can hold
 * must occur in one of the networks. */
#include <math.h>
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

/* Two layers with `outputs` scores; the loss follows. */
#define REGRESSION(outputs)                                                                                            \
  "model: loss\ninput: [1, 3, 2]\nlayers:\n"                                                                           \
  "  - f: {op: flatten}\n  - l: {op: linear, out: 3}\n  - r: {op: relu}\n  - m: {op: linear, out: " #outputs "}\n"

static const struct {
  const char *title, *text;
} models[] = {
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
    {"every activation behind a layer, one of them in place of its input",
     "model: j\ninput: [1, 5, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 2}\n  - g: {op: gelu}\n  - d: {op: conv2d, out: 2, kernel: 2}\n"
     "  - s: {op: sigmoid}\n  - f: {op: flatten}\n  - l: {op: linear, out: 7}\n  - t: {op: tanh}\n"
     "  - m: {op: linear, out: 6}\n  - k: {op: leaky_relu, negative_slope: 0.2}\n"
     "  - h: {op: gelu, approximate: tanh}\n  - a: {op: add, from: [h, k]}\n  - n: {op: linear, out: 3}\n"},
    {"dropout of samples, of images and of scores",
     "model: o\ninput: [1, 5, 4]\nlayers:\n"
     "  - e: {op: dropout, p: 0.1}\n  - c: {op: conv2d, out: 4, kernel: 2}\n  - d: {op: dropout}\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 9}\n  - o: {op: dropout, p: 0.3}\n"
     "  - a: {op: add, from: [o, l]}\n  - m: {op: linear, out: 3}\n  - z: {op: dropout, p: 0.2}\n"},
    {"means of windows and of channels",
     "model: q\ninput: [2, 7, 6]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 2}\n  - p: {op: avg_pool2d, kernel: 3, stride: 2, padding: 1}\n"
     "  - d: {op: conv2d, out: 4, kernel: 2}\n"
     "  - r: {op: avg_pool2d, kernel: 2, stride: 1, padding: 1, count_include_pad: false}\n"
     "  - e: {op: conv2d, out: 3, kernel: 1}\n  - g: {op: global_avg_pool2d}\n  - f: {op: flatten}\n"},
    {"parts put together: of images, of flattened ones, of flat values",
     "model: s\ninput: [1, 5, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 2}\n  - d: {op: conv2d, out: 2, kernel: 2, from: input}\n"
     "  - j: {op: concat, from: [c, d, c]}\n  - f: {op: flatten, from: d}\n  - g: {op: flatten, from: j}\n"
     "  - k: {op: concat, from: [g, f]}\n  - l: {op: linear, out: 5}\n  - m: {op: linear, out: 4, from: k}\n"
     "  - n: {op: concat, from: [l, m]}\n  - o: {op: linear, out: 3}\n"},
    {"softmax of pixels and of flat values",
     "model: t\ninput: [1, 5, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 2}\n  - s: {op: softmax}\n  - f: {op: flatten}\n"
     "  - l: {op: linear, out: 18}\n  - t: {op: softmax}\n  - m: {op: linear, out: 3}\n"},
    {"layer norm of images, of a flattened image, of flat values",
     "model: u\ninput: [2, 5, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 2}\n  - n: {op: layer_norm}\n  - r: {op: relu}\n"
     "  - d: {op: conv2d, out: 2, kernel: 2}\n  - f: {op: flatten}\n  - m: {op: layer_norm, eps: 0.01}\n"
     "  - l: {op: linear, out: 5}\n  - o: {op: layer_norm}\n  - k: {op: linear, out: 3}\n"},
    {"group norm of images and of flat values",
     "model: v\ninput: [1, 5, 4]\nlayers:\n"
     "  - c: {op: conv2d, out: 4, kernel: 2}\n  - n: {op: group_norm, groups: 2}\n  - f: {op: flatten}\n"
     "  - l: {op: linear, out: 6}\n  - m: {op: group_norm, groups: 3, eps: 0.01}\n  - k: {op: linear, out: 3}\n"},
    {"dilated and transposed convolutions",
     "model: w\ninput: [2, 6, 7]\nlayers:\n"
     "  - c: {op: conv2d, out: 4, kernel: 2, dilation: [2, 3], padding: 1}\n  - r: {op: relu}\n"
     "  - t: {op: conv_transpose2d, out: 6, kernel: [3, 2], stride: 2, padding: 1, output_padding: 1, groups: 2}\n"
     "  - p: {op: max_pool2d, kernel: 2}\n"
     "  - d: {op: conv2d, out: 3, kernel: 3, dilation: 2, padding: 2}\n  - q: {op: max_pool2d, kernel: 2}\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 3}\n"},
    {"pools that do not fuse: strides, padding, sides",
     "model: i\ninput: [1, 7, 7]\nlayers:\n"
     "  - c: {op: conv2d, out: 2, kernel: 2}\n  - p: {op: max_pool2d, kernel: 2, stride: 1}\n"
     "  - d: {op: conv2d, out: 2, kernel: 2}\n  - q: {op: max_pool2d, kernel: 2, padding: 1}\n"
     "  - e: {op: conv2d, out: 3, kernel: 1}\n  - s: {op: max_pool2d, kernel: [3, 1]}\n  - f: {op: flatten}\n"},
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
    {"batch norm by shards, behind one of the batch",
     "model: n\ninput: [1, 5, 5]\nlayers:\n"
     "  - c: {op: conv2d, out: 3, kernel: 3, bias: false}\n  - n: {op: batch_norm}\n  - r: {op: relu}\n"
     "  - d: {op: conv2d, out: 3, kernel: 3, padding: 1}\n  - m: {op: batch_norm, eps: 0.01, stats: shard}\n"
     "  - f: {op: flatten}\n  - l: {op: linear, out: 4}\n"},
    {"batch norm of the samples and of the scores",
     "model: k\ninput: [2, 3, 3]\nlayers:\n"
     "  - n: {op: batch_norm, eps: 0.01}\n  - f: {op: flatten}\n  - l: {op: linear, out: 4}\n  - b: {op: batch_norm, "
     "eps: 0.2}\n"},
    {"cross-entropy with class weights, an ignored label and smoothing",
     REGRESSION(4) "loss: {op: cross_entropy, weight: [1, 2.5, 0, 0.5], ignore_index: 1, label_smoothing: 0.2}\n"},
    {"cross-entropy with smoothing alone", REGRESSION(3) "loss: {op: cross_entropy, label_smoothing: 0.1}\n"},
    {"mean squared error", REGRESSION(2) "loss: mse\n"},
    {"mean absolute error", REGRESSION(3) "loss: l1\n"},
    {"Huber", REGRESSION(3) "loss: {op: huber, delta: 0.5}\n"},
    {"binary cross-entropy", REGRESSION(1) "loss: bce_with_logits\n"},
    {"binary cross-entropy of several outputs, positives weighted",
     REGRESSION(2) "loss: {op: bce_with_logits, pos_weight: [3, 0.25]}\n"},
};

static bool occurs[HD_OP_COUNT];

/* A plan's memory, in double. */
typedef struct network {
  hd_plan *plan;
  double *arena, *batch, *params, *direct, *x, *scratch;
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

static hd_graph *graph_of(const char *text) {
  hd_ctx *ctx;
  hd_graph *graph;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  if (hd__model_parse(&graph, NULL, ctx, text, strlen(text), "model") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_ctx_destroy(ctx);
  return graph;
}

static hd_plan *plan_of(const char *text) {
  hd_plan *plan;
  if (hd__plan_create(&plan, NULL, graph_of(text), hd__kernels_reference_f64(), &(hd_plan_settings){.train = true}) !=
      HD_OK)
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
  n->arena_elems = plan->arena_bytes / 4 * ROWS;
  n->batch_elems = plan->batch_bytes / 4 * ROWS;
  n->x_elems = hd__shape_elems(&plan->graph->values[plan->graph->input].shape);
  n->arena = doubles(n->arena_elems);
  n->batch = doubles(n->batch_elems);
  n->params = doubles(plan->param_elems);
  n->direct = doubles(plan->direct_elems);
  n->scratch = doubles(plan->scratch_bytes / 8);
  n->x = doubles(n->x_elems * ROWS);
  n->target = doubles(hd__value_stride(&plan->graph->values[plan->graph->label]) * ROWS);
  n->weight = weights_of(plan->graph);
}

static void network_destroy(network *n) {
  free(n->arena);
  free(n->batch);
  free(n->params);
  free(n->direct);
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
                                       [HD_AT_GATHERED] = {n->direct, .scale = size}};
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
}

/* Forward and backward for all rows as one shard; returns the mean loss. */
static double network_run(network *n, bool watch) {
  n->nearest_kink = HUGE_VAL;
  for (int64_t i = 0; i < n->arena_elems; i++)
    n->arena[i] = NAN;
  for (int64_t i = 0; i < n->batch_elems; i++)
    n->batch[i] = NAN;
  double *x = resolve(n, &n->plan->input);
  for (int64_t i = 0; i < n->x_elems * ROWS; i++)
    x[i / n->x_elems * n->plan->input.stride + i % n->x_elems] = n->x[i];
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
  n->divisor = label->dtype == HD_I32 ? ROWS : ROWS * scores;
  for (int64_t i = 0; i < ROWS * hd__value_stride(label); i++)
    if (label->dtype == HD_I32)
      ((int32_t *)n->target)[i] = (int32_t)random_below(random, (uint32_t)scores);
    else
      ((double *)n->target)[i] = (1 + random_float(random)) / 2;
}

/* Samples, targets and parameters, drawn until no activation lies near a kink. */
static void draw_network(network *n, uint32_t seed) {
  for (uint32_t draw = 0; draw < MAX_DRAWS; draw++) {
    random_stream random = {seed + 1000 * draw, 0};
    for (int64_t i = 0; i < n->x_elems * ROWS; i++)
      n->x[i] = random_float(&random);
    for (int64_t i = 0; i < n->plan->param_elems; i++)
      n->params[i] = random_float(&random);
    draw_targets(n, &random);
    network_run(n, true);
    if (n->nearest_kink > CLEAR)
      return;
  }
  bail_out("no draw lies clear of kinks");
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
      sum[i] += n->direct[n->plan->uses[u].direct + i];
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
  int64_t count = n->plan->param_elems;
  double *was = doubles(count), *direction = doubles(count);
  random_stream random = {seed, 0};
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
        n->x[i];
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
  for (int r = 0; r < ROWS; r++)
    sum += ((const double *)at[graph->loss])[r];
  for (int v = 0; v < graph->value_count; v++)
    free(at[v]);
  free(at);
  hd__graph_destroy(graph);
  return sum / n->divisor;
}

static void check_network(const char *title, const char *text, uint32_t seed) {
  network n;
  network_create(&n, text);
  draw_network(&n, seed);
  for (int i = 0; i < n.plan->graph->node_count; i++)
    occurs[n.plan->graph->nodes[i].op] |= !n.plan->graph->nodes[i].view;
  near(network_run(&n, false), loss_as_written(&n, text), 1e-12, "%s: the loss of the model as written", title);
  double *grad = doubles(n.plan->param_elems);
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
  ok(wrong == 0, "%s: %lld gradients equal central differences", title, (long long)elems);
  free(grad);
  network_destroy(&n);
}

/* Behind a convolution and behind a linear layer, with its settings' defaults. */
static void check_elementwise(hd_op op) {
  const char *name = hd__op_info(op)->name;
  char text[400];
  snprintf(text, sizeof text,
           "model: each\ninput: [1, 5, 4]\nlayers:\n"
           "  - c: {op: conv2d, out: 3, kernel: 2}\n  - x: {op: %s}\n  - f: {op: flatten}\n"
           "  - l: {op: linear, out: 7}\n  - y: {op: %s}\n  - m: {op: linear, out: 3}\n",
           name, name);
  check_network(name, text, 1);
}

int main(void) {
  hd_geom g;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++)
    check_network(models[i].title, models[i].text, (uint32_t)i + 1);
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (hd__op_info(op)->role == HD_ROLE_FORWARD && hd__op_info(op)->rule && hd__op_info(op)->rule->elementwise)
      check_elementwise(op);
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (hd__op_info(op)->class != HD_CLASS_UPDATE && hd__op_sample(&g, op, 0)) /* else the custom operation */
      ok(occurs[op], "%s ran in one of these networks", hd__op_info(op)->name);
  return done_testing();
}
