/* The tables of plans for a GPU, which launches kernels by number: nothing is packed, no kernel needs scratch. In the
 * table for shards of few samples the gradients of linear layers are formed in the update (op/update_gpu.h); its
 * functions are never called. */
#include "kernel/cuda/cuda_call.h"

static void form_on_gpu(const hd_form *form) { (void)form; }

const hd_kernels *hd__kernels_cuda(int64_t shard_rows) {
  static const hd_kernels plain = {.name = "cuda", .isa = "cuda"},
                          forming = {
                              .name = "cuda",
                              .isa = "cuda",
                              .form = {[HD_OP_linear_dw] = form_on_gpu, [HD_OP_shifted_linear_dw] = form_on_gpu}};
  return shard_rows > 0 && shard_rows <= HD_FORMED_ROWS ? &forming : &plain;
}
