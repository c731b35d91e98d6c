/* Gradients of a convolution over nonzero ("live") elements alone: shared by those of the input (behind a pool) and
 * of the weight. The positions of nonzero dy are written to lists first; then a patch stays in registers while a
 * list is read.
 *
 * A list is read for a slice of the input's channels at a time, so that the weights or images that its entries point
 * at stay in the first-level cache: a prefetcher cannot predict them. A slice is SLICE channels, or all if there are
 * fewer or not many more; pixels of a slice lie SLICE apart, missing channels are zero. */
#pragma once

#include "op/conv2d/conv2d_cpu.h"

enum { SLICE = 16, SLICE_WEIGHTS = 20 * 1024, LIVE_ROWS = 8, LIVE_LINES = 5, LIVE_ACROSS = 8 };

/* Up to 32 channels in one slice, if a kernel's patch fits into registers and the weights of one of its lines into
 * L1. */
static inline int slice_channels(const hd_geom *g) {
  int64_t run = up16(g->window.kw * g->ci);
  int whole = g->ci % SLICE != 0 && g->ci < 2 * SLICE && run / 16 * g->window.kh <= ACC_GROUPS &&
              run * g->window.kh * g->co <= SLICE_WEIGHTS;
  return whole ? g->ci : least(SLICE, g->ci);
}
static inline int slice_count(const hd_geom *g) { return (g->ci + slice_channels(g) - 1) / slice_channels(g); }

/* Elements of a row of the kernel in a slice, whole groups. */
static inline int slice_run(const hd_geom *g) { return up16(g->window.kw * slice_channels(g)); }

/* One slice of the input with its padding. */
static inline conv_frame slice_frame(const hd_geom *g, int64_t pixel) {
  conv_frame f = input_frame(g, pixel);
  f.channels = slice_channels(g);
  return f;
}

/* Entries: the start of a patch, and its factor. */
typedef struct conv_list {
  const int32_t *at;
  const float *by;
  int count;
} conv_list;

/* A patch of rows x groups, cut into blocks that fit into registers. */
typedef struct conv_cut {
  int rows, groups;
  int lines, across; /* of a block */
} conv_cut;

static inline conv_cut cut_of(const hd_geom *g) {
  conv_cut cut = {.rows = g->window.kh, .groups = slice_run(g) / 16};
  cut.across = even_part(cut.groups, least(LIVE_ACROSS, ACC_GROUPS));
  cut.lines = even_part(cut.rows, most(1, least(LIVE_LINES, ACC_GROUPS / cut.across)));
  return cut;
}

/* The sizes of a block, as far as lines * across sums fit into registers. */
#define LIVE_FITS(across, lines) ((across) <= LIVE_ACROSS && (lines) <= LIVE_LINES && (across) * (lines) <= ACC_GROUPS)

/* sum[r][i] += by * x[at][r][i] for each entry in turn, r < cut->rows, i < 16 * cut->groups; lines of the sum and of
 * the patches lie sum_line and x_line apart. */
void HD_SYM(conv_add_live)(float *sum, int64_t sum_line, const conv_list *list, const float *x, int64_t x_line,
                           const conv_cut *cut);

/* Pixels of the output behind a pool, and words of bits of each when a word has `part` channels, WORD at most. */
enum { WORD = 64 };
static inline int64_t positions_of(const hd_geom *g) { return (int64_t)g->hp * g->conv.pool * g->wp * g->conv.pool; }
static inline int words_of(const hd_geom *g, int part) { return (g->co + part - 1) / part; }

/* The channels of row n whose gradient is not zero: bits[pixel][word]. */
void HD_SYM(conv_mark_live)(uint64_t *bits, const hd_call *call, int64_t n, int part);

/* Adds the channels of one word of bits to a block of a patch; dy and w: of bit 0's. lines and across are constants
 * where this is inlined. */
G16 void add_live(float *sum, int64_t sum_line, uint64_t bits, const float *dy, const float *w, int lines, int across) {
  g16 acc[LIVE_LINES][LIVE_ACROSS];
  UNROLL_FOR (r, lines)
    UNROLL_FOR (q, across)
      acc[r][q] = g16_load(sum + r * sum_line + 16 * q);
  for (int left = __builtin_popcountll(bits); left > 0; left--) {
    int channel = bits_take(&bits);
    const float *patch = w + channel * (lines * across * 16);
    g16 by = g16_all(dy[channel]);
    UNROLL_FOR (r, lines)
      UNROLL_FOR (q, across)
        acc[r][q] = g16_fma(by, g16_load(patch + (r * across + q) * 16), acc[r][q]);
  }
  UNROLL_FOR (r, lines)
    UNROLL_FOR (q, across)
      g16_store(sum + r * sum_line + 16 * q, acc[r][q]);
}

/* The input's gradient behind a pool: by slices of few input channels, or tap after tap. */
void HD_SYM(conv_pool_dx)(const hd_call *call);
int64_t HD_SYM(conv_pool_dx_scratch)(const hd_geom *g);
int64_t HD_SYM(conv_pool_dx_packed)(const hd_geom *g);
void HD_SYM(conv_pool_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
void HD_SYM(conv_tap_dx)(const hd_call *call);
int64_t HD_SYM(conv_tap_dx_scratch)(const hd_geom *g);
int64_t HD_SYM(conv_tap_dx_packed)(const hd_geom *g);
void HD_SYM(conv_tap_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);

/* The weight's gradient by lists; with a pool or without. dy_pixel: elements of dy from a window to the next; `pixel`:
 * of the input. */
void HD_SYM(conv_live_dw)(const hd_call *call, int64_t dy_pixel, int64_t pixel);
int64_t HD_SYM(conv_live_dw_scratch)(const hd_geom *g);
