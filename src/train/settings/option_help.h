/* Which options are settings of optimizers and schedules, and their help. */
#pragma once

#include "heddle/config.h"
#include "optimizer/optimizer.h"

/* The setting of optimizers or schedules that an option is; NULL: it is none. */
const hd_update_setting *hd__option_setting(hd_option_id id);

/* The option that a setting is. */
hd_option_id hd__option_of_setting(const hd_update_setting *setting);

/* The help of an option: with what only some optimizers or schedules take goes which, and a default that differs
 * between optimizers is stated. Static storage; called once for each option. */
const char *hd__option_help(hd_option_id id, const char *help);
