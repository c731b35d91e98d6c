/* Reference kernels over the pixels of a sample; see image.h. */
#include "kernel/ref/ref_fill.h"
#include "kernel/ref/image_loops.h"

static void blend(float *out, const float *a, const float *b, float share, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    out[i] = fmaf(share, b[i] - a[i], a[i]);
}

static void add(float *sum, const float *x, float weight, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    sum[i] = fmaf(weight, x[i], sum[i]);
}

static void filter(float *out, const float *x, int64_t step, const float *weight, int32_t taps, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float acc = 0;
    for (int32_t k = 0; k < taps; k++)
      acc = fmaf(weight[k], x[i + k * step], acc);
    out[i] = acc;
  }
}

void hd__ref_image_fill(hd_kernels *table) {
  table->image = (hd_image_kernels){.blend = blend,
                                    .add = add,
                                    .filter = filter,
                                    .columns_u8 = columns_u8,
                                    .columns_f32 = columns_f32,
                                    .areas_u8 = areas_u8,
                                    .areas_f32 = areas_f32,
                                    .sample = sample};
}
