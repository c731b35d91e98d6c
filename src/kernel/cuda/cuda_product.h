/* Products of matrices by blocks: an output is one chain, acc = fma(a, b, acc) over the steps, ascending. A block
 * loads 16 steps of its rows of a and b into shared memory at a time; while it multiplies them, it loads the next
 * into registers. A thread has TA x TB outputs and reads TA + TB numbers for TA * TB products.
 *
 * HD_PRODUCT(WHAT, TA, TB) is the body of a kernel. WHAT are functions that define the product:
 *
 *   enum { WHAT_A_DEEP, WHAT_B_DEEP }                       1: neighbouring steps are neighbours in memory; 0: rows are
 *   enum { WHAT_A_SUMMED }                                  1: chains start from what needs the sum of their row of a
 *   cuda_line WHAT_a_line(p, row), WHAT_b_line(p, row)      of rows; a thread always loads numbers of the same ones
 *   float WHAT_a(p, line, step), WHAT_b(p, line, step)      factors; rows and steps are inside
 *   float WHAT_first(p, a row, sum)                         what the chains of a row of a start from; sum: of the row's
 *                                                           numbers in 16 chains, 0 if not WHAT_A_SUMMED
 *   void WHAT_store(p, outputs, line, a_side, b_side, t)    thread t's share of storing outputs[b * line + a] */
#pragma once

#include "kernel/cuda/cuda_block.h"

enum { HD_PRODUCT_DEPTH = 16 };

/* Row and step of the e-th number that thread t loads of a side of `rows`. */
HD_BOTH int cuda_taken_row(int e, int t, int rows, int deep) {
  const int i = e * HD_CUDA_BLOCK + t;
  return deep ? i / HD_PRODUCT_DEPTH : i % rows;
}
HD_BOTH int cuda_taken_step(int e, int t, int rows, int deep) {
  const int i = e * HD_CUDA_BLOCK + t;
  return deep ? i % HD_PRODUCT_DEPTH : i / rows;
}

/* The rows of which a thread loads numbers, T of them or one. */
#define HD_PRODUCT_LINES(side, WHAT, T, DEEP)                                                                          \
  HD_UNROLL                                                                                                            \
  for (int e = 0; e < ((DEEP) ? (T) : 1); e++) {                                                                       \
    const int32_t row = p.side##0 + cuda_taken_row(e, t, 16 * T, DEEP);                                                \
    HD_THIS(side##_line)[e] = WHAT##_##side##_line(&p, row < p.side##_rows ? row : p.side##0);                         \
    if (row >= p.side##_rows)                                                                                          \
      HD_THIS(side##_line)[e].from = 0;                                                                                \
  }

/* A step of a thread's outputs; a and b are its first rows. */
#define HD_PRODUCT_STEP(acc, a, b, TA, TB)                                                                             \
  do {                                                                                                                 \
    float x_[TA], y_[TB];                                                                                              \
    HD_UNROLL                                                                                                          \
    for (int i_a = 0; i_a < TA; i_a++)                                                                                 \
      x_[i_a] = (a)[i_a];                                                                                              \
    HD_UNROLL                                                                                                          \
    for (int i_b = 0; i_b < TB; i_b++)                                                                                 \
      y_[i_b] = (b)[i_b];                                                                                              \
    HD_UNROLL                                                                                                          \
    for (int i_p = 0; i_p < TA * TB; i_p++)                                                                            \
      (acc)[i_p] = fmaf(x_[i_p % TA], y_[i_p / TA], (acc)[i_p]);                                                       \
  } while (0)

#define HD_PRODUCT_TAKE(side, name, WHAT, T, DEEP)                                                                     \
  HD_UNROLL                                                                                                            \
  for (int e = 0; e < T; e++) {                                                                                        \
    const cuda_line *line = &HD_THIS(side##_line)[(DEEP) ? e : 0];                                                     \
    const int32_t step = next + cuda_taken_step(e, t, 16 * T, DEEP);                                                   \
    HD_THIS(name)[e] = line->from && step < p.steps ? WHAT##_##side(&p, line, step) : 0;                               \
  }

#define HD_PRODUCT_PUT(side, name, T, DEEP)                                                                            \
  HD_UNROLL                                                                                                            \
  for (int e = 0; e < T; e++)                                                                                          \
  side[cuda_taken_step(e, t, 16 * T, DEEP) * side##_apart + cuda_taken_row(e, t, 16 * T, DEEP)] = HD_THIS(name)[e]

/* The sum of each row of a, shared[row * HD_SUM_APART]: a thread adds one of the 16 chains of TA rows. */
enum { HD_SUM_APART = 17 };
#define HD_PRODUCT_SUMS(shared, WHAT, TA)                                                                              \
  HD_PHASE {                                                                                                           \
    for (int row = t / 16; row < 16 * TA && p.a0 + row < p.a_rows; row += HD_CUDA_BLOCK / 16) {                        \
      const cuda_line line = WHAT##_a_line(&p, p.a0 + row);                                                            \
      float s = 0;                                                                                                     \
      for (int32_t step = t % 16; step < p.steps; step += 16)                                                          \
        s = s + WHAT##_a(&p, &line, step);                                                                             \
      shared[row * HD_SUM_APART + t % 16] = s;                                                                         \
    }                                                                                                                  \
  }                                                                                                                    \
  HD_PHASE {                                                                                                           \
    if (t < 16 * TA && p.a0 + t < p.a_rows)                                                                            \
      shared[t * HD_SUM_APART] = op_tree16(shared + t * HD_SUM_APART);                                                 \
  }

#define HD_PRODUCT(WHAT, TA, TB)                                                                                       \
  enum {                                                                                                               \
    a_apart = 16 * TA + 4,                                                                                             \
    b_apart = 16 * TB + 4,                                                                                             \
    out_apart = 16 * TA + 1,                                                                                           \
    in_floats = HD_PRODUCT_DEPTH * (a_apart + b_apart), /* more than the sums' */                                      \
    out_floats = 16 * TB * out_apart,                                                                                  \
    floats = in_floats > out_floats ? in_floats : out_floats                                                           \
  };                                                                                                                   \
  cuda_part p;                                                                                                         \
  if (!cuda_place(&p, c, HD_BLOCK, 16 * TA))                                                                           \
    return;                                                                                                            \
  HD_SHARED(float, shared, [floats]);                                                                                  \
  HD_PER_THREAD(float, acc, TA *TB);                                                                                   \
  HD_PER_THREAD(float, next_a, TA);                                                                                    \
  HD_PER_THREAD(float, next_b, TB);                                                                                    \
  HD_PER_THREAD(cuda_line, a_line, WHAT##_A_DEEP ? TA : 1);                                                            \
  HD_PER_THREAD(cuda_line, b_line, WHAT##_B_DEEP ? TB : 1);                                                            \
  float *a = shared, *b = shared + HD_PRODUCT_DEPTH * a_apart;                                                         \
  int32_t next = 0;                                                                                                    \
  if (WHAT##_A_SUMMED) {                                                                                               \
    HD_PRODUCT_SUMS(shared, WHAT, TA)                                                                                  \
  }                                                                                                                    \
  HD_PHASE {                                                                                                           \
    HD_UNROLL                                                                                                          \
    for (int i = 0; i < TA * TB; i++) {                                                                                \
      const int32_t row = t % 16 * TA + i % TA;                                                                        \
      const float sum = WHAT##_A_SUMMED && p.a0 + row < p.a_rows ? shared[row * HD_SUM_APART] : 0;                     \
      HD_THIS(acc)[i] = p.a0 + row < p.a_rows ? WHAT##_first(&p, p.a0 + row, sum) : 0;                                 \
    }                                                                                                                  \
    HD_PRODUCT_LINES(a, WHAT, TA, WHAT##_A_DEEP)                                                                       \
    HD_PRODUCT_LINES(b, WHAT, TB, WHAT##_B_DEEP)                                                                       \
    HD_PRODUCT_TAKE(a, next_a, WHAT, TA, WHAT##_A_DEEP)                                                                \
    HD_PRODUCT_TAKE(b, next_b, WHAT, TB, WHAT##_B_DEEP)                                                                \
  }                                                                                                                    \
  for (int32_t first = 0; first < p.steps; first = next) {                                                             \
    HD_PHASE {                                                                                                         \
      HD_PRODUCT_PUT(a, next_a, TA, WHAT##_A_DEEP);                                                                    \
      HD_PRODUCT_PUT(b, next_b, TB, WHAT##_B_DEEP);                                                                    \
    }                                                                                                                  \
    next = first + HD_PRODUCT_DEPTH;                                                                                   \
    HD_PHASE {                                                                                                         \
      const float *const thread_a = a + t % 16 * TA, *const thread_b = b + t / 16 * TB;                                \
      HD_PRODUCT_TAKE(a, next_a, WHAT, TA, WHAT##_A_DEEP)                                                              \
      HD_PRODUCT_TAKE(b, next_b, WHAT, TB, WHAT##_B_DEEP)                                                              \
      if (next <= p.steps) {                                                                                           \
        HD_UNROLL                                                                                                      \
        for (int k = 0; k < HD_PRODUCT_DEPTH; k++)                                                                     \
          HD_PRODUCT_STEP(HD_THIS(acc), thread_a + k * a_apart, thread_b + k * b_apart, TA, TB);                       \
      } else                                                                                                           \
        for (int k = 0; k < (int)(p.steps - first); k++)                                                               \
          HD_PRODUCT_STEP(HD_THIS(acc), thread_a + k * a_apart, thread_b + k * b_apart, TA, TB);                       \
    }                                                                                                                  \
  }                                                                                                                    \
  HD_PHASE {                                                                                                           \
    HD_UNROLL                                                                                                          \
    for (int i = 0; i < TA * TB; i++)                                                                                  \
      shared[(t / 16 * TB + i / TA) * out_apart + t % 16 * TA + i % TA] = HD_THIS(acc)[i];                             \
  }                                                                                                                    \
  HD_PHASE { WHAT##_store(&p, shared, out_apart, 16 * TA, 16 * TB, t); }

/* Walks a part's outputs that exist: thread t's. a is the fast side of the walk. */
#define HD_EACH_OUTPUT(p, a_side, b_side, t, a, b)                                                                     \
  for (int o_ = (t), a, b; o_ < (a_side) * (b_side); o_ += HD_CUDA_BLOCK)                                              \
    if (a = o_ % (a_side), b = o_ / (a_side), (p)->a0 + a < (p)->a_rows && (p)->b0 + b < (p)->b_rows)
