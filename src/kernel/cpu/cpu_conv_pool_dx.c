/* The gradient of a convolution's input behind a pool: most pixels of the output have a gradient of zero. At each pixel
 * the list of channels that have one; then, slice by slice of the input's channels, the pixel's patch of the input in
 * registers while those channels' weights go by.
 *
 * Order: per input element, over the output's pixels row-major, inside over channels ascending: acc = fma(dy, w, acc),
 * at last acc + 0. */
#include "kernel/cpu/cpu_conv_live.h"

/* The lists of some samples: entry e of pixel i is at[first[i] + e] and by[first[i] + e]. */
typedef struct pixel_lists {
  int32_t *first, *at;
  float *by;
} pixel_lists;

static int64_t pixels_of(const hd_geom *g) { return (int64_t)g->hp * g->pool * g->wp * g->pool; }
static int64_t entries_of(const hd_geom *g) { return (int64_t)g->hp * g->wp * g->co; }

/* Elements of one slice's weights: [co][kh][slice_run]. */
static int64_t slice_weights(const hd_geom *g) { return (int64_t)g->co * g->kh * slice_run(g); }

static pixel_lists lists_in(float *scratch, const hd_geom *g) {
  int64_t entries = whole_bytes(LIVE_ROWS * entries_of(g) + 16) / (int64_t)sizeof(float);
  return (pixel_lists){
      .at = (int32_t *)(void *)scratch, .by = scratch + entries, .first = (int32_t *)(void *)(scratch + 2 * entries)};
}

/* The live channels of one pixel, appended from entry `found` on; the new number of entries. */
G16 int32_t list_pixel(const pixel_lists *lists, int32_t found, const float *dy, const uint8_t *argmax, int co,
                       int position, int32_t step) {
  for (int c = 0; c < co; c += 16)
    found += g16_list_live(lists->at + found, lists->by + found, dy + c, argmax + c, least(16, co - c), position,
                           c * step, step);
  return found;
}

/* Sample n's lists from entry `found` on; the new number of entries. first: of the sample's first pixel. */
static int32_t list_sample(const pixel_lists *lists, int32_t *first, int32_t found, const hd_call *call, int64_t n) {
  const hd_geom *g = call->g;
  const float *line = (const float *)call->in[0] + n * call->in_stride[0];
  const uint8_t *taken = (const uint8_t *)call->in[2] + n * call->in_stride[2];
  int64_t windows = (int64_t)g->wp * g->co;
  int32_t step = g->kh * slice_run(g);
  for (int wy = 0; wy < g->hp; wy++, line += windows, taken += windows)
    for (int py = 0; py < g->pool; py++)
      for (int64_t at = 0; at < windows; at += g->co)
        for (int px = 0; px < g->pool; px++) {
          *first++ = found;
          found = list_pixel(lists, found, line + at, taken + at, g->co, py * g->pool + px, step);
        }
  *first = found;
  return found;
}

/* One slice of one sample: out of the lists into the frame. */
static void add_slice(const hd_geom *g, const conv_frame *f, float *frame, const pixel_lists *lists,
                      const int32_t *first, const float *w) {
  conv_cut cut = cut_of(g);
  int64_t line = (int64_t)f->width * f->channels;
  memset(frame, 0, (size_t)frame_slot(f) * sizeof *frame);
  for (int oy = 0; oy < g->hp * g->pool; oy++)
    for (int ox = 0; ox < g->wp * g->pool; ox++, first++) {
      conv_list list = {lists->at + *first, lists->by + *first, first[1] - first[0]};
      if (list.count)
        HD_SYM(conv_add_live)
      (frame + oy * g->sh * line + (int64_t)ox * g->sw * f->channels, line, &list, w, slice_run(g), &cut);
    }
}

/* A slice's channels of one sample's dx, out of the frame: + 0. */
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
  pixel_lists lists = lists_in(frame + frame_slot(&f), g);
  int64_t pixels = pixels_of(g);
  for (int64_t n = 0; n < call->rows; n += LIVE_ROWS) {
    int rows = call->rows - n < LIVE_ROWS ? (int)(call->rows - n) : LIVE_ROWS;
    int32_t found = 0;
    for (int r = 0; r < rows; r++)
      found = list_sample(&lists, lists.first + r * pixels, found, call, n + r);
    for (int s = 0; s < slice_count(g); s++)
      for (int r = 0; r < rows; r++) {
        add_slice(g, &f, frame, &lists, lists.first + r * pixels, call->packed + s * slice_weights(g));
        put_slice((float *)call->out[0] + (n + r) * call->out_stride[0] + s * SLICE, &f, frame, g->ci - s * SLICE);
      }
  }
}

int64_t HD_SYM(conv_pool_dx_scratch)(const hd_geom *g) {
  conv_frame f = slice_frame(g, g->ci);
  return whole_bytes(frame_slot(&f)) + 2 * whole_bytes(LIVE_ROWS * entries_of(g) + 16) +
         whole_bytes(LIVE_ROWS * pixels_of(g) + 1);
}

int64_t HD_SYM(conv_pool_dx_packed)(const hd_geom *g) { return slice_count(g) * slice_weights(g); }

void HD_SYM(conv_pool_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  int channels = slice_channels(g);
  for (int s = 0; s < slice_count(g); s++, packed += slice_weights(g))
    for (int64_t line = (int64_t)j0 * g->kh; line < (int64_t)j1 * g->kh; line++)
      for (int x = 0; x < g->kw; x++)
        memcpy(packed + line * slice_run(g) + x * channels, w + (line * g->kw + x) * g->ci + s * SLICE,
               (size_t)least(channels, g->ci - s * SLICE) * sizeof *w);
}
