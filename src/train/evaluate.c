/* Evaluating and digesting checkpoints without training. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "heddle.h"
#include "train/record.h"
#include "train/session.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "0.1.0"
#endif

const char *hd_version(void) { return PACKAGE_VERSION; }

/* What an evaluation of a checkpoint owns. */
typedef struct evaluator {
  json_t *record;
  hd_network network;
  hd_data *data;
  hd_lanes *lanes;
  hd_plan *plan;
  hd_store *store;
  hd_exec *exec;
  hd_feed feed;
  float *loss;
  int32_t *guess;
} evaluator;

static void fetch(void *self, const hd_step *step, int64_t first, int64_t rows, float *x, int64_t stride,
                  int32_t *labels) {
  (void)step;
  hd__feed_fetch(&((evaluator *)self)->feed, first, rows, x, stride, labels);
}

static hd_status open_all(evaluator *e, hd_ctx *ctx, const char *folder, const hd_config *config,
                          const hd_kernels *kernels) {
  char path[HD_PATH_BYTES];
  const char *name = hd__config_given(config, HD_OPT_data) ? hd__config_text(config, HD_OPT_data)
                                                           : hd__record_setting(e->record, HD_OPT_data);
  const char *dir = hd__config_given(config, HD_OPT_data_dir) ? hd__config_text(config, HD_OPT_data_dir)
                                                              : hd__record_setting(e->record, HD_OPT_data_dir);
  int threads;
  HD_TRY(hd__config_threads(&threads, ctx, config));
  HD_TRY(hd__file_join(path, ctx, folder, "run.json"));
  HD_TRY(hd__network_from_text(&e->network, ctx, json_string_value(json_object_get(e->record, "model_yaml")), path));
  HD_TRY(hd__lanes_create(&e->lanes, ctx, threads));
  HD_TRY(hd__data_open(&e->data, ctx, *name ? name : "digits", dir));
  hd_graph *graph;
  HD_TRY(hd__network_graph(&graph, ctx, &e->network, hd__data_test(e->data), hd__data_name(e->data)));
  HD_TRY(hd__plan_create(&e->plan, ctx, graph, kernels, &(hd_plan_settings){.train = false}));
  HD_TRY(hd__store_create(&e->store, ctx, e->plan, 0));
  HD_TRY(hd__exec_create(&e->exec, ctx, e->plan, e->store, e->lanes,
                         &(hd_exec_settings){.batch = 64, .shards = 1, .parts = 1}));
  HD_TRY(hd__file_join(path, ctx, folder, "model.safetensors"));
  HD_TRY(hd__checkpoint_load_weights(e->store, ctx, path, e->record));
  hd__store_pack(e->store, e->plan);
  /* The run's own statistics, so that the weights see what they were trained on. */
  double mean[HD_DATA_MAX_CHANNELS], std[HD_DATA_MAX_CHANNELS];
  const json_t *data = json_object_get(e->record, "data");
  for (int c = 0; c < HD_DATA_MAX_CHANNELS; c++) {
    mean[c] = json_number_value(json_object_get(data, "mean"));
    std[c] = json_number_value(json_object_get(data, "std"));
  }
  if (!(std[0] > 0))
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s/run.json: expected the data's mean and std, found none; the checkpoint is damaged, use another",
                    folder);
  HD_TRY(hd__feed_init(&e->feed, ctx, hd__data_test(e->data), kernels, mean, std, false));
  e->loss = hd__malloc((size_t)hd__data_test(e->data)->count * sizeof *e->loss);
  e->guess = hd__malloc((size_t)hd__data_test(e->data)->count * sizeof *e->guess);
  return e->loss && e->guess ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for the evaluation");
}

static hd_status count_guesses(hd_evaluation *out, hd_ctx *ctx, const evaluator *e) {
  const hd_dataset *test = hd__data_test(e->data);
  int classes = e->plan->graph->values[e->plan->graph->logits].shape.dim[0];
  if (classes > HD_MAX_CLASSES_REPORTED)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "expected at most %d classes, found %d", HD_MAX_CLASSES_REPORTED, classes);
  *out = (hd_evaluation){.samples = test->count, .classes = classes};
  out->confusion = hd__calloc((size_t)classes * (size_t)classes, sizeof *out->confusion);
  if (!out->confusion)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the evaluation");
  double sum = 0;
  int64_t right = 0;
  for (int64_t i = 0; i < test->count; i++) {
    int label = test->labels[i], guess = e->guess[i];
    sum += (double)e->loss[i];
    right += guess == label;
    out->class_samples[label]++;
    out->class_right[label] += guess == label;
    out->confusion[label * classes + guess]++;
  }
  out->loss = sum / (double)test->count;
  out->accuracy = (double)right / (double)test->count;
  return HD_OK;
}

static hd_status evaluate(hd_evaluation *out, evaluator *e, hd_ctx *ctx, const char *checkpoint,
                          const hd_config *config) {
  char folder[HD_PATH_BYTES];
  const char *why = NULL, *isa = getenv("HEDDLE_ISA");
  const hd_kernels *kernels = hd__kernels_select(isa, &why);
  if (!kernels)
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "HEDDLE_ISA expects an instruction set that this build and CPU have, found '%s': %s; unset it for the best",
        isa, why);
  HD_TRY(hd__checkpoint_find(folder, ctx, checkpoint));
  HD_TRY(hd__checkpoint_record(&e->record, ctx, folder));
  HD_TRY(open_all(e, ctx, folder, config, kernels));
  const hd_driver driver = {.self = e, .fetch = fetch};
  HD_TRY(hd__exec_evaluate(e->exec, ctx, &driver, hd__data_test(e->data)->count, e->loss, e->guess, NULL));
  return count_guesses(out, ctx, e);
}

hd_status hd_evaluate(hd_evaluation *out, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  evaluator e = {0};
  *out = (hd_evaluation){0};
  hd_status status = evaluate(out, &e, ctx, checkpoint, config);
  hd__exec_destroy(e.exec);
  hd__store_destroy(e.store);
  hd__plan_destroy(e.plan);
  hd__lanes_destroy(e.lanes);
  hd__feed_fini(&e.feed);
  hd__data_close(e.data);
  hd__network_fini(&e.network);
  json_decref(e.record);
  hd__free(e.loss);
  hd__free(e.guess);
  if (status != HD_OK)
    hd_evaluation_fini(out);
  return status;
}

void hd_evaluation_fini(hd_evaluation *evaluation) {
  hd__free(evaluation->confusion);
  *evaluation = (hd_evaluation){0};
}

hd_status hd_digest(char text[HD_SHA256_TEXT_BYTES], hd_ctx *ctx, const char *checkpoint) {
  char path[HD_PATH_BYTES];
  hd_mapping file;
  hd_st_list list;
  snprintf(path, sizeof path, "%s", checkpoint);
  if (hd__file_is_folder(checkpoint) || !hd__file_exists(checkpoint)) {
    char folder[HD_PATH_BYTES];
    HD_TRY(hd__checkpoint_find(folder, ctx, checkpoint));
    HD_TRY(hd__file_join(path, ctx, folder, "model.safetensors"));
  }
  HD_TRY(hd__file_map(&file, ctx, path));
  hd_status status = hd__st_parse(&list, ctx, path, file.bytes, file.length);
  if (status == HD_OK) {
    for (int i = 0; i < list.count && status == HD_OK; i++)
      if (list.tensor[i].type != HD_ST_F32)
        status = hd__fail(ctx, HD_E_FORMAT,
                          "%s: expected tensors of F32, found '%s' of another type; give the weights' file", path,
                          list.tensor[i].name);
    if (status == HD_OK)
      status = hd__st_digest(text, ctx, &list);
    hd__st_fini(&list);
  }
  hd__file_unmap(&file);
  return status;
}
