/* Writing checkpoints in the background: see saver.h. */
#include "train/checkpoint/saver.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "base/json_text.h"
#include "train/checkpoint/losses.h"
#include "train/checkpoint/saver_hosts.h"

int64_t hd__saver_bytes(const hd_plan *plan) {
  int64_t elems =
      (plan->update.averages ? 2 : 1) * plan->size.param_elems + plan->update.states * plan->size.trained_elems;
  for (const hd_plan_param *p = plan->params; p < plan->params + plan->param_count; p++)
    if (p->c > 1 && p->h * p->w > 1)
      elems += ((plan->update.averages ? 2 : 1) + (p->trained ? plan->update.states : 0)) * p->rows * p->columns;
  return elems * (int64_t)sizeof(float);
}

/* The same, from the directory. */
static int64_t bytes_of(const hd_directory *d) {
  const int versions = d->averages ? 2 : 1;
  int64_t elems = versions * d->param_elems + d->states * d->trained_elems;
  for (const hd_store_entry *entry = d->entry; entry < d->entry + d->entries; entry++)
    if (entry->same_as < 0 && !hd__store_is_in_file_order(entry))
      elems += (versions + (entry->trained ? d->states : 0)) * hd__store_entry_elems(entry);
  return elems * (int64_t)sizeof(float);
}

/* The number of buffers of weights and states. */
static int parts_of(const hd_directory *d) { return 1 + d->states + (d->averages ? 1 : 0); }

static bool is_state(const hd_directory *d, int part) { return part > 0 && part <= d->states; }

static hd_values part_of(const hd_saver *saver, int part) {
  const int64_t offset = hd__tensors_offset(saver->store->directory, part);
  return (hd_values){saver->copy + offset, saver->file + offset, saver->source};
}

hd_status hd__saver_init(hd_saver *saver, hd_ctx *ctx, hd_store *store, const char *run, int keep) {
  *saver = (hd_saver){.store = store, .keep = keep};
  const hd_directory *d = store->directory;
  size_t elems = (size_t)(hd__tensors_offset(d, 1 + d->states) + (d->averages ? d->param_elems : 0));
  snprintf(saver->run, sizeof saver->run, "%s", run);
  saver->bytes = bytes_of(d);
  saver->copy = hd__malloc(elems * sizeof *saver->copy);
  saver->file = hd__malloc(elems * sizeof *saver->file); /* not touched where both orders are the same */
  saver->tensor = hd__calloc((size_t)(d->entries * (HD_MAX_STATES + 1) + HD_COUNTERS), sizeof *saver->tensor);
  if (saver->copy && saver->file && saver->tensor)
    return HD_OK;
  hd__saver_fini(saver);
  return hd__fail(ctx, HD_E_NOMEM, "out of memory for checkpoints");
}

void hd__saver_fini(hd_saver *saver) {
  hd__thread_join(&saver->thread);
  json_decref(saver->record);
  hd__saver_leave_hosts(saver);
  hd__free(saver->copy);
  hd__free(saver->file);
  hd__free(saver->tensor);
  *saver = (hd_saver){0};
}

/* Adds to a message in which run a write failed. */
static hd_status in_run(const hd_saver *saver, hd_ctx *ctx, hd_status status) {
  return status == HD_OK ? HD_OK : hd__fail_in(ctx, status, "%s", saver->run);
}

static hd_status write_model(FILE *to, hd_ctx *ctx, void *arg) {
  hd_saver *saver = arg;
  int count = 0;
  int64_t batches, epochs;
  hd__checkpoint_earlier(&batches, &epochs, saver->record);
  batches += saver->counters.step;
  hd_status status =
      hd__tensors_add_weights(saver->tensor, &count, ctx, saver->store->directory, part_of(saver, 0), &batches);
  HD_THEN(status, hd__st_write(to, ctx, "model.safetensors", saver->tensor, count));
  HD_THEN(status, hd__st_digest(saver->weights_sha256, ctx, &(hd_st_list){.tensor = saver->tensor, .count = count}));
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
    status = hd__tensors_add_state(saver->tensor, &count, ctx, d, part_of(saver, 1 + s), s);
  if (d->averages)
    HD_THEN(status, hd__tensors_add_state(saver->tensor, &count, ctx, d, part_of(saver, 1 + d->states),
                                          hd__tensors_beside_weights(d)));
  HD_THEN(status, hd__st_write(to, ctx, "state.safetensors", saver->tensor, count));
  const hd_st_list states = {.tensor = saver->tensor + HD_COUNTERS, .count = count - HD_COUNTERS};
  HD_THEN(status, hd__st_digest(saver->state_sha256, ctx, &states));
  hd__tensors_free_names(saver->tensor, count);
  return in_run(saver, ctx, status);
}

static hd_status write_record(FILE *to, hd_ctx *ctx, void *arg) {
  const json_t *record = arg;
  if (hd__json_write(to, record, JSON_INDENT(2)) != 0 || fputc('\n', to) == EOF)
    return hd__file_check(ctx, to, "run.json");
  return HD_OK;
}

hd_status hd__checkpoint_write_record(hd_ctx *ctx, const char *folder, json_t *record) {
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, folder, "run.json"));
  return hd__file_write(ctx, path, write_record, record);
}

/* The checksum of a written file, read in blocks: a mapping of it would count as memory of the process. */
static hd_status read_sum(char sum[HD_CHECKSUM_BYTES], hd_ctx *ctx, const char *path) {
  enum { BLOCK_BYTES = 1 << 18 };
  HD_OWNED char *block = hd__malloc(BLOCK_BYTES);
  hd_xxh3 *all = hd__xxh3_create();
  FILE *file = block && all ? fopen(path, "rbe") : NULL;
  size_t length = 0;
  while (file && (length = fread(block, 1, BLOCK_BYTES, file)) > 0)
    hd__xxh3_update(all, block, length);
  const bool is_allocated = block && all, is_whole = file && !ferror(file);
  hd__checksum_text(sum, hd__xxh3_finish(all));
  if (file)
    fclose(file);
  HD_TRY(HD_ALLOCATED(is_allocated, ctx, "out of memory for a checksum"));
  return is_whole ? HD_OK : hd__fail(ctx, HD_E_IO, "%s: cannot read what was just written", path);
}

/* Notes the checksum of a written file under "files" in the record. */
static hd_status note_sum(json_t *record, hd_ctx *ctx, const char *path, const char *name) {
  char sum[HD_CHECKSUM_BYTES];
  HD_TRY(read_sum(sum, ctx, path));
  json_t *entry = json_pack("{s:s}", "xxh3", sum);
  return HD_ALLOCATED(json_object_set_new(json_object_get(record, "files"), name, entry) == 0, ctx,
                      "out of memory while saving");
}

/* Adds the digests of the checkpoint's tensors and of the losses up to its step to the record, under "digests". */
static hd_status note_digests(const hd_saver *saver, hd_ctx *ctx) {
  char losses[HD_SHA256_HEX_BYTES];
  HD_TRY(hd__losses_digest(losses, ctx, saver->run, saver->counters.step));
  json_t *digests =
      json_pack("{s:I, s:s, s:s, s:s*}", "step", (json_int_t)saver->counters.step, "weights_sha256",
                saver->weights_sha256, "state_sha256", saver->state_sha256, "losses_sha256", *losses ? losses : NULL);
  return HD_ALLOCATED(json_object_set_new(saver->record, "digests", digests) == 0, ctx, "out of memory while saving");
}

/* Whether a run writes a file of this name, in its folder or in those of its checkpoints. */
static bool is_written(const char *name) {
  return hd__steps_is_file(name) || hd__steps_names(name) || !strcmp(name, "metrics.jsonl") ||
         !strcmp(name, "losses.bin") || !strcmp(name, "divisors.bin") || !strcmp(name, "wrong.png") ||
         !strcmp(name, "report.html");
}

void hd__saver_remove_leftovers(const char *run) { hd__file_remove_leftovers(run, is_written); }

/* The place of a new checkpoint must be empty or hold a checkpoint. */
static hd_status check_step(hd_ctx *ctx, const char *path) {
  struct stat there;
  if (lstat(path, &there) != 0 || hd__steps_is_whole(path))
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a checkpoint or nothing in its place, found a %s; move that away, or choose another "
                  "folder for the run",
                  path,
                  S_ISDIR(there.st_mode)   ? "folder of another program"
                  : S_ISLNK(there.st_mode) ? "link"
                                           : "file");
}

static bool has_record(const char *path) {
  hd_ctx quiet = {0};
  json_auto_t *record = NULL;
  return hd__checkpoint_record(&record, &quiet, path) == HD_OK;
}

/* Files of a run's names are its own if its record is beside them, or if a run that was killed before its record had
 * written nothing to them. */
static hd_status check_files(hd_ctx *ctx, const char *run) {
  static const char *const name[] = {"run.json",     "metrics.jsonl", "losses.bin", "history.jsonl",
                                     "divisors.bin", "wrong.png",     "report.html"};
  static const double nothing;
  if (hd__steps_linked(run, "last") >= 0 || has_record(run))
    return HD_OK;
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char path[HD_PATH_BYTES];
    HD_MAPPED file = {0};
    hd_ctx quiet = {0};
    HD_TRY(hd__file_join(path, ctx, run, name[i]));
    if (hd__file_map(&file, &quiet, path) == HD_OK && file.length > 0 &&
        memcmp(file.bytes, &nothing, file.length < sizeof nothing ? file.length : sizeof nothing) != 0)
      return hd__fail(
          ctx, HD_E_IO,
          "%s: expected a file of a run or nothing in its place, found a file of another program; move that "
          "away, or choose another folder for the run",
          path);
  }
  return HD_OK;
}

hd_status hd__saver_check_run(hd_ctx *ctx, const char *run, int64_t first) {
  char path[HD_PATH_BYTES];
  int64_t step;
  HD_FOLDER_OWNED *folder = opendir(run);
  struct dirent *entry;
  if (!folder && errno != ENOENT)
    return hd__file_error(ctx, run, "read the folder");
  HD_TRY(check_files(ctx, run));
  while (folder && (entry = readdir(folder))) {
    const bool is_step = hd__steps_parse(&step, entry->d_name);
    if (is_step ? step < first : !hd__steps_names(entry->d_name))
      continue;
    HD_TRY(hd__file_join(path, ctx, run, entry->d_name));
    HD_TRY(is_step ? check_step(ctx, path) : hd__file_check_place(ctx, path, true));
  }
  return HD_OK;
}

/* Removes checkpoints beyond the newest `keep`, except those that `last` and `best` name. */
static void prune(const hd_saver *saver) {
  char path[HD_PATH_BYTES];
  const int64_t best = hd__steps_linked(saver->run, "best"), last = hd__steps_linked(saver->run, "last");
  int count, left;
  int64_t *steps = hd__steps_list(&count, saver->run);
  left = count;
  for (int i = 0; i < count && left > saver->keep; i++) {
    if (steps[i] == best || steps[i] == last || hd__steps_path(path, NULL, saver->run, steps[i]) != HD_OK)
      continue;
    if (has_record(path))
      hd__file_retire_folder(path);
    left--;
  }
  hd__free(steps);
}

static hd_status write_files(hd_saver *saver, hd_ctx *ctx, const char *folder) {
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, folder, "model.safetensors"));
  HD_TRY(hd__file_write(ctx, path, write_model, saver));
  HD_TRY(note_sum(saver->record, ctx, path, "model.safetensors"));
  HD_TRY(hd__file_join(path, ctx, folder, "state.safetensors"));
  HD_TRY(hd__file_write(ctx, path, write_state, saver));
  HD_TRY(note_sum(saver->record, ctx, path, "state.safetensors"));
  HD_TRY(note_digests(saver, ctx));
  return in_run(saver, ctx, hd__checkpoint_write_record(ctx, folder, saver->record));
}

static hd_status write_checkpoint(hd_saver *saver, hd_ctx *ctx) {
  char path[HD_PATH_BYTES], temporary[HD_PATH_BYTES];
  HD_TRY(hd__steps_path(path, ctx, saver->run, saver->counters.step));
  HD_TRY(check_step(ctx, path));
  HD_TRY(hd__file_folder_begin(temporary, ctx, path));
  hd_status status = write_files(saver, ctx, temporary);
  HD_THEN(status, hd__file_folder_commit(ctx, temporary, path));
  if (status != HD_OK) {
    hd__steps_remove(temporary);
    return status;
  }
  HD_TRY(hd__steps_link(ctx, saver->run, "last", saver->counters.step));
  HD_TRY(hd__checkpoint_write_record(ctx, saver->run, saver->record));
  HD_LOG(SAVE, "step %lld is in %s", (long long)saver->counters.step, path);
  if (!saver->counters.owes_evaluation)
    prune(saver);
  return HD_OK;
}

hd_status hd__saver_settle(hd_saver *saver, hd_ctx *ctx, int64_t step, bool is_best) {
  if (is_best)
    HD_TRY(hd__steps_link(ctx, saver->run, "best", step));
  prune(saver);
  return HD_OK;
}

hd_status hd__saver_amend(hd_saver *saver, hd_ctx *ctx, json_t *record, const char *key) {
  if (!saver->record) /* nothing was saved yet */
    saver->record = json_copy(record);
  if (!saver->record || json_object_set(saver->record, key, json_object_get(record, key)) != 0)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the run's record");
  return hd__checkpoint_write_record(ctx, saver->run, saver->record);
}

static void *writer(void *arg) {
  hd_saver *saver = arg;
  int64_t began_ns = hd__clock_ns();
  hd__log_thread("saver", -1);
  const hd_directory *d = saver->store->directory;
  for (int part = 0; part < parts_of(d); part++)
    hd__tensors_order(saver->file + hd__tensors_offset(d, part), saver->copy + hd__tensors_offset(d, part), d,
                      is_state(d, part), saver->source);
  saver->status = saver->hosts && !*saver->run ? hd__saver_serve(saver) : write_checkpoint(saver, &saver->ctx);
  if (saver->hosts && *saver->run)
    hd__saver_dismiss(saver);
  HD_LOG(SAVE, "step %lld: %s after %.3f ms", (long long)saver->counters.step,
         saver->status == HD_OK ? "saved" : saver->ctx.message, 1e-6 * (double)(hd__clock_ns() - began_ns));
  hd__trace_event(saver->track, HD_SLICE_WRITE, 0, began_ns);
  atomic_store(&saver->has_ended, true);
  return NULL;
}

bool hd__saver_has_ended(const hd_saver *saver) {
  return !hd__thread_is_here(&saver->thread) || atomic_load(&saver->has_ended);
}

bool hd__saver_has_failed(const hd_saver *saver) {
  return hd__thread_is_here(&saver->thread) && atomic_load(&saver->has_ended) && saver->status != HD_OK;
}

hd_status hd__saver_wait(hd_saver *saver, hd_ctx *ctx) {
  if (!hd__thread_is_here(&saver->thread)) /* none, or the parent's */
    return HD_OK;
  hd__thread_join(&saver->thread);
  return saver->status == HD_OK ? HD_OK : hd__fail(ctx, saver->status, "%s", saver->ctx.message);
}

/* Copies the entries that are here. */
static void copy_part(hd_saver *saver, int part, const float *from) {
  const hd_directory *d = saver->store->directory;
  float *to = saver->copy + hd__tensors_offset(d, part);
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    if (entry->same_as < 0 && (entry->trained || !is_state(d, part)) && !(saver->source && saver->source[p]))
      memcpy(to + entry->offset, from + entry->offset, (size_t)hd__store_entry_elems(entry) * sizeof *to);
  }
}

hd_status hd__saver_begin(hd_saver *saver, hd_ctx *ctx, const hd_counters *counters, json_t *record) {
  HD_TRY(hd__saver_wait(saver, ctx));
  const hd_store *store = saver->store;
  const hd_directory *d = store->directory;
  int buffer = hd__store_buffer(store);
  copy_part(saver, 0, hd__store_result(store));
  for (int s = 0; s < d->states; s++)
    copy_part(saver, 1 + s, store->state[buffer][s]);
  if (d->averages)
    copy_part(saver, 1 + d->states, hd__store_beside(store));
  json_decref(saver->record);
  saver->record = record ? json_copy(record) : json_object();
  if (!saver->record || json_object_set_new(saver->record, "files", json_object()) != 0)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while saving");
  if (counters)
    saver->counters = *counters;
  HD_LOG(SAVE, "step %lld copied", (long long)saver->counters.step);
  atomic_store(&saver->has_ended, false);
  int failed = hd__thread_start(&saver->thread, writer, saver);
  if (failed)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot start a thread to write the checkpoint: %s; raise the limit on processes",
                    strerror(failed));
  return HD_OK;
}
