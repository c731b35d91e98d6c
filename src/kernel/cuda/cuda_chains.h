/* Products of matrices where an output is made of several chains: the 16 of a linear layer's sum, the 36 places of
 * Winograd's tiles. Neighbouring threads, `lanes` of them, have an output's chains, 16 with one each or 4 with nine
 * each; the others lie on a square of `phases` x `phases`. A thread has its chains of T x T outputs, so a block has
 * (phases T) x (phases T).
 *
 * Factors of HD_SIDE / (phases T) steps are loaded into shared memory at a time, one of each chain for each row and
 * step. A thread loads those of a row and step: threads below HD_SIDE of side a, the others of side b. While the block
 * multiplies, it loads the next ones. What it knows of its row is in shared memory, since no register is left.
 *
 * HD_CHAINS(WHAT, CHAINS, T, taps) is the body of a kernel; CHAINS: 16 or 36. WHAT are functions; taps, a constant, is
 * for them alone:
 *
 *   int32_t WHAT_steps(p, chain)                         of one of the chains; all have p->steps if there are 36
 *   cuda_line WHAT_line(p, T, side, i, taps)             the row that number i < HD_SIDE of a side (0: a) loads
 *   void WHAT_take(float raw[CHAINS], p, line, T, side, i, step, taps)
 *                                                        its numbers, steps from `step` on; 0 outside of the matrix
 *   void WHAT_put(factors, raw, T, side, i, taps)        stores them: factors[cuda_factor(CHAINS, T, row, step, chain)]
 *   void WHAT_store(p, float chain[CHAINS], a row, b row, taps)
 *                                                        stores an output */
#pragma once

#include "kernel/cuda/cuda_block.h"

enum { HD_SIDE = HD_CUDA_BLOCK / 2 };

#define HD_CHAIN_LANES(chains) ((chains) == 16 ? 16 : 4)
#define HD_CHAIN_PHASES(chains) ((chains) == 16 ? 4 : 8)
#define HD_CHAIN_TURNS(chains) ((chains) / HD_CHAIN_LANES(chains))

/* Floats from a lane's factors to the next lane's and from a step to the next: rows are contiguous, behind them a
 * lane's chains. The 32 threads that read (lanes by rows) or write (rows or steps fastest) at a time use different
 * banks of the shared memory. */
#define HD_CHAIN_LANE(chains, T)                                                                                       \
  (HD_CHAIN_TURNS(chains) * HD_CHAIN_PHASES(chains) * (T) + ((chains) == 16 ? 2 : 8 * ((T)-1)))
#define HD_CHAIN_STEP(chains, T) (HD_CHAIN_LANES(chains) * HD_CHAIN_LANE(chains, T) + ((chains) == 16 ? (T) : 20))

/* Chain number n of a lane is chain lane * turns + n. */
HD_BOTH int cuda_factor(int chains, int T, int row, int step, int chain) {
  const int turns = HD_CHAIN_TURNS(chains);
  return step * HD_CHAIN_STEP(chains, T) + chain / turns * HD_CHAIN_LANE(chains, T) +
         chain % turns * HD_CHAIN_PHASES(chains) * T + row;
}

/* Row and step of number i of a side; deep: steps are contiguous in memory, else rows. */
HD_BOTH int cuda_side_rows(int chains, int T) { return HD_CHAIN_PHASES(chains) * T; }
HD_BOTH int cuda_side_row(int chains, int T, int i, int deep) {
  return deep ? i / (HD_SIDE / cuda_side_rows(chains, T)) : i % cuda_side_rows(chains, T);
}
HD_BOTH int cuda_side_step(int chains, int T, int i, int deep) {
  return deep ? i % (HD_SIDE / cuda_side_rows(chains, T)) : i / cuda_side_rows(chains, T);
}

/* A step of a thread's chains; its rows are `phases` apart. */
#define HD_CHAINS_STEP(acc, a, b, T, phases, turns)                                                                    \
  do {                                                                                                                 \
    HD_UNROLL                                                                                                          \
    for (int n_ = 0; n_ < (turns); n_++) {                                                                             \
      float x_[T], y_[T];                                                                                              \
      HD_UNROLL                                                                                                        \
      for (int i_s = 0; i_s < T; i_s++) {                                                                              \
        x_[i_s] = (a)[(phases) * (n_ * T + i_s)];                                                                      \
        y_[i_s] = (b)[(phases) * (n_ * T + i_s)];                                                                      \
      }                                                                                                                \
      HD_UNROLL                                                                                                        \
      for (int i_p = 0; i_p < T * T; i_p++)                                                                            \
        (acc)[n_ * T * T + i_p] = fmaf(x_[i_p % T], y_[i_p / T], (acc)[n_ * T * T + i_p]);                             \
    }                                                                                                                  \
  } while (0)

#define HD_CHAINS(WHAT, CHAINS, T, taps)                                                                               \
  enum {                                                                                                               \
    lanes = HD_CHAIN_LANES(CHAINS),                                                                                    \
    phases = HD_CHAIN_PHASES(CHAINS),                                                                                  \
    turns = HD_CHAIN_TURNS(CHAINS),                                                                                    \
    rows = phases * T,                                                                                                 \
    depth = HD_SIDE / rows,                                                                                            \
    side_floats = depth * HD_CHAIN_STEP(CHAINS, T),                                                                    \
    out_line = phases * rows + 2,                                                                                      \
    floats = 2 * side_floats > CHAINS * out_line ? 2 * side_floats : CHAINS * out_line                                 \
  };                                                                                                                   \
  cuda_part p;                                                                                                         \
  if (!cuda_place(&p, c, HD_BLOCK, rows))                                                                              \
    return;                                                                                                            \
  HD_SHARED(float, shared, [floats]);                                                                                  \
  HD_PER_THREAD(float, acc, turns *T *T);                                                                              \
  HD_PER_THREAD(float, raw, CHAINS);                                                                                   \
  HD_SHARED(cuda_line, line, [HD_CUDA_BLOCK]);                                                                         \
  HD_PHASE {                                                                                                           \
    HD_UNROLL                                                                                                          \
    for (int i = 0; i < turns * T * T; i++)                                                                            \
      HD_THIS(acc)[i] = 0;                                                                                             \
    line[t] = WHAT##_line(&p, T, t / HD_SIDE, t % HD_SIDE, taps);                                                      \
    WHAT##_take(HD_THIS(raw), &p, &line[t], T, t / HD_SIDE, t % HD_SIDE, 0, taps);                                     \
  }                                                                                                                    \
  for (int32_t first = 0; first < p.steps; first += depth) {                                                           \
    HD_PHASE { WHAT##_put(shared + t / HD_SIDE * side_floats, HD_THIS(raw), T, t / HD_SIDE, t % HD_SIDE, taps); }      \
    HD_PHASE {                                                                                                         \
      const float *const of_lane = shared + t % lanes * HD_CHAIN_LANE(CHAINS, T);                                      \
      const float *const a = of_lane + t / lanes % phases;                                                             \
      const float *const b = of_lane + side_floats + t / (lanes * phases);                                             \
      const int32_t left = WHAT##_steps(&p, t % lanes) - first;                                                        \
      WHAT##_take(HD_THIS(raw), &p, &line[t], T, t / HD_SIDE, t % HD_SIDE, first + depth, taps);                       \
      if (left >= depth) {                                                                                             \
        HD_UNROLL                                                                                                      \
        for (int k = 0; k < depth; k++)                                                                                \
          HD_CHAINS_STEP(HD_THIS(acc), a + k * HD_CHAIN_STEP(CHAINS, T), b + k * HD_CHAIN_STEP(CHAINS, T), T, phases,  \
                         turns);                                                                                       \
      } else                                                                                                           \
        for (int k = 0; k < (int)left; k++)                                                                            \
          HD_CHAINS_STEP(HD_THIS(acc), a + k * HD_CHAIN_STEP(CHAINS, T), b + k * HD_CHAIN_STEP(CHAINS, T), T, phases,  \
                         turns);                                                                                       \
    }                                                                                                                  \
  }                                                                                                                    \
  HD_UNROLL                                                                                                            \
  for (int j = 0; j < T; j++) {                                                                                        \
    HD_PHASE {                                                                                                         \
      HD_UNROLL                                                                                                        \
      for (int n = 0; n < turns; n++) {                                                                                \
        HD_UNROLL                                                                                                      \
        for (int i = 0; i < T; i++)                                                                                    \
          shared[(t % lanes * turns + n) * out_line + t / (lanes * phases) * rows + phases * i + t / lanes % phases] = \
              HD_THIS(acc)[(n * T + j) * T + i];                                                                       \
      }                                                                                                                \
    }                                                                                                                  \
    HD_PHASE {                                                                                                         \
      const int32_t a = p.a0 + t % rows, b = p.b0 + phases * j + t / rows;                                             \
      if (t >= phases * rows || a >= p.a_rows || b >= p.b_rows)                                                        \
        continue;                                                                                                      \
      float chain[CHAINS];                                                                                             \
      HD_UNROLL                                                                                                        \
      for (int i = 0; i < CHAINS; i++)                                                                                 \
        chain[i] = shared[i * out_line + t];                                                                           \
      WHAT##_store(&p, chain, a, b, taps);                                                                             \
    }                                                                                                                  \
  }
