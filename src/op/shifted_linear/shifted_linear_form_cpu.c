/* The gradient of shifted_linear's weight and bias, formed inside the reduction over shards as that of a linear layer
 * (linear_form_cpu.h); the chains of a shard start from the shift times its sum of dy. */
#include "op/linear/linear_cpu.h"
#include "op/linear/linear_form_cpu.h"
#include "op/shifted_linear/shifted_linear_cpu.h"

FORMS(1)

/* What the chains of up to STARTS outputs start from, for each step. */
static void make_starts(float (*start)[STARTS], const hd_form *f) {
  const hd_reduction *r = f->reduction;
  for (int i = 0; i < r->count; i++)
    for (int j = f->j0; j < f->j1; j += 16) {
      g16 sum = g16_zero();
      for (int64_t n = r->step[i].row0; n < r->step[i].row1; n++)
        sum = g16_add(sum, g16_load_some(f->dy + n * f->dy_stride + j, f->j1 - j));
      g16_store(start[i] + (j - f->j0), shifted_linear_start16(f->g->shift, sum, g16_zero()));
    }
}

static void form(const hd_form *f) {
  if (f->output == 1) {
    HD_SYM(linear_form_bias)(f);
    return;
  }
  float start[HD_MAX_SHARDS][STARTS];
  for (int j = f->j0; j < f->j1; j += STARTS) {
    hd_form some = *f;
    some.j0 = j;
    some.j1 = j + STARTS < f->j1 ? j + STARTS : f->j1;
    some.out = f->out + (j - f->j0) * f->out_ld;
    make_starts(start, &some);
    form_weight(&some, *start, form_of);
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

void HD_SYM(shifted_linear_form_fill)(hd_kernels *table) {
  table->run[HD_OP_shifted_linear_dw] = shifted_linear_dw;
  table->form[HD_OP_shifted_linear_dw] = form;
}
