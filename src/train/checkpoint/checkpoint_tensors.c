/* Names of the tensors in checkpoints: see checkpoint_tensors.h. */
#include "train/checkpoint/checkpoint_tensors.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"

const char *hd__tensors_state_name(hd_op update, int state) {
  if (update == HD_OP_sgd)
    return "momentum_buffer";
  return state == 0 ? "exp_avg" : "exp_avg_sq";
}

static const char MEAN[] = ".running_mean", BATCHES[] = ".num_batches_tracked";

static bool ends_in(const char *name, const char *end) {
  size_t length = strlen(name), tail = strlen(end);
  return length >= tail && !strcmp(name + length - tail, end);
}

hd_status hd__tensors_add(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_st_tensor *what, char *name) {
  HD_TRY(HD_ALLOCATED(name, ctx, "out of memory while saving"));
  tensor[*count] = *what;
  tensor[(*count)++].name = name;
  return HD_OK;
}

static hd_st_tensor values_of(const hd_store_entry *entry, const float *ordered) {
  return (hd_st_tensor){.type = HD_ST_F32,
                        .shape = entry->shape,
                        .bytes = ordered + entry->offset,
                        .length = (size_t)hd__store_entry_elems(entry) * sizeof *ordered};
}

hd_status hd__tensors_add_weights(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                  const float *ordered, const int64_t *batches) {
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    hd_st_tensor values = values_of(entry, ordered);
    values.same_as = entry->same_as < 0 ? NULL : d->entry[entry->same_as].name;
    HD_TRY(hd__tensors_add(tensor, count, ctx, &values, hd__strdup(entry->name)));
    if (!entry->running || !ends_in(entry->name, MEAN))
      continue;
    hd_st_tensor seen = {.type = HD_ST_I64, .bytes = batches, .length = sizeof *batches};
    int layer = (int)(strlen(entry->name) - strlen(MEAN));
    HD_TRY(hd__tensors_add(tensor, count, ctx, &seen, hd__printf_alloc("%.*s%s", layer, entry->name, BATCHES)));
  }
  return HD_OK;
}

hd_status hd__tensors_add_state(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                const float *ordered, const char *suffix) {
  for (int p = 0; p < d->entries; p++) {
    const hd_store_entry *entry = &d->entry[p];
    const hd_st_tensor values = values_of(entry, ordered);
    if (entry->trained)
      HD_TRY(hd__tensors_add(tensor, count, ctx, &values, hd__printf_alloc("%s.%s", entry->name, suffix)));
  }
  return HD_OK;
}

void hd__tensors_free_names(hd_st_tensor *tensor, int count) {
  for (int i = 0; i < count; i++) {
    hd__free(tensor[i].name);
    tensor[i].name = NULL;
  }
}

void hd__tensors_order(float *ordered, const float *home, const hd_directory *d, bool state) {
  for (int p = 0; p < d->entries; p++)
    if (d->entry[p].same_as < 0 && (d->entry[p].trained || !state))
      hd__store_to_file_order(ordered + d->entry[p].offset, home + d->entry[p].offset, &d->entry[p]);
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
};

bool hd__tensors_counts_batches(const char *name) { return ends_in(name, BATCHES); }

void hd__checksum_text(char text[HD_CHECKSUM_BYTES], const hd_mapping *file) {
  snprintf(text, HD_CHECKSUM_BYTES, "%016llx", (unsigned long long)hd__xxh3(file->bytes, file->length));
}

hd_status hd__checkpoint_digest(char hex[65], hd_ctx *ctx, const hd_store *store) {
  const hd_directory *d = store->directory;
  HD_OWNED float *ordered = hd__malloc((size_t)d->param_elems * sizeof *ordered);
  HD_ST_OWNED list = {.tensor = hd__calloc((size_t)d->entries * 2, sizeof *list.tensor)};
  const int64_t batches = (int64_t)d->version;
  HD_TRY(HD_ALLOCATED(ordered && list.tensor, ctx, "out of memory for the digest"));
  hd__tensors_order(ordered, store->weights[hd__store_buffer(store)], d, false);
  HD_TRY(hd__tensors_add_weights(list.tensor, &list.count, ctx, d, ordered, &batches));
  return hd__st_digest(hex, ctx, &list);
}
