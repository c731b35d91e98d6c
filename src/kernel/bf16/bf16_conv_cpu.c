/* Convolutions and the gradient of their input in bfloat16, see bf16.h; each group of channels by itself.
 *
 * The depth is a window's factors: forward (ky, kx, ci) ascending, for the gradient of an input pixel the output's
 * pixels (oy, ox) ascending whose windows reach it, inside the channels co; pixels beside the image are zeros that
 * take part. Which taps reach a pixel depends on its phase in the stride alone, so a phase is a convolution of dy
 * without a stride. Behind a pool dy is spread out: zeros where the maximum was not taken.
 *
 * Images are rounded into frames, a few samples at a time. A block of windows is copied into strips, factor after
 * factor; of a pool the positions of a window are neighbouring rows. With AMX, where the windows of a strip are
 * neighbours in a line, tiles whose factors are neighbours too are read from the frames. */
#include "kernel/bf16/bf16_tiles.h"

enum { BLOCK_ROWS = 2 * TILE_SIDE };

/* A convolution without padding over frames: forward, or one phase of the gradient. */
typedef struct windows {
  int taps_y, run;     /* rows of the kernel; neighbouring factors in each */
  int positions, side; /* rows of a strip for a window; side of the pool */
  int height, width;   /* windows of a sample */
  int64_t line, step_y, step_x, pool_y,
      pool_x;  /* elements in a frame: of a line; to the next window; to the next position */
  int columns; /* outputs of the group */
  const bf16_elem *w;
} windows;

/* Neighbouring factors of a window that lie in one block: their places in a frame, counted from the window's first, and
 * in a row of a strip. */
typedef struct piece {
  int64_t from, to;
  int count;
} piece;

/* Where a thread works. `frame`: of images, `slot` elements each. */
typedef struct memory {
  bf16_elem *frame, *a;
  piece *piece;
  int pieces;
  tile_place *place; /* of each block of the depth */
  float *c;
  int64_t slot;
} memory;

static int64_t depth_of(const windows *v) { return (int64_t)v->taps_y * v->run; }
static int block_windows(const windows *v) { return most(1, BLOCK_ROWS / v->positions); }
static int64_t block_strips(const windows *v) { return tiles_of((int64_t)block_windows(v) * v->positions); }
static int64_t row_elems(const windows *v) { return blocks_of(depth_of(v)) * BF16_DEPTH; }
static int64_t most_pieces(const windows *v) { return v->taps_y * ((int64_t)v->run / BF16_DEPTH + 2); }

static int64_t memory_of(memory *m, void *base, const windows *v, int64_t frames, int64_t slot) {
  char *at = base;
  *m = (memory){.frame = (void *)at, .slot = slot};
  m->a = (void *)(at += elem_bytes(frames * slot));
  m->c = (void *)(at += elem_bytes(block_strips(v) * TILE_SIDE * row_elems(v)));
  m->piece = (void *)(at += whole_bytes(block_strips(v) * TILE_SIDE * tiles_of(v->columns) * TILE_SIDE));
  m->place = (void *)(at += most_pieces(v) * (int64_t)sizeof *m->piece);
  at += blocks_of(depth_of(v)) * (int64_t)sizeof *m->place;
  return at - (char *)base;
}

/* Lists a window's pieces, and zeros the padding of the strips' last block. */
static void prepare(memory *m, const windows *v) {
  for (int64_t k = 0; k < depth_of(v);) {
    const int64_t run = v->run - k % v->run, block = BF16_DEPTH - k % BF16_DEPTH, count = fewest(run, block);
    m->piece[m->pieces++] = (piece){.from = k / v->run * v->line + k % v->run,
                                    .to = k / BF16_DEPTH * TILE_ELEMS + k % BF16_DEPTH,
                                    .count = (int)count};
    k += count;
  }
  memset(m->a, 0, (size_t)(block_strips(v) * TILE_SIDE * row_elems(v)) * sizeof *m->a);
}

/* ---- Windows into strips ---- */

/* Copies factors of the window at `from` into a row of a strip; those of whole blocks only if `all`. */
static void put_window(const memory *m, const windows *v, int row, const bf16_elem *from, bool all) {
  bf16_elem *to = m->a + (row / TILE_SIDE * blocks_of(depth_of(v)) * TILE_SIDE + row % TILE_SIDE) * BF16_DEPTH;
  for (const piece *p = m->piece; p < m->piece + m->pieces; p++)
    if (all || p->count < BF16_DEPTH)
      elems_copy(to + p->to, from + p->from, p->count);
}

/* Window `number`, row-major over samples, rows and columns: the sample and its place. */
typedef struct place {
  int64_t sample;
  int y, x;
} place;

static place place_of(const windows *v, int64_t number) {
  const int64_t all = (int64_t)v->height * v->width, rest = number % all;
  return (place){number / all, (int)(rest / v->width), (int)(rest % v->width)};
}

static void next_window(place *at, const windows *v) {
  if (++at->x < v->width)
    return;
  at->x = 0;
  if (++at->y < v->height)
    return;
  at->y = 0;
  at->sample++;
}

static const bf16_elem *window_at(const memory *m, const windows *v, const place *at) {
  return m->frame + at->sample * m->slot + at->y * v->step_y + at->x * v->step_x;
}

/* With AMX: whether the windows of each strip are neighbours in a line of a frame; then the places of tiles, in the
 * frames for whole blocks. */
static bool take_lines(const memory *m, const windows *v, place at, int count) {
  const int64_t blocks = blocks_of(depth_of(v));
  const bf16_elem *from[BLOCK_ROWS / TILE_SIDE] = {0};
  if (!HD_ISA_IS(amx) || v->positions > 1 || count % TILE_SIDE != 0)
    return false;
  for (int strip = 0; strip < count / TILE_SIDE; strip++) {
    from[strip] = window_at(m, v, &at);
    if (at.x + TILE_SIDE > v->width)
      return false;
    for (int i = 0; i < TILE_SIDE; i++)
      next_window(&at, v);
  }
  for (int64_t k = 0; k < blocks; k++)
    m->place[k] = (tile_place){m->a + k * TILE_ELEMS, 64, blocks * TILE_ELEMS};
  for (const piece *p = m->piece; p < m->piece + m->pieces; p++)
    if (p->count == BF16_DEPTH)
      m->place[p->to / TILE_ELEMS] =
          (tile_place){from[0] + p->from, v->step_x * (int64_t)sizeof *m->a, from[1] ? from[1] - from[0] : 0};
  return true;
}

/* Computes the sums of `count` windows from `at` on into m->c, a row for each position. */
static void sum_windows(const memory *m, const windows *v, place at, int count) {
  const int64_t blocks = blocks_of(depth_of(v));
  const bool lines = take_lines(m, v, at, count);
  int row = 0;
  for (int i = 0; i < count; i++, next_window(&at, v)) {
    const bf16_elem *from = window_at(m, v, &at);
    for (int p = 0; p < v->positions; p++, row++)
      put_window(m, v, row, from + p / v->side * v->pool_y + p % v->side * v->pool_x, !lines);
  }
  HD_SYM(bf16_multiply)
  (&(bf16_product){.a = m->a,
                   .b = v->w,
                   .blocks = blocks,
                   .a_blocks = blocks,
                   .b_blocks = blocks,
                   .c = m->c,
                   .c_row = tiles_of(v->columns) * TILE_SIDE,
                   .rows = row,
                   .panels = (int)tiles_of(v->columns),
                   .a_place = lines ? m->place : NULL});
}

/* ---- Frames ---- */

/* One group of a call: its geometry, and its number. */
typedef struct group_call {
  const hd_call *call;
  hd_geom g;
  int group;
} group_call;

/* A window's dy at the position where each channel's maximum was taken, zeros at the others. */
static void spread_window(bf16_elem *out, const conv_frame *f, const hd_geom *g, const float *dy,
                          const uint8_t *taken) {
  for (int c = 0; c < g->co; c += TILE_SIDE) {
    const int left = g->co - c;
    const g16 v = g16_load_some(dy + c, left), position = g16_from_bytes(taken + c, left);
    for (int i = 0; i < g->conv.pool * g->conv.pool; i++)
      elem_store(out + ((int64_t)(i / g->conv.pool) * f->width + i % g->conv.pool) * f->channels + c,
                 g16_keep(v, g16_equal(position, g16_all((float)i))), left);
  }
}

/* Spreads a sample's dy over its frame. */
static void spread_frame(bf16_elem *out, const conv_frame *f, const group_call *p, int64_t n) {
  const hd_geom *g = &p->g;
  const float *dy = in_row(p->call, 0, n) + (int64_t)p->group * g->co;
  const uint8_t *taken = (const uint8_t *)p->call->in[2] + n * p->call->in_stride[2] + (int64_t)p->group * g->co;
  memset(out, 0, (size_t)frame_slot(f) * sizeof *out);
  for (int wy = 0; wy < g->hp; wy++)
    for (int wx = 0; wx < g->wp; wx++, dy += p->call->g->co, taken += p->call->g->co)
      spread_window(out +
                        ((int64_t)(wy * g->conv.pool + f->top) * f->width + wx * g->conv.pool + f->left) * f->channels,
                    f, g, dy, taken);
}

/* ---- Forward ---- */

static windows forward_windows(const hd_geom *g) {
  const int64_t line = (int64_t)(g->wi + 2 * g->window.pw) * g->ci;
  return (windows){.taps_y = g->window.kh,
                   .run = g->window.kw * g->ci,
                   .positions = g->conv.pool * g->conv.pool,
                   .side = g->conv.pool,
                   .height = g->hp,
                   .width = g->wp,
                   .line = line,
                   .step_y = g->conv.pool * g->window.sh * line,
                   .step_x = (int64_t)g->conv.pool * g->window.sw * g->ci,
                   .pool_y = g->window.sh * line,
                   .pool_x = (int64_t)g->window.sw * g->ci,
                   .columns = g->co};
}

static int64_t group_elems(const windows *v) { return tiles_of(v->columns) * blocks_of(depth_of(v)) * TILE_ELEMS; }

/* A window's maximum over its positions, the sums with the bias; then the ReLU. */
static void put_outputs(const group_call *p, const windows *v, const float *sums, int64_t n, int y, int x) {
  const hd_geom *g = &p->g;
  const int64_t window = ((int64_t)y * g->wp + x) * p->call->g->co + (int64_t)p->group * g->co;
  const float *bias = p->call->in[2] ? (const float *)p->call->in[2] + (int64_t)p->group * g->co : NULL;
  uint8_t *argmax = p->call->out[1] ? (uint8_t *)p->call->out[1] + n * p->call->out_stride[1] + window : NULL;
  float *out = out_row(p->call, 0, n) + window;
  const int64_t row = tiles_of(v->columns) * TILE_SIDE;
  for (int c = 0; c < g->co; c += TILE_SIDE) {
    const int left = g->co - c;
    const g16 b = bias ? g16_load_some(bias + c, left) : g16_zero();
    g16 best = g16_zero(), taken = g16_zero();
    for (int i = 0; i < v->positions; i++) {
      const g16 sum = g16_load(sums + i * row + c), value = bias ? g16_add(sum, b) : sum;
      const g16_mask over = g16_or(g16_less(best, value), g16_nan(value));
      taken = i ? g16_choose(over, g16_all((float)i), taken) : taken;
      best = i ? g16_choose(over, value, best) : value;
    }
    g16_store_some(out + c, g->relu ? g16_relu(best) : best, left);
    if (argmax)
      g16_to_bytes(argmax + c, taken, left);
  }
}

static void forward_group(const group_call *p) {
  const hd_geom *g = &p->g;
  const hd_call *call = p->call;
  const conv_frame frame = input_frame(g, call->g->ci);
  windows v = forward_windows(g);
  memory m;
  memory_of(&m, call->scratch, &v, frame_rows(&frame), frame_slot(&frame));
  prepare(&m, &v);
  v.w = (const bf16_elem *)(const void *)call->packed + p->group * group_elems(&v);
  for (int64_t n = 0; n < call->rows; n += frame_rows(&frame)) {
    const int64_t rows = fewest(frame_rows(&frame), call->rows - n), all = rows * g->hp * g->wp;
    for (int64_t r = 0; r < rows; r++)
      frame_round(m.frame + r * m.slot, &frame, in_row(call, 0, n + r) + p->group * g->ci);
    for (int64_t first = 0; first < all; first += block_windows(&v)) {
      const int count = (int)fewest(block_windows(&v), all - first);
      place at = place_of(&v, first);
      sum_windows(&m, &v, at, count);
      for (int i = 0; i < count; i++, next_window(&at, &v))
        put_outputs(p, &v, m.c + i * v.positions * tiles_of(v.columns) * TILE_SIDE, n + at.sample, at.y, at.x);
    }
  }
}

static void each_group(const hd_call *call, void (*run)(const group_call *p)) {
  group_call p = {.call = call, .g = group_geom(call->g)};
  tiles_begin();
  for (; p.group < call->g->conv.groups; p.group++)
    run(&p);
  tiles_end();
}

static void conv2d(const hd_call *call) {
  if (bf16_is_pointwise(call->g, call->g->co))
    HD_SYM(bf16_pointwise)(call);
  else
    each_group(call, forward_group);
}

static int64_t conv_scratch(const hd_geom *g) {
  if (bf16_is_pointwise(g, g->co))
    return HD_SYM(bf16_slab_bytes)(g->ci);
  const hd_geom part = group_geom(g);
  const conv_frame frame = input_frame(&part, g->ci);
  const windows v = forward_windows(&part);
  memory m;
  return memory_of(&m, NULL, &v, frame_rows(&frame), frame_slot(&frame));
}

static int64_t conv_packed(const hd_geom *g) {
  const hd_geom part = group_geom(g);
  const windows v = forward_windows(&part);
  return packed_floats(g->conv.groups * group_elems(&v));
}

static void conv_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const hd_geom part = group_geom(g);
  const windows v = forward_windows(&part);
  const int64_t depth = depth_of(&v);
  for (int32_t j = j0, end; j < j1; j = end) { /* the rest of a panel */
    const int column = j % part.co, first = column / TILE_SIDE * TILE_SIDE;
    const int group_end = j - column + part.co, panel_end = j - column + first + TILE_SIDE;
    end = least(j1, least(group_end, panel_end));
    HD_SYM(bf16_pack_columns)
    ((bf16_elem *)(void *)packed + j / part.co * group_elems(&v) + first * row_elems(&v),
     w + (int64_t)(j - column + first) * depth, depth, depth, column - first, column - first + end - j);
  }
}

/* ---- Gradient of the input ---- */

/* As if there were no pool: dy at all positions of its windows. */
static hd_geom spread_geom(const hd_geom *g) {
  hd_geom part = group_geom(g);
  part.hp *= part.conv.pool;
  part.wp *= part.conv.pool;
  return part;
}

static windows phase_windows(const hd_geom *g, const conv_phase *y, const conv_phase *x, const conv_frame *frame) {
  const int64_t line = (int64_t)frame->width * g->co;
  return (windows){.taps_y = y->taps,
                   .run = x->taps * g->co,
                   .positions = 1,
                   .side = 1,
                   .height = y->count,
                   .width = x->count,
                   .line = line,
                   .step_y = line,
                   .step_x = g->co,
                   .columns = g->ci};
}

/* Phase i: its windows, and the place of its weights after those of earlier phases. */
static windows nth_phase(conv_phase *y, conv_phase *x, int64_t *before, const hd_geom *g, int i) {
  const conv_frame frame = gradient_frame(g, g->co);
  *before = 0;
  for (int p = 0; p < i; p++) {
    phases_of(y, x, g, p);
    const windows v = phase_windows(g, y, x, &frame);
    *before += group_elems(&v);
  }
  phases_of(y, x, g, i);
  return phase_windows(g, y, x, &frame);
}

static int64_t dx_group_elems(const hd_geom *g) {
  conv_phase y, x;
  int64_t before;
  nth_phase(&y, &x, &before, g, g->window.sh * g->window.sw);
  return before;
}

static float *dx_at(const group_call *p, int64_t n, int y, int x) {
  return out_row(p->call, 0, n) + ((int64_t)y * p->g.wi + x) * p->call->g->ci + (int64_t)p->group * p->g.ci;
}

typedef struct phase_pair {
  const conv_phase *y, *x;
} phase_pair;

/* Samples n to n + rows - 1, whose dy is framed. */
static void run_phase(const group_call *p, const windows *v, const memory *m, phase_pair of, int64_t n, int64_t rows) {
  const hd_geom *g = &p->g;
  const int64_t all = rows * v->height * v->width, columns = tiles_of(v->columns) * TILE_SIDE;
  for (int64_t first = 0; first < all; first += BLOCK_ROWS) {
    const int count = (int)fewest(BLOCK_ROWS, all - first);
    place at = place_of(v, first);
    if (depth_of(v) > 0)
      sum_windows(m, v, at, count);
    else
      memset(m->c, 0, (size_t)(count * columns) * sizeof *m->c);
    for (int i = 0; i < count; i++, next_window(&at, v))
      memcpy(dx_at(p, n + at.sample, of.y->first + at.y * g->window.sh, of.x->first + at.x * g->window.sw),
             m->c + i * columns, (size_t)g->ci * sizeof *m->c);
  }
}

static void dx_group(const group_call *p) {
  const hd_geom *g = &p->g;
  const hd_call *call = p->call;
  const bool pooled = g->conv.pool > 1;
  const hd_geom whole = spread_geom(call->g);
  const conv_frame frame = gradient_frame(&whole, call->g->co);
  const bf16_elem *w = (const bf16_elem *)(const void *)call->packed + p->group * dx_group_elems(&whole);
  for (int64_t n = 0; n < call->rows; n += frame_rows(&frame)) {
    const int64_t rows = fewest(frame_rows(&frame), call->rows - n);
    for (int i = 0; i < g->window.sh * g->window.sw; i++) {
      conv_phase y, x;
      int64_t before;
      memory m;
      windows v = nth_phase(&y, &x, &before, &whole, i);
      memory_of(&m, call->scratch, &v, frame_rows(&frame), frame_slot(&frame));
      prepare(&m, &v);
      for (int64_t r = 0; r < rows && i == 0; r++)
        if (pooled)
          spread_frame(m.frame + r * m.slot, &frame, p, n + r);
        else
          frame_round(m.frame + r * m.slot, &frame, in_row(call, 0, n + r) + p->group * g->co);
      v.w = w + before;
      m.frame += (frame.top + y.start) * v.line + (int64_t)(frame.left + x.start) * g->co;
      run_phase(p, &v, &m, (phase_pair){&y, &x}, n, rows);
    }
  }
}

static void conv2d_dx(const hd_call *call) {
  if (bf16_is_pointwise(call->g, call->g->ci))
    HD_SYM(bf16_pointwise_dx)(call);
  else
    each_group(call, dx_group);
}

static int64_t dx_scratch(const hd_geom *g) {
  if (bf16_is_pointwise(g, g->ci))
    return HD_SYM(bf16_slab_bytes)(g->co);
  const hd_geom whole = spread_geom(g);
  const conv_frame frame = gradient_frame(&whole, g->co);
  int64_t bytes = 0;
  for (int i = 0; i < g->window.sh * g->window.sw; i++) {
    conv_phase y, x;
    int64_t before;
    memory m;
    const windows v = nth_phase(&y, &x, &before, &whole, i);
    const int64_t here = memory_of(&m, NULL, &v, frame_rows(&frame), frame_slot(&frame));
    bytes = here > bytes ? here : bytes;
  }
  return bytes;
}

static int64_t dx_packed(const hd_geom *g) {
  const hd_geom whole = spread_geom(g);
  return packed_floats(g->conv.groups * dx_group_elems(&whole));
}

/* Output j is a row of the depth under each tap; tap t of a phase is the kernel's last - t * stride. */
static void dx_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const hd_geom whole = spread_geom(g);
  for (int i = 0; i < g->window.sh * g->window.sw; i++) {
    conv_phase y, x;
    int64_t before;
    const windows v = nth_phase(&y, &x, &before, &whole, i);
    const int64_t panel = blocks_of(depth_of(&v)) * TILE_ELEMS;
    for (int32_t j = j0; j < j1; j++)
      for (int t = 0; t < y.taps * x.taps; t++) {
        const int ky = y.last - t / x.taps * g->window.sh, kx = x.last - t % x.taps * g->window.sw;
        const int depth = t * whole.co + j % whole.co;
        const float *from = w + (((int64_t)j * g->window.kh + ky) * g->window.kw + kx) * whole.ci;
        bf16_elem *tile = (bf16_elem *)(void *)packed + j / whole.co * dx_group_elems(&whole) + before +
                          depth / BF16_DEPTH * TILE_ELEMS;
        for (int c = 0; c < whole.ci; c += TILE_SIDE, tile += panel)
          tile_put_depth(tile, depth % BF16_DEPTH, from + c, whole.ci - c);
      }
  }
}

static int takes(const hd_geom *g) { return bf16_takes(g); }

void HD_SYM(bf16_conv_fill)(hd_kernels *table) {
  table->supports[HD_OP_conv2d] = takes;
  table->run[HD_OP_conv2d] = conv2d;
  table->scratch_bytes[HD_OP_conv2d] = conv_scratch;
  table->packed_elems[HD_OP_conv2d] = conv_packed;
  table->pack[HD_OP_conv2d] = conv_pack;
  table->supports[HD_OP_conv2d_dx] = takes;
  table->run[HD_OP_conv2d_dx] = conv2d_dx;
  table->scratch_bytes[HD_OP_conv2d_dx] = dx_scratch;
  table->packed_elems[HD_OP_conv2d_dx] = dx_packed;
  table->pack[HD_OP_conv2d_dx] = dx_pack;
}
