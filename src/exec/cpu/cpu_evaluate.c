/* Evaluation: forward and loss of every sample, exactly once. Each thread has a contiguous range. If each stage of the
 * network runs on one host, the samples pass from stage to stage instead, at most a batch of the executor at a time. */
#include "exec/cpu/cpu_executor_state.h"

typedef struct evaluation {
  hd_exec_cpu *exec;
  hd_step step;
  const hd_exec_outcome *out;
} evaluation;

static void evaluate_group(const thread_at *at, int64_t first, int64_t rows) {
  const hd_plan *plan = at->exec->plan;
  call_rows group = hd__exec_rows(at, rows, 0, first);
  group.origin[HD_AT_LABELS] = (hd_origin){.base = at->thread->targets};
  hd__exec_fetch_group(at, &group);
  for (int i = 0; i < plan->call_count; i++)
    hd__exec_call(at, &plan->calls[i], &group);
  hd__exec_note_outcome(at, &group);
}

static void evaluate_share(const thread_at *at) {
  const hd_exec_cpu *exec = at->exec;
  const int64_t begin = hd__tree_share(at->step->samples, exec->division.speed, exec->exchange.count, at->index);
  const int64_t end = hd__tree_share(at->step->samples, exec->division.speed, exec->exchange.count, at->index + 1);
  for (int64_t first = begin; first < end; first += exec->division.group_rows)
    evaluate_group(at, first, end - first < exec->division.group_rows ? end - first : exec->division.group_rows);
}

/* The layout of some samples is shared by the process: its first thread makes it while the others wait. False: a rank
 * is lost. */
static bool evaluate_in_stages(thread_at *at) {
  hd_exec_cpu *exec = at->exec;
  const int64_t most = exec->settings.batch, samples = at->step->samples;
  at->layout = exec->slots.layout[0];
  for (int64_t first = 0; first < samples; first += most) {
    if (at->index == exec->exchange.first) {
      hd__exec_layout(exec, 0, samples - first < most ? samples - first : most);
      exec->slots.layout[0]->first = first;
    }
    at->first_target = first;
    if (hd__exec_barrier(at, 0) & HD_BARRIER_BROKEN || !hd__exec_pipeline(at, exec->plan->phases) ||
        hd__exec_barrier(at, 0) & HD_BARRIER_BROKEN)
      return false;
  }
  return true;
}

static void publish(const thread_at *at) {
  hd_exec_cpu *exec = at->exec;
  const hd_exchange *x = &exec->exchange;
  int64_t first[HD_LOCAL_GROUP_MOST_RANKS + 1] = {0};
  for (int h = 1; h <= x->hosts; h++)
    first[h] = exec->stages.apart ? (h == x->hosts) * at->step->samples
                                  : hd__tree_share(at->step->samples, exec->division.speed, x->count, x->host_first[h]);
  hd__exec_publish_outcome(&exec->exchange, exec->result.outcome, first, &exec->plan->io);
}

static void evaluate_thread(void *arg, int local_index) {
  evaluation *e = arg;
  hd_exec_cpu *exec = e->exec;
  const int index = exec->exchange.first + local_index;
  thread_at at = {.exec = exec,
                  .index = index,
                  .thread = &exec->thread[index],
                  .step = &e->step,
                  .buffer = hd__store_buffer(exec->store)};
  int64_t began_ns = hd__clock_ns();
  uint32_t all = HD_BARRIER_BROKEN;
  at.thread->flags = 0;
  hd__exec_find_memory(&at);
  at.thread->origin[HD_AT_LOSSES].base = e->out->loss;
  hd__tally_start(at.thread->tally);
  if (!exec->stages.apart)
    evaluate_share(&at);
  if (!exec->stages.apart || evaluate_in_stages(&at)) {
    if (exec->exchange.hosts > 1 && hd__exec_leads(&at))
      publish(&at);
    all = hd__exchange_all(&exec->exchange, index - hd__exec_host_first(exec), at.thread->flags, false);
  }
  if (local_index == 0)
    exec->result.flags = all;
  hd__trace_event(at.thread->track, HD_SLICE_EVALUATE, (int32_t)e->step.samples, began_ns);
}

hd_status hd__exec_cpu_evaluate(void *self, hd_ctx *ctx, hd_exec_caller *caller, int64_t samples,
                                const hd_exec_outcome *out, uint32_t *flags) {
  hd_exec_cpu *exec = self;
  evaluation e = {.exec = exec, .step = {.samples = samples, .divisor = 1}, .out = out};
  exec->caller = caller;
  exec->result.outcome = out;
  HD_TRY(hd__threads_run(exec->threads, ctx, evaluate_thread, &e));
  *flags = exec->result.flags;
  return *flags & HD_BARRIER_BROKEN ? hd__local_group_check(exec->settings.local, ctx) : HD_OK;
}
