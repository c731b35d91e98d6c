/* Options that are settings of optimizers and schedules; see option_help.h. */
#include "train/settings/option_help.h"

#include <string.h>

#include "base/text_buffer.h"
#include "optimizer/schedule_rules.h"

/* Numbers of options by the names of their rows. */
enum {
#define OPT(id, ...) OPTION_##id,
#include "train/settings/options.def"
#undef OPT
};

#define OPTION_OF(id) OPTION_##id,
static const int option_of[] = {HD_SETTING_ROWS(OPTION_OF)};
enum { SETTINGS = sizeof option_of / sizeof *option_of, LIST_BYTES = 160, HELP_BYTES = 400 };

const hd_update_setting *hd__option_setting(hd_option_id id) {
  for (int i = 0; i < SETTINGS; i++)
    if (option_of[i] == (int)id)
      return &hd__update_settings[i];
  return NULL;
}

hd_option_id hd__option_of_setting(const hd_update_setting *setting) {
  return (hd_option_id)option_of[setting - hd__update_settings];
}

/* " (default 0; adamw: 0.01)", if optimizers have defaults of their own. */
static void add_defaults(hd_line *l, const hd_update_setting *s) {
  const char *before = "; ";
  for (int i = 0; hd__optimizer_at(i); i++) {
    const char *standard = hd__optimizer_standard(hd__optimizer_at(i), s);
    if (!strcmp(standard, s->standard))
      continue;
    if (*before == ';')
      hd__line_add(l, " (default %s", *s->standard ? s->standard : "0");
    hd__line_add(l, "%s%s: %s", before, hd__optimizer_at(i)->name, standard);
    before = ", ";
  }
  hd__line_add(l, "%s", *before == ',' ? ")" : "");
}

const char *hd__option_help(hd_option_id id, const char *help) {
  static char text[SETTINGS][HELP_BYTES];
  char list[LIST_BYTES];
  const hd_update_setting *s = hd__option_setting(id);
  if (!s)
    return help;
  hd_line l = {.text = text[s - hd__update_settings], .bytes = HELP_BYTES};
  if (hd__optimizers_are_some(s->value))
    hd__line_add(&l, "%s: ", hd__optimizers_list(list, sizeof list, s->value, ", "));
  if (*hd__curves_list(list, sizeof list, s->value, ", "))
    hd__line_add(&l, "--schedule %s: ", list);
  hd__line_add(&l, "%s", help);
  add_defaults(&l, s);
  return l.text;
}
