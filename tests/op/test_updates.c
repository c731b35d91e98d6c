/* Kernels of parameters, every table against the reference bit for bit: optimizer steps, reductions over shards,
 * forming a linear layer's gradient inside a reduction, sums of squares, and the gathering of pixels. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "op/op.h"
#include "optimizer/schedule.h"
#include "op/kernel_case.h"
#include "platform/fpmode.h"
#include "tap.h"
#include "reduce/reduction_tree.h"

enum { TABLES = 6 };

static const char *const isas[TABLES] = {"reference", "scalar", "avx2", "avx512", "amx", "neon"};

static void report(const int failed[TABLES], const char *what) {
  for (int t = 0; t < TABLES; t++)
    if (hd__kernels_of(isas[t]))
      ok(failed[t] == 0, "%s: %s, the reference's bits", isas[t], what);
    else
      skip(1, "%s: this CPU or this build lacks it", isas[t]);
}

/* Nothing is aligned beyond an element: an odd place, or one that ends where memory does. */
static size_t some_skew(random_stream *random, uint32_t elem_bytes) {
  return random_below(random, 2) ? AT_THE_END : elem_bytes * random_below(random, 64 / elem_bytes);
}

static guarded some_floats(random_stream *random, int64_t count, float scale) {
  guarded memory = guarded_create((size_t)count * sizeof(float), some_skew(random, 4));
  for (int64_t i = 0; i < count; i++)
    ((float *)memory.data)[i] = scale * random_float(random);
  return memory;
}

static float *floats_of(const guarded *memory) { return (float *)memory->data; }

/* ---- optimizer steps ---- */

/* g, w, the states, and the results w1, s1. */
enum { STATE = 2, FIELDS = STATE + HD_MAX_STATES, RESULTS = 1 + HD_MAX_STATES };
typedef struct update_case {
  const hd_optimizer_rule *rule;
  uint32_t kept, squares; /* states that are kept; of them those that are never below 0 */
  int64_t count;
  hd_hyper hyper;
  guarded field[FIELDS];
} update_case;

typedef struct update_result {
  int bad;
  guarded field[RESULTS];
  guarded kept; /* w1 again */
} update_result;

/* Whether the optimizer has a field, and may have it: a state that no case keeps is none of its. */
static bool has(const update_case *c, int field) { return field < STATE || (c->kept >> (field - STATE) & 1); }

static bool is_square(const update_case *c, int field) { return field >= STATE && c->squares >> (field - STATE) & 1; }

/* Finds the states that are means of squares or the like: those without an element below 0 after some steps of the
 * reference. */
static void find_squares(update_case *c, random_stream *random) {
  enum { SOME = 64, STEPS = 3 };
  float w[2][SOME] = {{0}}, state[2][HD_MAX_STATES][SOME] = {{{0}}}, g[SOME];
  c->squares = c->kept;
  for (int t = 0; t < STEPS; t++) {
    hd_update u = {.g = g, .w = w[t % 2], .w1 = w[1 - t % 2], .count = SOME, .hyper = &c->hyper};
    for (int i = 0; i < SOME; i++)
      g[i] = random_float(random);
    for (int s = 0; s < HD_MAX_STATES; s++)
      if (has(c, STATE + s))
        u.s[s] = state[t % 2][s], u.s1[s] = state[1 - t % 2][s];
    hd__kernels_reference()->update[c->rule->op](&u);
    for (int s = 0; s < HD_MAX_STATES; s++)
      for (int i = 0; i < SOME; i++)
        c->squares &= state[1 - t % 2][s][i] < 0 ? ~(1u << s) : ~0u;
  }
}

/* The scalars of a step of some run, by the rule, and the states that the run keeps. */
static update_case random_step(const hd_optimizer_rule *rule, random_stream *random) {
  update_case c = {.rule = rule};
  hd_update_settings settings;
  hd_schedule schedule;
  hd__update_settings_clear(&settings);
  for (int i = 0; hd__optimizer_at(i); i++)
    if (hd__optimizer_at(i) == rule)
      settings.value[HD_SET_optimizer] = i;
  for (const hd_update_setting *s = hd__update_settings; s->name; s++)
    if (s->kind == HD_UPDATE_FLAG)
      settings.value[s->value] = random_below(random, 2);
  settings.value[HD_SET_lr] = 0.05 * (1 + (double)random_float(random));
  settings.value[HD_SET_weight_decay] = random_below(random, 2) ? 0 : 0.01;
  settings.value[HD_SET_momentum] = random_below(random, 2) || rule->matrices ? 0.9 : 0;
  hd__schedule_init(&schedule, NULL, &settings, 1000, 100); /* cannot fail */
  hd__schedule_hyper(&c.hyper, &schedule, random_below(random, 100));
  c.hyper.grad_scale = random_below(random, 2) ? 1 : 0.37f;
  c.kept = hd__optimizer_kept(rule, &schedule.settings);
  find_squares(&c, random);
  return c;
}

static update_case random_update(const hd_optimizer_rule *rule, random_stream *random, int64_t count) {
  update_case c = random_step(rule, random);
  c.count = count;
  for (int f = 0; f < FIELDS; f++)
    c.field[f] = some_floats(random, count, 1);
  for (int64_t i = 0; i < count; i++) {
    for (int f = STATE; f < FIELDS; f++)
      if (is_square(&c, f))
        floats_of(&c.field[f])[i] = fabsf(floats_of(&c.field[f])[i]);
    if (!random_below(random, 9)) /* a weight that never had a gradient */
      for (int f = 0; f < FIELDS; f++)
        floats_of(&c.field[f])[i] = f == 1 ? floats_of(&c.field[f])[i] : 0;
  }
  return c;
}

static update_result run_update(const update_case *c, const hd_kernels *table, uint32_t seed) {
  update_result r;
  random_stream random = {.seed = seed};
  const bool alike = random_below(&random, 2); /* results whose lines begin at the same elements may be streamed */
  const size_t skew = some_skew(&random, 4);
  for (int f = 0; f < RESULTS; f++)
    r.field[f] = guarded_create((size_t)c->count * sizeof(float), alike ? skew : some_skew(&random, 4));
  hd_update u = {.g = floats_of(&c->field[0]),
                 .w = floats_of(&c->field[1]),
                 .w1 = floats_of(&r.field[0]),
                 .count = c->count,
                 .hyper = &c->hyper,
                 .streams = (hd_streams)random_below(&random, 3)};
  r.kept = guarded_create((size_t)c->count * sizeof(float), some_skew(&random, 4));
  u.kept = floats_of(&r.kept);
  if (random_below(&random, 2)) /* in the gradient's place */
    u.g = memcpy(r.kept.data, c->field[0].data, r.kept.bytes);
  for (int s = 0; s < HD_MAX_STATES; s++)
    if (has(c, STATE + s))
      u.s[s] = floats_of(&c->field[STATE + s]), u.s1[s] = floats_of(&r.field[1 + s]);
  r.bad = table->update[c->rule->op](&u);
  return r;
}

static bool is_kept(const update_result *r) {
  return !memcmp(r->kept.data, r->field[0].data, r->kept.bytes) && guarded_is_intact(&r->kept);
}

static bool updates_agree(const update_case *c, const update_result *a, const update_result *b) {
  for (int f = 0; f < RESULTS; f++) {
    if (has(c, 1 + f) && !floats_equal(floats_of(&a->field[f]), floats_of(&b->field[f]), c->count))
      return false;
    if (!guarded_is_intact(&a->field[f]) || !guarded_is_intact(&b->field[f]))
      return false;
  }
  return a->bad == b->bad && is_kept(a) && is_kept(b);
}

static void destroy_fields(guarded *field, int count) {
  for (int f = 0; f < count; f++)
    guarded_destroy(&field[f]);
}

static void destroy_result(update_result *r) {
  destroy_fields(r->field, RESULTS);
  guarded_destroy(&r->kept);
}

static void compare_update(const update_case *c, int failed[TABLES], uint32_t seed, int expected_bad) {
  update_result want = run_update(c, hd__kernels_reference(), 0);
  for (int t = 0; t < TABLES; t++) {
    const hd_kernels *table = hd__kernels_of(isas[t]);
    if (!table)
      continue;
    update_result got = run_update(c, table, seed);
    failed[t] += !updates_agree(c, &want, &got) || got.bad != expected_bad;
    destroy_result(&got);
  }
  destroy_result(&want);
}

/* Adam's quotient of a root and the bias correction alone: w1 is its reciprocal. Divisors with the largest significand,
 * random ones, and some so small that their reciprocals are not used. */
static void check_quotients(const hd_optimizer_rule *rule, random_stream *random, int failed[TABLES]) {
  static const float divisors[] = {
      0x1.fffffep-1f, 0x1.fffffcp-1f, 0x1.fffffep-4f, 0x1p-5f, 1, 1e-3f, 1e-7f, 0, 0, 0, 0};
  for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
    update_case c = random_update(rule, random, 20000);
    c.hyper = (hd_hyper){.grad_scale = 1, .decay_keep = 1, .beta2 = 1, .step_size = -1};
    c.hyper.sqrt_bias2 = divisors[i] > 0 ? divisors[i] : 0.01f + 0.99f * fabsf(random_float(random));
    for (int64_t j = 0; j < c.count; j++) {
      floats_of(&c.field[0])[j] = floats_of(&c.field[1])[j] = 0;
      floats_of(&c.field[STATE])[j] = 1;
      floats_of(&c.field[STATE + 1])[j] = 2.5f + 1.5f * random_float(random);
    }
    compare_update(&c, failed, (uint32_t)i, 0);
    destroy_fields(c.field, FIELDS);
  }
}

static void check_update(const hd_optimizer_rule *rule) {
  static const int64_t counts[] = {1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 511, 1000};
  random_stream random = {.seed = (uint32_t)rule->op};
  int failed[TABLES] = {0};
  for (size_t i = 0; i < 5 * sizeof counts / sizeof *counts; i++) {
    update_case c = random_update(rule, &random, counts[i % (sizeof counts / sizeof *counts)]);
    compare_update(&c, failed, (uint32_t)i, 0);
    destroy_fields(c.field, FIELDS);
  }
  if (rule->op == HD_OP_adam || rule->op == HD_OP_adamw)
    check_quotients(rule, &random, failed);
  report(failed, rule->name);
}

/* Wherever one value is not finite, or the result overflows, the step returns 1, and only then. */
static void check_not_finite(const hd_optimizer_rule *rule) {
  static const float values[] = {NAN, INFINITY, -INFINITY};
  random_stream random = {.seed = 40 + (uint32_t)rule->op};
  int failed[TABLES] = {0};
  for (int field = 0; field < FIELDS; field++)
    for (int64_t count = 1; count < 70; count += 11)
      for (int64_t at = 0; at < count; at += 1 + count / 5) {
        update_case c = random_update(rule, &random, count);
        const bool reads = !(field == 1 && rule->matrices); /* it reads no weight: the phases of matrices do */
        if (reads && has(&c, field)) {
          floats_of(&c.field[field])[at] = values[random_below(&random, is_square(&c, field) ? 2 : 3)];
          compare_update(&c, failed, 0, 1);
        }
        destroy_fields(c.field, FIELDS);
      }
  update_case huge = random_update(rule, &random, 40);
  huge.hyper.step_size = huge.hyper.lr = huge.hyper.decay_keep = huge.hyper.gradient_step = 3e38f;
  huge.hyper.sqrt_bias2 = 1000;
  for (int i = 0; i < 40; i++)
    floats_of(&huge.field[0])[i] = floats_of(&huge.field[1])[i] = 9;
  if (!rule->matrices) /* whose learning rate is that of the matrix */
    compare_update(&huge, failed, 0, 1);
  destroy_fields(huge.field, FIELDS);
  char what[64];
  snprintf(what, sizeof what, "%s finds what is not finite", rule->name);
  report(failed, what);
}

/* ---- reductions and forms ---- */

/* A batch part of random size: empty shards where samples are few. */
static hd_reduction random_reduction(random_stream *random, uint32_t most, int32_t *rows) {
  int32_t shards = 1 << random_below(random, 6), samples = 1 + (int32_t)random_below(random, most);
  hd_micro_batch part = hd__tree_micro_batch(samples, shards, 1, 0);
  hd_range_plan plan;
  hd__tree_range(&plan, &part, 0, shards);
  *rows = samples;
  return plan.pushes;
}

static void check_fold(void) {
  random_stream random = {.seed = 7};
  int failed[TABLES] = {0};
  for (int trial = 0; trial < 200; trial++) {
    int32_t rows;
    hd_reduction reduction = random_reduction(&random, 70, &rows);
    int64_t count = 1 + random_below(&random, trial % 5 ? 80 : 700);
    guarded memory[HD_MAX_SHARDS], want = guarded_create((size_t)count * 4, 0);
    const float *term[HD_MAX_SHARDS] = {0};
    for (int p = 0; p < HD_MAX_SHARDS; p++)
      memory[p] = (guarded){0};
    for (int s = 0; s < reduction.count; s++) {
      int p = reduction.step[s].term;
      memory[p] = some_floats(&random, count, 1);
      term[p] = floats_of(&memory[p]);
    }
    hd__kernels_reference()->reduce(floats_of(&want), term, &reduction, count);
    for (int t = 0; t < TABLES; t++) {
      const hd_kernels *table = hd__kernels_of(isas[t]);
      if (!table)
        continue;
      guarded got = guarded_create((size_t)count * 4, some_skew(&random, 4));
      table->reduce(floats_of(&got), term, &reduction, count);
      failed[t] += !floats_equal(floats_of(&want), floats_of(&got), count) || !guarded_is_intact(&got);
      guarded_destroy(&got);
    }
    guarded_destroy(&want);
    destroy_fields(memory, HD_MAX_SHARDS);
  }
  report(failed, "reduction");
}

/* A reduction of one term may work in place. */
static void check_fold_in_place(void) {
  random_stream random = {.seed = 8};
  int failed[TABLES] = {0};
  hd_reduction one = {.count = 1, .step = {{0, 1, 0, 0}}};
  for (int t = 0; t < TABLES; t++) {
    const hd_kernels *table = hd__kernels_of(isas[t]);
    if (!table)
      continue;
    guarded x = some_floats(&random, 45, 1), copy = guarded_create(x.bytes, 0);
    memcpy(copy.data, x.data, x.bytes);
    const float *term[1] = {floats_of(&x)};
    table->reduce(floats_of(&x), term, &one, 45);
    failed[t] = !floats_equal(floats_of(&x), floats_of(&copy), 45) || !guarded_is_intact(&x);
    guarded_destroy(&x);
    guarded_destroy(&copy);
  }
  report(failed, "reduction of one term, in place");
}

enum { MOST_INPUTS = 1300 };

/* Activations of one layer over a batch part. */
typedef struct form_case {
  hd_op op;
  hd_geom g;
  hd_reduction reduction;
  int32_t rows;
  int64_t x_stride, dy_stride;
  guarded x, dy;
} form_case;

/* A number of x: of an input that is zero in all samples, one of `zeros` percent of zeros, a denormal, a small one, or
 * another. */
static float random_input(random_stream *random, bool idle, uint32_t zeros) {
  if (idle || random_below(random, 100) < zeros)
    return (float[]){0.0f, -0.0f}[random_below(random, 2)];
  return random_below(random, 50) ? random_float(random) : (float[]){1e-40f, 1e-20f, -1e-19f}[random_below(random, 3)];
}

/* A number of dy: zero, one whose product with a small x underflows, or another. */
static float random_slope(random_stream *random) {
  if (random_below(random, 3) == 0)
    return 0;
  return random_below(random, 10) ? random_float(random) : 1e-19f * random_float(random);
}

static form_case random_form(hd_op op, random_stream *random, int32_t in, int32_t out) {
  form_case c = {.op = op, .g = flat_geom(in, out)};
  hd_geom sample;
  c.g.window.dilation[0] = c.g.window.dilation[1] = c.g.conv.groups = 1;
  hd__op_sample(&sample, op, (int)random_below(random, 4));
  c.g.shifted_linear.shift = sample.shifted_linear.shift;
  const uint32_t zeros = random_below(random, 101), idle = random_below(random, 101); /* percent of x, of inputs */
  bool is_idle[MOST_INPUTS];
  for (int k = 0; k < in; k++)
    is_idle[k] = random_below(random, 100) < idle;
  c.reduction = random_reduction(random, random_below(random, 20) ? 70 : 1200, &c.rows);
  c.x_stride = (in + 15) / 16 * 16;
  c.dy_stride = (out + 15) / 16 * 16;
  c.x = guarded_create((size_t)(c.rows * c.x_stride) * 4, 0);
  c.dy = guarded_create((size_t)(c.rows * c.dy_stride) * 4, 0);
  for (int64_t i = 0; i < c.rows * c.x_stride; i++)
    floats_of(&c.x)[i] = i % c.x_stride < in ? random_input(random, is_idle[i % c.x_stride], zeros) : NAN;
  for (int64_t i = 0; i < c.rows * c.dy_stride; i++)
    floats_of(&c.dy)[i] = i % c.dy_stride >= out ? NAN : random_slope(random);
  return c;
}

/* A convolution without groups and dilation; by tiles or not. */
static form_case random_conv_form(random_stream *random) {
  static const int32_t channels[] = {1, 3, 16, 17, 31, 32, 48, 70, 96, 150};
  const int32_t in = channels[random_below(random, 10)], out = channels[random_below(random, 9)];
  form_case c = {.op = HD_OP_conv2d_dw};
  do {
    const int32_t kernel = 1 + (int32_t)random_below(random, 5), stride = random_below(random, 3) ? 1 : 2;
    c.g = (hd_geom){.ci = in,
                    .hi = 1 + (int32_t)random_below(random, 7),
                    .wi = 1 + (int32_t)random_below(random, 7),
                    .co = out,
                    .window = {.kh = kernel,
                               .kw = random_below(random, 4) ? kernel : 2,
                               .sh = stride,
                               .sw = stride,
                               .ph = (int32_t)random_below(random, 3),
                               .pw = (int32_t)random_below(random, 3)},
                    .conv = {.pool = 1}};
  } while (!kernel_case_takes(HD_OP_conv2d_dw, &c.g) || hd__op_macs(HD_OP_conv2d, &c.g) > 40000);
  c.reduction = random_reduction(random, 70, &c.rows);
  c.x_stride = (in * c.g.hi * c.g.wi + 15) / 16 * 16;
  c.dy_stride = (out * c.g.hp * c.g.wp + 15) / 16 * 16;
  c.x = some_floats(random, c.rows * c.x_stride, 1);
  c.dy = some_floats(random, c.rows * c.dy_stride, 1);
  for (int64_t i = 0; i < c.rows * c.dy_stride; i++)
    if (!random_below(random, 3))
      floats_of(&c.dy)[i] = 0;
  return c;
}

static int64_t weights_of(const hd_geom *g) { return (int64_t)g->co * hd_form_taps(g, 0) * g->ci; }

/* The whole gradient as REDUCE sums shard by shard and the reduction of these: weights, then biases. */
static guarded reduce_and_fold(const form_case *c, const hd_kernels *table) {
  int64_t weights = weights_of(&c->g), all = (weights + c->g.co + 31) / 16 * 16;
  guarded sum = guarded_create((size_t)all * 4, 0), memory[HD_MAX_SHARDS] = {{0}};
  const float *dw[HD_MAX_SHARDS], *db[HD_MAX_SHARDS];
  for (int s = 0; s < c->reduction.count; s++) {
    const hd_reduction_step *step = &c->reduction.step[s];
    guarded *m = &memory[step->term];
    *m = guarded_create((size_t)((weights + 15) / 16 * 16 + (c->g.co + 15) / 16 * 16) * 4, 0);
    float *bias = floats_of(m) + (weights + 15) / 16 * 16;
    hd_call call = {.g = &c->g, .rows = step->row1 - step->row0};
    call.in[0] = floats_of(&c->x) + step->row0 * c->x_stride;
    call.in[1] = floats_of(&c->dy) + step->row0 * c->dy_stride;
    call.in_stride[0] = c->x_stride;
    call.in_stride[1] = c->dy_stride;
    call.out[0] = floats_of(m);
    call.out[1] = bias;
    guarded scratch = guarded_create((size_t)hd_scratch_bytes(table, c->op, &c->g), 0);
    call.scratch = scratch.data;
    hd_kernels_for(table, c->op, &c->g)->run[c->op](&call);
    guarded_destroy(&scratch);
    dw[step->term] = floats_of(m);
    db[step->term] = bias;
  }
  table->reduce(floats_of(&sum), dw, &c->reduction, weights);
  table->reduce(floats_of(&sum) + weights, db, &c->reduction, c->g.co);
  destroy_fields(memory, HD_MAX_SHARDS);
  return sum;
}

/* A random rectangle; that of a convolution has few columns. */
static hd_form random_rectangle(const form_case *c, random_stream *random) {
  hd_form f = {.g = &c->g,
               .x = floats_of(&c->x),
               .dy = floats_of(&c->dy),
               .x_stride = c->x_stride,
               .dy_stride = c->dy_stride,
               .reduction = &c->reduction};
  f.output = !random_below(random, 4);
  f.j0 = (int32_t)random_below(random, (uint32_t)c->g.co);
  f.j1 = f.j0 + 1 + (int32_t)random_below(random, (uint32_t)(c->g.co - f.j0));
  f.k0 = f.output ? 0 : (int32_t)random_below(random, (uint32_t)c->g.ci) / 16 * 16;
  f.k1 = f.output ? 1 : f.k0 + 1 + (int32_t)random_below(random, (uint32_t)(c->g.ci - f.k0));
  if (c->op == HD_OP_conv2d_dw && f.k1 > f.k0 + HD_FORM_CHANNELS)
    f.k1 = f.k0 + HD_FORM_CHANNELS;
  f.out_ld = f.output ? 1 : f.k1 - f.k0 + random_below(random, 20);
  return f;
}

/* Forms one random rectangle, in one or two calls, and compares it with the whole gradient. */
static bool forms_alike(const form_case *c, const hd_kernels *table, const guarded *whole, random_stream *random) {
  hd_form f = random_rectangle(c, random);
  const int64_t width = f.k1 - f.k0, taps = hd_form_taps(&c->g, f.output), rows = taps * (f.j1 - f.j0);
  guarded out = guarded_create((size_t)((rows - 1) * f.out_ld + width) * 4, AT_THE_END);
  guarded scratch = guarded_create((size_t)hd_form_scratch_bytes(table, c->op, &c->g, c->rows), 0);
  f.scratch = scratch.data;
  const int32_t end = f.j1, cut = f.j0 + (int32_t)random_below(random, (uint32_t)(end - f.j0));
  f.out = floats_of(&out);
  f.j1 = cut > f.j0 ? cut : end;
  table->form[c->op](&f);
  for (hd_form rest = f; rest.j1 < end;) {
    rest = f;
    rest.out += (cut - f.j0) * taps * f.out_ld;
    rest.j0 = cut, rest.j1 = end, rest.again = 1;
    table->form[c->op](&rest);
  }
  bool alike = guarded_is_intact(&out) && guarded_is_intact(&scratch);
  for (int64_t row = 0; row < rows; row++) {
    const float *want =
        floats_of(whole) + (f.output ? weights_of(&c->g) + f.j0 + row : (f.j0 * taps + row) * c->g.ci + f.k0);
    alike &= floats_equal(want, f.out + row * f.out_ld, width);
  }
  guarded_destroy(&out);
  guarded_destroy(&scratch);
  return alike;
}

/* The table of floats or of bfloat16; NULL: this CPU or this build lacks it. */
static const hd_kernels *table_of(const char *isa, bool bf16) {
  const hd_kernels *floats = hd__kernels_of(isa);
  return floats && bf16 ? hd__kernels_bf16(floats, isa) : floats;
}

/* One case through every table; counts failures. */
static void check_form_case(form_case *c, bool bf16, random_stream *random, int failed[TABLES]) {
  guarded whole = reduce_and_fold(c, table_of("reference", bf16));
  for (int t = 0; t < TABLES; t++) {
    const hd_kernels *table = table_of(isas[t], bf16);
    if (!table || !table->form[c->op])
      continue;
    guarded own = reduce_and_fold(c, table);
    failed[t] += !floats_equal(floats_of(&whole), floats_of(&own), weights_of(&c->g) + c->g.co);
    for (int i = 0; i < 4; i++)
      failed[t] += !forms_alike(c, table, &whole, random);
    guarded_destroy(&own);
  }
  guarded_destroy(&whole);
  guarded_destroy(&c->x);
  guarded_destroy(&c->dy);
}

static void check_form(hd_op op, bool bf16) {
  random_stream random = {.seed = 9};
  int failed[TABLES] = {0};
  for (int trial = 0; trial < 60; trial++) {
    int32_t in = 1 + (int32_t)random_below(&random, trial % 6 ? 70 : MOST_INPUTS),
            out = 1 + (int32_t)random_below(&random, trial % 5 ? 40 : 200);
    form_case c = random_form(op, &random, in, out);
    check_form_case(&c, bf16, &random, failed);
  }
  report(failed,
         bf16 ? "form of bfloat16 equals the reduced sums of shards" : "form equals the reduced sums of shards");
}

/* Shards of 64 and 65 samples whose sums underflow to -0 in their last block: another block, of zeros, which only the
 * longer one has, would make it +0. */
static void check_form_of_zeros(void) {
  random_stream random = {.seed = 12};
  int failed[TABLES] = {0};
  form_case c = {.op = HD_OP_linear_dw, .g = flat_geom(20, 3), .rows = 129, .x_stride = 32, .dy_stride = 16};
  hd_micro_batch part = hd__tree_micro_batch(c.rows, 2, 1, 0);
  hd_range_plan plan;
  hd__tree_range(&plan, &part, 0, 2);
  c.reduction = plan.pushes;
  c.x = guarded_create((size_t)(c.rows * c.x_stride) * 4, 0);
  c.dy = guarded_create((size_t)(c.rows * c.dy_stride) * 4, 0);
  memset(c.x.data, 0, c.x.bytes);
  for (int64_t i = 0; i < c.rows * c.dy_stride; i++)
    floats_of(&c.dy)[i] = 1;
  for (const hd_reduction_step *s = c.reduction.step; s < c.reduction.step + c.reduction.count; s++)
    for (int k = 0; k < c.g.ci; k++) {
      const int64_t last = s->row0 + (s->row1 - s->row0 - 1) / 32 * 32;
      floats_of(&c.x)[(last - 32) * c.x_stride + k] = -0x1.8p-126f;
      floats_of(&c.x)[last * c.x_stride + k] = 0x1p-126f;
    }
  check_form_case(&c, true, &random, failed);
  report(failed, "form of bfloat16 of shards that sum to -0");
}

static void check_conv_form(void) {
  random_stream random = {.seed = 11};
  int failed[TABLES] = {0};
  for (int trial = 0; trial < 80 * check_depth(); trial++) {
    form_case c = random_conv_form(&random);
    check_form_case(&c, false, &random, failed);
  }
  report(failed, "form of convolutions equals the reduced sums of shards");
}

/* ---- sums of squares, pixels ---- */

static void check_sum_squares(void) {
  random_stream random = {.seed = 10};
  int failed[TABLES] = {0};
  for (int64_t count = 0; count < 200; count++) {
    guarded x = some_floats(&random, count, 1000);
    double want = hd__kernels_reference()->sum_squares(floats_of(&x), count);
    for (int t = 0; t < TABLES; t++) {
      const hd_kernels *table = hd__kernels_of(isas[t]);
      double got = table ? table->sum_squares(floats_of(&x), count) : want;
      failed[t] += memcmp(&got, &want, sizeof got) != 0;
    }
    guarded_destroy(&x);
  }
  report(failed, "sum of squares");
}

static void check_average(void) {
  random_stream random = {.seed = 13};
  int failed[TABLES] = {0};
  for (int64_t count = 0; count < 100; count++) {
    guarded x = some_floats(&random, count, 1), old = some_floats(&random, count, 1);
    guarded want = guarded_create((size_t)count * 4, 0);
    const float share = random_float(&random);
    hd__kernels_reference()->average(floats_of(&want), floats_of(&old), floats_of(&x), share, count);
    for (int t = 0; t < TABLES; t++) {
      const hd_kernels *table = hd__kernels_of(isas[t]);
      if (!table)
        continue;
      guarded got = guarded_create(want.bytes, AT_THE_END);
      table->average(floats_of(&got), floats_of(&old), floats_of(&x), share, count);
      failed[t] += !floats_equal(floats_of(&want), floats_of(&got), count) || !guarded_is_intact(&got);
      guarded_destroy(&got);
    }
    guarded_destroy(&want);
    guarded_destroy(&old);
    guarded_destroy(&x);
  }
  report(failed, "averages of weights");
}

static void check_gather(void) {
  random_stream random = {.seed = 11};
  int failed[TABLES] = {0};
  for (int trial = 0; trial < 80; trial++) {
    int64_t plane = 1 + random_below(&random, trial % 4 ? 70 : 1100);
    int32_t channels = trial % 2 ? 1 : 1 + (int32_t)random_below(&random, 4);
    float scale[4], shift[4];
    guarded pixels = guarded_create((size_t)(plane * channels), some_skew(&random, 1)),
            want = guarded_create((size_t)(plane * channels) * 4, 0);
    for (int64_t i = 0; i < plane * channels; i++)
      pixels.data[i] = (unsigned char)random_below(&random, 256);
    for (int c = 0; c < 4; c++)
      scale[c] = random_float(&random), shift[c] = random_float(&random);
    hd__kernels_reference()->gather_u8(floats_of(&want), pixels.data, plane, channels, scale, shift);
    for (int t = 0; t < TABLES; t++) {
      const hd_kernels *table = hd__kernels_of(isas[t]);
      if (!table)
        continue;
      guarded got = guarded_create(want.bytes, AT_THE_END);
      table->gather_u8(floats_of(&got), pixels.data, plane, channels, scale, shift);
      failed[t] += !floats_equal(floats_of(&want), floats_of(&got), plane * channels) || !guarded_is_intact(&got);
      guarded_destroy(&got);
    }
    guarded_destroy(&pixels);
    guarded_destroy(&want);
  }
  report(failed, "gathered pixels");
}

static void check_gather_floats(void) {
  random_stream random = {.seed = 12};
  int failed[TABLES] = {0};
  for (int trial = 0; trial < 40; trial++) {
    int64_t plane = 1 + random_below(&random, trial % 4 ? 70 : 1100);
    int32_t channels = trial % 2 ? 1 : 1 + (int32_t)random_below(&random, 4);
    size_t bytes = (size_t)(plane * channels) * 4;
    float scale[4], shift[4];
    guarded numbers = guarded_create(bytes, 4 * random_below(&random, 16)), want = guarded_create(bytes, 0);
    for (int64_t i = 0; i < plane * channels; i++)
      floats_of(&numbers)[i] = random_float(&random);
    for (int c = 0; c < 4; c++)
      scale[c] = random_float(&random), shift[c] = random_float(&random);
    hd__kernels_reference()->gather_f32(floats_of(&want), floats_of(&numbers), plane, channels, scale, shift);
    for (int t = 0; t < TABLES; t++) {
      const hd_kernels *table = hd__kernels_of(isas[t]);
      if (!table)
        continue;
      guarded got = guarded_create(want.bytes, 0);
      table->gather_f32(floats_of(&got), floats_of(&numbers), plane, channels, scale, shift);
      failed[t] += !floats_equal(floats_of(&want), floats_of(&got), plane * channels) || !guarded_is_intact(&got);
      guarded_destroy(&got);
    }
    guarded_destroy(&numbers);
    guarded_destroy(&want);
  }
  report(failed, "gathered floats");
}

int main(void) {
  uint64_t before = hd__fpmode_enter();
  for (int i = 0; hd__optimizer_at(i); i++) {
    check_update(hd__optimizer_at(i));
    check_not_finite(hd__optimizer_at(i));
  }
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (hd__kernels_reference()->form[op])
      check_form(op, false);
  check_form(HD_OP_linear_dw, true);
  check_form_of_zeros();
  check_conv_form();
  check_fold();
  check_fold_in_place();
  check_sum_squares();
  check_average();
  check_gather();
  check_gather_floats();
  hd__fpmode_leave(before);
  return done_testing();
}
