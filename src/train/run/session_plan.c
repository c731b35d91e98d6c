/* A session's plans and the first weights of their parameters. */
#include "data/feed/feed_options.h"
#include "train/run/first_weights.h"
#include "train/placement/run_plan.h"
#include "train/run/session.h"

hd_status hd__session_plan(hd_plan **out, hd_session *s, hd_ctx *ctx, const float *shift, bool train,
                           const hd_stages *stages) {
  const hd_run_device *device = &s->compute.device;
  hd_graph *graph;
  HD_TRY(hd__network_graph(&graph, ctx, &s->run.network));
  hd_plan_settings settings = hd__planned_passes(s->run.config, train);
  hd_status status = hd__planned_rules(graph, ctx, s->run.settings->parameters);
  if (train && s->input.train.split->weights)
    hd__graph_weigh_samples(graph);
  HD_TRY(HD_CREATED(status, &graph, hd__graph_destroy));
  settings.may_shift &= shift != NULL;
  settings.recompute &= device->executor->recomputes;
  settings.guard &= device->executor->guards;
  settings.shift = shift ? *shift : 0;
  settings.stages = *stages;
  settings.program = train ? hd__program_of(s->compute.program) : NULL;
  return hd__plan_create(out, ctx, graph, hd__device_kernels(device, s->compute.kernels, s->run.config, train),
                         &settings);
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
