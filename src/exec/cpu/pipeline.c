/* A shards phase of a plan with several stages. Units of neighbouring shards are the pipeline's micro-batches and pass
 * from stage to stage.
 *
 * A stage's threads run their forward range of the phase and, later, their backward range. A thread begins a unit when
 * the threads of the stage before it have finished that unit's shards. With `1f1b` a thread first runs forward for as
 * many units as stages follow, then alternates one forward and one backward. With `gpipe` it runs forward for all
 * units, then backward. Both add the same sums in the same order.
 *
 *     stage 0    F0 F1    B0 F2 B1 F3 B2    B3
 *     stage 1       F0 B0 F1 B1 F2 B2 F3 B3
 *
 * Signals: each thread has two numbers in its host's shared memory, one for each stage range, that grow with every unit
 * it finishes. A unit reads the values of another stage from batch memory; values of a stage on another host are
 * received first (stage_hosts.c).
 *
 * Units begin at multiples of their size in every stage; a thread whose shards begin or end inside a unit runs part of
 * it. Deadlock is impossible: of the units whose backward is not finished in stage 0, the first waits only for its own
 * earlier ranges, and for forwards that wait only for backwards of earlier units. */
#include "exec/cpu/cpu_executor_state.h"

/* A wait may last as long as another stage's unit, which is longer than a wait at a barrier. */
enum { NUMBERS_PER_PHASE = 2 * HD_MAX_SHARDS, LONGER_SPINS = 16 };

typedef enum direction { FORWARD, BACKWARD, DIRECTIONS } direction;

int32_t hd__exec_arenas(const hd_exec_cpu *exec, int thread) {
  const int stage = exec->thread[thread].stage, later = exec->plan->pipeline.stages.count - 1 - stage;
  const int32_t *border = hd__exec_border(exec, stage) + thread;
  const int32_t units =
      border[1] > border[0] ? (border[1] - 1) / exec->stages.unit - border[0] / exec->stages.unit + 1 : 1;
  const bool whole = exec->own.schedule == HD_SCHEDULE_GPIPE && exec->plan->trains && later > 0;
  return whole || later >= units ? units : later + 1;
}

/* ---- Signals ---- */

int64_t hd__exec_lay_out_signals(hd_exec_cpu *exec, void *base) {
  const int lines = DIRECTIONS * hd__exchange_threads(&exec->exchange);
  if (exec->plan->pipeline.stages.count == 1)
    return 0;
  if (base)
    exec->stages.signals.line = base;
  return HD_BARRIER_LINES(lines) * (int64_t)sizeof *exec->stages.signals.line;
}

static void report_late(void *self, int line, int64_t waited_ns) {
  const hd_exec_cpu *exec = self;
  exec->exchange.watch.late(exec->exchange.watch.self, line / DIRECTIONS, waited_ns);
}

void hd__exec_open_signals(hd_exec_cpu *exec, bool crowded) {
  if (exec->plan->pipeline.stages.count == 1)
    return;
  exec->stages.watch = exec->exchange.watch;
  exec->stages.watch.late = report_late;
  exec->stages.watch.self = exec;
  hd__barrier_join(&exec->stages.signals, exec->stages.signals.line, DIRECTIONS * hd__exchange_threads(&exec->exchange),
                   crowded, exec->settings.local ? &exec->stages.watch : NULL);
  exec->stages.signals.wait.spins *= LONGER_SPINS;
}

static int line_of(const hd_exec_cpu *exec, int thread, direction way) {
  return DIRECTIONS * (thread - hd__exec_host_first(exec)) + (int)way;
}

/* The value of a thread's signal after it has finished a shard, which is counted from the micro-batch's first. */
static unsigned number_of(const thread_at *at, int32_t shard) {
  return at->thread->phases * NUMBERS_PER_PHASE + (unsigned)shard + 1;
}

/* ---- A thread's work ---- */

/* The next unit that a thread runs of a stage range. */
typedef struct position {
  const hd_stage_range *range; /* NULL: there is none */
  int unit;                    /* counted from the thread's first */
  int push, depth;             /* its first push, and the partial sums before it */
} position;

static direction way_of(const hd_plan *plan, const hd_phase *phase, const hd_stage_range *range) {
  for (const hd_stage_range *s = plan->pipeline.ranges + phase->range0; s < range; s++)
    if (s->stage == range->stage)
      return BACKWARD;
  return FORWARD;
}

/* A push's shard, counted from the micro-batch's first. */
static int32_t shard_of(const thread_at *at, int push) {
  return hd__exec_shard(at, &hd__exec_range(at)->pushes.step[push]);
}

/* The first push after a unit. */
static int end_of(const thread_at *at, int push) {
  const int count = hd__exec_range(at)->pushes.count, unit = at->exec->stages.unit;
  int end = push < count ? push + 1 : count;
  while (end < count && shard_of(at, end) / unit == shard_of(at, push) / unit)
    end++;
  return end;
}

/* Waits until a thread has finished a shard, forward or backward; false: a rank is lost. */
static bool await_shard(const thread_at *at, int thread, direction way, int32_t shard, int stage) {
  hd_exec_cpu *exec = at->exec;
  const int line = line_of(exec, thread, way);
  const unsigned number = number_of(at, shard);
  if (hd__barrier_has_come(&exec->stages.signals, line, number))
    return true;
  const int64_t began_ns = hd__clock_ns();
  hd__tally_end(at->thread->tally, HD_SPENT_COMPUTE);
  const bool came = hd__barrier_await(&exec->stages.signals, line, number);
  hd__tally_waited(at->thread->tally, hd__exchange_rank(&exec->exchange, thread - hd__exec_host_first(exec)));
  hd__trace_leaf(at->thread->track, HD_SLICE_BUBBLE, stage);
  exec->stages.work[at->index].waited_ns += hd__clock_ns() - began_ns;
  return came;
}

/* Waits until the previous stage range has finished the shards of the pushes [push, end). A range of an earlier phase
 * that ran on this host has finished them already. */
static bool await_unit(const thread_at *at, const hd_phase *phase, const hd_stage_range *range, int push, int end) {
  const hd_exec_cpu *exec = at->exec;
  const hd_stage_range *before = range - 1;
  if (range > exec->plan->pipeline.ranges && !hd__exec_has_stage(exec, before->stage))
    return hd__exec_receive_values(at, range, push, end, end_of(at, end));
  if (range == exec->plan->pipeline.ranges + phase->range0)
    return true;
  const int32_t *border = hd__exec_border(exec, before->stage);
  const direction way = way_of(exec->plan, phase, before);
  int thread = hd__exec_host_first(exec);
  for (; push < end; push++) {
    while (border[thread + 1] <= shard_of(at, push))
      thread++;
    const bool is_last = push + 1 == end || shard_of(at, push + 1) >= border[thread + 1];
    if (is_last && !await_shard(at, thread, way, shard_of(at, push), before->stage))
      return false;
  }
  return true;
}

/* Runs the next unit of a stage range. */
static bool advance(const thread_at *at, const hd_phase *phase, position *p) {
  hd_exec_cpu *exec = at->exec;
  const hd_reduction_step *step = hd__exec_range(at)->pushes.step;
  const int end = end_of(at, p->push);
  if (!await_unit(at, phase, p->range, p->push, end))
    return false;
  const hd_walk walk = hd__walk_steps(step + p->push, end - p->push, p->depth);
  hd__exec_run_group(at, phase, p->range, &walk, p->unit++ % at->thread->arenas);
  hd__barrier_signal(&exec->stages.signals, line_of(exec, at->index, way_of(exec->plan, phase, p->range)),
                     number_of(at, shard_of(at, end - 1)));
  exec->stages.work[at->index].shards += end - p->push;
  if (exec->stages.apart && !hd__exec_send_values(at, p->range, p->push, end))
    return false;
  for (; p->push < end; p->push++)
    p->depth += 1 - step[p->push].merges;
  return true;
}

static int count_units(const thread_at *at) {
  int units = 0;
  for (int push = 0; push < hd__exec_range(at)->pushes.count; push = end_of(at, push))
    units++;
  return units;
}

/* The stage ranges of the thread's stage in a phase. */
static void find_stage_ranges(position way[DIRECTIONS], const thread_at *at, const hd_phase *phase) {
  const hd_plan *plan = at->exec->plan;
  for (int s = phase->range0; s < phase->range1; s++)
    if (plan->pipeline.ranges[s].stage == at->thread->stage)
      way[way_of(plan, phase, &plan->pipeline.ranges[s])].range = &plan->pipeline.ranges[s];
}

bool hd__exec_pipeline(const thread_at *at, const hd_phase *phase) {
  const int count = count_units(at);
  position way[DIRECTIONS] = {{.range = NULL}};
  if (phase > at->exec->plan->phases)
    hd__exec_gather(at, phase - 1);
  find_stage_ranges(way, at, phase);
  at->thread->phases++;
  const int ahead = at->thread->arenas - 1;
  for (int i = 0; way[FORWARD].range && i < count + ahead; i++) {
    if (i < count && !advance(at, phase, &way[FORWARD]))
      return false;
    if (i >= ahead && way[BACKWARD].range && !advance(at, phase, &way[BACKWARD]))
      return false;
  }
  return !at->exec->stages.apart || hd__exec_finish_sends(at);
}
