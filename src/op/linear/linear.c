/* linear: y = x w^T + b over flat values, with a ReLU if a pass has fused it; and its gradients.
 *
 * If the input is a flattened image in the image's memory order, the weight's columns are in that order too; files keep
 * PyTorch's order. The reference kernels that only linear has are here. */
#include <limits.h>
#include <math.h>

#include "op/linear/linear.h"
#include "op/linear/linear_form.h"
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("out", INT, out, .low = 1, .high = 1 << 20, .required = true, .help = "outputs"), HD_BIAS_SETTINGS,
    HD_SETTINGS_END};

hd_status hd__shapes_linear(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0], *order = &s->order[0];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 1)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': linear expects a flat input, found %s; put a flatten layer before it, the line "
                    "'- flat: {op: flatten}'",
                    s->layer, hd__shape_text(text, sizeof text, x));
  s->geom = hd__geom_of_shape(x);
  s->geom.co = s->attrs->out;
  const hd_geom *g = &s->geom;
  if ((int64_t)g->ci * g->co > INT_MAX / 8)
    return hd__fail(s->ctx, HD_E_SHAPE, "layer '%s': expected at most %d weights, found %d x %d; use fewer outputs",
                    s->layer, INT_MAX / 8, g->co, g->ci);
  hd_shape in_memory = {4, {g->co, g->ci, 1, 1}};
  if (order->rank == 3)
    in_memory = (hd_shape){4, {g->co, order->dim[0], order->dim[1], order->dim[2]}};
  hd__shapes_param(s, "weight", &(hd_shape){2, {g->co, g->ci}}, &in_memory);
  if (s->attrs->bias)
    hd__shapes_param(s, "bias", &(hd_shape){1, {g->co}}, &(hd_shape){4, {g->co, 1, 1, 1}});
  for (int i = 0; i < s->params; i++) {
    s->param[i].fan_in = g->ci;
    s->param[i].shared = true;
  }
  s->y = (hd_shape){1, {g->co}};
  return HD_OK;
}

static int64_t macs(const hd_geom *g) { return (int64_t)g->ci * g->co; }
static int64_t flops(const hd_geom *g, hd_op_role role) { return 2 * macs(g); }

/* Outputs j0 to j1 - 1 alone are the units of these numbers. */
static void run_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int32_t j = j0; j < j1; j++)
      linear_at(call, n, j);
}

/* linear_dw's chain over rows row0 .. row1-1. */
static float shard_chain(const hd_form *f, int j, int k, int row0, int row1) {
  float acc = 0;
  for (int64_t n = row0; n < row1; n++) {
    float dy = f->dy[n * f->dy_stride + j];
    acc = f->output == 0 ? fmaf(dy, f->x[n * f->x_stride + k], acc) : acc + dy;
  }
  return acc;
}

static float form_element(const hd_form *f, hd_shard_chain *chain, int j, int k) {
  float stack[HD_MAX_REDUCTION_DEPTH] = {0};
  for (hd_walk w = hd__reduction_walk(f->reduction); hd__walk_push(&w);)
    for (stack[w.top] = chain(f, j, k, w.step->row0, w.step->row1); hd__walk_merge(&w);)
      stack[w.top] = stack[w.top] + stack[w.top + 1];
  return stack[0];
}

void hd__form_each(const hd_form *f, hd_shard_chain *chain) {
  for (int j = f->j0; j < f->j1; j++) {
    if (f->output == 1)
      f->out[j - f->j0] = form_element(f, chain, j, 0);
    else
      for (int k = f->k0; k < f->k1; k++)
        f->out[(j - f->j0) * f->out_ld + (k - f->k0)] = form_element(f, chain, j, k);
  }
}

static void form(const hd_form *f) { hd__form_each(f, shard_chain); }

static void fill_reference(hd_kernels *table) {
  table->run_outputs[HD_OP_linear] = run_outputs;
  table->form[HD_OP_linear_dw] = form;
}

static const hd_geom samples[] = {{.ci = 1, .co = 1},
                                  {.ci = 17, .co = 3},
                                  {.ci = 16, .co = 16, .relu = 1},
                                  {.ci = 33, .co = 10},
                                  {.ci = 100, .co = 35, .relu = 1},
                                  {.ci = 15, .co = 64}};

const hd_op_rule hd__rule_linear = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Linear",
    .settings = settings,
    .shapes = hd__shapes_linear,
    .dx = {HD_OP_linear_dx, {HD_ARG_DY, HD_ARG_W}},
    .dw = {HD_OP_linear_dw, {HD_ARG_X, HD_ARG_DY}},
    .macs = macs,
    .flops_of = flops,
    .fill_reference = fill_reference,
    HD_SAMPLES(samples),
};
