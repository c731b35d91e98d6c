/* Finding and reading checkpoints, and the names of their tensors: see checkpoint.h. */
#include "train/checkpoint/checkpoint.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/version.h"
#include "onnx/onnx.h"
#include "train/checkpoint/gpt_names.h"
#include "train/checkpoint/step_folders.h"

/* A file must have the checksum that the record states. */
static hd_status check_sum(hd_ctx *ctx, const json_t *record, const hd_mapping *file, const char *path) {
  const char *slash = strrchr(path, '/');
  const json_t *entry = json_object_get(json_object_get(record, "files"), slash ? slash + 1 : path);
  const char *expected = json_string_value(json_object_get(entry, "xxh3"));
  char found[HD_CHECKSUM_BYTES];
  hd__checksum_text(found, hd__xxh3(file->bytes, file->length));
  if (expected && !strcmp(expected, found))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected the checksum in run.json, %s, found %s; the checkpoint is damaged, use another", path,
                  expected ? expected : "none", found);
}

/* Follows `last` and `best` once, so that all files read belong to one checkpoint even if a run moves its links
 * meanwhile. */
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

/* A copy of a run may lack its links, and a link its checkpoint; then the newest one is named. */
static hd_status check_link(hd_ctx *ctx, const char *run) {
  const int64_t newest = hd__steps_newest(run);
  if (newest < 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected 'last' to lead to a checkpoint, found that it is missing or does not; use the newest "
                  "checkpoint that is there, %s/step-%lld",
                  run, run, (long long)newest);
}

hd_status hd__checkpoint_check_begun(hd_ctx *ctx, const char *run) {
  char record[HD_PATH_BYTES], losses[HD_PATH_BYTES], last[HD_PATH_BYTES];
  struct stat link;
  HD_TRY(hd__file_join(record, ctx, run, "run.json"));
  HD_TRY(hd__file_join(losses, ctx, run, "losses.bin"));
  HD_TRY(hd__file_join(last, ctx, run, "last"));
  if (!hd__file_exists(record) || !hd__file_exists(losses) || lstat(last, &link) == 0)
    return HD_OK;
  if (hd__steps_newest(run) >= 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a checkpoint, found a run that has saved no checkpoint; "
                  "start it again with the same command and --out %s",
                  run, run);
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
  HD_TRY(check_link(ctx, path));
  HD_TRY(hd__checkpoint_check_begun(ctx, path));
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a checkpoint (a folder with model.safetensors, or a run's folder with 'last'), found "
                  "none; check the path",
                  path);
}

/* A record is an object with settings as texts and the model's description. */
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
  HD_MAPPED file = {0};
  json_error_t error;
  HD_TRY(hd__file_join(path, ctx, folder, "run.json"));
  HD_TRY(hd__file_map(&file, ctx, path));
  *out = json_loadb((const char *)file.bytes, file.length, JSON_REJECT_DUPLICATES, &error);
  if (*out && is_record(*out))
    return HD_OK;
  int parsed = *out != NULL;
  json_decref(*out);
  *out = NULL;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s:%d: expected the record of a run, found %s; the checkpoint is damaged, use another", path,
                  parsed ? 1 : error.line, parsed ? "other JSON" : error.text);
}

/* ---- Files of earlier versions ---- */

/* Since this version of the arithmetic, a batch norm behind a flattened image has file order in files; before, it had
 * memory order there too. */
enum { FLAT_NORMS_IN_FILE_ORDER = 6 };

static bool has_memory_order(const hd_store_entry *entry, int64_t arithmetic) {
  return arithmetic < FLAT_NORMS_IN_FILE_ORDER && entry->op == HD_OP_batch_norm && !hd__store_is_in_file_order(entry);
}

bool hd__checkpoint_converts(const hd_directory *d, int64_t arithmetic) {
  for (int p = 0; p < d->entries; p++)
    if (has_memory_order(&d->entry[p], arithmetic))
      return true;
  return false;
}

int64_t hd__checkpoint_arithmetic(const json_t *record) {
  const json_t *version = json_object_get(record, "arithmetic_version");
  return json_is_integer(version) ? json_integer_value(version) : 1; /* 1: a record without one */
}

static const char EARLIER_RUNS[] = "goes_on_from";

hd_status hd__checkpoint_note_earlier(json_t *record, hd_ctx *ctx, int64_t steps, int64_t epochs) {
  if (steps == 0 && epochs == 0)
    return HD_OK;
  json_t *is = json_pack("{s:I, s:I}", "steps", (json_int_t)steps, "epochs", (json_int_t)epochs);
  return HD_ALLOCATED(is && json_object_set_new(record, EARLIER_RUNS, is) == 0, ctx,
                      "out of memory for a run's record");
}

void hd__checkpoint_earlier(int64_t *steps, int64_t *epochs, const json_t *record) {
  const json_t *is = json_object_get(record, EARLIER_RUNS);
  *steps = json_integer_value(json_object_get(is, "steps"));
  *epochs = json_integer_value(json_object_get(is, "epochs"));
}

hd_status hd__checkpoint_check_files(hd_ctx *ctx, const char *folder) {
  json_auto_t *record = NULL;
  json_t *entry;
  const char *name;
  HD_TRY(hd__checkpoint_record(&record, ctx, folder));
  json_object_foreach(json_object_get(record, "files"), name, entry) {
    char path[HD_PATH_BYTES];
    HD_MAPPED file = {0};
    if (strchr(name, '/'))
      continue;
    HD_TRY(hd__file_join(path, ctx, folder, name));
    HD_TRY(hd__file_map(&file, ctx, path));
    HD_TRY(check_sum(ctx, record, &file, path));
  }
  return HD_OK;
}

/* The version of the arithmetic of a file of weights that is given by itself: that of the checkpoint in which it lies
 * unchanged, if any. */
static int64_t arithmetic_of_file(const char *path, const hd_mapping *file) {
  char folder[HD_PATH_BYTES];
  json_auto_t *record = NULL;
  hd_ctx quiet = {0};
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
  if (hd__checkpoint_record(&record, &quiet, *folder ? folder : "/") != HD_OK ||
      check_sum(&quiet, record, file, path) != HD_OK)
    return HD_ARITHMETIC_VERSION;
  return hd__checkpoint_arithmetic(record);
}

/* ---- Reading ---- */

/* A file whose tensors are read. */
typedef struct tensors {
  const char *path;
  hd_st_list list;
  int64_t arithmetic; /* the version that wrote it */
  const char *but;    /* a layer whose parameters are not read; NULL: all are */
} tensors;

/* Whether a parameter of this name, "LAYER.weight", is left as it is. */
static bool is_left(const tensors *from, const char *name) {
  const size_t length = from->but ? strlen(from->but) : 0;
  return from->but && !strncmp(name, from->but, length) && name[length] == '.' && !strchr(name + length + 1, '.');
}

static hd_status load_entry(float *memory, float *scratch, hd_ctx *ctx, const tensors *from,
                            const hd_store_entry *entry, const char *name) {
  const char *path = from->path;
  const hd_st_tensor *t = hd__st_find(&from->list, name);
  char expected[HD_SHAPE_TEXT_BYTES], found[HD_SHAPE_TEXT_BYTES];
  hd__shape_text(expected, sizeof expected, &entry->shape);
  if (!t)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected a tensor '%s' of shape %s, found none; does the file belong to this model?", path,
                    name, expected);
  if (!hd__st_is_float(t) || !hd__shape_equal(&t->shape, &entry->shape))
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected tensor '%s' as floats of shape %s, found %s of shape %s; does the file belong to this model?",
        path, name, expected, hd__st_type_text(t->type), hd__shape_text(found, sizeof found, &t->shape));
  hd__st_floats(scratch, t);
  if (has_memory_order(entry, from->arithmetic))
    memcpy(memory + entry->offset, scratch, (size_t)hd__shape_elems(&t->shape) * sizeof *memory);
  else
    hd__store_from_file_order(memory + entry->offset, scratch, entry);
  return HD_OK;
}

/* An alias of an entry: files of PyTorch may hold both names, and their values must then be equal. */
static hd_status check_alias(hd_ctx *ctx, const tensors *from, const hd_store_entry *alias, const char *name) {
  const hd_st_tensor *a = hd__st_find(&from->list, alias->name), *b = hd__st_find(&from->list, name);
  if (!a || (a->length == b->length && !memcmp(a->bytes, b->bytes, a->length)))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected '%s' to equal '%s', since this model shares them, found other values; leave one out",
                  from->path, alias->name, name);
}

/* A state of the optimizer, or what is kept beside all weights. */
static bool keeps(const hd_store_entry *entry, int state) { return state < 0 || (entry->kept >> state & 1); }

static hd_status load_entries(float *memory, hd_ctx *ctx, const tensors *from, const hd_directory *d, int state) {
  HD_OWNED float *scratch = hd__malloc((size_t)d->param_elems * sizeof *scratch);
  HD_TRY(HD_ALLOCATED(scratch, ctx, "%s: out of memory while loading", from->path));
  for (int p = 0; p < d->entries; p++) {
    char name[HD_TENSOR_NAME_BYTES];
    const hd_store_entry *entry = &d->entry[p];
    if (!keeps(entry, state) || is_left(from, entry->name))
      continue;
    hd__tensors_state_name(name, entry, state);
    HD_TRY(entry->same_as < 0 ? load_entry(memory, scratch, ctx, from, entry, name)
                              : check_alias(ctx, from, entry, d->entry[entry->same_as].name));
  }
  return HD_OK;
}

static const char MEAN[] = ".running_mean", BATCHES[] = ".num_batches_tracked";

static bool ends_in(const char *name, const char *end) {
  size_t length = strlen(name), tail = strlen(end);
  return length >= tail && !strcmp(name + length - tail, end);
}

/* Aliases are left out on both sides, and so is the batch count that PyTorch keeps beside running statistics: it
 * follows from the step. */
static hd_status check_count(hd_ctx *ctx, const tensors *from, const hd_directory *d) {
  const hd_st_list *list = &from->list;
  int count = 0;
  for (int i = 0; i < list->count; i++)
    count += !ends_in(list->tensor[i].name, BATCHES) && !is_left(from, list->tensor[i].name);
  for (int p = 0; p < d->entries; p++)
    count -= !is_left(from, d->entry[p].name) && (d->entry[p].same_as < 0 || hd__st_find(list, d->entry[p].name));
  return count == 0
             ? HD_OK
             : hd__fail(ctx, HD_E_FORMAT, "%s: expected %d tensors, found %d; does the file belong to this model?",
                        from->path, list->count - count, list->count);
}

static hd_status load_weights(hd_store *store, float *to, hd_ctx *ctx, const tensors *from) {
  HD_TRY(check_count(ctx, from, store->directory));
  return load_entries(to, ctx, from, store->directory, HD_WEIGHTS);
}

hd_status hd__checkpoint_load_weights(hd_store *store, int64_t *arithmetic, hd_ctx *ctx, const char *path,
                                      const json_t *record, const char *but) {
  HD_MAPPED file = {0};
  HD_ST_OWNED list = {0};
  HD_GPT_MEMORY_OWNED turned = {0};
  if (!record && hd__onnx_is_path(path)) {
    HD_ONNX_OWNED model = {0};
    *arithmetic = HD_ARITHMETIC_VERSION;
    HD_TRY(hd__onnx_read(&model, ctx, path));
    return load_weights(store, store->weights[hd__store_buffer(store)], ctx,
                        &(tensors){path, model.weights, *arithmetic, but});
  }
  HD_TRY(hd__file_map(&file, ctx, path));
  HD_TRY(hd__st_parse(&list, ctx, path, file.bytes, file.length));
  if (!record)
    HD_TRY(hd__gpt_rename(&turned, &list, ctx, path, store->directory));
  float *to = record ? hd__store_result(store) : store->weights[hd__store_buffer(store)];
  *arithmetic = record ? hd__checkpoint_arithmetic(record) : arithmetic_of_file(path, &file);
  HD_TRY(load_weights(store, to, ctx, &(tensors){path, list, *arithmetic, but}));
  return record ? check_sum(ctx, record, &file, path) : HD_OK;
}

static hd_status load_counters(hd_counters *out, hd_ctx *ctx, const char *path, const hd_st_list *list) {
  for (int i = 0; i < HD_COUNTERS; i++) {
    const hd_st_tensor *t = hd__st_find(list, hd__counter_table[i].name);
    if (!t && hd__counter_table[i].may_be_absent)
      continue;
    if (!t || t->type != hd__counter_table[i].type || t->length != 8)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected the counter '%s', found none; the checkpoint is damaged, use another", path,
                      hd__counter_table[i].name);
    memcpy((char *)out + hd__counter_table[i].offset, t->bytes, 8);
  }
  if (out->step >= 0 && out->epoch_divisor >= 0 && out->stale_epochs >= 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected counters from 0 up, found step %lld; the checkpoint is damaged, use another", path,
                  (long long)out->step);
}

hd_status hd__checkpoint_load_state(hd_store *store, hd_counters *counters, hd_ctx *ctx, const char *folder,
                                    const json_t *record) {
  char path[HD_PATH_BYTES];
  HD_MAPPED file = {0};
  HD_ST_OWNED list = {0};
  HD_TRY(hd__file_join(path, ctx, folder, "state.safetensors"));
  HD_TRY(hd__file_map(&file, ctx, path));
  HD_TRY(hd__st_parse(&list, ctx, path, file.bytes, file.length));
  HD_TRY(load_counters(counters, ctx, path, &list));
  hd__store_set_version(store, (uint64_t)counters->step);
  const tensors from = {path, list, counters->arithmetic, NULL};
  for (int s = 0; s < store->directory->states; s++)
    HD_TRY(load_entries(store->state[hd__store_buffer(store)][s], ctx, &from, store->directory, s));
  if (store->directory->averages)
    HD_TRY(load_entries(hd__store_beside(store), ctx, &from, store->directory,
                        hd__tensors_beside_weights(store->directory)));
  return check_sum(ctx, record, &file, path);
}

bool hd__checkpoint_holds(const hd_st_tensor *tensor) {
  return hd__st_is_float(tensor) || ends_in(tensor->name, BATCHES);
}

/* ---- The names of the tensors ---- */

const char *hd__tensors_state_suffix(hd_op update, int state) {
  return hd__optimizer_of_op(update)->states[state].name;
}

int hd__tensors_beside_weights(const hd_directory *d) { return d->averages == HD_AVERAGES_EMA ? HD_TRAINED : HD_SLOW; }

void hd__tensors_state_name(char name[HD_TENSOR_NAME_BYTES], const hd_store_entry *entry, int state) {
  const char *suffix = state == HD_TRAINED ? "trained" : state == HD_SLOW ? "slow" : "";
  if (state >= 0)
    suffix = hd__tensors_state_suffix((hd_op)entry->update, state);
  snprintf(name, HD_TENSOR_NAME_BYTES, "%s%s%s", entry->name, *suffix ? "." : "", suffix);
}

hd_status hd__tensors_add(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_st_tensor *what, char *name) {
  HD_TRY(HD_ALLOCATED(name, ctx, "out of memory while saving"));
  tensor[*count] = *what;
  tensor[(*count)++].name = name;
  return HD_OK;
}

const float *hd__tensors_entry(hd_values values, const hd_store_entry *entry) {
  return (hd__store_is_in_file_order(entry) ? values.memory : values.file) + entry->offset;
}

static hd_st_tensor tensor_of(const hd_directory *d, int p, hd_values values) {
  const hd_store_entry *entry = &d->entry[p];
  return (hd_st_tensor){.type = HD_ST_F32,
                        .source = values.source ? values.source[p] : NULL,
                        .shape = entry->shape,
                        .bytes = hd__tensors_entry(values, entry),
                        .length = (size_t)hd__store_entry_elems(entry) * sizeof(float)};
}

hd_status hd__tensors_add_weights(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                  hd_values values, const int64_t *batches) {
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    hd_st_tensor weights = tensor_of(d, p, values);
    weights.same_as = entry->same_as < 0 ? NULL : d->entry[entry->same_as].name;
    HD_TRY(hd__tensors_add(tensor, count, ctx, &weights, hd__strdup(entry->name)));
    if (!entry->running || !ends_in(entry->name, MEAN))
      continue;
    hd_st_tensor seen = {.type = HD_ST_I64, .bytes = batches, .length = sizeof *batches};
    int layer = (int)(strlen(entry->name) - strlen(MEAN));
    HD_TRY(hd__tensors_add(tensor, count, ctx, &seen, hd__printf_alloc("%.*s%s", layer, entry->name, BATCHES)));
  }
  return HD_OK;
}

hd_status hd__tensors_add_state(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d, hd_values values,
                                int state) {
  char name[HD_TENSOR_NAME_BYTES];
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    const hd_st_tensor kept = tensor_of(d, p, values);
    if (!keeps(entry, state) || entry->same_as >= 0)
      continue;
    hd__tensors_state_name(name, entry, state);
    HD_TRY(hd__tensors_add(tensor, count, ctx, &kept, hd__strdup(name)));
  }
  return HD_OK;
}

void hd__tensors_free_names(hd_st_tensor *tensor, int count) {
  for (int i = 0; i < count; i++) {
    hd__free(tensor[i].name);
    tensor[i].name = NULL;
  }
}

hd_values hd__tensors_order(float *file, const float *memory, const hd_directory *d, bool state,
                            const hd_st_source *const *source) {
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    const bool is_here = entry->same_as < 0 && !(source && source[p]);
    if (is_here && (entry->trained || !state) && !hd__store_is_in_file_order(entry))
      hd__store_to_file_order(file + entry->offset, memory + entry->offset, entry);
  }
  return (hd_values){memory, file, source};
}

int64_t hd__tensors_offset(const hd_directory *d, int part) {
  return part == 0 ? 0 : d->param_elems + (part - 1) * d->trained_elems;
}

const hd_counter hd__counter_table[HD_COUNTERS] = {
    {"step", HD_ST_I64, offsetof(hd_counters, step), false},
    {"epoch_loss_sum", HD_ST_F64, offsetof(hd_counters, epoch_loss_sum), false},
    {"epoch_divisor", HD_ST_F64, offsetof(hd_counters, epoch_divisor), false},
    {"best_score", HD_ST_F64, offsetof(hd_counters, best_score), false},
    {"stale_epochs", HD_ST_I64, offsetof(hd_counters, stale_epochs), false},
    {"best_loss", HD_ST_F64, offsetof(hd_counters, best_loss), false},
    {"step_loss", HD_ST_F64, offsetof(hd_counters, step_loss), true},
    {"owes_evaluation", HD_ST_I64, offsetof(hd_counters, owes_evaluation), true},
    {"arithmetic_version", HD_ST_I64, offsetof(hd_counters, arithmetic), true},
};

void hd__checksum_text(char text[HD_CHECKSUM_BYTES], uint64_t sum) {
  snprintf(text, HD_CHECKSUM_BYTES, "%016llx", (unsigned long long)sum);
}

hd_status hd__checkpoint_digest(char hex[65], hd_ctx *ctx, const hd_store *store, int64_t batches) {
  const hd_directory *d = store->directory;
  HD_OWNED float *file = hd__malloc((size_t)d->param_elems * sizeof *file);
  HD_ST_OWNED list = {.tensor = hd__calloc((size_t)d->entries * 2, sizeof *list.tensor)};
  HD_TRY(HD_ALLOCATED(file && list.tensor, ctx, "out of memory for the digest"));
  const hd_values values = hd__tensors_order(file, hd__store_result(store), d, false, NULL);
  HD_TRY(hd__tensors_add_weights(list.tensor, &list.count, ctx, d, values, &batches));
  return hd__st_digest(hex, ctx, &list);
}
