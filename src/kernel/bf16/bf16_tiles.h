/* Tiles of bfloat16 numbers, and products of them.
 *
 * A product C = A B has the sums' factors as its depth, in blocks of 32. A is stored in strips of 16 rows, B in
 * panels of 16 columns; strips and panels are rows of tiles, one for each block:
 *
 *     a tile of A   [16 rows][32 of the depth]
 *     a tile of B   [32 of the depth][16 columns]; with AMX [16 pairs along the depth][16 columns][2]
 *
 * With AMX an element is a bfloat16; elsewhere it is a float that has such a value, so that kernels multiply without
 * unpacking. What fills a tile rounds; what is beyond the depth must be zero in both. */
#pragma once

#include "kernel/bf16.h"
#include "op/conv2d/conv2d_cpu.h"

/* The functions that fill the slots of a table for this instruction set. */
void HD_SYM(bf16_linear_fill)(hd_kernels *table);
void HD_SYM(bf16_form_fill)(hd_kernels *table);
void HD_SYM(bf16_conv_fill)(hd_kernels *table);
void HD_SYM(bf16_conv_dw_fill)(hd_kernels *table);

enum { TILE_SIDE = 16, TILE_ELEMS = TILE_SIDE * BF16_DEPTH };

#if HD_ISA_IS(amx)
typedef uint16_t bf16_elem;
#else
typedef float bf16_elem;
#endif

static inline int64_t blocks_of(int64_t depth) { return (depth + BF16_DEPTH - 1) / BF16_DEPTH; }
static inline int64_t tiles_of(int64_t rows) { return (rows + TILE_SIDE - 1) / TILE_SIDE; }
static inline int64_t fewest(int64_t a, int64_t b) { return a < b ? a : b; }

/* Bytes of this many elements, rounded up so that the next array is aligned as well. */
static inline int64_t elem_bytes(int64_t elems) { return (elems * (int64_t)sizeof(bf16_elem) + 63) / 64 * 64; }
/* Elements of a packed copy, which is counted in floats. */
static inline int64_t packed_floats(int64_t elems) {
  return elems * (int64_t)sizeof(bf16_elem) / (int64_t)sizeof(float);
}

/* Where a tile of A lies: its first row, the bytes from a row to the next, the elements to the second strip's. */
typedef struct tile_place {
  const bf16_elem *at;
  int64_t line, next;
} tile_place;

/* C: rows x 16 * panels floats, rows `c_row` apart. `blocks` of the depth are multiplied; the strips and panels have
 * `a_blocks` and `b_blocks` in all. add: C continues its chains, which otherwise begin at +0. Writes no other rows. */
typedef struct bf16_product {
  const bf16_elem *a, *b;
  int64_t blocks, a_blocks, b_blocks;
  float *c;
  int64_t c_row;
  int rows, panels, add;

  /* With AMX: for up to two strips whose tiles are not all stored: each block's. NULL: they are. */
  const tile_place *a_place;

  /* With AMX: for up to two panels whose tiles are not stored: a tile's first row for each block, its rows `b_line`
   * bytes apart, and the second panel `b_panel` elements behind the first. NULL: none. */
  const bf16_elem *const *b_tile;
  int64_t b_line, b_panel;
} bf16_product;

/* Between tiles_begin() and tiles_end(). */
void HD_SYM(bf16_multiply)(const bf16_product *p);

/* A convolution that is a linear layer for each pixel: one tap of each pixel, no padding. `outputs`: of the channels
 * whose panels are written in place, these fill them. Its packed copies are those of the linear layer. */
static inline bool bf16_is_pointwise(const hd_geom *g, int outputs) {
  const hd_window_geom *w = &g->window;
  return w->kh == 1 && w->kw == 1 && w->sh == 1 && w->sw == 1 && !w->ph && !w->pw && g->conv.pool == 1 &&
         g->conv.groups == 1 && outputs % TILE_SIDE == 0;
}
void HD_SYM(bf16_pointwise)(const hd_call *call);
void HD_SYM(bf16_pointwise_dx)(const hd_call *call);
int64_t HD_SYM(bf16_slab_bytes)(int64_t depth);

/* The gradient of the weight, where pixels are a multiple of 32, or one. */
void HD_SYM(bf16_dw_of_rows)(const hd_call *call);
int64_t HD_SYM(bf16_dw_of_rows_scratch)(const hd_geom *g);

/* Around a kernel's products: sets the tile registers' shape, and releases the tiles, which would otherwise be saved
 * whenever a thread sleeps. Registers 4 and 5 are of A, 6 and 7 of B, the others of sums. */
#if HD_ISA_IS(amx)
/* Tiles whose depth is so many pairs, of at most 16. */
static inline void tiles_begin_of(int pairs) {
  struct __attribute__((packed)) {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shape.rows[i] = (uint8_t)(i < 6 ? TILE_SIDE : pairs);
    shape.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? 4 * pairs : 64);
  }
  _tile_loadconfig(&shape);
}
static inline void tiles_begin(void) { tiles_begin_of(BF16_DEPTH / 2); }
static inline void tiles_end(void) { _tile_release(); }
#else
static inline void tiles_begin(void) {}
static inline void tiles_end(void) {}
#endif

#if HD_ISA_IS(amx)
/* The most columns of a rectangle: of more, 16 rows would not fit the executor's tiles. */
enum { BF16_FORM_COLUMNS = 3072 };

/* Forms the gradient of a linear layer's weight by tiles; false: the batch is too large for the scratch. */
bool HD_SYM(bf16_form_tiles)(const hd_form *f);
int64_t HD_SYM(bf16_form_scratch)(const hd_geom *g, int64_t rows);
#endif

/* Writes sums of a shard, after the call's additions; from: their elements, any place but `out`. */
G16 void put_sums(const hd_call *call, float *out, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    g16 sum = g16_load_some(from + i, count - i);
    for (int64_t m = call->merges; m-- > 0;) {
      const float *left = out + m * call->slot + i;
      g16_fetch(left);
      sum = g16_add(g16_load_some(left, count - i), sum);
    }
    g16_store_some(out + i, sum, count - i);
  }
}

/* The gradient of the bias, of the float kernel `run`. */
static inline void bias_sums(const hd_call *call, hd_run_fn *run) {
  hd_call bias = *call;
  float *const out = call->out[1], *const own = out + call->merges * call->slot;
  bias.out[0] = NULL;
  bias.out[1] = own;
  bias.merges = 0;
  run(&bias);
  if (call->merges > 0)
    put_sums(call, out, own, call->g->co);
}

/* The float kernels of this instruction set, which compute the gradients of biases. */
#if HD_ISA_IS(amx)
const hd_kernels *hd__cpu_table_avx512(void);
static inline const hd_kernels *float_kernels(void) { return hd__cpu_table_avx512(); }
#else
static inline const hd_kernels *float_kernels(void) { return HD_SYM(cpu_table)(); }
#endif

/* ---- Elements ---- */

#if HD_ISA_IS(amx)
/* The first `count` of 16 floats. */
G16 void elem_store(bf16_elem *to, g16 x, int64_t count) {
  _mm256_mask_storeu_epi16(to, count >= 16 ? 0xffff : g16_first((int)count), (__m256i)_mm512_cvtneps_pbh(x));
}
/* 32 floats, the first 16 in x. */
G16 void elem_store32(bf16_elem *to, g16 x, g16 y) { _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(y, x)); }
/* Up to 32 elements. */
G16 void elems_copy(bf16_elem *to, const bf16_elem *from, int count) {
  const __mmask32 some = (__mmask32)((UINT64_C(1) << count) - 1);
  _mm512_mask_storeu_epi16(to, some, _mm512_maskz_loadu_epi16(some, from));
}
/* Sixteen pairs of elements, the first of each pair in the lower half. */
G16 g16 elem_pairs(const bf16_elem *first, const bf16_elem *second) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)first));
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)second));
  return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}
#else
G16 void elem_store(bf16_elem *to, g16 x, int64_t count) { g16_store_some(to, g16_bf16(x), count); }
G16 void elem_store32(bf16_elem *to, g16 x, g16 y) {
  g16_store(to, g16_bf16(x));
  g16_store(to + 16, g16_bf16(y));
}
G16 void elems_copy(bf16_elem *to, const bf16_elem *from, int count) {
  g16_store_some(to, g16_load_some(from, count), count);
  if (count > 16)
    g16_store_some(to + 16, g16_load_some(from + 16, count - 16), count - 16);
}
#endif

G16 void elems_round(bf16_elem *to, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    g16_fetch(from + i);
    elem_store(to + i, g16_load_some(from + i, count - i), count - i);
  }
}

/* Rounds a sample's image into its frame; all else of the frame is zero. */
G16 void frame_round(bf16_elem *out, const conv_frame *f, const float *image) {
  const int left = most(f->left, 0), right = least(f->width, f->left + f->image_width);
  memset(out, 0, (size_t)frame_slot(f) * sizeof *out);
  for (int y = 0; y < f->image_height; y++) {
    const float *from = image + ((int64_t)y * f->image_width + left - f->left) * f->pixel;
    bf16_elem *to = out + ((int64_t)(y + f->top) * f->width + left) * f->channels;
    if (f->pixel == f->channels)
      elems_round(to, from, (int64_t)(right - left) * f->channels);
    else
      for (int x = left; x < right; x++, to += f->channels, from += f->pixel)
        elems_round(to, from, f->channels);
  }
}

/* ---- Tiles of A ---- */

/* Row `row` of a strip from `count` floats. */
G16 void strip_put_row(bf16_elem *strip, int row, const float *from, int64_t count) {
  strip += row * BF16_DEPTH;
  for (; count > 0; count -= BF16_DEPTH, from += BF16_DEPTH, strip += TILE_ELEMS) {
    g16_fetch(from);
    g16_fetch(from + 16);
    elem_store32(strip, g16_load_some(from, count), count > 16 ? g16_load_some(from + 16, count - 16) : g16_zero());
  }
}

/* A tile of 16 columns of 32 rows of elements: column i becomes row i. */
G16 void tile_put_columns(bf16_elem *tile, const bf16_elem *from, int64_t row) {
  g16 r[TILE_SIDE];
#if HD_ISA_IS(amx)
  UNROLL_FOR (i, TILE_SIDE)
    r[i] = elem_pairs(from + 2 * i * row, from + (2 * i + 1) * row);
  g16_transpose(r);
  UNROLL_FOR (i, TILE_SIDE)
    _mm512_storeu_ps(tile + i * BF16_DEPTH, r[i]);
#else
  for (int half = 0; half < 2; half++) {
    UNROLL_FOR (i, TILE_SIDE)
      r[i] = g16_load(from + (16 * half + i) * row);
    g16_transpose(r);
    UNROLL_FOR (i, TILE_SIDE)
      g16_store(tile + i * BF16_DEPTH + 16 * half, r[i]);
  }
#endif
}

/* ---- Tiles of B ---- */

/* Rows 2 * pair and 2 * pair + 1 of the depth, 16 columns each. */
G16 void tile_put_pair(bf16_elem *tile, int pair, const bf16_elem *even, const bf16_elem *odd) {
  tile += pair * 2 * TILE_SIDE;
#if HD_ISA_IS(amx)
  _mm512_storeu_ps(tile, elem_pairs(even, odd));
#else
  g16_store(tile, g16_load(even));
  g16_store(tile + TILE_SIDE, g16_load(odd));
#endif
}

/* One row of the depth from up to 16 floats; the other rows stay unchanged. */
G16 void tile_put_depth(bf16_elem *tile, int depth, const float *from, int64_t count) {
#if HD_ISA_IS(amx)
  const __m512i wide = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(g16_load_some(from, count)));
  _mm512_mask_storeu_epi16(tile + depth / 2 * 2 * TILE_SIDE, depth % 2 ? 0xaaaaaaaau : 0x55555555u,
                           depth % 2 ? _mm512_slli_epi32(wide, 16) : wide);
#else
  g16_store(tile + depth * TILE_SIDE, g16_bf16(g16_load_some(from, count)));
#endif
}

/* Rows `depth`, which is even, and depth + 1 from up to 16 floats each. */
G16 void tile_put_depths(bf16_elem *tile, int depth, const float *even, const float *odd, int64_t count) {
#if HD_ISA_IS(amx)
  const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(g16_load_some(even, count)));
  const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(g16_load_some(odd, count)));
  _mm512_storeu_si512(tile + depth * TILE_SIDE, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
#else
  tile_put_depth(tile, depth, even, count);
  tile_put_depth(tile, depth + 1, odd, count);
#endif
}

/* Columns j0 .. j1 - 1 of a panel's 16; column j is the `depth` floats from w + j * w_row on. */
void HD_SYM(bf16_pack_columns)(bf16_elem *panel, const float *w, int64_t w_row, int64_t depth, int j0, int j1);
