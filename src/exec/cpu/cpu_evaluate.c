/* Evaluation: forward and loss of every sample, exactly once; each thread has a contiguous range. */
#include "exec/cpu/cpu_executor_state.h"

typedef struct evaluation {
  hd_exec_cpu *exec;
  hd_step step;
  const hd_exec_outcome *out;
} evaluation;

static void evaluate_group(const thread_at *at, const evaluation *e, int64_t first, int64_t rows) {
  const hd_plan *plan = e->exec->plan;
  call_rows group = hd__exec_rows(at, rows, 0, first);
  group.origin[HD_AT_LOSSES].base = e->out->loss;
  group.origin[HD_AT_LABELS] = (hd_origin){.base = at->thread->targets};
  hd__exec_fetch_group(at, &group);
  for (int i = 0; i < plan->call_count; i++)
    hd__exec_call(at, &plan->calls[i], &group);
  const float *score = hd__place_at(&plan->logits, group.origin);
  for (int64_t r = 0; r < rows; r++, score += plan->logits.stride)
    hd__exec_write_outcome(e->out, first + r, score, (int32_t)plan->logits.elems);
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
  at.thread->flags = 0;
  hd__exec_find_memory(&at);
  int64_t begin = hd__tree_share(e->step.samples, exec->speed, exec->exchange.count, index);
  int64_t end = hd__tree_share(e->step.samples, exec->speed, exec->exchange.count, index + 1);
  for (int64_t first = begin; first < end; first += exec->group_rows) {
    int64_t rows = end - first < exec->group_rows ? end - first : exec->group_rows;
    evaluate_group(&at, e, first, rows);
  }
  if (exec->exchange.hosts > 1 && hd__exec_leads(&at))
    hd__exec_publish_outcome(&exec->exchange, e->out, e->step.samples, exec->speed, exec->plan->logits.elems);
  const uint32_t all = hd__exchange_all(&exec->exchange, index - hd__exec_host_first(exec), at.thread->flags, false);
  if (local_index == 0)
    exec->last_flags = all;
  hd__trace_event(at.thread->track, HD_SLICE_EVALUATE, (int32_t)e->step.samples, began_ns);
}

hd_status hd__exec_cpu_evaluate(void *self, hd_ctx *ctx, hd_exec_caller *caller, int64_t samples,
                                const hd_exec_outcome *out, uint32_t *flags) {
  hd_exec_cpu *exec = self;
  evaluation e = {.exec = exec, .step = {.samples = samples, .divisor = 1}, .out = out};
  exec->caller = caller;
  HD_TRY(hd__threads_run(exec->threads, ctx, evaluate_thread, &e));
  *flags = exec->last_flags;
  return *flags & HD_BARRIER_BROKEN ? hd__local_group_check(exec->settings.local, ctx) : HD_OK;
}
