/* The functions of the CPU kernels of one instruction set: each file fills its slots of the table.
 *
 * Every source of this folder is compiled once per instruction set, with HD_ISA naming it ("avx512"), and all its
 * external names carry that suffix, so several sets live in one library. A file of this folder must not define an
 * inline function with external linkage, or the linker might keep the copy that this CPU cannot run. */
#ifndef HD_KERNEL_CPU_FILL_H
#define HD_KERNEL_CPU_FILL_H

#include "kernel/kernel.h"

#ifndef HD_ISA
#error "HD_ISA must name the instruction set, for example -DHD_ISA=avx2"
#endif

#define HD_SYM_PASTE(name, isa) hd__##name##_##isa
#define HD_SYM_EXPAND(name, isa) HD_SYM_PASTE(name, isa)
#define HD_SYM(name) HD_SYM_EXPAND(name, HD_ISA) /* the name's copy for this instruction set */

/* HD_ISA_IS(avx2) in an #if: whether this compilation is for that set. */
#define HD_ISA_CODE_scalar 1
#define HD_ISA_CODE_avx2 2
#define HD_ISA_CODE_avx512 3
#define HD_ISA_CODE_neon 4
#define HD_ISA_CODE_PASTE(isa) HD_ISA_CODE_##isa
#define HD_ISA_CODE(isa) HD_ISA_CODE_PASTE(isa)
#define HD_ISA_IS(isa) (HD_ISA_CODE(HD_ISA) == HD_ISA_CODE_##isa)

/* The table of this instruction set: the reference, overridden by all the fills. Filled once, immutable, static. */
const hd_kernels *HD_SYM(cpu_table)(void);

/* The table's gemm, for the kernels that are products. */
void HD_SYM(gemm)(const hd_gemm *g);

void HD_SYM(gemm_fill)(hd_kernels *table);
void HD_SYM(conv_forward_fill)(hd_kernels *table);
void HD_SYM(conv_dx_fill)(hd_kernels *table);
void HD_SYM(conv_dw_fill)(hd_kernels *table);
void HD_SYM(pool_fill)(hd_kernels *table);
void HD_SYM(batch_norm_fill)(hd_kernels *table);
void HD_SYM(linear_fill)(hd_kernels *table);
void HD_SYM(linear_form_fill)(hd_kernels *table);
void HD_SYM(pointwise_fill)(hd_kernels *table);
void HD_SYM(loss_fill)(hd_kernels *table);
void HD_SYM(activation_fill)(hd_kernels *table);
void HD_SYM(dropout_fill)(hd_kernels *table);
void HD_SYM(concat_fill)(hd_kernels *table);
void HD_SYM(softmax_fill)(hd_kernels *table);
void HD_SYM(layer_norm_fill)(hd_kernels *table);
void HD_SYM(loss_terms_fill)(hd_kernels *table);
void HD_SYM(update_fill)(hd_kernels *table);
void HD_SYM(reduce_fill)(hd_kernels *table);
void HD_SYM(gather_fill)(hd_kernels *table);
void HD_SYM(array_fill)(hd_kernels *table);
void HD_SYM(image_fill)(hd_kernels *table);
void HD_SYM(limits_fill)(hd_kernels *table);

#endif
