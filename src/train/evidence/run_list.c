/* The runs in a folder: see heddle/evidence.h. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json_number.h"
#include "base/rounding.h"
#include "platform/file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evidence/certificate.h"
#include "train/evidence/run_list.h"

/* ---- A run of several parts: it was resumed ---- */

static const char *const times[] = {"startup_s", "train_s", "evaluate_s", "save_s", "wall_s"};
enum { TIMES = sizeof times / sizeof *times, TRAIN_S = 1 };

typedef struct run_parts {
  double sum[TIMES], samples;
  bool unknown[TIMES]; /* an earlier heddle did not write it */
  int64_t peak_bytes;
  int trained;        /* parts with steps */
  json_t *rank_times; /* of the last one */
  json_t *texts;      /* the texts of --sample-every */
  int64_t open_step;  /* the first step of a part whose end is missing; -1: there is none */
  bool lacks;         /* the run has steps of a part that was killed, whose times are not known */
} run_parts;

static double number_of(const json_t *line, const char *key) { return json_number_value(json_object_get(line, key)); }

/* A part that begins before texts of an earlier one writes them again. */
static void take_sample(json_t *samples, json_t *line) {
  size_t count = json_array_size(samples);
  for (; count > 0 && number_of(json_array_get(samples, count - 1), "step") >= number_of(line, "step"); count--)
    json_array_remove(samples, count - 1);
  json_array_append(samples, line);
}

static void take_part(void *to, json_t *line, const char *type) {
  run_parts *p = to;
  if (!strcmp(type, "sample"))
    take_sample(p->texts, line);
  if (!strcmp(type, "start")) {
    const int64_t step = json_integer_value(json_object_get(line, "step"));
    p->lacks |= p->open_step >= 0 && step > p->open_step;
    p->open_step = step;
  }
  if (strcmp(type, "end") != 0)
    return;
  p->open_step = -1;
  for (int i = 0; i < TIMES; i++) {
    p->sum[i] += number_of(line, times[i]);
    p->unknown[i] |= !json_object_get(line, times[i]);
  }
  p->samples += number_of(line, "samples_per_s") * number_of(line, "train_s");
  const int64_t peak = json_integer_value(json_object_get(line, "peak_rss_bytes"));
  p->peak_bytes = peak > p->peak_bytes ? peak : p->peak_bytes;
  if (number_of(line, "train_s") > 0) {
    p->trained++;
    json_decref(p->rank_times);
    p->rank_times = json_incref(json_object_get(line, "rank_times"));
  }
}

/* The end states the times of all parts. If those of a part are not known it states no training times; shares of ranks
 * only if one part trained. */
static void sum_parts(json_t *end, const run_parts *parts) {
  const run_parts p = *parts;
  for (int i = 0; i < TIMES; i++)
    json_object_set_new(end, times[i], p.lacks || p.unknown[i] ? json_null() : json_real(p.sum[i]));
  if (p.sum[TRAIN_S] > 0)
    json_object_set_new(end, "samples_per_s", json_real(p.samples / p.sum[TRAIN_S]));
  json_object_set_new(end, "peak_rss_bytes", json_integer(p.peak_bytes));
  if (p.trained == 1 && p.rank_times)
    json_object_set(end, "rank_times", p.rank_times);
  if (p.trained > 1)
    json_object_del(end, "rank_times");
}

static hd_status read_parts(hd_run_entry *run, hd_ctx *ctx) {
  run_parts p = {.open_step = -1, .texts = json_array()};
  const hd_status status = hd__history_lines(ctx, run->folder, take_part, &p);
  if (status == HD_OK && run->end)
    sum_parts(run->end, &p);
  run->written = json_pack("{s:o}", "samples", p.texts);
  json_decref(p.rank_times);
  return status;
}

/* Reads the record of a run; NULL, which is no failure, where there is none, it is another user's, or damaged, which is
 * noted. */
static hd_status read_record(json_t **record, hd_runs *runs, hd_ctx *ctx, const char *folder) {
  hd_ctx quiet = {0};
  char path[HD_PATH_BYTES];
  *record = NULL;
  if (hd__file_join(path, NULL, folder, "run.json") != HD_OK || access(path, R_OK) != 0)
    return HD_OK;
  const hd_status status = hd__checkpoint_record(record, &quiet, folder);
  if (status == HD_E_FORMAT)
    json_array_append_new(runs->damage, json_string(quiet.message));
  return status == HD_E_IO ? hd__fail(ctx, status, "%s", quiet.message) : HD_OK;
}

static hd_status add_run(hd_runs *runs, hd_ctx *ctx, const char *folder) {
  json_t *record;
  HD_TRY(read_record(&record, runs, ctx, folder));
  if (!record)
    return HD_OK;
  if (runs->count == runs->room) {
    const int64_t room = 2 * runs->room + 16;
    hd_run_entry *more = hd__realloc(runs->run, (size_t)room * sizeof *more);
    if (!more) {
      json_decref(record);
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for a list of runs");
    }
    runs->run = more;
    runs->room = room;
  }
  hd_run_entry *run = &runs->run[runs->count++];
  *run = (hd_run_entry){.folder = hd__strdup(folder), .record = record};
  HD_TRY(hd__history_read(&run->start, &run->end, ctx, folder));
  HD_TRY(HD_ALLOCATED(run->folder, ctx, "out of memory for a list of runs"));
  return read_parts(run, ctx);
}

/* cnn-9 before cnn-10. */
static int by_name(const void *a, const void *b) {
  return strverscmp(((const hd_run_entry *)a)->folder, ((const hd_run_entry *)b)->folder);
}

static hd_status read_runs(hd_runs *runs, hd_ctx *ctx, const char *folder) {
  char path[HD_PATH_BYTES];
  HD_FOLDER_OWNED *open = opendir(folder);
  struct dirent *entry;
  if (!open)
    return hd__fail(ctx, HD_E_IO, "%s: expected a folder of runs, found: %m; name one, or train first", folder);
  HD_TRY(add_run(runs, ctx, folder));
  while ((entry = readdir(open))) {
    if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "last") || !strcmp(entry->d_name, "best") ||
        !strncmp(entry->d_name, "step-", 5))
      continue;
    HD_TRY(hd__file_join(path, ctx, folder, entry->d_name));
    HD_TRY(add_run(runs, ctx, path));
  }
  if (runs->count > 0)
    qsort(runs->run, (size_t)runs->count, sizeof *runs->run, by_name);
  return HD_OK;
}

hd_status hd_runs_open(hd_runs **out, hd_ctx *ctx, const char *folder) {
  HD_ROUNDING_TO_NEAREST;
  hd_runs *runs = *out = hd__calloc(1, sizeof *runs);
  HD_TRY(HD_ALLOCATED(runs, ctx, "out of memory for a list of runs"));
  runs->last = runs->text;
  runs->damage = json_array();
  const hd_status status = read_runs(runs, ctx, folder);
  return HD_CREATED(status, out, hd_runs_close);
}

void hd_runs_close(hd_runs *runs) {
  if (!runs)
    return;
  for (int64_t i = 0; i < runs->count; i++) {
    hd__free(runs->run[i].folder);
    json_decref(runs->run[i].record);
    json_decref(runs->run[i].start);
    json_decref(runs->run[i].end);
    json_decref(runs->run[i].written);
    json_decref(runs->run[i].lines);
  }
  json_decref(runs->damage);
  hd__free(runs->step);
  hd__free(runs->value);
  hd__free(runs->run);
  hd__free(runs);
}

int64_t hd_runs_count(const hd_runs *runs) { return runs->count; }

const char *hd_runs_damage(const hd_runs *runs, int64_t index) {
  return index < 0 ? NULL : json_string_value(json_array_get(runs->damage, (size_t)index));
}

hd_status hd__runs_read_lines(hd_run_entry *run, hd_ctx *ctx) {
  char path[HD_PATH_BYTES], *line = NULL;
  size_t room = 0;
  HD_FILE_OWNED *from = NULL;
  if (run->lines)
    return HD_OK;
  HD_TRY(hd__file_join(path, ctx, run->folder, "metrics.jsonl"));
  HD_TRY(hd__file_open_if_there(&from, ctx, path));
  run->lines = json_array();
  while (from && getline(&line, &room, from) >= 0) {
    json_t *object = json_loads(line, 0, NULL);
    const bool is_read = json_is_object(object) && json_integer_value(json_object_get(object, "step")) > 0;
    if (is_read)
      json_array_append(run->lines, object);
    run->unreadable += !is_read;
    json_decref(object);
  }
  free(line);
  return HD_OK;
}

/* The value at a path of names, and of places in lists, with dots between them. */
static json_t *value_at(json_t *object, const char *path) {
  char name[128];
  for (size_t length; object && *path; path += length + (path[length] == '.')) {
    length = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    object =
        json_is_array(object) ? json_array_get(object, (size_t)strtoul(name, NULL, 10)) : json_object_get(object, name);
  }
  return object;
}

json_t *hd__runs_find(const hd_run_entry *run, const char *key) {
  json_t *value = json_object_get(json_object_get(run->record, "settings"), key);
  if (!value)
    value = value_at(run->end, key);
  if (!value)
    value = value_at(run->start, key);
  if (!value)
    value = value_at(run->written, key);
  return value ? value : value_at(run->record, key);
}

/* Words separated by blanks; words that a shell would change are quoted. */
static void join_words(char *text, size_t bytes, const json_t *words) {
  size_t at = 0, i;
  const json_t *word;
  json_array_foreach(words, i, word) {
    const char *is = json_is_string(word) ? json_string_value(word) : "";
    const char *quote = *is && !strpbrk(is, " \t\n\"'`$\\|&;<>()*?[]{}~#!") ? "" : "'";
    if (at < bytes)
      at += (size_t)snprintf(text + at, bytes - at, "%s%s", i ? " " : "", quote);
    for (; *is && at + 8 < bytes; is++)
      at += (size_t)snprintf(text + at, bytes - at, *is == '\'' ? "'\\''" : "%c", *is);
    if (at < bytes)
      at += (size_t)snprintf(text + at, bytes - at, "%s", quote);
  }
}

const char *hd_runs_value(const hd_runs *runs, int64_t index, const char *key) {
  HD_ROUNDING_TO_NEAREST;
  char *text = runs->last;
  if (index < 0 || index >= runs->count)
    return NULL;
  const hd_run_entry *run = &runs->run[index];
  const json_t *how = json_object_get(run->end, "end");
  if (!strcmp(key, "run"))
    return run->folder;
  if (!strcmp(key, "state"))
    return json_is_string(how) ? json_string_value(how) : hd__file_is_locked(run->folder) ? "running" : "unfinished";
  const json_t *value = hd__runs_find(run, key);
  if (json_is_string(value))
    return json_string_value(value);
  text[0] = 0;
  if (!strcmp(key, "command"))
    join_words(text, sizeof runs->text, value);
  if (!strcmp(key, "unreadable_lines")) {
    hd__runs_read_lines(&runs->run[index], NULL);
    snprintf(text, sizeof runs->text, "%lld", (long long)run->unreadable);
  }
  if (json_is_integer(value))
    snprintf(text, sizeof runs->text, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    hd__json_number(text, json_real_value(value));
  else if (json_is_boolean(value))
    snprintf(text, sizeof runs->text, "%s", json_is_true(value) ? "true" : "false");
  return text;
}
