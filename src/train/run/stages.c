/* Choosing and reporting stages: see stages.h. */
#include "train/run/stages.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "train/run/session.h"

/* The threads, or with `ranks` the ranks, of the host that has the fewest. */
static int fewest_on_a_host(const hd_session *s, bool ranks) {
  const hd_rank_place *place = s->report.places;
  const int count = hd__cluster_ranks(s->compute.local);
  int fewest = 0;
  for (int i = 0; i < count; i++) {
    int here = 0;
    for (int k = 0; k < count; k++)
      if (!strcmp(place[k].host, place[i].host))
        here += ranks ? 1 : place[k].threads;
    fewest = i == 0 || here < fewest ? here : fewest;
  }
  return fewest;
}

bool hd__stages_are_apart(const hd_session *s) {
  return s->run.settings->place_stages == HD_PLACE_STAGES_HOSTS && !hd__cluster_is_one_host(s->compute.local);
}

void hd__stages_find(hd_session *s) {
  const int hosts = hd__cluster_count(s->compute.local), host = hd__cluster_this_host(s->compute.local);
  const int count = s->compute.plan->pipeline.stages.count;
  for (int i = 0; i < count; i++)
    s->compute.here[i] = !hd__stages_are_apart(s) || hd__stage_host(i, count, hosts) == host;
}

hd_status hd__stages_choose(hd_stages *out, hd_session *s, hd_ctx *ctx) {
  hd_graph *graph;
  HD_TRY(hd__network_graph(&graph, ctx, &s->run.network));
  const hd_stages file = graph->stages;
  hd__graph_destroy(graph);
  const int asked = s->run.settings->stage_count;
  const bool runs = s->compute.device.executor->runs_stages;
  const int ranks = fewest_on_a_host(s, true), threads = fewest_on_a_host(s, false);
  const bool apart = hd__stages_are_apart(s);
  *out = (hd_stages){.count = asked};
  if (asked < 0)
    out->count = apart ? hd__cluster_count(s->compute.local) : ranks > 1 ? ranks : threads;
  else if (asked == file.count || (asked == 0 && (apart || file.count <= threads) && runs))
    *out = file;
  if (apart && out->count <= 1)
    return hd__fail(ctx, HD_E_USAGE, "--place-stages hosts expects --stages, found one stage; add --stages auto");
  if (apart && *s->run.settings->unfreeze) /* the other stage of the run may be cut elsewhere */
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "--place-stages hosts expects layers that stay on their host, found --unfreeze; leave one of them out");
  if (out->count > 1 && !runs)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--stages expects --device cpu, found a GPU, which holds the whole network; leave one of them out");
  const hd_custom_loss *loss = hd__config_loss(s->run.config);
  if (out->count > 1 && loss)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "the loss '%s' of the program expects a network in one stage, found %d stages; leave --stages out",
                    loss->name, out->count);
  return asked < 0 && out->count > 1 ? hd__stages_measure(out, s, ctx) : HD_OK;
}

/* The work of a rank, as sent to all. */
typedef struct work {
  int32_t threads[HD_MAX_STAGES];
  int64_t shards[HD_MAX_STAGES], waited_ns[HD_MAX_STAGES];
} work;

_Static_assert(sizeof(work) <= HD_LOCAL_GROUP_GATHER_BYTES, "a rank's work fits into a gather");

static hd_status read_work(work *out, hd_ctx *ctx, const hd_exec *exec) {
  const int threads = hd__exec_facts(NULL, exec, HD_FACT_STAGE_WORK), rank = hd__cluster_rank(exec->local);
  HD_OWNED hd_stage_work *all = hd__calloc((size_t)threads + 1, sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the report of stages"));
  hd__exec_facts(all, exec, HD_FACT_STAGE_WORK);
  for (int l = 0; l < threads; l++)
    if (all[l].rank == rank) {
      out->threads[all[l].stage]++;
      out->shards[all[l].stage] += all[l].shards;
      out->waited_ns[all[l].stage] += all[l].waited_ns;
    }
  return HD_OK;
}

/* The layers and parameters of a stage. */
static void describe(hd_stage *stage, const hd_graph *written, const hd_plan *plan, int index) {
  const int *first = plan->pipeline.stages.first, loss = written->values[written->loss].producer;
  const int end = index + 1 < plan->pipeline.stages.count ? first[index + 1] : loss;
  stage->first = written->nodes[first[index]].name;
  stage->last = written->nodes[end - 1].name;
  for (int p = 0; p < plan->param_count; p++)
    if (plan->params[p].stage == index && !plan->params[p].is_running)
      stage->parameters += hd__param_elems(&plan->graph->params[p]);
}

static void fill(hd_stage_accounts *a, const hd_plan *plan, const hd_rank_place *place, const work *all, int ranks) {
  for (int s = 0; s < a->count; s++) {
    hd_stage *stage = &a->of[s];
    hd_stage_rank *rank = a->rank + (ptrdiff_t)s * ranks;
    describe(stage, a->graph, plan, s);
    stage->rank = rank;
    for (int r = 0; r < ranks; r++)
      if (all[r].threads[s] > 0)
        rank[stage->ranks++] = (hd_stage_rank){.rank = r,
                                               .pid = place[r].pid,
                                               .threads = all[r].threads[s],
                                               .shards = all[r].shards[s],
                                               .waited_s = 1e-9 * (double)all[r].waited_ns[s] / all[r].threads[s]};
  }
}

static hd_status gather(hd_stage_accounts *a, hd_ctx *ctx, const hd_session *session) {
  const hd_exec *exec = session->compute.exec;
  const hd_plan *plan = session->compute.plan;
  const int ranks = hd__cluster_ranks(exec->local), stages = plan->pipeline.stages.count;
  hd__stages_fini(a);
  if (stages == 1)
    return HD_OK;
  HD_TRY(hd__network_graph(&a->graph, ctx, &session->run.network));
  work this_rank = {{0}, {0}, {0}};
  HD_OWNED work *all = hd__calloc((size_t)ranks, sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the report of stages"));
  HD_TRY(read_work(&this_rank, ctx, exec));
  HD_TRY(hd__cluster_gather(all, exec->local, ctx, &this_rank, sizeof this_rank));
  HD_TRY(HD_NEW(a->of, stages, ctx, "out of memory for the report of stages"));
  HD_TRY(HD_NEW(a->rank, stages * ranks, ctx, "out of memory for the report of stages"));
  a->count = stages;
  fill(a, plan, session->report.places, all, ranks);
  return HD_OK;
}

void hd__stages_fini(hd_stage_accounts *a) {
  hd__graph_destroy(a->graph);
  hd__free(a->of);
  hd__free(a->rank);
  *a = (hd_stage_accounts){0};
}

hd_status hd__stages_note(hd_session *s, hd_ctx *ctx) {
  const int32_t file = s->compute.plan->graph->stages.count;
  const bool runs = s->compute.device.executor->runs_stages;
  hd_report *facts = &s->report.facts;
  HD_TRY(gather(&s->report.stages, ctx, s));
  facts->stages = s->report.stages.count;
  facts->stage = s->report.stages.of;
  if (file > 1 && facts->stages == 0 && s->run.settings->stage_count == 0 && runs)
    snprintf(s->report.device_note, sizeof s->report.device_note,
             "the %d stages of the model file need a thread each, found fewer: the network is not cut", file);
  return HD_OK;
}
