/* Sums along rows: samples of a layer norm, pixels of a softmax, losses. The 16 chains of a row and the rows are
 * independent. A block has T rows, a power of two up to 16. In a pass all its threads compute a number of each
 * element of the rows and store it in shared memory, a segment of each row at a time, and a thread for each chain
 * adds them. Then every thread adds the tree of its row, so that each holds what the next pass and the outputs need.
 *
 * Of an element a, b and d are read from up to three arrays. V is computed from them, and U if u is not NULL; START
 * is the start of the two chains of a row, and STEP adds v and u to them:
 *
 *   HD_ROWS_PASS(&rows, v, u, ends, x, dy, 0, a, b * 2, 0, (s0 = s0 + v, s1 = fmaf(v, u, s1)))
 *
 * These expressions may use the thread t and its row of the block, V and U also the element i.
 *
 * HD_ROWS(NAME, LENGTH, OF_SAMPLE) makes the kernels of an operation on rows of LENGTH elements of g, OF_SAMPLE of them
 * in a sample, from NAME_of_rows(const cuda_rows *r). */
#pragma once

#include "kernel/cuda/cuda_block.h"

/* The segments of all rows have 4096 floats, and 16 more each, so that the chains of two rows use different banks;
 * HD_ROW_AHEAD: elements that a thread loads at a time. */
enum { HD_ROW_MOST = 16, HD_ROW_FLOATS = 4096, HD_ROW_SHARED = HD_ROW_FLOATS + 16 * HD_ROW_MOST, HD_ROW_AHEAD = 8 };

/* A block's rows: those from `first` on, over all samples. */
typedef struct cuda_rows {
  const hd_cuda_call *c;
  int32_t T, count; /* rows of a block at most, rows of this block */
  int32_t length, first;
} cuda_rows;

/* 0: the batch has fewer. */
HD_BOTH int cuda_rows_begin(cuda_rows *r, const hd_cuda_call *c, int64_t block, int T) {
  cuda_part p;
  if (!cuda_place(&p, c, block, 1))
    return 0;
  r->c = c;
  r->T = T;
  r->count = p.b_rows - p.b0;
  r->length = p.steps;
  r->first = p.b0;
  return 1;
}

/* The threads of a row, and the row of thread t. */
HD_BOTH int cuda_row_threads(const cuda_rows *r) { return HD_CUDA_BLOCK / r->T; }
HD_BOTH int cuda_row(const cuda_rows *r, int t) { return t / cuda_row_threads(r); }

/* Whether t is the first thread of an existing row: that thread writes the results of the row. */
HD_BOTH int cuda_row_leads(const cuda_rows *r, int t) {
  return t % cuda_row_threads(r) == 0 && cuda_row(r, t) < r->count;
}

HD_BOTH int64_t cuda_row_sample(const cuda_rows *r, int row) { return cuda_over(r->first + row, r->c->cut.sample); }
HD_BOTH int64_t cuda_row_offset(const cuda_rows *r, int row) {
  return (int64_t)cuda_rest(r->first + row, r->c->cut.sample) * r->length;
}
HD_BOTH const float *cuda_row_in(const cuda_rows *r, int slot, int row) {
  return op_in(r->c, slot, cuda_row_sample(r, row)) + cuda_row_offset(r, row);
}
HD_BOTH float *cuda_row_out(const cuda_rows *r, int slot, int row) {
  return op_out(r->c, slot, cuda_row_sample(r, row)) + cuda_row_offset(r, row);
}

HD_BOTH int32_t cuda_row_segment(const cuda_rows *r) { return HD_ROW_FLOATS / r->T; }
HD_BOTH int32_t cuda_row_line(const cuda_rows *r) { return cuda_row_segment(r) + 16; }

/* The end of the segment of a row that begins at `first`; `first` if there is no such row. */
HD_BOTH int32_t cuda_row_end(const cuda_rows *r, int row, int32_t first) {
  const int32_t left = r->length - first, segment = cuda_row_segment(r);
  return row >= r->count ? first : first + (left < segment ? left : segment);
}

/* Elements [begin, end) of thread t's row, its share of them: v_to[i - begin] = V, and so u_to, unless it is NULL. All
 * loads of HD_ROW_AHEAD elements are issued before the first of them is computed. */
#define HD_ROWS_MAKE(r, t, begin, end, v_to, u_to, A, B, D, V, U)                                                      \
  do {                                                                                                                 \
    const int row = cuda_row(r, t) < (r)->count ? cuda_row(r, t) : 0, apart_ = cuda_row_threads(r);                    \
    const int32_t begin_ = (begin), end_ = cuda_row(r, t) < (r)->count ? (end) : begin_;                               \
    const float *const from_[3] = {(A), (B), (D)};                                                                     \
    float *const v_to_ = (v_to), *const u_to_ = (u_to);                                                                \
    for (int32_t first_i_ = begin_ + (t) % apart_; first_i_ < end_; first_i_ += HD_ROW_AHEAD * apart_) {               \
      float read_[3][HD_ROW_AHEAD];                                                                                    \
      HD_UNROLL                                                                                                        \
      for (int k_ = 0; k_ < 3 * HD_ROW_AHEAD; k_++) {                                                                  \
        const int32_t i = first_i_ + k_ / 3 * apart_;                                                                  \
        read_[k_ % 3][k_ / 3] = from_[k_ % 3] && i < end_ ? from_[k_ % 3][i] : 0;                                      \
      }                                                                                                                \
      HD_UNROLL                                                                                                        \
      for (int e_ = 0; e_ < HD_ROW_AHEAD; e_++) {                                                                      \
        const int32_t i = first_i_ + e_ * apart_;                                                                      \
        const float a = read_[0][e_], b = read_[1][e_], d = read_[2][e_];                                              \
        (void)a, (void)b, (void)d;                                                                                     \
        if (i < end_)                                                                                                  \
          v_to_[i - begin_] = (V);                                                                                     \
        if (i < end_ && u_to_)                                                                                         \
          u_to_[i - begin_] = (U);                                                                                     \
      }                                                                                                                \
    }                                                                                                                  \
  } while (0)

/* The rows' outputs of a slot. */
#define HD_ROWS_OUT(r, slot, A, B, D, V)                                                                               \
  HD_PHASE { HD_ROWS_MAKE(r, t, 0, (r)->length, cuda_row_out(r, slot, row), 0, A, B, D, V, 0); }

/* v_shared and u_shared have HD_ROW_SHARED floats, or u_shared is NULL; `ends` receives the ends of the chains. */
#define HD_ROWS_PASS(r, v_shared, u_shared, ends, A, B, D, V, U, START, STEP)                                          \
  do {                                                                                                                 \
    float *const v_ = (v_shared), *const u_ = (u_shared);                                                              \
    HD_PER_THREAD(float, s_, 2);                                                                                       \
    for (int32_t first_ = 0; first_ < (r)->length; first_ += cuda_row_segment(r)) {                                    \
      HD_PHASE {                                                                                                       \
        HD_ROWS_MAKE(r, t, first_, cuda_row_end(r, row, first_), v_ + row * cuda_row_line(r),                          \
                     u_ ? u_ + row * cuda_row_line(r) : 0, A, B, D, V, U);                                             \
      }                                                                                                                \
      HD_PHASE {                                                                                                       \
        if (t >= 16 * (r)->T)                                                                                          \
          continue;                                                                                                    \
        const int at_ = t / 16 * cuda_row_line(r) + t % 16;                                                            \
        const int steps_ = (cuda_row_end(r, t / 16, first_) - first_ - t % 16 + 15) / 16;                              \
        float s0 = first_ ? HD_THIS(s_)[0] : (START), s1 = first_ ? HD_THIS(s_)[1] : (START);                          \
        HD_UNROLL_BY_8                                                                                                 \
        for (int k_ = 0; k_ < steps_; k_++) {                                                                          \
          const float v = v_[at_ + 16 * k_], u = u_ ? u_[at_ + 16 * k_] : 0;                                           \
          (void)u;                                                                                                     \
          STEP;                                                                                                        \
        }                                                                                                              \
        HD_THIS(s_)[0] = (ends)[t] = s0;                                                                               \
        HD_THIS(s_)[1] = (ends)[HD_CUDA_BLOCK + t] = s1;                                                               \
      }                                                                                                                \
    }                                                                                                                  \
  } while (0)

/* The tree over one of the two sums of 16 chains of thread t's row. */
HD_BOTH float cuda_row_sum(const cuda_rows *r, const float *ends, int which, int t) {
  float s[16];
  HD_UNROLL
  for (int i = 0; i < 16; i++)
    s[i] = ends[which * HD_CUDA_BLOCK + cuda_row(r, t) * 16 + i];
  return op_tree16(s);
}

/* The largest of the maxima of the chains. No result depends on which of two zeros or of several NaN it is. */
HD_BOTH float cuda_row_largest(const cuda_rows *r, const float *ends, int t) {
  float most = -INFINITY;
  HD_UNROLL
  for (int i = 0; i < 16; i++)
    if (op_takes_over(ends[cuda_row(r, t) * 16 + i], most))
      most = ends[cuda_row(r, t) * 16 + i];
  return most;
}

#define HD_ROWS_OF_BLOCK(name, T)                                                                                      \
  HD_BLOCK_KERNEL(name##_rows_##T, hd_cuda_call) {                                                                     \
    cuda_rows r;                                                                                                       \
    if (cuda_rows_begin(&r, c, HD_BLOCK, T))                                                                           \
      name##_of_rows(&r);                                                                                              \
  }
#define HD_ROWS(name, length, of_sample)                                                                               \
  HD_BOTH hd_cuda_cut name##_rows_matrix(const hd_geom *g, int64_t rows) {                                             \
    return cuda_matrix(1, (of_sample)*rows, length, 1, HD_NO_SHARDS);                                                  \
  }                                                                                                                    \
  HD_ROWS_OF_BLOCK(name, 16)                                                                                           \
  HD_ROWS_OF_BLOCK(name, 1)
