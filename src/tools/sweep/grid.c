/* Reading what varies, and the values of a run: see grid.h. Each value is checked against its option's bounds when it
 * is read. A draw is rounded to six digits, so that the last bit of an exponential shows in no file. */
#include "tools/sweep/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "base/number.h"
#include "base/philox.h"
#include "train/settings/config.h"

/* ---- Keys ---- */

static bool same_name(const char *typed, const char *name) {
  for (; *typed && (*typed == *name || (*typed == '_' && *name == '-')); typed++)
    name++;
  return *typed == *name;
}

/* The options that may vary: those that define the result, and those that say what a run reads. */
static bool may_vary(int id) {
  return hd_option_at(id)->kind == HD_OPTION_EXPERIMENT || id == HD_OPT_DATA || id == HD_OPT_INIT;
}

static hd_status find_option(hd_option_id *out, hd_ctx *ctx, const char *key) {
  HD_CONFIG_OWNED *scratch = NULL;
  int id = 0;
  if (!strcmp(key, "batch_size") || !strcmp(key, "batch-size"))
    key = "batch";
  while (hd_option_at(id) && !same_name(key, hd_option_at(id)->name))
    id++;
  *out = (hd_option_id)id;
  HD_TRY(hd_config_create(&scratch, ctx));
  if (!hd_option_at(id))
    return hd_config_set(scratch, ctx, key, ""); /* which names the nearest one */
  return may_vary(id) ? HD_OK
                      : hd__fail(ctx, HD_E_USAGE,
                                 "a sweep expects to vary options that define the result, found %s, which does not; "
                                 "give it as --%s, once for all runs",
                                 key, hd_option_at(id)->name);
}

static hd_status check_value(hd_ctx *ctx, const hd_axis *axis, const char *value) {
  HD_CONFIG_OWNED *scratch = NULL;
  HD_TRY(hd_config_create(&scratch, ctx));
  return hd_config_set_text(scratch, ctx, axis->option, value);
}

/* ---- Values ---- */

static hd_status add_value(hd_axis *axis, hd_ctx *ctx, const char *value) {
  const char *name = hd_option_at((int)axis->option)->name;
  if (axis->count == HD_SWEEP_MOST_RUNS)
    return hd__fail(ctx, HD_E_USAGE, "%s expects at most %d values, found more; leave some out", name,
                    HD_SWEEP_MOST_RUNS);
  if ((axis->count & (axis->count - 1)) == 0) { /* 0 or a power of two: full */
    char **more = hd__realloc(axis->value, (size_t)(2 * axis->count + 1) * sizeof *more);
    HD_TRY(HD_ALLOCATED(more, ctx, "out of memory for the values of %s", name));
    axis->value = more;
  }
  HD_TRY(HD_ALLOCATED(axis->value[axis->count] = hd__strdup(value), ctx, "out of memory for the values of %s", name));
  axis->count++;
  return HD_OK;
}

/* One value, or with "0..9" all whole numbers from the first to the last. */
static hd_status add_item(hd_axis *axis, hd_ctx *ctx, char *item) {
  const hd_option *option = hd_option_at((int)axis->option);
  char *dots = strstr(item, ".."), number[HD_NUMBER_BYTES];
  int64_t first, last;
  item += strspn(item, " ");
  for (size_t length = strlen(item); length > 0 && item[length - 1] == ' '; length--)
    item[length - 1] = 0;
  if (!*item)
    return hd__fail(ctx, HD_E_USAGE,
                    "%s expects values such as a,b or 0..9, found an empty one; write it or leave the "
                    "comma out",
                    option->name);
  if (!dots || option->type == HD_OPTION_TEXT) {
    HD_TRY(check_value(ctx, axis, item));
    return add_value(axis, ctx, item);
  }
  *dots = 0;
  if (!hd__parse_int64(&first, item) || !hd__parse_int64(&last, dots + 2) || first > last)
    return hd__fail(ctx, HD_E_USAGE,
                    "%s expects an ascending range of whole numbers, 0..9 for example, found %s..%s; begin with the "
                    "smaller one",
                    option->name, item, dots + 2);
  HD_TRY(check_value(ctx, axis, dots + 2));
  for (int64_t i = first; i <= last; i++) {
    snprintf(number, sizeof number, "%lld", (long long)i);
    if (i == first)
      HD_TRY(check_value(ctx, axis, number));
    HD_TRY(add_value(axis, ctx, number));
  }
  return HD_OK;
}

/* "log(a,b)" or "uniform(a,b)". */
static hd_status add_draw(hd_axis *axis, hd_ctx *ctx, const char *text) {
  const hd_option *option = hd_option_at((int)axis->option);
  char low[HD_NUMBER_BYTES] = "", high[HD_NUMBER_BYTES] = "";
  int end = 0;
  axis->draw = true;
  axis->log = *text == 'l';
  sscanf(text, axis->log ? "log( %31[^, ] , %31[^) ] )%n" : "uniform( %31[^, ] , %31[^) ] )%n", low, high, &end);
  if (!end || text[end] || !hd__parse_double(&axis->low, low) || !hd__parse_double(&axis->high, high) ||
      axis->low >= axis->high || (axis->log && axis->low <= 0))
    return hd__fail(ctx, HD_E_USAGE, "%s expects %s of two ascending numbers%s, found '%s'; correct the bounds",
                    option->name, axis->log ? "log(1e-4,1e-1)" : "uniform(0,0.9)", axis->log ? ", both above 0" : "",
                    text);
  if (option->type != HD_OPTION_REAL)
    return hd__fail(ctx, HD_E_USAGE,
                    "%s expects a list of values, found '%s': only real numbers can be drawn; write a,b", option->name,
                    text);
  HD_TRY(check_value(ctx, axis, low));
  HD_TRY(check_value(ctx, axis, high));
  return add_value(axis, ctx, text);
}

/* Values with commas in them are separated by semicolons. */
static hd_status add_values(hd_axis *axis, hd_ctx *ctx, const char *text) {
  char item[HD_SWEEP_VALUE_BYTES];
  if (!strncmp(text, "log(", 4) || !strncmp(text, "uniform(", 8))
    return add_draw(axis, ctx, text);
  const char *ends = strchr(text, ';') ? ";" : ",";
  for (size_t length;; text += length + 1) {
    length = strcspn(text, ends);
    if ((size_t)snprintf(item, sizeof item, "%.*s", (int)length, text) >= sizeof item)
      return hd__fail(ctx, HD_E_USAGE, "%s expects values shorter than %d bytes, found a longer one; shorten it",
                      hd_option_at((int)axis->option)->name, HD_SWEEP_VALUE_BYTES);
    HD_TRY(add_item(axis, ctx, item));
    if (!text[length])
      return HD_OK;
  }
}

static hd_status add_axis(hd_axis **out, hd_grid *grid, hd_ctx *ctx, const char *key) {
  hd_option_id option;
  HD_TRY(find_option(&option, ctx, key));
  for (int a = 0; a < grid->axes; a++)
    if (grid->axis[a].option == option)
      return hd__fail(ctx, HD_E_USAGE, "a sweep expects each key once, found %s twice; put its values into one list",
                      hd_option_at((int)option)->name);
  if (grid->axes == HD_SWEEP_MOST_KEYS)
    return hd__fail(ctx, HD_E_USAGE, "a sweep expects at most %d keys, found more; leave some out", HD_SWEEP_MOST_KEYS);
  *out = &grid->axis[grid->axes++];
  **out = (hd_axis){.option = option};
  return HD_OK;
}

hd_status hd__grid_add(hd_grid *grid, hd_ctx *ctx, const char *key, const char *text) {
  hd_axis *axis;
  HD_TRY(add_axis(&axis, grid, ctx, key));
  return add_values(axis, ctx, text);
}

hd_status hd__grid_extend(hd_grid *grid, hd_ctx *ctx, const char *value) {
  hd_axis *axis = &grid->axis[grid->axes - 1];
  HD_TRY(check_value(ctx, axis, value));
  return add_value(axis, ctx, value);
}

hd_status hd__grid_add_node(hd_grid *grid, hd_ctx *ctx, const hd_yaml_node *node) {
  hd_axis *axis;
  const char *text;
  hd_status status = add_axis(&axis, grid, ctx, node->key);
  if (status == HD_OK && node->kind == HD_YAML_SCALAR) {
    HD_TRY(hd__yaml_text(&text, ctx, node));
    status = add_values(axis, ctx, text);
  }
  if (status == HD_OK && node->kind != HD_YAML_SCALAR)
    HD_TRY(hd__yaml_expect(ctx, node, HD_YAML_SEQUENCE, "a list of values"));
  for (int i = 0; status == HD_OK && node->kind == HD_YAML_SEQUENCE && i < node->count; i++) {
    HD_TRY(hd__yaml_text(&text, ctx, &node->item[i]));
    HD_OWNED char *copy = hd__strdup(text);
    HD_TRY(HD_ALLOCATED(copy, ctx, "out of memory for a value"));
    status = add_item(axis, ctx, copy);
  }
  char what[HD_MESSAGE_BYTES];
  snprintf(what, sizeof what, "%.700s", hd_ctx_message(ctx));
  return status == HD_OK ? HD_OK : hd__fail(ctx, status, "%s:%d: %s", node->source, node->line, what);
}

/* ---- A whole grid ---- */

/* Numbers by their size, whatever their digits. */
static int by_value(const void *a, const void *b, void *is_number) {
  const char *x = *(const char *const *)a, *y = *(const char *const *)b;
  double low, high;
  if (*(const bool *)is_number && hd__parse_double(&low, x) && hd__parse_double(&high, y))
    return (low > high) - (low < high);
  return strcmp(x, y);
}

/* Equal runs would count as several: a mean over them as one over different ones. */
static hd_status check_different(hd_ctx *ctx, const hd_axis *axis) {
  const hd_option *option = hd_option_at((int)axis->option);
  bool is_number = option->type == HD_OPTION_INT || option->type == HD_OPTION_REAL;
  HD_OWNED char **sorted = hd__malloc((size_t)axis->count * sizeof *sorted + 1);
  HD_TRY(HD_ALLOCATED(sorted, ctx, "out of memory for the values of %s", option->name));
  for (int64_t i = 0; i < axis->count; i++)
    sorted[i] = axis->value[i];
  qsort_r(sorted, (size_t)axis->count, sizeof *sorted, by_value, &is_number);
  for (int64_t i = 1; i < axis->count; i++)
    if (by_value(&sorted[i - 1], &sorted[i], &is_number) == 0)
      return hd__fail(ctx, HD_E_USAGE, "%s expects each value once, found %.200s twice; leave one out", option->name,
                      sorted[i]);
  return HD_OK;
}

hd_status hd__grid_complete(hd_grid *grid, hd_ctx *ctx, int64_t draws, uint64_t seed) {
  bool drawn = false;
  grid->seed = seed;
  grid->runs = draws > 0 ? draws : 1;
  for (int a = 0; a < grid->axes; a++) {
    const hd_axis *axis = &grid->axis[a];
    drawn |= axis->draw;
    if (axis->count == 0)
      return hd__fail(ctx, HD_E_USAGE,
                      "%s expects a list of values, found an empty one; write one or leave the key out",
                      hd_option_at((int)axis->option)->name);
    HD_TRY(check_different(ctx, axis));
    grid->runs *= axis->count;
    if (grid->runs > HD_SWEEP_MOST_RUNS)
      return hd__fail(ctx, HD_E_USAGE, "a sweep expects at most %d runs, found more; shorten a list or lower --draws",
                      HD_SWEEP_MOST_RUNS);
  }
  if (grid->axes == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "a sweep expects options to vary, lr=0.1,0.01 seed=0..9 for example, or FILE.yaml, found none; see "
                    "heddle sweep --help");
  if (drawn != (draws > 0))
    return hd__fail(ctx, HD_E_USAGE,
                    "a sweep expects --draws together with a key that is drawn, "
                    "lr=log(1e-4,1e-1) for example, found %s; %s",
                    drawn ? "no --draws" : "no such key", drawn ? "add --draws N" : "leave --draws out");
  return HD_OK;
}

void hd__grid_fini(hd_grid *grid) {
  for (int a = 0; a < grid->axes; a++) {
    for (int64_t i = 0; i < grid->axis[a].count; i++)
      hd__free(grid->axis[a].value[i]);
    hd__free(grid->axis[a].value);
  }
}

/* ---- Runs ---- */

const char *hd__grid_value(char text[HD_SWEEP_VALUE_BYTES], const hd_grid *grid, int64_t run, int axis) {
  const hd_axis *is = &grid->axis[axis];
  uint32_t word[4];
  for (int a = grid->axes - 1; a > axis; a--)
    run /= grid->axis[a].count;
  if (!is->draw)
    return is->value[run % is->count];
  for (int a = axis; a >= 0; a--)
    run /= grid->axis[a].count;
  hd__rng_block(word, grid->seed, HD_RNG_SWEEP, 0, (uint32_t)axis, 0, (uint32_t)run);
  const double u = word[0] * 0x1p-32, low = is->log ? hd__log(is->low) : is->low,
               high = is->log ? hd__log(is->high) : is->high, drawn = low + u * (high - low);
  snprintf(text, HD_SWEEP_VALUE_BYTES, "%.6g", is->log ? hd__exp(drawn) : drawn);
  text[strcspn(text, ",")] = strchr(text, ',') ? '.' : 0; /* of a locale */
  return text;
}

int64_t hd__grid_first(const hd_grid *grid, int64_t run, bool (*keeps)(hd_option_id option), bool same_draw) {
  int64_t first = 0, unit = 1;
  for (int a = grid->axes - 1; a >= 0; a--) {
    const int64_t count = grid->axis[a].count;
    first += keeps(grid->axis[a].option) ? run % count * unit : 0;
    run /= count;
    unit *= count;
  }
  return first + (same_draw ? run * unit : 0);
}

hd_status hd__grid_config(hd_config **out, hd_ctx *ctx, const hd_grid *grid, const hd_config *fixed, int64_t run) {
  char text[HD_SWEEP_VALUE_BYTES];
  HD_TRY(hd__config_copy(out, ctx, fixed));
  hd_status status = HD_OK;
  for (int a = 0; a < grid->axes && status == HD_OK; a++)
    status = hd_config_set_text(*out, ctx, grid->axis[a].option, hd__grid_value(text, grid, run, a));
  return HD_CREATED(status, out, hd_config_destroy);
}
