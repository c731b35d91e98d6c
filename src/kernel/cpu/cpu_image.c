/* Kernels over the pixels of a sample, in groups of sixteen where neighbours are read; where pixels are
 * gathered, the reference's loops with this set's instructions. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"
#include "kernel/ref/image_loops.h"

static void blend(float *out, const float *a, const float *b, float share, int64_t count) {
  const g16 weight = g16_all(share);
  for (int64_t i = 0; i < count; i += 16) {
    const g16 from = g16_load_some(a + i, count - i), to = g16_load_some(b + i, count - i);
    g16_store_some(out + i, g16_fma(weight, g16_sub(to, from), from), count - i);
  }
}

static void add(float *sum, const float *x, float weight, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const g16 more = g16_fma(g16_all(weight), g16_load_some(x + i, count - i), g16_load_some(sum + i, count - i));
    g16_store_some(sum + i, more, count - i);
  }
}

static void filter(float *out, const float *x, int64_t step, const float *weight, int32_t taps, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    g16 acc = g16_zero();
    for (int32_t k = 0; k < taps; k++)
      acc = g16_fma(g16_all(weight[k]), g16_load_some(x + i + k * step, count - i), acc);
    g16_store_some(out + i, acc, count - i);
  }
}

void HD_SYM(image_fill)(hd_kernels *table) {
  table->image = (hd_image_kernels){.blend = blend,
                                    .add = add,
                                    .filter = filter,
                                    .columns_u8 = columns_u8,
                                    .columns_f32 = columns_f32,
                                    .areas_u8 = areas_u8,
                                    .areas_f32 = areas_f32,
                                    .sample = sample};
}
