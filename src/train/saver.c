/* Writing checkpoints in the background: see saver.h. */
#include "train/saver.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/number.h"

int64_t hd__saver_bytes(const hd_plan *plan, int states) {
  return 2 * (plan->param_elems + states * plan->trained_elems) * (int64_t)sizeof(float);
}

hd_status hd__saver_init(hd_saver *saver, hd_ctx *ctx, hd_store *store, hd_op update, const char *run, int keep) {
  *saver = (hd_saver){.store = store, .update = update, .keep = keep};
  const hd_directory *d = store->directory;
  size_t elems = (size_t)hd__tensors_part(d, 1 + d->states);
  snprintf(saver->run, sizeof saver->run, "%s", run);
  saver->bytes = (int64_t)(2 * elems * sizeof *saver->copy);
  saver->copy = hd__malloc(elems * sizeof *saver->copy);
  saver->ordered = hd__calloc(elems, sizeof *saver->ordered);
  saver->tensor = hd__calloc((size_t)(d->entries * HD_MAX_STATES + HD_COUNTERS), sizeof *saver->tensor);
  if (saver->copy && saver->ordered && saver->tensor)
    return HD_OK;
  hd__saver_fini(saver);
  return hd__fail(ctx, HD_E_NOMEM, "out of memory for checkpoints");
}

void hd__saver_fini(hd_saver *saver) {
  if (saver->busy)
    pthread_join(saver->thread, NULL);
  json_decref(saver->record);
  hd__free(saver->copy);
  hd__free(saver->ordered);
  hd__free(saver->tensor);
  *saver = (hd_saver){0};
}

/* Says in which run a write failed. */
static hd_status in_run(const hd_saver *saver, hd_ctx *ctx, hd_status status) {
  return status == HD_OK ? HD_OK : hd__fail_in(ctx, status, "%s", saver->run);
}

static hd_status write_model(FILE *to, hd_ctx *ctx, void *arg) {
  hd_saver *saver = arg;
  int count = 0;
  hd_status status = hd__tensors_add_weights(saver->tensor, &count, ctx, saver->store->directory, saver->ordered,
                                             &saver->counters.step);
  if (status == HD_OK)
    status = hd__st_write(to, ctx, "model.safetensors", saver->tensor, count);
  hd__tensors_free_names(saver->tensor, count);
  return in_run(saver, ctx, status);
}

static hd_status write_state(FILE *to, hd_ctx *ctx, void *arg) {
  hd_saver *saver = arg;
  const hd_directory *d = saver->store->directory;
  int count = 0;
  hd_status status = HD_OK;
  for (int i = 0; i < HD_COUNTERS && status == HD_OK; i++) {
    hd_st_tensor scalar = {.type = hd__counter_table[i].type,
                           .shape = {1, {1}},
                           .bytes = (const char *)&saver->counters + hd__counter_table[i].offset,
                           .length = 8};
    status = hd__tensors_add(saver->tensor, &count, ctx, &scalar, hd__strdup(hd__counter_table[i].name));
  }
  for (int s = 0; s < d->states && status == HD_OK; s++)
    status = hd__tensors_add_state(saver->tensor, &count, ctx, d, saver->ordered + hd__tensors_part(d, 1 + s),
                                   hd__tensors_state_name(saver->update, s));
  if (status == HD_OK)
    status = hd__st_write(to, ctx, "state.safetensors", saver->tensor, count);
  hd__tensors_free_names(saver->tensor, count);
  return in_run(saver, ctx, status);
}

static hd_status write_record(FILE *to, hd_ctx *ctx, void *arg) {
  const json_t *record = arg;
  if (json_dumpf(record, to, JSON_INDENT(2)) != 0 || fputc('\n', to) == EOF)
    return hd__file_check(ctx, to, "run.json");
  return HD_OK;
}

hd_status hd__checkpoint_announce(hd_ctx *ctx, const char *folder, json_t *record) {
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, folder, "run.json"));
  return hd__file_write(ctx, path, write_record, record);
}

/* Notes the checksum of a written file under "files" in the record. */
static hd_status note_sum(json_t *record, hd_ctx *ctx, const char *path, const char *name) {
  hd_mapping file;
  char sum[HD_CHECKSUM_BYTES];
  HD_TRY(hd__file_map(&file, ctx, path));
  hd__checksum_text(sum, &file);
  hd__file_unmap(&file);
  if (json_object_set_new(json_object_get(record, "files"), name, json_pack("{s:s}", "xxh3", sum)) != 0)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while saving");
  return HD_OK;
}

bool hd__saver_is_step(int64_t *step, const char *name) {
  char own[48];
  if (strncmp(name, "step-", 5) || !hd__parse_int64(step, name + 5))
    return false;
  snprintf(own, sizeof own, "step-%lld", (long long)*step);
  return !strcmp(own, name);
}

/* A name that checkpoints of any step are saved under: theirs, or a link to one of them. */
static bool is_ours(bool *is_link, const char *name) {
  int64_t step;
  *is_link = !strcmp(name, "last") || !strcmp(name, "best");
  return *is_link || hd__saver_is_step(&step, name);
}

hd_status hd__saver_check_run(hd_ctx *ctx, const char *run) {
  char path[HD_PATH_BYTES];
  bool is_link;
  hd_status status = HD_OK;
  DIR *folder = opendir(run);
  struct dirent *entry;
  while (folder && status == HD_OK && (entry = readdir(folder))) {
    if (!is_ours(&is_link, entry->d_name))
      continue;
    status = hd__file_join(path, ctx, run, entry->d_name);
    if (status == HD_OK)
      status = hd__file_check_place(ctx, path, is_link);
  }
  if (folder)
    closedir(folder);
  return status;
}

/* Removes checkpoints beyond the newest `keep`, never what `last` and `best` name. */
static void prune(const hd_saver *saver) {
  char best[256] = "", last[256] = "", path[HD_PATH_BYTES + 32];
  snprintf(path, sizeof path, "%s/best", saver->run);
  if (readlink(path, best, sizeof best - 1) < 0)
    best[0] = 0;
  snprintf(path, sizeof path, "%s/last", saver->run);
  if (readlink(path, last, sizeof last - 1) < 0)
    last[0] = 0;
  for (;;) {
    DIR *folder = opendir(saver->run);
    int64_t oldest = INT64_MAX, step;
    int found = 0;
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
      if (!hd__saver_is_step(&step, entry->d_name))
        continue;
      found++;
      if (strcmp(entry->d_name, best) && strcmp(entry->d_name, last) && step < oldest)
        oldest = step;
    }
    if (folder)
      closedir(folder);
    if (found <= saver->keep || oldest == INT64_MAX)
      return;
    snprintf(path, sizeof path, "%s/step-%lld", saver->run, (long long)oldest);
    hd__file_remove_folder(path);
    if (hd__file_exists(path))
      return;
  }
}

static hd_status write_files(hd_saver *saver, hd_ctx *ctx, const char *folder) {
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, folder, "model.safetensors"));
  HD_TRY(hd__file_write(ctx, path, write_model, saver));
  HD_TRY(note_sum(saver->record, ctx, path, "model.safetensors"));
  HD_TRY(hd__file_join(path, ctx, folder, "state.safetensors"));
  HD_TRY(hd__file_write(ctx, path, write_state, saver));
  HD_TRY(note_sum(saver->record, ctx, path, "state.safetensors"));
  return in_run(saver, ctx, hd__checkpoint_announce(ctx, folder, saver->record));
}

static hd_status write_checkpoint(hd_saver *saver, hd_ctx *ctx) {
  char name[48], path[HD_PATH_BYTES], temporary[HD_PATH_BYTES], link[HD_PATH_BYTES];
  snprintf(name, sizeof name, "step-%lld", (long long)saver->counters.step);
  HD_TRY(hd__file_join(path, ctx, saver->run, name));
  HD_TRY(hd__file_folder_begin(temporary, ctx, path));
  hd_status status = write_files(saver, ctx, temporary);
  if (status == HD_OK)
    status = hd__file_folder_commit(ctx, temporary, path);
  if (status != HD_OK) {
    hd__file_remove_folder(temporary);
    return status;
  }
  HD_TRY(hd__file_join(link, ctx, saver->run, "last"));
  HD_TRY(hd__file_link(ctx, name, link));
  HD_TRY(hd__file_join(link, ctx, saver->run, "best"));
  if (saver->is_best)
    HD_TRY(hd__file_link(ctx, name, link));
  HD_TRY(hd__checkpoint_announce(ctx, saver->run, saver->record));
  prune(saver);
  return HD_OK;
}

static void *writer(void *arg) {
  hd_saver *saver = arg;
  int64_t began_ns = hd__clock_ns();
  const hd_directory *d = saver->store->directory;
  for (int s = 0; s <= d->states; s++)
    hd__tensors_order(saver->ordered + hd__tensors_part(d, s), saver->copy + hd__tensors_part(d, s), d, s > 0);
  saver->status = write_checkpoint(saver, &saver->ctx);
  hd__trace_event(saver->track, HD_SLICE_WRITE, 0, began_ns);
  atomic_store(&saver->has_ended, true);
  return NULL;
}

bool hd__saver_has_ended(const hd_saver *saver) { return !saver->busy || atomic_load(&saver->has_ended); }

hd_status hd__saver_wait(hd_saver *saver, hd_ctx *ctx) {
  if (!saver->busy)
    return HD_OK;
  pthread_join(saver->thread, NULL);
  saver->busy = false;
  return saver->status == HD_OK ? HD_OK : hd__fail(ctx, saver->status, "%s", saver->ctx.message);
}

hd_status hd__saver_begin(hd_saver *saver, hd_ctx *ctx, const hd_counters *counters, json_t *record, bool is_best) {
  HD_TRY(hd__saver_wait(saver, ctx));
  const hd_store *store = saver->store;
  const hd_directory *d = store->directory;
  int half = hd__store_half(store);
  memcpy(saver->copy, store->weights[half], (size_t)d->param_elems * sizeof(float));
  for (int s = 0; s < d->states; s++)
    memcpy(saver->copy + hd__tensors_part(d, 1 + s), store->state[half][s], (size_t)d->trained_elems * sizeof(float));
  json_decref(saver->record);
  saver->record = json_copy(record);
  if (!saver->record || json_object_set_new(saver->record, "files", json_object()) != 0)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while saving");
  saver->counters = *counters;
  saver->is_best = is_best;
  atomic_store(&saver->has_ended, false);
  int failed = pthread_create(&saver->thread, NULL, writer, saver);
  if (failed)
    return hd__fail(ctx, HD_E_SYSTEM,
                    "expected a thread to write the checkpoint, found: %s; raise the limit on processes",
                    strerror(failed));
  saver->busy = true;
  return HD_OK;
}
