/* The options of a run as values: a struct with one field for each row of options.def. An option is read from text
 * once, when it is set; what runs afterwards reads the fields. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/reduction.h"
#include "base/status.h"
#include "data/dataset/dataset.h"
#include "heddle/config.h"
#include "optimizer/setting_rows.h"

/* The text of --device, parsed. */

enum { HD_DEVICE_MOST_GPUS = HD_MAX_SHARDS };

/* `first`: cuda, the first GPU, or with several ranks all of them, like `all`, cuda:all. */
typedef struct hd_device_choice {
  bool automatic, gpus, first, all;
  bool each;                             /* each rank sees one GPU, as number 0; known when the GPUs are counted */
  int count, index[HD_DEVICE_MOST_GPUS]; /* the GPUs that are named */
} hd_device_choice;

/* Reads auto, cpu, cuda, cuda:N, a list of GPUs, each named once, or cuda:all; HD_E_USAGE for another text, *out then
 * stays unchanged. */
hd_status hd__device_read(hd_device_choice *out, hd_ctx *ctx, const char *text);

enum {
  HD_OPTION_COUNT = 0
#define OPT(...) +1
#include "train/settings/options.def"
#undef OPT
};

/* Without a value: INT 0, REAL 0, FLAG false, TEXT "", CHOICE -1. */
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
  int32_t stage_count;      /* of --stages; 0: not given, -1: auto */
  hd_device_choice devices; /* of --device */
  hd_fold fold_part;        /* of --fold */
  int64_t unfreeze_epoch;   /* of --unfreeze */
} hd_settings;

/* Gives every option its default. */
void hd__settings_init(hd_settings *settings);

/* hd_config_get_int and hd_config_get_real. */
int64_t hd__settings_int(const hd_settings *settings, hd_option_id id);
double hd__settings_real(const hd_settings *settings, hd_option_id id);

/* The two numbers of a PAIR. */
const double *hd__settings_pair(const hd_settings *settings, hd_option_id id);

/* Sets an option from text; HD_E_USAGE names the option, what is expected and what was found, and the option keeps its
 * value. A field of type TEXT points to `text`, which must outlive it. */
hd_status hd__settings_read(hd_settings *settings, hd_ctx *ctx, hd_option_id id, const char *text);

/* Gives a field of type TEXT another copy of its text, which must outlive it; other fields, and NULL, change
 * nothing. */
void hd__settings_hold(hd_settings *settings, hd_option_id id, const char *text);
