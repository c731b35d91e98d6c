/* The pass that finds the parameters of muon, whose updates are made orthogonal as whole matrices, and gives each its
 * place in the executor's memory for matrices. The rows of a matrix are a convolution's filters or a linear layer's
 * outputs; its columns are the other elements in memory order. The order of the columns affects only the order of the
 * sums in its products. */
#include <math.h>

#include "base/alloc.h"
#include "plan/passes.h"

static int64_t take(hd_plan *plan, int64_t elems) {
  const int64_t at = plan->muon.matrix_elems;
  plan->muon.matrix_elems += (elems + 15) / 16 * 16;
  return at;
}

/* The factor of the learning rate, as adjust_lr_fn of torch.optim.Muon. */
static double lr_factor(hd_update_adjust adjust, double rows, double columns) {
  switch (adjust) {
  case HD_ADJUST_NONE: return 1;
  case HD_ADJUST_ORIGINAL: return sqrt(fmax(1, rows / columns));
  case HD_ADJUST_MATCH_RMS_ADAMW: return 0.2 * sqrt(fmax(rows, columns));
  }
  return 1;
}

static void add_matrix(hd_plan *plan, int p) {
  const hd_param *param = &plan->graph->params[p];
  const hd_update_settings *settings = &plan->update.groups[plan->params[p].group].settings;
  const int64_t rows = param->rows, columns = hd__param_columns(param);
  hd_plan_matrix *m = &plan->muon.matrices[plan->muon.matrix_count++];
  *m = (hd_plan_matrix){
      .param = p,
      .turned = rows > columns,
      .rows = rows > columns ? columns : rows,
      .columns = rows > columns ? rows : columns,
      .rounds = (int)settings->value[HD_SET_ns_steps],
      .lr_factor = lr_factor((hd_update_adjust)settings->value[HD_SET_adjust_lr], (double)rows, (double)columns)};
  m->x[0] = take(plan, rows * columns);
  m->x[1] = take(plan, rows * columns);
  m->gram = take(plan, m->rows * m->rows);
  m->polynomial = take(plan, m->rows * m->rows);
}

hd_status hd__pass_matrices(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  HD_TRY(HD_NEW(plan->muon.matrices, plan->param_count + 1, ctx, "out of memory while planning"));
  for (int p = 0; p < plan->param_count; p++) {
    const hd_value *value = &plan->graph->values[plan->graph->params[p].value];
    const hd_optimizer_rule *optimizer = plan->update.groups[plan->params[p].group].optimizer;
    char shape[HD_SHAPE_TEXT_BYTES];
    if (!plan->params[p].trained || !optimizer->matrices)
      continue;
    if (value->shape.rank < 2 || plan->graph->params[p].op == HD_OP_layer_norm) /* a norm's is no matrix */
      return hd__fail(ctx, HD_E_USAGE,
                      "parameters: expected weights of two or more dimensions for the optimizer %s, found '%s' of "
                      "shape %s%s; give it another by a rule, such as {match: '%s', optimizer: sgd}",
                      optimizer->name, value->name, hd__shape_text(shape, sizeof shape, &value->shape),
                      value->shape.rank < 2 ? "" : " of a layer_norm", value->name);
    plan->params[p].is_matrix = true;
    add_matrix(plan, p);
  }
  return HD_OK;
}

/* All matrices go through the phases together; one with fewer rounds is left out of the last ones. */
int hd__plan_matrix_rounds(const hd_plan *plan) {
  int most = 0;
  for (int i = 0; i < plan->muon.matrix_count; i++)
    most = plan->muon.matrices[i].rounds > most ? plan->muon.matrices[i].rounds : most;
  return most;
}
