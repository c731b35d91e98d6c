/* Shared by the convolution kernels: sizes of register blocks, frames and walks.
 *
 * A frame is a copy of one sample's image with a border of zeros, so that windows over padding read memory like any
 * other. After its end follow FRAME_SLACK elements: whole groups may be read from its last pixel on.
 *
 * A walk is a direct convolution without padding: windows of equal steps over an image whose lines and pixels are
 * contiguous, one chain an output element, over the kernel's rows and within a row over its contiguous elements.
 * Forward is one walk; the gradient of the input without a pool is one walk over dy for each phase of the stride. */
#pragma once

#include <string.h>

#include "kernel/cpu/argmax16.h"
#include "kernel/cpu/blocks.h"

enum { FRAME_SLACK = 16, GROUP_BYTES = 128 * 1024, GROUP_ROWS = 16 };

/* Copies of a function for all sizes a by b of a block, which are constants there. A file defines FITS(a, b), whether
 * its instruction set runs that size, and BLOCK(a, b), the copy block_AxB, which does nothing if FITS is false; then
 * BLOCK_TABLE(type) makes the copies and blocks[b - 1][a - 1]. */
enum { BLOCK_A = 16, BLOCK_B = 5 };
#define EACH_A(X, ...)                                                                                                 \
  X(1, __VA_ARGS__)                                                                                                    \
  X(2, __VA_ARGS__)                                                                                                    \
  X(3, __VA_ARGS__)                                                                                                    \
  X(4, __VA_ARGS__)                                                                                                    \
  X(5, __VA_ARGS__)                                                                                                    \
  X(6, __VA_ARGS__)                                                                                                    \
  X(7, __VA_ARGS__)                                                                                                    \
  X(8, __VA_ARGS__)                                                                                                    \
  X(9, __VA_ARGS__)                                                                                                    \
  X(10, __VA_ARGS__)                                                                                                   \
  X(11, __VA_ARGS__)                                                                                                   \
  X(12, __VA_ARGS__)                                                                                                   \
  X(13, __VA_ARGS__)                                                                                                   \
  X(14, __VA_ARGS__)                                                                                                   \
  X(15, __VA_ARGS__)                                                                                                   \
  X(16, __VA_ARGS__)
#define EACH_BLOCK(X, ...)                                                                                             \
  EACH_A(X, 1, ##__VA_ARGS__)                                                                                          \
  EACH_A(X, 2, ##__VA_ARGS__)                                                                                          \
  EACH_A(X, 3, ##__VA_ARGS__)                                                                                          \
  EACH_A(X, 4, ##__VA_ARGS__)                                                                                          \
  EACH_A(X, 5, ##__VA_ARGS__)
#define BLOCK_ENTRY(a, b) [(b)-1][(a)-1] = FITS(a, b) ? block_##a##x##b : NULL,
#define BLOCK_TABLE(type)                                                                                              \
  EACH_BLOCK(BLOCK)                                                                                                    \
  static type *const blocks[BLOCK_B][BLOCK_A] = {EACH_BLOCK(BLOCK_ENTRY)};

/* acc[o][q] += z[o] x[q], where `value` is x[q], of `most` groups at most: a macro, as rows of acc vary in length. */
#define ADD_OUTER(acc, z, outputs, groups, most, value)                                                                \
  do {                                                                                                                 \
    g16 x_[most];                                                                                                      \
    UNROLL_FOR (q, groups)                                                                                             \
      x_[q] = value;                                                                                                   \
    UNROLL_FOR (o_, outputs) {                                                                                         \
      const g16 z_ = g16_all((z)[o_]);                                                                                 \
      UNROLL_FOR (q, groups)                                                                                           \
        (acc)[o_][q] = g16_fma(z_, x_[q], (acc)[o_][q]);                                                               \
    }                                                                                                                  \
  } while (0)

static inline int up16(int n) { return (n + 15) / 16 * 16; }
static inline int least(int a, int b) { return a < b ? a : b; }
static inline int most(int a, int b) { return a > b ? a : b; }

/* The size of equal blocks of `whole` elements when a block has at most `at_most`. */
static inline int even_part(int whole, int at_most) {
  int parts = (whole + at_most - 1) / at_most;
  return (whole + parts - 1) / parts;
}

/* Dilated convolutions are computed here too, except behind a pool, and gradients of the input with strides. */
static inline int takes_dilation(const hd_geom *g) { return !hd_geom_is_dilated(g) || g->conv.pool == 1; }
static inline int takes_dilation_back(const hd_geom *g) {
  return !hd_geom_is_dilated(g) || (g->conv.pool == 1 && g->window.sh == 1 && g->window.sw == 1);
}

/* The geometry of one group of a convolution in groups, on a slice of the channels; groups are computed one after the
 * other. A pool is never fused behind groups. */
static inline hd_geom group_geom(const hd_geom *g) {
  hd_geom part = *g;
  part.ci /= g->conv.groups;
  part.co /= g->conv.groups;
  part.conv.groups = 1;
  return part;
}

/* Every channel is a group with one output: channels lie in vector lanes then, see conv2d_depth_cpu.c. */
static inline int is_depthwise(const hd_geom *g) {
  return g->conv.groups > 1 && g->conv.groups == g->ci && g->conv.groups == g->co && !hd_geom_is_dilated(g);
}

/* Height and width with the border; offset of the image in the frame (may be negative: cropped). */
typedef struct conv_frame {
  int height, width, top, left;
  int image_height, image_width, channels;
  int64_t pixel; /* elements from a pixel of the image to the next: more than `channels` if it has other groups' too */
} conv_frame;

/* The input with its padding; `pixel` as above. */
static inline conv_frame input_frame(const hd_geom *g, int64_t pixel) {
  return (conv_frame){.height = g->hi + 2 * g->window.ph,
                      .width = g->wi + 2 * g->window.pw,
                      .top = g->window.ph,
                      .left = g->window.pw,
                      .image_height = g->hi,
                      .image_width = g->wi,
                      .channels = g->ci,
                      .pixel = pixel};
}

static inline int64_t frame_elems(const conv_frame *f) { return (int64_t)f->height * f->width * f->channels; }

/* Floats of scratch for one frame, slack included, a multiple of 16. */
static inline int64_t frame_slot(const conv_frame *f) { return (frame_elems(f) + FRAME_SLACK + 15) / 16 * 16; }

static inline int frame_is_image(const conv_frame *f) {
  return !f->top && !f->left && f->height == f->image_height && f->width == f->image_width && f->pixel == f->channels;
}

/* How many samples to frame at once: they share weights that then stay in L1. */
static inline int frame_rows(const conv_frame *f) {
  int64_t rows = GROUP_BYTES / (frame_slot(f) * (int64_t)sizeof(float));
  return rows < 1 ? 1 : rows > GROUP_ROWS ? GROUP_ROWS : (int)rows;
}

/* Images of some rows of a call as a kernel reads them: framed in scratch, or in place. */
typedef struct conv_images {
  const float *first;
  int64_t stride;
} conv_images;

static inline int64_t whole_bytes(int64_t floats) { return (floats + 15) / 16 * 16 * (int64_t)sizeof(float); }

/* out: frame_slot floats; image: one sample, height x width x channels, at the first channel that is framed. */
void HD_SYM(conv_frame_fill)(float *out, const conv_frame *frame, const float *image);

/* The same of sixteen channels, whatever frame->channels says: pixels of the frame lie sixteen apart, and the channels
 * from `channels` on are zero. */
void HD_SYM(conv_slice_fill)(float *out, const conv_frame *frame, const float *image, int channels);

/* out = sum + 0, which turns -0 into +0; may be in place. */
void HD_SYM(conv_finish_sums)(float *out, const float *sum, int64_t count);

/* Images `stride` apart: framed in scratch, a frame_slot each, unless the images can be read in place. */
static inline conv_images frame_images(float *scratch, const conv_frame *frame, int framed, const float *image,
                                       int64_t stride, int64_t rows) {
  if (!framed)
    return (conv_images){image, stride};
  for (int64_t r = 0; r < rows; r++)
    HD_SYM(conv_frame_fill)(scratch + r * frame_slot(frame), frame, image + r * stride);
  return (conv_images){scratch, frame_slot(frame)};
}

/* It has many fields so that forward and all phases of the input's gradient are the same code. */
typedef struct conv_walk {
  const float *x;                       /* the first window's first element in row 0 */
  int64_t x_stride, x_step_y, x_step_x; /* to the next row (sample), window below, window to the right */
  int64_t x_line, x_tap;                /* to the kernel's next row, to its next run in the row */
  int taps_y, runs, run;                /* the kernel's rows, runs in each, and contiguous elements of a run */
  const float *w;                       /* [block][w_taps][groups of the block * 16], see walk_block_groups */
  int64_t w_taps, w_first, w_skip;      /* elements of the kernel: all, those skipped before the first, those
                                           skipped after each row */
  const float *bias;                    /* or NULL */
  int channels;
  float *y; /* the first window's output in row 0; channels are contiguous */
  int64_t y_stride, y_step_y, y_step_x;
  uint8_t *argmax; /* same steps as y, or NULL */
  int64_t argmax_stride;
  int height, width; /* windows */
  int64_t rows;
  int pool, relu;               /* side of the window of positions, 1 for one position */
  int plus_zero;                /* adds +0 to each finished chain, as gradients do */
  int64_t at_step_y, at_step_x; /* x from a position to the one below, to the right */
} conv_walk;

/* Groups in the block that starts at group `first` of `groups`: BLOCK_GROUPS, or all that are left if that is one more,
 * because a block of one group would load a weight for each of its few accumulators. */
static inline int walk_block_groups(int first, int groups) {
  int left = groups - first;
  return BLOCK_GROUPS > 1 && left == BLOCK_GROUPS + 1 ? left : least(left, BLOCK_GROUPS);
}

/* Where the packed weight of channel c, tap k lies: blocks first, then taps, then the block's channels. */
static inline int64_t walk_weight_at(int channels, int taps, int c, int k) {
  int groups = up16(channels) / 16, first = c / 16 / BLOCK_GROUPS * BLOCK_GROUPS;
  if (BLOCK_GROUPS > 1 && first > 0 && first == groups - 1)
    first -= BLOCK_GROUPS;
  int64_t width = 16 * (int64_t)walk_block_groups(first, groups);
  return (int64_t)first * 16 * taps + k * width + (c - first * 16);
}

/* Whether channel c is in a last group of which at most half exists: such a group computes two windows at once, and its
 * weights are stored twice, eight lanes apart. */
static inline int walk_is_half(int channels, int c) {
  int left = channels % 16;
  return left > 0 && left <= 8 && c / 16 == channels / 16;
}

/* Packs all weights of channel c, w[tap]. */
static inline void walk_pack_channel(float *packed, int channels, int taps, int c, const float *w) {
  const int64_t first = walk_weight_at(channels, taps, c, 0), step = walk_weight_at(channels, taps, c, 1) - first;
  for (int i = 0; i < taps; i++)
    packed[first + i * step] = w[i];
  for (int i = 0; i < taps && walk_is_half(channels, c); i++)
    packed[first + i * step + 8] = w[i];
}

/* The same of sixteen channels from c on, a multiple of 16, whose weights lie `taps` apart: squares of sixteen taps. */
static inline void walk_pack_group(float *packed, int channels, int taps, int c, const float *w) {
  const int64_t first = walk_weight_at(channels, taps, c, 0), step = walk_weight_at(channels, taps, c, 1) - first;
  float *to = packed + first;
  int tap = 0;
  for (; tap + 16 <= taps; tap += 16) {
    g16 square[16];
    UNROLL_FOR (i, 16)
      square[i] = g16_load(w + (int64_t)i * taps + tap);
    g16_transpose(square);
    UNROLL_FOR (i, 16)
      g16_store(to + (tap + i) * step, square[i]);
  }
  for (; tap < taps; tap++)
    for (int i = 0; i < 16; i++)
      to[tap * step + i] = w[(int64_t)i * taps + tap];
}

/* Packs the weights of tap k of all channels, w[channel]. */
static inline void walk_pack_tap(float *packed, int channels, int taps, int k, const float *w) {
  for (int c = 0; c < channels; c += 16) {
    float *to = packed + walk_weight_at(channels, taps, c, k);
    const g16 weights = g16_load_some(w + c, channels - c);
    g16_store_some(to, weights, channels - c);
    if (walk_is_half(channels, c))
      g16_store_some(to + 8, weights, channels - c);
  }
}

void HD_SYM(conv_walk)(const conv_walk *walk);

/* Its groups of channels from `first` on where windows lie at equal distances, without a group of halves. */
int HD_SYM(conv_walk_is_points)(const conv_walk *walk);
void HD_SYM(conv_walk_points)(const conv_walk *walk, int first, int groups);

/* Along one axis, the input's pixels i = first, first + stride, ... whose windows use the same taps of the kernel: */
typedef struct conv_phase {
  int taps; /* the number of these taps: tap t is the kernel's last - t * stride */
  int last;
  int first, count;
  int start; /* the output's pixel under the first tap of the first one's window, may be negative */
  int step;  /* from one tap's pixel to the next one's */
} conv_phase;

static inline conv_phase phase_of(int phase, int image, int kernel, int stride, int padding) {
  conv_phase p = {.step = 1, .taps = phase < kernel ? (kernel - 1 - phase) / stride + 1 : 0};
  p.first = ((phase - padding) % stride + stride) % stride;
  p.count = p.first < image ? (image - 1 - p.first) / stride + 1 : 0;
  p.last = phase + (p.taps - 1) * stride;
  p.start = (p.first + padding - phase) / stride - (p.taps - 1);
  return p;
}

/* Without strides, taps `dilation` pixels apart. */
static inline conv_phase dilated_phase(int image, int kernel, int dilation, int padding) {
  return (conv_phase){
      .taps = kernel, .last = kernel - 1, .count = image, .start = padding - (kernel - 1) * dilation, .step = dilation};
}

/* Phase i of both axes; there are sh * sw. */
static inline void phases_of(conv_phase *y, conv_phase *x, const hd_geom *g, int i) {
  if (hd_geom_is_dilated(g)) {
    *y = dilated_phase(g->hi, g->window.kh, g->window.dilation[0], g->window.ph);
    *x = dilated_phase(g->wi, g->window.kw, g->window.dilation[1], g->window.pw);
    return;
  }
  *y = phase_of(i / g->window.sw, g->hi, g->window.kh, g->window.sh, g->window.ph);
  *x = phase_of(i % g->window.sw, g->wi, g->window.kw, g->window.sw, g->window.pw);
}

/* The gradient framed so that every phase's windows lie inside. */
static inline conv_frame gradient_frame(const hd_geom *g, int64_t pixel) {
  int top = (g->window.kh - 1) / g->window.sh, left = (g->window.kw - 1) / g->window.sw;
  return (conv_frame){.height = top + most(g->hp, (g->hi - 1 + g->window.ph) / g->window.sh + 1),
                      .width = left + most(g->wp, (g->wi - 1 + g->window.pw) / g->window.sw + 1),
                      .top = top,
                      .left = left,
                      .image_height = g->hp,
                      .image_width = g->wp,
                      .channels = g->co,
                      .pixel = pixel};
}

/* The weight's gradient behind a pool of side 2 by picking, see conv2d_dw_pick_cpu.c. dy_pixel: elements of dy from a
 * window to the next; `pixel`: of the input. */
void HD_SYM(conv_dw_pick)(const hd_call *call, int64_t dy_pixel, int64_t pixel);
int64_t HD_SYM(conv_dw_pick_scratch)(const hd_geom *g);

/* The weight's gradient without a pool, for wide rows of the kernel, see conv2d_dw_wide_cpu.c; as above. */
void HD_SYM(conv_dw_wide)(const hd_call *call, int64_t dy_pixel, int64_t pixel, int plus_zero);
int64_t HD_SYM(conv_dw_wide_scratch)(const hd_geom *g, int64_t pixel);

/* The same from copies, see conv2d_dw_copied_cpu.c; without scratch. */
void HD_SYM(conv_dw_copied)(const hd_call *call, int64_t dy_pixel, int64_t pixel, int plus_zero);

/* The direct methods, for any groups and strides, with their scratch and packed weights; call->g is of a convolution
 * (takes_dilation, takes_dilation_back): forward, and without a pool the gradients of the input, which may start from
 * a bias, and of the weight. plus_zero: whether + 0 ends their chains; without it zeros of the padding are not left out
 * either. */
void HD_SYM(conv_direct)(const hd_call *call);
int64_t HD_SYM(conv_direct_scratch)(const hd_geom *g);
int64_t HD_SYM(conv_direct_packed)(const hd_geom *g);
void HD_SYM(conv_direct_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
void HD_SYM(conv_dx_walk)(const hd_call *call, const float *bias, int plus_zero);
int64_t HD_SYM(conv_dx_walk_scratch)(const hd_geom *g);
int64_t HD_SYM(conv_dx_walk_packed)(const hd_geom *g);
void HD_SYM(conv_dx_walk_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
void HD_SYM(conv_direct_dw)(const hd_call *call, int plus_zero);
int64_t HD_SYM(conv_direct_dw_scratch)(const hd_geom *g);

/* The gradient of a bias, of any operation whose output is co channels of hp x wp. */
void HD_SYM(conv_bias_sums)(const hd_call *call);

/* The depthwise kernels, with the scratch and the packed weights that they need. */
void HD_SYM(conv_depth_forward)(const hd_call *call);
void HD_SYM(conv_depth_dx)(const hd_call *call);
void HD_SYM(conv_depth_dw)(const hd_call *call); /* the weight's gradient alone */
int64_t HD_SYM(conv_depth_forward_scratch)(const hd_geom *g);
int64_t HD_SYM(conv_depth_dx_scratch)(const hd_geom *g);
int64_t HD_SYM(conv_depth_dw_scratch)(const hd_geom *g);
int64_t HD_SYM(conv_depth_packed)(const hd_geom *g);
void HD_SYM(conv_depth_forward_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
void HD_SYM(conv_depth_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
