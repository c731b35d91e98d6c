/* What a session has for its device: plans, stores and executors; see session.h. */
#include "train/run/session.h"

#include "base/event_log.h"
#include "data/feed/feed_options.h"
#include "exec/exchange/cluster.h"
#include "train/placement/run_plan.h"
#include "train/run/agreement.h"
#include "train/run/kept_features.h"

bool hd__session_shift(float *shift, hd_session *s) {
  hd_feed *const feed[] = {&s->input.test, &s->input.val};
  float other;
  bool found = s->input.data->normalize == HD_NORMALIZE_CHANNEL && hd__feed_shift(shift, &s->input.train);
  for (int i = 0; i < 2; i++)
    if (feed[i]->count > 0)
      found = found && hd__feed_shift(&other, feed[i]) && other == *shift;
  return found;
}

/* What reads numbers of rows, as an embedding does, takes samples as they are. */
static hd_status check_unscaled(const hd_session *s, hd_ctx *ctx) {
  const hd_graph *graph = hd__session_whole(s)->graph;
  if (s->input.data->normalize == HD_NORMALIZE_NONE || *s->run.settings->transforms || s->input.train.split->window)
    return HD_OK;
  for (const hd_node *node = graph->nodes; node < graph->nodes + graph->node_count; node++)
    if (hd__op_info(node->op)->rule && hd__op_info(node->op)->rule->numbers)
      return hd__fail(
          ctx, HD_E_USAGE,
          "layer '%s': %s expects whole numbers, found samples of %s, which are normalised; choose a text, as "
          "--data shakespeare or a .txt file, or use --normalize none",
          node->name, hd__op_info(node->op)->name, s->input.data->name);
  return HD_OK;
}

static hd_status check_fit(const hd_session *s, hd_ctx *ctx) {
  const char *name = s->input.data->name;
  HD_TRY(check_unscaled(s, ctx));
  const hd_graph *graph = hd__session_whole(s)->graph;
  HD_TRY(hd__feed_check(ctx, &s->input.train, &s->run.network, graph, name));
  return hd__feed_check(ctx, &s->input.test, &s->run.network, graph, name);
}

static hd_status make_schedules(hd_session *s, hd_ctx *ctx) {
  const hd_plan *plan = s->compute.plan;
  for (int g = 0; g < plan->update.group_count; g++)
    HD_TRY(hd__schedule_init(&s->run.schedule[g], ctx, &plan->update.groups[g].settings, s->run.steps_of_epochs,
                             s->run.steps_per_epoch));
  for (int g = 0; g < plan->update.group_count; g++) {
    hd_schedule *schedule = &s->run.schedule[g];
    if (plan->update.groups[g].later)
      schedule->first = hd__planned_second_stage(s->run.config) * s->run.steps_per_epoch;
    if (schedule->first >= schedule->end)
      return hd__fail(ctx, HD_E_USAGE,
                      "--unfreeze expects parameters that are trained from step %lld on, found 'epochs' of theirs that "
                      "end before; give them more",
                      (long long)schedule->first);
  }
  hd__session_scale_lr(s);
  return HD_OK;
}

/* Plans of the present stage. */
static hd_status make_plans(hd_session *s, hd_ctx *ctx) {
  hd_feed *const feed[] = {&s->input.train, &s->input.test, &s->input.val};
  float value;
  const float *shift = s->compute.device.may_shift && hd__session_shift(&value, s) ? &value : NULL;
  hd_stages stages, whole = {.count = 1};
  s->compute.cut = -1;
  HD_TRY(hd__stages_choose(&stages, s, ctx));
  HD_TRY(hd__features_choose(s, ctx, stages.count));
  HD_TRY(hd__session_fronts(s, ctx, shift));
  HD_TRY(hd__session_plan(&s->compute.plan, s, ctx, shift, true, &stages));
  HD_TRY(hd__session_plan(&s->compute.eval_plan, s, ctx, shift, false,
                          hd__stages_are_apart(s) ? &s->compute.plan->pipeline.stages : &whole));
  HD_TRY(hd__agree_on_plan(s, ctx, s->compute.plan));
  HD_TRY(hd__agree_on_plan(s, ctx, s->compute.eval_plan));
  hd__stages_find(s);
  HD_TRY(check_fit(s, ctx));
  for (int i = 0; i < 3; i++)
    if (feed[i]->count > 0)
      hd__feed_leave_shift(feed[i], hd__session_shifts(s));
  HD_TRY(make_schedules(s, ctx));
  if (s->compute.plan->update.averages == HD_AVERAGES_EMA)
    HD_TRY(hd__store_create(&s->compute.average_store, ctx, s->compute.local, s->compute.eval_plan));
  return HD_OK;
}

static void drop_plans(session_compute *c) {
  hd__store_destroy(c->average_store);
  hd__plan_destroy(c->plan);
  hd__plan_destroy(c->eval_plan);
  hd__plan_destroy(c->whole);
  hd__plan_destroy(c->front);
  c->average_store = NULL;
  c->plan = c->eval_plan = c->whole = c->front = NULL;
}

/* Makes the plans of the other stage for a moment: they fail now, if at all. *packed: floats of their packed copies. */
static hd_status try_other_stage(int64_t *packed, hd_session *s, hd_ctx *ctx) {
  *packed = 0;
  if (hd__planned_second_stage(s->run.config) == INT64_MAX)
    return HD_OK;
  s->run.second_stage = !s->run.second_stage;
  const hd_status status = make_plans(s, ctx);
  if (status == HD_OK)
    *packed = s->compute.plan->size.packed_elems;
  drop_plans(&s->compute);
  s->run.second_stage = !s->run.second_stage;
  return status;
}

hd_status hd__session_make_plans(hd_session *s, hd_ctx *ctx) {
  int64_t packed;
  HD_TRY(try_other_stage(&packed, s, ctx));
  HD_TRY(make_plans(s, ctx));
  if (packed > s->compute.plan->size.packed_elems)
    s->compute.plan->size.packed_elems = packed; /* the store has room for the copies of both stages */
  return hd__store_create(&s->compute.store, ctx, s->compute.local, s->compute.plan);
}

hd_status hd__session_stage_for(hd_session *s, hd_ctx *ctx, int64_t step) {
  const int64_t epoch = step / s->run.steps_per_epoch, begins = hd__planned_second_stage(s->run.config);
  const bool works = s->input.batches;
  if (s->run.second_stage == (epoch >= begins))
    return HD_OK;
  s->run.second_stage = epoch >= begins;
  hd__batches_destroy(s->input.batches);
  s->input.batches = NULL;
  hd__exec_destroy(s->compute.exec);
  hd__exec_destroy(s->compute.eval_exec);
  s->compute.exec = s->compute.eval_exec = NULL;
  drop_plans(&s->compute);
  HD_TRY(make_plans(s, ctx));
  if (hd__local_group_rank(s->compute.local) == 0) {
    hd__store_clear_packed(s->compute.store); /* copies of this stage lie elsewhere, and their padding is zero */
    hd__store_pack(s->compute.store, s->compute.plan, s->compute.here);
  }
  HD_TRY(hd__local_group_barrier(s->compute.local, ctx));
  HD_TRY(hd__session_make_executors(s, ctx));
  HD_TRY(hd__features_keep(s, ctx));
  s->report.rank_times.exec = s->compute.exec;
  HD_LOG(PLAN, "the second stage begins in epoch %lld", (long long)epoch);
  return works ? hd__session_start_workers(s, ctx) : HD_OK;
}

bool hd__session_is_in_stage(const hd_session *s) {
  return s->run.second_stage ==
         (s->run.counters.step / s->run.steps_per_epoch >= hd__planned_second_stage(s->run.config));
}

hd_status hd__session_enter_stage(hd_session *s, hd_ctx *ctx) {
  return hd__session_stage_for(s, ctx, s->run.counters.step);
}

/* Steps that may wait for their report: one for each batch that loader workers buffer, since a batch is released when
 * its step has counted. */
static int32_t most_unreported(const hd_session *s) {
  const int64_t workers = s->run.settings->workers;
  const int64_t room = workers * s->run.settings->prefetch_factor;
  const int64_t fitting = room < s->run.steps_per_epoch ? room : s->run.steps_per_epoch;
  return workers == 0 || fitting > INT32_MAX ? INT32_MAX : (int32_t)fitting;
}

hd_status hd__session_make_executors(hd_session *s, hd_ctx *ctx) {
  hd_exec_settings train = hd__planned_training(s->run.config, s->run.shards, &s->compute.device);
  hd_exec_settings eval = hd__planned_evaluation(s->compute.eval_plan, &s->compute.device);
  train.local = eval.local = s->compute.local;
  train.unreported = most_unreported(s);
  if (s->compute.cut < 0 && s->compute.plan->io.target_outputs == 0 && s->run.settings->workers == 0 &&
      hd__feed_table(&s->input.table, &s->input.train))
    train.samples = &s->input.table;
  train.fetch_bytes = hd__feed_scratch_bytes(&s->input.train);
  const int64_t test = hd__feed_scratch_bytes(&s->input.test);
  const int64_t val = s->input.val.count > 0 ? hd__feed_scratch_bytes(&s->input.val) : 0;
  eval.fetch_bytes = val > test ? val : test;
  HD_TRY(hd__exec_create(&s->compute.exec, ctx, s->compute.plan, s->compute.store, s->compute.threads, &train));
  hd_store *evaluated = s->compute.average_store ? s->compute.average_store : s->compute.store;
  HD_TRY(hd__exec_create(&s->compute.eval_exec, ctx, s->compute.eval_plan, evaluated, s->compute.threads, &eval));
  return hd__session_check_samples(s, ctx);
}

hd_status hd__session_equip(hd_session *s, hd_ctx *ctx) {
  HD_TRY(hd__session_make_plans(s, ctx));
  return hd__session_make_executors(s, ctx);
}

void hd__session_unequip(session_compute *c) {
  hd__exec_destroy(c->exec);
  hd__exec_destroy(c->eval_exec);
  hd__device_close(&c->device);
  hd__store_destroy(c->store);
  drop_plans(c);
}
