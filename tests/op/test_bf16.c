/* --precision bf16: AVX512_BF16 against the reference's emulation, bit for bit, on random shapes and contents, with
 * zeros of both signs, NaN and infinities, and rows in one call or several; rounding against its definition; slots
 * that are not overridden are those of the other table. */
#include <math.h>
#include <string.h>

#include "op/op.h"
#include "kernel/bf16.h"
#include "op/kernel_case.h"
#include "platform/fpmode.h"
#include "tap.h"

enum { SHAPES = 150 };

/* Operations with kernels of their own in the table. */
static bool is_rounded(hd_op op, const hd_kernels *emulation) {
  return emulation->run[op] != hd__kernels_reference()->run[op];
}

static const char *compare(const kernel_case *c, const hd_kernels *want, const hd_kernels *fast, int cuts) {
  kernel_result a, b;
  const char *wrong = kernel_case_run(&a, c, want, 1);
  const char *other = kernel_case_run(&b, c, fast, cuts);
  if (!wrong)
    wrong = other;
  if (!wrong && !kernel_results_equal(c, &a, &b))
    wrong = "other bits";
  kernel_result_destroy(&a);
  kernel_result_destroy(&b);
  return wrong;
}

static void check_op(hd_op op, const hd_kernels *want, const hd_kernels *fast) {
  random_stream random = {7000 + (uint32_t)op, 0};
  int failed = 0, cases = 0;
  for (int i = 0; i < SHAPES; i++) {
    hd_geom g;
    int64_t rows = 1 + (int64_t)random_below(&random, i % 10 ? 9 : 70);
    random_geom(&g, op, 1 << 14, &random);
    for (int variant = 0; variant < 6; variant++, cases++) {
      kernel_case c;
      kernel_case_create(&c, op, &g, rows, (fill_kind)(variant / 2), variant % 2, (uint32_t)i);
      const char *wrong = compare(&c, want, fast, 1);
      if (!wrong && rows > 1)
        wrong = compare(&c, want, fast, 2);
      if (wrong && failed++ < 4) {
        char text[256];
        kernel_case_text(text, sizeof text, &c, fast);
        diag("%s, variant %d: %s", text, variant, wrong);
      }
      kernel_case_destroy(&c);
    }
  }
  is_int(failed, 0, "%s: %d cases on %s have the emulation's bits", hd__op_info(op)->name, cases, fast->name);
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
  random_stream random = {77, 0};
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
  const char *why = "";
  uint64_t before = hd__fpmode_enter();
  const hd_kernels *emulation = hd__kernels_bf16(hd__kernels_reference(), &why);
  const hd_kernels *wide = hd__kernels_of("avx512"), *fast = wide ? hd__kernels_bf16(wide, &why) : NULL;
  check_rounding();
  for (hd_op op = 0; op < HD_OP_COUNT; op++) {
    if (!is_rounded(op, emulation))
      continue;
    check_nearness(op, emulation);
    ok(hd__op_info(op)->class != HD_CLASS_REDUCE, "%s: weights' gradients are float's", hd__op_info(op)->name);
    if (fast)
      check_op(op, emulation, fast);
    else
      skip(1, "%s: %s", hd__op_info(op)->name, wide ? why : "no avx512 kernels");
  }
  ok(!hd__kernels_bf16(hd__kernels_of("scalar"), &why) && strstr(why, "bf16"), "other sets have none: %s", why);
  hd__fpmode_leave(before);
  return done_testing();
}
