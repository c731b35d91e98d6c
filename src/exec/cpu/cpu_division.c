/* How a step's work is divided: shards among threads, samples among the groups that a thread runs together, chunks
 * among their owners. None of it changes a bit (reduce/reduction_tree.h). */
#include <string.h>

#include "base/alloc.h"
#include "exec/cpu/cpu_executor_state.h"

/* A larger arena does not stay in a core's second-level cache while a group passes through the network. Weights larger
 * than CACHED_WEIGHTS do not either, so each of them should be used at least WANTED_PRODUCTS times when it is read. */
enum { ARENA_TARGET_BYTES = 640 << 10, CACHED_WEIGHTS = 256 << 10, WANTED_PRODUCTS = 64 };

/* A recurrent layer reads its weights for each place: from this many samples on not much longer than it computes. */
enum { ROWS_IN_TURN = 6 };

/* A larger arena is worth its memory only where all calls of a phase together would wait for weights otherwise. */
enum { ARENA_MOST_BYTES = 32 << 20, WAITING_SHARE = 4 };

/* Of a sample, in a phase: where the last of its calls' values in the arena ends. */
static int64_t phase_arena_bytes(const hd_plan *plan, const hd_phase *phase) {
  int64_t bytes = phase == plan->phases && plan->io.input.where == HD_AT_ARENA
                      ? plan->io.input.offset + plan->io.input.row_bytes
                      : 0;
  for (const hd_plan_call *call = plan->calls + phase->call0; call < plan->calls + phase->call1; call++)
    for (int i = 0; i < HD_MAX_IN + HD_MAX_OUT; i++) {
      const hd_place *place = i < HD_MAX_IN ? &call->in[i] : &call->out[i - HD_MAX_IN];
      const int64_t end = place->where == HD_AT_ARENA ? place->offset + place->row_bytes : 0;
      bytes = bytes > end ? bytes : end;
    }
  return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Whether phases have groups of different sizes. Stages keep values in their arenas from phase to phase, and guards lie
 * behind the values of one size. */
static bool has_phase_rows(const hd_plan *plan) {
  return plan->pipeline.stages.count == 1 && !plan->guarded && (plan->trains || plan->segments == 1);
}

int64_t hd__exec_arena_bytes(const hd_exec_cpu *exec, int thread) {
  const hd_plan *plan = exec->plan;
  int64_t most = 0;
  if (!has_phase_rows(plan))
    return exec->thread[thread].arenas * plan->size.stage_arena_bytes[exec->thread[thread].stage] *
           exec->division.group_rows;
  for (int p = 0; p < plan->segments; p++) {
    const int64_t bytes = exec->division.phase_rows[p] * phase_arena_bytes(plan, &plan->phases[p]);
    most = most > bytes ? most : bytes;
  }
  return exec->thread[thread].arenas * most;
}

/* Of a call that reads large weights, as they are or packed: how many floats, and the products that use them for a
 * sample. A packed copy that is k times as large as the weights is of Winograd's tiles, which need k times fewer. */
static int64_t large_weights(double *products, const hd_plan_call *call) {
  const int64_t elems = call->in[1].where == HD_AT_PARAM ? call->in[1].elems : 0;
  const int64_t read = elems > 0 && call->packed.elems > elems ? call->packed.elems : elems;
  const double larger = elems > 0 ? (double)read / (double)elems : 1;
  *products = (double)call->flops / 2 / larger;
  return *products > 0 && read > CACHED_WEIGHTS ? read : 0; /* an embedding reads rows of its table */
}

/* The number of samples in a group from which each of the weights of some calls is used often enough. */
static int64_t rows_for_weights(const hd_plan *plan, int call0, int call1) {
  int64_t rows = 1;
  for (const hd_plan_call *call = plan->calls + call0; call < plan->calls + call1; call++) {
    double products;
    if (call->in_turn && rows < ROWS_IN_TURN)
      rows = ROWS_IN_TURN;
    const double wanted = WANTED_PRODUCTS * (double)large_weights(&products, call);
    if ((double)rows * products < wanted)
      rows = (int64_t)(wanted / (products > 1 ? products : 1));
  }
  return rows;
}

/* The number from which all of them together are used often enough, at most `most`: what some calls lack does not
 * matter beside the products of all. */
static int64_t rows_for_all_weights(const hd_plan *plan, int call0, int call1, int64_t most) {
  int64_t rows = 0;
  double lacking, all;
  do {
    rows++;
    lacking = all = 0;
    for (const hd_plan_call *call = plan->calls + call0; call < plan->calls + call1; call++) {
      double products;
      const double wanted = WANTED_PRODUCTS * (double)large_weights(&products, call);
      const double lacks = wanted - (double)rows * products;
      lacking += lacks > 0 ? lacks : 0;
      all += (double)rows * products;
    }
  } while (rows < most && WAITING_SHARE * lacking > all);
  return rows;
}

/* Shards pass from stage to stage one by one, or several together if large weights are read for each: in at least twice
 * as many units as there are stages, so that the stages work at the same time. */
static int32_t unit_of_stages(const hd_exec_cpu *exec, int64_t largest) {
  const int32_t shards = exec->settings.shards / exec->settings.micro_batches;
  const int64_t wanted = rows_for_weights(exec->plan, 0, exec->plan->call_count);
  int32_t unit = 1;
  while (unit * largest < wanted && shards / (2 * unit) >= 2 * exec->plan->pipeline.stages.count)
    unit *= 2;
  return unit;
}

/* Bytes that a sample has in batch memory for some calls. */
static int64_t batch_bytes(const hd_plan *plan, int call0, int call1) {
  int64_t bytes = 0, last = -1;
  for (const hd_plan_call *call = plan->calls + call0; call < plan->calls + call1; call++)
    for (int i = 0; i < HD_MAX_IN + HD_MAX_OUT; i++) {
      const hd_place *place = i < HD_MAX_IN ? &call->in[i] : &call->out[i - HD_MAX_IN];
      if (place->where == HD_AT_BATCH && place->offset != last)
        bytes += place->row_bytes;
      last = place->where == HD_AT_BATCH ? place->offset : last;
    }
  return bytes;
}

/* Samples of a group for some calls that need `arena` bytes a sample, if a thread has `rows` of them. `beside`: bytes
 * of a sample that should be in the cache too. */
static int64_t wanted_rows(const hd_plan *plan, const int call[2], int64_t arena, int64_t beside, int64_t largest,
                           int64_t rows) {
  int64_t wanted = rows_for_weights(plan, call[0], call[1]);
  if (wanted * arena > ARENA_MOST_BYTES)
    wanted = rows_for_all_weights(plan, call[0], call[1], wanted);
  const int64_t fitting = arena + beside > 0 ? ARENA_TARGET_BYTES / (arena + beside) : rows;
  wanted = wanted > largest ? wanted : largest;
  wanted = wanted > fitting ? wanted : fitting;
  return rows < wanted ? rows : wanted;
}

static void choose_phase_rows(hd_exec_cpu *exec, int64_t largest, int64_t rows) {
  const hd_plan *plan = exec->plan;
  const int all[2] = {0, plan->call_count};
  int64_t *group = &exec->division.group_rows;
  const bool varies = has_phase_rows(plan);
  *group = varies                            ? 0
           : plan->pipeline.stages.count > 1 ? exec->stages.unit * largest
                                             : wanted_rows(plan, all, plan->size.arena_bytes, 0, largest, rows);
  for (int p = 0; p < plan->segments; p++) {
    const hd_phase *phase = &plan->phases[p];
    const int call[2] = {phase->call0, phase->call1};
    const int64_t beside = plan->segments > 1 ? batch_bytes(plan, call[0], call[1]) : 0;
    exec->division.phase_rows[p] =
        varies ? wanted_rows(plan, call, phase_arena_bytes(plan, phase), beside, largest, rows) : *group;
  }
  for (int p = 0; p < plan->segments; p++)
    *group = *group > exec->division.phase_rows[p] ? *group : exec->division.phase_rows[p];
}

static void choose_group_rows(hd_exec_cpu *exec) {
  int64_t largest = (exec->settings.batch + exec->settings.shards - 1) / exec->settings.shards;
  int64_t rows = 1;
  exec->stages.unit = unit_of_stages(exec, largest);
  for (int l = 0; l < exec->exchange.count; l++)
    if (rows < (exec->division.border[l + 1] - exec->division.border[l]) * largest)
      rows = (exec->division.border[l + 1] - exec->division.border[l]) * largest;
  if (!exec->plan->trains && exec->plan->pipeline.stages.count == 1)
    largest = 1; /* nothing is summed over shards */
  choose_phase_rows(exec, largest, rows);
}

void hd__exec_distribute_shards(hd_exec_cpu *exec) {
  exec->batch.target_bytes = exec->plan->io.label.row_bytes;
  if (exec->plan->gathers)
    exec->settings.micro_batches = 1; /* the whole batch goes through a phase together */
  hd__exec_divide_shards(exec);
  choose_group_rows(exec);
}

/* The chunks of a stage's parameters are owned by its threads; every host with the stage has all of them. */
static void distribute_chunks_of(hd_exec_cpu *exec, const int64_t *weight, int stage) {
  const hd_plan *plan = exec->plan;
  int32_t lo = 0, hi;
  int begin, end;
  while (lo < plan->chunk_count && plan->params[plan->chunks[lo].param].stage < stage)
    lo++;
  for (hi = lo; hi < plan->chunk_count && plan->params[plan->chunks[hi].param].stage == stage;)
    hi++;
  hd__exec_threads_of_stage(&begin, &end, exec, exec->exchange.host, stage);
  const hd_thread_speeds speeds = {exec->division.speed ? exec->division.speed + begin : NULL, end - begin};
  for (int l = begin; l < end; l++) {
    thread_state *thread = &exec->thread[l];
    hd__tree_split(&thread->chunk_lo, &thread->chunk_hi, weight + lo, hi - lo, speeds, l - begin);
    thread->chunk_lo += lo;
    thread->chunk_hi += lo;
  }
}

/* What the owner of a chunk does: an element of a packed copy costs about as much as the sum of two. Copies of few rows
 * are mostly padding, which is not written; those of Winograd's tiles are four times as large as the weights. */
static int64_t chunk_weight(const hd_plan *plan, const hd_chunk *chunk) {
  enum { LARGEST = 4 };
  const hd_plan_param *param = &plan->params[chunk->param];
  const int64_t rows = chunk->j1 - chunk->j0, most = LARGEST * rows * param->columns;
  int64_t packed = 0;
  for (const hd_plan_packed *copy = plan->packed; copy < plan->packed + plan->packed_count; copy++)
    if (copy->param == chunk->param) {
      const int64_t elems = copy->elems * rows / param->rows;
      packed += elems < most ? elems : most;
    }
  return chunk->weight + packed;
}

hd_status hd__exec_distribute_chunks(hd_exec_cpu *exec, hd_ctx *ctx) {
  const hd_plan *plan = exec->plan;
  int64_t *weight = hd__malloc((size_t)plan->chunk_count * sizeof *weight + 1);
  HD_TRY(HD_ALLOCATED(weight, ctx, "out of memory while assigning chunks"));
  for (int c = 0; c < plan->chunk_count; c++)
    weight[c] = chunk_weight(plan, &plan->chunks[c]);
  for (int s = 0; s < plan->pipeline.stages.count; s++)
    distribute_chunks_of(exec, weight, s);
  hd__free(weight);
  return HD_OK;
}

hd_status hd__exec_take_threads(hd_exec_cpu *exec, hd_ctx *ctx) {
  size_t threads = (size_t)exec->exchange.count, stages = (size_t)exec->plan->pipeline.stages.count;
  exec->thread = hd__malloc_aligned(threads * sizeof *exec->thread);
  exec->division.border =
      hd__malloc((stages * (threads + 1) + (size_t)exec->exchange.hosts + 1) * sizeof *exec->division.border);
  HD_TRY(
      HD_ALLOCATED(exec->thread && exec->division.border, ctx, "out of memory for %d threads", exec->exchange.count));
  HD_TRY(HD_NEW(exec->division.phase_rows, exec->plan->segments, ctx, "out of memory for the phases"));
  memset(exec->thread, 0, threads * sizeof *exec->thread);
  return hd__exec_number_stages(exec, ctx);
}
