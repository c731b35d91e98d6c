/* Convolutions by Winograd's tiles, and the gradient of their input, which is one as well: patches transformed, for
 * each place a product of matrices over the channels, and back.
 *
 * Order: as op/conv2d/winograd.h says. Additions of a transform are per element, and a place's sum is one chain:
 * +0; channels ascending: fma(patch, kernel, acc). */
#include "op/conv2d/winograd_cpu.h"

enum { TILES = ACC_GROUPS / BLOCK_GROUPS, MOST_GROUPS = BLOCK_GROUPS > 1 ? BLOCK_GROUPS + 1 : 1 };

G16 void patch_line(g16 *d, int step) {
  g16 d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
  g16 even_a = plus(d4, -WINOGRAD_B2, d2), odd_a = plus(d3, -WINOGRAD_B2, d1);
  g16 even_b = plus(d4, -WINOGRAD_A2, d2), odd_b = plus(d3, -WINOGRAD_A2, d1);
  d[0] = plus(plus(d4, -WINOGRAD_SUM, d2), WINOGRAD_PRODUCT, d0);
  d[step] = plus(even_a, WINOGRAD_A, odd_a);
  d[2 * step] = plus(even_a, -WINOGRAD_A, odd_a);
  d[3 * step] = plus(even_b, WINOGRAD_B, odd_b);
  d[4 * step] = plus(even_b, -WINOGRAD_B, odd_b);
  d[5 * step] = plus(plus(d5, -WINOGRAD_SUM, d3), WINOGRAD_PRODUCT, d1);
}

G16 void kernel_line(g16 *k, int step) {
  g16 k0 = k[0], k1 = k[step], k2 = k[2 * step], even_a = plus(k0, WINOGRAD_A2, k2), even_b = plus(k0, WINOGRAD_B2, k2);
  k[0] = times(WINOGRAD_N0, k0);
  k[step] = times(WINOGRAD_NA, plus(even_a, WINOGRAD_A, k1));
  k[2 * step] = times(WINOGRAD_NA, plus(even_a, -WINOGRAD_A, k1));
  k[3 * step] = times(WINOGRAD_NB, plus(even_b, WINOGRAD_B, k1));
  k[4 * step] = times(WINOGRAD_NB, plus(even_b, -WINOGRAD_B, k1));
  k[5 * step] = k2;
}

G16 void tile_line(g16 *m, int step) {
  g16 s = g16_add(m[step], m[2 * step]), d = g16_sub(m[step], m[2 * step]);
  g16 t = g16_add(m[3 * step], m[4 * step]), e = g16_sub(m[3 * step], m[4 * step]);
  m[0] = g16_add(g16_add(m[0], s), t);
  m[step] = plus(times(WINOGRAD_A, d), WINOGRAD_B, e);
  m[2 * step] = plus(times(WINOGRAD_A2, s), WINOGRAD_B2, t);
  m[3 * step] = plus(plus(m[5 * step], WINOGRAD_A3, d), WINOGRAD_B3, e);
}

/* Bit i: pixel i of the patch whose first is (y, x) lies in the image. */
static uint64_t pixels_inside(const winograd_map *map, int y, int x) {
  uint64_t inside = 0;
  for (int i = 0; i < PLACES; i++) {
    int py = y + i / LINE, px = x + i % LINE;
    inside |= py >= 0 && py < map->height && px >= 0 && px < map->width ? UINT64_C(1) << i : 0;
  }
  return inside;
}

/* The pixels of a patch whose first is at `first`; inside: NULL, or which lie in the image. */
G16 void take_patch(g16 *d, const winograd_map *map, const float *first, const uint64_t *inside, int left) {
  int64_t line = (int64_t)map->width * map->channels;
  UNROLL_FOR (i, PLACES)
    d[i] = !inside || *inside >> i & 1 ? g16_load_some(first + i / LINE * line + i % LINE * map->channels, left)
                                       : g16_zero();
}

void HD_SYM(winograd_patches)(float *out, int64_t stride, const winograd_map *map, winograd_cursor *at, int count) {
  int64_t line = (int64_t)map->width * map->channels;
  for (int t = 0; t < count; t++, out += tile_elems(map->channels), next_tile(at, map)) {
    int y = SIDE * at->ty - map->top, x = SIDE * at->tx - map->left;
    int whole = y >= 0 && y + LINE <= map->height && x >= 0 && x + LINE <= map->width;
    uint64_t inside = whole ? 0 : pixels_inside(map, y, x);
    const float *first = map->x + at->row * map->stride + y * line + (int64_t)x * map->channels;
    for (int c = 0; c < map->channels; c += 16) {
      g16 d[PLACES];
      if (whole)
        take_patch(d, map, first + c, NULL, map->channels - c);
      else
        take_patch(d, map, first + c, &inside, map->channels - c);
      WINOGRAD_TRANSFORM(d, patch_line, LINE, LINE);
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

/* The maxima of a tile's windows, of side `pool`; a constant where this is inlined. */
G16 void store_windows(const winograd_job *job, const winograd_cursor *at, int c, const g16 *value, int pool) {
  int side = SIDE / pool;
  for (int i = 0; i < side * side; i++) {
    int wy = side * at->ty + i / side, wx = side * at->tx + i % side;
    if (wy >= job->height || wx >= job->width)
      continue;
    int64_t out = ((int64_t)wy * job->width + wx) * job->channels + c;
    const g16 *first = value + i / side * pool * SIDE + i % side * pool;
    g16 best = first[0], taken = g16_zero();
    for (int p = 1; p < pool * pool; p++) {
      g16 next = first[p / pool * SIDE + p % pool];
      g16_mask over = g16_or(g16_less(best, next), g16_nan(next));
      best = g16_choose(over, next, best);
      taken = g16_choose(over, g16_all((float)p), taken);
    }
    g16_store_some(job->y + at->row * job->y_stride + out, job->relu ? g16_relu(best) : best, job->channels - c);
    if (pool > 1 && job->argmax)
      g16_to_bytes(job->argmax + at->row * job->argmax_stride + out, taken, job->channels - c);
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
      g16 m[PLACES], value[OUTPUTS];
      int first = c + 16 * q;
      g16 bias = job->bias ? g16_load_some(job->bias + first, job->channels - first) : g16_zero();
      UNROLL_FOR (i, PLACES)
        m[i] = g16_load(sums + i * place);
      WINOGRAD_TRANSFORM(m, tile_line, LINE, SIDE);
      UNROLL_FOR (i, OUTPUTS)
        value[i] = g16_add(m[place_of(i, SIDE)], bias);
      if (job->pool > 1)
        store_windows(job, at, first, value, 2);
      else
        store_windows(job, at, first, value, 1);
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
                            .patch_tile = tile_elems(job->map.channels),
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
  winograd_job job = {.map = {.x = call->in[0],
                              .stride = call->in_stride[0],
                              .height = g->hi,
                              .width = g->wi,
                              .channels = g->ci,
                              .top = g->ph,
                              .left = g->pw,
                              .tiles_y = tiles_along(g->hp * g->pool),
                              .tiles_x = tiles_along(g->wp * g->pool)},
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
                              .tiles_y = tiles_along(g->hi),
                              .tiles_x = tiles_along(g->wi)},
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
    k[place_of(i, 3)] = g16_load_some(w + (int64_t)(first + i * step) * g->ci + c, g->ci - c);
  WINOGRAD_TRANSFORM(k, kernel_line, 3, LINE);
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
