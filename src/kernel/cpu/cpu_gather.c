/* Gathering of a batch: from planes of bytes or floats to floats with channels fastest.
 *
 * An element is fma((float)pixel, scale, shift) of its channel. One channel needs no reordering and is converted in
 * groups; three channels, colours, are interleaved as bytes before they become floats; others are converted a group of
 * pixels at a time and then interleaved, so that every output line is written while it is in L1. Only whole groups of
 * bytes are read at once: memory after the last pixel is not accessed. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

typedef uint8_t bytes16 __attribute__((vector_size(16)));

enum { COLORS = 3 };

/* Pixels i .. i + 15 of one plane, or fewer at its end. */
G16 g16 scaled_pixels(const uint8_t *plane, int64_t i, int64_t count, float scale, float shift) {
  uint8_t tail[16] = {0};
  const uint8_t *from = plane + i;
  if (count - i < 16) {
    memcpy(tail, from, (size_t)(count - i));
    from = tail;
  }
  return g16_fma(g16_from_u8(from), g16_all(scale), g16_all(shift));
}

static void gather_plane(float *out, const uint8_t *pixels, int64_t plane, float scale, float shift) {
  const g16 by = g16_all(scale), plus = g16_all(shift);
  int64_t i = 0;
  for (; i + 16 <= plane; i += 16)
    g16_store(out + i, g16_fma(g16_from_u8(pixels + i), by, plus));
  if (i < plane)
    g16_store_some(out + i, scaled_pixels(pixels, i, plane, scale, shift), plane - i);
}

/* Sixteen pixels of three planes, with their colours interleaved. */
G16 void deal_colors(uint8_t to[COLORS * 16], const uint8_t *pixels, int64_t plane) {
  bytes16 r, g, b, rg, all;
  memcpy(&r, pixels, sizeof r);
  memcpy(&g, pixels + plane, sizeof g);
  memcpy(&b, pixels + 2 * plane, sizeof b);
  rg = __builtin_shufflevector(r, g, 0, 16, -1, 1, 17, -1, 2, 18, -1, 3, 19, -1, 4, 20, -1, 5);
  all = __builtin_shufflevector(rg, b, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15);
  memcpy(to, &all, sizeof all);
  rg = __builtin_shufflevector(r, g, 21, -1, 6, 22, -1, 7, 23, -1, 8, 24, -1, 9, 25, -1, 10, 26);
  all = __builtin_shufflevector(rg, b, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15);
  memcpy(to + 16, &all, sizeof all);
  rg = __builtin_shufflevector(r, g, -1, 11, 27, -1, 12, 28, -1, 13, 29, -1, 14, 30, -1, 15, 31, -1);
  all = __builtin_shufflevector(rg, b, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31);
  memcpy(to + 32, &all, sizeof all);
}

/* Whole groups of pixels of three planes; returns how many pixels that were. */
static int64_t gather_colors(float *out, const uint8_t *pixels, int64_t plane, const float *scale, const float *shift) {
  float by[COLORS * 16], plus[COLORS * 16];
  uint8_t dealt[COLORS * 16];
  int64_t i = 0;
  for (int k = 0; k < COLORS * 16; k++) {
    by[k] = scale[k % COLORS];
    plus[k] = shift[k % COLORS];
  }
  for (; i + 16 <= plane; i += 16) {
    deal_colors(dealt, pixels + i, plane);
    UNROLL
    for (int k = 0; k < COLORS * 16; k += 16)
      g16_store(out + COLORS * i + k, g16_fma(g16_from_u8(dealt + k), g16_load(by + k), g16_load(plus + k)));
  }
  return i;
}

static void gather_u8(float *out, const uint8_t *pixels, int64_t plane, int32_t channels, const float *scale,
                      const float *shift) {
  if (channels == 1) {
    gather_plane(out, pixels, plane, scale[0], shift[0]);
    return;
  }
  for (int64_t i = channels == COLORS ? gather_colors(out, pixels, plane, scale, shift) : 0; i < plane; i += 16)
    for (int32_t c = 0; c < channels; c++) {
      float lane[16];
      g16_store(lane, scaled_pixels(pixels + c * plane, i, plane, scale[c], shift[c]));
      for (int64_t p = 0; p < 16 && i + p < plane; p++)
        out[(i + p) * channels + c] = lane[p];
    }
}

G16 g16 numbers_of(const float *plane, int64_t i, int64_t count, float scale, float shift) {
  return g16_fma(g16_load_some(plane + i, count - i), g16_all(scale), g16_all(shift));
}

static void gather_f32(float *out, const float *pixels, int64_t plane, int32_t channels, const float *scale,
                       const float *shift) {
  for (int64_t i = 0; i < plane; i += 16)
    for (int32_t c = 0; c < channels; c++) {
      const g16 number = numbers_of(pixels + c * plane, i, plane, scale[c], shift[c]);
      float lane[16];
      if (channels == 1) {
        g16_store_some(out + i, number, plane - i);
        continue;
      }
      g16_store(lane, number);
      for (int64_t p = 0; p < 16 && i + p < plane; p++)
        out[(i + p) * channels + c] = lane[p];
    }
}

void HD_SYM(gather_fill)(hd_kernels *table) {
  table->gather_u8 = gather_u8;
  table->gather_f32 = gather_f32;
}
