/* Products of matrices, every table against the reference bit for bit: sides of one, of whole groups and beside them,
 * sums longer than a part, operands upright, turned and scattered, rows of b far from each other, for few and for many
 * rows of a. Inputs end where their memory does. */
#include <stdio.h>
#include <string.h>

#include "op/kernel_case.h"
#include "platform/fpmode.h"
#include "tap.h"

enum { TABLES = 5, CASES = 240 };

static const char *const isas[TABLES] = {"reference", "scalar", "avx2", "avx512", "neon"};

/* How a matrix of rows by columns lies: row after row, column after column, or with gaps everywhere. */
typedef struct layout {
  int64_t row, column, elems;
} layout;

static layout lay_out(random_stream *random, int64_t rows, int64_t columns) {
  const int64_t gap = random_below(random, 3) ? 0 : random_below(random, 20);
  layout out = {.row = columns + gap, .column = 1};
  if (random_below(random, 2))
    out = (layout){.row = 1, .column = rows + gap};
  if (!random_below(random, 6))
    out.row *= 2, out.column *= 2;
  out.elems = (rows - 1) * out.row + (columns - 1) * out.column + 1;
  return out;
}

static guarded some_floats(random_stream *random, int64_t count) {
  guarded memory = guarded_create((size_t)count * sizeof(float), AT_THE_END);
  float *x = (float *)(void *)memory.data;
  for (int64_t i = 0; i < count; i++)
    x[i] = random_below(random, 8) ? random_float(random) : random_below(random, 2) ? 0.0f : -0.0f;
  return memory;
}

static int64_t side(random_stream *random, uint32_t longest) {
  static const int64_t odd[] = {1, 1, 2, 5, 6, 7, 12, 13, 15, 16, 17, 48, 64, 65, 100};
  return random_below(random, 3) ? odd[random_below(random, 15)] : 1 + random_below(random, longest);
}

typedef struct product {
  hd_gemm g;
  guarded a, b;
  int64_t elems; /* of c */
} product;

static product make_product(uint32_t seed) {
  random_stream random = {.seed = seed};
  const bool far = seed % 40 == 7;
  int64_t m = seed % 24 ? side(&random, 90) : 1025 + seed;
  const int64_t n = side(&random, 150);
  int64_t k = side(&random, seed % 8 ? 200 : 1200);
  if (far)
    m = seed % 80 == 7 ? 14 : 600, k = 500 + seed;
  const layout a = lay_out(&random, m, k);
  layout b = lay_out(&random, k, n);
  if (far)
    b = (layout){.row = n + 1100, .column = 1, .elems = (k - 1) * (n + 1100) + n};
  product p = {.a = some_floats(&random, a.elems), .b = some_floats(&random, b.elems)};
  p.g = (hd_gemm){.m = m,
                  .n = n,
                  .k = k,
                  .a = (const float *)(const void *)p.a.data,
                  .b = (const float *)(const void *)p.b.data,
                  .a_row = a.row,
                  .a_step = a.column,
                  .b_step = b.row,
                  .b_column = b.column,
                  .c_row = n + random_below(&random, 3)};
  p.elems = (m - 1) * p.g.c_row + n;
  return p;
}

/* The result of a table; what lies between two rows stays as it was. */
static guarded result_of(const hd_kernels *table, const product *p) {
  guarded c = guarded_create((size_t)p->elems * sizeof(float), AT_THE_END);
  memset(c.data, 0x5a, c.bytes);
  hd_gemm g = p->g;
  g.c = (float *)(void *)c.data;
  table->gemm(&g);
  return c;
}

int main(void) {
  const uint64_t mode = hd__fpmode_enter();
  int failed[TABLES] = {0};
  for (uint32_t seed = 1; seed <= CASES; seed++) {
    product p = make_product(seed);
    guarded want = result_of(hd__kernels_reference(), &p);
    for (int t = 0; t < TABLES; t++) {
      if (!hd__kernels_of(isas[t]))
        continue;
      guarded got = result_of(hd__kernels_of(isas[t]), &p);
      if (memcmp(got.data, want.data, want.bytes) || !guarded_is_intact(&got)) {
        failed[t]++;
        printf("# %s, seed %u: %dx%dx%d\n", isas[t], seed, (int)p.g.m, (int)p.g.n, (int)p.g.k);
      }
      guarded_destroy(&got);
    }
    guarded_destroy(&want);
    guarded_destroy(&p.a);
    guarded_destroy(&p.b);
  }
  for (int t = 0; t < TABLES; t++)
    if (hd__kernels_of(isas[t]))
      ok(failed[t] == 0, "%s: products of matrices, the reference's bits", isas[t]);
    else
      skip(1, "%s: this CPU or this build lacks it", isas[t]);
  hd__fpmode_leave(mode);
  return done_testing();
}
