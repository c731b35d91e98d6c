/* From planes of bytes or floats to floats with channels fastest: what a batch is gathered with.
 *
 * An element is fma((float)pixel, scale, shift) of its channel. One channel needs no reordering and runs in groups;
 * several are converted a group of pixels at a time and then dealt out, so that every output line is written while it
 * is in L1. Only whole groups of bytes are read as such: nothing behind the last pixel is touched. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

/* Pixels i .. i + 15 of one plane, or fewer at its end. */
G16 g16 pixels_of(const uint8_t *plane, int64_t i, int64_t count, float scale, float shift) {
  uint8_t tail[16] = {0};
  const uint8_t *from = plane + i;
  if (count - i < 16) {
    memcpy(tail, from, (size_t)(count - i));
    from = tail;
  }
  return g16_fma(g16_from_u8(from), g16_all(scale), g16_all(shift));
}

static void gather_plane(float *out, const uint8_t *pixels, int64_t plane, float scale, float shift) {
  for (int64_t i = 0; i < plane; i += 16)
    g16_store_some(out + i, pixels_of(pixels, i, plane, scale, shift), plane - i);
}

static void gather_u8(float *out, const uint8_t *pixels, int64_t plane, int32_t channels, const float *scale,
                      const float *shift) {
  if (channels == 1) {
    gather_plane(out, pixels, plane, scale[0], shift[0]);
    return;
  }
  for (int64_t i = 0; i < plane; i += 16)
    for (int32_t c = 0; c < channels; c++) {
      float lane[16];
      g16_store(lane, pixels_of(pixels + c * plane, i, plane, scale[c], shift[c]));
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
