/* The table of optimizers, from optimizers.def, and what it says of each. */
#include "optimizer/optimizer.h"

#include <math.h>

#include "base/text_buffer.h"

#define OPTIMIZER(name) extern const hd_optimizer_rule hd__optimizer_##name;
#include "kernel/optimizers.def"

static const hd_optimizer_rule *const table[] = {
#define OPTIMIZER(name) &hd__optimizer_##name,
#include "kernel/optimizers.def"
    NULL};

const hd_optimizer_rule *hd__optimizer_at(int choice) { return table[choice]; }

const hd_optimizer_rule *hd__optimizer_of_op(hd_op op) {
  const hd_optimizer_rule *const *rule = table;
  while (*rule && (*rule)->op != op)
    rule++;
  return *rule;
}

const hd_optimizer_rule *hd__optimizer_of(const hd_update_settings *settings) {
  return table[(int)settings->value[HD_SET_optimizer]];
}

const hd_optimizer_setting *hd__optimizer_takes(const hd_optimizer_rule *rule, hd_update_value setting) {
  for (const hd_optimizer_setting *s = rule->settings; s->value; s++)
    if (s->value == setting)
      return s;
  return NULL;
}

int hd__optimizers_with(hd_update_value setting) {
  int count = 0;
  for (int i = 0; table[i]; i++)
    count += hd__optimizer_takes(table[i], setting) != NULL;
  return count;
}

const char *hd__optimizers_list(char *text, size_t bytes, hd_update_value setting, const char *last) {
  hd_line l = {.text = text, .bytes = bytes};
  const int all = hd__optimizers_with(setting);
  for (int i = 0, seen = 0; table[i]; i++)
    if (hd__optimizer_takes(table[i], setting)) {
      seen++;
      hd__line_add(&l, "%s%s", seen == 1 ? "" : seen == all ? last : ", ", table[i]->name);
    }
  return text;
}

const char *hd__optimizer_standard(const hd_optimizer_rule *rule, const hd_update_setting *setting) {
  const hd_optimizer_setting *taken = hd__optimizer_takes(rule, setting->value);
  return taken && taken->standard ? taken->standard : setting->standard;
}

bool hd__optimizers_are_some(hd_update_value setting) {
  const int count = hd__optimizers_with(setting);
  return count > 0 && count < (int)(sizeof table / sizeof *table) - 1;
}

void hd__optimizer_follow(hd_update_settings *settings, const hd_update_settings *later) {
  for (const hd_update_setting *s = hd__update_settings; s->name && !isnan(later->value[HD_SET_optimizer]); s++)
    for (int i = 0; i <= (s->kind == HD_UPDATE_PAIR) && hd__optimizers_are_some(s->value); i++)
      settings->value[(int)s->value + i] = NAN;
  hd__update_settings_overlay(settings, later);
}

void hd__optimizer_complete(hd_update_settings *settings) {
  const hd_optimizer_rule *rule = hd__optimizer_of(settings);
  for (const hd_update_setting *s = hd__update_settings; s->name; s++)
    if (isnan(settings->value[s->value]) && s->value != HD_SET_epochs)
      hd__update_settings_parse(settings, s, hd__optimizer_standard(rule, s));
}

uint32_t hd__optimizer_kept(const hd_optimizer_rule *rule, const hd_update_settings *settings) {
  uint32_t kept = 0;
  for (int i = 0; i < HD_MAX_STATES && rule->states[i].name; i++)
    if (!rule->states[i].kept_if || settings->value[rule->states[i].kept_if] > 0)
      kept |= 1u << i;
  return kept;
}

bool hd__optimizer_may_keep(hd_op op, uint32_t kept) {
  const hd_optimizer_rule *rule = hd__optimizer_of_op(op);
  for (int i = 0; rule && i < HD_MAX_STATES; i++)
    if (rule->states[i].name)
      kept &= ~(1u << i);
  return kept == 0;
}
