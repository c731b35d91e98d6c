/* Evaluating and digesting checkpoints without training. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rounding.h"
#include "base/sized_struct.h"
#include "data/split/skipped_samples.h"
#include "heddle.h"
#include "onnx/onnx.h"
#include "platform/thread_start.h"
#include "train/checkpoint/checkpoint.h"
#include "train/records/metric.h"
#include "train/records/output_scores.h"
#include "train/records/pixel_score.h"
#include "data/feed/feed.h"
#include "train/inference/trained_model.h"
#include "train/run/program_loss.h"
#include "train/settings/run_record.h"

/* The resources of an evaluation of a checkpoint. */
typedef struct evaluator {
  hd_trained trained;
  hd_dataset *data;
  hd_feed feed;
  hd_evaluated part;
  hd_exec_outcome outcome;
} evaluator;

static hd_status open_all(evaluator *e, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  HD_TRY(hd__trained_open(&e->trained, ctx, checkpoint, config));
  HD_TRY(hd__record_check_loss(ctx, e->trained.record, config, checkpoint));
  HD_TRY(hd__program_check(&e->trained.network, ctx, config));
  HD_TRY(hd__trained_data(&e->data, &e->part, ctx, &e->trained, config));
  const hd_split *test = hd__dataset_test(e->data);
  HD_TRY(hd__trained_feed(&e->feed, ctx, &e->trained, test, HD_PIPELINE_EVALUATION));
  e->outcome.loss = hd__malloc((size_t)test->count * sizeof *e->outcome.loss);
  e->outcome.guess = hd__malloc((size_t)test->count * sizeof *e->outcome.guess);
  const hd_target *target = &e->trained.network.target;
  if (target->places == 0)
    e->outcome.score = hd__malloc((size_t)test->count * (size_t)target->scores * sizeof(float));
  if (test->masks)
    e->outcome.classes = hd__malloc((size_t)(test->count * target->places));
  return HD_ALLOCATED(e->outcome.loss && e->outcome.guess && (e->outcome.score || target->places > 0) &&
                          (e->outcome.classes || !test->masks),
                      ctx, "out of memory for the evaluation");
}

/* Scores of outputs: of a regression, or of labels when a sample may have several. */
static hd_status score_outputs(hd_evaluation *out, hd_ctx *ctx, const evaluator *e) {
  hd_output_scores scores;
  const hd_status status = hd__output_scores(&scores, ctx, &e->trained.network.target, &e->feed, &e->outcome);
  out->outputs = scores.count;
  out->output = scores.output;
  out->f1 = scores.mean.f1;
  out->auc = scores.mean.auc;
  out->r2 = scores.mean.r2;
  out->mean_absolute_error = scores.mean.mean_absolute_error;
  out->root_mean_square_error = scores.mean.root_mean_square_error;
  out->f1_micro = scores.f1_micro;
  out->auc_micro = scores.auc_micro;
  return status;
}

static hd_status score_classes(hd_evaluation *out, hd_ctx *ctx, const evaluator *e, const hd_score *score) {
  const hd_target *target = &e->trained.network.target;
  HD_TRY(hd__metric(&out->f1, ctx, HD_METRIC_F1, target, &e->feed, &e->outcome, score));
  HD_TRY(hd__metric(&out->auc, ctx, HD_METRIC_AUC, target, &e->feed, &e->outcome, score));
  out->r2 = out->mean_absolute_error = out->root_mean_square_error = out->f1_micro = out->auc_micro = NAN;
  return HD_OK;
}

/* In one piece of memory; NULL for a class that the data did not have. */
static hd_status copy_names(hd_evaluation *out, hd_ctx *ctx, const hd_trained *t) {
  const int32_t named = t->class_names < out->classes ? t->class_names : out->classes;
  size_t bytes = (size_t)out->classes * sizeof *out->class_names;
  if (named == 0)
    return HD_OK;
  for (int32_t c = 0; c < named; c++)
    bytes += strlen(t->class_name[c]) + 1;
  HD_TRY(HD_ALLOCATED(out->class_names = hd__calloc(1, bytes), ctx, "out of memory for the names of classes"));
  char *text = (char *)(out->class_names + out->classes);
  for (int32_t c = 0; c < named; c++) {
    out->class_names[c] = strcpy(text, t->class_name[c]);
    text += strlen(text) + 1;
  }
  return HD_OK;
}

/* The counts of classes, of pixels, from the confusion matrix; and IoU. */
static hd_status count_pixels(hd_evaluation *out, hd_ctx *ctx, const evaluator *e) {
  hd_pixel_counts counts;
  HD_TRY(HD_NEW(out->class_iou, out->classes + 1, ctx, "out of memory for the evaluation"));
  hd__pixels_count(&counts, out->confusion, &e->trained.network.target, &e->feed, &e->outcome);
  for (int32_t c = 0; c < out->classes; c++) {
    out->class_samples[c] = counts.labels[c];
    out->class_right[c] = counts.right[c];
    out->class_iou[c] = hd__pixels_iou(&counts, c);
  }
  return HD_OK;
}

static hd_status count_guesses(hd_evaluation *out, hd_ctx *ctx, const evaluator *e) {
  const hd_split *test = hd__dataset_test(e->data);
  const hd_target *target = &e->trained.network.target;
  const bool judges = hd__target_judges(target, test);
  int classes = judges || test->masks ? hd__target_classes(target) : 0;
  if (classes > HD_MAX_CLASSES_REPORTED)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected at most %d classes, found %d; "
                    "predict gives the classes of single samples",
                    HD_MAX_CLASSES_REPORTED, classes);
  const int64_t skipped = hd__skips_count(test);
  *out = (hd_evaluation){.samples = test->count - skipped,
                         .skipped = hd__skips_unread(test),
                         .classes = classes,
                         .part = e->part};
  out->confusion = hd__calloc((size_t)classes * (size_t)classes + 1, sizeof *out->confusion);
  out->class_samples = hd__calloc((size_t)classes + 1, sizeof *out->class_samples);
  out->class_right = hd__calloc((size_t)classes + 1, sizeof *out->class_right);
  HD_TRY(
      HD_ALLOCATED(out->confusion && out->class_samples && out->class_right, ctx, "out of memory for the evaluation"));
  hd_score score;
  hd__target_score(&score, target, &e->feed, &e->outcome);
  out->loss = score.loss;
  out->accuracy = score.accuracy;
  out->perplexity = hd__perplexity(test, score.loss);
  out->bits_per_byte = hd__bits_per_byte(test, score.loss);
  out->iou = score.iou;
  if (test->masks)
    HD_TRY(count_pixels(out, ctx, e));
  HD_TRY(hd__outputs_are_judged(target, test) ? score_outputs(out, ctx, e) : score_classes(out, ctx, e, &score));
  out->heads = target->heads;
  HD_TRY(hd__head_scores(&out->head, ctx, target, &e->feed, &e->outcome));
  HD_TRY(copy_names(out, ctx, &e->trained));
  for (int64_t i = 0; judges && i < test->count; i++) {
    if (!hd__target_counts(target, test, i))
      continue;
    int label = test->labels[i], guess = e->outcome.guess[i];
    out->class_samples[label]++;
    out->class_right[label] += guess == label;
    out->confusion[label * classes + guess]++;
  }
  return HD_OK;
}

static void evaluator_fini(evaluator *e) {
  hd__trained_fini(&e->trained);
  hd__feed_fini(&e->feed);
  hd__dataset_close(e->data);
  hd__free(e->outcome.loss);
  hd__free(e->outcome.guess);
  hd__free(e->outcome.score);
  hd__free(e->outcome.classes);
}

static hd_status evaluate(hd_evaluation *out, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  HD_RELEASED(evaluator_fini) evaluator e = {0};
  HD_TRY(open_all(&e, ctx, checkpoint, config));
  HD_TRY(hd__trained_evaluate(&e.outcome, ctx, &e.trained, &e.feed));
  HD_TRY(hd__program_losses(&e.outcome, ctx, config, &e.trained.network.target, &e.feed));
  return count_guesses(out, ctx, &e);
}

static void free_counts(const hd_evaluation *evaluation) {
  hd__free(evaluation->confusion);
  hd__free(evaluation->class_samples);
  hd__free(evaluation->class_right);
  hd__free(evaluation->output);
  hd__free(evaluation->class_names);
  hd__free(evaluation->class_iou);
  hd__free(evaluation->head);
}

hd_status hd_evaluate(hd_evaluation *out, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  HD_ROUNDING_TO_NEAREST;
  hd_evaluation result = {0};
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_evaluation"));
  HD_TRY(hd__thread_check_stack(ctx));
  hd_status status = evaluate(&result, ctx, checkpoint, config);
  if (status != HD_OK) {
    free_counts(&result);
    result = (hd_evaluation){0};
  }
  if (out->struct_bytes < sizeof result)
    hd__free(result.head);
  if (out->struct_bytes < offsetof(hd_evaluation, heads))
    hd__free(result.class_iou);
  if (out->struct_bytes < offsetof(hd_evaluation, iou)) { /* compiled with an older header, whose struct lacks these */
    hd__free(result.output);
    hd__free(result.class_names);
  }
  hd__struct_write(out, &result, sizeof result);
  return status;
}

void hd_evaluation_fini(hd_evaluation *evaluation) {
  hd_evaluation is = {0};
  memcpy(&is, evaluation, evaluation->struct_bytes < sizeof is ? evaluation->struct_bytes : sizeof is);
  free_counts(&is);
  hd__struct_write(evaluation, &(hd_evaluation){0}, sizeof *evaluation);
}

hd_status hd_digest(char text[HD_SHA256_TEXT_BYTES], hd_ctx *ctx, const char *checkpoint) {
  HD_ROUNDING_TO_NEAREST;
  char path[HD_PATH_BYTES];
  HD_MAPPED file = {0};
  HD_ST_OWNED list = {0};
  snprintf(path, sizeof path, "%s", checkpoint);
  if (hd__file_is_folder(checkpoint) || !hd__file_exists(checkpoint)) {
    char folder[HD_PATH_BYTES];
    HD_TRY(hd__checkpoint_find(folder, ctx, checkpoint));
    HD_TRY(hd__file_join(path, ctx, folder, "model.safetensors"));
  }
  if (hd__onnx_is_path(path)) {
    HD_ONNX_OWNED model = {0};
    HD_TRY(hd__onnx_read(&model, ctx, path));
    return hd__st_digest(text, ctx, &model.weights);
  }
  HD_TRY(hd__file_map(&file, ctx, path));
  HD_TRY(hd__st_parse(&list, ctx, path, file.bytes, file.length));
  for (int i = 0; i < list.count; i++)
    if (!hd__checkpoint_holds(&list.tensor[i]))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected tensors of floats, found '%s' of another type; give the weights' file", path,
                      list.tensor[i].name);
  return hd__st_digest(text, ctx, &list);
}
