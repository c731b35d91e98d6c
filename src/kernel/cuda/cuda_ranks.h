/* Reductions over ranks (sum, minimum ...), element by element in the order of the ranks: the same bits as
 * comm/rank_sums.h on the CPU. */
#pragma once

#include "kernel/cuda/cuda_call.h"

/* Numbers of hd_dtype and hd_reduce_op. */
enum { CUDA_RANKS_F32, CUDA_RANKS_U8, CUDA_RANKS_I32, CUDA_RANKS_F64, CUDA_RANKS_I64 };
enum { CUDA_RANKS_SUM, CUDA_RANKS_AVG, CUDA_RANKS_MIN, CUDA_RANKS_MAX, CUDA_RANKS_PROD };

/* Flushes denormals like the threads of the CPU; a GPU keeps those of doubles. */
HD_BOTH double cuda_flushed(double x) { return fabs(x) < 2.2250738585072014e-308 ? copysign(0.0, x) : x; }

#define CUDA_SAME(x) (x)
#define CUDA_RANKS(name, element, summed, flush)                                                                       \
  HD_BOTH void name(const hd_cuda_ranks *p, int64_t i) {                                                               \
    const element *from = (const element *)p->from;                                                                    \
    element x = from[i];                                                                                               \
    for (int r = 1; r < p->ranks; r++) {                                                                               \
      const element y = from[r * p->stride + i];                                                                       \
      if (p->op == CUDA_RANKS_PROD)                                                                                    \
        x = (element)flush((summed)flush(x) * (summed)flush(y));                                                       \
      else if (p->op == CUDA_RANKS_MIN)                                                                                \
        x = flush(y) < flush(x) || y != y ? y : x;                                                                     \
      else if (p->op == CUDA_RANKS_MAX)                                                                                \
        x = flush(y) > flush(x) || y != y ? y : x;                                                                     \
      else                                                                                                             \
        x = (element)flush((summed)flush(x) + (summed)flush(y));                                                       \
    }                                                                                                                  \
    ((element *)p->to)[i] = p->op == CUDA_RANKS_AVG && p->ranks > 1 ? (element)flush(x / p->ranks) : x;                \
  }
CUDA_RANKS(cuda_ranks_f32, float, float, CUDA_SAME)
CUDA_RANKS(cuda_ranks_f64, double, double, cuda_flushed)
CUDA_RANKS(cuda_ranks_i32, int32_t, uint32_t, CUDA_SAME)
CUDA_RANKS(cuda_ranks_i64, int64_t, uint64_t, CUDA_SAME)
CUDA_RANKS(cuda_ranks_u8, uint8_t, unsigned, CUDA_SAME)
#undef CUDA_RANKS
#undef CUDA_SAME

HD_BOTH void ranks_at(const hd_cuda_ranks *p, int64_t i) {
  switch (p->dtype) {
  case CUDA_RANKS_F32: cuda_ranks_f32(p, i); break;
  case CUDA_RANKS_F64: cuda_ranks_f64(p, i); break;
  case CUDA_RANKS_I32: cuda_ranks_i32(p, i); break;
  case CUDA_RANKS_I64: cuda_ranks_i64(p, i); break;
  default: cuda_ranks_u8(p, i);
  }
}
