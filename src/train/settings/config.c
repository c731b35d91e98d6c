/* The table of options and the settings made from it. Values are kept as text, checked when they are set, and read by
 * type: run.json stores the text that a user would type. */
#include "train/settings/config.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/embed.h"
#include "base/nearest.h"
#include "base/number.h"
#include "base/status.h"
#include "base/yaml_bind.h"
#include "data/transforms/transform_text.h"
#include "graph/param_rules.h"
#include "train/settings/device_option.h"

static const hd_option table[HD_OPTION_COUNT + 1] = {
#define OPT(id, name, kind, type, fallback, min, max, choices, arg, help)                                              \
  {name, HD_OPTION_##kind, HD_OPTION_##type, fallback, min, max, choices, arg, help},
#include "train/settings/options.def"
#undef OPT
    {0}};

enum { TEXT_BYTES = 4096, /* of a value in a file */ REMEDY_BYTES = 64 };

struct hd_config {
  char *value[HD_OPTION_COUNT];  /* NULL: the default */
  char *origin[HD_OPTION_COUNT]; /* of lists; NULL: nowhere */
};

const hd_option *hd_option_at(int index) { return index >= 0 && index < HD_OPTION_COUNT ? &table[index] : NULL; }

hd_status hd_config_create(hd_config **out, hd_ctx *ctx) {
  *out = hd__calloc(1, sizeof **out);
  return *out ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for the settings");
}

void hd_config_destroy(hd_config *config) {
  if (!config)
    return;
  for (int i = 0; i < HD_OPTION_COUNT; i++) {
    hd__free(config->value[i]);
    hd__free(config->origin[i]);
  }
  hd__free(config);
}

hd_status hd__config_copy(hd_config **out, hd_ctx *ctx, const hd_config *config) {
  HD_TRY(hd_config_create(out, ctx));
  for (int i = 0; i < HD_OPTION_COUNT; i++) {
    if (!config->value[i])
      continue;
    (*out)->value[i] = hd__strdup(config->value[i]);
    (*out)->origin[i] = config->origin[i] ? hd__strdup(config->origin[i]) : NULL;
    if (!(*out)->value[i] || !(*out)->origin[i] != !config->origin[i]) {
      hd_config_destroy(*out);
      *out = NULL;
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for the settings");
    }
  }
  return HD_OK;
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
    if (same_name(name, table[i].name))
      return i;
  return -1;
}

static bool is_choice(const char *choices, const char *value) {
  size_t length = strlen(value);
  for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
    if (length == strcspn(at, "|") && !strncmp(at, value, length))
      return true;
  return false;
}

static hd_status check_int(hd_ctx *ctx, const hd_option *option, const char *value) {
  int64_t number;
  if (hd__parse_int64(&number, value) && number >= (int64_t)option->min && number <= (int64_t)option->max)
    return HD_OK; /* compared as integers: a double would take 2^53 + 1 for 2^53 */
  return hd__fail(ctx, HD_E_USAGE, "--%s expects a whole number from %.16g to %.16g, found '%s'", option->name,
                  option->min, option->max, value);
}

static hd_status check_real(hd_ctx *ctx, const hd_option *option, const char *value) {
  double number;
  if (hd__parse_double(&number, value) && number >= option->min && number <= option->max)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "--%s expects a number from %g to %g, found '%s'", option->name, option->min,
                  option->max, value);
}

/* Splits "a,b"; false if it is not two numbers. */
static bool split_pair(const char *value, double pair[2]) {
  char first[64];
  const char *comma = strchr(value, ',');
  if (!comma || (size_t)(comma - value) >= sizeof first)
    return false;
  memcpy(first, value, (size_t)(comma - value));
  first[comma - value] = 0;
  return hd__parse_double(&pair[0], first) && hd__parse_double(&pair[1], comma + 1);
}

static hd_status check_pair(hd_ctx *ctx, const hd_option *option, const char *value) {
  double pair[2];
  if (split_pair(value, pair) && pair[0] >= option->min && pair[0] < option->max && pair[1] >= option->min &&
      pair[1] < option->max)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "--%s expects two numbers from %g to below %g, such as %s, found '%s'", option->name,
                  option->min, option->max, option->fallback, value);
}

static hd_status check(hd_ctx *ctx, const hd_option *option, const char *value) {
  switch (option->type) {
  case HD_OPTION_INT: return check_int(ctx, option, value);
  case HD_OPTION_REAL: return check_real(ctx, option, value);
  case HD_OPTION_PAIR: return check_pair(ctx, option, value);
  case HD_OPTION_FLAG:
    if (strcmp(value, "true") && strcmp(value, "false"))
      return hd__fail(ctx, HD_E_USAGE, "%s expects true or false, found '%s'", option->name, value);
    return HD_OK;
  case HD_OPTION_CHOICE:
    if (!is_choice(option->choices, value))
      return hd__fail(ctx, HD_E_USAGE, "--%s expects %s, found '%s'", option->name, option->choices, value);
    return HD_OK;
  case HD_OPTION_TEXT:
    if (!*value)
      return hd__fail(ctx, HD_E_USAGE, "--%s expects a value, found nothing", option->name);
    return HD_OK;
  }
  return HD_OK;
}

static hd_status check_threads(hd_ctx *ctx, const char *value) {
  int64_t number;
  if (!strcmp(value, "auto") || (hd__parse_int64(&number, value) && number >= 1 && number <= HD_MAX_THREADS))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "--threads expects 'auto' or a whole number from 1 to %d, found '%s'",
                  HD_MAX_THREADS, value);
}

static bool is_list(int id) {
  return id == HD_OPT_parameters || id == HD_OPT_transforms || id == HD_OPT_eval_transforms;
}

/* Takes over both texts. */
static hd_status keep_list(hd_config *config, hd_ctx *ctx, int id, char *value, char *origin) {
  if (!value || !origin) {
    hd__free(value);
    hd__free(origin);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the settings");
  }
  hd__free(config->value[id]);
  hd__free(config->origin[id]);
  config->value[id] = value;
  config->origin[id] = origin;
  return HD_OK;
}

/* Lists are kept as one line, however they were written, with the places of their entries for later messages. */
static hd_status set_list(hd_config *config, hd_ctx *ctx, int id, const hd_yaml_node *list, bool file) {
  char text[TEXT_BYTES], origin[TEXT_BYTES] = "";
  if (id == HD_OPT_parameters)
    HD_TRY(hd__param_rules_text(text, sizeof text, ctx, list));
  else
    HD_TRY(hd__transforms_text(text, sizeof text, ctx, list, id == HD_OPT_eval_transforms));
  size_t at = file ? (size_t)snprintf(origin, sizeof origin, "%s:", list->source) : 0;
  for (int i = 0; file && i < list->count && at < sizeof origin; i++)
    at += (size_t)snprintf(origin + at, sizeof origin - at, i ? ",%d" : "%d", list->item[i].line);
  return keep_list(config, ctx, id, hd__strdup(text), hd__strdup(at < sizeof origin ? origin : ""));
}

/* A list of transforms may be given as a file name. */
static bool names_file(int id, const char *value) {
  const char *dot = strrchr(value, '.');
  return id != HD_OPT_parameters && dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")) && !strpbrk(value, "\n[{");
}

static hd_status parse_list(hd_config *config, hd_ctx *ctx, int id, const char *value) {
  char option[40];
  hd_yaml *yaml;
  const bool file = names_file(id, value);
  snprintf(option, sizeof option, "--%s", table[id].name);
  hd_status status = file ? hd__yaml_read(&yaml, ctx, value) : hd__yaml_parse(&yaml, ctx, value, strlen(value), option);
  if (status == HD_OK) {
    status = set_list(config, ctx, id, hd__yaml_root(yaml), file);
    hd__yaml_destroy(yaml);
  }
  return status == HD_E_FORMAT && !file ? HD_E_USAGE : status;
}

static hd_status set_at(hd_config *config, hd_ctx *ctx, int i, const char *value) {
  if (is_list(i) && *value)
    return parse_list(config, ctx, i, value);
  HD_TRY(i == HD_OPT_threads  ? check_threads(ctx, value)
         : i == HD_OPT_device ? hd__device_check(ctx, value)
                              : check(ctx, &table[i], value));
  char *copy = hd__strdup(value);
  if (!copy)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the settings");
  hd__free(config->value[i]);
  config->value[i] = copy;
  return HD_OK;
}

/* The remedy for an unknown option name. */
static const char *remedy_of(char text[REMEDY_BYTES], const char *name) {
  hd_nearest nearest = {.word = name};
  for (int i = 0; i < HD_OPTION_COUNT; i++)
    hd__nearest_try(&nearest, table[i].name);
  hd__nearest_try(&nearest, "batch-size");
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
  return set_at(config, ctx, i, value);
}

hd_status hd__config_suggest(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value) {
  return config->value[id] ? HD_OK : set_at(config, ctx, id, value);
}

const char *hd_config_get(const hd_config *config, const char *name) {
  int i = find(name);
  return i < 0 ? NULL : hd__config_text(config, (hd_option_id)i);
}

bool hd__config_given(const hd_config *config, hd_option_id id) { return config->value[id] != NULL; }

const char *hd__config_text(const hd_config *config, hd_option_id id) {
  return config->value[id] ? config->value[id] : table[id].fallback;
}

const char *hd__config_origin(const hd_config *config, hd_option_id id) {
  return config->origin[id] ? config->origin[id] : "";
}

bool hd__config_has(const hd_config *config, hd_option_id id) { return hd__config_text(config, id)[0] != 0; }

/* Values were checked when they were set, so reading them cannot fail. */
int64_t hd__config_int(const hd_config *config, hd_option_id id) {
  int64_t number = 0;
  hd__parse_int64(&number, hd__config_text(config, id));
  return number;
}

double hd__config_real(const hd_config *config, hd_option_id id) {
  double number = 0;
  hd__parse_double(&number, hd__config_text(config, id));
  return number;
}

hd_data_request hd__config_data(const hd_config *config) {
  const char *cache = hd__config_text(config, HD_OPT_cache);
  hd_cache_kind kind = HD_CACHE_RAM;
  if (strcmp(cache, "ram"))
    kind = !strcmp(cache, "disk") ? HD_CACHE_DISK : HD_CACHE_NONE;
  return (hd_data_request){.name = hd__config_text(config, HD_OPT_data),
                           .data_dir = hd__config_text(config, HD_OPT_data_dir),
                           .ignored = -1,
                           .cache = kind,
                           .skip = !strcmp(hd__config_text(config, HD_OPT_on_error), "skip")};
}

bool hd__config_flag(const hd_config *config, hd_option_id id) { return !strcmp(hd__config_text(config, id), "true"); }

void hd__config_pair(const hd_config *config, hd_option_id id, double pair[2]) {
  split_pair(hd__config_text(config, id), pair);
}

hd_placement_request hd_config_placement(const hd_config *config) {
  hd_placement_request request = {0};
  int64_t number;
  while (strcmp(hd_placement_policy_text(request.policy), hd__config_text(config, HD_OPT_placement)))
    request.policy++;
  if (hd__config_has(config, HD_OPT_cpus))
    request.cpus = hd__config_text(config, HD_OPT_cpus);
  if (hd__parse_int64(&number, hd__config_text(config, HD_OPT_threads)))
    request.threads = (int32_t)number;
  request.workers = (int32_t)hd__config_int(config, HD_OPT_workers);
  return request;
}

bool hd__config_applies(const hd_config *config, hd_option_id id) {
  bool sgd = !strcmp(hd__config_text(config, HD_OPT_optimizer), "sgd");
  if (id == HD_OPT_momentum || id == HD_OPT_nesterov)
    return sgd;
  if (id == HD_OPT_step_size || id == HD_OPT_gamma)
    return !strcmp(hd__config_text(config, HD_OPT_schedule), "step");
  return !sgd || (id != HD_OPT_betas && id != HD_OPT_eps);
}

static hd_status check_power_of_two(const hd_config *config, hd_ctx *ctx, hd_option_id id) {
  int64_t n = hd__config_int(config, id);
  if (hd__config_has(config, id) && (n & (n - 1)))
    return hd__fail(ctx, HD_E_USAGE, "--%s expects a power of two, found %lld", table[id].name, (long long)n);
  return HD_OK;
}

static hd_status check_schedule(const hd_config *config, hd_ctx *ctx) {
  const char *schedule = hd__config_text(config, HD_OPT_schedule);
  bool steps = !strcmp(schedule, "step");
  if (!steps && (hd__config_given(config, HD_OPT_step_size) || hd__config_given(config, HD_OPT_gamma)))
    return hd__fail(ctx, HD_E_USAGE, "--step-size and --gamma expect --schedule step, found %s; leave them out",
                    schedule);
  if (steps && !hd__config_has(config, HD_OPT_step_size))
    return hd__fail(ctx, HD_E_USAGE, "--schedule step expects --step-size EPOCHS, found none; add it");
  if (!strcmp(schedule, "onecycle") && hd__config_int(config, HD_OPT_warmup) > 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "--warmup expects another schedule than onecycle, which warms up by itself, found "
                    "%s; leave one out",
                    hd__config_text(config, HD_OPT_warmup));
  return HD_OK;
}

static hd_status check_optimizer(const hd_config *config, hd_ctx *ctx) {
  const char *optimizer = hd__config_text(config, HD_OPT_optimizer);
  bool sgd = !strcmp(optimizer, "sgd");
  if (!sgd && (hd__config_real(config, HD_OPT_momentum) > 0 || hd__config_flag(config, HD_OPT_nesterov)))
    return hd__fail(ctx, HD_E_USAGE, "--momentum and --nesterov expect --optimizer sgd, found %s; use --betas",
                    optimizer);
  if (hd__config_flag(config, HD_OPT_nesterov) && hd__config_real(config, HD_OPT_momentum) <= 0)
    return hd__fail(ctx, HD_E_USAGE, "--nesterov expects a --momentum above 0, found none");
  if (sgd && (hd__config_given(config, HD_OPT_betas) || hd__config_given(config, HD_OPT_eps)))
    return hd__fail(ctx, HD_E_USAGE, "--betas and --eps expect --optimizer adam or adamw, found sgd; use --momentum");
  if (hd__config_has(config, HD_OPT_clip_grad_norm) && hd__config_real(config, HD_OPT_clip_grad_norm) <= 0)
    return hd__fail(ctx, HD_E_USAGE, "--clip-grad-norm expects a norm above 0, found %s; leave it out for no clipping",
                    hd__config_text(config, HD_OPT_clip_grad_norm));
  return HD_OK;
}

hd_status hd__config_check_order(const hd_config *config, hd_ctx *ctx) {
  const char *sampler = hd__config_text(config, HD_OPT_sampler);
  if (!hd__config_flag(config, HD_OPT_no_shuffle) || !hd__config_given(config, HD_OPT_sampler) ||
      !strcmp(sampler, "sequential"))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "--no-shuffle expects --sampler sequential, found %s; leave one out", sampler);
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
    return hd__yaml_fail(ctx, node, "expected at most %zu characters as '%s', found more", bytes - 1, node->key);
  return HD_OK;
}

static hd_status load_entries(hd_config *config, hd_ctx *ctx, const hd_yaml_node *root) {
  int line[HD_OPTION_COUNT] = {0}; /* where an option was set, by any of its names */
  HD_TRY(hd__yaml_expect(ctx, root, HD_YAML_MAPPING, "settings (NAME: VALUE)"));
  for (int i = 0; i < root->count; i++) {
    const hd_yaml_node *node = &root->item[i];
    char text[TEXT_BYTES];
    int id = find(node->key);
    if (id < 0)
      return hd__yaml_fail(ctx, node, "expected the name of an option, found '%s'; %s", node->key,
                           remedy_of(text, node->key));
    if (line[id])
      return hd__yaml_fail(ctx, node, "expected --%s once, found it again as '%s' (first in line %d); remove one",
                           table[id].name, node->key, line[id]);
    line[id] = node->line;
    if (is_list(id) && (id == HD_OPT_parameters || node->kind != HD_YAML_SCALAR)) { /* a text is else a file's name */
      if (!config->value[id])
        HD_TRY(set_list(config, ctx, id, node, true));
      continue;
    }
    HD_TRY(entry_text(text, sizeof text, ctx, node, table[id].type));
    hd_status status = hd__config_suggest(config, ctx, (hd_option_id)id, text);
    if (status != HD_OK)
      return hd__fail_in(ctx, status == HD_E_NOMEM ? status : HD_E_FORMAT, "%s:%d", node->source, node->line);
  }
  return HD_OK;
}

/* Recipes are files of settings inside the library; options given before take precedence, as over a file of
 * --config. */
static hd_status apply_recipe(hd_config *config, hd_ctx *ctx) {
  const char *name = hd__config_text(config, HD_OPT_recipe);
  const hd_embedded *file = hd__embed_recipes;
  hd_yaml *yaml;
  while (file->name && (strncmp(file->name, name, strlen(name)) || strcmp(file->name + strlen(name), ".yaml")))
    file++;
  if (!file->name)
    return HD_OK; /* none */
  HD_TRY(hd__yaml_parse(&yaml, ctx, (const char *)file->bytes, file->length, file->name));
  hd_status status = load_entries(config, ctx, hd__yaml_root(yaml));
  hd__yaml_destroy(yaml);
  return status;
}

hd_status hd__config_complete(hd_config *config, hd_ctx *ctx) {
  HD_TRY(apply_recipe(config, ctx));
  HD_TRY(hd__config_check_order(config, ctx));
  if (hd__config_flag(config, HD_OPT_no_shuffle))
    HD_TRY(hd__config_suggest(config, ctx, HD_OPT_sampler, "sequential"));
  HD_TRY(check_power_of_two(config, ctx, HD_OPT_shards));
  HD_TRY(check_power_of_two(config, ctx, HD_OPT_accumulate));
  HD_TRY(check_schedule(config, ctx));
  return check_optimizer(config, ctx);
}

hd_status hd_config_load(hd_config *config, hd_ctx *ctx, const char *path) {
  hd_yaml *yaml;
  HD_TRY(hd__yaml_read(&yaml, ctx, path));
  hd_status status = load_entries(config, ctx, hd__yaml_root(yaml));
  hd__yaml_destroy(yaml);
  return status;
}
