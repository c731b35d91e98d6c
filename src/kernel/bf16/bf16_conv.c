/* Forward convolution with AVX512_BF16: the walk of op/conv2d/conv2d_walk_cpu.c over images rounded to bfloat16, in
 * pairs along the kernel's rows; see bf16.h for the chain.
 *
 * Images are rounded into frames in scratch, a few samples at a time. A block is `pixels` windows by `groups` groups of
 * output channels, with one pass over the taps for each position of the pool. */
#include "kernel/bf16/bf16_avx512.h"

enum { MOST_PIXELS = ACC_GROUPS / BLOCK_GROUPS, MOST_GROUPS = BLOCK_GROUPS + 1 };

/* One group of channels: g is that group's geometry, x the first window in the first sample's frame. */
typedef struct bf16_walk {
  const hd_geom *g;
  const uint16_t *x;
  int64_t slot, line; /* elements from frame to frame, from line to line */
  const float *w, *bias;
  float *y;
  uint8_t *argmax;
  int64_t y_stride, argmax_stride, pixel; /* pixel: channels of all groups */
  int64_t rows;
} bf16_walk;

typedef struct walk_block {
  const uint16_t *x[MOST_PIXELS];
  int64_t y[MOST_PIXELS], argmax[MOST_PIXELS]; /* where outputs go */
  const float *w, *bias;
  int first; /* channel */
} walk_block;

static int half_run(const hd_geom *g) { return (g->kw * g->ci + 1) / 2; }

/* Where in a packed copy a row's pair for a tap lies, and how far apart taps are: counted in pairs. */
static int64_t pair_at(const hd_geom *g, int channel, int pair) {
  return walk_weight_at(g->co, g->kh * half_run(g), channel, pair);
}

static int64_t group_elems(const hd_geom *g) { return (int64_t)up16(g->co) * g->kh * half_run(g); }

G16 void taps(g16 (*acc)[MOST_GROUPS], const bf16_walk *walk, const walk_block *block, int64_t at, int pixels,
              int groups) {
  const int64_t run = (int64_t)walk->g->kw * walk->g->ci;
  const float *w = block->w;
  UNROLL_FOR (q, groups) {
    int left = walk->g->co - block->first - 16 * q;
    g16 bias = block->bias ? g16_load_some(block->bias + 16 * q, left) : g16_zero();
    UNROLL_FOR (p, pixels)
      acc[p][q] = bias;
  }
  for (int ky = 0; ky < walk->g->kh; ky++, at += walk->line) {
    int64_t i = at;
    __m512i wv[MOST_GROUPS];
    for (; i + 1 < at + run; i += 2, w += 16 * groups) {
      UNROLL_FOR (q, groups)
        wv[q] = _mm512_loadu_si512(w + 16 * q);
      UNROLL_FOR (p, pixels) {
        __m512i xv = bf16_pair(block->x[p] + i);
        UNROLL_FOR (q, groups)
          acc[p][q] = bf16_dot(acc[p][q], xv, wv[q]);
      }
    }
    if (i == at + run)
      continue;
    UNROLL_FOR (q, groups)
      wv[q] = _mm512_loadu_si512(w + 16 * q);
    w += 16 * groups;
    UNROLL_FOR (p, pixels)
      UNROLL_FOR (q, groups)
        acc[p][q] = bf16_dot(acc[p][q], bf16_single(block->x[p] + i), wv[q]);
  }
}

G16 void finish(const bf16_walk *walk, const walk_block *block, g16 best, g16 taken, int p, int q) {
  int left = walk->g->co - block->first - 16 * q;
  g16_store_some(walk->y + block->y[p] + 16 * q, walk->g->relu ? g16_relu(best) : best, left);
  if (walk->argmax)
    g16_to_bytes(walk->argmax + block->argmax[p] + 16 * q, taken, left);
}

G16 void run_block(const bf16_walk *walk, const walk_block *block, int pixels, int groups) {
  g16 best[MOST_PIXELS][MOST_GROUPS], taken[MOST_PIXELS][MOST_GROUPS], acc[MOST_PIXELS][MOST_GROUPS];
  const hd_geom *g = walk->g;
  taps(best, walk, block, 0, pixels, groups);
  UNROLL_FOR (p, pixels)
    UNROLL_FOR (q, groups)
      taken[p][q] = g16_zero();
  for (int position = 1; position < g->pool * g->pool; position++) {
    int64_t down = position / g->pool, right = position % g->pool;
    taps(acc, walk, block, down * g->sh * walk->line + right * g->sw * g->ci, pixels, groups);
    UNROLL_FOR (p, pixels)
      UNROLL_FOR (q, groups) {
        g16_mask over = g16_or(g16_less(best[p][q], acc[p][q]), g16_nan(acc[p][q]));
        best[p][q] = g16_choose(over, acc[p][q], best[p][q]);
        taken[p][q] = g16_choose(over, g16_all((float)position), taken[p][q]);
      }
  }
  UNROLL_FOR (p, pixels)
    UNROLL_FOR (q, groups)
      finish(walk, block, best[p][q], taken[p][q], p, q);
}

typedef void block_fn(const bf16_walk *walk, const walk_block *block);

#define FITS(pixels, groups) ((pixels) <= MOST_PIXELS && (groups) <= MOST_GROUPS && (pixels) * (groups) <= ACC_GROUPS)
#define BLOCK(pixels, groups)                                                                                          \
  static void block_##pixels##x##groups(const bf16_walk *walk, const walk_block *block) {                              \
    if (FITS(pixels, groups))                                                                                          \
      run_block(walk, block, pixels, groups);                                                                          \
  }
BLOCK_TABLE(block_fn)

/* Window `number`, row-major over samples, rows and columns. */
static void take_window(walk_block *block, const bf16_walk *walk, int p, int64_t number) {
  const hd_geom *g = walk->g;
  int64_t windows = (int64_t)g->hp * g->wp, row = number / windows, wy = number % windows / g->wp;
  int64_t wx = number % g->wp, out = (wy * g->wp + wx) * walk->pixel + block->first;
  block->x[p] = walk->x + row * walk->slot + (wy * g->pool * g->sh) * walk->line + wx * g->pool * g->sw * g->ci;
  block->y[p] = row * walk->y_stride + out;
  block->argmax[p] = row * walk->argmax_stride + out;
}

/* All windows for the groups of channels from `first` on, in blocks of nearly equal size. */
static void walk_channels(const bf16_walk *walk, int first, int groups) {
  int pixels = least(MOST_PIXELS, ACC_GROUPS / groups);
  int64_t windows = walk->rows * walk->g->hp * walk->g->wp, count = (windows + pixels - 1) / pixels;
  walk_block block = {.w = walk->w + (int64_t)first * 16 * walk->g->kh * half_run(walk->g),
                      .bias = walk->bias ? walk->bias + first * 16 : NULL,
                      .first = first * 16};
  for (int64_t b = 0; b < count; b++) {
    int64_t begin = windows * b / count, end = windows * (b + 1) / count;
    for (int64_t i = begin; i < end; i++)
      take_window(&block, walk, (int)(i - begin), i);
    blocks[groups - 1][end - begin - 1](walk, &block);
  }
}

/* Rounds an image into its frame; all else of the frame is zero. */
static void round_frame(uint16_t *out, const conv_frame *frame, const float *image) {
  memset(out, 0, (size_t)frame_slot(frame) * sizeof *out);
  for (int y = 0; y < frame->image_height; y++, image += frame->image_width * frame->pixel) {
    uint16_t *to = out + ((int64_t)(y + frame->top) * frame->width + frame->left) * frame->channels;
    if (frame->pixel == frame->channels)
      bf16_round(to, image, (int64_t)frame->image_width * frame->channels);
    else
      for (int x = 0; x < frame->image_width; x++)
        bf16_round(to + x * frame->channels, image + x * frame->pixel, frame->channels);
  }
}

static void run_group(const hd_call *call, const hd_geom *g, int group) {
  const conv_frame frame = input_frame(g, call->g->ci);
  const int64_t at_once = frame_rows(&frame), slot = frame_slot(&frame);
  const int vectors = up16(g->co) / 16;
  const float *bias = call->in[2];
  uint16_t *frames = call->scratch;
  for (int64_t n = 0; n < call->rows; n += at_once) {
    bf16_walk walk = {.g = g,
                      .x = frames,
                      .slot = slot,
                      .line = (int64_t)frame.width * g->ci,
                      .w = call->packed + group * group_elems(g),
                      .bias = bias ? bias + group * g->co : NULL,
                      .y = out_row(call, 0, n) + group * g->co,
                      .argmax = call->out[1] ? (uint8_t *)call->out[1] + n * call->out_stride[1] : NULL,
                      .y_stride = call->out_stride[0],
                      .argmax_stride = call->out_stride[1],
                      .pixel = call->g->co,
                      .rows = call->rows - n < at_once ? call->rows - n : at_once};
    for (int64_t r = 0; r < walk.rows; r++)
      round_frame(frames + r * slot, &frame, in_row(call, 0, n + r) + group * g->ci);
    for (int first = 0; first < vectors; first += walk_block_groups(first, vectors))
      walk_channels(&walk, first, walk_block_groups(first, vectors));
  }
}

static void conv2d(const hd_call *call) {
  const hd_geom part = group_geom(call->g);
  for (int group = 0; group < call->g->groups; group++)
    run_group(call, &part, group);
}

static int64_t scratch_bytes(const hd_geom *g) {
  const hd_geom part = group_geom(g);
  const conv_frame frame = input_frame(&part, g->ci);
  return frame_rows(&frame) * frame_slot(&frame) * (int64_t)sizeof(uint16_t);
}

static int64_t packed_elems(const hd_geom *g) {
  const hd_geom part = group_geom(g);
  return g->groups * group_elems(&part);
}

static void pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const hd_geom part = group_geom(g);
  const int run = part.kw * part.ci;
  for (int32_t j = j0; j < j1; j++) {
    uint16_t *to = (uint16_t *)(void *)(packed + j / part.co * group_elems(&part));
    for (int ky = 0; ky < part.kh; ky++)
      for (int e = 0; e < run; e++)
        to[2 * pair_at(&part, j % part.co, ky * half_run(&part) + e / 2) + e % 2] =
            bf16_of(w[((int64_t)j * part.kh + ky) * run + e]);
  }
}

void hd__bf16_conv_fill(hd_kernels *table) {
  table->supports[HD_OP_conv2d] = bf16_takes;
  table->run[HD_OP_conv2d] = conv2d;
  table->scratch_bytes[HD_OP_conv2d] = scratch_bytes;
  table->packed_elems[HD_OP_conv2d] = packed_elems;
  table->pack[HD_OP_conv2d] = pack;
}
