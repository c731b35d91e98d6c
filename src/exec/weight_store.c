/* Layout of the segment of weight versions: see weight_store.h. */
#include "exec/weight_store.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { ALIGN_BYTES = 64 };

static int64_t aligned(int64_t bytes) { return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES; }

static int entry_count(const hd_plan *plan) { return plan->param_count + plan->alias_count; }

static void fill_directory(hd_directory *directory, const hd_plan *plan) {
  directory->entries = entry_count(plan);
  directory->states = plan->update.states;
  directory->averages = plan->update.averages;
  directory->param_elems = plan->size.param_elems;
  directory->trained_elems = plan->size.trained_elems;
  directory->packed_elems = plan->size.packed_elems;
  for (int p = 0; p < plan->param_count; p++) {
    const hd_plan_param *param = &plan->params[p];
    hd_store_entry *entry = &directory->entry[p];
    snprintf(entry->name, sizeof entry->name, "%s", param->name);
    entry->op = (int32_t)param->op;
    entry->shape = *param->shape;
    entry->same_as = -1;
    entry->running = param->is_running && (!param->frozen || param->later);
    entry->trained = (!param->frozen || param->later) && !param->is_running;
    entry->update = (int32_t)plan->update.groups[param->group].update;
    entry->kept = entry->trained && plan->trains ? plan->update.groups[param->group].kept : 0;
    entry->rows = param->rows;
    entry->c = param->c;
    entry->h = param->h;
    entry->w = param->w;
    entry->offset = param->offset;
  }
  for (int i = 0, param; i < plan->alias_count; i++) {
    const char *alias = hd__plan_alias(&param, plan, i);
    hd_store_entry *entry = &directory->entry[plan->param_count + i];
    *entry = directory->entry[param];
    snprintf(entry->name, sizeof entry->name, "%s", alias);
    entry->same_as = param;
    entry->trained = 0;
    entry->kept = 0;
  }
}

/* Sets the pointers into the segment; the two buffers of each kind are adjacent. */
static void find_buffers(hd_store *store) {
  hd_directory *d = store->directory;
  char *base = store->segment.base;
  for (int buffer = 0; buffer < 2; buffer++) {
    store->weights[buffer] = (float *)(base + d->weights_offset) + buffer * d->param_elems;
    for (int s = 0; s < d->states; s++)
      store->state[buffer][s] = (float *)(base + d->state_offset) + (buffer * d->states + s) * d->trained_elems;
  }
  for (int buffer = 0; d->averages && buffer < 2; buffer++)
    store->average[buffer] = (float *)(base + d->average_offset) + buffer * d->param_elems;
  store->packed = (float *)(base + d->packed_offset);
}

/* Whether `count` floats from `offset` on are inside the segment, after the directory. */
static bool fits(int64_t offset, int64_t count, int64_t head, int64_t bytes) {
  return offset >= head && offset <= bytes && offset % ALIGN_BYTES == 0 && count >= 0 && count <= (bytes - offset) / 4;
}

/* Whether an entry's floats are inside each buffer and its orders agree with its shape. */
static bool is_sound_entry(const hd_directory *d, const hd_store_entry *e) {
  const int32_t side[] = {e->rows, e->c, e->h, e->w};
  int64_t elems = 1;
  for (int i = 0; i < 4; i++) {
    if (side[i] < 1 || elems > d->param_elems / side[i])
      return false;
    elems *= side[i];
  }
  if (e->kept >> d->states || (e->kept && !(e->trained && hd__optimizer_may_keep((hd_op)e->update, e->kept))) ||
      e->update < 0 || e->update > HD_OP_COUNT)
    return false;
  if (e->shape.rank < 0 || e->shape.rank > HD_MAX_DIMS)
    return false;
  int64_t shaped = 1;
  for (int i = 0; i < e->shape.rank; i++) {
    if (e->shape.dim[i] < 1 || shaped > elems / e->shape.dim[i])
      return false;
    shaped *= e->shape.dim[i];
  }
  const int64_t room = e->trained ? d->trained_elems : d->param_elems;
  return shaped == elems && memchr(e->name, 0, sizeof e->name) && e->same_as >= -1 && e->same_as < d->entries &&
         e->offset >= 0 && elems <= room && e->offset <= room - elems;
}

/* Other processes write the directory: its offsets are checked against the segment before use. */
static hd_status check_directory(const hd_store *store, hd_ctx *ctx) {
  const hd_directory *d = store->directory;
  const int64_t bytes = (int64_t)store->segment.bytes, most = bytes / 4;
  bool sound = bytes >= (int64_t)sizeof *d && d->entries >= 0 &&
               d->entries <= (bytes - (int64_t)sizeof *d) / (int64_t)sizeof *d->entry && d->states >= 0 &&
               d->states <= HD_MAX_STATES && d->param_elems >= 0 && d->param_elems <= most && d->trained_elems >= 0 &&
               d->trained_elems <= d->param_elems && d->packed_elems >= 0 && d->packed_elems <= most;
  const int64_t head = sound ? (int64_t)sizeof *d + d->entries * (int64_t)sizeof *d->entry : bytes;
  sound = sound && d->averages >= HD_AVERAGES_NONE && d->averages <= HD_AVERAGES_LOOKAHEAD &&
          fits(d->average_offset, d->averages ? 2 * d->param_elems : 0, head, bytes);
  sound = sound && fits(d->weights_offset, 2 * d->param_elems, head, bytes) &&
          fits(d->state_offset, 2 * d->states * d->trained_elems, head, bytes) &&
          fits(d->packed_offset, d->packed_elems, head, bytes);
  for (int i = 0; sound && i < d->entries; i++)
    sound = is_sound_entry(d, &d->entry[i]);
  return sound ? HD_OK
               : hd__fail(ctx, HD_E_FORMAT,
                          "expected the weights of the ranks where their directory says, found a place outside of the "
                          "%lld bytes that they share; another process has overwritten that memory: start the ranks "
                          "again from the last checkpoint",
                          (long long)bytes);
}

static int64_t head_bytes(const hd_plan *plan) {
  return aligned((int64_t)(sizeof(hd_directory) + (size_t)entry_count(plan) * sizeof(hd_store_entry)));
}

int64_t hd__store_bytes(const hd_plan *plan) {
  const int64_t versions =
      (plan->update.averages ? 2 : 1) * plan->size.param_elems + plan->update.states * plan->size.trained_elems;
  return head_bytes(plan) + 4 * (2 * versions + plan->size.packed_elems);
}

static const char purpose[] = "weights and optimizer state";

/* One rank writes the directory for all. */
static hd_status fill(hd_store *store, hd_ctx *ctx, hd_local_group *local, const hd_plan *plan) {
  HD_TRY(hd__local_group_memory(&store->segment, local, ctx, (size_t)hd__store_bytes(plan), purpose));
  store->directory = store->segment.base;
  int64_t head = head_bytes(plan), weights = 2 * 4 * plan->size.param_elems,
          state = 2 * 4 * plan->update.states * plan->size.trained_elems;
  if (hd__local_group_rank(local) == 0) {
    store->directory->weights_offset = head;
    store->directory->state_offset = head + weights;
    store->directory->average_offset = head + weights + state;
    store->directory->packed_offset = head + weights + state + (plan->update.averages ? weights : 0);
    fill_directory(store->directory, plan);
  }
  HD_TRY(hd__local_group_barrier(local, ctx));
  HD_TRY(check_directory(store, ctx));
  find_buffers(store);
  return HD_OK;
}

hd_status hd__store_create(hd_store **out, hd_ctx *ctx, hd_local_group *local, const hd_plan *plan) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the weights"));
  hd_store *store = *out;
  hd_status status = fill(store, ctx, local, plan);
  return HD_CREATED(status, out, hd__store_destroy);
}

hd_status hd__store_find(hd_store **out, hd_ctx *ctx, hd_local_group *local) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the weights"));
  hd_store *store = *out;
  hd_status status = hd__local_group_find(&store->segment, local, ctx, purpose);
  store->directory = store->segment.base;
  HD_THEN(status, check_directory(store, ctx));
  if (status == HD_OK)
    find_buffers(store);
  return HD_CREATED(status, out, hd__store_destroy);
}

void hd__store_destroy(hd_store *store) {
  if (!store)
    return;
  hd__segment_destroy(&store->segment);
  hd__free(store);
}

static void touch(float *first, int64_t count) {
  enum { PAGE_BYTES = 4096 };
  volatile char *end = (volatile char *)(first + count);
  uintptr_t skip = -(uintptr_t)first & (PAGE_BYTES - 1);
  for (volatile char *at = (volatile char *)first + skip; at < end; at += PAGE_BYTES)
    *at = *at;
}

void hd__store_touch(hd_store *store, int64_t first, int64_t count, int trained) {
  for (int buffer = 0; buffer < 2; buffer++) {
    touch(store->weights[buffer] + first, count);
    for (int s = 0; trained && s < store->directory->states; s++)
      touch(store->state[buffer][s] + first, count);
  }
}

uint64_t hd__store_version(const hd_store *store) { return atomic_load(&store->directory->version); }

int hd__store_buffer(const hd_store *store) { return (int)(hd__store_version(store) & 1); }

void hd__store_set_version(hd_store *store, uint64_t version) { atomic_store(&store->directory->version, version); }

float *hd__store_result(const hd_store *store) {
  const int buffer = hd__store_buffer(store);
  return store->directory->averages == HD_AVERAGES_EMA ? store->average[buffer] : store->weights[buffer];
}

float *hd__store_beside(const hd_store *store) {
  const int buffer = hd__store_buffer(store);
  return store->directory->averages == HD_AVERAGES_EMA ? store->weights[buffer] : store->average[buffer];
}

/* A frozen parameter is the same in both versions, and its own average. */
static void spread_frozen(hd_store *store, const hd_plan_param *param) {
  const int buffer = hd__store_buffer(store);
  const float *w = store->weights[buffer] + param->offset;
  float *const to[] = {store->weights[1 - buffer], store->average[0], store->average[1]};
  for (int i = 0; i < 3; i++)
    if (to[i])
      memcpy(to[i] + param->offset, w, (size_t)(param->rows * param->columns) * sizeof *w);
}

void hd__store_pack(hd_store *store, const hd_plan *plan, const bool *here) {
  int buffer = hd__store_buffer(store);
  for (const hd_plan_param *param = plan->params; param < plan->params + plan->param_count; param++)
    if (param->frozen && (!here || here[param->stage]))
      spread_frozen(store, param);
  for (const hd_plan_packed *copy = plan->packed; copy < plan->packed + plan->packed_count; copy++) {
    const hd_plan_param *param = &plan->params[copy->param];
    if (!here || here[param->stage])
      copy->pack(&copy->geom, store->weights[buffer] + param->offset, store->packed + copy->offset, 0, param->rows);
  }
}

void hd__store_clear_packed(hd_store *store) {
  memset(store->packed, 0, (size_t)store->directory->packed_elems * sizeof *store->packed);
}

void hd__store_unpack(hd_store *store) {
  if (!store->segment.held)
    hd__segment_discard(store->packed, (size_t)store->directory->packed_elems * sizeof *store->packed);
}

int64_t hd__store_entry_elems(const hd_store_entry *entry) {
  return (int64_t)entry->rows * entry->c * entry->h * entry->w;
}

const hd_store_entry *hd__directory_find(const hd_directory *d, const char *name) {
  for (int i = 0; i < d->entries; i++)
    if (!strcmp(d->entry[i].name, name))
      return &d->entry[i];
  return NULL;
}

bool hd__store_is_in_file_order(const hd_store_entry *entry) {
  return entry->c == 1 || (entry->h == 1 && entry->w == 1);
}

void hd__store_to_file_order(float *file, const float *memory, const hd_store_entry *entry) {
  int64_t pixels = (int64_t)entry->h * entry->w, columns = pixels * entry->c;
  for (int64_t row = 0; row < entry->rows; row++)
    for (int64_t pixel = 0; pixel < pixels; pixel++)
      for (int64_t channel = 0; channel < entry->c; channel++)
        file[row * columns + channel * pixels + pixel] = memory[row * columns + pixel * entry->c + channel];
}

void hd__store_from_file_order(float *memory, const float *file, const hd_store_entry *entry) {
  int64_t pixels = (int64_t)entry->h * entry->w, columns = pixels * entry->c;
  for (int64_t row = 0; row < entry->rows; row++)
    for (int64_t pixel = 0; pixel < pixels; pixel++)
      for (int64_t channel = 0; channel < entry->c; channel++)
        memory[row * columns + pixel * entry->c + channel] = file[row * columns + channel * pixels + pixel];
}
