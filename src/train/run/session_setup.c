/* Setting up a session: all that can fail without training fails here. */
#include "train/run/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/version.h"
#include "exec/exchange/cluster.h"
#include "train/checkpoint/gpt_names.h"
#include "train/run/agreement.h"
#include "train/records/metric.h"
#include "train/run/model_of_data.h"
#include "train/records/output_scores.h"
#include "train/placement/rank_threads.h"
#include "train/run/thread_count.h"
#include "train/placement/run_plan.h"
#include "train/run/session_data.h"
#include "train/inference/view_evaluation.h"
#include "data/dataset/class_weights.h"
#include "data/feed/feed_options.h"
#include "train/run/input_map.h"
#include "train/run/first_weights.h"
#include "train/run/kept_features.h"
#include "train/run/arithmetic_version.h"
#include "train/settings/run_record.h"

/* Takes over the choice of --device auto, which was made for this model and this data. */
static hd_status adopt_device(hd_session *s, hd_ctx *ctx) {
  const char *chosen = hd__record_chosen_device(s->run.record);
  if (!chosen)
    return HD_OK;
  snprintf(s->compute.resumed_device, sizeof s->compute.resumed_device, "%s", chosen);
  return hd__config_suggest(s->run.config, ctx, HD_OPT_DEVICE, "auto");
}

/* Reads a resumed run: its record, the experiment in it, the folder to load from. */
static hd_status adopt_run(hd_session *s, hd_ctx *ctx) {
  const char *from = s->run.settings->resume;
  char *folder = s->checkpoints.resumed;
  HD_TRY(hd__checkpoint_find(folder, ctx, from));
  HD_TRY(hd__checkpoint_record(&s->run.record, ctx, folder));
  HD_TRY(hd__record_adopt(s->run.config, ctx, s->run.record, from));
  HD_TRY(hd__record_check_functions(ctx, s->run.record, s->run.config, from));
  s->run.lr_is_set = hd__record_lr(&s->run.lr_scale, s->run.record);
  hd__checkpoint_earlier(&s->run.earlier_steps, &s->run.earlier_epochs, s->run.record);
  HD_TRY(adopt_device(s, ctx));
  const char *text = json_string_value(json_object_get(s->run.record, "model_yaml"));
  hd_status status = hd__network_from_text(&s->run.network, ctx, text, s->run.settings->model);
  return status == HD_OK ? HD_OK : hd__fail_in(ctx, status, "%s/run.json", folder);
}

static hd_status choose_threads(hd_session *s, hd_ctx *ctx) {
  const hd_placement_request request = hd__config_placement(s->run.config);
  return hd__rank_threads_open(&s->compute.threads, ctx, s->compute.local, &request);
}

/* Opens the number and places of threads that were found best. CPUs are shared with other jobs only under the placement
 * that the user gave. */
static hd_status choose_best_threads(hd_session *s, hd_ctx *ctx, const hd_best *best) {
  hd_placement_request request = {
      .threads = best->threads, .policy = best->placement, .workers = hd__config_placement(s->run.config).workers};
  HD_TRY(hd__threads_open(&s->compute.threads, ctx, &request));
  const hd_placement_choice policy = hd__config_placement(s->run.config).policy;
  if (request.policy == policy || !hd__threads_disputed(s->compute.threads))
    return HD_OK;
  hd__threads_destroy(s->compute.threads);
  s->compute.threads = NULL;
  request.policy = policy;
  return hd__threads_open(&s->compute.threads, ctx, &request);
}

/* Small tables need many epochs: without --epochs, rows with a model that leaves its input to the data get the number
 * of epochs that makes LEAST_STEPS steps, and ten evaluations; only epochs that are evaluated are saved. */
static hd_status choose_epochs(hd_session *s, hd_ctx *ctx) {
  enum { LEAST_STEPS = 5000, MOST_EPOCHS = 100, EVALUATIONS = 10 };
  hd_config *config = s->run.config;
  char text[32];
  if (hd__config_given(config, HD_OPT_EPOCHS) || !s->run.network.input_of_data ||
      s->input.data->normalize != HD_NORMALIZE_COLUMN)
    return HD_OK;
  const int64_t fewest = (int64_t)s->run.settings->epochs;
  int64_t epochs = (LEAST_STEPS + s->run.steps_per_epoch - 1) / s->run.steps_per_epoch;
  epochs = epochs > MOST_EPOCHS ? MOST_EPOCHS : epochs < fewest ? fewest : epochs;
  snprintf(text, sizeof text, "%lld", (long long)epochs);
  HD_TRY(hd__config_settle(config, ctx, HD_OPT_EPOCHS, text));
  s->input.chose_epochs = true;
  snprintf(text, sizeof text, "%lld", (long long)(epochs > EVALUATIONS ? epochs / EVALUATIONS : 1));
  if (!hd__config_given(config, HD_OPT_EVAL_EPOCHS) && s->run.settings->patience == 0)
    HD_TRY(hd__config_settle(config, ctx, HD_OPT_EVAL_EPOCHS, text));
  if (hd__config_given(config, HD_OPT_SAVE_EPOCHS))
    return HD_OK;
  return hd__config_settle(config, ctx, HD_OPT_SAVE_EPOCHS, hd__config_shown(config, HD_OPT_EVAL_EPOCHS));
}

/* Derives batch, shards and steps. */
static hd_status choose_steps(hd_session *s, hd_ctx *ctx) {
  const hd_settings *is = s->run.settings;
  int64_t samples = s->input.train.count;
  s->run.batch = s->input.train.batch = is->batch;
  HD_TRY(hd__planned_shards(&s->run.shards, ctx, s->run.config));
  s->run.steps_per_epoch = is->drop_last ? samples / s->run.batch : (samples + s->run.batch - 1) / s->run.batch;
  if (s->run.steps_per_epoch == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "--drop-last expects at least one full batch of %lld, found %lld samples; use a smaller --batch",
                    (long long)s->run.batch, (long long)samples);
  HD_TRY(choose_epochs(s, ctx));
  s->run.steps_in_all = hd__schedule_steps(is->epochs, s->run.steps_per_epoch);
  s->run.steps_of_epochs = s->run.steps_in_all;
  if (is->lookahead > s->run.steps_of_epochs)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--lookahead expects at most the %lld steps of all epochs, found %lld, with which the weights end as "
        "they began; use fewer, or more --epochs",
        (long long)s->run.steps_of_epochs, (long long)is->lookahead);
  if (is->max_steps > 0 && is->max_steps < s->run.steps_in_all)
    s->run.steps_in_all = is->max_steps;
  return HD_OK;
}

static hd_status set_transforms(hd_session *s, hd_ctx *ctx) {
  const hd_transform_lists lists = hd__transform_lists(s->run.config);
  hd_feed *const feed[3] = {&s->input.train, &s->input.test, &s->input.val};
  for (int i = 0; i < 3; i++)
    if (feed[i]->count > 0)
      HD_TRY(hd__feed_set_transforms(feed[i], ctx, &lists, i == 0 ? HD_PIPELINE_TRAINING : HD_PIPELINE_EVALUATION,
                                     (uint64_t)s->run.settings->seed));
  for (int i = 1; i < 3; i++)
    if (feed[i]->count > 0)
      HD_TRY(hd__views_open(feed[i], ctx, (hd_tta_choice)s->run.settings->tta, s->input.data->name));
  s->run.network.target.of_classes = hd__feed_makes_targets(&s->input.train);
  if (hd__feed_makes_targets(&s->input.test) != s->run.network.target.of_classes)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--eval-transforms expects one_hot if --transforms has it, found it in one list only; give it in both");
  return HD_OK;
}

/* A mixture of two samples' targets is no number of a class, which one of several losses may read. */
static hd_status check_mixtures(const hd_session *s, hd_ctx *ctx) {
  const hd_pipeline *transforms = s->input.train.pipeline;
  if (s->run.network.target.heads > 0 && transforms && hd_pipeline_shape_of(transforms)->partner)
    return hd__fail(ctx, HD_E_USAGE,
                    "--transforms expects no mixup where a model has several losses, found one; leave it out");
  return HD_OK;
}

/* A mixture of two samples has no weight, and a part without weights above 0 no mean. */
static hd_status check_weights(const hd_session *s, hd_ctx *ctx) {
  const hd_feed *const feed[] = {&s->input.train, &s->input.val};
  static const char *const part[] = {"training set", "validation set"};
  const hd_pipeline *transforms = s->input.train.pipeline;
  if (!s->input.train.split->weights)
    return HD_OK;
  if (transforms && hd_pipeline_shape_of(transforms)->partner)
    return hd__fail(ctx, HD_E_USAGE,
                    "--transforms expects no mixup where samples have weights, found one; leave it out");
  for (int i = 0; i < 2; i++) {
    int64_t k = 0;
    while (k < feed[i]->count && hd__split_weight(feed[i]->split, feed[i]->members ? feed[i]->members[k] : k) == 0)
      k++;
    if (feed[i]->count > 0 && k == feed[i]->count)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected a weight above 0 in the %s, found only zeros; change one",
                      s->input.data->name, part[i]);
  }
  return HD_OK;
}

/* Fixed views of training samples. */
static hd_status keep_views(hd_session *s, hd_ctx *ctx) {
  const hd_pipeline *transforms = s->input.train.pipeline;
  if (s->run.settings->keep_views == 0)
    return HD_OK;
  if (!hd__feed_draws(&s->input.train))
    return hd__fail(
        ctx, HD_E_USAGE,
        "--keep-views expects random --transforms, such as random_crop or horizontal_flip, found none; leave "
        "it out");
  if (hd_pipeline_shape_of(transforms)->partner)
    return hd__fail(ctx, HD_E_USAGE,
                    "--keep-views expects --transforms without mixup, which pairs other samples in every epoch, found "
                    "it; leave one out");
  s->input.train.views = s->run.settings->keep_views;
  return HD_OK;
}

static hd_status make_feeds(hd_session *s, hd_ctx *ctx) {
  const double *mean = s->input.data->statistics.mean, *std = s->input.data->statistics.std;
  const hd_split *test = hd__dataset_test(s->input.data);
  double share = s->run.settings->val_split;
  HD_TRY(hd__feed_init(&s->input.train, ctx, hd__dataset_train(s->input.data), s->compute.kernels, mean, std));
  HD_TRY(hd__feed_init(&s->input.test, ctx, test, s->compute.kernels, mean, std));
  if (s->input.train.split->validation > 0 && share > 0)
    return hd__fail(ctx, HD_E_USAGE, "--val-split expects data without a validation set, found one in %s; leave it out",
                    s->input.data->name);
  if (s->input.train.split->validation > 0)
    HD_TRY(hd__feed_take_validation(&s->input.val, &s->input.train, ctx));
  else if (share > 0)
    HD_TRY(hd__feed_hold_out(&s->input.val, &s->input.train, ctx, share, (uint64_t)s->run.settings->seed));
  HD_TRY(hd__feed_set_order(&s->input.train, ctx, s->run.config, s->input.data->name));
  HD_TRY(set_transforms(s, ctx));
  HD_TRY(keep_views(s, ctx));
  HD_TRY(check_mixtures(s, ctx));
  return check_weights(s, ctx);
}

/* The program's loss runs on the threads of one process. */
static hd_status take_program(hd_session *s, hd_ctx *ctx) {
  const hd_custom_loss *loss = hd__config_loss(s->run.config), *metric = hd__config_metric(s->run.config);
  const hd_custom_loss *is = loss ? loss : metric;
  const char *found = hd__cluster_ranks(s->compute.local) > 1                ? "several ranks"
                      : loss && !s->compute.device.executor->threads_compute ? "a GPU; give --device cpu"
                                                                             : NULL;
  if (is && found)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "the %s '%s' of the program expects threads of one process, found %s",
                    loss ? "loss" : "metric", is->name, found);
  HD_TRY(hd__program_check(&s->run.network, ctx, s->run.config));
  return hd__program_loss_create(&s->compute.program, ctx, s->run.config, &s->run.network);
}

/* Whether the model has the requested metric. */
static hd_status check_metric(hd_session *s, hd_ctx *ctx) {
  const int metric = s->run.settings->metric;
  const hd_custom_loss *own = hd__config_metric(s->run.config);
  if (own && metric >= 0)
    return hd__fail(ctx, HD_E_USAGE, "expected the metric '%s' of the program or --metric, found both; leave one out",
                    own->name);
  if (own && s->run.network.target.places > 0)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "the metric '%s' of the program expects one label of a sample, found one for each place",
                    own->name);
  if (metric < 0 || hd__metric_is_of((hd_metric_choice)metric, &s->run.network.target, hd__dataset_test(s->input.data)))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "--metric %s expects a model that predicts %s, found another loss; choose another metric",
                  hd_choice_name(HD_OPT_METRIC, metric),
                  metric == HD_METRIC_R2    ? "numbers"
                  : metric == HD_METRIC_IOU ? "a class for each pixel"
                                            : "classes");
}

/* What an evaluation's outcome has: scores of a sample, losses of its places, and guesses of its pixels. */
typedef struct outcome_room {
  int64_t samples, scores, places, pixels;
} outcome_room;

static size_t outcome_bytes(const outcome_room *r) {
  return (size_t)r->samples *
         (2 * sizeof(float) + sizeof(int32_t) + (size_t)(r->scores + r->places) * sizeof(float) + (size_t)r->pixels);
}

static void place_outcome(hd_exec_outcome *out, void *memory, const outcome_room *r) {
  out->loss = memory;
  out->probability = out->loss + r->samples;
  out->guess = (int32_t *)(out->probability + r->samples);
  float *behind = (float *)(out->guess + r->samples);
  out->score = r->scores ? behind : NULL;
  behind += r->scores * r->samples;
  out->place_loss = r->places ? behind : NULL;
  out->classes = r->pixels ? (uint8_t *)(behind + r->places * r->samples) : NULL;
}

/* Shared memory for guesses: each rank fills in the samples that its threads evaluate. With --tta that is of views, and
 * each rank has memory for the guesses by their means. */
static hd_status make_guesses(hd_session *s, hd_ctx *ctx) {
  enum { MOST_SCORES = 1 << 24 }; /* of outputs that are judged at the run's end */
  const int64_t test = hd__dataset_test(s->input.data)->count,
                most = s->input.val.count > test ? s->input.val.count : test;
  const bool views = s->run.settings->tta != HD_TTA_NONE;
  const hd_target *target = &s->run.network.target;
  const hd_split *split = hd__dataset_test(s->input.data);
  const bool judged =
      (hd__outputs_are_judged(target, split) || target->heads > 0) && most <= MOST_SCORES / target->scores;
  const bool scores = views || judged ||
                      hd__metric_needs_scores((hd_metric_choice)s->run.settings->metric, target, split) ||
                      hd__config_loss(s->run.config) || hd__config_metric(s->run.config);
  const bool characters =
      split->window && split->token_bytes > 0 && target->places > 0 && most <= MOST_SCORES / target->places;
  const outcome_room room = {most, scores ? target->scores : 0, characters ? target->places : 0,
                             split->masks ? target->places : 0};
  HD_TRY(hd__local_group_memory(&s->report.guess_memory, s->compute.local, ctx, outcome_bytes(&room),
                                "the evaluation's samples"));
  place_outcome(views ? &s->report.views : &s->report.guesses, s->report.guess_memory.base, &room);
  if (!views)
    return HD_OK;
  s->report.mean_memory = hd__malloc(outcome_bytes(&room));
  HD_TRY(HD_ALLOCATED(s->report.mean_memory, ctx, "out of memory for the evaluation's samples"));
  place_outcome(&s->report.guesses, s->report.mean_memory, &room);
  return HD_OK;
}

/* ---- Initial weights ---- */

/* Continues with this heddle's arithmetic from the counters of a checkpoint, if this network's numbers are the same or
 * the user accepts others. */
static hd_status adopt_arithmetic(hd_session *s, hd_ctx *ctx) {
  const int64_t found = s->run.counters.arithmetic, before = hd__record_earlier_arithmetic(s->run.record);
  hd_arithmetic_change change;
  const hd_arithmetic_run run = hd__arithmetic_of_settings(s->run.settings);
  HD_TRY(hd__arithmetic_changed(&change, ctx, &s->run.network, run, found, HD_ARITHMETIC_OF_STEPS));
  if (found > HD_ARITHMETIC_VERSION)
    change = (hd_arithmetic_change){(int)found, "unknown here"};
  if (change.version && !s->run.settings->accept_arithmetic)
    return hd__fail(ctx, HD_E_USAGE,
                    "--resume %s: this run has version %lld of the arithmetic, heddle %s has version %d, and this "
                    "network's numbers %s (version %d: %s); continue with the heddle that made it, or with "
                    "--accept-arithmetic, which gives a digest of neither version",
                    s->run.settings->resume, (long long)found, hd__version(), HD_ARITHMETIC_VERSION,
                    found > HD_ARITHMETIC_VERSION ? "may differ" : "differ", change.version, change.what);
  s->run.resumed_arithmetic = (int32_t)found;
  s->run.earlier_arithmetic = change.version ? (int32_t)found : before;
  s->run.counters.arithmetic = HD_ARITHMETIC_VERSION;
  if (change.version)
    snprintf(s->report.arithmetic_note, sizeof s->report.arithmetic_note,
             "continues with version %d of the arithmetic, after version %lld: the digest is a new one",
             HD_ARITHMETIC_VERSION, (long long)found);
  return HD_OK;
}

static hd_status load_weights(hd_session *s, hd_ctx *ctx, const char *path, const json_t *record, const char *but) {
  static const char mark[] = "note: ";
  int64_t arithmetic;
  if (ctx)
    ctx->message[0] = 0; /* a note of an earlier call is not of this file */
  HD_TRY(hd__checkpoint_load_weights(s->compute.store, &arithmetic, ctx, path, record, but));
  if (!record && !strncmp(hd_ctx_message(ctx), HD_GPT_NOTE, strlen(HD_GPT_NOTE)))
    snprintf(s->report.arithmetic_note, sizeof s->report.arithmetic_note, "%s", hd_ctx_message(ctx) + strlen(mark));
  if (!*s->report.arithmetic_note && hd__checkpoint_converts(s->compute.store->directory, arithmetic))
    snprintf(s->report.arithmetic_note, sizeof s->report.arithmetic_note, HD_CHECKPOINT_CONVERTED,
             (long long)arithmetic);
  return HD_OK;
}

static hd_status load_init(hd_session *s, hd_ctx *ctx, const char *path) {
  static const char *const inside[] = {"last/model.safetensors", "model.safetensors"};
  char file[HD_PATH_BYTES];
  for (int i = 0; i < 2 && hd__file_is_folder(path); i++)
    if (hd__file_join(file, NULL, path, inside[i]) == HD_OK && hd__file_exists(file))
      return hd__fail(ctx, HD_E_USAGE, "--init expects a .safetensors file, found the folder %s; use --init %s", path,
                      file);
  if (!*s->run.settings->head)
    return load_weights(s, ctx, path, NULL, NULL);
  HD_TRY(hd__session_draw(s->compute.store, s, ctx, hd__session_whole(s), NULL)); /* for all hosts */
  return load_weights(s, ctx, path, NULL, hd__graph_head(s->compute.plan->graph)->name);
}

/* An average begins as the first weights. */
static void begin_average(hd_store *store) {
  const int buffer = hd__store_buffer(store);
  if (store->average[buffer])
    memcpy(store->average[buffer], store->weights[buffer], (size_t)store->directory->param_elems * sizeof(float));
}

/* A resumed run that is in another stage is packed when it enters that: what is frozen here would be spread. */
static void pack(hd_session *s, const bool *here) {
  if (hd__session_is_in_stage(s))
    hd__store_pack(s->compute.store, s->compute.plan, here);
}

/* Sets the first weights: drawn, from --init, or from the checkpoint. */
static hd_status fill_store(hd_session *s, hd_ctx *ctx) {
  const char *resumed = s->checkpoints.resumed;
  const bool resumes = *resumed;
  char path[HD_PATH_BYTES];
  s->run.counters = (hd_counters){.best_score = -INFINITY,
                                  .best_loss = INFINITY,
                                  .step_loss = NAN,
                                  .arithmetic = resumes ? 1 : HD_ARITHMETIC_VERSION}; /* 1: a checkpoint without one */
  if (resumes) {
    HD_TRY(hd__checkpoint_load_state(s->compute.store, &s->run.counters, ctx, resumed, s->run.record));
    HD_TRY(adopt_arithmetic(s, ctx));
    HD_TRY(hd__file_join(path, ctx, resumed, "model.safetensors"));
    HD_TRY(load_weights(s, ctx, path, s->run.record, NULL));
  } else if (*s->run.settings->init) {
    HD_TRY(load_init(s, ctx, s->run.settings->init));
  } else {
    HD_TRY(hd__session_draw(s->compute.store, s, ctx, hd__session_whole(s), s->compute.here));
  }
  if (!resumes)
    begin_average(s->compute.store);
  pack(s, s->compute.here);
  return HD_OK;
}

/* Copies the first host's weights and states to the other hosts. */
static hd_status copy_to_hosts(hd_session *s, hd_ctx *ctx) {
  hd_store *store = s->compute.store;
  const hd_directory *d = store->directory;
  if (hd__cluster_leads(s->compute.local)) {
    const int buffer = hd__store_buffer(store);
    HD_TRY(
        hd__cluster_broadcast(s->compute.local, ctx, store->weights[buffer], d->param_elems * (int64_t)sizeof(float)));
    for (int i = 0; i < d->states; i++)
      HD_TRY(hd__cluster_broadcast(s->compute.local, ctx, store->state[buffer][i],
                                   d->trained_elems * (int64_t)sizeof(float)));
    if (store->average[buffer])
      HD_TRY(hd__cluster_broadcast(s->compute.local, ctx, store->average[buffer],
                                   d->param_elems * (int64_t)sizeof(float)));
    pack(s, NULL);
  }
  return hd__local_group_barrier(s->compute.local, ctx);
}

/* Sends each host the weights and states of its stages. */
static hd_status spread_to_hosts(hd_session *s, hd_ctx *ctx) {
  HD_TRY(hd__exec_spread(s->compute.exec, ctx));
  if (hd__cluster_leads(s->compute.local))
    pack(s, s->compute.here);
  return hd__local_group_barrier(s->compute.local, ctx);
}

/* Rank 0 sets the weights for all ranks, and broadcasts the counters that belong to them. Where hosts have stages of
 * their own, each draws the weights of its stages. */
static hd_status fill_weights(hd_session *s, hd_ctx *ctx) {
  typedef struct filled {
    hd_counters counters;
    uint64_t version;
  } filled;
  HD_OWNED filled *all = hd__malloc((size_t)hd__cluster_ranks(s->compute.local) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the counters of %d ranks", hd__cluster_ranks(s->compute.local)));
  const bool apart = hd__stages_are_apart(s), draws = apart && !*s->checkpoints.resumed && !*s->run.settings->init;
  if (hd__session_writes(s) || (draws && hd__cluster_leads(s->compute.local)))
    HD_TRY(fill_store(s, ctx));
  const filled this_rank = {s->run.counters, hd__store_version(s->compute.store)};
  HD_TRY(hd__cluster_gather(all, s->compute.local, ctx, &this_rank, sizeof this_rank));
  s->run.counters = all[0].counters;
  if (hd__cluster_leads(s->compute.local))
    hd__store_set_version(s->compute.store, all[0].version);
  return draws   ? hd__local_group_barrier(s->compute.local, ctx)
         : apart ? spread_to_hosts(s, ctx)
                 : copy_to_hosts(s, ctx);
}

static void count_parameters(int64_t *all, int64_t *trainable, const hd_plan *plan) {
  *all = *trainable = 0;
  for (int p = 0; p < plan->param_count; p++) {
    const hd_param *param = &plan->graph->params[p];
    *all += param->running ? 0 : hd__param_elems(param);
    *trainable += plan->params[p].trained ? hd__param_elems(param) : 0;
  }
}

void hd__session_clear_scores(hd_session *s) {
  hd_report *r = &s->report.facts;
  s->run.evaluated_step = -1;
  r->train_loss = r->val_loss = r->val_accuracy = r->test_loss = r->test_accuracy = r->val_metric = r->test_metric =
      r->test_r2 = r->test_mean_absolute_error = r->test_root_mean_square_error = r->test_perplexity =
          r->test_bits_per_byte = r->val_iou = r->test_iou = NAN;
}

static hd_status fill_report(hd_session *s, hd_ctx *ctx) {
  int64_t parameters, trainable;
  count_parameters(&parameters, &trainable, s->compute.plan);
  s->report.facts =
      (hd_report){.model = s->run.network.name,
                  .data = s->input.data->name,
                  .optimizer = (hd_optimizer_choice)hd__settings(s->run.config)->optimizer,
                  .device = s->report.device,
                  .arithmetic = (hd_arithmetic_choice)hd__settings(s->run.config)->arithmetic,
                  .precision = (hd_precision_choice)hd__settings(s->run.config)->precision,
                  .isa = hd__session_isa(s),
                  .device_note = s->report.device_note,
                  .threads_note = s->report.threads_note,
                  .library = hd__session_library(s),
                  .out = s->checkpoints.folder,
                  .epochs = (int64_t)ceil(s->run.settings->epochs),
                  .epochs_asked = s->run.settings->epochs,
                  .steps = s->run.counters.step,
                  .batch = s->run.batch,
                  .shards = s->run.shards,
                  .accumulate = s->run.settings->accumulate,
                  .seed = s->run.settings->seed,
                  .steps_in_all = s->run.steps_in_all,
                  .parameters = parameters,
                  .trainable = trainable,
                  .threads = hd__threads_count(s->compute.threads),
                  .ranks = hd__cluster_ranks(s->compute.local),
                  .hosts = hd__cluster_count(s->compute.local),
                  .transport = hd__cluster_transport(s->compute.local),
                  .rank = s->report.places,
                  .cpus = hd__threads_cpus(s->compute.threads),
                  .all_cpus = s->report.all_cpus,
                  .val_samples = s->input.val.count,
                  .metric = hd__config_metric(s->run.config) ? hd__config_metric(s->run.config)->name
                            : s->run.settings->metric >= 0   ? hd_choice_name(HD_OPT_METRIC, s->run.settings->metric)
                                                             : "",
                  .memory_bytes = hd__session_bytes(s),
                  .resumed_step = s->run.counters.step,
                  .arithmetic_version = HD_ARITHMETIC_VERSION,
                  .resumed_arithmetic = s->run.resumed_arithmetic,
                  .arithmetic_note = s->report.arithmetic_note,
                  .input_note = s->report.input_note,
                  .wrong = -1,
                  .skipped = -1,
                  .test_skipped = -1,
                  .wrong_png = s->report.wrong_png};
  hd__session_clear_scores(s);
  const char *why = hd__session_note_sums(s);
  if (*why)
    snprintf(s->report.device_note, sizeof s->report.device_note,
             "gradients of GPUs are added along the tree, not by NCCL: %s", why);
  return HD_OK;
}

/* Gathers the places of all ranks, for the report. */
static hd_status find_places(hd_session *s, hd_ctx *ctx) {
  const int threads = hd__threads_count(s->compute.threads), ranks = hd__cluster_ranks(s->compute.local);
  hd_rank_place this_rank = {.pid = (int32_t)getpid(), .threads = threads};
  snprintf(this_rank.host, sizeof this_rank.host, "%s",
           hd__cluster_name(s->compute.local, hd__cluster_this_host(s->compute.local)));
  size_t at = 0;
  for (int i = 0; i < threads && at < sizeof this_rank.cpus && hd__threads_cpu(s->compute.threads, i) >= 0; i++)
    at += (size_t)snprintf(this_rank.cpus + at, sizeof this_rank.cpus - at, "%s%d", i ? "," : "",
                           hd__threads_cpu(s->compute.threads, i));
  if (at == 0)
    snprintf(this_rank.cpus, sizeof this_rank.cpus, "any");
  hd__free(s->report.places);
  HD_TRY(HD_NEW(s->report.places, ranks, ctx, "out of memory for the places of ranks"));
  return hd__cluster_gather(s->report.places, s->compute.local, ctx, &this_rank, sizeof this_rank);
}

/* Adds up the CPUs of all hosts; the ranks of a host have one number. */
static hd_status count_all_cpus(hd_session *s, hd_ctx *ctx) {
  const hd_local_group *local = s->compute.local;
  const int32_t cpus = hd__threads_cpus(s->compute.threads);
  HD_OWNED int32_t *all = hd__malloc((size_t)hd__cluster_ranks(local) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the CPUs of ranks"));
  HD_TRY(hd__cluster_gather(all, s->compute.local, ctx, &cpus, sizeof cpus));
  s->report.all_cpus = 0;
  for (int h = 0; h < hd__cluster_count(local); h++)
    s->report.all_cpus += all[hd__cluster_member(local, hd__cluster_first(local, h))];
  return HD_OK;
}

/* --threads auto: uses the number that was found best. A number given by the user stands, also by --cpus,
 * hd_set_num_threads or OMP_NUM_THREADS. */
static hd_status settle_threads(hd_session *s, hd_ctx *ctx) {
  const char *omp = getenv("OMP_NUM_THREADS");
  bool given = s->run.settings->thread_count > 0 || *s->run.settings->cpus;
  if (given || ctx->threads || (omp && *omp) || s->compute.local || !s->compute.device.executor->threads_compute ||
      s->compute.plan->pipeline.stages.count > 1)
    return HD_OK;
  hd_best best = hd__best_threads_recall(s);
  if (!best.threads)
    best = hd__best_threads_search(s, ctx);
  snprintf(s->report.threads_note, sizeof s->report.threads_note, "%s", best.why);
  const bool placed = best.placement == hd__config_placement(s->run.config).policy;
  if (!best.threads || (best.threads == hd__threads_count(s->compute.threads) && placed))
    return HD_OK;
  hd__exec_destroy(s->compute.exec);
  hd__exec_destroy(s->compute.eval_exec);
  hd__threads_destroy(s->compute.threads);
  s->compute.exec = s->compute.eval_exec = NULL;
  s->compute.threads = NULL;
  HD_TRY(choose_best_threads(s, ctx, &best));
  HD_TRY(hd__session_make_executors(s, ctx));
  HD_TRY(find_places(s, ctx));
  HD_TRY(count_all_cpus(s, ctx));
  return fill_report(s, ctx);
}

/* Statistics that came with the run's network and are not in its description. */
static hd_status adopt_statistics(hd_session *s, hd_ctx *ctx) {
  HD_RELEASED(hd__features_fini) hd_features f = {0};
  hd_onnx_input *in = &s->run.network.input;
  HD_TRY(hd__record_features(&f, ctx, s->run.record, s->checkpoints.resumed));
  if (!f.given)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(in->mean, 2 * (size_t)f.count, ctx, "out of memory for a run's features"));
  in->std = in->mean + f.count;
  in->elems = f.count;
  for (int32_t i = 0; i < f.count; i++) {
    in->mean[i] = f.feature[i].mean;
    in->std[i] = f.feature[i].std;
  }
  return HD_OK;
}

static hd_status find_network(hd_session *s, hd_ctx *ctx) {
  const char *description = hd__config_description(s->run.config), *model = s->run.settings->model;
  const hd_settings *is = s->run.settings;
  HD_TRY(description ? hd__network_from_text(&s->run.network, ctx, description, model)
                     : hd__network_find(&s->run.network, ctx, model));
  if (!*is->head)
    return HD_OK;
  if (!*is->init)
    return hd__fail(ctx, HD_E_USAGE,
                    "--head expects a trained network, an ONNX file as --model or weights as --init, found none; give "
                    "one, or leave --head out");
  return hd__network_set_head(&s->run.network, ctx, is->head);
}

static hd_status scale_targets(hd_session *s, hd_ctx *ctx) {
  hd_feed *const feed[] = {&s->input.train, &s->input.test, &s->input.val};
  HD_TRY(hd__target_scale_choose(&s->input.targets, ctx, s->run.config, &s->run.network, s->input.data));
  for (int i = 0; i < 3 && s->input.targets.count > 0; i++)
    feed[i]->targets = &s->input.targets;
  return HD_OK;
}

/* ---- The steps ---- */

/* A rehearsal may run on any number of threads. */
static hd_status use_one_stage(hd_session *s, hd_ctx *ctx) {
  return hd_config_set_text(s->run.config, ctx, HD_OPT_STAGES, "1");
}

static hd_status complete_settings(hd_session *s, hd_ctx *ctx) { return hd__config_complete(s->run.config, ctx); }

static hd_status smooth_labels(hd_session *s, hd_ctx *ctx) {
  if (hd__config_has(s->run.config, HD_OPT_LABEL_SMOOTHING))
    s->run.network.label_smoothing = s->run.settings->label_smoothing;
  return HD_OK;
}

static hd_status agree_on_settings(hd_session *s, hd_ctx *ctx) { return hd__agree_on_settings(s, ctx); }

static hd_status open_device(hd_session *s, hd_ctx *ctx) {
  return hd__device_open(&s->compute.device, s->report.device, sizeof s->report.device, ctx, s->run.config,
                         s->compute.local);
}

static hd_status choose_kernels(hd_session *s, hd_ctx *ctx) {
  return hd__device_thread_kernels(&s->compute.kernels, ctx, s->run.config, &s->compute.device);
}

static hd_status compare_library(hd_session *s, hd_ctx *ctx) {
  return hd__record_check_library(ctx, s->run.record, hd__session_library(s), s->run.settings->resume);
}

static hd_status open_data(hd_session *s, hd_ctx *ctx) {
  return hd__session_data(&s->input.data, ctx, s->run.config, &s->run.network);
}

static hd_status weigh_classes(hd_session *s, hd_ctx *ctx) {
  return hd__dataset_weigh_classes(s->input.data, ctx, s->run.settings->class_weight);
}

static hd_status compare_data(hd_session *s, hd_ctx *ctx) {
  return hd__record_check_data(ctx, s->run.record, s->input.data, "--resume ", s->run.settings->resume);
}

static hd_status adopt_input_map(hd_session *s, hd_ctx *ctx) {
  char *note = s->report.input_note;
  hd_config *config = s->run.config;
  const bool open = !hd__config_given(config, HD_OPT_TRANSFORMS) && !hd__config_given(config, HD_OPT_EVAL_TRANSFORMS);
  HD_TRY(hd__input_map_adopt(note, sizeof s->report.input_note, ctx, config, &s->run.network, s->input.data,
                             s->compute.kernels));
  return open && *s->run.settings->head
             ? hd__input_size_adopt(note, sizeof s->report.input_note, ctx, config, &s->run.network, s->input.data)
             : HD_OK;
}

static hd_status fit_network(hd_session *s, hd_ctx *ctx) {
  hd_line note = {.text = s->report.model_note, .bytes = sizeof s->report.model_note};
  return hd__network_fit(&s->run.network, &note, ctx, s->run.config, &s->input.train, s->input.data->name);
}

static hd_status agree_on_input(hd_session *s, hd_ctx *ctx) { return hd__agree_on_input(s, ctx); }

static hd_status watch_ranks(hd_session *s, hd_ctx *ctx) {
  return hd__rank_times_init(&s->report.rank_times, ctx, s->compute.exec, s->report.places,
                             hd__cluster_ranks(s->compute.local));
}

static hd_status account_memory(hd_session *s, hd_ctx *ctx) {
  return hd__gpu_accounts_gather(&s->report.gpu_memory, ctx, s->compute.exec);
}

static hd_status make_record(hd_session *s, hd_ctx *ctx) {
  float shift;
  json_decref(s->run.record);
  s->run.record = NULL;
  HD_TRY(hd__record_make(&s->run.record, ctx, s->run.config, &s->run.network, s->input.data, s->run.shards,
                         hd__threads_count(s->compute.threads)));
  HD_TRY(hd__target_scale_note(s->run.record, ctx, &s->input.targets));
  if (s->run.lr_is_set)
    HD_TRY(hd__record_note_lr(s->run.record, ctx, s->run.lr_scale));
  HD_TRY(hd__record_note_functions(s->run.record, ctx, s->run.config));
  HD_TRY(hd__checkpoint_note_earlier(s->run.record, ctx, s->run.earlier_steps, s->run.earlier_epochs));
  HD_TRY(hd__record_note_device(s->run.record, ctx, s->report.device, hd__session_isa(s)));
  HD_TRY(hd__record_note_library(s->run.record, ctx, hd__session_library(s)));
  HD_TRY(hd__record_note_earlier_arithmetic(s->run.record, ctx, s->run.earlier_arithmetic));
  return hd__session_shifts(s) && hd__session_shift(&shift, s) ? hd__record_note_shift(s->run.record, ctx, shift)
                                                               : HD_OK;
}

static hd_status open_profile(hd_session *s, hd_ctx *ctx) {
  const hd_profile_of of = {.path = s->run.settings->profile,
                            .model = s->run.network.name,
                            .exec = s->compute.exec,
                            .plan = s->compute.plan,
                            .threads = s->compute.threads,
                            .local = s->compute.local,
                            .first_step = s->run.counters.step};
  if (!*s->run.settings->profile)
    return HD_OK;
  HD_TRY(hd__profile_open(&s->report.profiler, ctx, &of));
  return hd__exec_trace(s->compute.eval_exec, ctx, s->report.profiler.trace);
}

static const hd_setup_step steps[] = {
    {"lock the resumed run", "", "lock", hd__session_lock_resumed, HD_SETUP_KEPT},
    {"use one stage", "", "stages", use_one_stage, HD_SETUP_REHEARSED},
    {"adopt the resumed run", "lock stages", "options old-record network", adopt_run, HD_SETUP_RESUMED},
    {"complete the settings", "options stages", "settings", complete_settings, HD_SETUP_ALWAYS},
    {"find the network", "settings", "network", find_network, HD_SETUP_NEW},
    {"adopt statistics", "old-record network settings", "statistics", adopt_statistics, HD_SETUP_RESUMED},
    {"smooth labels", "settings network", "smoothing", smooth_labels, HD_SETUP_ALWAYS},
    {"agree on settings", "settings network statistics smoothing", "agreement", agree_on_settings, HD_SETUP_ALWAYS},
    {"open the device", "agreement", "device", open_device, HD_SETUP_ALWAYS},
    {"choose kernels", "device", "kernels", choose_kernels, HD_SETUP_ALWAYS},
    {"compare the library", "old-record kernels", "", compare_library, HD_SETUP_RESUMED},
    {"open threads", "agreement", "threads", choose_threads, HD_SETUP_ALWAYS},
    {"find places", "threads", "places", find_places, HD_SETUP_ALWAYS},
    {"count CPUs", "threads", "cpus", count_all_cpus, HD_SETUP_ALWAYS},
    {"open the data", "agreement", "data", open_data, HD_SETUP_ALWAYS},
    {"compare the data", "old-record data", "", compare_data, HD_SETUP_RESUMED},
    {"adopt the network's statistics", "network data kernels", "input-map", adopt_input_map, HD_SETUP_ALWAYS},
    {"weigh classes", "data", "class-weights", weigh_classes, HD_SETUP_ALWAYS},
    {"make feeds", "data kernels input-map class-weights", "feeds", make_feeds, HD_SETUP_ALWAYS},
    {"fit the network to the data", "network feeds", "model", fit_network, HD_SETUP_ALWAYS},
    {"scale targets", "model feeds", "targets", scale_targets, HD_SETUP_ALWAYS},
    {"agree on input", "device kernels feeds targets", "input", agree_on_input, HD_SETUP_ALWAYS},
    {"share skips", "input", "skips", hd__session_share_skips, HD_SETUP_ALWAYS},
    {"take the loss of the program", "device model targets input", "program", take_program, HD_SETUP_ALWAYS},
    {"check the metric", "model data", "", check_metric, HD_SETUP_ALWAYS},
    {"make room for guesses", "model feeds", "guesses", make_guesses, HD_SETUP_ALWAYS},
    {"count steps", "model feeds", "steps", choose_steps, HD_SETUP_ALWAYS},
    {"make plans and stores", "device kernels places model input steps program", "plans", hd__session_make_plans,
     HD_SETUP_ALWAYS},
    {"make executors", "plans threads", "executors", hd__session_make_executors, HD_SETUP_ALWAYS},
    {"set weights", "executors", "weights", fill_weights, HD_SETUP_ALWAYS},
    {"enter the stage", "weights", "stage", hd__session_enter_stage, HD_SETUP_ALWAYS},
    {"keep features", "stage feeds threads", "features", hd__features_keep, HD_SETUP_ALWAYS},
    {"fill the report", "places cpus executors features", "report", fill_report, HD_SETUP_ALWAYS},
    {"settle the number of threads", "report", "layout", settle_threads, HD_SETUP_ALWAYS},
    {"report stages", "layout", "stage-report", hd__stages_note, HD_SETUP_ALWAYS},
    {"watch the time of ranks", "layout", "rank-times", watch_ranks, HD_SETUP_ALWAYS},
    {"account for memory", "layout", "accounts", account_memory, HD_SETUP_ALWAYS},
    {"make the record", "data targets device layout", "record", make_record, HD_SETUP_ALWAYS},
    {"count skips", "skips report record", "skip-counts", hd__session_count_skips, HD_SETUP_ALWAYS},
    {"settle the device", "rank-times accounts record stage-report", "place", hd__device_settle, HD_SETUP_KEPT},
    {"start loader workers", "place steps", "workers", hd__session_start_workers, HD_SETUP_KEPT},
    {"open the profile", "place", "profile", open_profile, HD_SETUP_KEPT},
    {"open the run's folder", "place workers profile guesses skip-counts", "", hd__session_open_run, HD_SETUP_KEPT}};

const hd_setup_step *hd__session_steps(int *count) {
  *count = sizeof steps / sizeof *steps;
  return steps;
}

hd_status hd__session_setup(hd_session *s, hd_ctx *ctx, bool rehearses) {
  const bool resumes = *s->run.settings->resume;
  const bool taken[] = {[HD_SETUP_ALWAYS] = true,
                        [HD_SETUP_NEW] = !resumes,
                        [HD_SETUP_RESUMED] = resumes,
                        [HD_SETUP_REHEARSED] = rehearses,
                        [HD_SETUP_KEPT] = !rehearses};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    if (taken[steps[i].when])
      HD_TRY(steps[i].take(s, ctx));
  return HD_OK;
}
