/* Reads and combines the settings of optimizers: see update_settings.h. */
#include "graph/update_settings.h"

#include <math.h>
#include <string.h>

#include "base/nearest.h"
#include "base/number.h"
#include "base/text_buffer.h"

static const char *const optimizers[] = {"sgd", "adam", "adamw", "muon", NULL};
static const char *const adjustments[] = {"none", "original", "match_rms_adamw", NULL};
static const char *const schedules[] = {"const", "step", "cosine", "linear", "onecycle", "triangular", NULL};

const hd_update_setting hd__update_settings[] = {
    {"optimizer", HD_UPDATE_CHOICE, HD_SET_OPTIMIZER, 0, 0, optimizers},
    {"lr", HD_UPDATE_NUMBER, HD_SET_LR, 0, 1e6, NULL},
    {"momentum", HD_UPDATE_NUMBER, HD_SET_MOMENTUM, 0, 1, NULL},
    {"nesterov", HD_UPDATE_FLAG, HD_SET_NESTEROV, 0, 0, NULL},
    {"betas", HD_UPDATE_PAIR, HD_SET_BETA1, 0, 1, NULL},
    {"eps", HD_UPDATE_NUMBER, HD_SET_EPS, 0, 1, NULL},
    {"weight_decay", HD_UPDATE_NUMBER, HD_SET_WEIGHT_DECAY, 0, 1e6, NULL},
    {"ns_steps", HD_UPDATE_COUNT, HD_SET_NS_STEPS, 1, 99, NULL},
    {"normalize_weight", HD_UPDATE_FLAG, HD_SET_NORMALIZE_WEIGHT, 0, 0, NULL},
    {"adjust_lr", HD_UPDATE_CHOICE, HD_SET_ADJUST_LR, 0, 0, adjustments},
    {"schedule", HD_UPDATE_CHOICE, HD_SET_SCHEDULE, 0, 0, schedules},
    {"step_size", HD_UPDATE_COUNT, HD_SET_STEP_SIZE, 1, 1000000, NULL},
    {"gamma", HD_UPDATE_NUMBER, HD_SET_GAMMA, 0, 10, NULL},
    {"warmup", HD_UPDATE_COUNT, HD_SET_WARMUP, 0, 1e15, NULL},
    {"start_factor", HD_UPDATE_NUMBER, HD_SET_START_FACTOR, 0, 1, NULL},
    {"end_factor", HD_UPDATE_NUMBER, HD_SET_END_FACTOR, 0, 1, NULL},
    {"peak", HD_UPDATE_NUMBER, HD_SET_PEAK, 0, 1, NULL},
    {"epochs", HD_UPDATE_NUMBER, HD_SET_EPOCHS, 1e-6, 1000000, NULL},
    {0}};

void hd__update_settings_clear(hd_update_settings *settings) {
  for (int i = 0; i < HD_UPDATE_VALUES; i++)
    settings->value[i] = NAN;
}

static hd_status read_choice(double *out, hd_ctx *ctx, const hd_update_setting *setting, const hd_yaml_node *node) {
  const char *text;
  char list[160];
  hd_line l = {.text = list, .bytes = sizeof list};
  HD_TRY(hd__yaml_text(&text, ctx, node));
  hd_nearest nearest = {.word = text};
  for (int i = 0; setting->choices[i]; i++) {
    hd__line_add(&l, "%s%s", i ? ", " : "", setting->choices[i]);
    hd__nearest_try(&nearest, setting->choices[i]);
    if (!strcmp(setting->choices[i], text)) {
      *out = i;
      return HD_OK;
    }
  }
  return hd__yaml_fail(ctx, node, "expected one of %s as '%s', found '%.60s'; %s%s%s", list, setting->name, text,
                       nearest.name ? "did you mean '" : "write one of them", nearest.name ? nearest.name : "",
                       nearest.name ? "'?" : "");
}

static hd_status read_pair(double out[2], hd_ctx *ctx, const hd_update_setting *setting, const hd_yaml_node *node) {
  const char *text;
  bool fits = node->kind == HD_YAML_SEQUENCE && node->count == 2;
  for (int i = 0; i < 2 && fits; i++) {
    HD_TRY(hd__yaml_text(&text, ctx, &node->item[i]));
    fits = hd__parse_double(&out[i], text) && out[i] >= setting->min && out[i] < setting->max;
  }
  return fits ? HD_OK
              : hd__yaml_fail(ctx, node, "expected two numbers from %g to below %g as '%s', found others; write [A, B]",
                              setting->min, setting->max, setting->name);
}

hd_status hd__update_settings_read(hd_update_settings *out, hd_ctx *ctx, const hd_update_setting *setting,
                                   const hd_yaml_node *node) {
  double *value = out->value + setting->value;
  int64_t count = 0;
  bool flag = false;
  hd_status status = HD_OK;
  switch (setting->kind) {
  case HD_UPDATE_NUMBER: return hd__yaml_number(value, ctx, node, setting->min, setting->max);
  case HD_UPDATE_CHOICE: return read_choice(value, ctx, setting, node);
  case HD_UPDATE_PAIR: return read_pair(value, ctx, setting, node);
  case HD_UPDATE_FLAG:
    status = hd__yaml_bool(&flag, ctx, node);
    *value = flag;
    return status;
  case HD_UPDATE_COUNT:
    status = hd__yaml_int(&count, ctx, node, (int64_t)setting->min, (int64_t)setting->max);
    *value = (double)count;
    return status;
  }
  return status;
}

void hd__update_settings_overlay(hd_update_settings *settings, const hd_update_settings *over) {
  for (int i = 0; i < HD_UPDATE_VALUES; i++)
    if (!isnan(over->value[i]))
      settings->value[i] = over->value[i];
}

void hd__update_settings_follow(hd_update_settings *settings, const hd_update_settings *later) {
  static const hd_update_value of_optimizer[] = {
      HD_SET_MOMENTUM, HD_SET_NESTEROV,         HD_SET_BETA1,    HD_SET_BETA2, HD_SET_EPS,
      HD_SET_NS_STEPS, HD_SET_NORMALIZE_WEIGHT, HD_SET_ADJUST_LR};
  for (size_t i = 0; i < sizeof of_optimizer / sizeof *of_optimizer && !isnan(later->value[HD_SET_OPTIMIZER]); i++)
    settings->value[of_optimizer[i]] = NAN;
  hd__update_settings_overlay(settings, later);
}

hd_op hd__update_settings_op(int *states, const hd_update_settings *settings) {
  switch ((hd_update_optimizer)settings->value[HD_SET_OPTIMIZER]) {
  case HD_UPDATE_SGD: *states = settings->value[HD_SET_MOMENTUM] > 0; return HD_OP_sgd;
  case HD_UPDATE_ADAM: *states = 2; return HD_OP_adam;
  case HD_UPDATE_ADAMW: *states = 2; return HD_OP_adamw;
  case HD_UPDATE_MUON: *states = 1; return HD_OP_muon;
  }
  return HD_OP_COUNT;
}

const char *hd__update_optimizer_name(int optimizer) { return optimizers[optimizer]; }

bool hd__update_settings_equal(const hd_update_settings *a, const hd_update_settings *b) {
  for (int i = 0; i < HD_UPDATE_VALUES; i++)
    if (!(a->value[i] == b->value[i] || (isnan(a->value[i]) && isnan(b->value[i]))))
      return false;
  return true;
}
