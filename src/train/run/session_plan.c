/* A session's plans and the first weights of their parameters. */
#include "data/feed/feed_options.h"
#include "graph/graph_cut.h"
#include "train/run/first_weights.h"
#include "train/placement/run_plan.h"
#include "train/run/program_loss.h"
#include "train/run/session.h"

hd_status hd__session_graph(hd_graph **out, hd_session *s, hd_ctx *ctx, bool train) {
  HD_TRY(hd__network_graph(out, ctx, &s->run.network));
  hd_status status = hd__planned_rules(*out, ctx, s->run.settings->parameters);
  HD_THEN(status, hd__planned_freeze(*out, ctx, s->run.config, s->run.second_stage));
  if (train && s->input.train.split->weights)
    hd__graph_weigh_samples(*out);
  return HD_CREATED(status, out, hd__graph_destroy);
}

static hd_plan_settings settings_of(const hd_session *s, const float *shift, bool train, const hd_stages *stages) {
  const hd_executor *executor = s->compute.device.executor;
  hd_plan_settings settings = hd__planned_passes(s->run.config, train);
  settings.may_shift &= shift != NULL;
  settings.recompute &= executor->recomputes;
  settings.guard &= executor->guards;
  settings.shift = shift ? *shift : 0;
  settings.stages = *stages;
  settings.program = train ? hd__program_of(s->compute.program) : NULL;
  return settings;
}

static hd_status plan_of(hd_plan **out, const hd_session *s, hd_ctx *ctx, hd_graph *graph,
                         const hd_plan_settings *settings) {
  const hd_kernels *kernels =
      hd__device_kernels(&s->compute.device, s->compute.kernels, s->run.config, settings->train);
  return hd__plan_create(out, ctx, graph, kernels, settings);
}

hd_status hd__session_plan(hd_plan **out, hd_session *s, hd_ctx *ctx, const float *shift, bool train,
                           const hd_stages *stages) {
  hd_graph *graph;
  HD_TRY(hd__session_graph(&graph, s, ctx, train));
  if (s->compute.cut >= 0)
    hd__graph_keep_rest(graph, s->compute.cut);
  const hd_plan_settings settings = settings_of(s, s->compute.cut >= 0 ? NULL : shift, train, stages);
  return plan_of(out, s, ctx, graph, &settings);
}

hd_status hd__session_fronts(hd_session *s, hd_ctx *ctx, const float *shift) {
  const hd_plan_settings settings = settings_of(s, shift, false, &(hd_stages){.count = 1});
  hd_graph *graph;
  if (s->compute.cut < 0)
    return HD_OK;
  HD_TRY(hd__session_graph(&graph, s, ctx, false));
  HD_TRY(plan_of(&s->compute.whole, s, ctx, graph, &settings));
  s->compute.whole->packed_count = 0; /* it is never run: stores have no room for its packed copies */
  HD_TRY(hd__session_graph(&graph, s, ctx, false));
  hd_status status = hd__graph_keep_front(graph, ctx, s->compute.cut);
  HD_TRY(HD_CREATED(status, &graph, hd__graph_destroy));
  return plan_of(&s->compute.front, s, ctx, graph, &settings);
}

const hd_plan *hd__session_whole(const hd_session *s) { return s->compute.whole ? s->compute.whole : s->compute.plan; }

bool hd__session_shifts(const hd_session *s) {
  return s->compute.front ? s->compute.front->shifts : s->compute.plan->shifts;
}

hd_status hd__session_draw(hd_store *store, hd_session *s, hd_ctx *ctx, const hd_plan *plan, const bool *here) {
  const hd_dataset *data = s->input.data;
  const uint64_t seed = (uint64_t)s->run.settings->seed;
  const hd_transform_lists lists = hd__transform_lists(s->run.config);
  HD_FEED_OWNED seen = {0};
  const double *mean = data->statistics.mean, *std = data->statistics.std;
  HD_TRY(hd__feed_init(&seen, ctx, hd__dataset_train(data), s->compute.kernels, mean, std));
  HD_TRY(hd__feed_set_transforms(&seen, ctx, &lists, HD_PIPELINE_EVALUATION, seed));
  HD_TRY(hd__feed_check(ctx, &seen, &s->run.network, plan->graph, data->name));
  const hd_first_samples samples = {
      .seen = &seen, .members = s->input.train.members, .count = s->input.train.count, .threads = s->compute.threads};
  return hd__first_weights(store, ctx, plan, seed, &samples, here);
}
