/* The pass that finds the trained parameters and assigns them to groups that are updated with the same scalars.
 *
 * Group 0 has the run's settings, whether or not a parameter uses them; the others follow in the order of their first
 * parameters. */
#include <math.h>

#include "plan/passes.h"

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* The group of a parameter, created if needed; -1 if there is no room. */
static int group_of(hd_plan *plan, const hd_param *param) {
  int g = 0;
  while (g < plan->group_count &&
         !(same(plan->groups[g].lr, param->lr) && same(plan->groups[g].weight_decay, param->weight_decay)))
    g++;
  if (g == HD_MAX_GROUPS)
    return -1;
  if (g == plan->group_count)
    plan->groups[plan->group_count++] = (hd_plan_group){param->lr, param->weight_decay};
  return g;
}

hd_status hd__pass_groups(hd_plan *plan, hd_ctx *ctx) {
  bool any = false;
  plan->groups[plan->group_count++] = (hd_plan_group){NAN, NAN};
  for (int p = 0; p < plan->param_count; p++) {
    const hd_param *param = &plan->graph->params[p];
    hd_plan_param *way = &plan->params[p];
    way->trained = plan->trains && hd__param_trains(param);
    any |= way->trained;
    way->group = way->trained ? group_of(plan, param) : 0;
    if (way->group < 0)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected at most %d groups of parameters with an lr or weight_decay of their "
                      "own, found more; use the same numbers for some",
                      HD_MAX_GROUPS - 1);
  }
  if (any || !plan->trains)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "expected a parameter to train, found every one frozen; give one 'requires_grad: true'");
}
