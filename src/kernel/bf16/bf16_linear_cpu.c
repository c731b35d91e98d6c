/* The linear layer and the gradients of its input and weight in bfloat16, see bf16.h; and pointwise convolutions, which
 * are a linear layer for each pixel (bf16_pointwise).
 *
 * Forward the depth is the inputs: rows, which are samples or pixels, are strips, packed weights panels of outputs. For
 * the gradient of the input it is the outputs, and panels are of inputs; for that of the weight it is a shard's
 * rows. */
#include "kernel/bf16/bf16_tiles.h"

/* Rows at a time: their strips stay in the L2 cache. */
static int64_t slab_rows(int64_t depth) { return depth > 2048 ? 64 : 256; }

/* What is multiplied, and what that makes. */
typedef struct matrix {
  const float *x;
  float *y;
  int64_t x_row, y_row, rows;
} matrix;

/* The rows of the call's sample n. */
static matrix sample_of(const hd_call *call, int64_t n, int x_elems, int y_elems) {
  return (matrix){in_row(call, 0, n), out_row(call, 0, n), x_elems, y_elems, pixels_of(call->g)};
}

/* ---- Forward ---- */

int64_t HD_SYM(bf16_slab_bytes)(int64_t depth) { return elem_bytes(slab_rows(depth) * blocks_of(depth) * BF16_DEPTH); }
static int64_t linear_scratch(const hd_geom *g) { return HD_SYM(bf16_slab_bytes)(g->ci); }
static int64_t linear_packed(const hd_geom *g) {
  return packed_floats(tiles_of(g->co) * blocks_of(g->ci) * TILE_ELEMS);
}
static void linear_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int32_t first = j0 / TILE_SIDE * TILE_SIDE; first < j1; first += TILE_SIDE)
    HD_SYM(bf16_pack_columns)
  ((bf16_elem *)(void *)packed + first * blocks_of(g->ci) * BF16_DEPTH, w + (int64_t)first * g->ci, g->ci, g->ci,
   most(j0 - first, 0), least(j1 - first, TILE_SIDE));
}

/* y = the products of the rows of x, `depth` elements each, with packed weights. */
static void multiply_rows(const hd_call *call, const matrix *m, int depth, int columns) {
  const int64_t blocks = blocks_of(depth);
  bf16_elem *a = call->scratch;
  for (int64_t n = 0; n < m->rows; n += slab_rows(depth)) {
    const int64_t rows = fewest(slab_rows(depth), m->rows - n);
    for (int64_t r = 0; r < rows; r++)
      strip_put_row(a + r / TILE_SIDE * blocks * TILE_ELEMS, (int)(r % TILE_SIDE), m->x + (n + r) * m->x_row, depth);
    HD_SYM(bf16_multiply)
    (&(bf16_product){.a = a,
                     .b = (const bf16_elem *)(const void *)call->packed,
                     .blocks = blocks,
                     .a_blocks = blocks,
                     .b_blocks = blocks,
                     .c = m->y + n * m->y_row,
                     .c_row = m->y_row,
                     .rows = (int)rows,
                     .panels = (int)tiles_of(columns)});
  }
}

/* y + bias, and the ReLU. */
static void finish_row(float *y, const hd_geom *g, const float *bias) {
  for (int j = 0; j < g->co; j += TILE_SIDE) {
    g16 v = g16_load(y + j);
    v = bias ? g16_add(v, g16_load_some(bias + j, g->co - j)) : v;
    g16_store(y + j, g->relu ? g16_relu(v) : v);
  }
}

static void finish(const matrix *m, const hd_geom *g, const float *bias) {
  for (int64_t r = 0; r < m->rows && (bias || g->relu); r++)
    finish_row(m->y + r * m->y_row, g, bias);
}

static void linear(const hd_call *call) {
  const matrix m = {in_row(call, 0, 0), out_row(call, 0, 0), call->in_stride[0], call->out_stride[0], call->rows};
  tiles_begin();
  multiply_rows(call, &m, call->g->ci, call->g->co);
  tiles_end();
  finish(&m, call->g, call->in[2]);
}

void HD_SYM(bf16_pointwise)(const hd_call *call) {
  tiles_begin();
  for (int64_t n = 0; n < call->rows; n++) {
    const matrix m = sample_of(call, n, call->g->ci, call->g->co);
    multiply_rows(call, &m, call->g->ci, call->g->co);
    finish(&m, call->g, call->in[2]);
  }
  tiles_end();
}

/* ---- Gradient of the input ---- */

static int64_t dx_scratch(const hd_geom *g) { return HD_SYM(bf16_slab_bytes)(g->co); }
static int64_t dx_packed(const hd_geom *g) { return packed_floats(tiles_of(g->ci) * blocks_of(g->co) * TILE_ELEMS); }
/* Some inputs, a panel, of outputs j0 to j1 - 1. */
static void pack_panel(bf16_elem *panel, const hd_geom *g, const float *w, int32_t j0, int32_t j1, int64_t inputs) {
  for (int32_t j = j0; j < j1; j++) {
    bf16_elem *tile = panel + j / BF16_DEPTH * TILE_ELEMS;
    const float *row = w + (int64_t)j * g->ci;
    if (j % 2 == 0 && j + 1 < j1)
      tile_put_depths(tile, j++ % BF16_DEPTH, row, row + g->ci, inputs);
    else
      tile_put_depth(tile, j % BF16_DEPTH, row, inputs);
  }
}

static void dx_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  bf16_elem *panel = (bf16_elem *)(void *)packed;
  for (int k = 0; k < g->ci; k += TILE_SIDE, panel += blocks_of(g->co) * TILE_ELEMS)
    pack_panel(panel, g, w + k, j0, j1, g->ci - k);
}

static void linear_dx(const hd_call *call) {
  const matrix m = {in_row(call, 0, 0), out_row(call, 0, 0), call->in_stride[0], call->out_stride[0], call->rows};
  tiles_begin();
  multiply_rows(call, &m, call->g->co, call->g->ci);
  tiles_end();
}

void HD_SYM(bf16_pointwise_dx)(const hd_call *call) {
  tiles_begin();
  for (int64_t n = 0; n < call->rows; n++) {
    const matrix m = sample_of(call, n, call->g->co, call->g->ci);
    multiply_rows(call, &m, call->g->co, call->g->ci);
  }
  tiles_end();
}

/* ---- Gradient of the weight, of one shard ---- */

enum { DW_BLOCKS = 8, DW_ROWS = 2 * TILE_SIDE }; /* of rows at a time; outputs at a time */

typedef struct dw_memory {
  bf16_elem *x, *dy, *a, *b; /* 32 rounded rows of each; all outputs; all inputs */
  float *c; /* some outputs' sums, where rows of the result are no whole panels, or the call adds others' */
} dw_memory;

static dw_memory dw_layout(const hd_geom *g, char *base, int64_t *bytes) {
  const int64_t inputs = tiles_of(g->ci) * TILE_SIDE, outputs = tiles_of(g->co) * TILE_SIDE;
  const int64_t sizes[] = {elem_bytes(BF16_DEPTH * inputs), elem_bytes(BF16_DEPTH * outputs),
                           elem_bytes(DW_BLOCKS * BF16_DEPTH * outputs), elem_bytes(DW_BLOCKS * BF16_DEPTH * inputs),
                           whole_bytes(DW_ROWS * inputs)};
  char *at[6] = {base};
  for (int i = 0; i < 5; i++)
    at[i + 1] = at[i] + sizes[i];
  *bytes = at[5] - base;
  return (dw_memory){(void *)at[0], (void *)at[1], (void *)at[2], (void *)at[3], (void *)at[4]};
}

int64_t HD_SYM(bf16_dw_of_rows_scratch)(const hd_geom *g) {
  int64_t bytes;
  dw_layout(g, NULL, &bytes);
  return bytes;
}

/* Up to 32 of the shard's rows. */
typedef struct dw_rows {
  const float *x, *dy;
  int64_t x_row, dy_row, rows;
} dw_rows;

/* From row `first` on; pixels are a multiple of 32, or one. */
static dw_rows rows_from(const hd_call *call, int64_t first) {
  const hd_geom *g = call->g;
  const int64_t pixels = pixels_of(g), n = first / pixels, p = first % pixels;
  if (pixels == 1)
    return (dw_rows){in_row(call, 0, n), in_row(call, 1, n), call->in_stride[0], call->in_stride[1],
                     fewest(BF16_DEPTH, call->rows - n)};
  return (dw_rows){in_row(call, 0, n) + p * g->ci, in_row(call, 1, n) + p * g->co, g->ci, g->co, BF16_DEPTH};
}

/* A block of the depth: strips of outputs, panels of inputs. */
static void put_block(const dw_memory *m, const hd_geom *g, const dw_rows *of, int64_t block) {
  const int64_t inputs = tiles_of(g->ci) * TILE_SIDE, outputs = tiles_of(g->co) * TILE_SIDE;
  if (of->rows < BF16_DEPTH || inputs > g->ci)
    memset(m->x, 0, (size_t)(BF16_DEPTH * inputs) * sizeof *m->x);
  if (of->rows < BF16_DEPTH || outputs > g->co)
    memset(m->dy, 0, (size_t)(BF16_DEPTH * outputs) * sizeof *m->dy);
  for (int64_t i = 0; i < of->rows; i++) {
    elems_round(m->x + i * inputs, of->x + i * of->x_row, g->ci);
    elems_round(m->dy + i * outputs, of->dy + i * of->dy_row, g->co);
  }
  for (int64_t s = 0; s < tiles_of(g->co); s++)
    tile_put_columns(m->a + (s * DW_BLOCKS + block) * TILE_ELEMS, m->dy + s * TILE_SIDE, outputs);
  for (int64_t p = 0; p < tiles_of(g->ci); p++)
    for (int i = 0; i < BF16_DEPTH / 2; i++)
      tile_put_pair(m->b + (p * DW_BLOCKS + block) * TILE_ELEMS, i, m->x + 2 * i * inputs + p * TILE_SIDE,
                    m->x + (2 * i + 1) * inputs + p * TILE_SIDE);
}

/* Some blocks of rows: whether their sums continue those of others, and are continued. */
typedef struct dw_run {
  int64_t blocks;
  bool add, last;
} dw_run;

/* Outputs j to j + rows - 1 over a run of blocks. Sums that others continue are in the shard's own slot. */
static void multiply_outputs(const dw_memory *m, const hd_call *call, int j, int rows, const dw_run *run) {
  const hd_geom *g = call->g;
  const int64_t inputs = tiles_of(g->ci) * TILE_SIDE;
  float *out = (float *)call->out[0] + (int64_t)j * g->ci, *own = out + call->merges * call->slot;
  const bool merges = run->last && call->merges > 0, direct = inputs == g->ci && !merges;
  for (int r = 0; r < rows && run->add && !direct; r++)
    memcpy(m->c + r * inputs, own + (int64_t)r * g->ci, (size_t)g->ci * sizeof *own);
  HD_SYM(bf16_multiply)
  (&(bf16_product){.a = m->a + j / TILE_SIDE * DW_BLOCKS * TILE_ELEMS,
                   .b = m->b,
                   .blocks = run->blocks,
                   .a_blocks = DW_BLOCKS,
                   .b_blocks = DW_BLOCKS,
                   .c = direct ? own : m->c,
                   .c_row = inputs,
                   .rows = rows,
                   .panels = (int)tiles_of(g->ci),
                   .add = run->add});
  for (int r = 0; r < rows && !direct; r++)
    if (merges)
      put_sums(call, out + (int64_t)r * g->ci, m->c + r * inputs, g->ci);
    else
      memcpy(own + (int64_t)r * g->ci, m->c + r * inputs, (size_t)g->ci * sizeof *own);
}

void HD_SYM(bf16_dw_of_rows)(const hd_call *call) {
  const int64_t all = call->rows * pixels_of(call->g);
  int64_t bytes;
  const dw_memory m = dw_layout(call->g, call->scratch, &bytes);
  tiles_begin();
  for (int64_t n = 0; n < all; n += DW_BLOCKS * BF16_DEPTH) {
    const dw_run run = {fewest(DW_BLOCKS, blocks_of(all - n)), n > 0, n + DW_BLOCKS * BF16_DEPTH >= all};
    for (int64_t k = 0; k < run.blocks; k++) {
      const dw_rows rows = rows_from(call, n + k * BF16_DEPTH);
      put_block(&m, call->g, &rows, k);
    }
    for (int j = 0; j < call->g->co; j += DW_ROWS)
      multiply_outputs(&m, call, j, least(DW_ROWS, call->g->co - j), &run);
  }
  tiles_end();
}

static void linear_dw(const hd_call *call) {
  if (call->out[1])
    bias_sums(call, float_kernels()->run[HD_OP_linear_dw]);
  if (call->out[0])
    HD_SYM(bf16_dw_of_rows)(call);
}

static int always(const hd_geom *g) { return 1; }

void HD_SYM(bf16_linear_fill)(hd_kernels *table) {
  table->run[HD_OP_linear] = linear;
  table->run_outputs[HD_OP_linear] = NULL;
  table->scratch_bytes[HD_OP_linear] = linear_scratch;
  table->packed_elems[HD_OP_linear] = linear_packed;
  table->pack[HD_OP_linear] = linear_pack;
  table->run[HD_OP_linear_dx] = linear_dx;
  table->scratch_bytes[HD_OP_linear_dx] = dx_scratch;
  table->packed_elems[HD_OP_linear_dx] = dx_packed;
  table->pack[HD_OP_linear_dx] = dx_pack;
  table->run[HD_OP_linear_dw] = linear_dw;
  table->merges[HD_OP_linear_dw] = always;
  table->scratch_bytes[HD_OP_linear_dw] = HD_SYM(bf16_dw_of_rows_scratch);
}
