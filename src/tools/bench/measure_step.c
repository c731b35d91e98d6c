/* A model's training step against the machine's limits.
 *
 * The speed is that of a rehearsal: the session's steps on separate threads, complete but without saving. Where the
 * time goes is measured on one thread, in turns of steps through a probe. All rows come from the fastest turn, so they
 * add up to its step: the time outside of probed calls is the row "other".
 *
 * All steps have the same number of samples: a turn of one slow step, were it the shorter last step of an epoch, would
 * be the fastest turn and show less work than the rows are said to do. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "tools/bench/machine_limits.h"
#include "tools/bench/kernel_probe.h"
#include "op/op.h"
#include "platform/clock.h"
#include "train/run/rehearsal.h"
#include "train/run/session.h"
#include "tools/tune/scaling.h"

/* With slow steps the time is up after fewer turns, at least LEAST_TURNS of all threads and one of a single thread. */
enum { THREAD_TURNS = 41, TURNS = 9, LEAST_TURNS = 3, COUNTED_STEPS = 10, EXTRA_ROWS = 5 };

typedef struct experiment {
  hd_session *session;
  hd_config *config; /* with the number of threads that the session chose */
  hd_probe probe;
  hd_bench_step_result *out;
  double least_s;       /* a step of the fastest turn of one thread, clock readings included */
  double cpu_s, wall_s; /* of all turns of one thread */
} experiment;

/* Leaves out the last, shorter batch of an epoch. */
static void keep_whole_batches(hd_session *s) {
  const int64_t whole = s->input.train.count / s->run.batch;
  s->run.steps_per_epoch = whole > 0 ? whole : 1;
}

static hd_status open_session(experiment *e, hd_ctx *ctx, const hd_config *config) {
  char threads[16];
  HD_TRY(hd__rehearsal_check(ctx, config));
  HD_TRY(hd__session_create(&e->session, ctx, config, &(hd_session_use){.rehearses = true, .lock = -1}));
  hd_session *s = e->session;
  keep_whole_batches(s);
  snprintf(threads, sizeof threads, "%d", s->report.facts.threads);
  HD_TRY(hd__config_copy(&e->config, ctx, config));
  HD_TRY(hd_config_set(e->config, ctx, "threads", threads));
  hd__exec_destroy(s->compute.exec); /* frees the CPUs to which its threads are bound */
  hd__exec_destroy(s->compute.eval_exec);
  hd__threads_destroy(s->compute.threads);
  s->compute.exec = s->compute.eval_exec = NULL;
  s->compute.threads = NULL;
  hd__store_unpack(s->compute.store); /* rehearsals have copies of their own */
  hd__feed_shuffle(&s->input.train, (uint64_t)s->report.facts.seed, 0);
  return HD_OK;
}

/* On the CPUs where a run would place its threads. */
static hd_status rehearse(hd_rehearsal **out, experiment *e, hd_ctx *ctx, int count) {
  hd_placement_request request = hd__config_placement(e->session->run.config);
  hd_placement *place;
  hd_threads *threads;
  request.threads = count;
  *out = NULL;
  HD_TRY(hd__threads_place(&place, ctx, &request));
  hd_status status = hd__threads_create(&threads, ctx, place);
  hd_placement_destroy(place);
  return status == HD_OK ? hd__rehearsal_create(out, ctx, e->session, threads, request.workers) : status;
}

static bool another_turn(int turn, int least, int most, double end_s) {
  return turn < least || (turn < most && hd__clock_s() < end_s);
}

/* Speed on all threads, in short turns, since the load of other programs varies. */
static hd_status measure_threads(experiment *e, hd_ctx *ctx, double seconds) {
  hd_bench_step_result *r = e->out;
  hd_rehearsal *rehearsal;
  double speed[THREAD_TURNS];
  HD_TRY(rehearse(&rehearsal, e, ctx, e->session->report.facts.threads));
  r->threads = hd__rehearsal_threads(rehearsal);
  const double end_s = hd__clock_s() + 2 * seconds; /* turns take longer than requested on a busy machine */
  hd_status status = hd__rehearsal_time(&speed[0], rehearsal, ctx, seconds / THREAD_TURNS); /* warms up */
  for (int t = 0; status == HD_OK && another_turn(t, LEAST_TURNS, THREAD_TURNS, end_s); r->turns = ++t) {
    status = hd__rehearsal_time(&speed[t], rehearsal, ctx, seconds / THREAD_TURNS);
    r->best = speed[t] > r->best ? speed[t] : r->best;
  }
  hd__rehearsal_destroy(rehearsal);
  if (status != HD_OK)
    return status;
  hd_median median = hd__median(speed, r->turns);
  r->samples_per_s = median.value;
  r->low = median.low;
  r->high = median.high;
  return HD_OK;
}

static double value_bytes(const experiment *e, int index, double calls) {
  const hd_value *v = &e->session->compute.plan->graph->values[index];
  double bytes = (double)hd__value_stride(v) * hd__dtype_bytes(v->dtype);
  bool rows = v->kind == HD_VALUE_ROWS || v->kind == HD_VALUE_INPUT || v->kind == HD_VALUE_LABEL;
  return bytes * (rows ? (double)e->out->batch : calls);
}

static double node_bytes(const experiment *e, const hd_node *node, double calls) {
  double bytes = 0;
  for (int i = 0; i < HD_MAX_IN; i++)
    bytes += node->in[i] >= 0 ? value_bytes(e, node->in[i], calls) : 0;
  for (int i = 0; i < HD_MAX_OUT; i++)
    bytes += node->out[i] >= 0 ? value_bytes(e, node->out[i], calls) : 0;
  return bytes;
}

/* Bytes of an output that takes an input's place: it moves with the input. */
static double bytes_in_place(const experiment *e, const hd_node *node, double calls) {
  const hd_place *place = e->session->compute.plan->place;
  if (node->out[0] < 0 || node->in[0] < 0 || !hd__op_works_in_place(node->op))
    return 0;
  const hd_place *in = &place[node->in[0]], *out = &place[node->out[0]];
  return in->where == out->where && in->offset == out->offset ? value_bytes(e, node->out[0], calls) : 0;
}

/* Describes a node's work in a step. A gradient that is formed in tiles reads and writes everything once. */
static void describe_node(experiment *e, const hd_node *node, const hd_probe_sum *sum, int64_t steps, hd_bench_op *op) {
  bool formed = hd__op_info(node->op)->class == HD_CLASS_REDUCE && hd_form_for(e->probe.inner, node->op, &node->geom);
  snprintf(op->name, sizeof op->name, "%s", node->name);
  op->op = hd__op_info(node->op)->name;
  op->calls = sum->calls / steps;
  op->flops = (double)hd__op_flops(node->op, &node->geom) * (double)e->out->batch;
  op->executed_flops = op->flops * hd__bench_executed_share(node->op, &node->geom, sum->live_rows / sum->rows,
                                                            e->session->report.facts.precision == HD_PRECISION_BF16);
  const double calls = formed ? 1 : (double)op->calls;
  op->bytes = node_bytes(e, node, calls) - bytes_in_place(e, node, calls);
  op->bytes_at_once = op->bytes / calls;
}

/* Work over all parameters or samples touches the same bytes again only a step later. */
static void describe_sum(const char *name, const char *what, const hd_probe_sum *sum, int64_t steps, hd_bench_op *op) {
  snprintf(op->name, sizeof op->name, "%s", name);
  op->op = what;
  op->calls = sum->calls / steps;
  op->bytes = op->bytes_at_once = sum->bytes / (double)steps;
}

/* Lists a row for everything that was called, in a fixed order; with `times`, sets only the times. Returns the number
 * of calls. */
static int64_t list_rows(experiment *e, int64_t steps, bool times) {
  const hd_graph *graph = e->session->compute.plan->graph;
  const struct {
    const char *name, *op;
    const hd_probe_sum *sum;
  } others[] = {{"gather", "gather", &e->probe.gathers},
                {"reduce", "reduce", &e->probe.reductions},
                {"update", hd__op_info(e->probe.plan->update.groups[0].update)->name, &e->probe.updates},
                {"pack", "pack", &e->probe.packs}};
  int64_t calls = 0;
  e->out->op_count = 0;
  for (int i = 0; i < graph->node_count + (int)(sizeof others / sizeof *others); i++) {
    const int other = i - graph->node_count;
    const hd_probe_sum *sum = other < 0 ? &e->probe.node[i] : others[other].sum;
    calls += sum->calls;
    if (sum->calls < steps)
      continue;
    hd_bench_op *op = &e->out->ops[e->out->op_count++];
    if (times)
      op->s = sum->s / (double)steps;
    else if (other < 0)
      describe_node(e, &graph->nodes[i], sum, steps, op);
    else
      describe_sum(others[other].name, others[other].op, sum, steps, op);
  }
  return calls;
}

/* Runs steps through the probe, on the calling thread. Workers gather on threads that have no probe. */
static hd_status probed_steps(experiment *e, hd_ctx *ctx, hd_rehearsal *rehearsal, int64_t steps) {
  hd_session *s = e->session;
  hd__probe_restart(&e->probe);
  if (s->run.settings->workers == 0)
    s->input.train.kernels = &e->probe.table;
  hd__plan_set_kernels(s->compute.plan, &e->probe.table);
  hd__probe_enter(&e->probe);
  hd_status status = hd__rehearsal_steps(rehearsal, ctx, steps);
  hd__probe_leave();
  hd__plan_set_kernels(s->compute.plan, e->probe.inner);
  s->input.train.kernels = e->probe.inner;
  return status;
}

static hd_status make_rows(experiment *e, hd_ctx *ctx, hd_rehearsal *rehearsal, int64_t steps) {
  int most = e->session->compute.plan->graph->node_count + EXTRA_ROWS;
  e->out->ops = hd__calloc((size_t)most, sizeof *e->out->ops);
  HD_TRY(HD_ALLOCATED(e->out->ops, ctx, "out of memory for a measurement"));
  e->probe.counting = true;
  HD_TRY(probed_steps(e, ctx, rehearsal, steps));
  e->probe.counting = false;
  list_rows(e, steps, false);
  return HD_OK;
}

/* Keeps the rows of the fastest turn. Each call reads the clock twice. */
static hd_status time_turn(experiment *e, hd_ctx *ctx, hd_rehearsal *rehearsal, int64_t steps) {
  hd_bench_step_result *r = e->out;
  const double start_cpu_s = hd__clock_thread_s(), start_s = hd__clock_s();
  HD_TRY(probed_steps(e, ctx, rehearsal, steps));
  const double wall_s = hd__clock_s() - start_s, step_s = wall_s / (double)steps;
  e->wall_s += wall_s;
  e->cpu_s += hd__clock_thread_s() - start_cpu_s;
  if (e->least_s > 0 && step_s >= e->least_s)
    return HD_OK;
  e->least_s = step_s;
  r->thread_step_s = step_s - 2 * e->probe.tick_s * (double)list_rows(e, steps, true) / (double)steps;
  return HD_OK;
}

static hd_status measure_rows(experiment *e, hd_ctx *ctx, hd_rehearsal *rehearsal, double seconds) {
  const hd_bench_step_result *r = e->out;
  const double step_s = (double)r->batch * r->threads / r->samples_per_s, end_s = hd__clock_s() + seconds;
  const int64_t steps = (int64_t)(seconds / TURNS / step_s) + 1;
  HD_TRY(make_rows(e, ctx, rehearsal, steps < COUNTED_STEPS ? steps : COUNTED_STEPS));
  for (int t = 0; another_turn(t, 1, TURNS, end_s); t++)
    HD_TRY(time_turn(e, ctx, rehearsal, steps));
  return HD_OK;
}

/* The rest of a step goes to the last row. */
static void conclude(experiment *e) {
  hd_bench_step_result *r = e->out;
  double sum = 0;
  for (int i = 0; i < r->op_count; i++) {
    hd_bench_op *op = &r->ops[i];
    sum += op->s;
    hd__bench_bound(op, r->machine);
    r->flops += op->flops / (double)r->batch;
    r->executed_flops += op->executed_flops / (double)r->batch;
  }
  r->thread_step_s = r->thread_step_s > sum ? r->thread_step_s : sum;
  r->ops[r->op_count++] = (hd_bench_op){.name = "other", .op = "", .s = r->thread_step_s - sum, .level = -1};
  r->cpu_share = e->session->run.settings->workers > 0 ? NAN : e->cpu_s / e->wall_s;
}

static hd_status measure_ops(experiment *e, hd_ctx *ctx, double seconds) {
  hd_rehearsal *rehearsal = NULL;
  HD_TRY(hd__probe_init(&e->probe, ctx, e->session->compute.plan));
  hd_status status = rehearse(&rehearsal, e, ctx, 1);
  HD_THEN(status, measure_rows(e, ctx, rehearsal, seconds));
  hd__rehearsal_destroy(rehearsal);
  hd__probe_fini(&e->probe);
  return status;
}

static hd_status run(experiment *e, hd_ctx *ctx, const hd_config *config, double seconds) {
  HD_TRY(open_session(e, ctx, config));
  const hd_report *report = &e->session->report.facts;
  snprintf(e->out->model, sizeof e->out->model, "%s", report->model);
  snprintf(e->out->data, sizeof e->out->data, "%s", report->data);
  snprintf(e->out->isa, sizeof e->out->isa, "%s", report->isa);
  e->out->batch = report->batch < e->session->input.train.count ? report->batch : e->session->input.train.count;
  HD_TRY(hd__bench_machine_measure(&e->out->machine, ctx, e->config));
  HD_TRY(measure_threads(e, ctx, seconds * 2 / 3));
  HD_TRY(measure_ops(e, ctx, seconds / 3));
  HD_TRY(hd__bench_machine_measure(&e->out->machine, ctx, e->config));
  conclude(e);
  return HD_OK;
}

hd_status hd_bench_step(hd_bench_step_result **out, hd_ctx *ctx, const hd_config *config, double seconds) {
  *out = NULL;
  HD_TRY(hd__bench_check_seconds(ctx, seconds));
  experiment e = {.out = hd__calloc(1, sizeof *e.out)};
  HD_TRY(HD_ALLOCATED(e.out, ctx, "out of memory for a measurement"));
  hd_status status = run(&e, ctx, config, seconds);
  hd_config_destroy(e.config);
  hd_session_destroy(e.session);
  *out = e.out;
  return HD_CREATED(status, out, hd_bench_step_destroy);
}

void hd_bench_step_destroy(hd_bench_step_result *result) {
  if (!result)
    return;
  hd__free((void *)result->machine);
  hd__free(result->ops);
  hd__free(result);
}
