/* The runs in a folder: see heddle/evidence.h. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "heddle/evidence.h"
#include "platform/file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evidence/certificate.h"

typedef struct run_entry {
  char *folder;
  json_t *record, *start, *end; /* end: NULL for a run that was killed, or still runs */
} run_entry;

struct hd_runs {
  run_entry *run;
  int64_t count, room;
  char text[512]; /* of the last value */
};

static hd_status add_run(hd_runs *runs, hd_ctx *ctx, const char *folder) {
  hd_ctx quiet = {0};
  json_t *record;
  char path[HD_PATH_BYTES];
  if (hd__file_join(path, NULL, folder, "run.json") != HD_OK || !hd__file_exists(path) ||
      hd__checkpoint_record(&record, &quiet, folder) != HD_OK)
    return HD_OK;
  if (runs->count == runs->room) {
    const int64_t room = 2 * runs->room + 16;
    run_entry *more = hd__realloc(runs->run, (size_t)room * sizeof *more);
    if (!more) {
      json_decref(record);
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for a list of runs");
    }
    runs->run = more;
    runs->room = room;
  }
  run_entry *run = &runs->run[runs->count++];
  *run = (run_entry){.folder = hd__strdup(folder), .record = record};
  hd__history_read(&run->start, &run->end, folder);
  return HD_ALLOCATED(run->folder, ctx, "out of memory for a list of runs");
}

/* cnn-9 before cnn-10. */
static int by_name(const void *a, const void *b) {
  return strverscmp(((const run_entry *)a)->folder, ((const run_entry *)b)->folder);
}

static hd_status read_runs(hd_runs *runs, hd_ctx *ctx, const char *folder) {
  char path[HD_PATH_BYTES];
  HD_FOLDER_OWNED *open = opendir(folder);
  struct dirent *entry;
  if (!open)
    return hd__fail(ctx, HD_E_IO, "%s: expected a folder of runs, found: %m; give one, or train first", folder);
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
  hd_runs *runs = *out = hd__calloc(1, sizeof *runs);
  HD_TRY(HD_ALLOCATED(runs, ctx, "out of memory for a list of runs"));
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
  }
  hd__free(runs->run);
  hd__free(runs);
}

int64_t hd_runs_count(const hd_runs *runs) { return runs->count; }

/* The value at a path of names with dots between them. */
static const json_t *value_at(const json_t *object, const char *path) {
  char name[128];
  for (size_t length; object && *path; path += length + (path[length] == '.')) {
    length = strcspn(path, ".");
    snprintf(name, sizeof name, "%.*s", (int)length, path);
    object = json_object_get(object, name);
  }
  return object;
}

static const json_t *find(const run_entry *run, const char *key) {
  const json_t *value = json_object_get(json_object_get(run->record, "settings"), key);
  if (!value)
    value = json_object_get(run->end, key);
  if (!value)
    value = value_at(run->start, key);
  return value ? value : value_at(run->record, key);
}

const char *hd_runs_value(const hd_runs *runs, int64_t index, const char *key) {
  char *text = ((hd_runs *)(size_t)runs)->text;
  const run_entry *run = &runs->run[index];
  if (!strcmp(key, "run"))
    return run->folder;
  if (!strcmp(key, "state"))
    return run->end ? json_string_value(json_object_get(run->end, "end")) : "unfinished";
  const json_t *value = find(run, key);
  if (json_is_string(value))
    return json_string_value(value);
  text[0] = 0;
  if (json_is_integer(value))
    snprintf(text, sizeof runs->text, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    snprintf(text, sizeof runs->text, "%.10g", json_real_value(value));
  else if (json_is_boolean(value))
    snprintf(text, sizeof runs->text, "%s", json_is_true(value) ? "true" : "false");
  return text;
}
