/* The gradient of a convolution's input behind a pool, for many input channels: one tap of the kernel after the other,
 * the last one first. A tap adds to a different element for each pixel of the output, so its weights can be divided
 * into parts that stay in a near cache for all pixels: some output channels by some groups of input channels, whose
 * sums are in registers for the live channels of a pixel.
 *
 * Order: per input element, over the output's pixels row-major, inside over channels ascending: acc = fma(dy, w,
 * acc), at last acc + 0. */
#include "op/conv2d/conv2d_live_cpu.h"

/* Groups of a block; elements of a part's weights. */
enum { MOST_ACROSS = ACC_GROUPS >= 24 ? LIVE_ACROSS : 4, PART_WEIGHTS = 8 * 1024 };

static int groups_of(const hd_geom *g) { return up16(g->ci) / 16; }
static int across_of(const hd_geom *g) { return even_part(groups_of(g), MOST_ACROSS); }

/* Output channels of a part, whose bits are a word. */
static int part_of(const hd_geom *g) { return even_part(g->co, least(WORD, PART_WEIGHTS / (16 * across_of(g)))); }

/* One tap's part for one sample. */
typedef struct tap_part {
  const hd_geom *g;
  int y0, y1, x0, x1;   /* the output's pixels that have this tap in the image */
  const uint64_t *bits; /* of pixel (0, 0), and words to the next pixel */
  int words;
  const float *dy; /* window (0, 0), the part's first channel */
  const float *w;  /* [channel][groups * 16] */
  float *sum;      /* of the image's first element */
  int64_t under;   /* elements from it to the one under pixel (0, 0), which may be outside */
} tap_part;

/* groups is a constant where this is inlined. */
G16 void add_pixels(const tap_part *p, int groups) {
  const hd_geom *g = p->g;
  const int words = p->words, width = g->wp * g->conv.pool, pixel = up16(g->ci);
  for (int y = p->y0; y < p->y1; y++) {
    const uint64_t *bits = p->bits + ((int64_t)y * width + p->x0) * words;
    const float *dy = p->dy + ((int64_t)(y / g->conv.pool) * g->wp + p->x0 / g->conv.pool) * g->co;
    float *sum = p->sum + (p->under + ((int64_t)y * g->window.sh * g->wi + (int64_t)p->x0 * g->window.sw) * pixel);
    for (int x = p->x0, px = p->x0 % g->conv.pool; x < p->x1; x++, bits += words, sum += g->window.sw * pixel) {
      if (*bits)
        add_live(sum, 0, *bits, dy, p->w, 1, groups);
      if (++px == g->conv.pool) {
        px = 0;
        dy += g->co;
      }
    }
  }
}

typedef void block_fn(const tap_part *part);

#define FITS(groups, one) ((groups) <= MOST_ACROSS && (one) == 1)
#define BLOCK(groups, one)                                                                                             \
  static void block_##groups##x##one(const tap_part *part) {                                                           \
    if (FITS(groups, one))                                                                                             \
      add_pixels(part, groups);                                                                                        \
  }
BLOCK_TABLE(block_fn)

typedef struct pixel_range {
  int first, end;
} pixel_range;

/* Of `count` pixels those whose element under a tap is in the image: i * stride + tap - padding in 0 .. size - 1. */
static pixel_range reach(int count, int stride, int tap, int padding, int size) {
  int low = padding - tap, high = size - 1 + padding - tap;
  return (pixel_range){low > 0 ? (low + stride - 1) / stride : 0, high < 0 ? 0 : least(count, high / stride + 1)};
}

/* A tap of a block of groups for one sample. w: [co][groups * 16]; sum: of the image's first element, the block's first
 * group. */
static void add_tap(const hd_geom *g, int tap, const uint64_t *bits, const float *dy, const float *w, float *sum,
                    int groups) {
  const int ky = tap / g->window.kw, kx = tap % g->window.kw, part = part_of(g);
  const pixel_range y = reach(g->hp * g->conv.pool, g->window.sh, ky, g->window.ph, g->hi);
  const pixel_range x = reach(g->wp * g->conv.pool, g->window.sw, kx, g->window.pw, g->wi);
  tap_part p = {.g = g, .words = words_of(g, part), .sum = sum, .y0 = y.first, .y1 = y.end, .x0 = x.first, .x1 = x.end};
  p.under = ((int64_t)(ky - g->window.ph) * g->wi + kx - g->window.pw) * up16(g->ci);
  for (int c = 0; c < g->co; c += part) {
    p.bits = bits++;
    p.dy = dy + c;
    p.w = w + (int64_t)c * 16 * groups;
    blocks[0][groups - 1](&p);
  }
}

/* One sample: all blocks of groups, all taps. */
static void add_sample(const hd_geom *g, const uint64_t *bits, const float *dy, const float *w, float *sums) {
  int all = groups_of(g), across = across_of(g), taps = g->window.kh * g->window.kw;
  for (int q = 0, groups; q < all; q += groups, w += (int64_t)taps * g->co * 16 * groups) {
    groups = least(across, all - q);
    for (int tap = taps - 1; tap >= 0; tap--)
      add_tap(g, tap, bits, dy, w + (int64_t)tap * g->co * 16 * groups, sums + 16 * q, groups);
  }
}

static int64_t sums_elems(const hd_geom *g) { return (int64_t)g->hi * g->wi * up16(g->ci); }

void HD_SYM(conv_tap_dx)(const hd_call *call) {
  const hd_geom *g = call->g;
  float *sums = call->scratch;
  uint64_t *bits = (uint64_t *)(void *)(sums + sums_elems(g));
  for (int64_t n = 0; n < call->rows; n++) {
    HD_SYM(conv_mark_live)(bits, call, n, part_of(g));
    memset(sums, 0, (size_t)sums_elems(g) * sizeof *sums);
    add_sample(g, bits, in_row(call, 0, n), call->packed, sums);
    float *dx = out_row(call, 0, n);
    for (int i = 0; i < g->hi * g->wi; i++)
      HD_SYM(conv_finish_sums)(dx + (int64_t)i * g->ci, sums + (int64_t)i * up16(g->ci), g->ci);
  }
}

int64_t HD_SYM(conv_tap_dx_scratch)(const hd_geom *g) {
  return sums_elems(g) * (int64_t)sizeof(float) + positions_of(g) * words_of(g, part_of(g)) * (int64_t)sizeof(uint64_t);
}

int64_t HD_SYM(conv_tap_dx_packed)(const hd_geom *g) {
  return (int64_t)g->window.kh * g->window.kw * g->co * up16(g->ci);
}

void HD_SYM(conv_tap_dx_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  int all = groups_of(g), across = across_of(g), taps = g->window.kh * g->window.kw;
  for (int q = 0, groups; q < all; q += groups) {
    groups = least(across, all - q);
    for (int tap = 0; tap < taps; tap++, packed += (int64_t)g->co * 16 * groups)
      for (int32_t j = j0; j < j1; j++)
        memcpy(packed + (int64_t)j * 16 * groups, w + ((int64_t)j * taps + tap) * g->ci + 16 * q,
               (size_t)least(16 * groups, g->ci - 16 * q) * sizeof *packed);
  }
}
