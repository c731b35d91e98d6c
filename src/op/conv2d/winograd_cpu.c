/* Convolutions by Winograd's tiles, and the gradient of their input, which is one as well: patches transformed, for
 * each place a product of matrices over the channels, and back.
 *
 * Order: as op/conv2d/winograd.h says. Additions of a transform are per element, and a place's sum is one chain:
 * +0; channels ascending: fma(patch, kernel, acc). */
#include "op/conv2d/winograd_cpu.h"

enum { TILES = ACC_GROUPS / BLOCK_GROUPS, MOST_GROUPS = BLOCK_GROUPS > 1 ? BLOCK_GROUPS + 1 : 1 };

G16 void patch_line(g16 *d, int step) {
  g16 d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
  d[0] = g16_sub(d0, d2);
  d[step] = g16_add(d1, d2);
  d[2 * step] = g16_sub(d2, d1);
  d[3 * step] = g16_sub(d1, d3);
}

G16 void kernel_line(g16 *k, int step) {
  g16 k0 = k[0], k1 = k[step], k2 = k[2 * step], outer = g16_add(k0, k2), half = g16_all(0.5f);
  k[step] = g16_mul(g16_add(outer, k1), half);
  k[2 * step] = g16_mul(g16_sub(outer, k1), half);
  k[3 * step] = k2;
}

G16 void tile_line(g16 *m, int step) {
  g16 m0 = m[0], m1 = m[step], m2 = m[2 * step], m3 = m[3 * step];
  m[0] = g16_add(g16_add(m0, m1), m2);
  m[step] = g16_sub(g16_sub(m1, m2), m3);
}

/* Bit i: pixel i of the patch whose first is (y, x) lies in the image. */
static unsigned pixels_inside(const winograd_map *map, int y, int x) {
  unsigned inside = 0;
  if (y >= 0 && y + 4 <= map->height && x >= 0 && x + 4 <= map->width)
    return 0xffff;
  for (int i = 0; i < PLACES; i++) {
    int py = y + i / 4, px = x + i % 4;
    inside |= py >= 0 && py < map->height && px >= 0 && px < map->width ? 1u << i : 0;
  }
  return inside;
}

void HD_SYM(winograd_patches)(float *out, int64_t stride, const winograd_map *map, winograd_cursor *at, int count) {
  int channels16 = up16(map->channels);
  int64_t line = (int64_t)map->width * map->channels;
  for (int t = 0; t < count; t++, out += channels16, next_tile(at, map)) {
    int y = 2 * at->ty - map->top, x = 2 * at->tx - map->left;
    unsigned inside = pixels_inside(map, y, x);
    const float *first = map->x + at->row * map->stride + y * line + (int64_t)x * map->channels;
    for (int c = 0; c < map->channels; c += 16) {
      g16 d[PLACES];
      UNROLL_FOR (i, PLACES)
        d[i] = inside >> i & 1 ? g16_load_some(first + i / 4 * line + i % 4 * map->channels + c, map->channels - c)
                               : g16_zero();
      WINOGRAD_TRANSFORM(d, patch_line, 4, 4);
      UNROLL_FOR (i, PLACES)
        g16_store(out + i * stride + c, d[i]);
    }
  }
}

/* One convolution: its input, weights and output. */
typedef struct winograd_job {
  winograd_map map;
  const float *w, *bias; /* packed; NULL for none */
  int channels;          /* of the output */
  float *y;
  int64_t y_stride;
  uint8_t *argmax; /* or NULL */
  int64_t argmax_stride;
  int height, width; /* of the output, behind the pool */
  int pool, relu;
} winograd_job;

static void store_pool(const winograd_job *job, const winograd_cursor *at, int c, const g16 *value) {
  int64_t out = ((int64_t)at->ty * job->width + at->tx) * job->channels + c;
  g16 best = value[0], taken = g16_zero();
  UNROLL_FOR (i, 3) {
    g16_mask over = g16_or(g16_less(best, value[i + 1]), g16_nan(value[i + 1]));
    best = g16_choose(over, value[i + 1], best);
    taken = g16_choose(over, g16_all((float)(i + 1)), taken);
  }
  g16_store_some(job->y + at->row * job->y_stride + out, job->relu ? g16_relu(best) : best, job->channels - c);
  if (job->argmax)
    g16_to_bytes(job->argmax + at->row * job->argmax_stride + out, taken, job->channels - c);
}

static void store_pixels(const winograd_job *job, const winograd_cursor *at, int c, const g16 *value) {
  float *y = job->y + at->row * job->y_stride + c;
  UNROLL_FOR (i, 4) {
    int oy = 2 * at->ty + i / 2, ox = 2 * at->tx + i % 2;
    if (oy < job->height && ox < job->width)
      g16_store_some(y + ((int64_t)oy * job->width + ox) * job->channels, job->relu ? g16_relu(value[i]) : value[i],
                     job->channels - c);
  }
}

/* A block of tiles by a block of channels, whose sums take up a part of the first-level cache: TILES x BLOCK_GROUPS
 * groups for each place, or fewer tiles by one group more, see walk_block_groups. */
typedef struct winograd_block {
  const float *patch; /* the first tile's channels, at place 0 */
  int64_t patch_place;
  int patch_tile;
  const float *w; /* [place][channel][groups of the block * 16] */
  int channels;   /* of the input */
  float *sums;    /* [place][tile][groups of the block * 16] */
} winograd_block;

/* All places' sums; tiles and groups are constants where this is inlined. */
G16 void sum_block(const winograd_block *block, int tiles, int groups) {
  const float *w = block->w, *x[TILES];
  float *sums = block->sums;
  UNROLL_FOR (t, tiles)
    x[t] = block->patch + t * block->patch_tile;
  for (int place = 0; place < PLACES; place++) {
    g16 acc[TILES][MOST_GROUPS];
    UNROLL_FOR (t, tiles)
      UNROLL_FOR (q, groups)
        acc[t][q] = g16_zero();
    for (int64_t i = 0; i < block->channels; i++, w += 16 * groups) {
      g16 wv[MOST_GROUPS];
      UNROLL_FOR (q, groups)
        wv[q] = g16_load(w + 16 * q);
      UNROLL_FOR (t, tiles) {
        g16 xv = g16_all(x[t][i]);
        UNROLL_FOR (q, groups)
          acc[t][q] = g16_fma(xv, wv[q], acc[t][q]);
      }
    }
    UNROLL_FOR (t, tiles) {
      x[t] += block->patch_place;
      UNROLL_FOR (q, groups)
        g16_store(sums + 16 * (t * groups + q), acc[t][q]);
    }
    sums += 16 * tiles * groups;
  }
}

typedef void block_fn(const winograd_block *block);

#define FITS(tiles, groups) ((tiles) <= TILES && (groups) <= MOST_GROUPS && (tiles) * (groups) <= ACC_GROUPS)
#define BLOCK(tiles, groups)                                                                                           \
  static void block_##tiles##x##groups(const winograd_block *block) {                                                  \
    if (FITS(tiles, groups))                                                                                           \
      sum_block(block, tiles, groups);                                                                                 \
  }
BLOCK_TABLE(block_fn)

/* The sums of a block, transformed back; the block's channels begin at c. */
static void put_block(const winograd_job *job, const float *sums, winograd_cursor *at, int tiles, int c, int groups) {
  int64_t place = 16 * (int64_t)tiles * groups;
  for (int t = 0; t < tiles; t++, next_tile(at, &job->map))
    for (int q = 0; q < groups; q++, sums += 16) {
      g16 m[PLACES], value[4];
      int first = c + 16 * q;
      g16 bias = job->bias ? g16_load_some(job->bias + first, job->channels - first) : g16_zero();
      UNROLL_FOR (i, PLACES)
        m[i] = g16_load(sums + i * place);
      WINOGRAD_TRANSFORM(m, tile_line, 4, 2);
      UNROLL_FOR (i, 4)
        value[i] = g16_add(m[i / 2 * 4 + i % 2], bias);
      if (job->pool > 1)
        store_pool(job, at, first, value);
      else
        store_pixels(job, at, first, value);
    }
}

/* Some tiles, given as transformed patches, by all channels: the weights of a block are used for all tiles while they
 * are in a near cache. */
static void run_tiles(const winograd_job *job, const float *patches, int64_t place, float *sums,
                      const winograd_cursor *at, int tiles) {
  int all = up16(job->channels) / 16, groups;
  for (int first = 0; first < all; first += groups) {
    groups = walk_block_groups(first, all);
    winograd_cursor to = *at;
    winograd_block block = {.patch = patches,
                            .patch_place = place,
                            .patch_tile = up16(job->map.channels),
                            .w = job->w + (int64_t)first * 16 * PLACES * job->map.channels,
                            .channels = job->map.channels,
                            .sums = sums};
    int most_tiles = least(TILES, ACC_GROUPS / groups), count = (tiles + most_tiles - 1) / most_tiles, done = 0;
    for (int i = 0; i < count; i++) {
      int size = tiles * (i + 1) / count - done;
      blocks[groups - 1][size - 1](&block);
      put_block(job, sums, &to, size, first * 16, groups);
      block.patch += size * block.patch_tile;
      done += size;
    }
  }
}

static void run_job(const winograd_job *job, int64_t rows, float *scratch) {
  int at_once = tiles_at_once(FORWARD_BYTES, job->map.channels);
  int64_t place = place_elems(at_once, job->map.channels);
  winograd_cursor at = {0};
  for (int64_t left = tiles_of(&job->map, rows); left > 0; left -= at_once) {
    int tiles = left < at_once ? (int)left : at_once;
    winograd_cursor first = at;
    HD_SYM(winograd_patches)(scratch, place, &job->map, &at, tiles);
    run_tiles(job, scratch, place, scratch + PLACES * place, &first, tiles);
  }
}

void HD_SYM(winograd_forward)(const hd_call *call) {
  const hd_geom *g = call->g;
  int side = 2 / g->pool;
  winograd_job job = {.map = {.x = call->in[0],
                              .stride = call->in_stride[0],
                              .height = g->hi,
                              .width = g->wi,
                              .channels = g->ci,
                              .top = g->ph,
                              .left = g->pw,
                              .tiles_y = (g->hp + side - 1) / side,
                              .tiles_x = (g->wp + side - 1) / side},
                      .w = call->packed,
                      .bias = call->in[2],
                      .channels = g->co,
                      .y = call->out[0],
                      .y_stride = call->out_stride[0],
                      .argmax = call->out[1],
                      .argmax_stride = call->out_stride[1],
                      .height = g->hp,
                      .width = g->wp,
                      .pool = g->pool,
                      .relu = g->relu};
  run_job(&job, call->rows, call->scratch);
}

void HD_SYM(winograd_dx)(const hd_call *call) {
  const hd_geom *g = call->g;
  winograd_job job = {.map = {.x = call->in[0],
                              .stride = call->in_stride[0],
                              .height = g->hp,
                              .width = g->wp,
                              .channels = g->co,
                              .top = 2 - g->ph,
                              .left = 2 - g->pw,
                              .tiles_y = (g->hi + 1) / 2,
                              .tiles_x = (g->wi + 1) / 2},
                      .w = call->packed,
                      .channels = g->ci,
                      .y = call->out[0],
                      .y_stride = call->out_stride[0],
                      .height = g->hi,
                      .width = g->wi,
                      .pool = 1};
  run_job(&job, call->rows, call->scratch);
}

int64_t HD_SYM(winograd_scratch)(int channels) {
  return whole_bytes(PLACES * (place_elems(tiles_at_once(FORWARD_BYTES, channels), channels) + 16 * ACC_GROUPS));
}

int64_t HD_SYM(winograd_forward_packed)(const hd_geom *g) { return (int64_t)PLACES * g->ci * up16(g->co); }
int64_t HD_SYM(winograd_dx_packed)(const hd_geom *g) { return (int64_t)PLACES * g->co * up16(g->ci); }

/* The kernels of output channel j and sixteen input channels from c on, transformed; w: that channel's. A kernel that
 * is turned around begins at its last tap, step -1. */
G16 void take_kernels(g16 *k, const hd_geom *g, const float *w, int c, int first, int step) {
  UNROLL_FOR (i, 9)
    k[i / 3 * 4 + i % 3] = g16_load_some(w + (int64_t)(first + i * step) * g->ci + c, g->ci - c);
  WINOGRAD_TRANSFORM(k, kernel_line, 3, 4);
}

/* Where the packed value of input channel k, output channel c lies at place 0; to the next place: *place, to the next
 * input channel: *step. */
static int64_t weight_at(int64_t *place, int64_t *step, int inputs, int outputs, int k, int c) {
  int all = up16(outputs) / 16, first = 0;
  while (first + walk_block_groups(first, all) <= c / 16)
    first += walk_block_groups(first, all);
  *step = 16 * walk_block_groups(first, all);
  *place = inputs * *step;
  return (int64_t)first * 16 * PLACES * inputs + k * *step + c - first * 16;
}

void HD_SYM(winograd_forward_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int32_t j = j0; j < j1; j++)
    for (int c = 0; c < g->ci; c += 16) {
      g16 k[PLACES];
      float lanes[PLACES][16];
      int64_t place, step, first = weight_at(&place, &step, g->ci, g->co, c, j);
      take_kernels(k, g, w + (int64_t)j * 9 * g->ci, c, 0, 1);
      UNROLL_FOR (i, PLACES)
        g16_store(lanes[i], k[i]);
      for (int i = 0; i < PLACES; i++)
        for (int l = 0; l < least(16, g->ci - c); l++)
          packed[first + i * place + l * step] = lanes[i][l];
    }
}

void HD_SYM(winograd_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int32_t j = j0; j < j1; j++)
    for (int c = 0; c < g->ci; c += 16) {
      g16 k[PLACES];
      int64_t place, step, first = weight_at(&place, &step, g->co, g->ci, j, c);
      take_kernels(k, g, w + (int64_t)j * 9 * g->ci, c, 8, -1);
      UNROLL_FOR (i, PLACES)
        g16_store(packed + first + i * place, k[i]);
    }
}
