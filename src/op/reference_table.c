/* The two complete reference tables, filled once. */
#include <pthread.h>

#include "kernel/ref/ref_fill.h"
#include "op/op.h"
#include "op/op_reference.h"

static hd_kernels reference = {.name = "reference", .isa = "reference"};
static hd_kernels reference_f64 = {.name = "reference f64", .isa = "reference"};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
  hd__op_fill_reference(&reference);
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (hd__op_info(op)->rule && hd__op_info(op)->rule->fill_reference)
      hd__op_info(op)->rule->fill_reference(&reference);
  hd__ref_reduce_fill(&reference);
  hd__ref_array_fill(&reference);
  hd__ref_image_fill(&reference);
  hd__ref_limits_fill(&reference);
  hd__ref_gemm_fill(&reference);
  hd__op_fill_reference_f64(&reference_f64);
}

const hd_kernels *hd__kernels_reference(void) {
  pthread_once(&once, fill);
  return &reference;
}

const hd_kernels *hd__kernels_reference_f64(void) {
  pthread_once(&once, fill);
  return &reference_f64;
}
