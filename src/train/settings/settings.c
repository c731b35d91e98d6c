/* The table of options, and reading their values from text; see settings.h. */
#include "train/settings/settings.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/number.h"
#include "base/status.h"
#include "base/text_buffer.h"
#include "train/settings/option_help.h"

#define CHOICES HD_CHOICES
static const hd_option table[HD_OPTION_COUNT + 1] = {
#define OPT(id, name, kind, type, fallback, min, max, choices, arg, help)                                              \
  {name, HD_OPTION_##kind, HD_OPTION_##type, fallback, min, max, choices, arg, help},
#include "train/settings/options.def"
#undef OPT
    {0}};

static const size_t offset[HD_OPTION_COUNT] = {
#define OPT(id, ...) offsetof(hd_settings, id),
#include "train/settings/options.def"
#undef OPT
};

/* The table with the help of settings, which names the optimizers and schedules that take them. */
static hd_option described[HD_OPTION_COUNT];

static void describe(void) {
  memcpy(described, table, sizeof described);
  for (int i = 0; i < HD_OPTION_COUNT; i++)
    described[i].help = hd__option_help((hd_option_id)i, table[i].help);
}

const hd_option *hd_option_at(int id) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, describe);
  return id >= 0 && id < HD_OPTION_COUNT ? &described[id] : NULL;
}

const char *hd_choice_name(hd_option_id id, int value) {
  const char *const *choices = hd_option_at((int)id) ? table[id].choices : NULL;
  for (int i = 0; choices && choices[i]; i++)
    if (i == value)
      return choices[i];
  return "";
}

enum { REMEDY_BYTES = 96 };

/* What to write instead of a number that is not one of the option's. */
static const char *number_remedy(char remedy[REMEDY_BYTES], const hd_option *option, const char *text) {
  double number;
  const bool is_number = hd__parse_double(&number, text), digits = strspn(text, "-0123456789") == strlen(text);
  if (is_number && number < option->min)
    snprintf(remedy, REMEDY_BYTES, "raise it to %.16g or more", option->min);
  else if (is_number && (number > option->max || digits))
    snprintf(remedy, REMEDY_BYTES, "lower it to %.16g or less", option->max);
  else if (is_number && option->type == HD_OPTION_REAL)
    snprintf(remedy, REMEDY_BYTES, "it is too close to 0 for a double: write 0, or 1e-300 or more");
  else if (is_number)
    snprintf(remedy, REMEDY_BYTES, "write it in digits alone");
  else if (strchr(text, ',') && option->type == HD_OPTION_REAL)
    snprintf(remedy, REMEDY_BYTES, "write a decimal point");
  else
    snprintf(remedy, REMEDY_BYTES, "write a number such as %s", *option->fallback ? option->fallback : "1");
  return remedy;
}

static hd_status read_int(int64_t *out, hd_ctx *ctx, const hd_option *option, const char *text) {
  char remedy[REMEDY_BYTES];
  int64_t number;
  if (!hd__parse_int64(&number, text) || number < (int64_t)option->min || number > (int64_t)option->max)
    return hd__fail(
        ctx, HD_E_USAGE, "--%s expects a whole number from %.16g to %.16g, found '%s'; %s", option->name, option->min,
        option->max, text,
        number_remedy(remedy, option, text)); /* compared as integers: a double would take 2^53 + 1 for 2^53 */
  *out = number;
  return HD_OK;
}

static hd_status read_real(double *out, hd_ctx *ctx, const hd_option *option, const char *text) {
  char remedy[REMEDY_BYTES];
  double number;
  if (!hd__parse_setting(&number, text) || !(number >= option->min && number <= option->max))
    return hd__fail(ctx, HD_E_USAGE, "--%s expects a number from %.10g to %.10g, found '%s'; %s", option->name,
                    option->min, option->max, text, number_remedy(remedy, option, text));
  *out = number;
  return HD_OK;
}

/* Splits "a,b"; false if it is not two numbers. */
static bool split_pair(double pair[2], const char *text) {
  char first[64];
  const char *comma = strchr(text, ',');
  if (!comma || (size_t)(comma - text) >= sizeof first)
    return false;
  memcpy(first, text, (size_t)(comma - text));
  first[comma - text] = 0;
  return hd__parse_setting(&pair[0], first) && hd__parse_setting(&pair[1], comma + 1);
}

static hd_status read_pair(double out[2], hd_ctx *ctx, const hd_option *option, const char *text) {
  double pair[2];
  if (!split_pair(pair, text) || !(pair[0] >= option->min && pair[0] < option->max) ||
      !(pair[1] >= option->min && pair[1] < option->max))
    return hd__fail(ctx, HD_E_USAGE, "--%s expects two numbers from %g to below %g, found '%s'; write them as %s",
                    option->name, option->min, option->max, text, option->fallback);
  memcpy(out, pair, sizeof pair);
  return HD_OK;
}

static hd_status read_flag(bool *out, hd_ctx *ctx, const hd_option *option, const char *text) {
  const bool on = !strcmp(text, "true");
  if (!on && strcmp(text, "false") != 0)
    return hd__fail(ctx, HD_E_USAGE, "%s expects true or false, found '%s'; write one of them", option->name, text);
  *out = on;
  return HD_OK;
}

static hd_status read_choice(int *out, hd_ctx *ctx, const hd_option *option, const char *text) {
  char list[128] = "";
  hd_line line = {.text = list, .bytes = sizeof list};
  hd_nearest nearest = {.word = text};
  for (int i = 0; option->choices[i]; i++) {
    if (!strcmp(option->choices[i], text)) {
      *out = i;
      return HD_OK;
    }
    hd__line_add(&line, "%s%s", i ? "|" : "", option->choices[i]);
    hd__nearest_try(&nearest, option->choices[i]);
  }
  if (nearest.name)
    return hd__fail(ctx, HD_E_USAGE, "--%s expects %s, found '%s'; did you mean '%s'?", option->name, list, text,
                    nearest.name);
  return hd__fail(ctx, HD_E_USAGE, "--%s expects %s, found '%s'; choose one of these", option->name, list, text);
}

/* `automatic` for "auto". */
static hd_status read_count(int32_t *out, hd_ctx *ctx, const hd_option *option, int32_t automatic, const char *text) {
  char remedy[REMEDY_BYTES];
  int64_t number = automatic;
  if (strcmp(text, "auto") != 0 && !(hd__parse_int64(&number, text) && number >= 1 && (double)number <= option->max))
    return hd__fail(ctx, HD_E_USAGE, "--%s expects 'auto' or a whole number from 1 to %d, found '%s'; %s", option->name,
                    (int)option->max, text, number_remedy(remedy, option, text));
  *out = (int32_t)number;
  return HD_OK;
}

/* "2/5" */
static hd_status read_fold(hd_fold *out, hd_ctx *ctx, const char *text) {
  const char *slash = strchr(text, '/');
  char first[16] = "";
  int64_t number, of;
  if (slash)
    snprintf(first, sizeof first, "%.*s", (int)(slash - text), text);
  if (!slash || !hd__parse_int64(&number, first) || !hd__parse_int64(&of, slash + 1) || of < 2 || of > HD_MOST_FOLDS ||
      number < 1 || number > of)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--fold expects a part and the number of parts, from 1/2 to %d/%d, found '%s'; write 2/5, for example",
        HD_MOST_FOLDS, HD_MOST_FOLDS, text);
  *out = (hd_fold){(int32_t)number, (int32_t)of};
  return HD_OK;
}

/* "layer4.*@5" */
static hd_status read_unfreeze(int64_t *epoch, hd_ctx *ctx, const char *text) {
  const char *at = strrchr(text, '@');
  int64_t number;
  if (!at || at == text || at - text > 255 || !hd__parse_int64(&number, at + 1) || number < 1 || number > 1000000)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--unfreeze expects PATTERNS@EPOCH, with an epoch from 1 to 1000000, found '%s'; write 'layer4.*@5', "
        "for example",
        text);
  *epoch = number;
  return HD_OK;
}

static hd_status read_text(hd_settings *settings, hd_ctx *ctx, hd_option_id id, const char **out, const char *text) {
  int32_t outputs;
  if (id == HD_OPT_THREADS)
    HD_TRY(read_count(&settings->thread_count, ctx, &table[id], 0, text));
  else if (id == HD_OPT_STAGES)
    HD_TRY(read_count(&settings->stage_count, ctx, &table[id], -1, text));
  else if (id == HD_OPT_DEVICE)
    HD_TRY(hd__device_read(&settings->devices, ctx, text));
  else if (id == HD_OPT_UNFREEZE)
    HD_TRY(read_unfreeze(&settings->unfreeze_epoch, ctx, text));
  else if (id == HD_OPT_HEAD)
    HD_TRY(read_count(&outputs, ctx, &table[id], 0, text));
  else if (id == HD_OPT_FOLD)
    HD_TRY(read_fold(&settings->fold_part, ctx, text));
  else if (!*text)
    return hd__fail(ctx, HD_E_USAGE, "--%s expects a value, found nothing; give one or leave the option out",
                    table[id].name);
  *out = text;
  return HD_OK;
}

hd_status hd__settings_read(hd_settings *settings, hd_ctx *ctx, hd_option_id id, const char *text) {
  void *const field = (char *)settings + offset[id];
  const hd_option *const option = &table[id];
  switch (option->type) {
  case HD_OPTION_INT: return read_int(field, ctx, option, text);
  case HD_OPTION_REAL: return read_real(field, ctx, option, text);
  case HD_OPTION_PAIR: return read_pair(field, ctx, option, text);
  case HD_OPTION_FLAG: return read_flag(field, ctx, option, text);
  case HD_OPTION_CHOICE: return read_choice(field, ctx, option, text);
  case HD_OPTION_TEXT: return read_text(settings, ctx, id, field, text);
  }
  return HD_OK;
}

void hd__settings_hold(hd_settings *settings, hd_option_id id, const char *text) {
  if (text && table[id].type == HD_OPTION_TEXT)
    *(const char **)((char *)settings + offset[id]) = text;
}

int64_t hd__settings_int(const hd_settings *settings, hd_option_id id) {
  const hd_option *const option = hd_option_at((int)id);
  const void *const field = option ? (const char *)settings + offset[id] : NULL;
  if (id == HD_OPT_THREADS)
    return settings->thread_count;
  switch (option ? option->type : HD_OPTION_TEXT) {
  case HD_OPTION_INT: return *(const int64_t *)field;
  case HD_OPTION_CHOICE: return *(const int *)field;
  case HD_OPTION_FLAG: return *(const bool *)field;
  default: return 0;
  }
}

double hd__settings_real(const hd_settings *settings, hd_option_id id) {
  const hd_option *const option = hd_option_at((int)id);
  return option && option->type == HD_OPTION_REAL ? *(const double *)((const char *)settings + offset[id]) : 0;
}

const double *hd__settings_pair(const hd_settings *settings, hd_option_id id) {
  return (const double *)((const char *)settings + offset[id]);
}

void hd__settings_init(hd_settings *settings) {
  *settings = (hd_settings){0};
  for (int i = 0; i < HD_OPTION_COUNT; i++) {
    void *const field = (char *)settings + offset[i];
    if (*table[i].fallback)
      hd__settings_read(settings, NULL, (hd_option_id)i, table[i].fallback); /* cannot fail */
    else if (table[i].type == HD_OPTION_TEXT)
      *(const char **)field = "";
    else if (table[i].type == HD_OPTION_CHOICE)
      *(int *)field = -1;
  }
}

/* ---- --device ---- */

/* "0,3" */
static bool parse_list(hd_device_choice *c, const char *text) {
  for (const char *at = text;; at++) {
    char one[8] = "";
    const size_t length = strcspn(at, ",");
    int64_t number;
    if (length >= sizeof one || c->count == HD_DEVICE_MOST_GPUS)
      return false;
    memcpy(one, at, length);
    if (!hd__parse_int64(&number, one) || number < 0 || number > 1023)
      return false;
    c->index[c->count++] = (int)number;
    at += length;
    if (!*at)
      return true;
  }
}

static bool parse(hd_device_choice *c, const char *text) {
  *c = (hd_device_choice){
      .automatic = !strcmp(text, "auto"), .first = !strcmp(text, "cuda"), .all = !strcmp(text, "cuda:all")};
  c->gpus = !c->automatic && strcmp(text, "cpu") != 0;
  return !c->gpus || c->first || c->all || (!strncmp(text, "cuda:", 5) && parse_list(c, text + 5));
}

hd_status hd__device_read(hd_device_choice *out, hd_ctx *ctx, const char *text) {
  hd_device_choice c;
  if (!parse(&c, text))
    return hd__fail(ctx, HD_E_USAGE,
                    "--device expects auto, cpu, cuda, cuda:N, a list such as cuda:0,1 or cuda:all, found '%.60s'; see "
                    "heddle devices",
                    text);
  for (int i = 0; i < c.count; i++)
    for (int j = 0; j < i; j++)
      if (c.index[i] == c.index[j])
        return hd__fail(ctx, HD_E_USAGE, "--device expects each GPU once, found GPU %d twice in '%.60s'; name it once",
                        c.index[i], text);
  *out = c;
  return HD_OK;
}
