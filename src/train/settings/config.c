/* The settings of a run, from calls, files and recipes. A value is checked when it is set, and kept as text beside:
 * run.json stores the text that a user would type. */
#include "train/settings/config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/embed.h"
#include "base/nearest.h"
#include "base/sized_struct.h"
#include "base/number.h"
#include "base/status.h"
#include "base/yaml_bind.h"
#include "data/dataset/format.h"
#include "onnx/onnx.h"
#include "data/transforms/transform.h"
#include "graph/param_rules.h"
#include "optimizer/schedule_rules.h"
#include "platform/threads.h"
#include "train/settings/option_help.h"

enum { TEXT_BYTES = 4096, /* of a value in a file */ REMEDY_BYTES = 64 };

struct hd_config {
  hd_settings settings;
  char *value[HD_OPTION_COUNT];  /* as text; NULL: the default */
  char *origin[HD_OPTION_COUNT]; /* the file and lines that gave it; NULL: none */
  bool first_rules;              /* of a run without a version of the data's rules */
  char *description;             /* of the model, where it was read before; NULL: it was not */
  hd_custom_loss loss, metric;   /* of the program, whose names are owned; without a name there is none */
};

hd_status hd_config_create(hd_config **out, hd_ctx *ctx) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the settings"));
  hd__settings_init(&(*out)->settings);
  return HD_OK;
}

void hd_config_destroy(hd_config *config) {
  if (!config)
    return;
  for (int i = 0; i < HD_OPTION_COUNT; i++) {
    hd__free(config->value[i]);
    hd__free(config->origin[i]);
  }
  hd__free(config->description);
  hd__free((void *)config->loss.name);
  hd__free((void *)config->metric.name);
  hd__free(config);
}

/* Compares names, with '_' equal to '-'. */
static bool same_name(const char *a, const char *b) {
  while (*a && *b && (*a == *b || (*a == '_' && *b == '-')))
    a++, b++;
  return *a == 0 && *b == 0;
}

static int find(const char *name) {
  if (same_name(name, "batch-size"))
    name = "batch";
  for (int i = 0; i < HD_OPTION_COUNT; i++)
    if (same_name(name, hd_option_at(i)->name))
      return i;
  return -1;
}

static bool is_list(int id) {
  return id == HD_OPT_PARAMETERS || id == HD_OPT_TRANSFORMS || id == HD_OPT_EVAL_TRANSFORMS;
}

static const hd_optimizer_rule *optimizer_of(const hd_config *config) {
  return hd__optimizer_at(config->settings.optimizer);
}

/* The text of an option that was not set: that of its row, unless the optimizer has another. */
static const char *default_of(const hd_config *config, hd_option_id id) {
  const char *row = hd_option_at((int)id)->fallback;
  const hd_update_setting *s = hd__option_setting(id);
  return s && *row ? hd__optimizer_standard(optimizer_of(config), s) : row;
}

/* Gives the options that were not set the defaults of a new optimizer. */
static void take_defaults(hd_config *config) {
  for (const hd_update_setting *s = hd__update_settings; s->name; s++) {
    const hd_option_id id = hd__option_of_setting(s);
    if (!config->value[id] && *s->standard)
      hd__settings_read(&config->settings, NULL, id, default_of(config, id)); /* cannot fail */
  }
}

/* Takes over both texts, NULL if memory ran out; `origin` is "" where no file gave the value. */
static hd_status keep(hd_config *config, hd_ctx *ctx, int id, char *value, char *origin) {
  hd_status status = value && origin ? hd__settings_read(&config->settings, ctx, (hd_option_id)id, value)
                                     : hd__fail(ctx, HD_E_NOMEM, "out of memory for the settings");
  if (status != HD_OK) {
    hd__free(value);
    hd__free(origin);
    return status;
  }
  hd__free(config->value[id]);
  hd__free(config->origin[id]);
  config->value[id] = value;
  config->origin[id] = origin;
  if (id == HD_OPT_OPTIMIZER)
    take_defaults(config);
  return HD_OK;
}

hd_status hd__config_describe(hd_config *config, hd_ctx *ctx, const char *description) {
  hd__free(config->description);
  config->description = hd__strdup(description);
  return HD_ALLOCATED(config->description, ctx, "out of memory for the settings");
}

const char *hd__config_description(const hd_config *config) { return config->description; }

/* Whether there was memory. */
static bool copy_text(char **out, const char *text) {
  *out = text ? hd__strdup(text) : NULL;
  return *out || !text;
}

static bool copy_function(hd_custom_loss *copy, const hd_custom_loss *of) {
  *copy = *of;
  copy->name = NULL;
  char *name = NULL;
  const bool whole = copy_text(&name, of->name);
  copy->name = name;
  return whole;
}

/* ---- Functions of the program ---- */

static bool is_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return name && *name && strlen(name) <= 32 && strspn(name, letters) == strlen(name);
}

static hd_status set_function(hd_custom_loss *kept, hd_ctx *ctx, const hd_custom_loss *function, const char *what) {
  hd_custom_loss is = {0};
  if (function) {
    HD_TRY(hd__struct_read(&is, ctx, function, sizeof is, "hd_custom_loss"));
    if (!is_name(is.name) || !is.loss)
      return hd__fail(ctx, HD_E_USAGE, "expected a %s with a name of 1 to 32 letters, digits and '_', found %s%s", what,
                      is.loss ? "the name " : "no function",
                      !is.loss              ? ""
                      : is.name && *is.name ? is.name
                                            : "''");
  }
  hd_custom_loss copy;
  HD_TRY(HD_ALLOCATED(copy_function(&copy, &is), ctx, "out of memory for the settings"));
  hd__free((void *)kept->name);
  *kept = copy;
  return HD_OK;
}

hd_status hd_config_set_loss(hd_config *config, hd_ctx *ctx, const hd_custom_loss *loss) {
  return set_function(&config->loss, ctx, loss, "loss");
}

hd_status hd_config_set_metric(hd_config *config, hd_ctx *ctx, const hd_custom_loss *metric) {
  return set_function(&config->metric, ctx, metric, "metric");
}

const hd_custom_loss *hd__config_loss(const hd_config *config) { return config->loss.name ? &config->loss : NULL; }
const hd_custom_loss *hd__config_metric(const hd_config *config) {
  return config->metric.name ? &config->metric : NULL;
}

hd_status hd__config_copy(hd_config **out, hd_ctx *ctx, const hd_config *config) {
  HD_TRY(hd_config_create(out, ctx));
  hd_config *copy = *out;
  bool whole = copy_text(&copy->description, config->description);
  copy->settings = config->settings; /* its texts are those of `config` until they are held */
  copy->first_rules = config->first_rules;
  whole = copy_function(&copy->loss, &config->loss) && copy_function(&copy->metric, &config->metric) && whole;
  for (int i = 0; i < HD_OPTION_COUNT; i++) {
    whole = copy_text(&copy->value[i], config->value[i]) && copy_text(&copy->origin[i], config->origin[i]) && whole;
    hd__settings_hold(&copy->settings, (hd_option_id)i, copy->value[i]);
  }
  const hd_status status = HD_ALLOCATED(whole, ctx, "out of memory for the settings");
  return HD_CREATED(status, out, hd_config_destroy);
}

/* Lists are kept as one line, with the places of their entries for later messages. */
static hd_status set_list(hd_config *config, hd_ctx *ctx, int id, const hd_yaml_node *list, bool file) {
  char text[TEXT_BYTES], origin[TEXT_BYTES] = "";
  if (id == HD_OPT_PARAMETERS)
    HD_TRY(hd__param_rules_text(text, sizeof text, ctx, list));
  else
    HD_TRY(hd__transforms_text(text, sizeof text, ctx, list, id == HD_OPT_EVAL_TRANSFORMS));
  size_t at = file ? (size_t)snprintf(origin, sizeof origin, "%s:", list->source) : 0;
  for (int i = 0; file && i < list->count && at < sizeof origin; i++)
    at += (size_t)snprintf(origin + at, sizeof origin - at, i ? ",%d" : "%d", list->item[i].line);
  return keep(config, ctx, id, hd__strdup(text), hd__strdup(at < sizeof origin ? origin : ""));
}

/* A list of transforms may be given as a file name. */
static bool names_file(int id, const char *value) {
  const char *dot = strrchr(value, '.');
  return id != HD_OPT_PARAMETERS && dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")) && !strpbrk(value, "\n[{");
}

static hd_status parse_list(hd_config *config, hd_ctx *ctx, int id, const char *value) {
  char option[40];
  HD_YAML_OWNED *yaml = NULL;
  const bool file = names_file(id, value);
  snprintf(option, sizeof option, "--%s", hd_option_at(id)->name);
  hd_status status = file ? hd__yaml_read(&yaml, ctx, value) : hd__yaml_parse(&yaml, ctx, value, strlen(value), option);
  HD_THEN(status, set_list(config, ctx, id, hd__yaml_root(yaml), file));
  return status == HD_E_FORMAT && !file ? HD_E_USAGE : status;
}

/* `origin`: the file and line that gave the value, or "". */
static hd_status set_at(hd_config *config, hd_ctx *ctx, int i, const char *value, const char *origin) {
  if (is_list(i) && *value)
    return parse_list(config, ctx, i, value);
  return keep(config, ctx, i, hd__strdup(value), hd__strdup(origin));
}

/* The remedy for an unknown option name. */
static const char *remedy_of(char text[REMEDY_BYTES], const char *name) {
  hd_nearest nearest = {.word = name};
  for (int i = 0; i < HD_OPTION_COUNT; i++)
    hd__nearest_try(&nearest, hd_option_at(i)->name);
  hd__nearest_try(&nearest, "batch-size");
  if (!strcmp(name, "learning_rate") || !strcmp(name, "learning-rate"))
    nearest.name = "lr";
  if (!nearest.name)
    return "see heddle train --help";
  snprintf(text, REMEDY_BYTES, "did you mean '%s'?", nearest.name);
  return text;
}

hd_status hd_config_set(hd_config *config, hd_ctx *ctx, const char *name, const char *value) {
  char remedy[REMEDY_BYTES];
  int i = find(name);
  if (i < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected the name of an option, found '%s'; %s", name, remedy_of(remedy, name));
  return set_at(config, ctx, i, value, "");
}

static hd_status wrong_type(hd_ctx *ctx, hd_option_id id, const char *found) {
  static const char *const name[] = {
      [HD_OPTION_INT] = "a whole number", [HD_OPTION_REAL] = "a number",   [HD_OPTION_TEXT] = "a text",
      [HD_OPTION_FLAG] = "true or false", [HD_OPTION_CHOICE] = "a choice", [HD_OPTION_PAIR] = "two numbers"};
  const hd_option *option = hd_option_at((int)id);
  return option
             ? hd__fail(ctx, HD_E_USAGE, "--%s expects %s, found %s; set it by the function of that type", option->name,
                        name[option->type], found)
             : hd__fail(ctx, HD_E_USAGE,
                        "expected the number of an option, found %d; is the library older than the program?", (int)id);
}

hd_status hd_config_set_text(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value) {
  return hd_option_at((int)id) ? set_at(config, ctx, (int)id, value, "") : wrong_type(ctx, id, value);
}

hd_status hd_config_set_int(hd_config *config, hd_ctx *ctx, hd_option_id id, int64_t value) {
  const hd_option *option = hd_option_at((int)id);
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)value);
  if (option && option->type == HD_OPTION_CHOICE) {
    const char *choice = value >= 0 && value <= INT_MAX ? hd_choice_name(id, (int)value) : "";
    return *choice ? hd_config_set_text(config, ctx, id, choice) : wrong_type(ctx, id, text);
  }
  if (option && option->type == HD_OPTION_FLAG && (value == 0 || value == 1))
    return hd_config_set_text(config, ctx, id, value ? "true" : "false");
  if (option && (option->type == HD_OPTION_INT || (option->type == HD_OPTION_TEXT && option->max > 0)))
    return hd_config_set_text(config, ctx, id, text);
  return wrong_type(ctx, id, text);
}

hd_status hd_config_set_real(hd_config *config, hd_ctx *ctx, hd_option_id id, double value) {
  const hd_option *option = hd_option_at((int)id);
  char text[HD_NUMBER_BYTES];
  hd__format_double(text, value);
  return option && option->type == HD_OPTION_REAL ? hd_config_set_text(config, ctx, id, text)
                                                  : wrong_type(ctx, id, text);
}

int64_t hd_config_get_int(const hd_config *config, hd_option_id id) { return hd__settings_int(&config->settings, id); }

double hd_config_get_real(const hd_config *config, hd_option_id id) { return hd__settings_real(&config->settings, id); }

hd_status hd__config_suggest(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value) {
  return config->value[id] ? HD_OK : set_at(config, ctx, id, value, "");
}

hd_status hd__config_settle(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value) {
  return set_at(config, ctx, id, value, "");
}

hd_status hd__config_check_used(const hd_config *config, hd_ctx *ctx, const hd_dataset *data) {
  static const struct use {
    hd_option_id id;
    size_t of; /* a flag of hd_format */
    const char *what;
  } uses[] = {{HD_OPT_LABEL, offsetof(hd_format, table), "CSV files"},
              {HD_OPT_WEIGHTS, offsetof(hd_format, table), "CSV files"},
              {HD_OPT_HEADER, offsetof(hd_format, table), "CSV files"},
              {HD_OPT_MISSING, offsetof(hd_format, table), "CSV files"},
              {HD_OPT_CATEGORIES, offsetof(hd_format, table), "CSV files"},
              {HD_OPT_EXIF, offsetof(hd_format, pictures), "class folders of pictures"},
              {HD_OPT_ALLOW_EMPTY, offsetof(hd_format, pictures), "class folders of pictures"},
              {HD_OPT_TOKENS, offsetof(hd_format, text), "texts"},
              {HD_OPT_CONTEXT, offsetof(hd_format, text), "texts"},
              {HD_OPT_SAMPLE_EVERY, offsetof(hd_format, text), "texts"}};
  for (const struct use *u = uses; u < uses + sizeof uses / sizeof *uses; u++) {
    const hd_option *option = hd_option_at((int)u->id);
    const char *shown = hd__config_shown(config, u->id);
    const bool takes = *(const bool *)((const char *)data->format + u->of);
    if (!takes && strcmp(shown, option->fallback) != 0 && strcmp(shown, "false") != 0)
      return hd__fail(ctx, HD_E_USAGE, "--%s is for %s, found --data %s; leave --%s out", option->name, u->what,
                      data->name, option->name);
  }
  return HD_OK;
}

const char *hd_config_get(const hd_config *config, const char *name) {
  int i = find(name);
  return i < 0 ? NULL : hd__config_shown(config, (hd_option_id)i);
}

bool hd__config_given(const hd_config *config, hd_option_id id) { return config->value[id] != NULL; }

const char *hd__config_shown(const hd_config *config, hd_option_id id) {
  return config->value[id] ? config->value[id] : default_of(config, id);
}

const char *hd__config_origin(const hd_config *config, hd_option_id id) {
  return config->origin[id] ? config->origin[id] : "";
}

bool hd__config_same(const hd_config *a, const hd_config *b, hd_option_id id) {
  return !strcmp(hd__config_shown(a, id), hd__config_shown(b, id));
}

bool hd__config_has(const hd_config *config, hd_option_id id) { return hd__config_shown(config, id)[0] != 0; }

const hd_settings *hd__settings(const hd_config *config) { return &config->settings; }

/* What --loss reads: bce_with_logits takes both. one_hot makes numbers of classes for any loss. */
static hd_labels labels_of(const hd_settings *is) {
  if (strstr(is->transforms, "one_hot") || is->loss == HD_LOSS_CROSS_ENTROPY)
    return HD_LABELS_CLASSES;
  return is->loss < 0 || is->loss == HD_LOSS_BCE_WITH_LOGITS ? HD_LABELS_AUTO : HD_LABELS_NUMBERS;
}

hd_dataset_request hd__config_data(const hd_config *config) {
  const hd_settings *is = &config->settings;
  return (hd_dataset_request){.name = is->data,
                              .data_dir = is->data_dir,
                              .ignored = -1,
                              .cache = (hd_cache_choice)is->cache,
                              .skip = is->on_error == HD_ON_ERROR_SKIP,
                              .normalize = *is->transforms && is->normalize == HD_NORMALIZE_AUTO
                                               ? HD_NORMALIZE_CHANNEL
                                               : (hd_normalize_choice)is->normalize,
                              .table = {.label = is->label,
                                        .weights = is->weights,
                                        .header = (hd_csv_header)is->header,
                                        .categories = (int32_t)is->categories,
                                        .refuses_empty = is->missing == HD_MISSING_REFUSE,
                                        .labels = labels_of(is)},
                              .first_rules = config->first_rules,
                              .fold = is->fold_part,
                              .allow_empty = is->allow_empty,
                              .context = (int32_t)is->context,
                              .bytes = is->tokens == HD_TOKENS_BYTES,
                              .photos = {.ignore_exif = config->first_rules || is->exif == HD_EXIF_IGNORE,
                                         .ignore_alpha = config->first_rules}};
}

void hd__config_set_first_rules(hd_config *config, bool first) { config->first_rules = first; }

hd_status hd_config_place(hd_placement **out, hd_ctx *ctx, const hd_config *config, const hd_topology *machine) {
  hd_placement_request request = hd__config_placement(config);
  request.most = hd__threads_most();
  return hd__placement_create(out, ctx, machine, &request);
}

hd_placement_request hd__config_placement(const hd_config *config) {
  const hd_settings *is = &config->settings;
  return (hd_placement_request){.policy = (hd_placement_choice)is->placement,
                                .policy_given = hd__config_given(config, HD_OPT_PLACEMENT),
                                .cpus = *is->cpus ? is->cpus : NULL,
                                .threads = is->thread_count,
                                .workers = (int32_t)is->workers};
}

/* Whether the chosen optimizer or schedule takes a setting that only some take. */
static bool is_taken(const hd_config *config, const hd_update_setting *s) {
  char list[HD_OPTIMIZERS_BYTES];
  if (hd__optimizers_with(s->value) > 0)
    return hd__optimizer_takes(optimizer_of(config), s->value) != NULL;
  return !*hd__curves_list(list, sizeof list, s->value, "") ||
         hd__curve_takes(hd__curve_at(config->settings.schedule), s->value);
}

void hd__config_updates(hd_update_settings *out, const hd_config *config) {
  hd__update_settings_clear(out);
  for (const hd_update_setting *s = hd__update_settings; s->name; s++) {
    const hd_option_id id = hd__option_of_setting(s);
    const hd_settings *is = &config->settings;
    double *value = out->value + s->value;
    if (s->value == HD_SET_epochs || !hd__config_has(config, id) ||
        (hd__optimizers_with(s->value) > 0 && !is_taken(config, s)))
      continue;
    if (s->kind == HD_UPDATE_PAIR)
      memcpy(value, hd__settings_pair(is, id), 2 * sizeof *value);
    else
      *value = s->kind == HD_UPDATE_REAL ? hd__settings_real(is, id) : (double)hd__settings_int(is, id);
  }
}

bool hd__config_applies(const hd_config *config, hd_option_id id) {
  const hd_update_setting *setting = hd__option_setting(id);
  if (setting)
    return is_taken(config, setting);
  switch (id) {
  case HD_OPT_LOOKAHEAD_DECAY:
  case HD_OPT_LOOKAHEAD_POWER: return config->settings.lookahead > 0;
  case HD_OPT_LR_SCALE: return *config->settings.unfreeze;
  case HD_OPT_NORMALIZE: /* later than the first rules, as all that follow: a run that is resumed keeps its record */
  case HD_OPT_LABEL:
  case HD_OPT_WEIGHTS:
  case HD_OPT_HEADER:
  case HD_OPT_MISSING:
  case HD_OPT_CATEGORIES:
  case HD_OPT_EXIF:
  case HD_OPT_ALLOW_EMPTY:
  case HD_OPT_TARGET_SCALE:
  case HD_OPT_TOKENS:
  case HD_OPT_CONTEXT:
  case HD_OPT_FOLD: return !config->first_rules;
  default: return true;
  }
}

/* Adds the file and line to the message's beginning, if a file gave option `id`. */
static hd_status at_origin(const hd_config *config, hd_ctx *ctx, hd_option_id id, hd_status status) {
  return status != HD_OK && config->origin[id] && *config->origin[id]
             ? hd__fail_in(ctx, status, "%s", config->origin[id])
             : status;
}

#define REFUSE(config, ctx, id, ...) at_origin(config, ctx, id, hd__fail(ctx, HD_E_USAGE, __VA_ARGS__))

static hd_status check_power_of_two(const hd_config *config, hd_ctx *ctx, hd_option_id id, int64_t n) {
  if ((n & (n - 1)) == 0)
    return HD_OK;
  return REFUSE(config, ctx, id, "--%s expects a power of two, found %lld; write 1, 2, 4 or 8, for example",
                hd_option_at(id)->name, (long long)n);
}

/* Refuses options of a range of rows that were given and do not apply. */
static hd_status check_applies(const hd_config *config, hd_ctx *ctx, hd_option_id first, hd_option_id last,
                               const char *wanted) {
  for (hd_option_id id = first; id <= last; id++)
    if (hd__config_given(config, id) && !hd__config_applies(config, id))
      return REFUSE(config, ctx, id, "--%s expects %s, found none; leave it out, or add that", hd_option_at(id)->name,
                    wanted);
  return HD_OK;
}

static hd_status check_averages(const hd_config *config, hd_ctx *ctx) {
  if (hd__config_given(config, HD_OPT_EMA) && config->settings.lookahead > 0)
    return REFUSE(config, ctx, HD_OPT_EMA, "--ema expects a run without --lookahead, found both; leave one out");
  return check_applies(config, ctx, HD_OPT_LOOKAHEAD_DECAY, HD_OPT_LOOKAHEAD_POWER, "--lookahead STEPS");
}

static hd_status check_stages(const hd_config *config, hd_ctx *ctx) {
  const hd_settings *is = &config->settings;
  if (*is->unfreeze && (double)is->unfreeze_epoch >= is->epochs)
    return REFUSE(config, ctx, HD_OPT_UNFREEZE,
                  "--unfreeze expects an epoch before the end, found %lld of --epochs %s; use fewer, or more --epochs",
                  (long long)is->unfreeze_epoch, hd__config_shown(config, HD_OPT_EPOCHS));
  if (*is->unfreeze && *is->profile)
    return REFUSE(config, ctx, HD_OPT_PROFILE,
                  "--profile expects a run of one plan, found --unfreeze, which changes it; leave one out");
  return check_applies(config, ctx, HD_OPT_LR_SCALE, HD_OPT_LR_SCALE, "--unfreeze PATTERNS@EPOCH");
}

static hd_status check_schedule(const hd_config *config, hd_ctx *ctx) {
  const hd_settings *is = &config->settings;
  const hd_curve_rule *rule = hd__curve_at(is->schedule);
  for (const hd_update_setting *s = hd__update_settings; s->name; s++) {
    const hd_option *option = hd_option_at((int)hd__option_of_setting(s));
    if (s->value && rule->needs == s->value && !hd__config_has(config, hd__option_of_setting(s)))
      return REFUSE(config, ctx, HD_OPT_SCHEDULE, "--schedule %s expects --%s %s, found none; add it", rule->name,
                    option->name, option->arg);
  }
  if (rule->warms_up && is->warmup > 0)
    return REFUSE(config, ctx, HD_OPT_WARMUP,
                  "--warmup expects another schedule than %s, which warms up by itself, found "
                  "%s; leave one out",
                  rule->name, hd__config_shown(config, HD_OPT_WARMUP));
  return HD_OK;
}

/* A setting of optimizers that is off says nothing, so that a file may have it for any of them. */
static bool is_off(const hd_config *config, const hd_update_setting *s) {
  const hd_settings *is = &config->settings;
  const hd_option_id id = hd__option_of_setting(s);
  return hd__optimizers_with(s->value) > 0 &&
         ((s->kind == HD_UPDATE_FLAG && !hd__settings_int(is, id)) ||
          (s->kind == HD_UPDATE_REAL && !strcmp(s->standard, "0") && hd__settings_real(is, id) == 0));
}

/* Refuses what was given for another optimizer or another schedule. */
static hd_status check_taken(const hd_config *config, hd_ctx *ctx) {
  char others[HD_OPTIMIZERS_BYTES];
  for (const hd_update_setting *s = hd__update_settings; s->name; s++) {
    const hd_option_id id = hd__option_of_setting(s),
                       of = hd__optimizers_with(s->value) ? HD_OPT_OPTIMIZER : HD_OPT_SCHEDULE;
    if (!hd__config_given(config, id) || is_taken(config, s) || is_off(config, s))
      continue;
    if (of == HD_OPT_OPTIMIZER)
      hd__optimizers_list(others, sizeof others, s->value, " or ");
    else
      hd__curves_list(others, sizeof others, s->value, " or ");
    return REFUSE(config, ctx, id, "--%s expects --%s %s, found %s; leave it out", hd_option_at((int)id)->name,
                  hd_option_at((int)of)->name, others, hd__config_shown(config, of));
  }
  return HD_OK;
}

static hd_status check_optimizer(const hd_config *config, hd_ctx *ctx) {
  const hd_settings *is = &config->settings;
  if (is->nesterov && is->momentum <= 0)
    return REFUSE(config, ctx, HD_OPT_NESTEROV,
                  "--nesterov expects a --momentum above 0, found none; add --momentum 0.9");
  if (hd__config_given(config, HD_OPT_CLIP_GRAD_NORM) && is->clip_grad_norm <= 0)
    return REFUSE(config, ctx, HD_OPT_CLIP_GRAD_NORM,
                  "--clip-grad-norm expects a norm above 0, found %s; leave it out for no clipping",
                  hd__config_shown(config, HD_OPT_CLIP_GRAD_NORM));
  return HD_OK;
}

hd_status hd__config_check_order(const hd_config *config, hd_ctx *ctx) {
  if (!config->settings.no_shuffle || !hd__config_given(config, HD_OPT_SAMPLER) ||
      config->settings.sampler == HD_SAMPLER_SEQUENTIAL)
    return HD_OK;
  return REFUSE(config, ctx, HD_OPT_SAMPLER, "--no-shuffle expects --sampler sequential, found %s; leave one out",
                hd__config_shown(config, HD_OPT_SAMPLER));
}

/* The value of a YAML entry as a user would type it; a pair may be a list of two. */
static hd_status entry_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *node, hd_option_type type) {
  const char *first, *second;
  if (type == HD_OPTION_PAIR && node->kind == HD_YAML_SEQUENCE && node->count == 2) {
    HD_TRY(hd__yaml_text(&first, ctx, &node->item[0]));
    HD_TRY(hd__yaml_text(&second, ctx, &node->item[1]));
    snprintf(text, bytes, "%s,%s", first, second);
    return HD_OK;
  }
  HD_TRY(hd__yaml_text(&first, ctx, node));
  if ((size_t)snprintf(text, bytes, "%s", first) >= bytes)
    return hd__yaml_fail(ctx, node, "expected at most %zu characters as '%s', found more; shorten it", bytes - 1,
                         node->key);
  return HD_OK;
}

static bool is_one_of(const char *name, const char *const *names) {
  while (names && *names && strcmp(name, *names))
    names++;
  return names && *names;
}

hd_status hd__config_take(hd_config *config, hd_ctx *ctx, const hd_yaml_node *root, const char *const *others) {
  int line[HD_OPTION_COUNT] = {0}; /* where an option was set, by any of its names */
  HD_TRY(hd__yaml_expect(ctx, root, HD_YAML_MAPPING, "settings (NAME: VALUE)"));
  for (int i = 0; i < root->count; i++) {
    const hd_yaml_node *node = &root->item[i];
    char text[TEXT_BYTES], origin[TEXT_BYTES];
    if (is_one_of(node->key, others))
      continue;
    int id = find(node->key);
    if (id < 0)
      return hd__yaml_fail(ctx, node, "expected the name of an option, found '%s'; %s", node->key,
                           remedy_of(text, node->key));
    if (line[id])
      return hd__yaml_fail(ctx, node, "expected --%s once, found it again as '%s' (first in line %d); remove one",
                           hd_option_at(id)->name, node->key, line[id]);
    line[id] = node->line;
    const bool is_text = node->kind == HD_YAML_SCALAR && (id != HD_OPT_PARAMETERS || node->text[0] == '[');
    if (is_list(id) && !is_text) { /* a text is a file's name, or the list in one line */
      if (!config->value[id])
        HD_TRY(set_list(config, ctx, id, node, true));
      continue;
    }
    HD_TRY(entry_text(text, sizeof text, ctx, node, hd_option_at(id)->type));
    snprintf(origin, sizeof origin, "%s:%d", node->source, node->line);
    hd_status status = config->value[id] ? HD_OK : set_at(config, ctx, id, text, origin);
    if (status != HD_OK)
      return hd__fail_in(ctx, status == HD_E_NOMEM ? status : HD_E_FORMAT, "%s", origin);
  }
  return HD_OK;
}

/* Leaves out what a recipe sets for its optimizer or schedule, where another one was given. */
static void drop_unused(hd_config *config, const char *recipe) {
  for (const hd_update_setting *s = hd__update_settings; s->name; s++) {
    const hd_option_id id = hd__option_of_setting(s);
    const char *origin = hd__config_origin(config, id);
    if (is_taken(config, s) || strncmp(origin, recipe, strlen(recipe)) != 0)
      continue;
    hd__free(config->value[id]);
    hd__free(config->origin[id]);
    config->value[id] = config->origin[id] = NULL;
  }
  take_defaults(config);
}

/* Recipes are files of settings inside the library; options given before take precedence, as over a file of
 * --config. */
static hd_status apply_recipe(hd_config *config, hd_ctx *ctx) {
  const char *name = hd__config_shown(config, HD_OPT_RECIPE);
  const hd_embedded *file = hd__embed_recipes;
  HD_YAML_OWNED *yaml = NULL;
  while (file->name && (strncmp(file->name, name, strlen(name)) || strcmp(file->name + strlen(name), ".yaml")))
    file++;
  if (!file->name)
    return HD_OK; /* none */
  HD_TRY(hd__yaml_parse(&yaml, ctx, (const char *)file->bytes, file->length, file->name));
  HD_TRY(hd__config_take(config, ctx, hd__yaml_root(yaml), NULL));
  drop_unused(config, file->name);
  return HD_OK;
}

static hd_status check_normalize(const hd_config *config, hd_ctx *ctx) {
  const hd_settings *is = &config->settings;
  if (!*is->transforms || is->normalize == HD_NORMALIZE_AUTO || is->normalize == HD_NORMALIZE_CHANNEL)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "--normalize cannot be combined with --transforms, which normalise themselves; leave one out");
}

hd_status hd__config_complete(hd_config *config, hd_ctx *ctx) {
  HD_TRY(apply_recipe(config, ctx));
  HD_TRY(hd__config_check_order(config, ctx));
  if (config->settings.no_shuffle)
    HD_TRY(hd__config_suggest(config, ctx, HD_OPT_SAMPLER, "sequential"));
  if (hd__onnx_is_path(config->settings.model) && !config->settings.fresh)
    HD_TRY(hd__config_suggest(config, ctx, HD_OPT_INIT, config->settings.model));
  HD_TRY(check_power_of_two(config, ctx, HD_OPT_SHARDS, config->settings.shards));
  HD_TRY(check_power_of_two(config, ctx, HD_OPT_ACCUMULATE, config->settings.accumulate));
  HD_TRY(check_taken(config, ctx));
  HD_TRY(check_schedule(config, ctx));
  HD_TRY(check_averages(config, ctx));
  HD_TRY(check_stages(config, ctx));
  HD_TRY(check_normalize(config, ctx));
  return check_optimizer(config, ctx);
}

hd_status hd_config_load(hd_config *config, hd_ctx *ctx, const char *path) {
  HD_YAML_OWNED *yaml = NULL;
  HD_TRY(hd__yaml_read(&yaml, ctx, path));
  return hd__config_take(config, ctx, hd__yaml_root(yaml), NULL);
}
