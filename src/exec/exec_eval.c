/* Evaluation: forward and loss for samples in order, each exactly once, lanes taking contiguous ranges. */
#include <math.h>
#include <string.h>

#include "base/hdmath.h"
#include "exec/exec_cuda.h"
#include "exec/exec_state.h"

typedef struct evaluation {
  hd_exec *exec;
  hd_step step;
  const hd_exec_outcome *out;
} evaluation;

/* The first of the largest scores; a NaN counts as largest, as in the kernels. One score alone says yes above 0. */
static int32_t guess_of(const float *score, int32_t count) {
  int32_t best = 0;
  for (int32_t i = 1; i < count; i++)
    if (score[i] > score[best] || (isnan(score[i]) && !isnan(score[best])))
      best = i;
  return count == 1 ? score[0] > 0 : best;
}

static float probability_of(const float *score, int32_t count, int32_t guess) {
  double sum = 0;
  if (count == 1)
    return (float)(1 / (1 + hd__exp(-fabs((double)score[0]))));
  for (int32_t i = 0; i < count; i++)
    sum += hd__exp((double)score[i] - (double)score[guess]);
  return (float)(1 / sum);
}

void hd__exec_judge(const hd_exec_outcome *out, int64_t sample, const float *score, int32_t classes) {
  out->guess[sample] = guess_of(score, classes);
  if (out->probability)
    out->probability[sample] = probability_of(score, classes, out->guess[sample]);
  if (out->score)
    memcpy(out->score + sample * classes, score, (size_t)classes * sizeof *score);
}

static void evaluate_group(const lane_at *at, const evaluation *e, int64_t first, int64_t rows) {
  const hd_plan *plan = e->exec->plan;
  call_rows group = {.rows = rows, .batch_row = first, .losses = e->out->loss, .targets = at->lane->targets};
  hd__exec_fetch(at, &group);
  for (int i = 0; i < plan->call_count; i++)
    hd__exec_call(at, &plan->calls[i], &group);
  const float *score = hd__exec_rows_at(at, plan->graph->logits, &group);
  int32_t classes = plan->graph->values[plan->graph->logits].shape.dim[0];
  for (int64_t r = 0; r < rows; r++, score += plan->place[plan->graph->logits].stride)
    hd__exec_judge(e->out, first + r, score, classes);
}

static void evaluate_lane(void *arg, int own) {
  evaluation *e = arg;
  hd_exec *exec = e->exec;
  const int index = exec->first_lane + own;
  lane_at at = {
      .exec = exec, .index = index, .lane = &exec->lane[index], .step = &e->step, .half = hd__store_half(exec->store)};
  int64_t began_ns = hd__clock_ns();
  at.lane->flags = 0;
  int64_t begin = hd__tree_share(e->step.samples, exec->speed, exec->lane_count, index);
  int64_t end = hd__tree_share(e->step.samples, exec->speed, exec->lane_count, index + 1);
  for (int64_t first = begin; first < end; first += exec->group_rows) {
    int64_t rows = end - first < exec->group_rows ? end - first : exec->group_rows;
    evaluate_group(&at, e, first, rows);
  }
  uint32_t all = hd__exec_meet(&at, at.lane->flags);
  if (exec->hosts > 1 && !(all & HD_MEETING_BROKEN))
    all = hd__exec_cross_outcome(&at, e->out, all);
  if (own == 0)
    exec->last_flags = all;
  hd__trace_event(at.lane->track, HD_SLICE_EVALUATE, (int32_t)e->step.samples, began_ns);
}

hd_status hd__exec_evaluate(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver, int64_t samples,
                            const hd_exec_outcome *out) {
  evaluation e = {.exec = exec, .step = {.samples = samples, .divisor = 1}, .out = out};
  exec->driver = driver;
  HD_TRY(exec->cuda ? hd__exec_cuda_evaluate(exec->cuda, ctx, driver, samples, out, &exec->last_flags)
                    : hd__lanes_run(exec->lanes, ctx, evaluate_lane, &e));
  if (exec->last_flags & HD_MEETING_BROKEN)
    return hd__world_check(exec->settings.world, ctx);
  return exec->last_flags & HD_FLAG_NO_DATA ? hd__exec_why(exec, ctx, driver) : HD_OK;
}
