/* The table of kernels of one instruction set: the reference, overridden by the kernels of this folder.
 *
 * Filled once per process, then immutable. A slot that no fill sets keeps the reference's kernel, so a table is always
 * complete; tests compare every slot with the reference's bits. */
#include <pthread.h>

#include "kernel/cpu/cpu_fill.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

static hd_kernels table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
  table = *hd__kernels_reference();
  table.name = table.isa = TEXT(HD_ISA);
  HD_SYM(gemm_fill)(&table);
  HD_SYM(conv_forward_fill)(&table);
  HD_SYM(conv_dx_fill)(&table);
  HD_SYM(conv_dw_fill)(&table);
  HD_SYM(pool_fill)(&table);
  HD_SYM(batch_norm_fill)(&table);
  HD_SYM(linear_fill)(&table);
  HD_SYM(linear_form_fill)(&table);
  HD_SYM(pointwise_fill)(&table);
  HD_SYM(loss_fill)(&table);
  HD_SYM(activation_fill)(&table);
  HD_SYM(dropout_fill)(&table);
  HD_SYM(concat_fill)(&table);
  HD_SYM(softmax_fill)(&table);
  HD_SYM(layer_norm_fill)(&table);
  HD_SYM(loss_terms_fill)(&table);
  HD_SYM(update_fill)(&table);
  HD_SYM(reduce_fill)(&table);
  HD_SYM(gather_fill)(&table);
  HD_SYM(array_fill)(&table);
  HD_SYM(image_fill)(&table);
  HD_SYM(limits_fill)(&table);
}

const hd_kernels *HD_SYM(cpu_table)(void) {
  pthread_once(&once, fill);
  return &table;
}
