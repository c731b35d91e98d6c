/* The options of a run as values: a struct with one field for each row of options.def. An option is read from text
 * once, when it is set; what runs afterwards reads the fields. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "heddle/config.h"
#include "train/settings/device_choice.h"

typedef enum hd_option_id {
#define OPT(id, ...) HD_OPT_##id,
#include "train/settings/options.def"
#undef OPT
  HD_OPTION_COUNT
} hd_option_id;

/* The values of options of type CHOICE, in the order of the row's choices; -1 without one. placement has those of
 * hd_placement_policy, cache those of hd_cache_kind; a recipe is found by its text. */
enum { HD_SAMPLER_RANDOM, HD_SAMPLER_SEQUENTIAL, HD_SAMPLER_BALANCED };
enum { HD_ON_ERROR_STOP, HD_ON_ERROR_SKIP };
enum { HD_ARITHMETIC_PORTABLE, HD_ARITHMETIC_NATIVE };
enum { HD_PRECISION_F32, HD_PRECISION_TF32, HD_PRECISION_BF16 };
enum { HD_OPTIMIZER_SGD, HD_OPTIMIZER_ADAM, HD_OPTIMIZER_ADAMW };
enum { HD_SCHEDULE_CONST, HD_SCHEDULE_STEP, HD_SCHEDULE_COSINE, HD_SCHEDULE_LINEAR, HD_SCHEDULE_ONECYCLE };

/* Without a value: INT 0, REAL 0, FLAG false, TEXT "". */
#define HD_FIELD_INT(id) int64_t id;
#define HD_FIELD_REAL(id) double id;
#define HD_FIELD_TEXT(id) const char *id;
#define HD_FIELD_FLAG(id) bool id;
#define HD_FIELD_CHOICE(id) int id;
#define HD_FIELD_PAIR(id) double id[2];

typedef struct hd_settings {
#define OPT(id, name, kind, type, ...) HD_FIELD_##type(id)
#include "train/settings/options.def"
#undef OPT
  int32_t thread_count;     /* of --threads; 0: auto */
  hd_device_choice devices; /* of --device */
} hd_settings;

/* Gives every option its default. */
void hd__settings_init(hd_settings *settings);

/* Sets an option from text; HD_E_USAGE names the option, what is expected and what was found, and the option keeps its
 * value. A field of type TEXT points to `text`, which must outlive it. */
hd_status hd__settings_read(hd_settings *settings, hd_ctx *ctx, hd_option_id id, const char *text);
