/* Scores of views, their mean, and its losses and guesses: see view_evaluation.h. */
#include "train/inference/view_evaluation.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "platform/fpmode.h"

enum { LINE_ELEMS = 16 };

static int64_t whole_lines(int64_t elems) { return (elems + LINE_ELEMS - 1) / LINE_ELEMS * LINE_ELEMS; }

hd_status hd__views_open(hd_feed *feed, hd_ctx *ctx, hd_tta_choice tta, const char *data_name) {
  int count;
  const hd_view *const view = hd__views(&count, tta);
  feed->view = count > 1 ? view : NULL;
  if (count > 1 && feed->split->masks)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--tta %s expects one label for each sample, found a class for each pixel in "
                    "%s; leave it out",
                    hd_choice_name(HD_OPT_TTA, (int32_t)tta), data_name);
  if (count == 1 || !feed->split->flat)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "--tta %s expects images, found rows of numbers in %s; leave it out",
                  hd_choice_name(HD_OPT_TTA, (int32_t)tta), data_name);
}

static void add_scores(float *sum, const float *score, float share, int64_t elems, bool first) {
  for (int64_t i = 0; i < elems; i++)
    sum[i] = (first ? 0 : sum[i]) + share * score[i];
}

/* Losses and guesses of out->score. */
static hd_status judge(const hd_exec_outcome *out, hd_ctx *ctx, const hd_feed *feed, const hd_view_evaluation *is) {
  const hd_node *const loss = hd__graph_loss_node(is->plan->graph);
  const hd_kernels *const table = hd_kernels_for(is->kernels, loss->op, &loss->geom);
  const int64_t scores = is->plan->io.logits.elems, outputs = is->plan->io.target_outputs, slot = whole_lines(scores);
  HD_OWNED float *room = hd__malloc_aligned((size_t)(2 * slot + whole_lines(outputs + 1) + LINE_ELEMS) * sizeof *room);
  HD_OWNED void *scratch = hd__malloc_aligned((size_t)hd_scratch_bytes(is->kernels, loss->op, &loss->geom) + 1);
  HD_TRY(HD_ALLOCATED(room && scratch, ctx, "out of memory for the scores of views"));
  float *const score = room, *const weight = score + slot, *const value = weight + slot;
  float *const target = value + LINE_ELEMS;
  if (loss->in[2] >= 0)
    memcpy(weight, is->plan->graph->values[loss->in[2]].constant, (size_t)scores * sizeof *weight);
  const hd_call call = {.g = &loss->geom,
                        .rows = 1,
                        .in = {score, target, loss->in[2] >= 0 ? weight : NULL},
                        .out = {value},
                        .in_stride = {slot, whole_lines(outputs + 1)},
                        .out_stride = {1},
                        .scratch = scratch,
                        .divisor = 1};
  for (int64_t i = 0; i < feed->count; i++) {
    memcpy(score, out->score + i * scores, (size_t)scores * sizeof *score);
    hd__feed_target(target, feed, i, (int32_t)outputs);
    table->run[loss->op](&call);
    out->loss[i] = *value;
    hd__exec_write_outcome(out, i, score, &is->plan->io);
  }
  return HD_OK;
}

static hd_status evaluate(const hd_exec_outcome *out, hd_exec *exec, hd_ctx *ctx, hd_feed *feed,
                          const hd_view_evaluation *is, const hd_exec_outcome *views) {
  int count;
  const hd_view *const view = hd__views(&count, is->tta);
  const hd_step_source source = hd__feed_source(feed);
  hd_status status = HD_OK;
  for (int v = 0; v < count && status == HD_OK; v++) {
    feed->view = &view[v];
    status = hd__exec_evaluate(exec, ctx, &source, feed->count, views);
    if (status == HD_OK)
      add_scores(out->score, views->score, view[v].share, feed->count * is->plan->io.logits.elems, v == 0);
    HD_THEN(status, hd__local_group_barrier(exec->local, ctx)); /* the scores have been read */
  }
  feed->view = view;
  return status == HD_OK ? judge(out, ctx, feed, is) : status;
}

hd_status hd__evaluate_views(const hd_exec_outcome *out, hd_exec *exec, hd_ctx *ctx, hd_feed *feed,
                             const hd_view_evaluation *is) {
  if (is->tta == HD_TTA_NONE) {
    const hd_step_source source = hd__feed_source(feed);
    return hd__exec_evaluate(exec, ctx, &source, feed->count, out);
  }
  const int64_t samples = feed->count, scores = is->plan->io.logits.elems;
  HD_OWNED float *memory = is->views ? NULL : hd__malloc((size_t)(samples * (2 + scores)) * sizeof *memory);
  HD_TRY(HD_ALLOCATED(is->views || memory, ctx, "out of memory for the views of %lld samples", (long long)samples));
  hd_exec_outcome alone = {.loss = memory};
  if (memory) {
    alone.guess = (int32_t *)(void *)(memory + samples);
    alone.score = memory + 2 * samples;
  }
  const uint64_t mode = hd__fpmode_enter();
  const hd_status status = evaluate(out, exec, ctx, feed, is, is->views ? is->views : &alone);
  hd__fpmode_leave(mode);
  return status;
}
