/* Evaluation on GPUs: forward and loss, each GPU a contiguous range of the samples, in groups of the batch's size. */
#include <string.h>

#include "exec/gpu/gpu_executor_state.h"
#include "reduce/reduction_tree.h"

static hd_status begin_group(uint32_t *flags, hd_exec_cuda *x, hd_ctx *ctx, hd_exec_caller *caller,
                             const cuda_step_rows *group) {
  cuda_inlet *inlet = &x->inlet[0];
  const hd_micro_batch whole_batch = hd__tree_micro_batch(group->rows, x->share->shards, 1, 0);
  hd_range_plan whole;
  hd__tree_range(&whole, &whole_batch, 0, x->share->shards);
  HD_TRY(hd__exec_cuda_fetch(flags, x, ctx, caller, group, inlet));
  if (*flags & HD_FLAG_NO_DATA)
    return HD_OK;
  hd__exec_cuda_describe(inlet->host.step, group->step, 0, group->rows, group->rows, &whole.pushes);
  HD_TRY(hd__exec_cuda_launch_step(x, ctx, inlet));
  return hd__exec_cuda_mark_used(x, ctx, inlet);
}

static hd_status end_group(hd_exec_cuda *x, hd_ctx *ctx, int64_t first, int64_t rows, const hd_exec_outcome *out) {
  const hd_plan_io *io = &x->plan->io;
  const hd_place *logits = &io->logits;
  const int32_t *label = (const int32_t *)(const void *)x->inlet[0].host.target;
  hd__cuda_use(x->cuda);
  HD_TRY(hd__exec_cuda_download(x, ctx, x->host_scores, hd__exec_cuda_at(x, logits), rows * logits->row_bytes));
  HD_TRY(hd__exec_cuda_download(x, ctx, x->host_losses, x->losses, rows * (int64_t)sizeof(float)));
  HD_TRY(hd__exec_cuda_wait(x, ctx));
  memcpy(out->loss + first, x->host_losses, (size_t)rows * sizeof *out->loss);
  for (int64_t r = 0; r < rows; r++)
    if (io->places > 0)
      hd__exec_write_places(out, first + r, x->host_scores + r * logits->stride, io, label + r * io->label.stride);
    else
      hd__exec_write_outcome(out, first + r, x->host_scores + r * logits->stride, io);
  return HD_OK;
}

/* Group `group` of the samples that a GPU evaluates; false: there is none. */
static bool group_of(int64_t *first, int64_t *rows, const hd_exec_cuda *x, int64_t samples, int64_t group) {
  int64_t begin, end;
  hd__cuda_share_evaluates(&begin, &end, x->share, x->number, samples);
  *first = begin + group * x->settings.batch;
  *rows = end - *first < x->settings.batch ? end - *first : x->settings.batch;
  return *first < end;
}

typedef struct evaluation {
  hd_exec_caller *caller;
  hd_step step;
  const hd_exec_outcome *out;
  uint32_t flags;
} evaluation;

/* All GPUs compute at the same time; *more: whether any GPU had a group. */
static hd_status evaluate_groups(bool *more, evaluation *e, hd_exec_cuda *all, hd_ctx *ctx, int64_t group) {
  cuda_step_rows at = {.step = &e->step};
  *more = false;
  for (hd_exec_cuda *x = all; x; x = x->next)
    if (group_of(&at.first, &at.rows, x, e->step.samples, group))
      HD_TRY(begin_group(&e->flags, x, ctx, e->caller, &at));
  for (hd_exec_cuda *x = all; x && !e->flags; x = x->next)
    if (group_of(&at.first, &at.rows, x, e->step.samples, group)) {
      HD_TRY(end_group(x, ctx, at.first, at.rows, e->out));
      *more = true;
    }
  return HD_OK;
}

hd_status hd__exec_cuda_evaluate(void *self, hd_ctx *ctx, hd_exec_caller *caller, int64_t samples,
                                 const hd_exec_outcome *out, uint32_t *flags) {
  hd_exec_cuda *all = self;
  evaluation e = {.caller = caller, .step = {.samples = samples, .divisor = 1}, .out = out};
  const int64_t began_ns = hd__clock_ns();
  *flags = 0;
  for (const hd_exec_cuda *x = all; x; x = x->next)
    HD_TRY(hd__exec_cuda_upload_weights(x, ctx));
  bool more = true;
  for (int64_t group = 0; more && !e.flags; group++)
    HD_TRY(evaluate_groups(&more, &e, all, ctx, group));
  *flags = e.flags;
  HD_TRY(hd__cuda_share_outcome(all->share, ctx, out, samples, &all->plan->io, flags));
  hd__trace_event(hd__exec_cuda_host_track(all), HD_SLICE_EVALUATE, (int32_t)samples, began_ns);
  return HD_OK;
}
