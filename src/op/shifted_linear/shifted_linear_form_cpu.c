/* The gradient of shifted_linear's weight and bias, formed inside the reduction over shards as that of a linear layer
 * (linear_form_cpu.h); the chains of a shard start from the shift times its sum of dy.
 *
 * An input that is zero in all samples gives an output's sum of these starts, the same for every such input. If there
 * are many, as at the edges of pictures, the other inputs are packed first and their results unpacked. */
#include <stdbool.h>

#include "op/linear/linear_cpu.h"
#include "op/linear/linear_form_cpu.h"
#include "op/shifted_linear/shifted_linear_cpu.h"

FORMS(1)

/* The starts of the chains of up to STARTS outputs, for each step. */
static void make_starts(float (*start)[STARTS], const hd_form *f) {
  const hd_reduction *r = f->reduction;
  for (int i = 0; i < r->count; i++)
    for (int j = f->j0; j < f->j1; j += 16) {
      g16 sum = g16_zero();
      for (int64_t n = r->step[i].row0; n < r->step[i].row1; n++)
        sum = g16_add(sum, g16_load_some(f->dy + n * f->dy_stride + j, f->j1 - j));
      g16_store(start[i] + (j - f->j0), shifted_linear_start16(f->g->shifted_linear.shift, sum, g16_zero()));
    }
}

/* Groups of inputs that are searched together; columns that are packed together at a time, and of how many samples at
 * most; outputs from which the search for live inputs pays. */
enum { SEARCHED_GROUPS = 64, PANEL = 192, MOST_ROWS = 128, WORTH_A_SEARCH = 24 };

static const float *first_row(const hd_form *f) { return f->x + f->reduction->step->row0 * f->x_stride; }

static int count_live(const uint32_t *live, int count) {
  int all = 0;
  for (int g = 0; 16 * g < count; g++)
    all += __builtin_popcount(live[g]);
  return all;
}

/* Sets a bit for each of `count` inputs from k on that is not zero in all rows. False: they are so many that all are
 * computed; few rows show that mostly, and the bits may be incomplete. */
static bool find_live(uint32_t *live, const hd_form *f, int k, int count) {
  const int64_t rows = samples_of(f->reduction);
  const float *x = first_row(f) + k;
  memset(live, 0, SEARCHED_GROUPS * sizeof *live);
  for (int64_t n = 1; n <= rows; n++, x += f->x_stride) {
    for (int g = 0; 16 * g < count; g++)
      live[g] |= g16_nonzero(g16_load(x + 16 * g));
    if (count % 16)
      live[count / 16] &= (1u << count % 16) - 1;
    const bool is_power_of_2 = (n & (n - 1)) == 0;
    if ((n == rows || (n > 2 && is_power_of_2)) && 4 * count_live(live, count) >= 3 * count)
      return false;
  }
  return true;
}

/* Neighbouring groups of columns whose live inputs are packed together. */
typedef struct panel {
  const hd_form *f;
  int k, groups, columns; /* the first column; columns of live inputs */
  g16_picks live[SEARCHED_GROUPS];
  int at[SEARCHED_GROUPS]; /* of each group: where its live inputs are among all */
  _Alignas(64) float x[MOST_ROWS * PANEL + 16], out[STARTS * PANEL + 16];
} panel;

/* The elements after a row's last input are set to zero, so that no denormal slows down the products, or belong to the
 * next row. */
static void move_together(panel *p) {
  const int64_t rows = samples_of(p->f->reduction);
  const float *x = first_row(p->f) + p->k;
  float *to = p->x;
  for (int64_t n = 0; n < rows; n++, x += p->f->x_stride, to += PANEL) {
    for (int g = 0; g < p->groups; g++)
      g16_store_picked(to + p->at[g], g16_load(x + 16 * g), &p->live[g]);
    g16_store(to + p->columns, g16_zero());
  }
}

/* idle: of each output. */
static void move_apart(const panel *p, const float *idle) {
  const hd_form *f = p->f;
  for (int j = 0; j < f->j1 - f->j0; j++) {
    const float *from = p->out + j * PANEL;
    float *to = f->out + j * f->out_ld + (p->k - f->k0);
    for (int g = 0; g < p->groups; g++)
      g16_store_some(to + 16 * g, g16_load_picked(from + p->at[g], g16_all(idle[j]), &p->live[g]),
                     f->k1 - p->k - 16 * g);
  }
}

static void form_panel(panel *p, const float *start, const float *idle) {
  hd_form together = *p->f;
  together.x = p->x;
  together.x_stride = PANEL;
  together.k0 = 0;
  together.k1 = p->columns;
  together.out = p->out;
  together.out_ld = PANEL;
  move_together(p);
  form_weight(&together, p->x, 0, p->columns, start, form_of);
  move_apart(p, idle);
}

/* The columns k to k + count - 1: only those of live inputs are computed. */
static void form_live(const hd_form *f, const float *start, const float *idle, const uint32_t *live, int k, int count) {
  panel p;
  p.f = f;
  for (int first = 0, g; 16 * first < count; first = g) {
    p.k = k + 16 * first;
    p.columns = 0;
    for (g = first; 16 * g < count && p.columns + __builtin_popcount(live[g]) <= PANEL; g++) {
      p.live[g - first] = g16_picks_of(live[g]);
      p.at[g - first] = p.columns;
      p.columns += __builtin_popcount(live[g]);
    }
    p.groups = g - first;
    form_panel(&p, start, idle);
  }
}

/* Up to STARTS outputs. */
static void form_outputs(const hd_form *f) {
  static const float zeros[16];
  float start[HD_MAX_SHARDS][STARTS], idle[STARTS];
  const bool may_search = samples_of(f->reduction) <= MOST_ROWS && f->j1 - f->j0 >= WORTH_A_SEARCH;
  make_starts(start, f);
  form_columns(f, &(columns){.x = zeros, .out = idle, .out_ld = 1, .count = 1}, *start, form_of);
  for (int k = f->k0, count; k < f->k1; k += count) {
    uint32_t live[SEARCHED_GROUPS];
    count = f->k1 - k < 16 * SEARCHED_GROUPS ? f->k1 - k : 16 * SEARCHED_GROUPS;
    if (may_search && find_live(live, f, k, count))
      form_live(f, *start, idle, live, k, count);
    else
      form_weight(f, first_row(f), k, k + count, *start, form_of);
  }
}

static void form(const hd_form *f) {
  if (f->output == 1) {
    HD_SYM(linear_form_bias)(f);
    return;
  }
  for (int j = f->j0; j < f->j1; j += STARTS) {
    hd_form some = *f;
    some.j0 = j;
    some.j1 = j + STARTS < f->j1 ? j + STARTS : f->j1;
    some.out = f->out + (j - f->j0) * f->out_ld;
    form_outputs(&some);
  }
}

/* One shard's gradient alone. */
static void shifted_linear_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  hd_reduction one = {.count = 1};
  one.step[0] = (hd_reduction_step){.row1 = (int32_t)call->rows};
  for (int output = 0; output < 2; output++)
    if (call->out[output])
      form(&(hd_form){.g = g,
                      .x = call->in[0],
                      .dy = call->in[1],
                      .x_stride = call->in_stride[0],
                      .dy_stride = call->in_stride[1],
                      .reduction = &one,
                      .output = output,
                      .j1 = g->co,
                      .k1 = g->ci,
                      .out = call->out[output],
                      .out_ld = g->ci});
}

static int64_t scratch_bytes(const hd_geom *g, int64_t rows) { return copies_bytes(rows); }

void HD_SYM(shifted_linear_form_fill)(hd_kernels *table) {
  table->run[HD_OP_shifted_linear_dw] = shifted_linear_dw;
  table->form[HD_OP_shifted_linear_dw] = form;
  table->form_scratch_bytes[HD_OP_shifted_linear_dw] = scratch_bytes;
}
