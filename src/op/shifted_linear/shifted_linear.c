/* shifted_linear: y = (x + shift) w^T + b over flat values, with a ReLU if a pass has fused it. Not a layer of model
 * files: plan/pass_shift.c replaces a linear layer that reads normalised samples by it. */
#include <math.h>

#include "op/linear/linear_form.h"
#include "op/op.h"
#include "op/shifted_linear/shifted_linear.h"

static int64_t macs(const hd_geom *g) { return (int64_t)g->ci * g->co; }
static int64_t flops(const hd_geom *g, hd_op_role role) { return 2 * macs(g); }

static void run_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int32_t j = j0; j < j1; j++)
      shifted_linear_at(call, n, j);
}

static float shard_chain(const hd_form *f, int j, int k, int row0, int row1) {
  float sum = 0;
  for (int64_t n = row0; n < row1; n++)
    sum = sum + f->dy[n * f->dy_stride + j];
  if (f->output == 1)
    return sum;
  float acc = shifted_linear_start(f->g->shifted_linear.shift, sum, 0);
  for (int64_t n = row0; n < row1; n++)
    acc = fmaf(f->dy[n * f->dy_stride + j], f->x[n * f->x_stride + k], acc);
  return acc + 0;
}

static void form(const hd_form *f) { hd__form_each(f, shard_chain); }

static void fill_reference(hd_kernels *table) {
  table->run_outputs[HD_OP_shifted_linear] = run_outputs;
  table->form[HD_OP_shifted_linear_dw] = form;
}

static const hd_geom samples[] = {{.ci = 1, .co = 1, .shifted_linear = {.shift = -0.5f}},
                                  {.ci = 17, .co = 3},
                                  {.ci = 16, .co = 16, .shifted_linear = {.shift = 0.25f}, .relu = 1},
                                  {.ci = 33, .co = 10, .shifted_linear = {.shift = -4}},
                                  {.ci = 100, .co = 35, .shifted_linear = {.shift = -0.42f}, .relu = 1},
                                  {.ci = 15, .co = 64, .shifted_linear = {.shift = 1}}};

const hd_op_rule hd__rule_shifted_linear = {
    .shapes = hd__shapes_linear,
    .dw = {HD_OP_shifted_linear_dw, {HD_ARG_X, HD_ARG_DY}},
    .macs = macs,
    .flops_of = flops,
    .fill_reference = fill_reference,
    HD_SAMPLES(samples),
};
