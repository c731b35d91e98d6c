/* The phases of muon: the direction of a weight's update, which the chunks phase has left in the place of the new
 * weight, is made orthogonal as a whole matrix, by rounds of a Newton-Schulz iteration in float:
 *
 *     scale        x = d * (1 / (|d| + 1e-7)), transposed where it has more rows than columns
 *     gram         A = x xT
 *     polynomial   P = b A + c A A + a I         with a = 3.4445, b = -4.7750, c = 2.0315
 *     apply        x = P x                       gram, polynomial and apply once a round
 *     write        w1 = w * keep - lr * x
 *
 * Each thread of the host computes some rows of each matrix; a barrier separates two phases. An element of a product
 * is the chain of the table's gemm, so rows may be divided in any way. A and P are symmetric to the last bit,
 * because an element across the diagonal is the chain of the same products: their rows are computed up to the
 * diagonal, in blocks, and copied across it, which takes three fifths of the multiply-adds at 256 rows. Norms are
 * double sums of squares over chunks, added in pairs of neighbours like the norm of clipping; every thread adds them
 * for itself. */
#include <math.h>

#include "exec/cpu/cpu_executor_state.h"

static const float A = 3.4445f, B = -4.7750f, C = 2.0315f;
static const double EPS = 1e-7;

enum { GROUP = 16, BLOCK = 64 }; /* rows of a thread's share, of a block */

typedef struct rows {
  int64_t lo, hi;
} rows;

/* This thread's share of `count` rows. */
static rows share_of(const thread_at *at, int64_t count) {
  const int64_t threads = hd__exchange_threads(&at->exec->exchange), thread = at->index - hd__exec_host_first(at->exec);
  return (rows){count * thread / threads, count * (thread + 1) / threads};
}

static double norm_of(const thread_at *at, const hd_plan_param *param, const double *squares) {
  double *sum = at->thread->norms;
  for (int c = 0; c < param->chunks; c++)
    sum[c] = squares[param->first_chunk + c];
  return sqrt(hd__exec_sum_pairs(sum, param->chunks));
}

static const hd_hyper *hyper_of(const thread_at *at, const hd_plan_matrix *m) {
  return &at->step->hyper[at->exec->plan->params[m->param].group];
}

static void scale(const thread_at *at, const hd_plan_matrix *m, rows r) {
  const hd_plan_param *param = &at->exec->plan->params[m->param];
  const float *d = at->exec->store->weights[1 - at->buffer] + param->offset;
  const float factor = (float)(1 / (norm_of(at, param, at->exec->muon.direction_squares) + EPS));
  float *x = at->exec->muon.matrices + m->x[0];
  for (int64_t i = r.lo; i < r.hi; i++)
    for (int64_t k = 0; k < m->columns; k++)
      x[i * m->columns + k] = d[m->turned ? k * m->rows + i : i * m->columns + k] * factor;
}

/* A block of rows up to the diagonal, across it. */
static void copy_across(float *square, int64_t side, rows block) {
  for (int64_t i = block.lo; i < block.hi; i++)
    for (int64_t j = 0; j < block.lo; j++)
      square[j * side + i] = square[i * side + j];
}

static void gram(const thread_at *at, const hd_plan_matrix *m, int round, rows block) {
  const float *x = at->exec->muon.matrices + m->x[round & 1];
  float *a = at->exec->muon.matrices + m->gram;
  const hd_gemm product = {.m = block.hi - block.lo,
                           .n = block.hi,
                           .k = m->columns,
                           .a = x + block.lo * m->columns,
                           .b = x,
                           .a_row = m->columns,
                           .a_step = 1,
                           .b_step = 1,
                           .b_column = m->columns,
                           .c = a + block.lo * m->rows,
                           .c_row = m->rows};
  at->exec->plan->kernels->gemm(&product);
  copy_across(a, m->rows, block);
}

/* A matrix with contiguous rows. */
typedef struct matrix {
  const float *at;
  int64_t columns;
} matrix;

/* Rows of a square times the first `n` columns of another matrix. */
static void multiply(const thread_at *at, float *to, matrix square, matrix by, int64_t n, rows r) {
  const hd_gemm product = {.m = r.hi - r.lo,
                           .n = n,
                           .k = square.columns,
                           .a = square.at + r.lo * square.columns,
                           .b = by.at,
                           .a_row = square.columns,
                           .a_step = 1,
                           .b_step = by.columns,
                           .b_column = 1,
                           .c = to + r.lo * by.columns,
                           .c_row = by.columns};
  at->exec->plan->kernels->gemm(&product);
}

static void polynomial(const thread_at *at, const hd_plan_matrix *m, int round, rows block) {
  const float *a = at->exec->muon.matrices + m->gram;
  float *p = at->exec->muon.matrices + m->polynomial;
  multiply(at, p, (matrix){a, m->rows}, (matrix){a, m->rows}, block.hi, block);
  for (int64_t i = block.lo; i < block.hi; i++) {
    for (int64_t e = i * m->rows; e < i * m->rows + block.hi; e++)
      p[e] = B * a[e] + C * p[e];
    p[i * m->rows + i] = p[i * m->rows + i] + A;
  }
  copy_across(p, m->rows, block);
}

static void apply(const thread_at *at, const hd_plan_matrix *m, int round, rows r) {
  float *memory = at->exec->muon.matrices;
  multiply(at, memory + m->x[1 - (round & 1)], (matrix){memory + m->polynomial, m->rows},
           (matrix){memory + m->x[round & 1], m->columns}, m->columns, r);
}

/* The first of thread `number`'s rows, of `count` rows up to the diagonal, in whole groups: rows grow longer, and the
 * threads have equal numbers of elements, not of rows. */
static int64_t rows_before(int64_t count, int64_t thread, int64_t threads) {
  const int64_t groups = (count + GROUP - 1) / GROUP;
  const int64_t before = GROUP * (int64_t)((double)groups * sqrt((double)thread / (double)threads) + 0.5);
  return before < count ? before : count;
}

typedef void block_fn(const thread_at *at, const hd_plan_matrix *m, int round, rows block);

/* This thread's blocks of a symmetric matrix. */
static void symmetric(const thread_at *at, const hd_plan_matrix *m, int round, block_fn *block_of) {
  const int64_t threads = hd__exchange_threads(&at->exec->exchange), thread = at->index - hd__exec_host_first(at->exec);
  const int64_t end = rows_before(m->rows, thread + 1, threads);
  for (int64_t lo = rows_before(m->rows, thread, threads); lo < end; lo += BLOCK)
    block_of(at, m, round, (rows){lo, lo + BLOCK < end ? lo + BLOCK : end});
}

/* The factor of the old weight: decay, and the recipe's norm of sqrt(rows). A weight of zeros has no norm. */
static float keep_of(const thread_at *at, const hd_plan_param *param, const hd_hyper *h) {
  double keep = (double)h->decay_keep;
  const double norm = h->normalize_weight ? norm_of(at, param, at->exec->muon.weight_squares) : 0;
  return (float)(norm > 0 ? keep * (sqrt((double)param->rows) / norm) : keep);
}

/* Rows of the weight. */
static void write(const thread_at *at, const hd_plan_matrix *m, rows r) {
  const hd_plan_param *param = &at->exec->plan->params[m->param];
  const hd_hyper *h = hyper_of(at, m);
  const float keep = keep_of(at, param, h), lr = (float)((double)h->lr * m->lr_factor);
  const float *x = at->exec->muon.matrices + m->x[m->rounds & 1];
  const float *w = at->exec->store->weights[at->buffer] + param->offset;
  float *w1 = at->exec->store->weights[1 - at->buffer] + param->offset;
  for (int64_t j = r.lo; j < r.hi; j++)
    for (int64_t k = 0; k < param->columns; k++) {
      const int64_t e = j * param->columns + k;
      w1[e] = w[e] * keep - lr * x[m->turned ? k * m->columns + j : e];
      if (!isfinite(w1[e]))
        hd__exec_note_not_finite(at, m->param);
    }
  hd__exec_average(at, param->offset + r.lo * param->columns, (r.hi - r.lo) * param->columns);
  hd__exec_pack_new(at, m->param, (int32_t)r.lo, (int32_t)r.hi);
}

void hd__exec_matrices(const thread_at *at, const hd_phase *phase) {
  const hd_plan *plan = at->exec->plan;
  for (const hd_plan_matrix *m = plan->muon.matrices; m < plan->muon.matrices + plan->muon.matrix_count; m++) {
    const rows r = share_of(at, phase->stage == HD_STAGE_WRITE ? plan->params[m->param].rows : m->rows);
    const bool divides = phase->stage == HD_STAGE_GRAM || phase->stage == HD_STAGE_POLYNOMIAL; /* by itself */
    if ((r.lo == r.hi && !divides) || hyper_of(at, m)->idle || phase->round >= m->rounds ||
        !hd__exec_has_stage(at->exec, plan->params[m->param].stage))
      continue;
    switch (phase->stage) {
    case HD_STAGE_SCALE: scale(at, m, r); break;
    case HD_STAGE_GRAM: symmetric(at, m, phase->round, gram); break;
    case HD_STAGE_POLYNOMIAL: symmetric(at, m, phase->round, polynomial); break;
    case HD_STAGE_APPLY: apply(at, m, phase->round, r); break;
    case HD_STAGE_WRITE: write(at, m, r); break;
    }
  }
  hd__trace_leaf(at->thread->track, HD_SLICE_UPDATE, plan->muon.matrices[0].param);
}

void hd__exec_sum_directions(const thread_at *at) {
  const hd_exec_cpu *exec = at->exec;
  const hd_plan *plan = exec->plan;
  for (int32_t c = at->thread->chunk_lo; plan->muon.matrix_count > 0 && c < at->thread->chunk_hi; c++) {
    const hd_chunk *chunk = &plan->chunks[c];
    const hd_plan_param *param = &plan->params[chunk->param];
    const int64_t first = param->offset + chunk->j0 * param->columns, count = (chunk->j1 - chunk->j0) * param->columns;
    if (!param->is_matrix)
      continue;
    exec->muon.direction_squares[c] = plan->kernels->sum_squares(exec->store->weights[1 - at->buffer] + first, count);
    exec->muon.weight_squares[c] = plan->kernels->sum_squares(exec->store->weights[at->buffer] + first, count);
  }
}
