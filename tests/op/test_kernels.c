/* Every table against the reference, bit for bit, for every operation over rows: the samples of the operations, then
 * random shapes; contents with zeros, with NaN and infinities; rows split over several calls; results over inputs where
 * that is allowed. Seeds are fixed: a failure names its case and can be run again alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_table.h"
#include "op/op.h"
#include "op/kernel_case.h"
#include "platform/fpmode.h"
#include "tap.h"

enum { RANDOM_SHAPES = 80, TABLES = 8 };

static const char *const isas[TABLES] = {"reference", "scalar",     "avx2",       "avx512",
                                         "neon",      "cuda_plain", "cuda_small", "cuda_large"};

/* NULL: this CPU, this build or this machine lacks it. */
static bool is_cuda(int t) { return !strncmp(isas[t], "cuda", 4); }

/* With HD_GPU only the GPU is tested, as its machine is available for a short time: CPUs are tested elsewhere. */
static const hd_kernels *table_of(int t) {
  return is_cuda(t) ? cuda_table(isas[t]) : getenv("HD_GPU") ? NULL : hd__kernels_of(isas[t]);
}

static int32_t choose(random_stream *random, const int32_t *list, uint32_t count) {
  return list[random_below(random, count)];
}

static void random_conv(hd_geom *g, random_stream *random) {
  static const int32_t channels[] = {1, 1, 2, 3, 4, 8, 15, 16, 17, 24, 32, 33, 48, 64, 70}, pools[] = {1, 1, 2, 2, 3};
  do {
    *g = (hd_geom){
        .ci = choose(random, channels, 15), .co = choose(random, channels, 15), .pool = choose(random, pools, 5)};
    g->hi = 1 + (int32_t)random_below(random, 12);
    g->wi = 1 + (int32_t)random_below(random, 12);
    g->kh = 1 + (int32_t)random_below(random, 5);
    g->kw = random_below(random, 3) ? g->kh : 1 + (int32_t)random_below(random, 5);
    g->sh = 1 + (int32_t)(random_below(random, 3) ? 0 : random_below(random, 3));
    g->sw = random_below(random, 3) ? g->sh : 1 + (int32_t)random_below(random, 3);
    g->ph = (int32_t)random_below(random, 3);
    g->pw = (int32_t)random_below(random, 3);
    g->relu = (int32_t)random_below(random, 2);
    for (int axis = 0; axis < 2; axis++)
      g->dilation[axis] = random_below(random, 4) ? 1 : 1 + (int32_t)random_below(random, 3);
  } while (!hd__geom_finish(g));
}

/* Divides the channels into groups, every other time into as many as there are. */
static void random_groups(hd_geom *g, random_stream *random) {
  static const int32_t groups[] = {2, 3, 5, 16, 17}, per_group[] = {1, 1, 2, 3, 8, 17};
  random_conv(g, random);
  g->pool = 1;
  g->groups = choose(random, groups, 5);
  g->ci = g->groups * choose(random, per_group, 6);
  g->co = g->groups * choose(random, per_group, 6);
  if (random_below(random, 2))
    g->co = g->groups = g->ci;
  hd__geom_finish(g);
}

static void random_transposed(hd_geom *g, random_stream *random) {
  random_groups(g, random);
  g->co = g->groups * (1 + (int32_t)random_below(random, 3));
  g->relu = 0;
  g->transposed = 1;
  g->ph = g->pw = 0;
  g->output_padding[0] = (int32_t)random_below(random, (uint32_t)g->sh);
  g->output_padding[1] = (int32_t)random_below(random, (uint32_t)g->sw);
  hd__geom_finish(g);
}

/* What Winograd's tiles take: the tiles' edges beside those of the image, of the padding and of the pool. */
static void random_tiled(hd_geom *g, random_stream *random) {
  static const int32_t channels[] = {16, 16, 17, 31, 32, 33, 47, 48, 49, 65};
  do {
    *g = (hd_geom){.ci = choose(random, channels, 10), .co = choose(random, channels, 10), .kh = 3, .kw = 3};
    g->hi = 1 + (int32_t)random_below(random, 9);
    g->wi = 1 + (int32_t)random_below(random, 9);
    g->ph = (int32_t)random_below(random, 4);
    g->pw = (int32_t)random_below(random, 4);
    g->sh = g->sw = 1;
    g->pool = 1 + (int32_t)random_below(random, 2);
    g->relu = (int32_t)random_below(random, 2);
  } while (!hd__geom_finish(g));
}

static void random_pool(hd_geom *g, random_stream *random) {
  static const int32_t channels[] = {1, 3, 15, 16, 17, 32, 33, 70};
  do {
    *g = (hd_geom){.ci = choose(random, channels, 8), .pool = 1};
    g->co = g->ci;
    g->hi = 1 + (int32_t)random_below(random, 12);
    g->wi = 1 + (int32_t)random_below(random, 12);
    g->kh = 1 + (int32_t)random_below(random, 4);
    g->kw = 1 + (int32_t)random_below(random, 4);
    g->sh = 1 + (int32_t)random_below(random, 3);
    g->sw = 1 + (int32_t)random_below(random, 3);
    g->ph = (int32_t)random_below(random, (uint32_t)g->kh / 2 + 1);
    g->pw = (int32_t)random_below(random, (uint32_t)g->kw / 2 + 1);
    g->count_include_pad = (int32_t)random_below(random, 2);
  } while (!hd__geom_finish(g));
}

/* A flat value of `in` elements and one of `out`. */
static hd_geom flat(int32_t in, int32_t out) {
  return (hd_geom){.ci = in,
                   .hi = 1,
                   .wi = 1,
                   .co = out,
                   .ho = 1,
                   .wo = 1,
                   .kh = 1,
                   .kw = 1,
                   .sh = 1,
                   .sw = 1,
                   .pool = 1,
                   .hp = 1,
                   .wp = 1};
}

static void random_linear(hd_geom *g, random_stream *random) {
  uint32_t widest = random_below(random, 4) ? 70 : 600;
  *g = flat(1 + (int32_t)random_below(random, widest), 1 + (int32_t)random_below(random, 70));
  g->relu = (int32_t)random_below(random, 2);
}

/* Of two to seven inputs; concat_dx takes the second's part out. */
static void random_concat(hd_geom *g, hd_op op, random_stream *random) {
  *g = flat(0, 0);
  g->hi = 1 + (int32_t)random_below(random, 5);
  g->wi = 1 + (int32_t)random_below(random, 5);
  for (int i = 0, parts = 2 + (int)random_below(random, HD_MAX_IN - 1); i < parts; i++)
    g->ci += g->part[i] = 1 + (int32_t)random_below(random, 20);
  g->co = g->ci;
  hd__geom_finish(g);
  if (op == HD_OP_concat_dx) {
    g->ci = g->part[1];
    g->first = g->part[0];
  }
}

static void random_loss(hd_geom *g, random_stream *random) {
  *g = flat(1 + (int32_t)random_below(random, 40), 1);
  g->ignore_index = (int32_t)random_below(random, 12) - 6;
  g->label_smoothing = random_below(random, 2) ? 0.1f * (float)random_below(random, 11) : 0;
  g->delta = 0.25f * (float)(1 + random_below(random, 8));
}

static void random_geom(hd_geom *g, hd_op op, random_stream *random) {
  switch (op) {
  case HD_OP_conv2d:
  case HD_OP_conv2d_dx:
  case HD_OP_conv2d_dw:
    (random_below(random, 2) ? random_conv : random_below(random, 2) ? random_groups : random_tiled)(g, random);
    break;
  case HD_OP_conv_transpose2d:
  case HD_OP_conv_transpose2d_dx:
  case HD_OP_conv_transpose2d_dw: random_transposed(g, random); break;
  case HD_OP_max_pool2d:
  case HD_OP_max_pool2d_dx:
  case HD_OP_avg_pool2d:
  case HD_OP_avg_pool2d_dx: random_pool(g, random); break;
  case HD_OP_global_avg_pool2d:
    random_pool(g, random);
    g->kh = g->hi, g->kw = g->wi, g->ph = g->pw = 0;
    hd__geom_finish(g);
    break;
  case HD_OP_concat:
  case HD_OP_concat_dx: random_concat(g, op, random); break;
  case HD_OP_linear:
  case HD_OP_linear_dx:
  case HD_OP_linear_dw: random_linear(g, random); break;
  case HD_OP_cross_entropy:
  case HD_OP_cross_entropy_dx:
  case HD_OP_mse:
  case HD_OP_mse_dx:
  case HD_OP_l1:
  case HD_OP_l1_dx:
  case HD_OP_huber:
  case HD_OP_huber_dx:
  case HD_OP_bce_with_logits:
  case HD_OP_bce_with_logits_dx: random_loss(g, random); break;
  default:
    *g = flat(1 + (int32_t)random_below(random, 40), 1);
    g->hi = 1 + (int32_t)random_below(random, 9);
    g->wi = 1 + (int32_t)random_below(random, 9);
    g->eps = 1e-5f;
    g->p = 0.25f * (float)random_below(random, 5);
    g->approximate = (int32_t)random_below(random, 2);
    g->negative_slope = 0.25f * (float)random_below(random, 4);
    g->co = g->ci;
    hd__geom_finish(g);
  }
}

/* A gradient of a convolution leaves zero factors out, which is only promised to change nothing while all is finite. */
static bool takes_special(hd_op op) { return op != HD_OP_conv2d_dx && op != HD_OP_conv2d_dw; }

/* The case through the table in `cuts` calls; returns what differs from `want`. */
static const char *differs(const kernel_case *c, const hd_kernels *table, const kernel_result *want, int cuts) {
  kernel_result got;
  const char *wrong = kernel_case_run(&got, c, table, cuts);
  if (!wrong && !kernel_results_equal(c, want, &got))
    wrong = cuts == 1 ? "other bits than the reference" : "other bits when the rows come in several calls";
  kernel_result_destroy(&got);
  return wrong;
}

/* The same with the result over in[0]. */
static const char *differs_in_place(const kernel_case *c, const hd_kernels *table, const kernel_result *want) {
  guarded memory = guarded_create(c->input[0].bytes, 0);
  memcpy(memory.data, c->input[0].data, memory.bytes);
  hd_call call = {.g = &c->g, .rows = c->rows, .in = {memory.data, c->input[1].data}, .out = {memory.data}};
  call.draw = c->draw;
  call.in_stride[0] = call.out_stride[0] = c->in[0].stride;
  call.in_stride[1] = c->in[1].stride;
  table->run[c->op](&call);
  kernel_result got = {.output = {memory}};
  const char *wrong = !guarded_is_intact(&memory)            ? "wrote beside its output in place"
                      : !kernel_results_equal(c, want, &got) ? "other bits in place"
                                                             : NULL;
  guarded_destroy(&memory);
  return wrong;
}

enum { UNWRITTEN = 0x5a };

/* Whether columns from `j` on of every row are as they were. */
static bool is_unwritten(const guarded *memory, const arg *out, int64_t rows, int64_t j) {
  for (int64_t n = 0; n < rows; n++)
    for (int64_t b = 4 * (n * out->stride + j); b < 4 * (n + 1) * out->stride; b++)
      if (((const unsigned char *)memory->data)[b] != UNWRITTEN)
        return false;
  return true;
}

/* The outputs in two calls, which must leave each other's, and padding, alone. */
static const char *differs_by_outputs(const kernel_case *c, const hd_kernels *table, const kernel_result *want) {
  const int32_t cut = (c->g.co + 2) / 3;
  guarded memory = guarded_create((size_t)(c->rows * c->out[0].stride) * 4, AT_THE_END);
  memset(memory.data, UNWRITTEN, memory.bytes);
  hd_call call = {.g = &c->g, .rows = c->rows, .out = {memory.data}};
  for (int i = 0; i < HD_MAX_IN; i++) {
    call.in[i] = c->in[i].kind == ARG_NONE ? NULL : c->input[i].data;
    call.in_stride[i] = c->in[i].stride;
  }
  call.out_stride[0] = c->out[0].stride;
  table->run_outputs[c->op](&call, 0, cut);
  const char *wrong = is_unwritten(&memory, &c->out[0], c->rows, cut) ? NULL : "some outputs' call wrote others";
  table->run_outputs[c->op](&call, cut, c->g.co);
  kernel_result got = {.output = {memory}};
  if (!wrong && (!guarded_is_intact(&memory) || !is_unwritten(&memory, &c->out[0], c->rows, c->g.co)))
    wrong = "some outputs' call wrote padding";
  if (!wrong && !kernel_results_equal(c, want, &got))
    wrong = "other bits when the outputs come in two calls";
  guarded_destroy(&memory);
  return wrong;
}

/* A frozen parameter has no gradient: each output alone. */
static const char *differs_alone(const kernel_case *c, const hd_kernels *table, const kernel_result *want) {
  const char *wrong = NULL;
  for (int k = 0; k < 2 && !wrong && c->out[1].kind != ARG_NONE; k++) {
    kernel_case alone = *c;
    alone.out[k] = (arg){0};
    wrong = differs(&alone, table, want, 1) ? "other bits without one of the outputs" : NULL;
  }
  return wrong;
}

static const char *check_table(const kernel_case *c, const hd_kernels *table, const kernel_result *want) {
  const char *wrong = differs(c, table, want, 1);
  if (!wrong && hd__op_info(c->op)->class == HD_CLASS_ROWS && c->rows > 1) {
    wrong = differs(c, table, want, 2);
    if (!wrong)
      wrong = differs(c, table, want, (int)c->rows);
  }
  if (!wrong && hd__op_info(c->op)->class == HD_CLASS_REDUCE)
    wrong = differs_alone(c, table, want);
  if (!wrong && table->run_outputs[c->op])
    wrong = differs_by_outputs(c, table, want);
  if (!wrong && hd__op_works_in_place(c->op))
    wrong = differs_in_place(c, table, want);
  return wrong;
}

static void say(const kernel_case *c, const hd_kernels *table, fill_kind fill, const char *wrong) {
  char text[256];
  kernel_case_text(text, sizeof text, c, table);
  diag("%s, fill %d: %s", text, (int)fill, wrong);
}

/* One case: the reference once, then every table. */
static void check_case(const kernel_case *c, fill_kind fill, int failed[TABLES]) {
  kernel_result want;
  if (kernel_case_run(&want, c, hd__kernels_reference(), 1))
    failed[0]++;
  for (int t = 0; t < TABLES; t++) {
    const hd_kernels *table = table_of(t);
    const char *wrong = table ? check_table(c, table, &want) : NULL;
    if (wrong)
      say(c, table, fill, wrong);
    failed[t] += wrong != NULL;
  }
  kernel_result_destroy(&want);
}

/* One shape with every content, with and without what may be absent. */
static void check_shape(hd_op op, const hd_geom *g, int64_t rows, uint32_t seed, int failed[TABLES]) {
  for (fill_kind fill = FILL_PLAIN; fill <= FILL_SPECIAL; fill++)
    for (int drop = 0; drop < 2; drop++) {
      if (fill == FILL_SPECIAL && !takes_special(op))
        continue;
      kernel_case c;
      kernel_case_create(&c, op, g, rows, fill, drop, seed);
      check_case(&c, fill, failed);
      kernel_case_destroy(&c);
    }
}

/* One line for each table. */
static void report(const int failed[TABLES], const char *what) {
  for (int t = 0; t < TABLES; t++)
    if (table_of(t))
      ok(failed[t] == 0, "%s: %s, the reference's bits", isas[t], what);
    else
      skip(1, "%s: %s", isas[t],
           is_cuda(t) ? cuda_table_lacks() : "this CPU or this build lacks it, or HD_GPU leaves it out");
}

static void check_op(hd_op op) {
  random_stream random = {1000 + (uint32_t)op, 0};
  int failed[TABLES] = {0};
  hd_geom g;
  for (int i = 0; hd__op_sample(&g, op, i); i++)
    check_shape(op, &g, 1 + (int64_t)random_below(&random, 4), (uint32_t)i, failed);
  for (int i = 0; i < RANDOM_SHAPES; i++) {
    random_geom(&g, op, &random);
    check_shape(op, &g, 1 + (int64_t)random_below(&random, 9), 100 + (uint32_t)i, failed);
  }
  report(failed, hd__op_info(op)->name);
}

/* One sample of every combination of small and odd: images of one pixel, of one line, channels beside a group's. */
static void check_odd_conv(void) {
  static const int32_t channels[] = {1, 16, 17}, height[] = {1, 1, 5, 6}, width[] = {1, 7, 4, 6};
  int failed[TABLES] = {0}, shapes = 0;
  for (int n = 0; n < 3 * 3 * 4 * 3 * 3 * 3 * 3; n++) {
    int i = n;
    hd_geom g = {.ci = channels[i % 3], .co = channels[i / 3 % 3], .hi = height[i / 9 % 4], .wi = width[i / 9 % 4]};
    i /= 36;
    g.kh = 1 + i % 3, g.kw = g.kh == 2 ? 5 : g.kh;
    g.sh = 1 + i / 3 % 3, g.sw = g.sh == 3 ? 1 : g.sh;
    g.ph = i / 9 % 3, g.pw = g.ph == 2 ? 1 : g.ph;
    g.pool = 1 + i / 27 % 3;
    g.relu = n % 2;
    if (!hd__geom_finish(&g))
      continue;
    shapes++;
    for (hd_op op = HD_OP_conv2d; op <= HD_OP_conv2d_dw; op++) {
      kernel_case c;
      kernel_case_create(&c, op, &g, 1, FILL_ZEROS, n / 2 % 2, (uint32_t)n);
      check_case(&c, FILL_ZEROS, failed);
      kernel_case_destroy(&c);
    }
  }
  diag("%d convolutions", shapes);
  report(failed, "one sample of odd convolutions");
}

static void check_odd_linear(void) {
  static const int32_t sides[] = {1, 2, 3, 5, 15, 16, 17, 31, 33, 65};
  int failed[TABLES] = {0};
  for (int n = 0; n < 10 * 10 * 3; n++) {
    hd_geom g = flat(sides[n % 10], sides[n / 10 % 10]);
    for (hd_op op = HD_OP_linear; op <= HD_OP_linear_dw; op++)
      check_shape(op, &g, (int[]){1, 2, 7}[n / 100], (uint32_t)n, failed);
  }
  report(failed, "odd linear layers");
}

/* Layers that blocked kernels take apart: wide, and with many rows. */
static void check_large_linear(void) {
  static const struct {
    int32_t in, out;
    int64_t rows;
  } list[] = {{1600, 128, 12}, {784, 10, 64}, {128, 10, 37}, {257, 100, 131}};
  int failed[TABLES] = {0};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    hd_geom g = flat(list[i].in, list[i].out);
    for (hd_op op = HD_OP_linear; op <= HD_OP_linear_dw; op++)
      check_shape(op, &g, list[i].rows, 1, failed);
  }
  report(failed, "large linear layers");
}

static void check_large_conv(void) {
  static const hd_geom list[] = {
      {.ci = 1, .hi = 28, .wi = 28, .co = 32, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .pool = 2, .relu = 1},
      {.ci = 32, .hi = 13, .wi = 13, .co = 64, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .pool = 2, .relu = 1},
      {.ci = 24, .hi = 12, .wi = 12, .co = 32, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .pool = 1},
      {.ci = 64,
       .hi = 14,
       .wi = 14,
       .co = 64,
       .kh = 3,
       .kw = 3,
       .sh = 1,
       .sw = 1,
       .ph = 1,
       .pw = 1,
       .groups = 64,
       .pool = 1},
      {.ci = 40,
       .hi = 13,
       .wi = 9,
       .co = 40,
       .kh = 7,
       .kw = 7,
       .sh = 2,
       .sw = 2,
       .ph = 3,
       .pw = 3,
       .groups = 40,
       .pool = 1},
      {.ci = 32,
       .hi = 10,
       .wi = 10,
       .co = 64,
       .kh = 3,
       .kw = 3,
       .sh = 2,
       .sw = 2,
       .ph = 1,
       .pw = 1,
       .groups = 4,
       .pool = 1}};
  int failed[TABLES] = {0};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    hd_geom g = list[i];
    hd__geom_finish(&g);
    for (hd_op op = HD_OP_conv2d; op <= HD_OP_conv2d_dw; op++)
      check_shape(op, &g, 2, 1, failed);
  }
  report(failed, "convolutions of real models");
}

/* A NaN must reach the check at the step's end, a zero's sign must not be lost: what the reference itself is
 * held to. */
static void check_special_values(const hd_kernels *table) {
  float x[16] = {NAN, -1, INFINITY, -INFINITY, -0.0f, 2, NAN, 0}, y[16] = {0};
  hd_geom g = flat(8, 8);
  hd_call call = {.g = &g, .rows = 1, .in = {x}, .out = {y}};
  table->run[HD_OP_relu](&call);
  ok(isnan(y[0]) && y[1] == 0 && y[2] == INFINITY && y[3] == 0 && signbit(y[4]) && y[5] == 2 && isnan(y[6]),
     "%s: NaN, infinity and the zero's sign pass through relu", table->name);
  hd_geom window = {.ci = 1,
                    .hi = 2,
                    .wi = 4,
                    .co = 1,
                    .ho = 1,
                    .wo = 2,
                    .kh = 2,
                    .kw = 2,
                    .sh = 2,
                    .sw = 2,
                    .pool = 1,
                    .hp = 1,
                    .wp = 2};
  float image[16] = {1, NAN, 4, 4, 5, 2, 3, 4};
  uint8_t argmax[64] = {9, 9};
  call = (hd_call){.g = &window, .rows = 1, .in = {image}, .out = {y, argmax}};
  table->run[HD_OP_max_pool2d](&call);
  ok(isnan(y[0]) && argmax[0] == 1 && y[1] == 4 && argmax[1] == 0,
     "%s: a NaN is the maximum, the first of equals is taken", table->name);
}

/* The share of zeros, what is left, and that the mask follows the sample's position. */
static void check_dropout(const hd_kernels *table) {
  enum { COUNT = 4096 };
  static float x[COUNT], y[2][COUNT];
  hd_geom g = flat(COUNT, COUNT);
  g.p = 0.25f;
  int zeros = 0, wrong = 0, same = 0;
  for (int i = 0; i < COUNT; i++)
    x[i] = 3;
  for (uint32_t position = 0; position < 2; position++) {
    hd_call call = {.g = &g, .rows = 1, .in = {x}, .out = {y[position]}, .draw = {.seed = 1, .position = position}};
    table->run[HD_OP_dropout](&call);
  }
  for (int i = 0; i < COUNT; i++) {
    zeros += y[0][i] == 0;
    same += y[0][i] == y[1][i];
    wrong += y[0][i] != 0 && y[0][i] != 4;
  }
  /* Six standard deviations: of 4096 draws at 1/4, and at the 5/8 that two masks agree by chance. */
  ok(wrong == 0 && abs(zeros - 1024) < 167 && abs(same - 2560) < 186,
     "%s: dropout takes a quarter, scales the rest, and draws another mask for another sample", table->name);
}

/* Rows, and channels of shards, that are long or many: blocked kernels split them, and run several at a time. */
static void check_large_sums(void) {
  static const hd_op ops[] = {
      HD_OP_layer_norm,      HD_OP_layer_norm_dx,    HD_OP_layer_norm_dw, HD_OP_softmax,    HD_OP_softmax_dx,
      HD_OP_cross_entropy,   HD_OP_cross_entropy_dx, HD_OP_mse,           HD_OP_l1,         HD_OP_huber,
      HD_OP_bce_with_logits, HD_OP_batch_stats,      HD_OP_batch_norm_dw, HD_OP_shard_norm, HD_OP_shard_norm_dx};
  static const struct {
    hd_shape shape;
    int64_t rows;
    float label_smoothing;
    int32_t soft_labels;
  } list[] = {{{1, {1}}, 33, 0, 0},        {{1, {17}}, 70, 0.1f, 0},  {{1, {1000}}, 1, 0.1f, 0},
              {{1, {1000}}, 19, 0, 1},     {{1, {4113}}, 2, 0.2f, 1}, {{1, {257}}, 35, 0, 0},
              {{1, {8200}}, 1, 0, 0},      {{1, {10}}, 64, 0.3f, 1},  {{3, {33, 13, 11}}, 3, 0, 0},
              {{3, {260, 3, 5}}, 20, 0, 0}};
  int failed[TABLES] = {0};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
      hd_geom g = hd__geom_of_shape(&list[i].shape);
      const bool is_loss = ops[k] >= HD_OP_cross_entropy && ops[k] <= HD_OP_bce_with_logits_dx;
      if (is_loss && g.hi * g.wi > 1)
        continue;
      g.eps = 1e-5f;
      g.delta = 0.5f;
      g.ignore_index = i % 2 ? -100 : 0;
      g.label_smoothing = list[i].label_smoothing;
      g.soft_labels = list[i].soft_labels;
      check_shape(ops[k], &g, list[i].rows, (uint32_t)i, failed);
    }
  report(failed, "long and many sums");
}

int main(void) {
  hd_geom g;
  uint64_t before = hd__fpmode_enter();
  cuda_table_open();
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (hd__op_info(op)->class != HD_CLASS_UPDATE && hd__op_sample(&g, op, 0)) /* else the custom operation */
      check_op(op);
  check_odd_conv();
  check_odd_linear();
  check_large_linear();
  check_large_conv();
  check_large_sums();
  for (int t = 0; t < TABLES; t++)
    if (table_of(t)) {
      check_special_values(table_of(t));
      check_dropout(table_of(t));
    }
  cuda_table_close();
  hd__fpmode_leave(before);
  return done_testing();
}
