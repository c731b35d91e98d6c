/* The linear layer and the gradient of its input with AVX512_BF16: see bf16.h for the chain.
 *
 * Samples are rounded into scratch, SLAB_ROWS at a time, filled up with zeros. Forward: a lane is one of the 16 chains
 * of pairs along k; a block of OUT_ROWS samples by OUTS outputs stays in registers. Gradient of the input: lanes lie
 * along k, pairs along the outputs. An element's chain does not depend on its block. */
#include "kernel/bf16/bf16_avx512.h"

enum { OUT_ROWS = 4, OUTS = 4, DX_ROWS = 8, DX_GROUPS = 3, SLAB_ROWS = 32 };

/* Elements of a rounded sample, of a row of packed weights. */
static int64_t width_of(const hd_geom *g) { return (g->ci + 31) / 32 * 32; }

static int64_t linear_scratch(const hd_geom *g) { return SLAB_ROWS * width_of(g) * (int64_t)sizeof(uint16_t); }
static int64_t linear_packed(const hd_geom *g) { return g->co * width_of(g) / 2; }

static void linear_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int32_t j = j0; j < j1; j++)
    bf16_round((uint16_t *)(void *)packed + j * width_of(g), w + (int64_t)j * g->ci, g->ci);
}

/* Rounds rows n .. n + rows - 1 of in[0], `count` elements each, to `width` apart. */
static void round_rows(uint16_t *to, const hd_call *call, int64_t n, int64_t rows, int64_t count, int64_t width) {
  for (int64_t r = 0; r < rows; r++, to += width) {
    memset(to + count, 0, (size_t)(width - count) * sizeof *to);
    bf16_round(to, in_row(call, 0, n + r), count);
  }
}

G16 void outputs(const hd_call *call, const uint16_t *x, int64_t n, int j, int rows, int outs) {
  const int64_t width = width_of(call->g);
  const uint16_t *w = (const uint16_t *)(const void *)call->packed + j * width;
  const float *bias = call->in[2];
  g16 acc[OUT_ROWS][OUTS];
  UNROLL_FOR (r, rows)
    UNROLL_FOR (o, outs)
      acc[r][o] = g16_zero();
  for (int64_t k = 0; k < width; k += 32) {
    __m512i wv[OUTS];
    UNROLL_FOR (o, outs)
      wv[o] = _mm512_loadu_si512(w + o * width + k);
    UNROLL_FOR (r, rows) {
      __m512i xv = _mm512_loadu_si512(x + r * width + k);
      UNROLL_FOR (o, outs)
        acc[r][o] = bf16_dot(acc[r][o], xv, wv[o]);
    }
  }
  UNROLL_FOR (r, rows)
    for (int o = 0; o < outs; o++) {
      float y = g16_tree(acc[r][o]);
      y = bias ? y + bias[j + o] : y;
      ((float *)call->out[0])[(n + r) * call->out_stride[0] + j + o] = call->g->relu && y < 0 ? 0 : y;
    }
}

/* All rows of a slab for one block of outputs. */
G16 void output_column(const hd_call *call, const uint16_t *x, int64_t n, int64_t rows, int j, int outs) {
  const int64_t width = width_of(call->g);
  int64_t r = 0;
  for (; r + OUT_ROWS <= rows; r += OUT_ROWS)
    outputs(call, x + r * width, n + r, j, OUT_ROWS, outs);
  if (r + 2 <= rows) {
    outputs(call, x + r * width, n + r, j, 2, outs);
    r += 2;
  }
  if (r < rows)
    outputs(call, x + r * width, n + r, j, 1, outs);
}

static void linear(const hd_call *call) {
  uint16_t *x = call->scratch;
  for (int64_t n = 0; n < call->rows; n += SLAB_ROWS) {
    int64_t rows = call->rows - n < SLAB_ROWS ? call->rows - n : SLAB_ROWS;
    int j = 0;
    round_rows(x, call, n, rows, call->g->ci, width_of(call->g));
    for (; j + OUTS <= call->g->co; j += OUTS)
      output_column(call, x, n, rows, j, OUTS);
    for (; j < call->g->co; j++)
      output_column(call, x, n, rows, j, 1);
  }
}

/* Of the input: [pair of outputs][k], k filled up to whole groups. */
static int64_t dx_width(const hd_geom *g) { return (g->co + 1) / 2 * 2; }

static int64_t dx_scratch(const hd_geom *g) { return SLAB_ROWS * dx_width(g) * (int64_t)sizeof(uint16_t); }
static int64_t dx_packed(const hd_geom *g) { return dx_width(g) / 2 * up16(g->ci); }

static void dx_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int32_t j = j0; j < j1; j++) {
    uint16_t *to = (uint16_t *)(void *)packed + (int64_t)(j / 2) * up16(g->ci) * 2 + j % 2;
    for (int k = 0; k < g->ci; k++)
      to[2 * k] = bf16_of(w[(int64_t)j * g->ci + k]);
  }
}

G16 void dx_block(const hd_call *call, const uint16_t *dy, int64_t n, int k, int rows, int groups) {
  const hd_geom *g = call->g;
  const int64_t width = dx_width(g), line = up16(g->ci);
  const float *w = call->packed + k;
  g16 acc[DX_ROWS][DX_GROUPS];
  UNROLL_FOR (r, rows)
    UNROLL_FOR (v, groups)
      acc[r][v] = g16_zero();
  for (int64_t j = 0; j < width; j += 2, w += line) {
    __m512i wv[DX_GROUPS];
    UNROLL_FOR (v, groups)
      wv[v] = _mm512_loadu_si512(w + 16 * v);
    UNROLL_FOR (r, rows) {
      __m512i d = bf16_pair(dy + r * width + j);
      UNROLL_FOR (v, groups)
        acc[r][v] = bf16_dot(acc[r][v], d, wv[v]);
    }
  }
  UNROLL_FOR (r, rows)
    UNROLL_FOR (v, groups)
      g16_store_some(out_row(call, 0, n + r) + k + 16 * v, acc[r][v], g->ci - k - 16 * v);
}

G16 void dx_column(const hd_call *call, const uint16_t *dy, int64_t n, int64_t rows, int k, int groups) {
  const int64_t width = dx_width(call->g);
  int64_t r = 0;
  for (; r + DX_ROWS <= rows; r += DX_ROWS)
    dx_block(call, dy + r * width, n + r, k, DX_ROWS, groups);
  if (r + 4 <= rows) {
    dx_block(call, dy + r * width, n + r, k, 4, groups);
    r += 4;
  }
  for (; r < rows; r++)
    dx_block(call, dy + r * width, n + r, k, 1, groups);
}

static void linear_dx(const hd_call *call) {
  uint16_t *dy = call->scratch;
  for (int64_t n = 0; n < call->rows; n += SLAB_ROWS) {
    int64_t rows = call->rows - n < SLAB_ROWS ? call->rows - n : SLAB_ROWS;
    int k = 0;
    round_rows(dy, call, n, rows, call->g->co, dx_width(call->g));
    for (; k + 16 * DX_GROUPS <= call->g->ci; k += 16 * DX_GROUPS)
      dx_column(call, dy, n, rows, k, DX_GROUPS);
    for (; k < call->g->ci; k += 16)
      dx_column(call, dy, n, rows, k, 1);
  }
}

void hd__bf16_linear_fill(hd_kernels *table) {
  table->run[HD_OP_linear] = linear;
  table->run_outputs[HD_OP_linear] = NULL;
  table->scratch_bytes[HD_OP_linear] = linear_scratch;
  table->packed_elems[HD_OP_linear] = linear_packed;
  table->pack[HD_OP_linear] = linear_pack;
  table->run[HD_OP_linear_dx] = linear_dx;
  table->scratch_bytes[HD_OP_linear_dx] = dx_scratch;
  table->packed_elems[HD_OP_linear_dx] = dx_packed;
  table->pack[HD_OP_linear_dx] = dx_pack;
}
