/* The gradient of a convolution's weight behind a pool of side 2, for few input channels: output channels lie in vector
 * lanes, and each lane picks the input of its tap at the position of its maximum. A window takes one multiply-add a tap
 * instead of one a position, and no lists.
 *
 * The inputs of a tap at the four positions of a window are contiguous, a quad: scratch holds the image of a sample in
 * this form, with its padding, [y][x][channel][position]. Neighbouring windows share quads.
 *
 * Order: per weight, over samples ascending, windows row-major: acc = fma(dy, x, acc), at last acc + 0. */
#include "op/conv2d/conv2d_cpu.h"

enum { QUAD = 4, QUADS_SLACK = 16, PICK_LINES = 5 };

/* The geometry of a call. */
typedef struct pick_shape {
  conv_frame frame;
  int64_t line;     /* floats of a line of quads */
  int lines;        /* of quads */
  int run, taps;    /* taps in a row of the kernel; all taps */
  int down, across; /* taps of a block */
  int64_t dy_pixel; /* floats of dy from a window to the next */
  float *image;     /* framed, where there is padding */
  float *quads;     /* [lines][line] */
  float *sums;      /* [group][taps][16] */
  float *dy;        /* [window][16], of a last group that is short, and its positions, [window][16] */
  uint8_t *argmax;
} pick_shape;

/* As few blocks as their registers allow, of nearly equal size. */
static void cut_taps(pick_shape *s, int kh) {
  int fewest = 0;
  for (int down = 1; down <= least(kh, least(PICK_LINES, PICK_TAPS)); down++) {
    int across = least(PICK_ACROSS, PICK_TAPS / down);
    int blocks = ((kh + down - 1) / down) * ((s->run + across - 1) / across);
    if (fewest && blocks >= fewest)
      continue;
    fewest = blocks;
    s->down = even_part(kh, down);
    s->across = even_part(s->run, across);
  }
}

static int64_t floats(int64_t count) { return whole_bytes(count) / (int64_t)sizeof(float); }

/* Lines are whole groups of quads: sixteen are made at a time. */
static pick_shape shape_of(const hd_geom *g, int64_t dy_pixel, int64_t pixel, float *scratch) {
  pick_shape s = {.frame = input_frame(g, pixel), .run = g->window.kw * g->ci, .dy_pixel = dy_pixel};
  s.lines = s.frame.height - g->window.sh;
  s.line = (int64_t)QUAD * up16((s.frame.width - g->window.sw) * g->ci);
  s.taps = g->window.kh * s.run;
  s.image = scratch;
  s.quads = s.image + floats(frame_elems(&s.frame) + FRAME_SLACK);
  s.sums = s.quads + s.lines * s.line + QUADS_SLACK;
  s.dy = s.sums + (int64_t)s.taps * up16(g->co);
  s.argmax = (uint8_t *)(void *)(s.dy + 16 * (int64_t)(g->hp * g->wp));
  cut_taps(&s, g->window.kh);
  return s;
}

int64_t HD_SYM(conv_dw_pick_scratch)(const hd_geom *g) {
  pick_shape s = shape_of(g, g->co, g->ci, NULL);
  return whole_bytes(frame_elems(&s.frame) + FRAME_SLACK) +
         whole_bytes(s.lines * s.line + QUADS_SLACK + (int64_t)s.taps * up16(g->co) + 20 * (int64_t)(g->hp * g->wp));
}

/* A block of taps by sixteen channels over the windows of one sample. */
typedef struct pick_block {
  const hd_geom *g;
  const pick_shape *shape;
  const float *quads; /* of the first window's first tap */
  const float *dy;
  const uint8_t *argmax;
  int64_t dy_step, argmax_step; /* to the next window */
  float *sums;                  /* of the first tap */
} pick_block;

/* down and across are constants where this is inlined. */
G16 void add_windows(const pick_block *b, int down, int across) {
  const hd_geom *g = b->g;
  const float *dy = b->dy, *x[PICK_LINES];
  const uint8_t *argmax = b->argmax;
  int64_t step_x = (int64_t)QUAD * 2 * g->window.sw * g->ci,
          step_y = 2 * g->window.sh * b->shape->line - g->wp * step_x;
  g16 acc[PICK_LINES][PICK_ACROSS];
  UNROLL_FOR (r, down) {
    x[r] = b->quads + r * b->shape->line;
    UNROLL_FOR (q, across)
      acc[r][q] = g16_load(b->sums + (r * b->shape->run + q) * 16);
  }
  for (int wy = 0; wy < g->hp; wy++) {
    for (int wx = 0; wx < g->wp; wx++, dy += b->dy_step, argmax += b->argmax_step) {
      g16 by = g16_load(dy);
      g16_places places = g16_places_from_bytes(argmax);
      UNROLL_FOR (r, down) {
        UNROLL_FOR (q, across)
          acc[r][q] = g16_fma(by, g16_pick(x[r], q, &places), acc[r][q]);
        x[r] += step_x;
      }
    }
    UNROLL_FOR (r, down)
      x[r] += step_y;
  }
  UNROLL_FOR (r, down)
    UNROLL_FOR (q, across)
      g16_store(b->sums + (r * b->shape->run + q) * 16, acc[r][q]);
}

typedef void block_fn(const pick_block *block);

#define FITS(across, down) ((across) <= PICK_ACROSS && (down) <= PICK_LINES && (across) * (down) <= PICK_TAPS)
#define BLOCK(across, down)                                                                                            \
  static void block_##across##x##down(const pick_block *block) {                                                       \
    if (FITS(across, down))                                                                                            \
      add_windows(block, down, across);                                                                                \
  }
BLOCK_TABLE(block_fn)

/* Computes the quads of one sample. */
static void make_quads(const pick_shape *s, const hd_geom *g, const float *x) {
  const float *image = x;
  int64_t line = (int64_t)s->frame.width * g->ci, right = (int64_t)g->window.sw * g->ci, count = line - right;
  if (!frame_is_image(&s->frame)) {
    HD_SYM(conv_frame_fill)(s->image, &s->frame, x);
    image = s->image;
  }
  for (int y = 0; y < s->lines; y++) {
    const float *upper = image + y * line, *lower = upper + g->window.sh * line;
    for (int64_t i = 0; i < count; i += 16)
      g16_store_quads(s->quads + y * s->line + QUAD * i, g16_load_some(upper + i, count - i),
                      g16_load_some(upper + right + i, count - i), g16_load_some(lower + i, count - i),
                      g16_load_some(lower + right + i, count - i));
  }
}

/* Adds one sample, given as quads, to the sums of a group; dy and argmax: its first channel. */
static void add_group(const pick_shape *s, const hd_geom *g, int group, const pick_block *whole) {
  for (int ky = 0; ky < g->window.kh; ky += s->down)
    for (int k = 0; k < s->run; k += s->across) {
      pick_block block = *whole;
      block.quads = s->quads + ky * s->line + QUAD * k;
      block.sums = s->sums + ((int64_t)group * s->taps + ky * s->run + k) * 16;
      blocks[least(s->down, g->window.kh - ky) - 1][least(s->across, s->run - k) - 1](&block);
    }
}

/* The gradients of the last group, followed by zeros, and its positions, followed by any that the array has. */
static void widen(const pick_shape *s, const hd_geom *g, const float *dy, const uint8_t *argmax, int channels) {
  int windows = g->hp * g->wp;
  for (int window = 0; window < windows; window++, dy += s->dy_pixel, argmax += g->co) {
    g16_store(s->dy + 16 * window, g16_load_some(dy, channels));
    if ((windows - 1 - window) * g->co + channels >= 16)
      memcpy(s->argmax + 16 * window, argmax, 16);
    else
      memcpy(memset(s->argmax + 16 * window, 0, 16), argmax, (size_t)channels);
  }
}

static void add_sample(const pick_shape *s, const hd_geom *g, const float *dy, const uint8_t *argmax) {
  int whole = g->co / 16, left = g->co % 16;
  for (int group = 0; group < whole; group++) {
    pick_block block = {g, s, NULL, dy + 16 * group, argmax + 16 * group, s->dy_pixel, g->co, NULL};
    add_group(s, g, group, &block);
  }
  if (!left)
    return;
  widen(s, g, dy + 16 * whole, argmax + 16 * whole, left);
  pick_block block = {g, s, NULL, s->dy, s->argmax, 16, 16, NULL};
  add_group(s, g, whole, &block);
}

void HD_SYM(conv_dw_pick)(const hd_call *call, int64_t dy_pixel, int64_t pixel) {
  const hd_geom *g = call->g;
  pick_shape s = shape_of(g, dy_pixel, pixel, call->scratch);
  float *dw = call->out[0];
  memset(s.sums, 0, (size_t)s.taps * (size_t)up16(g->co) * sizeof *s.sums);
  for (int64_t n = 0; n < call->rows; n++) {
    make_quads(&s, g, in_row(call, 0, n));
    add_sample(&s, g, in_row(call, 1, n), (const uint8_t *)call->in[2] + n * call->in_stride[2]);
  }
  for (int co = 0; co < g->co; co++)
    for (int t = 0; t < s.taps; t++)
      dw[(int64_t)co * s.taps + t] = s.sums[(co / 16 * s.taps + t) * 16 + co % 16] + 0.0f;
}
