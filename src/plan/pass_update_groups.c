/* The pass that finds the trained parameters and assigns them to groups that are updated by the same optimizer with the
 * same scalars.
 *
 * Group 0 has the run's settings, whether or not a parameter uses them; the others follow in the order of their first
 * parameters. */
#include <math.h>

#include "optimizer/schedule_rules.h"
#include "plan/passes.h"

/* The group of these settings, created if needed; -1 if there is no room. */
static int group_of(hd_plan *plan, const hd_update_settings *settings, bool later) {
  const hd_plan_group *groups = plan->update.groups;
  int g = 0;
  while (g < plan->update.group_count &&
         (groups[g].later != later || !hd__update_settings_equal(&groups[g].settings, settings)))
    g++;
  if (g == HD_MAX_GROUPS)
    return -1;
  if (g == plan->update.group_count) {
    hd_plan_group *group = &plan->update.groups[plan->update.group_count++];
    group->settings = *settings;
    group->later = later;
    group->optimizer = hd__optimizer_of(settings);
    group->update = group->optimizer->op;
    group->kept = hd__optimizer_kept(group->optimizer, settings);
    while (group->kept >> group->states)
      group->states++;
  }
  return g;
}

/* A setting given by a rule must be one that the parameter's optimizer has. */
static hd_status check(const hd_plan *plan, hd_ctx *ctx, const hd_param *param, const hd_update_settings *settings) {
  const char *name = plan->graph->values[param->value].name;
  const hd_optimizer_rule *optimizer = hd__optimizer_of(settings);
  char others[HD_OPTIMIZERS_BYTES];
  for (const hd_update_setting *s = hd__update_settings; s->name; s++)
    if (!isnan(param->update.value[s->value]) && hd__optimizers_with(s->value) > 0 &&
        !hd__optimizer_takes(optimizer, s->value))
      return hd__fail(ctx, HD_E_USAGE,
                      "parameters: expected %s for the optimizer %s, found it for '%s' of %s; leave it out, or give "
                      "the rule another optimizer",
                      s->name, hd__optimizers_list(others, sizeof others, s->value, " or "), name, optimizer->name);
  if (hd__optimizer_takes(optimizer, HD_SET_nesterov) && settings->value[HD_SET_nesterov] > 0 &&
      !(settings->value[HD_SET_momentum] > 0))
    return hd__fail(ctx, HD_E_USAGE,
                    "parameters: expected a momentum above 0 beside nesterov, found none for '%s'; give it one", name);
  return HD_OK;
}

/* A setting given by a rule must be one that the parameter's schedule has, too. */
static hd_status check_schedule(const hd_plan *plan, hd_ctx *ctx, const hd_param *param,
                                const hd_update_settings *settings) {
  const hd_curve_rule *curve = hd__curve_at((int)settings->value[HD_SET_schedule]);
  char others[HD_OPTIMIZERS_BYTES];
  for (const hd_update_setting *s = hd__update_settings; s->name; s++)
    if (!isnan(param->update.value[s->value]) && *hd__curves_list(others, sizeof others, s->value, " or ") &&
        !hd__curve_takes(curve, s->value))
      return hd__fail(ctx, HD_E_USAGE,
                      "parameters: expected %s for the schedule %s, found it for '%s' with %s; leave it out, or give "
                      "the rule another schedule",
                      s->name, others, plan->graph->values[param->value].name, curve->name);
  return HD_OK;
}

static hd_status assign(hd_plan *plan, hd_ctx *ctx, int p, const hd_update_settings *run) {
  const hd_param *param = &plan->graph->params[p];
  hd_update_settings settings = *run;
  hd__update_settings_overlay(&settings, &param->update);
  HD_TRY(check(plan, ctx, param, &settings));
  hd__optimizer_complete(&settings);
  HD_TRY(check_schedule(plan, ctx, param, &settings));
  const int group = group_of(plan, &settings, param->later);
  if (group < 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected at most %d groups of parameters with their own settings, found more; give some of them "
                    "the same settings",
                    HD_MAX_GROUPS - 1);
  plan->params[p].group = group;
  if (plan->update.groups[group].states > plan->update.states)
    plan->update.states = plan->update.groups[group].states;
  return HD_OK;
}

hd_status hd__pass_groups(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  bool any = false;
  hd_update_settings run = settings->update;
  hd__optimizer_complete(&run);
  group_of(plan, &run, false);
  for (int p = 0; p < plan->param_count; p++) {
    hd_plan_param *way = &plan->params[p];
    way->trained = plan->trains && hd__param_trains(&plan->graph->params[p]);
    any |= way->trained;
    if (plan->trains && hd__param_ever_trains(&plan->graph->params[p]))
      HD_TRY(assign(plan, ctx, p, &settings->update));
  }
  if (any || !plan->trains)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "expected a parameter to train, found every one frozen; give one 'requires_grad: true'");
}
