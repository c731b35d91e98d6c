/* Making, reading and comparing run.json; see run_record.h. */
#include "train/settings/run_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "base/number.h"
#include "base/status.h"
#include "base/version.h"
#include "data/split/skipped_samples.h"
#include "platform/machine.h"
#include "train/settings/run_features.h"

/* NULL if one that the result depends on is no UTF-8. */
static json_t *settings_of(const hd_config *config, int32_t shards) {
  json_t *settings = json_object();
  for (int i = 0; hd_option_at(i); i++) {
    const hd_option *option = hd_option_at(i);
    const char *text = hd__config_shown(config, (hd_option_id)i);
    if (i == HD_OPT_RESUME || i == HD_OPT_ACCEPT_ARITHMETIC || i == HD_OPT_OUT || i == HD_OPT_JSON || !*text ||
        !hd__config_applies(config, (hd_option_id)i))
      continue;
    if (json_object_set_new(settings, option->name, json_string(text)) == 0 ||
        (option->kind != HD_OPTION_EXPERIMENT && i != HD_OPT_INIT))
      continue;
    json_decref(settings);
    return NULL;
  }
  char text[16];
  snprintf(text, sizeof text, "%d", shards);
  json_object_set_new(settings, "shards", json_string(text));
  return settings;
}

/* A number, or one per channel. */
static json_t *per_channel(const double *value, int channels) {
  if (channels == 1)
    return json_real(value[0]);
  json_t *list = json_array();
  for (int c = 0; c < channels; c++)
    json_array_append_new(list, json_real(value[c]));
  return list;
}

static const char FEATURES[] = "features";

hd_status hd__record_features(hd_features *out, hd_ctx *ctx, const json_t *record, const char *folder) {
  const json_t *features = json_object_get(json_object_get(record, "data"), FEATURES);
  *out = (hd_features){0};
  if (!features || hd__features_read(out, features))
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s/run.json: expected the data's features, found text that cannot be read; the checkpoint is damaged, use "
      "another",
      folder);
}

static const char BYTES[] = "uint8", FLOATS[] = "float32";
#define RULES "rules"

/* NULL if a name is no UTF-8. */
static json_t *names_of(const hd_split *split) {
  json_t *list = json_array();
  for (int c = 0; c < split->classes; c++)
    if (json_array_append_new(list, json_string(split->class_names[c])) != 0) {
      json_decref(list);
      return NULL;
    }
  return list;
}

hd_status hd__record_class_names(const char ***out, int32_t *count, hd_ctx *ctx, const json_t *record) {
  const json_t *list = json_object_get(json_object_get(record, "data"), "class_names");
  *count = (int32_t)json_array_size(list);
  *out = NULL;
  if (*count == 0)
    return HD_OK;
  HD_TRY(HD_NEW(*out, *count, ctx, "out of memory for the names of classes"));
  for (int32_t i = 0; i < *count; i++) {
    const char *name = json_string_value(json_array_get(list, (size_t)i));
    (*out)[i] = name ? name : "";
  }
  return HD_OK;
}

static const char PALETTE[] = "palette";
enum { COLOR_DIGITS = 6 };

/* "000000ff0000", six hex digits for each place. */
static json_t *palette_text(const hd_palette *palette) {
  char text[256 * COLOR_DIGITS + 1];
  for (int i = 0; i < palette->count; i++)
    snprintf(text + i * COLOR_DIGITS, COLOR_DIGITS + 1, "%02x%02x%02x", palette->rgb[i][0], palette->rgb[i][1],
             palette->rgb[i][2]);
  return json_string(text);
}

void hd__record_palette(hd_palette *out, const json_t *record) {
  const char *text = hd__json_text(json_object_get(record, "data"), PALETTE);
  *out = (hd_palette){0};
  for (int at = 0; out->count < 256 && strlen(text) >= COLOR_DIGITS; out->count++, text += at)
    if (sscanf(text, "%2hhx%2hhx%2hhx%n", &out->rgb[out->count][0], &out->rgb[out->count][1], &out->rgb[out->count][2],
               &at) != 3)
      return;
}

/* NULL if a name is no UTF-8. */
static json_t *data_of(const hd_dataset *data) {
  json_t *sums = json_array();
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    char text[24];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)data->statistics.checksum[i]);
    json_array_append_new(sums, json_string(text));
  }
  const int channels = hd__dataset_train(data)->channels;
  json_t *is = json_pack(
      "{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "name", data->name, "elements",
      hd__dataset_train(data)->elem == HD_ELEM_U8 ? BYTES : FLOATS, "train_samples",
      (json_int_t)hd__dataset_train(data)->count, "test_samples", (json_int_t)hd__dataset_test(data)->count, "mean",
      per_channel(data->statistics.mean, channels), "std", per_channel(data->statistics.std, channels), "xxh3", sums);
  if (!data->first_rules)
    json_object_set_new(is, RULES, json_integer(HD_DATA_RULES));
  if (hd__dataset_train(data)->class_names &&
      json_object_set_new(is, "class_names", names_of(hd__dataset_train(data))) != 0) {
    json_decref(is);
    return NULL;
  }
  if (data->palette.count > 0)
    json_object_set_new(is, PALETTE, palette_text(&data->palette));
  if (hd__dataset_features(data))
    json_object_set_new(is, FEATURES, hd__features_json(hd__dataset_features(data)));
  return is;
}

hd_status hd__record_make(json_t **out, hd_ctx *ctx, const hd_config *config, const hd_network *network,
                          const hd_dataset *data, int32_t shards, int threads) {
  char cpu[128];
  hd__cpu_name(cpu, sizeof cpu);
  *out = json_pack("{s:s, s:i, s:s, s:o, s:o, s:{s:s, s:i}, s:s}", "heddle", hd__version(), "arithmetic_version",
                   HD_ARITHMETIC_VERSION, "model", network->name, "settings", settings_of(config, shards), "data",
                   data_of(data), "machine", "cpu", cpu, "threads", threads, "model_yaml", network->text);
  return *out ? HD_OK
              : hd__fail(ctx, HD_E_FORMAT,
                         "expected names and model text in UTF-8, found other bytes (or memory ran out); rename the "
                         "file or folder");
}

hd_status hd__record_note_library(json_t *record, hd_ctx *ctx, const char *library) {
  return HD_ALLOCATED(!*library || json_object_set_new(record, "library", json_string(library)) == 0, ctx,
                      "out of memory for the run's record");
}

hd_status hd__record_note_shift(json_t *record, hd_ctx *ctx, float shift) {
  json_t *data = json_object_get(record, "data");
  return HD_ALLOCATED(json_object_set_new(data, "shift", hd__json_of_float(shift)) == 0, ctx,
                      "out of memory for the run's record");
}

float hd__record_shift(const json_t *record) {
  const json_t *shift = json_object_get(json_object_get(record, "data"), "shift");
  return shift ? (float)json_number_value(shift) : NAN;
}

static const char EARLIER[] = "earlier_arithmetic";

hd_status hd__record_note_earlier_arithmetic(json_t *record, hd_ctx *ctx, int32_t version) {
  return HD_ALLOCATED(version == 0 || json_object_set_new(record, EARLIER, json_integer(version)) == 0, ctx,
                      "out of memory for the run's record");
}

int32_t hd__record_earlier_arithmetic(const json_t *record) {
  return (int32_t)json_integer_value(json_object_get(record, EARLIER));
}

bool hd__record_has_floats(const json_t *record) {
  const char *elements = json_string_value(json_object_get(json_object_get(record, "data"), "elements"));
  return elements && !strcmp(elements, FLOATS);
}

hd_status hd__record_note_device(json_t *record, hd_ctx *ctx, const char *device, const char *isa) {
  json_t *machine = json_object_get(record, "machine");
  const bool set = json_object_set_new(machine, "device", json_string(device)) == 0 &&
                   json_object_set_new(machine, "isa", json_string(isa)) == 0;
  return HD_ALLOCATED(set, ctx, "out of memory for the run's record");
}

hd_status hd__record_note_skips(json_t *record, hd_ctx *ctx, const hd_dataset *data) {
  json_t *skipped = json_pack("{s:I, s:I}", "train", (json_int_t)hd__skips_unread(hd__dataset_train(data)), "test",
                              (json_int_t)hd__skips_unread(hd__dataset_test(data)));
  return HD_ALLOCATED(skipped && json_object_set_new(record, "skipped", skipped) == 0, ctx,
                      "out of memory for the run's record");
}

hd_status hd__record_check_library(hd_ctx *ctx, const json_t *record, const char *library, const char *folder) {
  const char *wanted = json_string_value(json_object_get(record, "library"));
  if (!strcmp(wanted ? wanted : "", library))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "--resume %s: expected %s as in that run, found %s; name that library in HEDDLE_BLAS and its core in "
                  "OPENBLAS_CORETYPE, give that run's --device, or start a new run",
                  folder, wanted ? wanted : "no library", *library ? library : "none");
}

const char *hd__json_text(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* Runs from before --normalize normalised by channel; runs from before --target-scale did not scale targets. */
const char *hd__record_setting(const json_t *record, hd_option_id id) {
  const char *text = hd__json_text(json_object_get(record, "settings"), hd_option_at((int)id)->name);
  if (id == HD_OPT_TARGET_SCALE && !*text)
    return hd_choice_name(id, HD_TARGET_SCALE_NONE);
  return id == HD_OPT_NORMALIZE && !*text ? hd_choice_name(id, HD_NORMALIZE_CHANNEL) : text;
}

/* Settings are equal as texts, or as numbers: 1e-3 is 0.001. */
static bool same_value(const char *a, const char *b) {
  double x, y;
  return !strcmp(a, b) || (hd__parse_double(&x, a) && hd__parse_double(&y, b) && x == y);
}

/* Whether rules name a schedule: a key, with quotes or without. */
static bool names_schedule(const char *text) {
  static const char key[] = "schedule";
  while ((text = strstr(text, key))) {
    text += strlen(key);
    if (text[strspn(text, "\"' \t")] == ':')
      return true;
  }
  return false;
}

static bool may_differ(const json_t *record, int id) {
  const char *schedule = hd__record_setting(record, HD_OPT_SCHEDULE);
  /* Of the run, or of a group. */
  const bool groups = names_schedule(hd__record_setting(record, HD_OPT_PARAMETERS)) ||
                      names_schedule(hd__json_text(record, "model_yaml"));
  const bool free_epochs = (!strcmp(schedule, "const") || !strcmp(schedule, "step")) && !groups &&
                           !*hd__record_setting(record, HD_OPT_LOOKAHEAD);
  return id == HD_OPT_MAX_STEPS || (id == HD_OPT_EPOCHS && free_epochs);
}

/* A given value must equal the saved one. */
static hd_status check_same(const hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder, int id) {
  const char *saved = hd__record_setting(record, (hd_option_id)id), *name = hd_option_at(id)->name;
  const char *given = hd__config_shown(config, (hd_option_id)id);
  bool off = hd_option_at(id)->type == HD_OPTION_FLAG && !*saved && !strcmp(given, "false");
  bool older = !*saved && !strcmp(given, hd_option_at(id)->fallback); /* a run older than the option */
  if (!hd__config_given(config, (hd_option_id)id) || may_differ(record, id) || same_value(given, saved) || off || older)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "--resume %s: expected %s %s as in that run, found %s; leave --%s out or start a new run", folder,
                  name, *saved ? saved : "unset", given, name);
}

/* Takes the saved value, unless one was given. */
static hd_status suggest(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder, int id) {
  const char *saved = hd__record_setting(record, (hd_option_id)id);
  hd_status status = *saved ? hd__config_suggest(config, ctx, (hd_option_id)id, saved) : HD_OK;
  if (status == HD_OK || status == HD_E_NOMEM)
    return status;
  return hd__fail_in(ctx, HD_E_FORMAT, "%s/run.json", folder);
}

/* A setting without an option would be ignored silently. */
static hd_status check_known(hd_ctx *ctx, const json_t *record, const char *folder) {
  json_t *settings = json_object_get(record, "settings"), *value;
  const char *name;
  json_object_foreach(settings, name, value) {
    int id = 0;
    while (hd_option_at(id) && strcmp(hd_option_at(id)->name, name))
      id++;
    if (!hd_option_at(id))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s/run.json: expected settings of heddle %s, found '%.80s'; use the heddle that made the run",
                      folder, hd__version(), name);
  }
  return HD_OK;
}

hd_status hd__record_take_rules(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder) {
  const json_t *rules = json_object_get(json_object_get(record, "data"), RULES);
  if (rules && json_integer_value(rules) != HD_DATA_RULES)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected version %d of the data's rules, found another; use the heddle that made the run",
                    folder, HD_DATA_RULES);
  if (!rules && hd__config_given(config, HD_OPT_EXIF) && hd__settings(config)->exif != HD_EXIF_IGNORE)
    return hd__fail(ctx, HD_E_USAGE, "%s: expected exif ignore as in that run, found %s; leave --exif out", folder,
                    hd__config_shown(config, HD_OPT_EXIF));
  hd__config_set_first_rules(config, !rules);
  return HD_OK;
}

hd_status hd__record_adopt(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder) {
  HD_TRY(check_known(ctx, record, folder));
  HD_TRY(hd__record_take_rules(config, ctx, record, folder));
  for (int i = 0; hd_option_at(i); i++)
    if (hd_option_at(i)->kind == HD_OPTION_EXPERIMENT) {
      HD_TRY(check_same(config, ctx, record, folder, i));
      HD_TRY(suggest(config, ctx, record, folder, i));
    }
  HD_TRY(check_same(config, ctx, record, folder, HD_OPT_INIT)); /* the checkpoint already holds these weights */
  HD_TRY(suggest(config, ctx, record, folder, HD_OPT_INIT));    /* so that the new record names them, too */
  /* Options that a user would otherwise have to repeat; --keep removes checkpoints. */
  static const hd_option_id kept[] = {HD_OPT_DATA, HD_OPT_DATA_DIR,   HD_OPT_SAVE_EVERY, HD_OPT_SAVE_EPOCHS,
                                      HD_OPT_KEEP, HD_OPT_EVAL_EVERY, HD_OPT_LOG_EVERY,  HD_OPT_SAMPLE_EVERY};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    HD_TRY(suggest(config, ctx, record, folder, kept[i]));
  return HD_OK;
}

const char *hd__record_chosen_device(const json_t *record) {
  const char *chosen = json_string_value(json_object_get(json_object_get(record, "machine"), "device"));
  return strcmp(hd__record_setting(record, HD_OPT_DEVICE), "auto") ? NULL : chosen ? chosen : "";
}

static const hd_option_id of_data[] = {HD_OPT_DATA,       HD_OPT_DATA_DIR, HD_OPT_ON_ERROR,    HD_OPT_TRANSFORMS,
                                       HD_OPT_NORMALIZE,  HD_OPT_LABEL,    HD_OPT_HEADER,      HD_OPT_MISSING,
                                       HD_OPT_CATEGORIES, HD_OPT_EXIF,     HD_OPT_ALLOW_EMPTY, HD_OPT_FOLD,
                                       HD_OPT_LOSS,       HD_OPT_WEIGHTS,  HD_OPT_TOKENS};

enum { OF_DATA = sizeof of_data / sizeof *of_data };

bool hd__record_is_of_data(hd_option_id option) {
  for (int i = 0; i < OF_DATA; i++)
    if (option == of_data[i])
      return true;
  return false;
}

static hd_status suggest_all(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder,
                             const hd_option_id *option, int count) {
  for (int i = 0; i < count; i++)
    HD_TRY(suggest(config, ctx, record, folder, option[i]));
  return HD_OK;
}

/* The settings that a forward pass over samples depends on. */
static hd_status suggest_forward(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder) {
  static const hd_option_id forward[] = {HD_OPT_EVAL_TRANSFORMS, HD_OPT_LABEL_SMOOTHING, HD_OPT_TTA,
                                         HD_OPT_TARGET_SCALE};
  HD_TRY(hd__record_take_rules(config, ctx, record, folder));
  HD_TRY(suggest_all(config, ctx, record, folder, of_data, OF_DATA));
  return suggest_all(config, ctx, record, folder, forward, sizeof forward / sizeof *forward);
}

hd_status hd__record_config(hd_config **out, hd_ctx *ctx, const json_t *record, const char *folder) {
  HD_TRY(hd_config_create(out, ctx));
  const hd_status status = suggest_forward(*out, ctx, record, folder);
  return HD_CREATED(status, out, hd_config_destroy);
}

/* A flag that is off may be recorded or not. */
static const char *stated(const hd_option *option, const char *text) {
  return option->type == HD_OPTION_FLAG && !strcmp(text, "false") ? "" : text;
}

/* A setting that a run of this configuration records; "" for none. */
static const char *recorded(const hd_config *config, int id) {
  return hd__config_applies(config, (hd_option_id)id)
             ? stated(hd_option_at(id), hd__config_shown(config, (hd_option_id)id))
             : "";
}

/* Whether the run chose a setting by itself that the configuration leaves open. */
static bool is_chosen(const json_t *record, const hd_config *config, int id, const char *wanted) {
  const char *rows = hd_choice_name(HD_OPT_NORMALIZE, HD_NORMALIZE_COLUMN);
  switch (id) {
  case HD_OPT_SHARDS: return !*wanted;
  case HD_OPT_TRANSFORMS:
    return !*wanted && (*hd__settings(config)->head || hd__onnx_is_path(hd__settings(config)->model));
  case HD_OPT_NORMALIZE:
  case HD_OPT_TARGET_SCALE: return !strcmp(wanted, hd_option_at(id)->fallback);
  case HD_OPT_EPOCHS:
  case HD_OPT_EVAL_EPOCHS:
    return !hd__config_given(config, (hd_option_id)id) && !strcmp(hd__record_setting(record, HD_OPT_NORMALIZE), rows);
  default: return false;
  }
}

hd_status hd__record_check_settings(hd_ctx *ctx, const json_t *record, const hd_config *config, int but) {
  for (int i = 0; hd_option_at(i); i++) {
    const hd_option *option = hd_option_at(i);
    const char *wanted = recorded(config, i), *saved = stated(option, hd__record_setting(record, (hd_option_id)i));
    const bool chosen = is_chosen(record, config, i, wanted);
    const bool older = !*saved && !strcmp(wanted, option->fallback); /* a run older than the option */
    if ((option->kind != HD_OPTION_EXPERIMENT && i != HD_OPT_INIT) || i == HD_OPT_MODEL || i == but || chosen)
      continue;
    if (!same_value(wanted, saved) && !older)
      return hd__fail(ctx, HD_E_USAGE, "expected a run with %s %.200s, found one with %.200s; use another --out",
                      option->name, *wanted ? wanted : "unset", *saved ? saved : "unset");
  }
  return HD_OK;
}

/* The checksum that a record states of a part of the data, and whether it is this one, whose text is `found`. */
static const char *sum_at(char found[24], bool *same, const json_t *record, int part, uint64_t sum) {
  const json_t *sums = json_object_get(json_object_get(record, "data"), "xxh3");
  const char *expected = json_string_value(json_array_get(sums, (size_t)part));
  snprintf(found, 24, "%016llx", (unsigned long long)sum);
  *same = expected && !strcmp(expected, found);
  return expected;
}

bool hd__record_has_sums(const json_t *record, const uint64_t sum[HD_DATA_PARTS]) {
  char found[24];
  bool same = true;
  for (int i = 0; i < HD_DATA_PARTS && same; i++)
    sum_at(found, &same, record, i, sum[i]);
  return same;
}

/* The number of samples, what they are, and what normalises them; records of the first rules do not name them. */
static hd_status check_facts(hd_ctx *ctx, const json_t *record, const hd_dataset *data, const char *option,
                             const char *folder) {
  static const char *const fact[] = {"elements", "train_samples", "test_samples", "mean", "std", RULES};
  const json_t *is = json_object_get(record, "data");
  json_auto_t *now = data_of(data);
  for (size_t i = 0; i < sizeof fact / sizeof *fact; i++)
    if ((json_object_get(is, fact[i]) || strcmp(fact[i], RULES)) &&
        !json_equal(json_object_get(is, fact[i]), json_object_get(now, fact[i])))
      return hd__fail(ctx, HD_E_USAGE,
                      "%s%s: expected '%s' of the data %s as in that run, found another; give the same "
                      "--data",
                      option, folder, fact[i], data->name);
  return HD_OK;
}

hd_status hd__record_check_data(hd_ctx *ctx, const json_t *record, const hd_dataset *data, const char *option,
                                const char *folder) {
  static const char *const part[HD_DATA_PARTS] = {"training samples", "training labels", "test samples", "test labels"};
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    char found[24];
    bool same;
    const char *expected = sum_at(found, &same, record, i, data->statistics.checksum[i]);
    if (!same)
      return hd__fail(ctx, HD_E_USAGE,
                      "%s%s: expected %s with checksum %s as in that run, found %s in %s; give the same --data", option,
                      folder, part[i], expected ? expected : "(none recorded)", found, data->name);
  }
  const json_t *names = json_object_get(json_object_get(record, "data"), "class_names");
  json_t *names_now = names && hd__dataset_train(data)->class_names ? names_of(hd__dataset_train(data)) : NULL;
  const bool named = !names || json_equal(names, names_now);
  json_decref(names_now);
  if (!named)
    return hd__fail(ctx, HD_E_USAGE,
                    "%s%s: expected the class names of that run, found others in %s; give the same --data", option,
                    folder, data->name);
  const json_t *features = json_object_get(json_object_get(record, "data"), FEATURES);
  json_t *now = hd__dataset_features(data) ? hd__features_json(hd__dataset_features(data)) : NULL;
  const bool same = features ? json_equal(features, now) : !now || data->first_rules;
  json_decref(now);
  if (!same)
    return hd__fail(ctx, HD_E_USAGE, "%s%s: expected the columns of that run, found others in %s; give the same --data",
                    option, folder, data->name);
  return check_facts(ctx, record, data, option, folder);
}

/* ---- Learning rates of the program ---- */

static const char PROGRAM_LR[] = "program_lr";

hd_status hd__record_note_lr(json_t *record, hd_ctx *ctx, double scale) {
  return HD_ALLOCATED(json_object_set_new(record, PROGRAM_LR, json_real(scale)) == 0, ctx,
                      "out of memory for a run's record");
}

bool hd__record_lr(double *scale, const json_t *record) {
  const json_t *found = json_object_get(record, PROGRAM_LR);
  *scale = json_is_number(found) ? json_number_value(found) : 1;
  return json_is_number(found);
}

static const char LOSS[] = "program_loss", METRIC[] = "program_metric";

hd_status hd__record_note_functions(json_t *record, hd_ctx *ctx, const hd_config *config) {
  const hd_custom_loss *loss = hd__config_loss(config), *metric = hd__config_metric(config);
  const bool set = (!loss || json_object_set_new(record, LOSS, json_string(loss->name)) == 0) &&
                   (!metric || json_object_set_new(record, METRIC, json_string(metric->name)) == 0);
  return HD_ALLOCATED(set, ctx, "out of memory for a run's record");
}

static hd_status check_function(hd_ctx *ctx, const json_t *record, const hd_custom_loss *is, const char *key,
                                const char *folder) {
  const char *was = hd__json_text(record, key), *now = is ? is->name : "", *what = strrchr(key, '_') + 1;
  if (!strcmp(was, now))
    return HD_OK;
  return hd__fail(
      ctx, HD_E_USAGE,
      "%s: expected %s%s%s%s of the program as in that run, found %s%s%s; the run's files do not have it, so "
      "only a program can give it",
      folder, *was ? "the " : "no ", what, *was ? " " : "", was, *now ? "'" : "", *now ? now : "none", *now ? "'" : "");
}

hd_status hd__record_check_loss(hd_ctx *ctx, const json_t *record, const hd_config *config, const char *folder) {
  return check_function(ctx, record, hd__config_loss(config), LOSS, folder);
}

hd_status hd__record_check_functions(hd_ctx *ctx, const json_t *record, const hd_config *config, const char *folder) {
  HD_TRY(hd__record_check_loss(ctx, record, config, folder));
  return check_function(ctx, record, hd__config_metric(config), METRIC, folder);
}
