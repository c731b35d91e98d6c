/* Opening checkpoints for inference; see trained_model.h. */
#include "train/inference/trained_model.h"

#include <math.h>
#include <string.h>

#include "base/event_log.h"
#include "data/formats/formats.h"
#include "train/checkpoint/checkpoint.h"
#include "train/placement/run_plan.h"
#include "train/inference/view_evaluation.h"
#include "train/settings/run_record.h"

/* For --device auto the choice that the run made, else the CPU; NULL: the device is named. */
static const char *chosen_device(const hd_trained *t, const hd_config *config) {
  const char *chosen = hd__record_chosen_device(t->record);
  if (!hd__settings(config)->devices.automatic)
    return NULL;
  return chosen && *chosen ? chosen : "cpu";
}

static hd_status choose_machine(hd_trained *t, hd_ctx *ctx, const hd_config *config) {
  const hd_placement_request request = hd__config_placement(config);
  HD_TRY(hd__planned_kernels(&t->kernels, ctx));
  HD_TRY(hd__device_open_named(&t->device, ctx, config, chosen_device(t, config)));
  return hd__threads_open(&t->threads, ctx, &request);
}

static hd_status open_executor(hd_trained *t, hd_ctx *ctx) {
  hd_exec_settings settings = hd__planned_evaluation(t->plan, &t->device);
  settings.fetch_bytes = t->fetch_bytes;
  return hd__exec_create(&t->exec, ctx, t->plan, t->store, t->threads, &settings);
}

static hd_status make_executor(hd_trained *t, hd_ctx *ctx, const char *folder) {
  char path[HD_PATH_BYTES];
  int64_t arithmetic;
  hd_graph *graph;
  if (hd__config_has(t->run, HD_OPT_LABEL_SMOOTHING))
    t->network.label_smoothing = hd__settings(t->run)->label_smoothing;
  HD_TRY(hd__network_graph(&graph, ctx, &t->network));
  const float shift = hd__record_shift(t->record);
  const hd_plan_settings settings = {.may_shift = !isnan(shift), .shift = shift};
  HD_TRY(hd__plan_create(&t->plan, ctx, graph, hd__device_kernels(&t->device, t->kernels, t->run, false), &settings));
  HD_TRY(hd__store_create(&t->store, ctx, NULL, t->plan));
  HD_TRY(open_executor(t, ctx));
  HD_TRY(hd__file_join(path, ctx, folder, "model.safetensors"));
  HD_TRY(hd__checkpoint_load_weights(t->store, &arithmetic, ctx, path, t->record, NULL));
  if (hd__checkpoint_converts(t->store->directory, arithmetic))
    hd__fail(ctx, HD_OK, "note: %s: " HD_CHECKPOINT_CONVERTED, folder, (long long)arithmetic);
  hd__store_pack(t->store, t->plan, NULL);
  return HD_OK;
}

/* A channel's number: an entry of a list, or the one number for all channels. */
static double of_channel(const json_t *value, int c) {
  return json_number_value(json_is_array(value) ? json_array_get(value, (size_t)c) : value);
}

/* Reads the run's statistics, so that samples are normalised as in training. */
static hd_status read_statistics(hd_trained *t, hd_ctx *ctx, const char *folder) {
  const json_t *data = json_object_get(t->record, "data");
  const json_t *mean = json_object_get(data, "mean"), *std = json_object_get(data, "std");
  bool good = true;
  for (int c = 0; c < HD_DATA_MAX_CHANNELS; c++) {
    t->mean[c] = of_channel(mean, c);
    t->std[c] = of_channel(std, c);
    good = good && (t->std[c] > 0 || (c > 0 && json_is_array(std) && c >= (int)json_array_size(std)));
  }
  if (good)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s/run.json: expected the data's mean and std, found none; the checkpoint is damaged, use another",
                  folder);
}

/* The run's lists of transforms. */
static hd_transform_lists lists_of(const hd_trained *t) {
  return (hd_transform_lists){.train = hd__settings(t->run)->transforms,
                              .eval = hd__settings(t->run)->eval_transforms,
                              .train_origin = "",
                              .eval_origin = "",
                              .classes = t->network.target.of_classes ? t->network.target.scores : 0};
}

/* A row that is normalised by columns has a number for each element of the input. */
static hd_status check_features(const hd_trained *t, hd_ctx *ctx, const char *folder) {
  const int64_t elems = hd__shape_elems(&t->plan->graph->values[t->plan->graph->input].shape);
  if (!hd__trained_reads_columns(t) || t->features.count == elems)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s/run.json: expected %lld features in 'data', as the model's input has, found %d; the checkpoint is "
      "damaged, use another",
      folder, (long long)elems, t->features.count);
}

static hd_status open_all(hd_trained *t, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  char folder[HD_PATH_BYTES], path[HD_PATH_BYTES];
  HD_TRY(hd__checkpoint_find(folder, ctx, checkpoint));
  HD_TRY(hd__checkpoint_record(&t->record, ctx, folder));
  HD_TRY(hd__record_config(&t->run, ctx, t->record, folder));
  HD_TRY(read_statistics(t, ctx, folder));
  HD_TRY(hd__record_class_names(&t->class_name, &t->class_names, ctx, t->record));
  HD_TRY(hd__record_features(&t->features, ctx, t->record, folder));
  hd__record_palette(&t->palette, t->record);
  HD_TRY(hd__target_scale_read(&t->targets, ctx, t->record, folder));
  HD_TRY(hd__file_join(path, ctx, folder, "run.json"));
  HD_TRY(hd__network_from_text(&t->network, ctx, json_string_value(json_object_get(t->record, "model_yaml")), path));
  const hd_transform_lists lists = lists_of(t);
  t->network.target.of_classes = hd__transform_lists_make_numbers(&lists);
  t->tta = (hd_tta_choice)hd__settings(hd__config_given(config, HD_OPT_TTA) ? config : t->run)->tta;
  HD_TRY(choose_machine(t, ctx, config));
  HD_TRY(make_executor(t, ctx, folder));
  return check_features(t, ctx, folder);
}

hd_status hd__trained_open(hd_trained *out, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  *out = (hd_trained){0};
  hd_status status = hd__log_start(ctx);
  HD_THEN(status, open_all(out, ctx, checkpoint, config));
  if (status != HD_OK)
    hd__trained_fini(out);
  return status;
}

void hd__trained_fini(hd_trained *t) {
  hd__exec_destroy(t->exec);
  hd__device_close(&t->device);
  hd__store_destroy(t->store);
  hd__plan_destroy(t->plan);
  hd__threads_destroy(t->threads);
  hd__network_fini(&t->network);
  hd_config_destroy(t->run);
  hd__features_fini(&t->features);
  hd__target_scale_fini(&t->targets);
  hd__free(t->class_name);
  json_decref(t->record);
  *t = (hd_trained){0};
}

bool hd__trained_reads_columns(const hd_trained *t) { return hd__settings(t->run)->normalize == HD_NORMALIZE_COLUMN; }

hd_status hd__trained_feed(hd_feed *out, hd_ctx *ctx, hd_trained *t, const hd_split *samples, hd_pipeline_mode mode) {
  const hd_transform_lists lists = lists_of(t);
  HD_TRY(hd__feed_init(out, ctx, samples, t->kernels, t->mean, t->std));
  HD_TRY(hd__feed_set_transforms(out, ctx, &lists, mode, 0)); /* nothing is drawn */
  hd__feed_leave_shift(out, t->plan->shifts);
  out->targets = t->targets.count > 0 ? &t->targets : NULL;
  HD_TRY(hd__views_open(out, ctx, t->tta, "the data"));
  if (t->exec && hd__feed_scratch_bytes(out) <= t->fetch_bytes)
    return HD_OK;
  hd__exec_destroy(t->exec);
  t->exec = NULL;
  t->fetch_bytes = hd__feed_scratch_bytes(out);
  return open_executor(t, ctx);
}

hd_status hd__trained_evaluate(const hd_exec_outcome *out, hd_ctx *ctx, hd_trained *t, hd_feed *feed) {
  const hd_view_evaluation settings = {.tta = t->tta, .plan = t->plan, .kernels = t->kernels};
  return hd__evaluate_views(out, t->exec, ctx, feed, &settings);
}

/* ---- Bytes and floats ---- */

static bool is_trained_on(const hd_trained *t, const char *elements) {
  const char *are = json_string_value(json_object_get(json_object_get(t->record, "data"), "elements"));
  return are && !strcmp(are, elements);
}

/* Numbers from 0 to 1 have such a mean, and deviate by one half at most. */
bool hd__trained_may_read_pixels(const hd_trained *t) {
  bool may = true;
  if (!is_trained_on(t, "float32") || hd__settings(t->run)->normalize == HD_NORMALIZE_NONE)
    return true;
  for (int c = 0; c < HD_DATA_MAX_CHANNELS && t->std[c] > 0; c++)
    may = may && t->mean[c] >= 0 && t->mean[c] <= 1 && t->std[c] <= 0.5001;
  return may;
}

/* The place of the first number that is no pixel's, or the count. */
static int64_t first_beyond(const float *number, int64_t count) {
  int64_t i = 0;
  while (i < count && number[i] >= 0 && number[i] <= 1)
    i++;
  return i;
}

/* Whether there are ones, and zeros alone beside them: they may be pixels, or bytes. */
static bool are_bits(const float *number, int64_t count) {
  bool ones = false, others = false;
  for (int64_t i = 0; i < count && !others; i++) {
    ones = ones || number[i] == 1;
    others = number[i] != 0 && number[i] != 1;
  }
  return ones && !others;
}

static hd_status check_pixels(hd_ctx *ctx, const char *name, const hd_split *d) {
  const int64_t each = hd__split_elems(d), count = d->floats ? d->count * each : 0;
  const int64_t at = first_beyond(d->floats, count);
  if (!d->floats || (d->channels == 1 && d->height == 1))
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected bytes as in training, found floats; give the numbers as bytes (uint8)", name);
  if (at == count && are_bits(d->floats, count))
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected bytes as in training, or floats from 0 to 1 in their place, found only 0 and 1, "
                    "which may be either; give the numbers as bytes (uint8)",
                    name);
  if (at == count)
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE,
                  "%s: expected bytes as in training, or floats from 0 to 1 in their place, found %g in sample %lld; "
                  "give the numbers as bytes (uint8)",
                  name, (double)d->floats[at], (long long)(at / each));
}

hd_status hd__trained_check_kind(const hd_trained *t, hd_ctx *ctx, const char *name, const hd_split *samples) {
  if (hd__trained_reads_columns(t))
    return HD_OK;
  if (samples->elem == HD_ELEM_F32 && is_trained_on(t, "uint8"))
    return check_pixels(ctx, name, samples);
  if (samples->elem == HD_ELEM_U8 && is_trained_on(t, "float32"))
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected floats as in training, found bytes (uint8), which stand for pixels from 0 to 1; "
                    "convert them to the numbers used in training, as float32",
                    name);
  return HD_OK;
}

static hd_status check_fit(hd_trained *t, hd_ctx *ctx, const hd_dataset *data) {
  HD_FEED_OWNED feed = {0};
  HD_TRY(hd__trained_check_kind(t, ctx, data->name, hd__dataset_test(data)));
  HD_TRY(hd__trained_feed(&feed, ctx, t, hd__dataset_test(data), HD_PIPELINE_EVALUATION));
  return hd__feed_check(ctx, &feed, &t->network, t->plan->graph, data->name);
}

hd_csv_options hd__trained_table(const hd_trained *t, const hd_config *config) {
  const hd_csv_options given = hd__config_data(config).table;
  hd_csv_options is = hd__network_request(&t->network, t->run).table;
  const bool was_asked = is.label && *is.label, is_asked = hd__config_given(config, HD_OPT_LABEL);
  if (t->features.label)
    is.label = t->features.label;
  if (is_asked)
    is.label = given.label;
  is.is_found = !was_asked && !is_asked;
  is.may_lack_weights = !hd__config_given(config, HD_OPT_WEIGHTS);
  if (!is.may_lack_weights)
    is.weights = given.weights;
  if (hd__config_given(config, HD_OPT_HEADER))
    is.header = given.header;
  if (hd__config_given(config, HD_OPT_MISSING))
    is.refuses_empty = given.refuses_empty;
  if (hd__config_given(config, HD_OPT_CATEGORIES))
    is.categories = given.categories;
  return is;
}

/* Weights belong to the normalisation that they were trained with. */
static hd_status check_normalize(const hd_trained *t, hd_ctx *ctx, const hd_config *config) {
  const int is = hd__settings(t->run)->normalize, given = hd__settings(config)->normalize;
  if (!hd__config_given(config, HD_OPT_NORMALIZE) || given == HD_NORMALIZE_AUTO || given == is)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "expected --normalize %s as in the run, found %s; leave --normalize out, or train with it",
                  hd_choice_name(HD_OPT_NORMALIZE, is), hd_choice_name(HD_OPT_NORMALIZE, given));
}

/* What is read for this run: the configuration's data, or its own. */
static hd_dataset_request request_of(const hd_trained *t, const hd_config *config) {
  const hd_option_id id[3] = {HD_OPT_DATA, HD_OPT_DATA_DIR, HD_OPT_ON_ERROR};
  const hd_settings *from[3]; /* given, or the run's */
  for (int i = 0; i < 3; i++)
    from[i] = hd__settings(hd__config_given(config, id[i]) ? config : t->run);
  hd_dataset_request request = hd__config_data(config);
  const hd_dataset_request of_run = hd__config_data(t->run);
  request.name = from[0]->data;
  request.data_dir = from[1]->data_dir;
  request.skip = from[2]->on_error == HD_ON_ERROR_SKIP;
  request.ignored = t->network.target.ignored;
  request.first_rules = of_run.first_rules;
  request.fold = of_run.fold; /* of its own data the samples that the run was not trained on */
  request.allow_empty |= of_run.allow_empty;
  request.photos = of_run.photos;
  if (hd__config_given(config, HD_OPT_EXIF))
    request.photos.ignore_exif = hd__settings(config)->exif == HD_EXIF_IGNORE;
  request.normalize = of_run.normalize;
  request.context = t->network.target.places;
  request.bytes = of_run.bytes;
  request.table = hd__trained_table(t, config);
  request.of_run = true;
  request.classes = (hd_class_names){t->class_name, t->class_names};
  request.palette = &t->palette;
  request.features = t->features.count > 0 ? &t->features : NULL;
  return request;
}

static bool is_of_run(const hd_trained *t, const hd_dataset *data) {
  return hd__record_has_sums(t->record, data->statistics.checksum);
}

/* The number of samples that the run was trained and tested on. */
static int64_t samples_of_run(const hd_trained *t) {
  const json_t *data = json_object_get(t->record, "data");
  return json_integer_value(json_object_get(data, "train_samples")) +
         json_integer_value(json_object_get(data, "test_samples"));
}

/* Whether a whole set may be the run's before it was divided. A text has fewer windows then, and must be long enough
 * that the tenth of it is one. */
static bool may_be_of_run(const hd_trained *t, const hd_split *all) {
  return all->window ? all->tokens / 10 > all->width : all->count == samples_of_run(t);
}

/* The samples of given data to evaluate: all of a set without a test set, unless it is the run's. A fold of a set that
 * has a test set is the run's if it has the same name. */
static hd_status open_given(hd_dataset **out, hd_evaluated *part, hd_ctx *ctx, const hd_trained *t,
                            const hd_dataset_request *divided, bool named_alike) {
  hd_dataset *parts = NULL;
  hd_dataset_request whole = *divided;
  whole.fold = (hd_fold){0};
  whole.whole = true;
  HD_TRY(hd__dataset_open(out, ctx, &whole));
  const bool is_whole = (*out)->shared, folded = divided->fold.of > 0 && named_alike;
  *part = is_whole ? HD_EVALUATED_ALL : HD_EVALUATED_TEST;
  if ((!is_whole && !folded) || !may_be_of_run(t, hd__dataset_train(*out)))
    return HD_OK;
  const hd_status status = hd__dataset_open(&parts, ctx, divided);
  if (status == HD_OK && is_of_run(t, parts)) {
    hd_dataset *const all = *out;
    *out = parts;
    parts = all;
    *part = HD_EVALUATED_SAME;
  }
  hd__dataset_close(parts);
  return HD_CREATED(status, out, hd__dataset_close);
}

hd_status hd__trained_data(hd_dataset **out, hd_evaluated *part, hd_ctx *ctx, hd_trained *t, const hd_config *config) {
  const hd_dataset_request request = request_of(t, config);
  HD_TRY(check_normalize(t, ctx, config));
  if (hd__config_given(config, HD_OPT_DATA))
    HD_TRY(open_given(out, part, ctx, t, &request, hd__config_same(config, t->run, HD_OPT_DATA)));
  else
    HD_TRY(hd__dataset_open(out, ctx, &request));
  if (!hd__config_given(config, HD_OPT_DATA))
    *part = is_of_run(t, *out) ? HD_EVALUATED_OWN : HD_EVALUATED_CHANGED;
  hd_status status = check_fit(t, ctx, *out);
  return HD_CREATED(status, out, hd__dataset_close);
}
