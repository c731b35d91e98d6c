/* Interface of winograd_cpu.c and winograd_dw_cpu.c, and what both share: convolutions by tiles of 2 x 2 outputs,
 * see op/conv2d/winograd.h for the chains.
 *
 * Both work on as many tiles at a time as stay in the second-level cache after their transform. A transformed patch
 * has 16 places; the values of one place of all tiles are contiguous, as [tile][channel], because between the
 * transforms there is a product of matrices for each place. */
#pragma once

#include "op/conv2d/conv2d_cpu.h"

enum { PLACES = 16, TILES_STEP = 12, FORWARD_BYTES = 64 * 1024, DW_BYTES = 256 * 1024 };

/* The image that patches are taken from, and the tiles over it. */
typedef struct winograd_map {
  const float *x; /* row 0 */
  int64_t stride; /* to the next row */
  int height, width, channels;
  int top, left; /* how far the first patch begins outside of the image */
  int tiles_y, tiles_x;
} winograd_map;

/* The next tile. */
typedef struct winograd_cursor {
  int64_t row;
  int ty, tx;
} winograd_cursor;

static inline int64_t tiles_of(const winograd_map *map, int64_t rows) { return rows * map->tiles_y * map->tiles_x; }

static inline void next_tile(winograd_cursor *at, const winograd_map *map) {
  if (++at->tx < map->tiles_x)
    return;
  at->tx = 0;
  if (++at->ty < map->tiles_y)
    return;
  at->ty = 0;
  at->row++;
}

/* Tiles at a time: as many as take about so many bytes when that many channels are transformed. */
static inline int tiles_at_once(int bytes, int channels) {
  int tiles = bytes / (PLACES * (int)sizeof(float) * up16(channels)) / TILES_STEP * TILES_STEP;
  return most(TILES_STEP, tiles);
}

/* Elements from a place to the next; a little more than the values, or all places would fall into one set of a
 * cache. */
static inline int64_t place_elems(int tiles, int channels) { return (int64_t)tiles * up16(channels) + 16; }

/* Both axes of 4 x 4 values, of which `in` along each axis are there, by the given transform of one axis. */
#define WINOGRAD_TRANSFORM(square, line, in, out)                                                                      \
  do {                                                                                                                 \
    UNROLL_FOR (x_, in)                                                                                                \
      line((square) + x_, 4);                                                                                          \
    UNROLL_FOR (y_, out)                                                                                               \
      line((square) + 4 * y_, 1);                                                                                      \
  } while (0)

/* The patches of `count` tiles, transformed: out[place * stride + tile * up16(channels) + channel]. Moves *at on. */
void HD_SYM(winograd_patches)(float *out, int64_t stride, const winograd_map *map, winograd_cursor *at, int count);

void HD_SYM(winograd_forward)(const hd_call *call);
void HD_SYM(winograd_dx)(const hd_call *call);
int64_t HD_SYM(winograd_scratch)(int channels); /* of either, by the channels that patches have */
int64_t HD_SYM(winograd_forward_packed)(const hd_geom *g);
int64_t HD_SYM(winograd_dx_packed)(const hd_geom *g);
void HD_SYM(winograd_forward_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
void HD_SYM(winograd_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);

void HD_SYM(winograd_dw)(const hd_call *call); /* the weight's gradient alone */
int64_t HD_SYM(winograd_dw_scratch)(const hd_geom *g);
