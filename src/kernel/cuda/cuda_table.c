/* The table of plans for a GPU. It is empty: nothing is packed, no gradient is formed inside the reduction, no kernel
 * needs scratch; the executor launches kernels by number. */
#include "kernel/kernel.h"

const hd_kernels *hd__kernels_cuda(void) {
  static const hd_kernels table = {.name = "cuda", .isa = "cuda"};
  return &table;
}
