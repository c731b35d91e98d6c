/* --stages auto: cuts the network by the time that its layers take.
 *
 * Rank 0 runs the uncut plan for a few steps on its threads, with a store of its own whose weights do not change,
 * and adds up the time of each layer's calls, forward and backward. The others receive where to cut. */
#include "train/run/stages.h"

#include <stdio.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "platform/clock.h"
#include "train/placement/run_plan.h"
#include "train/run/session.h"

static const double MEASURE_S = 0.2;
enum { FEWEST_STEPS = 3, SLICES = 1 << 16 };

typedef struct timing {
  hd_session *session;
  hd_plan *plan;
  hd_store *store;
  hd_exec *exec;
  hd_trace *trace;
  double *cost; /* ns, of each node as written */
  double begin_s;
  int64_t steps;
} timing;

static bool next_step(void *self, hd_step *step) {
  timing *t = self;
  const hd_session *s = t->session;
  if (t->steps >= FEWEST_STEPS && hd__clock_s() - t->begin_s >= MEASURE_S)
    return false;
  const int64_t samples = s->run.batch < s->input.train.count ? s->run.batch : s->input.train.count;
  *step = (hd_step){.samples = samples, .number = t->steps++, .divisor = (float)samples};
  for (int g = 0; g < t->plan->update.group_count; g++)
    step->hyper[g] = (hd_hyper){.decay_keep = 1, .sqrt_bias2 = 1, .eps = 1}; /* a rate of 0 */
  return true;
}

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  return hd__session_read(((timing *)self)->session, NULL, ctx, step, first, rows, to);
}

static uint32_t report(void *self, const hd_step *step, double loss_sum, bool counts) { return 0; }

/* The first step of each thread warms up. */
static void add_track(timing *t, const hd_track *track) {
  const hd_graph *graph = t->plan->graph;
  for (int64_t n = 1; n < track->steps.count; n++) {
    const int64_t block = hd__slice_buffer_block(&track->steps, n);
    const hd_slice *slice = block < 0 ? NULL : hd__slice_buffer_slices(&track->steps, block);
    for (int i = 0; slice && i < *hd__slice_buffer_used(&track->steps, block); i++) {
      const double ns = (double)(slice[i].end_ns - slice[i].begin_ns);
      if (slice[i].kind == HD_SLICE_CALL)
        t->cost[graph->nodes[slice[i].of].written] += ns;
      else if (slice[i].kind == HD_SLICE_REDUCE_UPDATE || slice[i].kind == HD_SLICE_REDUCE)
        t->cost[graph->params[slice[i].of].written] += ns;
    }
  }
}

static hd_status run(timing *t, hd_ctx *ctx) {
  const hd_step_source source = {.self = t, .next = next_step, .fetch = fetch};
  uint32_t flags;
  HD_TRY(hd__exec_trace(t->exec, ctx, t->trace));
  hd__feed_shuffle(&t->session->input.train, (uint64_t)t->session->run.settings->seed, 0);
  t->begin_s = hd__clock_s();
  HD_TRY(hd__exec_run(t->exec, ctx, &source, report, &flags));
  for (int l = 0; l < t->trace->threads; l++)
    add_track(t, &t->trace->track[l]);
  return HD_OK;
}

static hd_status prepare(timing *t, hd_ctx *ctx) {
  hd_session *s = t->session;
  const hd_stages whole = {.count = 1};
  int32_t shards;
  HD_TRY(hd__planned_shards(&shards, ctx, s->run.config));
  HD_TRY(hd__session_plan(&t->plan, s, ctx, NULL, true, &whole));
  HD_TRY(hd__store_create(&t->store, ctx, NULL, t->plan));
  HD_TRY(hd__session_draw(t->store, s, ctx, t->plan, NULL));
  const hd_run_device here = hd__device_threads(s->run.config);
  hd_exec_settings settings = hd__planned_training(s->run.config, shards, &here);
  settings.fetch_bytes = hd__feed_scratch_bytes(&s->input.train);
  HD_TRY(hd__exec_create(&t->exec, ctx, t->plan, t->store, s->compute.threads, &settings));
  const hd_trace_size size = hd__exec_trace_size(t->exec, SLICES);
  HD_TRY(hd__trace_create(&t->trace, ctx, NULL, &size));
  return HD_NEW(t->cost, t->plan->graph->written_count, ctx, "out of memory for the time of layers");
}

/* The share of each stage in the whole time, for the user. */
static void note_shares(const timing *t, const hd_stages *stages) {
  char *text = t->session->report.device_note;
  const size_t bytes = sizeof t->session->report.device_note;
  double all = 0;
  for (int i = 0; i < t->plan->graph->written_count; i++)
    all += t->cost[i];
  size_t at =
      (size_t)snprintf(text, bytes, "--stages auto: cut by the layers' time in %lld steps,", (long long)t->steps);
  for (int s = 0; s < stages->count && at < bytes; s++) {
    double share = 0;
    const int end = s + 1 < stages->count ? stages->first[s + 1] : t->plan->graph->written_count;
    for (int i = stages->first[s]; i < end; i++)
      share += t->cost[i];
    at += (size_t)snprintf(text + at, bytes - at, "%s %.0f %%", s > 0 ? "," : "", 100 * share / all);
  }
}

static hd_status measure(hd_stages *stages, hd_session *s, hd_ctx *ctx) {
  timing t = {.session = s};
  hd_status status = prepare(&t, ctx);
  HD_THEN(status, run(&t, ctx));
  if (status == HD_OK) {
    const int layers = hd__stages_most(t.plan->graph), most = layers < HD_MAX_STAGES ? layers : HD_MAX_STAGES;
    stages->count = stages->count < most ? stages->count : most;
    status = hd__stages_cut(stages, ctx, t.plan->graph, t.cost);
  }
  if (status == HD_OK)
    note_shares(&t, stages);
  hd__free(t.cost);
  hd__trace_destroy(t.trace);
  hd__exec_destroy(t.exec);
  hd__store_destroy(t.store);
  hd__plan_destroy(t.plan);
  return status;
}

hd_status hd__stages_measure(hd_stages *stages, hd_session *s, hd_ctx *ctx) {
  HD_OWNED hd_stages *all = hd__calloc((size_t)hd__cluster_ranks(s->compute.local), sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the time of layers"));
  if (hd__cluster_rank(s->compute.local) == 0)
    HD_TRY(measure(stages, s, ctx));
  HD_TRY(hd__cluster_gather(all, s->compute.local, ctx, stages, sizeof *stages));
  *stages = all[0];
  return HD_OK;
}
