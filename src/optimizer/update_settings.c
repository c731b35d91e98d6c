/* Reads and combines the settings of optimizers: see update_settings.h. */
#include "optimizer/update_settings.h"

#include <math.h>
#include <string.h>

#include "base/nearest.h"
#include "base/number.h"
#include "base/text_buffer.h"

const char *const hd__optimizer_names[] = {
#define OPTIMIZER(name) #name,
#include "kernel/optimizers.def"
    NULL};

const char *const hd__schedule_names[] = {
#define SCHEDULE(name) #name,
#include "optimizer/schedules.def"
    NULL};

#define SETTING_OF(id, type, standard, min, max, choices, arg, help)                                                   \
  {#id, HD_UPDATE_##type, HD_SET_##id, standard, min, max, choices},
#define SETTING_ROW(id, ...) SETTING_OF(id, __VA_ARGS__)
#define SETTING(id) SETTING_ROW(id, HD_ROW_##id)
const hd_update_setting hd__update_settings[] = {HD_SETTING_ROWS(SETTING){0}};

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
    fits = hd__parse_setting(&out[i], text) && out[i] >= setting->min && out[i] < setting->max;
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
  case HD_UPDATE_REAL: return hd__yaml_number(value, ctx, node, setting->min, setting->max);
  case HD_UPDATE_CHOICE: return read_choice(value, ctx, setting, node);
  case HD_UPDATE_PAIR: return read_pair(value, ctx, setting, node);
  case HD_UPDATE_FLAG:
    status = hd__yaml_bool(&flag, ctx, node);
    *value = flag;
    return status;
  case HD_UPDATE_INT:
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

static double number_of(const char *text, size_t length) {
  char copy[32] = "";
  double number = 0;
  if (length < sizeof copy)
    memcpy(copy, text, length);
  hd__parse_double(&number, copy);
  return number;
}

void hd__update_settings_parse(hd_update_settings *out, const hd_update_setting *setting, const char *text) {
  double *value = out->value + setting->value;
  const size_t first = strcspn(text, ",");
  *value = 0;
  if (setting->kind == HD_UPDATE_CHOICE)
    while (strcmp(setting->choices[(int)*value], text))
      ++*value;
  else if (*text)
    *value = number_of(text, first);
  if (setting->kind == HD_UPDATE_PAIR)
    value[1] = number_of(text + first + 1, strlen(text + first + 1));
}

bool hd__update_settings_equal(const hd_update_settings *a, const hd_update_settings *b) {
  for (int i = 0; i < HD_UPDATE_VALUES; i++)
    if (!(a->value[i] == b->value[i] || (isnan(a->value[i]) && isnan(b->value[i]))))
      return false;
  return true;
}
