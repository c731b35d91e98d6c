/* Interface of winograd_cpu.c and winograd_dw_cpu.c, and what both share: convolutions by tiles of 4 x 4 or 2 x 2
 * outputs, see op/conv2d/winograd.h for the chains.
 *
 * Both work on as many tiles at a time as stay in the second-level cache after their transform. A transformed patch
 * has 36 places; the values of one place of all tiles are contiguous, as [tile][channel], because between the
 * transforms there is a product of matrices for each place. */
#pragma once

#include "op/conv2d/conv2d_cpu.h"
#include "op/conv2d/winograd_points.h"
#include "op/conv2d/winograd_rule.h"

enum { LINE = WINOGRAD_LINE, PLACES = WINOGRAD_PLACES };
enum { TILES_STEP = 12, FORWARD_BYTES = 64 * 1024, DW_TILES = 128 };
enum { WIDE_ELEMS = 1 << 18, WIDE_BYTES = 8 << 20 };

/* The image that patches are taken from, and the tiles over it. */
typedef struct winograd_map {
  const float *x; /* row 0 */
  int64_t stride; /* to the next row */
  int height, width, channels;
  int64_t pixel;    /* elements to the next pixel: `channels`, or more if only some of them are taken */
  int top, left;    /* how far the first patch begins outside of the image */
  int down, across; /* outputs of an image */
  int side;         /* of a tile */
} winograd_map;

/* The places of infinity, the last ones of an axis, belong only to a tile's last line of outputs: they are left out
 * where that lies outside. So there are four kinds of places, by the tiles that have them, and places of a kind are
 * neighbours: in lines all but the last column, then that column. */
enum { EVERY, LAST_DOWN, LAST_ACROSS, LAST_BOTH, KINDS };
static const int kind_end[KINDS] = {(LINE - 1) * (LINE - 1), LINE *(LINE - 1), PLACES - 1, PLACES};

static inline int place_of(int y, int x) { return x < LINE - 1 ? (LINE - 1) * y + x : LINE * (LINE - 1) + y; }

/* The number of tiles that have the places of a kind. */
typedef struct winograd_counts {
  int of[KINDS];
} winograd_counts;

static inline int count_at(const winograd_counts *counts, int place) {
  int kind = 0;
  while (place >= kind_end[kind])
    kind++;
  return counts->of[kind];
}

/* The next tile, and the counts of those before it. */
typedef struct winograd_cursor {
  int64_t row;
  int ty, tx;
  winograd_counts kept;
} winograd_cursor;

static inline int64_t tiles_of(const winograd_map *map, int64_t rows) {
  return rows * hd_winograd_tiles(map->down, map->side) * hd_winograd_tiles(map->across, map->side);
}

static inline void next_tile(winograd_cursor *at, const winograd_map *map) {
  const int down = map->side * (at->ty + 1), across = map->side * (at->tx + 1);
  at->kept.of[EVERY]++;
  at->kept.of[LAST_DOWN] += down <= map->down;
  at->kept.of[LAST_ACROSS] += across <= map->across;
  at->kept.of[LAST_BOTH] += down <= map->down && across <= map->across;
  at->tx++;
  if (across < map->across)
    return;
  at->tx = 0;
  at->ty++;
  if (down < map->down)
    return;
  at->ty = 0;
  at->row++;
}

/* Begins to count. */
static inline winograd_cursor from_here(winograd_cursor at) {
  return (winograd_cursor){.row = at.row, .ty = at.ty, .tx = at.tx};
}

/* Elements from a tile's channels to the next tile's: where a power of 2 divides them by much, a little more, or the
 * tiles of a place would fall into few sets of a cache. */
static inline int tile_elems(int channels) { return up16(channels) + (up16(channels) % 128 ? 0 : 16); }

/* Tiles at a time: as many as take about this many bytes when this many channels are transformed. */
static inline int tiles_at_once(int bytes, int channels) {
  int tiles = bytes / (PLACES * (int)sizeof(float) * up16(channels)) / TILES_STEP * TILES_STEP;
  return most(TILES_STEP, tiles);
}

/* Elements from a place to the next; a little more than the values, or all places would fall into one set of a
 * cache. */
static inline int64_t place_elems(int tiles, int channels) { return (int64_t)tiles * tile_elems(channels) + 16; }

/* Both axes of a transform of squares: lines of `in` values become lines of `out`, by line(v, size), in place, where
 * `size` is the side of the tile or of the kernel, a constant. TAKE(y, x) are the values, PUT(y, x, value) stores a
 * result. The lines' loops stay loops: unrolled, the code of a tile is larger than
 * what processors keep decoded, and twice as slow. */
#define WINOGRAD_TRANSFORM(line, size, in, out, TAKE, PUT)                                                             \
  do {                                                                                                                 \
    _Alignas(64) float between_[LINE][LINE][16];                                                                       \
    KEEP_ROLLED for (int x_ = 0; x_ < (in); x_++) {                                                                    \
      g16 v_[LINE];                                                                                                    \
      UNROLL_FOR (i_, in)                                                                                              \
        v_[i_] = TAKE(i_, x_);                                                                                         \
      line(v_, size);                                                                                                  \
      UNROLL_FOR (i_, out)                                                                                             \
        g16_store(between_[i_][x_], v_[i_]);                                                                           \
    }                                                                                                                  \
    KEEP_ROLLED for (int y_ = 0; y_ < (out); y_++) {                                                                   \
      g16 v_[LINE];                                                                                                    \
      UNROLL_FOR (i_, in)                                                                                              \
        v_[i_] = g16_load(between_[y_][i_]);                                                                           \
      line(v_, size);                                                                                                  \
      UNROLL_FOR (i_, out)                                                                                             \
        PUT(y_, i_, v_[i_]);                                                                                           \
    }                                                                                                                  \
  } while (0)

/* x + a y and a x, for a constant a. */
G16 g16 plus(g16 x, double a, g16 y) { return g16_fma(g16_all((float)a), y, x); }
G16 g16 times(double a, g16 x) { return g16_mul(g16_all((float)a), x); }

/* A square of pixels in memory: of an image, or of a copy with zeros where the image ends. */
typedef struct winograd_square {
  const float *first;
  int64_t line, pixel; /* elements to the next */
} winograd_square;

/* The square of `size` x `size` pixels from (y, x) on; copy: memory for it, of which a line of 16 may be read beyond
 * its end. */
winograd_square HD_SYM(winograd_square)(float *copy, const winograd_map *map, int64_t row, int y, int x, int size);

/* Elements of such a copy. */
static inline int64_t copy_elems(int channels) { return (int64_t)PLACES * up16(channels) + 16; }

/* The layout of transformed values: elements to the next place, to the next group of sixteen channels, and to the next
 * tile that has the place. */
typedef struct winograd_planes {
  float *first;
  int64_t place, group, tile;
} winograd_planes;

/* Where a tile's values at the places of each kind are, as if they were at place 0. A tile that a place does not have
 * lies where the next one will. */
typedef struct winograd_target {
  float *at[KINDS];
} winograd_target;

static inline winograd_target target_of(const winograd_planes *planes, const winograd_cursor *at) {
  winograd_target to;
  UNROLL_FOR (kind, KINDS)
    to.at[kind] = planes->first + at->kept.of[kind] * planes->tile;
  return to;
}

static inline void next_group(winograd_target *to, const winograd_planes *planes) {
  UNROLL_FOR (kind, KINDS)
    to->at[kind] += planes->group;
}

/* Written like this so that loops over lines keep everything in registers. */
static inline float *value_at(const winograd_target *target, int64_t place, int y, int x) {
  float *last = x == LINE - 1 ? target->at[LAST_BOTH] : target->at[LAST_DOWN];
  float *others = x == LINE - 1 ? target->at[LAST_ACROSS] : target->at[EVERY];
  const int64_t line = (place_of(1, x) - place_of(0, x)) * place;
  return (y == LINE - 1 ? last : others) + place_of(0, x) * place + y * line;
}

/* The patches of `count` tiles, transformed. Moves *at on. */
void HD_SYM(winograd_patches)(const winograd_planes *out, float *copy, const winograd_map *map, winograd_cursor *at,
                              int count);

/* The tiles of dy, transformed, in the layout of patches. */
void HD_SYM(winograd_gradients)(const winograd_planes *out, float *copy, const winograd_map *dy, winograd_cursor *at,
                                int count);

/* A line of the sums of a kernel's gradient, back to `taps` of the kernel. */
G16 void kernel_gradient_line(g16 *v, int taps) {
  g16 s = times(WINOGRAD_NA, g16_add(v[1], v[2])), d = times(WINOGRAD_NA, g16_sub(v[1], v[2]));
  g16 t = times(WINOGRAD_NB, g16_add(v[3], v[4])), e = times(WINOGRAD_NB, g16_sub(v[3], v[4]));
  v[0] = plus(g16_add(s, t), WINOGRAD_N0, v[0]);
  v[1] = plus(times(WINOGRAD_A, d), WINOGRAD_B, e);
  if (taps == 3) {
    v[2] = plus(plus(v[5], WINOGRAD_A2, s), WINOGRAD_B2, t);
    return;
  }
  v[2] = plus(times(WINOGRAD_A2, s), WINOGRAD_B2, t);
  v[3] = plus(times(WINOGRAD_A3, d), WINOGRAD_B3, e);
  v[4] = plus(plus(v[5], WINOGRAD_A4, s), WINOGRAD_B4, t);
}

void HD_SYM(winograd_forward)(const hd_call *call);
void HD_SYM(winograd_dx)(const hd_call *call);
int64_t HD_SYM(winograd_scratch)(int inputs, int outputs); /* of either, by the channels of patches and sums */
int64_t HD_SYM(winograd_forward_packed)(const hd_geom *g);
int64_t HD_SYM(winograd_dx_packed)(const hd_geom *g);
void HD_SYM(winograd_forward_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
void HD_SYM(winograd_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);

/* The weight's gradient alone; formed inside the reduction: winograd_form_cpu.c. */
void HD_SYM(winograd_dw)(const hd_call *call);
int64_t HD_SYM(winograd_dw_scratch)(const hd_geom *g);
void HD_SYM(winograd_form)(const hd_form *form);
int64_t HD_SYM(winograd_form_scratch)(const hd_geom *g, int64_t rows);
