/* Numbers of a run, from its metrics.jsonl, losses.bin and history.jsonl: see heddle/evidence.h.
 *
 * losses.bin has sums over batches. Their divisors are in divisors.bin or, without it, follow from a step whose mean
 * was logged, or from the first epoch's mean, and from the sizes of the batches; if these do not agree, as in runs with
 * weights or ignored labels that have no such file, only the means that were logged are known. Any process may be
 * writing the files, and any may have edited them: what is not a finite number is left out. */
#include <math.h>
#include <string.h>

#include "base/rounding.h"
#include "base/sized_struct.h"
#include "train/checkpoint/losses.h"
#include "train/evidence/run_list.h"

static hd_status add(hd_runs *runs, hd_ctx *ctx, double step, double value) {
  if (!isfinite(value))
    return HD_OK;
  if (runs->numbers == runs->numbers_room) {
    const int64_t room = 2 * runs->numbers_room + 1024;
    double *steps = hd__realloc(runs->step, (size_t)room * sizeof *steps);
    runs->step = steps ? steps : runs->step;
    double *values = steps ? hd__realloc(runs->value, (size_t)room * sizeof *values) : NULL;
    HD_TRY(HD_ALLOCATED(values, ctx, "out of memory for the numbers of a run"));
    runs->value = values;
    runs->numbers_room = room;
  }
  runs->step[runs->numbers] = step;
  runs->value[runs->numbers++] = value;
  return HD_OK;
}

/* Adds all numbers in a list, in order; text and the like count as none. */
static hd_status add_list(hd_runs *runs, hd_ctx *ctx, json_t *value) {
  size_t i;
  const char *key;
  json_t *item;
  if (json_is_number(value))
    return add(runs, ctx, (double)(runs->numbers + 1), json_number_value(value));
  json_array_foreach(value, i, item) { HD_TRY(add_list(runs, ctx, item)); }
  json_object_foreach(value, key, item) { HD_TRY(add_list(runs, ctx, item)); }
  return HD_OK;
}

static int64_t step_of(const json_t *line) { return json_integer_value(json_object_get(line, "step")); }

/* Adds a key of the lines of metrics.jsonl, of steps after `from`. */
static hd_status add_lines(hd_runs *runs, hd_ctx *ctx, const hd_run_entry *run, const char *key, int64_t from) {
  size_t i;
  const json_t *line;
  json_array_foreach(run->lines, i, line) {
    json_t *value = json_object_get(line, key);
    if (json_is_array(value)) {
      runs->numbers = 0;
      HD_TRY(add_list(runs, ctx, value));
    } else if (json_is_number(value) && step_of(line) > from) {
      HD_TRY(add(runs, ctx, (double)step_of(line), json_number_value(value)));
    }
  }
  return HD_OK;
}

/* ---- Losses of steps ---- */

/* The sizes of a run's batches: the last one of an epoch is smaller, unless it was dropped. */
typedef struct batches {
  int64_t batch, steps, samples; /* of an epoch; 0: unknown */
} batches;

static batches batches_of(const hd_run_entry *run) {
  const char *batch = json_string_value(hd__runs_find(run, "batch"));
  return (batches){batch ? atoll(batch) : 0, json_integer_value(json_object_get(run->start, "epoch_steps")),
                   json_integer_value(json_object_get(run->start, "epoch_samples"))};
}

static double size_of(const batches *b, int64_t step) {
  const int64_t left = b->steps > 0 ? b->samples - step % b->steps * b->batch : b->batch;
  return left > 0 && left < b->batch ? (double)left : b->batch > 0 ? (double)b->batch : 1;
}

/* What a sample adds to the divisor of the mean: 1 for most losses. NAN: it is not the same in all steps. */
static double share_of_sample(const hd_run_entry *run, const batches *b, const double *sum, int64_t count) {
  double share = NAN;
  size_t i;
  const json_t *line;
  json_array_foreach(run->lines, i, line) {
    const json_t *loss = json_object_get(line, "loss"), *epoch = json_object_get(line, "epoch");
    const int64_t step = step_of(line);
    const double mean = json_number_value(loss ? loss : json_object_get(line, "train_loss"));
    double all = 0, samples = 0;
    const bool known = loss || json_integer_value(epoch) == 0;
    for (int64_t at = loss ? step - 1 : 0; known && at >= 0 && at < step && step <= count; at++) {
      all += sum[at];
      samples += size_of(b, at);
    }
    const double found = all / mean / samples;
    if (isnormal(found) && fabs(found - share) > 1e-5 * fabs(share))
      return NAN;
    share = isnormal(found) ? found : share;
  }
  return isnan(share) ? 1 : share;
}

/* The mean that was logged of a step; *next: the line to go on from, for later steps. */
static double logged_loss(size_t *next, const hd_run_entry *run, int64_t step) {
  double loss = NAN;
  for (; *next < json_array_size(run->lines) && step_of(json_array_get(run->lines, *next)) <= step; ++*next) {
    const json_t *line = json_array_get(run->lines, *next), *value = json_object_get(line, "loss");
    if (step_of(line) == step && json_is_number(value))
      loss = json_number_value(value);
  }
  return loss;
}

/* The steps of a run: at its end, or as far as it has logged. */
static int64_t steps_of(const hd_run_entry *run) {
  const size_t lines = json_array_size(run->lines);
  const int64_t ended = json_integer_value(json_object_get(run->end, "step"));
  return run->end ? ended : lines ? step_of(json_array_get(run->lines, lines - 1)) : 0;
}

static hd_status add_losses(hd_runs *runs, hd_ctx *ctx, const hd_run_entry *run) {
  HD_MAPPED file = {0}, divisors = {0};
  HD_TRY(hd__losses_map(&file, ctx, run->folder));
  HD_TRY(hd__divisors_map(&divisors, ctx, run->folder));
  const double *sum = (const double *)(const void *)file.bytes;
  const double *divisor = (const double *)(const void *)divisors.bytes;
  const int64_t divided = (int64_t)(divisors.length / sizeof *divisor);
  const batches b = batches_of(run);
  int64_t count = (int64_t)(file.length / sizeof *sum);
  count = count > steps_of(run) ? steps_of(run) : count; /* the file of a run that was killed is longer */
  const double share = divided > 0 ? NAN : share_of_sample(run, &b, sum, count);
  size_t line = 0;
  for (int64_t i = 0; i < count; i++) {
    const double mean = sum[i] / (i < divided ? divisor[i] : share * size_of(&b, i));
    runs->file_steps += isfinite(mean);
    HD_TRY(add(runs, ctx, (double)(i + 1), isfinite(mean) ? mean : logged_loss(&line, run, i + 1)));
  }
  return add_lines(runs, ctx, run, "loss", count);
}

hd_status hd_runs_numbers(hd_run_numbers *out, hd_runs *runs, hd_ctx *ctx, int64_t index, const char *key) {
  HD_ROUNDING_TO_NEAREST;
  if (index < 0 || index >= runs->count)
    return hd__fail(ctx, HD_E_USAGE, "expected a run from 0 to %lld, found %lld", (long long)runs->count - 1,
                    (long long)index);
  hd_run_entry *run = &runs->run[index];
  json_t *list = hd__runs_find(run, key);
  HD_TRY(hd__struct_check(ctx, out, sizeof *out, "hd_run_numbers"));
  HD_TRY(hd__runs_read_lines(run, ctx));
  runs->numbers = runs->file_steps = 0;
  if (json_is_array(list))
    HD_TRY(add_list(runs, ctx, list));
  else
    HD_TRY(!strcmp(key, "loss") ? add_losses(runs, ctx, run) : add_lines(runs, ctx, run, key, 0));
  const hd_run_numbers found = {.count = runs->numbers,
                                .step = runs->step,
                                .value = runs->value,
                                .missing = !strcmp(key, "loss") ? steps_of(run) - runs->file_steps : 0};
  hd__struct_write(out, &found, sizeof found);
  return HD_OK;
}
