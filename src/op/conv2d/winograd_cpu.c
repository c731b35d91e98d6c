/* Convolutions by Winograd's tiles, and the gradient of their input, which is one as well: patches transformed, for
 * each place a product of matrices over the channels, and back.
 *
 * Order: as op/conv2d/winograd.h says. Additions of a transform are per element, and a place's sum is one chain:
 * +0; channels ascending: fma(patch, kernel, acc). */
#include <string.h>

#include "op/conv2d/winograd_cpu.h"

/* Tiles and groups of a block in registers; groups of sums that stay in the first-level cache until they are put. */
enum { TILES = ACC_GROUPS / BLOCK_GROUPS, MOST_GROUPS = BLOCK_GROUPS > 1 ? BLOCK_GROUPS + 1 : 1 };
enum { SUM_GROUPS = TILES_STEP * BLOCK_GROUPS };

G16 void patch_line(g16 *d, int size) {
  (void)size;
  g16 d1 = d[1], d2 = d[2], d3 = d[3], d4 = d[4];
  g16 even_a = plus(d4, -WINOGRAD_B2, d2), odd_a = plus(d3, -WINOGRAD_B2, d1);
  g16 even_b = plus(d4, -WINOGRAD_A2, d2), odd_b = plus(d3, -WINOGRAD_A2, d1);
  d[0] = plus(plus(d4, -WINOGRAD_SUM, d2), WINOGRAD_PRODUCT, d[0]);
  d[1] = plus(even_a, WINOGRAD_A, odd_a);
  d[2] = plus(even_a, -WINOGRAD_A, odd_a);
  d[3] = plus(even_b, WINOGRAD_B, odd_b);
  d[4] = plus(even_b, -WINOGRAD_B, odd_b);
  d[5] = plus(plus(d[5], -WINOGRAD_SUM, d3), WINOGRAD_PRODUCT, d1);
}

G16 void kernel_line(g16 *k, int taps) {
  g16 top_a = k[2], top_b = k[2], odd_a = k[1], odd_b = k[1];
  if (taps == 5) {
    top_a = plus(k[2], WINOGRAD_A2, k[4]);
    top_b = plus(k[2], WINOGRAD_B2, k[4]);
    odd_a = plus(k[1], WINOGRAD_A2, k[3]);
    odd_b = plus(k[1], WINOGRAD_B2, k[3]);
  }
  g16 even_a = plus(k[0], WINOGRAD_A2, top_a), even_b = plus(k[0], WINOGRAD_B2, top_b);
  k[5] = k[taps - 1];
  k[0] = times(WINOGRAD_N0, k[0]);
  k[1] = times(WINOGRAD_NA, plus(even_a, WINOGRAD_A, odd_a));
  k[2] = times(WINOGRAD_NA, plus(even_a, -WINOGRAD_A, odd_a));
  k[3] = times(WINOGRAD_NB, plus(even_b, WINOGRAD_B, odd_b));
  k[4] = times(WINOGRAD_NB, plus(even_b, -WINOGRAD_B, odd_b));
}

G16 void tile_line(g16 *m, int side) {
  g16 s = g16_add(m[1], m[2]), d = g16_sub(m[1], m[2]), t = g16_add(m[3], m[4]), e = g16_sub(m[3], m[4]);
  m[0] = g16_add(g16_add(m[0], s), t);
  if (side == 2) {
    m[1] = plus(plus(m[5], WINOGRAD_A, d), WINOGRAD_B, e);
    return;
  }
  m[1] = plus(times(WINOGRAD_A, d), WINOGRAD_B, e);
  m[2] = plus(times(WINOGRAD_A2, s), WINOGRAD_B2, t);
  m[3] = plus(plus(m[5], WINOGRAD_A3, d), WINOGRAD_B3, e);
}

winograd_square HD_SYM(winograd_square)(float *copy, const winograd_map *map, int64_t row, int y, int x, int size) {
  int64_t pixel = map->pixel, line = map->width * pixel;
  const float *image = map->x + row * map->stride;
  int top = most(y, 0), left = most(x, 0), bottom = least(y + size, map->height), right = least(x + size, map->width);
  if (bottom - top == size && right - left == size)
    return (winograd_square){image + y * line + x * pixel, line, pixel};
  const int64_t channels = map->channels;
  memset(copy, 0, (size_t)(size * size * channels) * sizeof *copy);
  for (int at = top; at < bottom && left < right; at++) {
    float *to = copy + ((at - y) * size + left - x) * channels;
    const float *from = image + at * line + left * pixel;
    for (int i = left; i < right && pixel != channels; i++, to += channels, from += pixel)
      memcpy(to, from, (size_t)channels * sizeof *to);
    if (pixel == channels)
      memcpy(to, from, (size_t)((right - left) * pixel) * sizeof *to);
  }
  return (winograd_square){copy, size * channels, channels};
}

/* `some` channels of a patch from c on, 16 at most. */
G16 void put_patch(const winograd_target *to, int64_t place, const winograd_square *square, int c, int some) {
#define TAKE(y, x) g16_load_some(square->first + (y)*square->line + (x)*square->pixel + c, some)
#define PUT(y, x, value) g16_store(value_at(to, place, y, x), value)
  WINOGRAD_TRANSFORM(patch_line, LINE, LINE, LINE, TAKE, PUT);
#undef TAKE
#undef PUT
}

void HD_SYM(winograd_patches)(const winograd_planes *out, float *copy, const winograd_map *map, winograd_cursor *at,
                              int count) {
  for (int t = 0; t < count; t++, next_tile(at, map)) {
    winograd_square square = HD_SYM(winograd_square)(copy, map, at->row, map->side * at->ty - map->top,
                                                     map->side * at->tx - map->left, LINE);
    winograd_target to = target_of(out, at);
    int c = 0;
    for (; c + 16 <= map->channels; c += 16, next_group(&to, out))
      put_patch(&to, out->place, &square, c, 16);
    if (c < map->channels)
      put_patch(&to, out->place, &square, c, map->channels - c);
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

/* The maxima of a tile's windows, of side `pool`; both sides are constants where this is inlined. */
G16 void store_windows(const winograd_job *job, const winograd_cursor *at, int c, const float (*value)[16], int tile,
                       int pool) {
  int side = tile / pool, first_y = side * at->ty, first_x = side * at->tx, left = job->channels - c;
  int down = least(side, job->height - first_y), across = least(side, job->width - first_x);
  for (int wy = 0; wy < down; wy++)
    for (int wx = 0; wx < across; wx++) {
      int64_t out = ((int64_t)(first_y + wy) * job->width + first_x + wx) * job->channels + c;
      const float(*first)[16] = value + (wy * tile + wx) * pool;
      g16 best = g16_load(first[0]), taken = g16_zero();
      for (int p = 1; p < pool * pool; p++) {
        g16 next = g16_load(first[p / pool * tile + p % pool]);
        g16_mask over = g16_or(g16_less(best, next), g16_nan(next));
        best = g16_choose(over, next, best);
        taken = g16_choose(over, g16_all((float)p), taken);
      }
      g16_store_some(job->y + at->row * job->y_stride + out, job->relu ? g16_relu(best) : best, left);
      if (pool > 1 && job->argmax)
        g16_to_bytes(job->argmax + at->row * job->argmax_stride + out, taken, left);
    }
}

/* A block of tiles by a block of channels, TILES x BLOCK_GROUPS groups of sums or fewer tiles by one group more, see
 * walk_block_groups, at places that have the same tiles. */
typedef struct winograd_block {
  const float *patch; /* the first tile's channels, at the first place */
  int64_t patch_place;
  int patch_tile;
  const float *w; /* [place][channel][groups of the block * 16] */
  int channels;   /* of the input */
  float *sums;    /* [place][tile][groups of the block * 16] */
  int64_t sums_place;
  int places;
} winograd_block;

/* Their sums; tiles and groups are constants where this is inlined. */
G16 void sum_block(const winograd_block *block, int tiles, int groups) {
  const float *w = block->w, *x[TILES];
  float *sums = block->sums;
  UNROLL_FOR (t, tiles)
    x[t] = block->patch + t * block->patch_tile;
  for (int place = 0; place < block->places; place++) {
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
    sums += block->sums_place;
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

/* Sums, transformed back, of a block of channels that begin at c, for some tiles. The sides are constants where this
 * is inlined. A place that a tile does not have is read for outputs that are dropped. */
G16 void put_tiles(const winograd_job *job, const winograd_planes *sums, winograd_cursor at, int tiles, int c,
                   int groups, int side, int pool) {
  for (at = from_here(at); tiles > 0; tiles--, next_tile(&at, &job->map)) {
    winograd_target from = target_of(sums, &at);
    for (int q = 0; q < groups; q++, next_group(&from, sums)) {
      _Alignas(64) float value[WINOGRAD_OUTPUTS][16];
      int first = c + 16 * q;
      g16 bias = job->bias ? g16_load_some(job->bias + first, job->channels - first) : g16_zero();
#define TAKE(y, x) g16_load(value_at(&from, sums->place, y, x))
#define PUT(y, x, of) g16_store(value[side * (y) + (x)], g16_add(of, bias))
      WINOGRAD_TRANSFORM(tile_line, side, LINE, side, TAKE, PUT);
#undef TAKE
#undef PUT
      store_windows(job, &at, first, (const float(*)[16])value, side, pool);
    }
  }
}

static void put_block(const winograd_job *job, const winograd_planes *sums, const winograd_cursor *at, int tiles, int c,
                      int groups) {
  if (job->map.side == 4 && job->pool == 1)
    put_tiles(job, sums, *at, tiles, c, groups, 4, 1);
  else if (job->map.side == 4)
    put_tiles(job, sums, *at, tiles, c, groups, 4, 2);
  else if (job->pool == 1)
    put_tiles(job, sums, *at, tiles, c, groups, 2, 1);
  else
    put_tiles(job, sums, *at, tiles, c, groups, 2, 2);
}

/* The tiles from `at` up to `end`. */
typedef struct tile_range {
  winograd_cursor at, end;
} tile_range;

/* The sums of a block of channels whose weights are w, kind after kind of places; at once where all of them have all
 * tiles. */
static void sum_tiles(const winograd_planes *sums, const winograd_job *job, const winograd_planes *patches,
                      const float *w, int groups, const tile_range *of) {
  const winograd_cursor *at = &of->at, *end = &of->end;
  const int channels = job->map.channels, is_whole = end->kept.of[LAST_BOTH] == end->kept.of[EVERY];
  for (int kind = 0, place = 0, past; place < PLACES; kind++, place = past) {
    const int first = at->kept.of[kind], tiles = end->kept.of[kind] - first;
    const int even = even_part(most(tiles, 1), least(TILES, ACC_GROUPS / groups));
    past = is_whole ? PLACES : kind_end[kind];
    winograd_block block = {.patch = patches->first + place * patches->place + first * patches->tile,
                            .patch_place = patches->place,
                            .patch_tile = (int)patches->tile,
                            .w = w + (int64_t)place * 16 * groups * channels,
                            .channels = channels,
                            .sums = sums->first + place * sums->place,
                            .sums_place = sums->place,
                            .places = past - place};
    for (int done = 0, size; done < tiles; done += size) {
      size = least(even, tiles - done);
      blocks[groups - 1][size - 1](&block);
      block.patch += size * patches->tile;
      block.sums += size * sums->tile;
    }
  }
}

/* Some tiles, given as transformed patches, by all channels: the weights of a block are used for all tiles while they
 * are in a near cache. */
static void run_tiles(const winograd_job *job, const winograd_planes *patches, float *scratch, winograd_cursor first,
                      int tiles) {
  int all = up16(job->channels) / 16, groups;
  for (int group = 0; group < all; group += groups) {
    groups = walk_block_groups(group, all);
    const float *w = job->w + (int64_t)group * 16 * PLACES * job->map.channels;
    const int even = even_part(tiles, SUM_GROUPS / groups);
    tile_range of = {first, first};
    for (int done = 0, size; done < tiles; done += size) {
      size = least(even, tiles - done);
      const winograd_planes sums = {scratch, 16 * (int64_t)size * groups, 16, 16 * groups};
      for (int t = 0; t < size; t++)
        next_tile(&of.end, &job->map);
      sum_tiles(&sums, job, patches, w, groups, &of);
      put_block(job, &sums, &of.at, size, group * 16, groups);
      of.at = of.end;
    }
  }
}

/* ---- Many channels: weights that a near cache does not keep pass once for many tiles, place after place, and the sums
 * of all places wait in memory until the last ---- */

static int is_wide(int inputs, int outputs) { return (int64_t)PLACES * inputs * up16(outputs) > WIDE_ELEMS; }

static int wide_tiles(int inputs, int outputs) { return tiles_at_once(WIDE_BYTES, inputs + outputs); }

/* Elements of the sums of a place. */
static int64_t wide_place(int tiles, int outputs) { return (int64_t)tiles * up16(outputs) + 16; }

/* As run_tiles. */
static void run_places(const winograd_job *job, const winograd_planes *patches, float *scratch, winograd_cursor first,
                       int tiles) {
  const int all = up16(job->channels) / 16, channels = job->map.channels;
  const int64_t sums_place = wide_place(tiles, job->channels);
  winograd_cursor end = first;
  int groups;
  for (int t = 0; t < tiles; t++)
    next_tile(&end, &job->map);
  for (int place = 0; place < PLACES; place++) {
    const int count = count_at(&end.kept, place);
    for (int group = 0; group < all; group += groups) {
      groups = walk_block_groups(group, all);
      const int even = even_part(most(count, 1), least(TILES, ACC_GROUPS / groups));
      winograd_block block = {.patch = patches->first + place * patches->place,
                              .patch_place = patches->place,
                              .patch_tile = (int)patches->tile,
                              .w = job->w + ((int64_t)group * PLACES + place * groups) * 16 * channels,
                              .channels = channels,
                              .sums = scratch + place * sums_place + (int64_t)group * 16 * tiles,
                              .sums_place = sums_place,
                              .places = 1};
      for (int done = 0, size; done < count; done += size) {
        size = least(even, count - done);
        blocks[groups - 1][size - 1](&block);
        block.patch += size * patches->tile;
        block.sums += size * 16 * groups;
      }
    }
  }
  for (int group = 0; group < all; group += groups) {
    groups = walk_block_groups(group, all);
    const winograd_planes sums = {scratch + (int64_t)group * 16 * tiles, sums_place, 16, 16 * groups};
    put_block(job, &sums, &first, tiles, group * 16, groups);
  }
}

/* Tiles at a time: even parts of all, in whole blocks. */
static int part_of(int64_t all, int at_most) {
  const int64_t parts = (all + at_most - 1) / at_most, tiles = parts > 0 ? (all + parts - 1) / parts : 0;
  return least(((int)tiles + TILES_STEP - 1) / TILES_STEP * TILES_STEP, at_most);
}

/* scratch: transformed patches, the sums of a block or of all channels, a copy of a patch. */
static void run_job(const winograd_job *job, int64_t rows, float *scratch) {
  const int channels = job->map.channels, wide = is_wide(channels, job->channels);
  const int64_t all = tiles_of(&job->map, rows);
  const int at_once = wide ? part_of(all, wide_tiles(channels, job->channels)) : tiles_at_once(FORWARD_BYTES, channels);
  const winograd_planes patches = {scratch, place_elems(at_once, channels), 16, tile_elems(channels)};
  float *sums = scratch + PLACES * patches.place;
  float *copy = sums + PLACES * (wide ? wide_place(at_once, job->channels) : 16 * SUM_GROUPS);
  winograd_cursor at = {0};
  for (int64_t left = all; left > 0; left -= at_once) {
    int tiles = left < at_once ? (int)left : at_once;
    const winograd_cursor first = at = from_here(at);
    HD_SYM(winograd_patches)(&patches, copy, &job->map, &at, tiles);
    (wide ? run_places : run_tiles)(job, &patches, sums, first, tiles);
  }
}

void HD_SYM(winograd_forward)(const hd_call *call) {
  const hd_geom *g = call->g;
  winograd_job job = {.map = {.x = call->in[0],
                              .stride = call->in_stride[0],
                              .height = g->hi,
                              .width = g->wi,
                              .channels = g->ci,
                              .pixel = g->ci,
                              .top = g->window.ph,
                              .left = g->window.pw,
                              .down = g->hp * g->conv.pool,
                              .across = g->wp * g->conv.pool,
                              .side = hd_winograd_side(g)},
                      .w = call->packed,
                      .bias = call->in[2],
                      .channels = g->co,
                      .y = call->out[0],
                      .y_stride = call->out_stride[0],
                      .argmax = call->out[1],
                      .argmax_stride = call->out_stride[1],
                      .height = g->hp,
                      .width = g->wp,
                      .pool = g->conv.pool,
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
                              .pixel = g->co,
                              .top = g->window.kh - 1 - g->window.ph,
                              .left = g->window.kw - 1 - g->window.pw,
                              .down = g->hi,
                              .across = g->wi,
                              .side = hd_winograd_side(g)},
                      .w = call->packed,
                      .channels = g->ci,
                      .y = call->out[0],
                      .y_stride = call->out_stride[0],
                      .height = g->hi,
                      .width = g->wi,
                      .pool = 1};
  run_job(&job, call->rows, call->scratch);
}

int64_t HD_SYM(winograd_scratch)(int inputs, int outputs) {
  const int wide = is_wide(inputs, outputs);
  const int tiles = wide ? wide_tiles(inputs, outputs) : tiles_at_once(FORWARD_BYTES, inputs);
  const int64_t sums = wide ? wide_place(tiles, outputs) : 16 * SUM_GROUPS;
  return whole_bytes(PLACES * (place_elems(tiles, inputs) + sums) + copy_elems(inputs));
}

int64_t HD_SYM(winograd_forward_packed)(const hd_geom *g) { return (int64_t)PLACES * g->ci * up16(g->co); }
int64_t HD_SYM(winograd_dx_packed)(const hd_geom *g) { return (int64_t)PLACES * g->co * up16(g->ci); }

/* The kernels of an output channel and sixteen input channels from c on, transformed; w: that channel's. A kernel that
 * is turned around begins at its last tap, step -1. `taps` is a constant where this is inlined. */
G16 void take_kernels(float (*out)[16], const hd_geom *g, const float *w, int c, int turned, int taps) {
  int first = turned ? taps * taps - 1 : 0, step = turned ? -1 : 1;
#define TAKE(y, x) g16_load_some(w + (int64_t)(first + (taps * (y) + (x)) * step) * g->ci + c, g->ci - c)
#define PUT(y, x, of) g16_store(out[place_of(y, x)], of)
  WINOGRAD_TRANSFORM(kernel_line, taps, taps, LINE, TAKE, PUT);
#undef TAKE
#undef PUT
}

static void transform_kernels(float out[PLACES][16], const hd_geom *g, const float *w, int c, int turned) {
  if (g->window.kh == 3)
    take_kernels(out, g, w, c, turned, 3);
  else
    take_kernels(out, g, w, c, turned, 5);
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

/* From this size on packed weights do not stay in the caches until they are read. */
enum { STREAM_ELEMS = 1 << 20 };

G16 void put_packed(float *to, g16 value, int streams) {
  if (streams)
    g16_stream(to, value);
  else
    g16_store(to, value);
}

/* The kernels of sixteen output channels and of the input channels c to c + 15, of which `left` exist: channels of the
 * output are moved into lanes. */
static void pack_square(const hd_geom *g, const float *w, float *packed, int j, int c, int streams) {
  _Alignas(64) float lanes[16][PLACES][16];
  const int64_t row = (int64_t)g->window.kh * g->window.kw * g->ci;
  const int left = least(16, g->ci - c);
  int64_t place, step, first = weight_at(&place, &step, g->ci, g->co, c, j);
  for (int i = 0; i < 16; i++)
    transform_kernels(lanes[i], g, w + (j + i) * row, c, 0);
  for (int p = 0; p < PLACES; p++) {
    g16 rows[16];
    UNROLL_FOR (i, 16)
      rows[i] = g16_load(lanes[i][p]);
    g16_transpose(rows);
    float *to = packed + first + p * place;
    if (left == 16)
      UNROLL_FOR (i, 16)
        put_packed(to + i * step, rows[i], streams);
    else
      UNROLL_FOR (i, 16)
        if (i < left)
          g16_store(to + i * step, rows[i]);
  }
}

static void pack_row(const hd_geom *g, const float *w, float *packed, int j, int c) {
  _Alignas(64) float lanes[PLACES][16];
  int64_t place, step, first = weight_at(&place, &step, g->ci, g->co, c, j);
  transform_kernels(lanes, g, w + (int64_t)j * g->window.kh * g->window.kw * g->ci, c, 0);
  for (int i = 0; i < PLACES; i++)
    for (int l = 0; l < least(16, g->ci - c); l++)
      packed[first + i * place + l * step] = lanes[i][l];
}

void HD_SYM(winograd_forward_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const int streams = HD_SYM(winograd_forward_packed)(g) >= STREAM_ELEMS;
  for (int32_t j = j0, rows; j < j1; j += rows) {
    rows = j % 16 == 0 && j + 16 <= j1 ? 16 : 1;
    for (int c = 0; c < g->ci; c += 16)
      if (rows == 16)
        pack_square(g, w, packed, j, c, streams);
      else
        pack_row(g, w, packed, j, c);
  }
  if (streams)
    g16_end_streams();
}

/* Block of input channels after block, so that what is written lies together. */
void HD_SYM(winograd_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const int streams = HD_SYM(winograd_dx_packed)(g) >= STREAM_ELEMS, all = up16(g->ci) / 16;
  for (int group = 0, groups; group < all; group += groups) {
    groups = walk_block_groups(group, all);
    for (int32_t j = j0; j < j1; j++)
      for (int c = 16 * group; c < 16 * (group + groups); c += 16) {
        _Alignas(64) float lanes[PLACES][16];
        int64_t place, step, first = weight_at(&place, &step, g->co, g->ci, j, c);
        transform_kernels(lanes, g, w + (int64_t)j * g->window.kh * g->window.kw * g->ci, c, 1);
        for (int i = 0; i < PLACES; i++)
          put_packed(packed + first + i * place, g16_load(lanes[i]), streams);
      }
  }
  if (streams)
    g16_end_streams();
}
