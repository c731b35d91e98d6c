/* The gradient of a convolution's input behind a pool, for few input channels: most pixels of the output have a
 * gradient of zero. Slice by slice of the input's channels and block by block of patches, a pixel's block stays in
 * registers while the weights of the channels with a nonzero gradient are added.
 *
 * Order: per input element, over the output's pixels row-major, inside over channels ascending: acc = fma(dy, w,
 * acc), at last acc + 0. */
#include "op/conv2d/conv2d_live_cpu.h"

enum { NEAR_WEIGHTS = 12 * 1024 };

/* Elements of one slice's weights: for each block of a patch [co][lines][across * 16]. */
static int64_t slice_weights(const hd_geom *g) { return (int64_t)g->co * g->window.kh * slice_run(g); }

/* Blocks of a patch, each computed over all pixels before the next one. All weights of a block are read for each pixel:
 * if those of a whole patch do not fit into the first-level cache, a block has one line. It also has one line if a line
 * is divided, since an element is added to line by line of its pixels. */
static conv_cut pool_cut(const hd_geom *g) {
  conv_cut cut = cut_of(g);
  if (slice_weights(g) > NEAR_WEIGHTS || cut.across < cut.groups)
    cut.lines = 1;
  return cut;
}

typedef void block_fn(float *sum, int64_t sum_line, uint64_t bits, const float *dy, const float *w);

#define FITS LIVE_FITS
#define BLOCK(across, lines)                                                                                           \
  static void block_##across##x##lines(float *sum, int64_t sum_line, uint64_t bits, const float *dy, const float *w) { \
    if (FITS(across, lines))                                                                                           \
      add_live(sum, sum_line, bits, dy, w, lines, across);                                                             \
  }
BLOCK_TABLE(block_fn)

/* A block of a patch: its first line and group, its size, its weights for channel 0. */
typedef struct patch_block {
  int row, group, lines, across;
  const float *w;
} patch_block;

/* The channels of all pixels of one slice of one sample, for one block of their patches. */
static void add_block_of_pixels(const hd_geom *g, const conv_frame *f, float *frame, const uint64_t *bits,
                                const float *dy, const patch_block *b) {
  block_fn *add = blocks[b->lines - 1][b->across - 1];
  const int64_t line = (int64_t)f->width * f->channels, channel = (int64_t)b->lines * b->across * 16;
  frame += b->row * line + 16 * b->group;
  for (int wy = 0; wy < g->hp; wy++, dy += g->wp * g->co)
    for (int py = 0; py < g->conv.pool; py++, frame += g->window.sh * line) {
      const float *here = dy;
      float *patch = frame;
      for (int wx = 0; wx < g->wp; wx++, here += g->co)
        for (int px = 0; px < g->conv.pool; px++, patch += g->window.sw * f->channels)
          for (int c = 0; c < g->co; c += WORD, bits++)
            if (*bits)
              add(patch, line, *bits, here + c, b->w + c * channel);
    }
}

/* Adds one slice of one sample to its frame. The last block first: its pixels come before those of other blocks where
 * they add to the same element. */
static void add_slice(const hd_geom *g, const conv_frame *f, float *frame, const uint64_t *bits, const float *dy,
                      const float *w) {
  const conv_cut cut = pool_cut(g);
  memset(frame, 0, (size_t)frame_slot(f) * sizeof *frame);
  w += slice_weights(g);
  for (int row = (cut.rows - 1) / cut.lines * cut.lines; row >= 0; row -= cut.lines)
    for (int group = (cut.groups - 1) / cut.across * cut.across; group >= 0; group -= cut.across) {
      const int lines = least(cut.lines, cut.rows - row), across = least(cut.across, cut.groups - group);
      w -= (int64_t)g->co * lines * across * 16;
      add_block_of_pixels(g, f, frame, bits, dy, &(patch_block){row, group, lines, across, w});
    }
}

/* Copies a slice's channels of one sample's dx out of the frame, + 0. */
static void put_slice(float *dx, const conv_frame *f, const float *frame, int channels) {
  int64_t line = (int64_t)f->width * f->channels, image_line = f->image_width * f->pixel;
  for (int y = 0; y < f->image_height; y++, dx += image_line) {
    const float *from = frame + (y + f->top) * line + (int64_t)f->left * f->channels;
    if (f->channels == f->pixel)
      HD_SYM(conv_finish_sums)(dx, from, image_line);
    else
      for (int x = 0; x < f->image_width; x++, from += SLICE)
        g16_store_some(dx + x * f->pixel, g16_add(g16_load(from), g16_zero()), channels);
  }
}

void HD_SYM(conv_pool_dx)(const hd_call *call) {
  const hd_geom *g = call->g;
  conv_frame f = slice_frame(g, g->ci);
  float *frame = call->scratch;
  uint64_t *bits = (uint64_t *)(void *)(frame + frame_slot(&f));
  int64_t words = positions_of(g) * words_of(g, WORD);
  for (int64_t n = 0; n < call->rows; n += LIVE_ROWS) {
    int rows = call->rows - n < LIVE_ROWS ? (int)(call->rows - n) : LIVE_ROWS;
    for (int r = 0; r < rows; r++)
      HD_SYM(conv_mark_live)(bits + r * words, call, n + r, WORD);
    for (int s = 0; s < slice_count(g); s++)
      for (int r = 0; r < rows; r++) {
        const float *dy = in_row(call, 0, n + r);
        add_slice(g, &f, frame, bits + r * words, dy, call->packed + s * slice_weights(g));
        put_slice(out_row(call, 0, n + r) + s * SLICE, &f, frame, g->ci - s * SLICE);
      }
  }
}

int64_t HD_SYM(conv_pool_dx_scratch)(const hd_geom *g) {
  conv_frame f = slice_frame(g, g->ci);
  return whole_bytes(frame_slot(&f)) + LIVE_ROWS * positions_of(g) * words_of(g, WORD) * (int64_t)sizeof(uint64_t);
}

int64_t HD_SYM(conv_pool_dx_packed)(const hd_geom *g) { return slice_count(g) * slice_weights(g); }

/* Elements first .. first + run - 1 of a slice's line, which has `slice` for each tap, of which `channels` are used. */
typedef struct line_part {
  int first, run, slice, channels;
} line_part;

/* The weights of one of the kernel's lines as far as they lie in them; what is left is padding. */
static void pack_line(float *to, const hd_geom *g, const float *w, const line_part *p) {
  for (int x = 0; x < g->window.kw; x++) {
    const int at = x * p->slice, begin = at > p->first ? at : p->first,
              end = least(at + p->channels, p->first + p->run);
    if (begin < end)
      memcpy(to + begin - p->first, w + (int64_t)x * g->ci + begin - at, (size_t)(end - begin) * sizeof *to);
  }
}

/* One slice of one channel's weights: its lines, cut into blocks. */
static void pack_slice(const hd_geom *g, const float *w, float *packed, int32_t j, int channels) {
  conv_cut cut = pool_cut(g);
  int slice = slice_channels(g);
  for (int row = 0; row < cut.rows; row += cut.lines)
    for (int group = 0; group < cut.groups; group += cut.across) {
      int lines = least(cut.lines, cut.rows - row), run = 16 * least(cut.across, cut.groups - group);
      float *to = packed + (int64_t)j * lines * run;
      const line_part part = {16 * group, run, slice, least(channels, slice)};
      for (int i = 0; i < lines; i++)
        pack_line(to + i * run, g, w + (int64_t)(row + i) * g->window.kw * g->ci, &part);
      packed += (int64_t)g->co * lines * run;
    }
}

void HD_SYM(conv_pool_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int s = 0; s < slice_count(g); s++, packed += slice_weights(g))
    for (int32_t j = j0; j < j1; j++)
      pack_slice(g, w + (int64_t)j * g->window.kh * g->window.kw * g->ci + s * SLICE, packed, j, g->ci - s * SLICE);
}
