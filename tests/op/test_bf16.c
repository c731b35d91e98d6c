/* --precision bf16: the kernels of each instruction set, and of AMX, against the reference, bit for bit, on random
 * shapes and contents, with zeros of both signs, NaN and infinities, and rows in one call or several; rounding
 * against its definition; slots that are not overridden are those of the other table. */
#include <math.h>
#include <string.h>

#include "op/op.h"
#include "kernel/bf16.h"
#include "op/kernel_case.h"
#include "platform/fpmode.h"
#include "tap.h"

static int shapes(void) { return check_depth() > 1 ? 100 : 30; }

/* Operations with kernels of their own in the table. */
static bool is_rounded(hd_op op, const hd_kernels *emulation) {
  return emulation->run[op] != hd__kernels_reference()->run[op];
}

enum { TABLES = 5 };
static const char *const isas[TABLES] = {"scalar", "avx2", "avx512", "amx", "neon"};

/* NULL: this CPU or this build lacks it. */
static const hd_kernels *table_of(int t) {
  const hd_kernels *floats = hd__kernels_of(isas[t]);
  return floats ? hd__kernels_bf16(floats, isas[t]) : NULL;
}

/* The case through the table in `cuts` calls; returns what differs from `want`. */
static const char *differs(const kernel_case *c, const hd_kernels *table, const kernel_result *want, int cuts) {
  kernel_result got;
  const char *wrong = kernel_case_run(&got, c, table, cuts);
  if (!wrong && !kernel_results_equal(c, want, &got))
    wrong = cuts == 1 ? "other bits" : "other bits when the rows come in several calls";
  kernel_result_destroy(&got);
  return wrong;
}

static bool merges(const kernel_case *c, const hd_kernels *table) {
  const hd_kernels *of = hd_kernels_for(table, c->op, &c->g);
  return of->merges[c->op] && of->merges[c->op](&c->g);
}

/* The reference once, then every table. */
static void check_case(const kernel_case *c, const hd_kernels *reference, int variant, int failed[TABLES]) {
  kernel_result want;
  random_stream random = {.seed = (uint32_t)variant};
  const char *wrong = kernel_case_run(&want, c, reference, 1);
  for (int t = 0; t < TABLES; t++) {
    const hd_kernels *table = table_of(t);
    if (!table)
      continue;
    const char *why = wrong ? wrong : differs(c, table, &want, 1);
    if (!why && c->rows > 1 && hd__op_info(c->op)->class == HD_CLASS_ROWS)
      why = differs(c, table, &want, 2);
    if (!why && merges(c, table))
      why = kernel_case_merge(c, table, &want, 1 + variant % 3, &random);
    if (why && failed[t]++ < 4) {
      char text[256];
      kernel_case_text(text, sizeof text, c, table);
      diag("%s, variant %d: %s", text, variant, why);
    }
  }
  kernel_result_destroy(&want);
}

/* Lines of whole blocks; images of which several fill a block; a depth of several runs; rows of several. */
static const struct {
  hd_geom g;
  int64_t rows;
} chosen[] = {
    {{.ci = 5, .hi = 3, .wi = 32, .co = 17, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}}, 3},
    {{.ci = 16, .hi = 2, .wi = 66, .co = 16, .window = {.kh = 3, .kw = 3, .ph = 1}}, 2},
    {{.ci = 3, .hi = 34, .wi = 34, .co = 40, .window = {.kh = 3, .kw = 3}}, 2},
    {{.ci = 33, .hi = 3, .wi = 3, .co = 35, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}}, 9},
    {{.ci = 20, .hi = 8, .wi = 8, .co = 18, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}, .conv = {.pool = 2}}, 3},
    {{.ci = 130, .hi = 4, .wi = 4, .co = 37, .window = {.kh = 5, .kw = 5, .ph = 2, .pw = 2}}, 2},
    {{.ci = 2300, .co = 20}, 70},
    {{.ci = 32, .co = 20}, 600},
    {{.ci = 33, .co = 20}, 600},
    {{.ci = 33, .hi = 8, .wi = 8, .co = 20, .window = {.kh = 1, .kw = 1}}, 9},
    {{.ci = 20, .co = 2300}, 3},
};

/* Whether the operation has what shape i sets; completes it. */
static bool choose(hd_geom *g, hd_op op, size_t i) {
  *g = chosen[i].g;
  if ((g->hi > 0) != kernel_case_uses(op, offsetof(hd_geom, hi)))
    return false;
  int32_t *const one[] = {&g->hi,        &g->wi,        &g->window.kh, &g->window.kw,
                          &g->window.sh, &g->window.sw, &g->conv.pool, &g->conv.groups};
  for (size_t k = 0; k < sizeof one / sizeof *one; k++)
    *one[k] = *one[k] ? *one[k] : 1;
  g->window.dilation[0] = g->window.dilation[1] = 1;
  return kernel_case_takes(op, g);
}

static int check_chosen(hd_op op, const hd_kernels *reference, int failed[TABLES]) {
  int cases = 0;
  hd_geom g;
  for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
    if (choose(&g, op, i)) {
      kernel_case c;
      kernel_case_create(&c, op, &g, chosen[i].rows, FILL_ZEROS, false, (uint32_t)i);
      check_case(&c, reference, (int)i, failed);
      kernel_case_destroy(&c);
      cases++;
    }
  return cases;
}

static void check_op(hd_op op, const hd_kernels *reference) {
  random_stream random = {.seed = 7000 + (uint32_t)op};
  int failed[TABLES] = {0}, cases = check_chosen(op, reference, failed);
  for (int i = 0; i < shapes(); i++) {
    hd_geom g;
    int64_t rows = 1 + (int64_t)random_below(&random, i % 10 ? 9 : 70);
    do
      random_geom(&g, op, 1 << 12, &random);
    while (hd_kernels_for(reference, op, &g) != reference); /* what stays in float */
    for (int variant = 0; variant < 6; variant++, cases++) {
      kernel_case c;
      kernel_case_create(&c, op, &g, rows, (fill_kind)(variant / 2), variant % 2, (uint32_t)i);
      check_case(&c, reference, variant, failed);
      kernel_case_destroy(&c);
    }
  }
  for (int t = 0; t < TABLES; t++)
    if (table_of(t))
      is_int(failed[t], 0, "%s: %d cases on %s have the reference's bits", hd__op_info(op)->name, cases,
             table_of(t)->name);
    else
      skip(1, "%s: this CPU or this build has no %s kernels", hd__op_info(op)->name, isas[t]);
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void check_rounding(void) {
  is_int(bf16_of(1.0f), 0x3f80, "1 stays");
  is_int(bf16_of(float_of(0x3f808000)), 0x3f80, "a tie goes to the even one below");
  is_int(bf16_of(float_of(0x3f818000)), 0x3f82, "and above");
  is_int(bf16_of(float_of(0x3f808001)), 0x3f81, "more than half goes up");
  is_int(bf16_of(float_of(0x7f7fffff)), 0x7f80, "the largest float becomes infinity");
  is_int(bf16_of(float_of(0x80000001)), 0x8000, "a denormal becomes zero and keeps its sign");
  is_int(bf16_of(float_of(0x7f800001)), 0x7fc0, "a NaN stays one");
}

/* The emulation is near the float kernels: eight bits of a factor are kept. */
static void check_nearness(hd_op op, const hd_kernels *emulation) {
  random_stream random = {.seed = 77};
  hd_geom g;
  kernel_case c;
  kernel_result exact, rounded;
  double worst = 0, largest = 0;
  do
    random_geom(&g, op, 1 << 16, &random);
  while (g.relu || hd_kernels_for(emulation, op, &g) != emulation); /* what stays in float */
  kernel_case_create(&c, op, &g, 3, FILL_PLAIN, true, 5);
  kernel_case_run(&exact, &c, hd__kernels_reference(), 1);
  kernel_case_run(&rounded, &c, emulation, 1);
  const float *a = (const float *)(const void *)exact.output[0].data;
  const float *b = (const float *)(const void *)rounded.output[0].data;
  for (int64_t k = 0; k < c.out[0].elems; k++) {
    worst = fmax(worst, fabs((double)a[k] - (double)b[k]));
    largest = fmax(largest, fabs((double)a[k]));
  }
  ok(worst > 0 && worst < 0.02 * largest, "%s: within %.4f of float's, of at most %.2f", hd__op_info(op)->name, worst,
     largest);
  kernel_result_destroy(&exact);
  kernel_result_destroy(&rounded);
  kernel_case_destroy(&c);
}

int main(void) {
  uint64_t before = hd__fpmode_enter();
  const hd_kernels *reference = hd__kernels_bf16(hd__kernels_reference(), NULL);
  check_rounding();
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (is_rounded(op, reference)) {
      check_nearness(op, reference);
      check_op(op, reference);
    }
  hd__fpmode_leave(before);
  return done_testing();
}
