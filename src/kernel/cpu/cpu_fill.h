/* The functions of the CPU kernels of one instruction set: each file fills its slots of the table.
 *
 * Every source of this folder, and every file NAME_cpu.c of src/op, is compiled once per instruction set, with HD_ISA
 * naming it ("avx512"), and all its external names carry that suffix, so several sets live in one library. Such a file
 * must not define an inline function with external linkage, or the linker might keep the copy that this CPU cannot
 * run. */
#pragma once

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
#define HD_ISA_CODE_amx 5 /* bfloat16 kernels alone, with the vectors of avx512 */
#define HD_ISA_CODE_PASTE(isa) HD_ISA_CODE_##isa
#define HD_ISA_CODE(isa) HD_ISA_CODE_PASTE(isa)
#define HD_ISA_IS(isa) (HD_ISA_CODE(HD_ISA) == HD_ISA_CODE_##isa)

/* The table of this instruction set: the reference, overridden by all the fills. Filled once, immutable, static. */
const hd_kernels *HD_SYM(cpu_table)(void);

/* Where input or output k of row n begins; elements and pixels of a value. */
static inline const float *in_row(const hd_call *call, int k, int64_t n) {
  return (const float *)call->in[k] + n * call->in_stride[k];
}
static inline float *out_row(const hd_call *call, int k, int64_t n) {
  return (float *)call->out[k] + n * call->out_stride[k];
}
static inline int64_t pixels_of(const hd_geom *g) { return (int64_t)g->hi * g->wi; }
static inline int64_t elems_of(const hd_geom *g) { return pixels_of(g) * g->ci; }

/* The table's gemm, for the kernels that are products. */
void HD_SYM(gemm)(const hd_gemm *g);

/* The fill functions of all files, which tools/list-sources finds by their definition. */
#define FILL(name) void HD_SYM(name)(hd_kernels * table);
#include "kernel/cpu/cpu_fills.def"
#undef FILL
