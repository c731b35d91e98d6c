/* Products of bfloat16 tiles, see bf16_tiles.h: by AMX, or by FMA in registers.
 *
 * The depth is divided into runs of blocks whose tiles stay in a near cache; within a run, some panels after the others
 * are multiplied with all strips. C keeps the chains between runs. An element's chain does not depend on any of
 * this. */
#include "kernel/bf16/bf16_tiles.h"

enum { RUN_BLOCKS = BF16_RUN_BLOCKS, STRIPS = BF16_STRIPS, PANELS = BF16_PANELS, NEAR = BF16_NEAR_PANELS };

#if HD_ISA_IS(amx)
/* Where sums are, and the elements from one row to the next. */
typedef struct tile_sums {
  float *at;
  int64_t row;
} tile_sums;

/* The sums of up to two strips by two panels; constants where this is inlined. Tiles 0 to 3 are the sums, 4 and 5 of
 * strips, 6 and 7 of panels. */
G16 void run_tiles(const bf16_product *p, tile_sums to, const bf16_elem *a, const bf16_elem *b, int strips,
                   int panels) {
  float *const c = to.at;
  const int64_t a_strip = p->a_blocks * TILE_ELEMS, b_panel = p->b_tile ? p->b_panel : p->b_blocks * TILE_ELEMS;
  const int64_t b_line = p->b_tile ? p->b_line : 64;
  const int64_t line = to.row * (int64_t)sizeof *c;
  float *below = c + TILE_SIDE * to.row;
  if (p->add) {
    _tile_loadd(0, c, line);
    if (panels > 1)
      _tile_loadd(1, c + TILE_SIDE, line);
    if (strips > 1)
      _tile_loadd(2, below, line);
    if (strips > 1 && panels > 1)
      _tile_loadd(3, below + TILE_SIDE, line);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t k = 0; k < p->blocks; k++, a += TILE_ELEMS, b += TILE_ELEMS) {
    const bf16_elem *const tile = p->b_tile ? p->b_tile[k] : b;
    const tile_place rows = p->a_place ? p->a_place[k] : (tile_place){a, 64, a_strip};
    _tile_loadd(4, rows.at, rows.line);
    _tile_loadd(6, tile, b_line);
    _tile_dpbf16ps(0, 4, 6);
    if (panels > 1) {
      _tile_loadd(7, tile + b_panel, b_line);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (strips > 1) {
      _tile_loadd(5, rows.at + rows.next, rows.line);
      _tile_dpbf16ps(2, 5, 6);
    }
    if (strips > 1 && panels > 1)
      _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, line);
  if (panels > 1)
    _tile_stored(1, c + TILE_SIDE, line);
  if (strips > 1)
    _tile_stored(2, below, line);
  if (strips > 1 && panels > 1)
    _tile_stored(3, below + TILE_SIDE, line);
}

static void run_whole(const bf16_product *p, tile_sums to, const bf16_elem *a, const bf16_elem *b, int strips,
                      int panels) {
  if (strips > 1 && panels > 1)
    run_tiles(p, to, a, b, 2, 2);
  else if (strips > 1)
    run_tiles(p, to, a, b, 2, 1);
  else if (panels > 1)
    run_tiles(p, to, a, b, 1, 2);
  else
    run_tiles(p, to, a, b, 1, 1);
}

static void copy_rows(float *to, int64_t to_row, const float *from, int64_t from_row, int rows, int panels) {
  for (int r = 0; r < rows; r++)
    memcpy(to + r * to_row, from + r * from_row, (size_t)panels * TILE_SIDE * sizeof *to);
}

/* A tile has 16 rows: the last rows of C are written through a block that has room for all. */
static void run_block(const bf16_product *p, float *c, const bf16_elem *a, const bf16_elem *b, int rows, int panels) {
  const int strips = (int)tiles_of(rows);
  _Alignas(64) float all[STRIPS * TILE_SIDE * PANELS * TILE_SIDE];
  const int64_t row = (int64_t)panels * TILE_SIDE;
  if (rows % TILE_SIDE == 0) {
    run_whole(p, (tile_sums){c, p->c_row}, a, b, strips, panels);
    return;
  }
  if (p->add)
    copy_rows(all, row, c, p->c_row, rows, panels);
  run_whole(p, (tile_sums){all, row}, a, b, strips, panels);
  copy_rows(c, p->c_row, all, row, rows, panels);
}

#else
/* Rows of a strip and panels keep their sums of even and of odd factors in registers. */
enum { MOST_ROWS = BF16_ROWS };

/* One of the depth's rows: sum = fma(a, b, sum) in all rows and panels. */
G16 void depth_row(g16 (*sum)[PANELS], const bf16_elem *a, const bf16_elem *b, int64_t b_panel, int rows, int panels) {
  g16 bv[PANELS];
  UNROLL_FOR (q, panels)
    bv[q] = g16_load(b + q * b_panel);
  UNROLL_FOR (r, rows) {
    const g16 av = g16_all(a[r * BF16_DEPTH]);
    UNROLL_FOR (q, panels)
      sum[r][q] = g16_fma(av, bv[q], sum[r][q]);
  }
}

/* Counts are constants where this is inlined. */
G16 void run_rows(const bf16_product *p, float *c, const bf16_elem *a, const bf16_elem *b, int rows, int panels) {
  const int64_t b_panel = p->b_blocks * TILE_ELEMS;
  for (int64_t k = 0; k < p->blocks; k++, a += TILE_ELEMS, b += TILE_ELEMS) {
    g16 even[MOST_ROWS][PANELS], odd[MOST_ROWS][PANELS];
    UNROLL_FOR (r, rows)
      UNROLL_FOR (q, panels)
        even[r][q] = odd[r][q] = g16_zero();
    KEEP_ROLLED
    for (int d = 0; d < BF16_DEPTH; d += 2) {
      depth_row(even, a + d, b + d * TILE_SIDE, b_panel, rows, panels);
      depth_row(odd, a + d + 1, b + (d + 1) * TILE_SIDE, b_panel, rows, panels);
    }
    UNROLL_FOR (r, rows)
      UNROLL_FOR (q, panels) {
        float *at = c + r * p->c_row + q * TILE_SIDE;
        const g16 sum = k > 0 || p->add ? g16_load(at) : g16_zero();
        g16_store(at, g16_add(sum, g16_add(even[r][q], odd[r][q])));
      }
  }
}

#define ROWS(count)                                                                                                    \
  case count:                                                                                                          \
    if (count <= MOST_ROWS && panels <= PANELS)                                                                        \
      run_rows(p, c, a, b, count, panels);                                                                             \
    break
G16 void some_rows(const bf16_product *p, float *c, const bf16_elem *a, const bf16_elem *b, int rows, int panels) {
  switch (rows) { CASES_6(ROWS) }
}
static void one_panel(const bf16_product *p, float *c, const bf16_elem *a, const bf16_elem *b, int rows) {
  some_rows(p, c, a, b, rows, 1);
}
static void two_panels(const bf16_product *p, float *c, const bf16_elem *a, const bf16_elem *b, int rows) {
  some_rows(p, c, a, b, rows, 2);
}

/* The rows of a strip in parts as even as they can be. */
static void run_block(const bf16_product *p, float *c, const bf16_elem *a, const bf16_elem *b, int rows, int panels) {
  for (int parts = (rows + MOST_ROWS - 1) / MOST_ROWS; parts > 0; parts--) {
    const int here = (rows + parts - 1) / parts;
    (panels > 1 ? two_panels : one_panel)(p, c, a, b, here);
    c += here * p->c_row;
    a += here * BF16_DEPTH;
    rows -= here;
  }
}
#endif

/* A run of the depth. */
static void multiply_run(const bf16_product *p) {
  for (int near = 0; near < p->panels; near += NEAR)
    for (int row = 0; row < p->rows; row += STRIPS * TILE_SIDE)
      for (int panel = near; panel < least(near + NEAR, p->panels); panel += PANELS)
        run_block(p, p->c + row * p->c_row + (int64_t)panel * TILE_SIDE,
                  p->a + row / TILE_SIDE * p->a_blocks * TILE_ELEMS, p->b + panel * p->b_blocks * TILE_ELEMS,
                  least(STRIPS * TILE_SIDE, p->rows - row), least(PANELS, p->panels - panel));
}

void HD_SYM(bf16_multiply)(const bf16_product *p) {
  bf16_product run = *p;
  for (int64_t k = 0; k < p->blocks; k += run.blocks) {
    run.blocks = fewest(RUN_BLOCKS, p->blocks - k);
    run.a = p->a + k * TILE_ELEMS;
    run.b = p->b_tile ? NULL : p->b + k * TILE_ELEMS;
    run.b_tile = p->b_tile ? p->b_tile + k : NULL;
    run.a_place = p->a_place ? p->a_place + k : NULL;
    run.add = p->add || k > 0;
    multiply_run(&run);
  }
}

/* Writes lanes j0 to j1 - 1 alone: the others may belong to another thread. */
static void store_lanes(float *to, g16 x, int j0, int j1) {
#if HD_ISA_IS(avx512) || HD_ISA_IS(amx)
  _mm512_mask_storeu_ps(to, g16_first(j1) & (g16_mask)~g16_first(j0), x);
#else
  float all[TILE_SIDE];
  g16_store(all, x);
  memcpy(to + j0, all + j0, (size_t)(j1 - j0) * sizeof *to);
#endif
}

/* Columns j0 to j1 - 1 of a tile, from 32 rows of the depth or as many as there are. */
static void pack_tile(bf16_elem *tile, const float *w, int64_t w_row, int64_t depth, int j0, int j1) {
  g16 r[TILE_SIDE];
#if HD_ISA_IS(amx)
  UNROLL_FOR (j, TILE_SIDE) {
    const bool wanted = j >= j0 && j < j1;
    const g16 low = wanted ? g16_load_some(w + j * w_row, depth) : g16_zero();
    const g16 high = wanted && depth > 16 ? g16_load_some(w + j * w_row + 16, depth - 16) : g16_zero();
    r[j] = _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  g16_transpose(r);
  UNROLL_FOR (i, TILE_SIDE)
    store_lanes((float *)(void *)(tile + i * 2 * TILE_SIDE), r[i], j0, j1);
#else
  for (int first = 0; first < BF16_DEPTH; first += TILE_SIDE) {
    UNROLL_FOR (j, TILE_SIDE) {
      const bool wanted = j >= j0 && j < j1 && depth > first;
      r[j] = wanted ? g16_bf16(g16_load_some(w + j * w_row + first, depth - first)) : g16_zero();
    }
    g16_transpose(r);
    UNROLL_FOR (i, TILE_SIDE)
      store_lanes(tile + (first + i) * TILE_SIDE, r[i], j0, j1);
  }
#endif
}

void HD_SYM(bf16_pack_columns)(bf16_elem *panel, const float *w, int64_t w_row, int64_t depth, int j0, int j1) {
  for (int64_t k = 0; k < depth; k += BF16_DEPTH)
    pack_tile(panel + k * TILE_SIDE, w + k, w_row, depth - k, j0, j1);
}
