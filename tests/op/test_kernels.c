/* Every table against the reference, bit for bit, for every operation over rows: the samples of the operations, then
 * random, odd and large shapes; contents with zeros, with NaN and infinities; rows split over several calls; results
 * over inputs where that is allowed. Seeds are fixed: a failure names its case and can be run again alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_table.h"
#include "op/op.h"
#include "op/kernel_case.h"
#include "platform/fpmode.h"
#include "tap.h"

enum { CPU_TABLES = 5, TABLES = 8, MOST_OF_STAND_IN = 1000000 };

/* `make check` draws fewer shapes than `make check-all`, and that fewer than `make check-long`. The stride of odd
 * shapes is coprime to the numbers of choices in odd_shape, so that no choice is left out. */
static int random_shapes(void) { return (int[]){14, 40, 80}[check_depth() - 1]; }
static int odd_stride(void) { return (int[]){11, 7, 1}[check_depth() - 1]; }

static const char *const isas[TABLES] = {"reference", "scalar",     "avx2",       "avx512",
                                         "neon",      "cuda_plain", "cuda_small", "cuda_large"};

/* NULL: this CPU, this build or this machine lacks it. */
static bool is_cuda(int t) { return !strncmp(isas[t], "cuda", 4); }

/* With HD_GPU only the GPU is tested, as its machine is available for a short time: CPUs are tested elsewhere. */
static const hd_kernels *table_of(int t) {
  return is_cuda(t) ? cuda_table(isas[t]) : getenv("HD_GPU") ? NULL : hd__kernels_of(isas[t]);
}

/* A gradient behind a fused pool leaves zero factors out, which is only promised to change nothing while all is
 * finite. */
static bool takes_special(hd_op op) {
  hd_op layer;
  const hd_backward *backward = kernel_case_backward(&layer, op);
  bool pooled = false;
  for (int i = 0; backward && i < HD_MAX_IN; i++)
    pooled |= backward->in[i] == HD_ARG_OUT1;
  return !pooled || !hd__op_info(layer)->rule->macs;
}

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
  guarded scratch = guarded_create((size_t)hd_scratch_bytes(table, c->op, &c->g), 0);
  memcpy(memory.data, c->input[0].data, memory.bytes);
  hd_call call = {.g = &c->g, .rows = c->rows, .in = {memory.data, c->input[1].data}, .out = {memory.data}};
  call.scratch = scratch.data;
  call.draw = c->draw;
  call.in_stride[0] = call.out_stride[0] = c->in[0].stride;
  call.in_stride[1] = c->in[1].stride;
  table->run[c->op](&call);
  kernel_result got = {.output = {memory}};
  const char *wrong = !guarded_is_intact(&memory)            ? "wrote beside its output in place"
                      : !guarded_is_intact(&scratch)         ? "wrote beside its scratch in place"
                      : !kernel_results_equal(c, want, &got) ? "other bits in place"
                                                             : NULL;
  guarded_destroy(&memory);
  guarded_destroy(&scratch);
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
  guarded packed = kernel_case_pack(c, table);
  memset(memory.data, UNWRITTEN, memory.bytes);
  hd_call call = {.g = &c->g, .rows = c->rows, .out = {memory.data}, .packed = (const float *)packed.data};
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
  guarded_destroy(&packed);
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

/* Whether a table has the reference's kernel, which is checked as the reference's. */
static bool is_the_references(const hd_kernels *table, hd_op op) {
  const hd_kernels *reference = hd__kernels_reference();
  return table != reference && table->run[op] == reference->run[op] && !table->run_outputs[op] && !table->pack[op];
}

static const char *check_table(const kernel_case *c, const hd_kernels *table, const kernel_result *want) {
  if (is_the_references(table, c->op))
    return NULL;
  const char *wrong = differs(c, table, want, 1);
  if (!wrong && hd__op_info(c->op)->class == HD_CLASS_ROWS && c->rows > 1) {
    wrong = differs(c, table, want, 2);
    /* A GPU's kernel takes as long for a row as for a block of them, and one row alone is among the random shapes. */
    if (!wrong && c->rows > 2 && strncmp(table->name, "cuda", 4) != 0)
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

/* Whether table t is tried with case number `number`. The GPU's three tables run one text with launches of three
 * shapes: a stand-in's take turns, so that each sees every content, and `make check` leaves them out of large shapes;
 * a GPU, and `make check-long`, run all. */
static bool takes_case(int t, int number, int64_t macs) {
  if (!is_cuda(t) || getenv("HD_GPU") || check_depth() > 2)
    return true;
  const int turn = (number + number / 3) % (TABLES - CPU_TABLES);
  return t == CPU_TABLES + turn && (check_depth() > 1 || macs <= MOST_OF_STAND_IN);
}

/* One case: the reference once, then every table that takes it. */
static void check_case(const kernel_case *c, fill_kind fill, int failed[TABLES]) {
  static int number;
  hd_op layer;
  kernel_case_backward(&layer, c->op);
  const int64_t macs = c->rows * hd__op_macs(layer, &c->g);
  kernel_result want;
  number++;
  if (kernel_case_run(&want, c, hd__kernels_reference(), 1))
    failed[0]++;
  for (int t = 0; t < TABLES; t++) {
    const hd_kernels *table = takes_case(t, number, macs) ? table_of(t) : NULL;
    const char *wrong = table ? check_table(c, table, &want) : NULL;
    if (wrong)
      say(c, table, fill, wrong);
    failed[t] += wrong != NULL;
  }
  kernel_result_destroy(&want);
}

static void check_content(hd_op op, const hd_geom *g, int64_t rows, fill_kind fill, bool drop, uint32_t seed,
                          int failed[TABLES]) {
  kernel_case c;
  if (fill == FILL_SPECIAL && !takes_special(op))
    return;
  kernel_case_create(&c, op, g, rows, fill, drop, seed);
  check_case(&c, fill, failed);
  kernel_case_destroy(&c);
}

/* One shape with every content, with or without what may be absent. */
static void check_shape(hd_op op, const hd_geom *g, int64_t rows, uint32_t seed, int failed[TABLES]) {
  for (fill_kind fill = FILL_PLAIN; fill <= FILL_SPECIAL; fill++)
    check_content(op, g, rows, fill, ((uint32_t)fill + seed) % 2, seed, failed);
}

/* One line for each table. */
static void report(const int failed[TABLES], hd_op op, const char *what) {
  const char *name = hd__op_info(op)->name;
  for (int t = 0; t < TABLES; t++)
    if (table_of(t))
      ok(failed[t] == 0, "%s: %s%s, the reference's bits", isas[t], name, what);
    else
      skip(1, "%s: %s: %s", isas[t], name,
           is_cuda(t) ? cuda_table_lacks() : "this CPU or this build lacks it, or HD_GPU leaves it out");
}

static void check_op(hd_op op) {
  random_stream random = {.seed = 1000 + (uint32_t)op};
  int failed[TABLES] = {0};
  hd_geom g;
  for (int i = 0; hd__op_sample(&g, op, i); i++)
    for (uint32_t seed = 0; seed < 2; seed++)
      check_shape(op, &g, 1 + (int64_t)random_below(&random, 4), 2 * (uint32_t)i + seed, failed);
  for (int i = 0; i < random_shapes(); i++) {
    random_geom(&g, op, 1 << 15, &random);
    check_shape(op, &g, 1 + (int64_t)random_below(&random, 9), 100 + (uint32_t)i, failed);
  }
  report(failed, op, "");
}

/* The next of `count` choices that the number `rest` stands for; the first of a field that the operation has not. */
static int digit(int *rest, hd_op op, size_t field, int count) {
  if (!kernel_case_uses(op, field))
    return 0;
  const int chosen = *rest % count;
  *rest /= count;
  return chosen;
}

#define DIGIT(field, count) digit(&rest, op, offsetof(hd_geom, field), count)

/* Combination n of small and odd: images of one pixel, of one line, channels beside a group's. Returns whether there is
 * one. */
static bool odd_shape(hd_geom *g, hd_op op, int n) {
  static const int32_t channels[] = {1, 16, 17}, height[] = {1, 1, 5, 6}, width[] = {1, 7, 4, 6};
  static const int32_t flat_channels[] = {1, 2, 3, 5, 15, 16, 17, 31, 33, 65};
  const bool image = kernel_case_uses(op, offsetof(hd_geom, hi));
  int rest = n;
  hd__op_sample(g, op, 0);
  g->ci = image ? channels[DIGIT(ci, 3)] : flat_channels[DIGIT(ci, 10)];
  g->co = !kernel_case_uses(op, offsetof(hd_geom, co)) ? g->ci
          : image                                      ? channels[DIGIT(co, 3)]
                                                       : flat_channels[DIGIT(co, 10)];
  const int side = DIGIT(hi, 4);
  g->hi = height[side], g->wi = width[side];
  g->window.kh = 1 + DIGIT(window.kh, 3), g->window.kw = g->window.kh == 2 ? 5 : g->window.kh;
  g->window.sh = 1 + DIGIT(window.sh, 3), g->window.sw = g->window.sh == 3 ? 1 : g->window.sh;
  g->window.ph = DIGIT(window.ph, 3), g->window.pw = g->window.ph == 2 ? 1 : g->window.ph;
  g->conv.pool = 1 + DIGIT(conv.pool, 3);
  const int more = DIGIT(conv_transpose2d.output_padding, 2);
  g->conv_transpose2d.output_padding[0] = more * (g->window.sh - 1);
  g->conv_transpose2d.output_padding[1] = more * (g->window.sw - 1);
  g->relu = kernel_case_uses(op, offsetof(hd_geom, relu)) && n % 2;
  return rest == 0;
}

/* Every combination; of images one sample with zeros, of flat values every content. */
static void check_odd(hd_op op) {
  int failed[TABLES] = {0}, shapes = 0;
  hd_geom g;
  for (int n = 0; odd_shape(&g, op, n); n += odd_stride()) {
    if (!kernel_case_takes(op, &g))
      continue;
    shapes++;
    if (!kernel_case_uses(op, offsetof(hd_geom, hi))) {
      for (int i = 0; i < 3; i++)
        check_shape(op, &g, (int[]){1, 2, 7}[i], (uint32_t)(100 * i + n), failed);
      continue;
    }
    check_content(op, &g, 1, FILL_ZEROS, n / 2 % 2, (uint32_t)n, failed);
  }
  ok(shapes > 0 || !kernel_case_uses(op, offsetof(hd_geom, window.kh)), "%d odd shapes of %s", shapes,
     hd__op_info(op)->name);
  report(failed, op, ", odd shapes");
}

/* Sums that are long or many, layers of real models: blocked kernels split them, and run several at a time. */
static const struct {
  hd_geom g;
  int64_t rows;
} large[] = {
    {{.ci = 1, .hi = 28, .wi = 28, .co = 32, .window = {.kh = 3, .kw = 3}, .conv = {.pool = 2}, .relu = 1}, 2},
    {{.ci = 32, .hi = 13, .wi = 13, .co = 64, .window = {.kh = 3, .kw = 3}, .conv = {.pool = 2}, .relu = 1}, 2},
    {{.ci = 24, .hi = 12, .wi = 12, .co = 32, .window = {.kh = 3, .kw = 3}}, 2},
    {{.ci = 64, .hi = 14, .wi = 14, .co = 64, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}, .conv = {.groups = 64}},
     2},
    {{.ci = 40,
      .hi = 13,
      .wi = 9,
      .co = 40,
      .window = {.kh = 7, .kw = 7, .sh = 2, .sw = 2, .ph = 3, .pw = 3},
      .conv = {.groups = 40}},
     2},
    {{.ci = 32,
      .hi = 10,
      .wi = 10,
      .co = 64,
      .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1},
      .conv = {.groups = 4}},
     2},
    {{.ci = 65, .hi = 3, .wi = 3, .co = 16, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}}, 130},
    {{.ci = 16, .hi = 3, .wi = 3, .co = 40, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}}, 170},
    {{.ci = 80, .hi = 5, .wi = 7, .co = 70, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}, .conv = {.pool = 2}}, 2},
    {{.ci = 132, .hi = 5, .wi = 5, .co = 33, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 2}, .conv = {.pool = 2}}, 3},
    {{.ci = 50,
      .hi = 13,
      .wi = 8,
      .co = 30,
      .window = {.kh = 4, .kw = 3, .sh = 2, .sw = 1, .ph = 1},
      .conv = {.pool = 3}},
     3},
    {{.ci = 24, .hi = 7, .wi = 9, .co = 70, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}, .conv = {.pool = 2}}, 2},
    {{.ci = 17, .hi = 28, .wi = 30, .co = 12, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}, .conv = {.pool = 2}}, 2},
    {{.ci = 80, .hi = 5, .wi = 7, .co = 70, .window = {.kh = 4, .kw = 4, .sh = 2, .sw = 2, .ph = 1, .pw = 1}}, 3},
    {{.ci = 130, .hi = 3, .wi = 2, .co = 67, .window = {.kh = 2, .kw = 2, .sh = 2, .sw = 2}}, 19},
    {{.ci = 32, .hi = 19, .wi = 23, .co = 100, .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1}}, 3},
    {{.ci = 24, .hi = 33, .wi = 17, .co = 50, .window = {.kh = 3, .kw = 2, .sh = 2, .sw = 1, .ph = 1, .pw = 1}}, 2},
    {{.ci = 20, .hi = 9, .wi = 14, .co = 52, .window = {.kh = 2, .kw = 2, .sh = 2, .sw = 3}}, 9},
    {{.ci = 130, .hi = 17, .wi = 16, .co = 99, .window = {.kh = 1, .kw = 1}}, 3},
    {{.ci = 22, .hi = 1, .wi = 75, .co = 41, .window = {.kh = 1, .kw = 3, .sh = 1, .sw = 2}, .relu = 1}, 2},
    {{.ci = 48, .hi = 1, .wi = 50, .co = 144, .window = {.kh = 1, .kw = 1}}, 3},
    {{.ci = 100, .hi = 23, .wi = 13, .co = 33, .window = {.kh = 1, .kw = 1, .sh = 2, .sw = 3}}, 5},
    {{.ci = 48,
      .hi = 10,
      .wi = 13,
      .co = 96,
      .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1},
      .conv = {.groups = 2}},
     4},
    {{.ci = 64,
      .hi = 9,
      .wi = 11,
      .co = 32,
      .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1},
      .conv_transpose2d = {.output_padding = {1, 1}}},
     3},
    {{.ci = 60,
      .hi = 10,
      .wi = 6,
      .co = 48,
      .window = {.kh = 1, .kw = 1, .sh = 3, .sw = 2},
      .conv_transpose2d = {.output_padding = {2, 1}}},
     5},
    {{.ci = 33,
      .hi = 9,
      .wi = 8,
      .co = 100,
      .window = {.kh = 1, .kw = 1, .dilation = {4, 4}},
      .conv_transpose2d = {.output_padding = {1, 1}}},
     6},
    {{.ci = 160, .hi = 1, .wi = 150, .co = 80, .attention = {.heads = 4, .key_heads = 2, .causal = 1, .dropout = 0.2f}},
     2},
    {{.ci = 120, .hi = 3, .wi = 45, .co = 40, .attention = {.heads = 1, .key_heads = 1}}, 1},
    {{.ci = 1600, .co = 128}, 12},
    {{.ci = 1040, .co = 603}, 40},
    {{.ci = 784, .co = 10}, 64},
    {{.ci = 11300, .co = 53}, 17},
    {{.ci = 10300, .co = 19}, 55},
    {{.ci = 163900, .co = 5}, 13},
    {{.ci = 3, .hi = 24, .wi = 23, .co = 125, .window = {.kh = 1, .kw = 1}}, 3},
    {{.ci = 5, .hi = 4, .wi = 5, .co = 20, .window = {.kh = 2, .kw = 2}}, 33},
    {{.ci = 328, .hi = 3, .wi = 50, .co = 103, .window = {.kh = 1, .kw = 1}}, 2},
    {{.ci = 128, .co = 10}, 37},
    {{.ci = 257, .co = 100}, 131},
    {{.ci = 1}, 33},
    {{.ci = 17, .cross_entropy = {.label_smoothing = 0.1f}}, 70},
    {{.ci = 1000, .cross_entropy = {.label_smoothing = 0.1f}}, 1},
    {{.ci = 1000, .cross_entropy = {.soft_labels = 1}}, 19},
    {{.ci = 4113, .cross_entropy = {.label_smoothing = 0.2f, .soft_labels = 1}}, 2},
    {{.ci = 257}, 35},
    {{.ci = 8200}, 1},
    {{.ci = 10, .cross_entropy = {.label_smoothing = 0.3f, .soft_labels = 1}}, 64},
    {{.ci = 33, .hi = 13, .wi = 11}, 3},
    {{.ci = 260, .hi = 3, .wi = 5}, 20},
};

/* Whether the operation has what the geometry sets, and the work is not too much. */
static bool takes_large(hd_op op, hd_geom *g, int64_t rows) {
  static const size_t fields[] = {offsetof(hd_geom, co),
                                  offsetof(hd_geom, hi),
                                  offsetof(hd_geom, window.kh),
                                  offsetof(hd_geom, window.sh),
                                  offsetof(hd_geom, window.ph),
                                  offsetof(hd_geom, conv.groups),
                                  offsetof(hd_geom, conv.pool),
                                  offsetof(hd_geom, relu),
                                  offsetof(hd_geom, conv_transpose2d.output_padding),
                                  offsetof(hd_geom, attention.heads)};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (*(const int32_t *)(const void *)((const char *)g + fields[i]) && !kernel_case_uses(op, fields[i]))
      return false;
  int32_t *const one[] = {&g->hi, &g->wi, &g->window.kh, &g->window.kw, &g->window.sh, &g->window.sw, &g->conv.pool};
  for (size_t i = 0; i < sizeof one / sizeof *one; i++)
    *one[i] = *one[i] ? *one[i] : 1;
  g->co = g->co ? g->co : g->ci;
  g->window.transposed = kernel_case_uses(op, offsetof(hd_geom, window.transposed));
  hd_op layer;
  kernel_case_backward(&layer, op);
  if (!kernel_case_takes(op, g))
    return false;
  /* The reference of a norm of groups computes the mean for each channel; a single step has all weights of a state. */
  const int64_t of_group_norm =
      kernel_case_uses(op, offsetof(hd_geom, norm.groups)) ? (int64_t)g->ci * g->ci * g->hi * g->wi : 0;
  const int64_t macs = hd__op_macs(layer, g), of_state = hd__op_info(layer)->rule->macs ? (int64_t)g->ci * g->co : 0;
  return rows * (macs ? macs : of_group_norm + of_state) <= 12000000;
}

/* `make check` takes one content of each: what a blocked kernel does with zeros it does with them in small shapes. */
static void check_large(hd_op op) {
  int failed[TABLES] = {0}, shapes = 0;
  for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
    hd_geom g = large[i].g;
    if (!takes_large(op, &g, large[i].rows))
      continue;
    g.norm.eps = 1e-5f;
    g.huber.delta = 0.5f;
    g.cross_entropy.ignore_index = i % 2 ? -100 : 0;
    shapes++;
    if (check_depth() > 1)
      check_shape(op, &g, large[i].rows, (uint32_t)i, failed);
    else
      check_content(op, &g, large[i].rows, FILL_PLAIN, i % 2, (uint32_t)i, failed);
  }
  ok(shapes >= (op == HD_OP_conv2d   ? 6
                : op == HD_OP_linear ? 3
                                     : 0),
     "%d large shapes of %s", shapes, hd__op_info(op)->name);
  report(failed, op, ", large shapes");
}

/* Values in memory that every table can read, a GPU's too. */
static float *values(guarded *memory, int count) {
  *memory = guarded_create((size_t)count * sizeof(float), 0);
  memset(memory->data, 0, memory->bytes);
  return (float *)(void *)memory->data;
}

/* A NaN must reach the check at the step's end, a zero's sign must not be lost: what the reference itself is
 * held to. */
static void check_special_values(const hd_kernels *table) {
  static const float special[8] = {NAN, -1, INFINITY, -INFINITY, -0.0f, 2, NAN, 0};
  static const float image[8] = {1, NAN, 4, 4, 5, 2, 3, 4};
  guarded in, out, taken = guarded_create(64, 0);
  float *x = values(&in, 16), *y = values(&out, 16);
  hd_geom g = flat_geom(8, 8);
  hd_call call = {.g = &g, .rows = 1, .in = {x}, .out = {y}};
  memcpy(x, special, sizeof special);
  table->run[HD_OP_relu](&call);
  ok(isnan(y[0]) && y[1] == 0 && y[2] == INFINITY && y[3] == 0 && signbit(y[4]) && y[5] == 2 && isnan(y[6]),
     "%s: NaN, infinity and the zero's sign pass through relu", table->name);
  hd_geom window = {.ci = 1,
                    .hi = 2,
                    .wi = 4,
                    .co = 1,
                    .ho = 1,
                    .wo = 2,
                    .window = {.kh = 2, .kw = 2, .sh = 2, .sw = 2},
                    .conv = {.pool = 1},
                    .hp = 1,
                    .wp = 2};
  memcpy(x, image, sizeof image);
  call = (hd_call){.g = &window, .rows = 1, .in = {x}, .out = {y, taken.data}};
  table->run[HD_OP_max_pool2d](&call);
  ok(isnan(y[0]) && taken.data[0] == 1 && y[1] == 4 && taken.data[1] == 0,
     "%s: a NaN is the maximum, the first of equals is taken", table->name);
  guarded_destroy(&in);
  guarded_destroy(&out);
  guarded_destroy(&taken);
}

/* The share of zeros, what is left, and that the mask follows the sample's position. */
static void check_dropout(const hd_kernels *table) {
  enum { COUNT = 4096 };
  guarded in, out[2];
  float *x = values(&in, COUNT), *y[2] = {values(&out[0], COUNT), values(&out[1], COUNT)};
  hd_geom g = flat_geom(COUNT, COUNT);
  g.dropout.p = 0.25f;
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
  guarded_destroy(&in);
  guarded_destroy(&out[0]);
  guarded_destroy(&out[1]);
}

/* Of the numbers at `at` that a sample of the operation sets, each is copied there from a setting of model files. */
static void check_settings(hd_op op, size_t at, size_t bytes) {
  const hd_op_setting *const settings = op < HD_OP_COUNT ? hd__op_info(op)->rule->settings : NULL;
  int set = 0, copied = 0;
  if (!settings || op == HD_OP_conv_transpose2d || op == HD_OP_pad || op == HD_OP_reshape ||
      op == HD_OP_rotary) /* whose shape rules read them */
    return;
  for (size_t field = at; field < at + bytes; field += sizeof(int32_t))
    for (const hd_op_setting *s = settings; s->key && kernel_case_uses(op, field); s++)
      copied += s->geom == field;
  for (size_t field = at; field < at + bytes; field += sizeof(int32_t))
    set += kernel_case_uses(op, field);
  ok(set > 0 && set == copied, "%s: kernels get %d settings of %d", hd__op_info(op)->name, copied, set);
}

int main(void) {
  hd_geom g;
#define CHECK_SETTINGS(name) check_settings(hd__op_find(#name), offsetof(hd_geom, name), sizeof g.name);
  HD_GEOMS(CHECK_SETTINGS)
  for (int i = 0; i < 3; i++)
    check_settings((hd_op[]){HD_OP_layer_norm, HD_OP_group_norm, HD_OP_batch_norm}[i], offsetof(hd_geom, norm),
                   sizeof g.norm);
  uint64_t before = hd__fpmode_enter();
  cuda_table_open();
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (hd__op_info(op)->class != HD_CLASS_UPDATE && hd__op_sample(&g, op, 0)) { /* else the custom operation */
      check_op(op);
      if (kernel_case_uses(op, offsetof(hd_geom, concat.part))) /* its inputs' sides are those of its output */
        continue;
      check_odd(op);
      check_large(op);
    }
  for (int t = 0; t < TABLES; t++)
    if (table_of(t)) {
      check_special_values(table_of(t));
      check_dropout(table_of(t));
    }
  cuda_table_close();
  hd__fpmode_leave(before);
  return done_testing();
}
