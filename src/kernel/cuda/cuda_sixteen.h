/* Products of matrices where an output is made of 16 chains: the 16 of a linear layer's sum, the 16 places of
 * Winograd's tiles. A block has 4 T x 4 T outputs; a thread has one chain of T x T of them, and neighbouring threads
 * have the other chains, so that 4 threads read each number of a row of a and b.
 *
 * Factors of 32 / T steps are loaded into shared memory at a time, 16 for each row and step. A thread loads 16
 * numbers: threads below HD_SIDE of side a, the others of side b. While the block multiplies, it loads the next
 * ones.
 *
 * HD_SIXTEEN(WHAT, T) is the body of a kernel. WHAT are functions:
 *
 *   cuda_part WHAT_matrix(g, rows)                       as in cuda_product.h
 *   int32_t WHAT_steps(p, chain)                                       of one of the chains
 *   void WHAT_take(float raw[16], p, T, side, i, step)   number i < HD_SIDE of a side (0: a) loads its numbers, steps
 *                                                        from `step` on; 0 outside of the matrix
 *   void WHAT_put(factors, raw, T, side, i)              stores them: factors[cuda_factor(T, row, step, chain)]
 *   void WHAT_store(p, float chain[16], a row, b row)    stores an output */
#pragma once

#include "kernel/cuda/cuda_block.h"

enum { HD_SIDE = HD_CUDA_BLOCK / 2 };

/* Rows are contiguous, chains 4 T + 2 floats apart, and steps 16 times that and T: the 32 threads that read (16
 * chains of 2 rows) or write (rows or steps fastest) at a time use different banks of the shared memory. */
HD_BOTH int cuda_factor_line(int T) { return 4 * T + 2; }
HD_BOTH int cuda_factor_step(int T) { return 16 * cuda_factor_line(T) + T; }
HD_BOTH int cuda_factor(int T, int row, int step, int chain) {
  return step * cuda_factor_step(T) + chain * cuda_factor_line(T) + row;
}

/* Row and step of number i of a side; deep: steps are contiguous in memory, else rows. */
HD_BOTH int cuda_side_row(int T, int i, int deep) { return deep ? i / (32 / T) : i % (4 * T); }
HD_BOTH int cuda_side_step(int T, int i, int deep) { return deep ? i % (32 / T) : i / (4 * T); }

/* A step of a thread's chains; its rows are 4 apart. */
#define HD_SIXTEEN_STEP(acc, a, b, T)                                                                                  \
  do {                                                                                                                 \
    float x_[T], y_[T];                                                                                                \
    HD_UNROLL                                                                                                          \
    for (int i_s = 0; i_s < T; i_s++) {                                                                                \
      x_[i_s] = (a)[4 * i_s];                                                                                          \
      y_[i_s] = (b)[4 * i_s];                                                                                          \
    }                                                                                                                  \
    HD_UNROLL                                                                                                          \
    for (int i_p = 0; i_p < T * T; i_p++)                                                                              \
      (acc)[i_p] = fmaf(x_[i_p % T], y_[i_p / T], (acc)[i_p]);                                                         \
  } while (0)

#define HD_SIXTEEN(WHAT, T)                                                                                            \
  enum {                                                                                                               \
    rows = 4 * T,                                                                                                      \
    depth = 32 / T,                                                                                                    \
    side_floats = depth * (16 * (rows + 2) + T),                                                                       \
    out_line = 4 * rows + 2,                                                                                           \
    floats = 2 * side_floats > 16 * out_line ? 2 * side_floats : 16 * out_line                                         \
  };                                                                                                                   \
  cuda_part p = WHAT##_matrix(&c->g, c->step->rows);                                                                   \
  if (!cuda_place(&p, c, HD_BLOCK, rows, rows))                                                                        \
    return;                                                                                                            \
  HD_SHARED(float, shared, [floats]);                                                                                  \
  HD_PER_THREAD(float, acc, T *T);                                                                                     \
  HD_PER_THREAD(float, raw, 16);                                                                                       \
  HD_PHASE {                                                                                                           \
    HD_UNROLL                                                                                                          \
    for (int i = 0; i < T * T; i++)                                                                                    \
      HD_THIS(acc)[i] = 0;                                                                                             \
    WHAT##_take(HD_THIS(raw), &p, T, t / HD_SIDE, t % HD_SIDE, 0);                                                     \
  }                                                                                                                    \
  for (int32_t first = 0; first < p.steps; first += depth) {                                                           \
    HD_PHASE { WHAT##_put(shared + t / HD_SIDE * side_floats, HD_THIS(raw), T, t / HD_SIDE, t % HD_SIDE); }            \
    HD_PHASE {                                                                                                         \
      const float *const a = shared + cuda_factor(T, t / 16 % 4, 0, t % 16);                                           \
      const float *const b = shared + side_floats + cuda_factor(T, t / 64, 0, t % 16);                                 \
      const int32_t left = WHAT##_steps(&p, t % 16) - first;                                                           \
      WHAT##_take(HD_THIS(raw), &p, T, t / HD_SIDE, t % HD_SIDE, first + depth);                                       \
      if (left >= depth) {                                                                                             \
        HD_UNROLL                                                                                                      \
        for (int k = 0; k < depth; k++)                                                                                \
          HD_SIXTEEN_STEP(HD_THIS(acc), a + cuda_factor(T, 0, k, 0), b + cuda_factor(T, 0, k, 0), T);                  \
      } else                                                                                                           \
        for (int k = 0; k < (int)left; k++)                                                                            \
          HD_SIXTEEN_STEP(HD_THIS(acc), a + cuda_factor(T, 0, k, 0), b + cuda_factor(T, 0, k, 0), T);                  \
    }                                                                                                                  \
  }                                                                                                                    \
  HD_UNROLL                                                                                                            \
  for (int j = 0; j < T; j++) {                                                                                        \
    HD_PHASE {                                                                                                         \
      HD_UNROLL                                                                                                        \
      for (int i = 0; i < T; i++)                                                                                      \
        shared[t % 16 * out_line + t / 64 * rows + 4 * i + t / 16 % 4] = HD_THIS(acc)[j * T + i];                      \
    }                                                                                                                  \
    HD_PHASE {                                                                                                         \
      const int32_t a = p.a0 + t % rows, b = p.b0 + 4 * j + t / rows;                                                  \
      if (t >= 4 * rows || a >= p.a_rows || b >= p.b_rows)                                                             \
        continue;                                                                                                      \
      float chain[16];                                                                                                 \
      HD_UNROLL                                                                                                        \
      for (int i = 0; i < 16; i++)                                                                                     \
        chain[i] = shared[i * out_line + t];                                                                           \
      WHAT##_store(&p, chain, a, b);                                                                                   \
    }                                                                                                                  \
  }
