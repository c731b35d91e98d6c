/* The gradient of a convolution's weight in bfloat16, of one shard, see bf16.h; each group of channels by itself.
 *
 * The depth is the shard's output pixels, behind a pool those of all positions in its windows: samples ascending,
 * pixels row-major. A set is as few samples as have 32 pixels together, and is padded with zeros to whole blocks, so
 * blocks of small images are full and a set's frames are small. Strips are of output channels, from dy; panels of the
 * kernel's factors (kx, ci) in each row ky, from the framed images. */
#include "kernel/bf16/bf16_tiles.h"

enum { RUN_BLOCKS = 16, PANELS = 2 }; /* blocks of the depth, and panels, at a time */

typedef struct shape {
  hd_geom g; /* of a group */
  conv_frame frame;
  int pixels, width; /* of the output: of a sample, of a line */
  int set;           /* samples of a set */
  int64_t set_blocks;
  int sets;        /* at a time, so that small images fill a run */
  int run, panels; /* factors of a row of the kernel; panels of all rows */
  int64_t outputs; /* channels, up to whole strips */
} shape;

static shape shape_of(const hd_geom *whole) {
  shape s = {.g = group_geom(whole)};
  const hd_geom *g = &s.g;
  s.frame = input_frame(g, whole->ci);
  s.width = g->wp * g->conv.pool;
  s.pixels = g->hp * g->conv.pool * s.width;
  s.set = (BF16_DEPTH + s.pixels - 1) / s.pixels;
  s.set_blocks = blocks_of((int64_t)s.set * s.pixels);
  s.sets = (int)(s.set_blocks < RUN_BLOCKS ? RUN_BLOCKS / s.set_blocks : 1);
  s.run = g->window.kw * g->ci;
  s.panels = g->window.kh * (int)tiles_of(s.run);
  s.outputs = tiles_of(g->co) * TILE_SIDE;
  return s;
}

typedef struct memory {
  bf16_elem *frame; /* of the samples of some sets */
  float *pairs;     /* with AMX: of each element and the next pixel's */
  bf16_elem *dy;    /* a block's pixels, all outputs */
  bf16_elem *a, *b; /* strips of all outputs; PANELS panels; RUN_BLOCKS blocks */
  int64_t *at;      /* where each pixel's window begins in the frames; -1: no pixel */
  float *c;         /* outputs x panels */
} memory;

/* Elements of the frames of all samples at a time. */
static int64_t frames_elems(const shape *s) { return (int64_t)s->sets * s->set * frame_slot(&s->frame); }

#if HD_ISA_IS(amx)
static int64_t pairs_bytes(const shape *s) { return whole_bytes(frames_elems(s) + FRAME_SLACK); }
/* Neighbouring pixels of a line are a pair of the depth under every tap: the pair is made once. */
static void make_pairs(const memory *m, const shape *s, int64_t elems) {
  for (int64_t e = 0; e < elems; e += 16)
    g16_store(m->pairs + e, elem_pairs(m->frame + e, m->frame + e + s->g.ci));
}
#else
static int64_t pairs_bytes(const shape *s) { return 0; }
static void make_pairs(const memory *m, const shape *s, int64_t elems) {}
#endif

static int64_t memory_of(memory *m, void *base, const shape *s) {
  char *at = base;
  m->frame = (void *)at;
  at += elem_bytes(frames_elems(s) + FRAME_SLACK + s->g.ci);
  m->pairs = (void *)at;
  m->dy = (void *)(at += pairs_bytes(s));
  m->a = (void *)(at += elem_bytes(BF16_DEPTH * s->outputs));
  m->b = (void *)(at += elem_bytes(RUN_BLOCKS * BF16_DEPTH * s->outputs));
  m->at = (void *)(at += elem_bytes(PANELS * RUN_BLOCKS * TILE_ELEMS));
  m->c = (void *)(at += RUN_BLOCKS * BF16_DEPTH * (int64_t)sizeof *m->at);
  at += whole_bytes(s->outputs * s->panels * TILE_SIDE);
  return at - (char *)base;
}

/* The group of a call that is being computed: samples n to n + rows - 1 are framed. */
typedef struct work {
  const hd_call *call;
  const shape *s;
  memory m;
  int group;
  int64_t n, rows;
} work;

/* A place in the depth of the current samples. */
typedef struct place {
  int64_t sample; /* -1: padding of a set */
  int y, x;
} place;

/* The places of a block, in order. */
static void places_of(place *at, const work *w, int64_t block) {
  const shape *s = w->s;
  const int64_t inside = block % s->set_blocks * BF16_DEPTH, end = (int64_t)s->set * s->pixels;
  const int64_t first = block / s->set_blocks * s->set;
  int64_t sample = first + inside / s->pixels;
  int y = (int)(inside % s->pixels) / s->width, x = (int)(inside % s->pixels) % s->width;
  for (int i = 0; i < BF16_DEPTH; i++) {
    at[i] = (place){inside + i < end && sample < w->rows ? sample : -1, y, x};
    if (++x < s->width)
      continue;
    x = 0;
    if (++y < s->pixels / s->width)
      continue;
    y = 0;
    sample++;
  }
}

/* A pixel's dy: at a position of a window behind a pool, zeros where the maximum was not taken. */
static void put_dy(bf16_elem *to, const work *w, const place *p) {
  const hd_geom *g = &w->s->g;
  const bool pooled = g->conv.pool > 1; /* divisions are slow */
  const int wy = pooled ? p->y / g->conv.pool : p->y, wx = pooled ? p->x / g->conv.pool : p->x;
  const int64_t at = ((int64_t)wy * g->wp + wx) * w->call->g->co + (int64_t)w->group * g->co;
  const float *dy = in_row(w->call, 1, w->n + p->sample) + at;
  if (!pooled) {
    elems_round(to, dy, g->co);
    return;
  }
  const uint8_t *taken = (const uint8_t *)w->call->in[2] + (w->n + p->sample) * w->call->in_stride[2] + at;
  const g16 position = g16_all((float)((p->y - wy * g->conv.pool) * g->conv.pool + p->x - wx * g->conv.pool));
  for (int c = 0; c < g->co; c += TILE_SIDE) {
    const int left = g->co - c;
    const g16 v = g16_load_some(dy + c, left);
    elem_store(to + c, g16_keep(v, g16_equal(g16_from_bytes(taken + c, left), position)), left);
  }
}

/* Strips of blocks `first` to first + blocks - 1, and where their pixels' windows begin. */
static void put_strips(const work *w, int64_t first, int64_t blocks) {
  const shape *s = w->s;
  const hd_geom *g = &s->g;
  for (int64_t k = 0; k < blocks; k++) {
    place places[BF16_DEPTH];
    places_of(places, w, first + k);
    for (int i = 0; i < BF16_DEPTH; i++) {
      const place *p = &places[i];
      int64_t *at = w->m.at + k * BF16_DEPTH + i;
      *at = -1;
      if (p->sample >= 0) {
        *at = p->sample * frame_slot(&s->frame) +
              ((int64_t)p->y * g->window.sh * s->frame.width + p->x * g->window.sw) * g->ci;
        put_dy(w->m.dy + i * s->outputs, w, p);
      } else {
        memset(w->m.dy + i * s->outputs, 0, (size_t)s->outputs * sizeof *w->m.dy);
      }
    }
    for (int64_t strip = 0; strip < s->outputs / TILE_SIDE; strip++)
      tile_put_columns(w->m.a + (strip * RUN_BLOCKS + k) * TILE_ELEMS, w->m.dy + strip * TILE_SIDE, s->outputs);
  }
}

/* A panel of the same blocks: 16 factors of a row of the kernel, `offset` after the beginning of each window. */
static void put_panel(const work *w, bf16_elem *panel, int64_t offset, int64_t blocks) {
  static const bf16_elem zeros[TILE_SIDE];
  const bf16_elem *from = w->m.frame + offset;
  for (int64_t k = 0; k < blocks; k++, panel += TILE_ELEMS)
    for (int i = 0; i < BF16_DEPTH / 2; i++) {
      const int64_t *at = w->m.at + k * BF16_DEPTH + 2 * i;
#if HD_ISA_IS(amx)
      if (at[0] >= 0 && at[1] == at[0] + w->s->g.ci) {
        _mm512_storeu_ps(panel + 2 * i * TILE_SIDE, g16_load(w->m.pairs + offset + at[0]));
        continue;
      }
#endif
      tile_put_pair(panel, i, at[0] < 0 ? zeros : from + at[0], at[1] < 0 ? zeros : from + at[1]);
    }
}

/* The offset of a panel's factors from the beginning of a window. */
static int64_t panel_offset(const shape *s, int panel) {
  const int across = (int)tiles_of(s->run);
  return (int64_t)(panel / across) * s->frame.width * s->g.ci + panel % across * TILE_SIDE;
}

/* With AMX: whether the pixels of each block are neighbours in a line of the frames. Then tiles of panels are pairs
 * as they lie there. */
static bool are_lines(const work *w, int64_t blocks) {
  const int64_t *at = w->m.at;
  for (int64_t k = 0; k < blocks * BF16_DEPTH; k++)
    if (at[k] < 0 || at[k] != at[k / BF16_DEPTH * BF16_DEPTH] + k % BF16_DEPTH * w->s->g.ci)
      return false;
  return HD_ISA_IS(amx);
}

/* The panels of a product from `panel` on, as they lie in the frames. */
static void take_lines(bf16_product *p, const bf16_elem *tile[RUN_BLOCKS], const work *w, int panel) {
  const shape *s = w->s;
  for (int64_t k = 0; k < p->blocks; k++)
    tile[k] = (const bf16_elem *)(const void *)(w->m.pairs + w->m.at[k * BF16_DEPTH] + panel_offset(s, panel));
  p->b_tile = tile;
  p->b_line = 2 * s->g.ci * (int64_t)sizeof(float);
  p->b_panel = p->panels > 1 ? 2 * (panel_offset(s, panel + 1) - panel_offset(s, panel)) : 0;
}

static void add_blocks(const work *w, int64_t first, int64_t blocks, int add) {
  const shape *s = w->s;
  const bf16_elem *tile[RUN_BLOCKS];
  put_strips(w, first, blocks);
  const bool lines = are_lines(w, blocks);
  for (int panel = 0; panel < s->panels; panel += PANELS) {
    bf16_product p = {.a = w->m.a,
                      .b = w->m.b,
                      .blocks = blocks,
                      .a_blocks = RUN_BLOCKS,
                      .b_blocks = RUN_BLOCKS,
                      .c = w->m.c + (int64_t)panel * TILE_SIDE,
                      .c_row = (int64_t)s->panels * TILE_SIDE,
                      .rows = s->g.co,
                      .panels = least(PANELS, s->panels - panel),
                      .add = add};
    if (lines)
      take_lines(&p, tile, w, panel);
    for (int q = 0; q < p.panels && !lines; q++)
      put_panel(w, w->m.b + (int64_t)q * RUN_BLOCKS * TILE_ELEMS, panel_offset(s, panel + q), blocks);
    HD_SYM(bf16_multiply)(&p);
  }
}

static void store_group(const work *w) {
  const shape *s = w->s;
  const int64_t factors = (int64_t)s->g.window.kh * s->run, across = tiles_of(s->run) * TILE_SIDE;
  for (int co = 0; co < s->g.co; co++)
    for (int ky = 0; ky < s->g.window.kh; ky++)
      put_sums(w->call, (float *)w->call->out[0] + ((int64_t)w->group * s->g.co + co) * factors + (int64_t)ky * s->run,
               w->m.c + (int64_t)co * s->panels * TILE_SIDE + ky * across, s->run);
}

static void dw_group(const hd_call *call, const shape *s, int group) {
  work w = {.call = call, .s = s, .group = group};
  const int64_t samples = (int64_t)s->sets * s->set;
  memory_of(&w.m, call->scratch, s);
  for (; w.n < call->rows; w.n += samples) {
    w.rows = fewest(samples, call->rows - w.n);
    const int64_t blocks = (w.rows + s->set - 1) / s->set * s->set_blocks;
    for (int64_t r = 0; r < w.rows; r++)
      frame_round(w.m.frame + r * frame_slot(&s->frame), &s->frame,
                  in_row(call, 0, w.n + r) + (int64_t)group * s->g.ci);
    make_pairs(&w.m, s, w.rows * frame_slot(&s->frame));
    for (int64_t k = 0; k < blocks; k += RUN_BLOCKS)
      add_blocks(&w, k, fewest(RUN_BLOCKS, blocks - k), w.n > 0 || k > 0);
  }
  store_group(&w);
}

/* No block has windows of two samples. */
static bool is_of_rows(const hd_geom *g) { return bf16_is_pointwise(g, 0) && (int64_t)g->hi * g->wi % BF16_DEPTH == 0; }

static void conv2d_dw(const hd_call *call) {
  const shape s = shape_of(call->g);
  if (call->out[1])
    bias_sums(call, hd_kernels_for(float_kernels(), HD_OP_conv2d_dw, call->g)->run[HD_OP_conv2d_dw]);
  if (call->out[0] && is_of_rows(call->g)) {
    HD_SYM(bf16_dw_of_rows)(call);
    return;
  }
  tiles_begin();
  for (int group = 0; group < call->g->conv.groups && call->out[0]; group++)
    dw_group(call, &s, group);
  tiles_end();
}

static int64_t dw_scratch(const hd_geom *g) {
  const shape s = shape_of(g);
  const int64_t bias = hd_scratch_bytes(float_kernels(), HD_OP_conv2d_dw, g);
  memory m;
  const int64_t bytes = is_of_rows(g) ? HD_SYM(bf16_dw_of_rows_scratch)(g) : memory_of(&m, NULL, &s);
  return bytes > bias ? bytes : bias;
}

static int takes(const hd_geom *g) { return bf16_takes(g); }

void HD_SYM(bf16_conv_dw_fill)(hd_kernels *table) {
  table->supports[HD_OP_conv2d_dw] = takes;
  table->run[HD_OP_conv2d_dw] = conv2d_dw;
  table->scratch_bytes[HD_OP_conv2d_dw] = dw_scratch;
  table->merges[HD_OP_conv2d_dw] = takes;
  table->form[HD_OP_conv2d_dw] = NULL;
}
