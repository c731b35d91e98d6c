/* Kernels over plain arrays of floats, every table against the reference bit for bit: counts of none, of a few, of
 * whole groups and beside them, zeros of both signs, NaN, infinities and denormals, arrays at odd places that end where
 * memory does; and statistics merged by Chan's formula. */
#include <math.h>
#include <string.h>

#include "op/kernel_case.h"
#include "platform/fpmode.h"
#include "tap.h"

enum { TABLES = 5, COUNTS = 100 };

static const char *const isas[TABLES] = {"reference", "scalar", "avx2", "avx512", "neon"};

/* Every count up to COUNTS - 1, then longer ones. */
static int64_t count_of(int trial, random_stream *random) {
  return trial < COUNTS ? trial : 1 + (int64_t)random_below(random, HD_ARRAY_BLOCK);
}

static guarded some_floats(random_stream *random, int64_t count) {
  static const float special[] = {NAN, INFINITY, -INFINITY, 3e38f, 0.0f, -0.0f, 1e-40f, -1e-40f};
  const size_t skew = random_below(random, 2) ? AT_THE_END : 4 * random_below(random, 16);
  guarded memory = guarded_create((size_t)count * sizeof(float), skew);
  const uint32_t rare = random_below(random, 2) ? 5 : 1000000;
  for (int64_t i = 0; i < count; i++) {
    float x = random_below(random, rare) ? 8 * random_float(random) : special[random_below(random, 8)];
    memcpy(memory.data + 4 * i, &x, sizeof x);
  }
  return memory;
}

static float *floats_of(const guarded *memory) { return (float *)(void *)memory->data; }

/* The inputs of one use of a table, which gives `elems` floats. */
typedef struct array_case {
  guarded a, b;
  int64_t count, stride, width;
  int which;
  int64_t elems;
} array_case;

typedef void array_fn(float *out, const array_case *c, const hd_array_kernels *array);

static void run_unary(float *out, const array_case *c, const hd_array_kernels *array) {
  array->unary[c->which][HD_F32](out, c->a.data, c->count);
}

static void run_binary(float *out, const array_case *c, const hd_array_kernels *array) {
  array->binary[c->which][HD_F32](out, c->a.data, c->b.data, c->count);
}

static void run_sum(float *out, const array_case *c, const hd_array_kernels *array) {
  out[0] = array->sum[HD_F32](c->a.data, c->count).f;
}

static void run_sum_columns(float *out, const array_case *c, const hd_array_kernels *array) {
  array->sum_columns(out, floats_of(&c->a), c->count, c->stride, c->width);
}

static void run_find(float *out, const array_case *c, const hd_array_kernels *array) {
  out[0] = (float)array->find[c->which][HD_F32](c->a.data, c->count);
}

/* Runs a case through all tables and gives its inputs back. */
static void check_case(array_case *c, array_fn *run, int failed[TABLES]) {
  guarded want = guarded_create((size_t)c->elems * sizeof(float), 0);
  run(floats_of(&want), c, &hd__kernels_reference()->array);
  for (int t = 0; t < TABLES; t++) {
    const hd_kernels *table = hd__kernels_of(isas[t]);
    if (!table)
      continue;
    guarded got = guarded_create(want.bytes, AT_THE_END);
    run(floats_of(&got), c, &table->array);
    failed[t] += !floats_equal(floats_of(&want), floats_of(&got), c->elems) || !guarded_is_intact(&got) ||
                 !guarded_is_intact(&want);
    guarded_destroy(&got);
  }
  guarded_destroy(&want);
  guarded_destroy(&c->a);
  guarded_destroy(&c->b);
}

static void report(const int failed[TABLES], const char *what, int which) {
  for (int t = 0; t < TABLES; t++)
    if (hd__kernels_of(isas[t]))
      ok(failed[t] == 0, "%s: %s %d, the reference's bits", isas[t], what, which);
    else
      skip(1, "%s: this CPU or this build lacks it", isas[t]);
}

/* A kernel that gives a result for each element, or one for all. */
static void check_array(array_fn *run, const char *what, int which, bool one_result, int fewest) {
  random_stream random = {.seed = (uint32_t)(100 + which)};
  int failed[TABLES] = {0};
  for (int trial = fewest; trial < 2 * COUNTS; trial++) {
    array_case c = {.count = count_of(trial, &random), .which = which};
    c.elems = one_result ? 1 : c.count;
    c.a = some_floats(&random, c.count);
    c.b = some_floats(&random, c.count);
    check_case(&c, run, failed);
  }
  report(failed, what, which);
}

static void check_sum_columns(void) {
  random_stream random = {.seed = 50};
  int failed[TABLES] = {0};
  for (int trial = 0; trial < 2 * COUNTS; trial++) {
    array_case c = {.count = 1 + random_below(&random, 70), .width = trial < COUNTS ? 1 + trial : 130};
    c.stride = c.width + random_below(&random, 5);
    c.elems = c.width;
    c.a = some_floats(&random, (c.count - 1) * c.stride + c.width);
    check_case(&c, run_sum_columns, failed);
  }
  report(failed, "sums of columns", 0);
}

/* What merge_stats makes of the left range's mean and m2. */
static bool merges_alike(const hd_kernels *table, const guarded left[2], const guarded right[2], float share,
                         float both) {
  const int64_t count = (int64_t)(left[0].bytes / sizeof(float));
  const hd_kernels *tables[2] = {hd__kernels_reference(), table};
  guarded result[2][2];
  bool alike = true;
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 2; i++) {
      result[k][i] = guarded_create(left[i].bytes, AT_THE_END);
      memcpy(result[k][i].data, left[i].data, left[i].bytes);
    }
    tables[k]->merge_stats((hd_stats){floats_of(&result[k][0]), floats_of(&result[k][1])},
                           (hd_stats){floats_of(&right[0]), floats_of(&right[1])}, count, (hd_chan){share, both});
  }
  for (int i = 0; i < 2; i++) {
    alike &= floats_equal(floats_of(&result[0][i]), floats_of(&result[1][i]), count);
    for (int k = 0; k < 2; k++) {
      alike &= guarded_is_intact(&result[k][i]);
      guarded_destroy(&result[k][i]);
    }
  }
  return alike;
}

static void check_merge_stats(void) {
  random_stream random = {.seed = 60};
  int failed[TABLES] = {0};
  for (int count = 0; count < COUNTS; count++) {
    guarded left[2], right[2];
    for (int i = 0; i < 2; i++) {
      left[i] = some_floats(&random, count);
      right[i] = some_floats(&random, count);
    }
    const float share = 0.5f + 0.5f * random_float(&random), both = 10 * share;
    for (int t = 0; t < TABLES; t++)
      if (hd__kernels_of(isas[t]))
        failed[t] += !merges_alike(hd__kernels_of(isas[t]), left, right, share, both);
    for (int i = 0; i < 2; i++) {
      guarded_destroy(&left[i]);
      guarded_destroy(&right[i]);
    }
  }
  report(failed, "merged statistics", 0);
}

int main(void) {
  const uint64_t mode = hd__fpmode_enter();
  for (int u = 0; u < HD_UNARY_COUNT; u++)
    check_array(run_unary, "of one array, operation", u, false, 0);
  for (int b = 0; b <= HD_BINARY_DIV; b++)
    check_array(run_binary, "of two arrays, operation", b, false, 0);
  check_array(run_sum, "sum", 0, true, 0);
  for (int e = 0; e < HD_EXTREME_COUNT; e++)
    check_array(run_find, "search for extreme", e, true, 1);
  check_sum_columns();
  check_merge_stats();
  hd__fpmode_leave(mode);
  return done_testing();
}
