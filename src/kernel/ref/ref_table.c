/* The two complete reference tables, filled once. */
#include <pthread.h>

#include "kernel/ref/ref_custom.h"
#include "kernel/ref/ref_real.h"
#include "kernel/ref/ref_update.h"

void hd__ref_array_fill(hd_kernels *table);
void hd__ref_image_fill(hd_kernels *table);
void hd__ref_limits_fill(hd_kernels *table);
void hd__ref_gemm_fill(hd_kernels *table);
void hd__ref64_conv_fill(hd_kernels *table);
void hd__ref64_pool_fill(hd_kernels *table);
void hd__ref64_batch_norm_fill(hd_kernels *table);
void hd__ref64_linear_fill(hd_kernels *table);
void hd__ref64_pointwise_fill(hd_kernels *table);
void hd__ref64_loss_fill(hd_kernels *table);
void hd__ref64_dropout_fill(hd_kernels *table);
void hd__ref64_concat_fill(hd_kernels *table);
void hd__ref64_softmax_fill(hd_kernels *table);
void hd__ref64_layer_norm_fill(hd_kernels *table);

static hd_kernels reference = {.name = "reference", .isa = "reference"};
static hd_kernels reference_f64 = {.name = "reference f64", .isa = "reference"};
static pthread_once_t once = PTHREAD_ONCE_INIT;

#define OP(name, class)
#define ELEMENTWISE(name, ...) hd_run_fn hd__ref64_##name, hd__ref64_##name##_dx;
#include "kernel/ops.def"

static void fill_elementwise(void) {
#define OP(name, class)
#define ELEMENTWISE(name, ...)                                                                                         \
  reference.run[HD_OP_##name] = hd__ref_##name;                                                                        \
  reference.run[HD_OP_##name##_dx] = hd__ref_##name##_dx;                                                              \
  reference_f64.run[HD_OP_##name] = hd__ref64_##name;                                                                  \
  reference_f64.run[HD_OP_##name##_dx] = hd__ref64_##name##_dx;
#include "kernel/ops.def"
}

static void fill(void) {
  fill_elementwise();
  hd__ref_conv_fill(&reference);
  hd__ref_pool_fill(&reference);
  hd__ref_batch_norm_fill(&reference);
  hd__ref_linear_fill(&reference);
  hd__ref_pointwise_fill(&reference);
  hd__ref_loss_fill(&reference);
  hd__ref_dropout_fill(&reference);
  hd__ref_concat_fill(&reference);
  hd__ref_softmax_fill(&reference);
  hd__ref_layer_norm_fill(&reference);
  hd__ref_custom_fill(&reference);
  hd__ref_update_fill(&reference);
  hd__ref_array_fill(&reference);
  hd__ref_image_fill(&reference);
  hd__ref_limits_fill(&reference);
  hd__ref_gemm_fill(&reference);
  hd__ref64_conv_fill(&reference_f64);
  hd__ref64_pool_fill(&reference_f64);
  hd__ref64_batch_norm_fill(&reference_f64);
  hd__ref64_linear_fill(&reference_f64);
  hd__ref64_pointwise_fill(&reference_f64);
  hd__ref64_loss_fill(&reference_f64);
  hd__ref64_dropout_fill(&reference_f64);
  hd__ref64_concat_fill(&reference_f64);
  hd__ref64_softmax_fill(&reference_f64);
  hd__ref64_layer_norm_fill(&reference_f64);
}

const hd_kernels *hd__kernels_reference(void) {
  pthread_once(&once, fill);
  return &reference;
}

const hd_kernels *hd__kernels_reference_f64(void) {
  pthread_once(&once, fill);
  return &reference_f64;
}
