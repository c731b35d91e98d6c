/* The gradient of a convolution's weight over nonzero dy alone: per output channel the list of windows with a
 * nonzero gradient; then, slice by slice of the input's channels, the channel's taps stay in registers while the
 * patches of those windows are added.
 *
 * Order: per weight, over samples ascending, windows row-major: acc = fma(dy, x, acc), at last acc + 0. */
#include "op/conv2d/conv2d_live_cpu.h"

enum { FRAMES_BYTES = 44 * 1024, BAND_BYTES = 32 * 1024, MOST_POSITIONS = 256 };

/* The geometry of one call, worked out. */
typedef struct live_shape {
  conv_frame frame; /* of a slice */
  int64_t line, slot;
  int rows;         /* samples at a time: as many as have frames in the first-level cache */
  int band, bands;  /* rows of windows at a time: all, or of a larger frame as many as are in that cache */
  int32_t capacity; /* of a channel's list */
  int run;
  int64_t sums; /* elements of a slice's sums: [co][kh][run] */
} live_shape;

static live_shape shape_of(const hd_geom *g, int64_t pixel) {
  live_shape s = {.frame = slice_frame(g, pixel), .run = slice_run(g)};
  s.line = (int64_t)s.frame.width * s.frame.channels;
  s.slot = frame_slot(&s.frame);
  s.rows = (int)most(1, least(LIVE_ROWS, (int)(FRAMES_BYTES / (s.slot * (int64_t)sizeof(float)))));
  s.band = g->hp;
  if (s.slot * (int64_t)sizeof(float) > FRAMES_BYTES)
    s.band =
        most(1, ((int)(BAND_BYTES / (s.line * (int64_t)sizeof(float))) - g->window.kh) / (g->conv.pool * g->window.sh));
  s.bands = (g->hp + s.band - 1) / s.band;
  s.capacity = s.rows * g->hp * g->wp;
  s.sums = (int64_t)g->co * g->window.kh * s.run;
  return s;
}

/* The contents of scratch. */
typedef struct live_scratch {
  float *frames, *sums, *by; /* by, at: [co][capacity] */
  int32_t *at, *ends;        /* ends: [band][co], in each channel's list */
} live_scratch;

static int64_t floats(int64_t count) { return whole_bytes(count) / (int64_t)sizeof(float); }

static live_scratch scratch_of(float *first, const hd_geom *g, const live_shape *s) {
  live_scratch out = {.frames = first, .sums = first + floats(s->rows * s->slot)};
  out.by = out.sums + floats(slice_count(g) * s->sums);
  out.at = (int32_t *)(void *)(out.by + floats((int64_t)g->co * s->capacity));
  out.ends = out.at + floats((int64_t)g->co * s->capacity);
  return out;
}

int64_t HD_SYM(conv_live_dw_scratch)(const hd_geom *g) {
  live_shape s = shape_of(g, g->ci);
  return whole_bytes(s.rows * s.slot) + whole_bytes(slice_count(g) * s.sums) +
         2 * whole_bytes((int64_t)g->co * s.capacity) + whole_bytes((int64_t)s.bands * g->co);
}

/* Appends the live channels of one window to their lists, which have `count` entries; places: the start of the patch by
 * position in the window. */
static void list_window(const live_scratch *to, const live_shape *s, int32_t *count, const float *dy,
                        const uint8_t *argmax, int co, int32_t window, const int32_t *places) {
  for (int c = 0; c < co; c += 64) {
    uint64_t bits = bits_nonzero(dy + c, least(64, co - c));
    while (bits) {
      int j = c + bits_take(&bits);
      int64_t entry = (int64_t)j * s->capacity + count[j]++;
      to->at[entry] = window + places[argmax ? argmax[j] : 0];
      to->by[entry] = dy[j];
    }
  }
}

/* The lists of rows n .. n + rows - 1. */
static void list_rows(const live_scratch *to, const live_shape *s, const hd_call *call, int64_t dy_pixel, int64_t n,
                      int rows) {
  const hd_geom *g = call->g;
  int32_t places[MOST_POSITIONS], pixel = s->frame.channels;
  for (int p = 0; p < g->conv.pool * g->conv.pool; p++)
    places[p] = (int32_t)(p / g->conv.pool * g->window.sh * s->line) + p % g->conv.pool * g->window.sw * pixel;
  int32_t *count = to->ends;
  memset(count, 0, (size_t)g->co * sizeof *count);
  for (int r = 0; r < rows; r++) {
    const float *dy = in_row(call, 1, n + r);
    const uint8_t *argmax = call->in[2] ? (const uint8_t *)call->in[2] + (n + r) * call->in_stride[2] : NULL;
    for (int wy = 0; wy < g->hp; wy++) {
      if (wy > 0 && wy % s->band == 0)
        count = memcpy(count + g->co, count, (size_t)g->co * sizeof *count);
      for (int wx = 0; wx < g->wp; wx++, dy += dy_pixel) {
        int32_t window = (int32_t)(r * s->slot + wy * g->conv.pool * g->window.sh * s->line) +
                         wx * g->conv.pool * g->window.sw * pixel;
        list_window(to, s, count, dy, argmax, g->co, window, places);
        argmax = argmax ? argmax + g->co : NULL;
      }
    }
  }
}

/* Adds the patches of all lists to the sums of a slice, band after band. */
static void add_slice(const hd_geom *g, const live_shape *s, const live_scratch *from, float *sums,
                      const conv_cut *cut) {
  for (int band = 0; band < s->bands; band++)
    for (int j = 0; j < g->co; j++) {
      const int32_t *end = from->ends + (int64_t)band * g->co + j, first = band > 0 ? end[-g->co] : 0;
      const int64_t entry = (int64_t)j * s->capacity + first;
      conv_list list = {from->at + entry, from->by + entry, *end - first};
      HD_SYM(conv_add_live)(sums + (int64_t)j * g->window.kh * s->run, s->run, &list, from->frames, s->line, cut);
    }
}

/* The sums of one slice, back to the weights' order: + 0. dw: the slice's first channel; channels: from it on. */
static void put_slice(float *dw, const float *sums, const hd_geom *g, const live_shape *s, int channels) {
  int pixel = s->frame.channels, count = least(pixel, channels);
  for (int line = 0; line < g->co * g->window.kh; line++, sums += s->run)
    for (int x = 0; x < g->window.kw; x++, dw += g->ci)
      HD_SYM(conv_finish_sums)(dw, sums + x * pixel, count);
}

void HD_SYM(conv_live_dw)(const hd_call *call, int64_t dy_pixel, int64_t pixel) {
  const hd_geom *g = call->g;
  live_shape s = shape_of(g, pixel);
  live_scratch to = scratch_of(call->scratch, g, &s);
  conv_cut cut = cut_of(g);
  memset(to.sums, 0, (size_t)(slice_count(g) * s.sums) * sizeof *to.sums);
  for (int64_t n = 0; n < call->rows; n += s.rows) {
    int rows = call->rows - n < s.rows ? (int)(call->rows - n) : s.rows;
    list_rows(&to, &s, call, dy_pixel, n, rows);
    for (int slice = 0; slice < slice_count(g); slice++) {
      const float *x = in_row(call, 0, n) + slice * SLICE;
      for (int r = 0; r < rows; r++, x += call->in_stride[0])
        if (s.frame.channels == SLICE)
          HD_SYM(conv_slice_fill)(to.frames + r * s.slot, &s.frame, x, g->ci - slice * SLICE);
        else
          HD_SYM(conv_frame_fill)(to.frames + r * s.slot, &s.frame, x);
      add_slice(g, &s, &to, to.sums + slice * s.sums, &cut);
    }
  }
  for (int slice = 0; slice < slice_count(g); slice++)
    put_slice((float *)call->out[0] + slice * SLICE, to.sums + slice * s.sums, g, &s, g->ci - slice * SLICE);
}
