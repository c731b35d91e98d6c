/* Writing and reading checkpoints; see checkpoint.h. */
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/number.h"

static const char *state_name(hd_op update, int state) {
  if (update == HD_OP_sgd)
    return "momentum_buffer";
  return state == 0 ? "exp_avg" : "exp_avg_sq";
}

static const char MEAN[] = ".running_mean", BATCHES[] = ".num_batches_tracked";

static bool ends_in(const char *name, const char *end) {
  size_t length = strlen(name), tail = strlen(end);
  return length >= tail && !strcmp(name + length - tail, end);
}

static hd_status add_tensor(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_st_tensor *what, char *name) {
  if (!name)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while saving");
  tensor[*count] = *what;
  tensor[(*count)++].name = name;
  return HD_OK;
}

/* Adds the weights in `ordered` (file order, entries at their offsets), further names of theirs, and to running statistics
 * the number of batches that they have seen, which PyTorch keeps beside them. */
static hd_status describe_weights(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                  const float *ordered, const int64_t *batches) {
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    hd_st_tensor values = {.type = HD_ST_F32,
                           .shape = entry->shape,
                           .bytes = ordered + entry->offset,
                           .length = (size_t)hd__store_entry_elems(entry) * sizeof *ordered,
                           .same_as = entry->same_as < 0 ? NULL : d->entry[entry->same_as].name};
    HD_TRY(add_tensor(tensor, count, ctx, &values, hd__strdup(entry->name)));
    if (!entry->running || !ends_in(entry->name, MEAN))
      continue;
    hd_st_tensor seen = {.type = HD_ST_I64, .bytes = batches, .length = sizeof *batches};
    int layer = (int)(strlen(entry->name) - strlen(MEAN));
    HD_TRY(add_tensor(tensor, count, ctx, &seen, hd__printf_alloc("%.*s%s", layer, entry->name, BATCHES)));
  }
  return HD_OK;
}

/* Adds one optimizer state; what is not trained has none. */
static hd_status describe_state(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                const float *ordered, const char *suffix) {
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    hd_st_tensor values = {.type = HD_ST_F32,
                           .shape = entry->shape,
                           .bytes = ordered + entry->offset,
                           .length = (size_t)hd__store_entry_elems(entry) * sizeof *ordered};
    if (entry->trained)
      HD_TRY(add_tensor(tensor, count, ctx, &values, hd__printf_alloc("%s.%s", entry->name, suffix)));
  }
  return HD_OK;
}

static void free_names(hd_st_tensor *tensor, int count) {
  for (int i = 0; i < count; i++) {
    hd__free(tensor[i].name);
    tensor[i].name = NULL;
  }
}

static void order_all(float *ordered, const float *home, const hd_directory *d, bool state) {
  for (int p = 0; p < d->entries; p++)
    if (d->entry[p].same_as < 0 && (d->entry[p].trained || !state))
      hd__store_to_file_order(ordered + d->entry[p].offset, home + d->entry[p].offset, &d->entry[p]);
}

/* Where the weights (0) and the states (from 1 up) of a saved version start. */
static int64_t part_offset(const hd_directory *d, int part) {
  return part == 0 ? 0 : d->param_elems + (part - 1) * d->trained_elems;
}

/* The counters as scalars of state.safetensors. */
enum { COUNTERS = 6 };

typedef struct counter {
  const char *name;
  hd_st_type type;
  size_t offset;
} counter;

static const counter counter_table[COUNTERS] = {
    {"step", HD_ST_I64, offsetof(hd_counters, step)},
    {"epoch_loss_sum", HD_ST_F64, offsetof(hd_counters, epoch_loss_sum)},
    {"epoch_divisor", HD_ST_F64, offsetof(hd_counters, epoch_divisor)},
    {"best_score", HD_ST_F64, offsetof(hd_counters, best_score)},
    {"stale_epochs", HD_ST_I64, offsetof(hd_counters, stale_epochs)},
    {"best_loss", HD_ST_F64, offsetof(hd_counters, best_loss)},
};

hd_status hd__checkpoint_digest(char hex[65], hd_ctx *ctx, const hd_store *store) {
  const hd_directory *d = store->directory;
  float *ordered = hd__malloc((size_t)d->param_elems * sizeof *ordered);
  hd_st_tensor *tensor = hd__calloc((size_t)d->entries * 2, sizeof *tensor);
  int64_t batches = (int64_t)d->version;
  int count = 0;
  hd_status status = HD_E_NOMEM;
  if (!ordered || !tensor) {
    hd__fail(ctx, status, "out of memory for the digest");
    goto out;
  }
  order_all(ordered, store->weights[hd__store_half(store)], d, false);
  status = describe_weights(tensor, &count, ctx, d, ordered, &batches);
  if (status == HD_OK)
    status = hd__st_digest(hex, ctx, &(hd_st_list){tensor, count});
out:
  if (tensor)
    free_names(tensor, count);
  hd__free(tensor);
  hd__free(ordered);
  return status;
}

int64_t hd__saver_bytes(const hd_plan *plan, int states) {
  return 2 * (plan->param_elems + states * plan->trained_elems) * (int64_t)sizeof(float);
}

hd_status hd__saver_init(hd_saver *saver, hd_ctx *ctx, hd_store *store, hd_op update, const char *run, int keep) {
  *saver = (hd_saver){.store = store, .update = update, .keep = keep};
  const hd_directory *d = store->directory;
  size_t elems = (size_t)part_offset(d, 1 + d->states);
  snprintf(saver->run, sizeof saver->run, "%s", run);
  saver->bytes = (int64_t)(2 * elems * sizeof *saver->copy);
  saver->copy = hd__malloc(elems * sizeof *saver->copy);
  saver->ordered = hd__calloc(elems, sizeof *saver->ordered);
  saver->tensor = hd__calloc((size_t)(d->entries * HD_MAX_STATES + COUNTERS), sizeof *saver->tensor);
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
  hd_status status =
      describe_weights(saver->tensor, &count, ctx, saver->store->directory, saver->ordered, &saver->counters.step);
  if (status == HD_OK)
    status = hd__st_write(to, ctx, "model.safetensors", saver->tensor, count);
  free_names(saver->tensor, count);
  return in_run(saver, ctx, status);
}

static hd_status write_state(FILE *to, hd_ctx *ctx, void *arg) {
  hd_saver *saver = arg;
  const hd_directory *d = saver->store->directory;
  int count = 0;
  hd_status status = HD_OK;
  for (int i = 0; i < COUNTERS && status == HD_OK; i++) {
    hd_st_tensor scalar = {.type = counter_table[i].type,
                           .shape = {1, {1}},
                           .bytes = (const char *)&saver->counters + counter_table[i].offset,
                           .length = 8};
    status = add_tensor(saver->tensor, &count, ctx, &scalar, hd__strdup(counter_table[i].name));
  }
  for (int s = 0; s < d->states && status == HD_OK; s++)
    status = describe_state(saver->tensor, &count, ctx, d, saver->ordered + part_offset(d, 1 + s),
                            state_name(saver->update, s));
  if (status == HD_OK)
    status = hd__st_write(to, ctx, "state.safetensors", saver->tensor, count);
  free_names(saver->tensor, count);
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

enum { SUM_TEXT_BYTES = 17 };

static void sum_text(char text[SUM_TEXT_BYTES], const hd_mapping *file) {
  snprintf(text, SUM_TEXT_BYTES, "%016llx", (unsigned long long)hd__xxh3(file->bytes, file->length));
}

/* Notes the checksum of a written file under "files" in the record. */
static hd_status note_sum(json_t *record, hd_ctx *ctx, const char *path, const char *name) {
  hd_mapping file;
  char sum[SUM_TEXT_BYTES];
  HD_TRY(hd__file_map(&file, ctx, path));
  sum_text(sum, &file);
  hd__file_unmap(&file);
  if (json_object_set_new(json_object_get(record, "files"), name, json_pack("{s:s}", "xxh3", sum)) != 0)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while saving");
  return HD_OK;
}

/* A file must be the one that was saved. */
static hd_status check_sum(hd_ctx *ctx, const json_t *record, const hd_mapping *file, const char *path) {
  const char *slash = strrchr(path, '/');
  const json_t *entry = json_object_get(json_object_get(record, "files"), slash ? slash + 1 : path);
  const char *expected = json_string_value(json_object_get(entry, "xxh3"));
  char found[SUM_TEXT_BYTES];
  sum_text(found, file);
  if (expected && !strcmp(expected, found))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected the checksum that run.json has for it, %s, found %s; the checkpoint is damaged, use "
                  "another",
                  path, expected ? expected : "none", found);
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
      if (strncmp(entry->d_name, "step-", 5) || !hd__parse_int64(&step, entry->d_name + 5))
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
  const hd_directory *d = saver->store->directory;
  for (int s = 0; s <= d->states; s++)
    order_all(saver->ordered + part_offset(d, s), saver->copy + part_offset(d, s), d, s > 0);
  saver->status = write_checkpoint(saver, &saver->ctx);
  return NULL;
}

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
    memcpy(saver->copy + part_offset(d, 1 + s), store->state[half][s], (size_t)d->trained_elems * sizeof(float));
  json_decref(saver->record);
  saver->record = json_copy(record);
  if (!saver->record || json_object_set_new(saver->record, "files", json_object()) != 0)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while saving");
  saver->counters = *counters;
  saver->is_best = is_best;
  int failed = pthread_create(&saver->thread, NULL, writer, saver);
  if (failed)
    return hd__fail(ctx, HD_E_SYSTEM,
                    "expected a thread to write the checkpoint, found: %s; raise the limit on processes",
                    strerror(failed));
  saver->busy = true;
  return HD_OK;
}

/* Follows `last` and `best` once, so that all files read are of one checkpoint even if a run moves its links meanwhile. */
static void follow_link(char path[HD_PATH_BYTES]) {
  char target[256];
  ssize_t length = readlink(path, target, sizeof target);
  char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t room = HD_PATH_BYTES - (size_t)(name - path);
  if (length > 0 && length < (ssize_t)sizeof target && (size_t)length < room && !memchr(target, '/', (size_t)length))
    snprintf(name, room, "%.*s", (int)length, target);
}

/* Whether a folder holds a checkpoint; its path then names the folder itself. */
static bool is_checkpoint(char folder[HD_PATH_BYTES], hd_ctx *ctx) {
  char file[HD_PATH_BYTES];
  if (hd__file_join(file, ctx, folder, "model.safetensors") != HD_OK || !hd__file_exists(file))
    return false;
  follow_link(folder);
  return true;
}

hd_status hd__checkpoint_find(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *path) {
  HD_TRY(hd__file_join(out, ctx, path, ""));
  for (size_t length = strlen(out); length > 1 && out[length - 1] == '/'; length--)
    out[length - 1] = 0;
  if (is_checkpoint(out, ctx))
    return HD_OK;
  HD_TRY(hd__file_join(out, ctx, path, "last"));
  if (is_checkpoint(out, ctx))
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a checkpoint (a folder with model.safetensors, or a run's folder with 'last'), found "
                  "none; check the path",
                  path);
}

/* An object of settings as texts, and the model's description. */
static bool is_record(const json_t *record) {
  json_t *settings = json_object_get(record, "settings"), *value;
  const char *name;
  json_object_foreach(settings, name, value) {
    if (!json_is_string(value))
      return false;
  }
  return json_is_object(settings) && json_is_string(json_object_get(record, "model_yaml"));
}

hd_status hd__checkpoint_record(json_t **out, hd_ctx *ctx, const char *folder) {
  char path[HD_PATH_BYTES];
  hd_mapping file;
  json_error_t error;
  HD_TRY(hd__file_join(path, ctx, folder, "run.json"));
  HD_TRY(hd__file_map(&file, ctx, path));
  *out = json_loadb((const char *)file.bytes, file.length, JSON_REJECT_DUPLICATES, &error);
  hd__file_unmap(&file);
  if (*out && is_record(*out))
    return HD_OK;
  int parsed = *out != NULL;
  json_decref(*out);
  *out = NULL;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:%d: expected the record of a run, found %s; the checkpoint is damaged, use another", path,
                  parsed ? 1 : error.line, parsed ? "other JSON" : error.text);
}

static hd_status load_entry(float *home, float *scratch, hd_ctx *ctx, const char *path, const hd_st_list *list,
                            const hd_store_entry *entry, const char *name) {
  const hd_st_tensor *t = hd__st_find(list, name);
  char expected[HD_SHAPE_TEXT_BYTES], found[HD_SHAPE_TEXT_BYTES];
  hd__shape_text(expected, sizeof expected, &entry->shape);
  if (!t)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected a tensor '%s' of shape %s, found none; does the file belong to this model?", path,
                    name, expected);
  if (t->type != HD_ST_F32 || !hd__shape_equal(&t->shape, &entry->shape))
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected tensor '%s' as F32 of shape %s, found %s of shape %s; does the file belong to this model?", path,
        name, expected, hd__st_type_text(t->type), hd__shape_text(found, sizeof found, &t->shape));
  memcpy(scratch, t->bytes, t->length);
  hd__store_from_file_order(home + entry->offset, scratch, entry);
  return HD_OK;
}

/* One more name of an entry's memory: files of PyTorch may hold both, and then the same. */
static hd_status check_alias(hd_ctx *ctx, const char *path, const hd_st_list *list, const hd_store_entry *alias,
                             const char *name) {
  const hd_st_tensor *a = hd__st_find(list, alias->name), *b = hd__st_find(list, name);
  if (!a || (a->length == b->length && !memcmp(a->bytes, b->bytes, a->length)))
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s: expected '%s' to be the same as '%s', with which this model shares it, found other values; leave one "
      "out",
      path, alias->name, name);
}

static hd_status load_entries(float *home, hd_ctx *ctx, const char *path, const hd_st_list *list, const hd_directory *d,
                              const char *suffix) {
  float *scratch = hd__malloc((size_t)d->param_elems * sizeof *scratch);
  hd_status status = scratch ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "%s: out of memory while loading", path);
  for (int p = 0; p < d->entries && status == HD_OK; p++) {
    char name[HD_NAME_BYTES + 32];
    const hd_store_entry *entry = &d->entry[p];
    if (suffix && !entry->trained)
      continue;
    snprintf(name, sizeof name, "%s%s%s", entry->name, suffix ? "." : "", suffix ? suffix : "");
    status = entry->same_as < 0 ? load_entry(home, scratch, ctx, path, list, entry, name)
                                : check_alias(ctx, path, list, entry, d->entry[entry->same_as].name);
  }
  hd__free(scratch);
  return status;
}

bool hd__checkpoint_holds(const hd_st_tensor *tensor) {
  return tensor->type == HD_ST_F32 || (tensor->type == HD_ST_I64 && ends_in(tensor->name, BATCHES));
}

/* The file's tensors less the model's parameters, by number. Further names count on neither side; nor does what PyTorch
 * counts beside running statistics, which follows from the step. */
static int surplus(const hd_st_list *list, const hd_directory *d) {
  int count = 0;
  for (int i = 0; i < list->count; i++)
    count += !ends_in(list->tensor[i].name, BATCHES);
  for (int p = 0; p < d->entries; p++)
    count -= d->entry[p].same_as < 0 || hd__st_find(list, d->entry[p].name);
  return count;
}

hd_status hd__checkpoint_load_weights(hd_store *store, hd_ctx *ctx, const char *path, const json_t *record) {
  hd_mapping file;
  hd_st_list list;
  HD_TRY(hd__file_map(&file, ctx, path));
  hd_status status = hd__st_parse(&list, ctx, path, file.bytes, file.length);
  if (status == HD_OK) {
    const hd_directory *d = store->directory;
    int more = surplus(&list, d);
    if (more != 0)
      status = hd__fail(ctx, HD_E_FORMAT, "%s: expected %d tensors, found %d; does the file belong to this model?",
                        path, list.count - more, list.count);
    if (status == HD_OK)
      status = load_entries(store->weights[hd__store_half(store)], ctx, path, &list, d, NULL);
    if (status == HD_OK && record)
      status = check_sum(ctx, record, &file, path);
    hd__st_fini(&list);
  }
  hd__file_unmap(&file);
  return status;
}

static hd_status load_counters(hd_counters *out, hd_ctx *ctx, const char *path, const hd_st_list *list) {
  for (int i = 0; i < COUNTERS; i++) {
    const hd_st_tensor *t = hd__st_find(list, counter_table[i].name);
    if (!t || t->type != counter_table[i].type || t->length != 8)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected the counter '%s', found none; the checkpoint is damaged, use another", path,
                      counter_table[i].name);
    memcpy((char *)out + counter_table[i].offset, t->bytes, 8);
  }
  if (out->step >= 0 && out->epoch_divisor >= 0 && out->stale_epochs >= 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected counters from 0 up, found step %lld; the checkpoint is damaged, use another", path,
                  (long long)out->step);
}

static hd_status load_state(hd_store *store, hd_counters *c, hd_ctx *ctx, hd_op update, const char *path,
                            const hd_st_list *list) {
  HD_TRY(load_counters(c, ctx, path, list));
  hd__store_set_version(store, (uint64_t)c->step);
  for (int s = 0; s < store->directory->states; s++)
    HD_TRY(
        load_entries(store->state[hd__store_half(store)][s], ctx, path, list, store->directory, state_name(update, s)));
  return HD_OK;
}

hd_status hd__checkpoint_load_state(hd_store *store, hd_counters *counters, hd_ctx *ctx, hd_op update,
                                    const char *folder, const json_t *record) {
  char path[HD_PATH_BYTES];
  hd_mapping file;
  hd_st_list list;
  HD_TRY(hd__file_join(path, ctx, folder, "state.safetensors"));
  HD_TRY(hd__file_map(&file, ctx, path));
  hd_status status = hd__st_parse(&list, ctx, path, file.bytes, file.length);
  if (status == HD_OK) {
    status = load_state(store, counters, ctx, update, path, &list);
    if (status == HD_OK)
      status = check_sum(ctx, record, &file, path);
    hd__st_fini(&list);
  }
  hd__file_unmap(&file);
  return status;
}
