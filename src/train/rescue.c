/* Writing what a run is saved with where its parent finds it, and saving from there: see rescue.h. */
#include "train/rescue.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "train/saver.h"

static const char purpose[] = "what a run is saved with";

typedef struct rescue_page {
  _Atomic int ready;
  char run[HD_PATH_BYTES]; /* from the root */
  int32_t keep, update;
  int64_t record_bytes;
  hd_counters counters[2]; /* of an even and of an odd version */
  char record[];           /* JSON */
} rescue_page;

struct hd_rescue {
  hd_segment memory;
  rescue_page *page;
  bool writes;
};

static void fill(rescue_page *page, const char *run, int keep, hd_op update, const char *record) {
  char path[PATH_MAX];
  snprintf(page->run, sizeof page->run, "%.*s", HD_PATH_BYTES - 1, realpath(run, path) ? path : run);
  page->keep = keep;
  page->update = (int32_t)update;
  page->record_bytes = (int64_t)strlen(record);
  memcpy(page->record, record, (size_t)page->record_bytes);
  atomic_store(&page->ready, 1);
}

static hd_status open_page(hd_rescue *rescue, hd_ctx *ctx, hd_world *world, const char *run, int keep, hd_op update,
                           const char *record) {
  const int ranks = hd__world_ranks(world);
  int64_t mine = record ? (int64_t)strlen(record) : 0, *all = hd__malloc((size_t)ranks * sizeof *all);
  if (!all || (rescue->writes && !record)) {
    hd__free(all);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %s", purpose);
  }
  hd_status status = hd__world_gather(all, world, ctx, &mine, sizeof mine);
  if (status == HD_OK)
    status = hd__world_memory(&rescue->memory, world, ctx, sizeof(rescue_page) + (size_t)all[0], purpose);
  hd__free(all);
  HD_TRY(status);
  rescue->page = rescue->memory.base;
  if (rescue->writes)
    fill(rescue->page, run, keep, update, record);
  return hd__world_meet(world, ctx);
}

hd_status hd__rescue_open(hd_rescue **out, hd_ctx *ctx, hd_world *world, const char *run, int keep, hd_op update,
                          const json_t *record) {
  *out = NULL;
  if (!world)
    return HD_OK;
  hd_rescue *rescue = hd__calloc(1, sizeof *rescue);
  if (!rescue)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %s", purpose);
  rescue->writes = hd__world_rank(world) == 0;
  char *text = rescue->writes ? json_dumps(record, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  hd_status status = open_page(rescue, ctx, world, run, keep, update, text);
  free(text);
  if (status == HD_OK)
    *out = rescue;
  else
    hd__rescue_close(rescue);
  return status;
}

void hd__rescue_close(hd_rescue *rescue) {
  if (!rescue)
    return;
  hd__segment_destroy(&rescue->memory);
  hd__free(rescue);
}

void hd__rescue_note(hd_rescue *rescue, const hd_counters *counters) {
  if (rescue) /* all write the same: whoever is left knows it */
    rescue->page->counters[counters->step & 1] = *counters;
}

static hd_status save(hd_ctx *ctx, hd_store *store, const rescue_page *page, const hd_counters *counters) {
  hd_saver saver;
  json_error_t error;
  json_t *record = json_loadb(page->record, (size_t)page->record_bytes, 0, &error);
  if (!record)
    return hd__fail(ctx, HD_E_FORMAT, "expected the run's record in the ranks' memory, found %s", error.text);
  hd_status status = hd__saver_init(&saver, ctx, store, (hd_op)page->update, page->run, page->keep);
  if (status == HD_OK) {
    status = hd__saver_begin(&saver, ctx, counters, record, false);
    if (status == HD_OK)
      status = hd__saver_wait(&saver, ctx);
    hd__saver_fini(&saver);
  }
  json_decref(record);
  return status;
}

/* Whether `last` names this step, or a later one: of a run that goes on from an earlier step. */
static bool is_linked(const char *path, int64_t step) {
  char name[64];
  int64_t linked;
  const ssize_t length = readlink(path, name, sizeof name - 1);
  name[length > 0 ? length : 0] = 0;
  return hd__saver_is_step(&linked, name) && linked >= step;
}

/* A rank may have come as far as the step's folder, and no farther: then it is the link that is missing. */
static hd_status save_unless_there(bool *wrote, hd_ctx *ctx, hd_store *store, rescue_page *page,
                                   const hd_counters *counters) {
  char name[48], record[48 + 16], path[HD_PATH_BYTES];
  snprintf(name, sizeof name, "step-%lld", (long long)counters->step);
  snprintf(record, sizeof record, "%s/run.json", name);
  HD_TRY(hd__file_join(path, ctx, page->run, record));
  if (hd__file_exists(path)) {
    HD_TRY(hd__file_join(path, ctx, page->run, "last"));
    return is_linked(path, counters->step) ? HD_OK : hd__file_link(ctx, name, path);
  }
  hd__file_remove_leftovers(page->run); /* of the rank that was writing */
  HD_TRY(save(ctx, store, page, counters));
  *wrote = true;
  return HD_OK;
}

static hd_status save_last(int64_t *step, char run[HD_PATH_BYTES], bool *wrote, hd_ctx *ctx, hd_world *world,
                           rescue_page *page) {
  hd_store *store;
  if (!atomic_load(&page->ready))
    return hd__fail(ctx, HD_E_USAGE, "expected a run to save, found none that had begun");
  HD_TRY(hd__store_find(&store, ctx, world));
  const hd_counters counters = page->counters[hd__store_half(store)];
  hd_status status = HD_OK;
  *step = (int64_t)hd__store_version(store);
  snprintf(run, HD_PATH_BYTES, "%.*s", HD_PATH_BYTES - 1, page->run);
  if (counters.step != *step)
    status = hd__fail(ctx, HD_E_USAGE, "expected a run to save, found none that had begun");
  int lock = -1;
  if (status == HD_OK && hd__world_rank(world) < 0) /* a rank has it */
    status = hd__file_lock_folder(&lock, ctx, run, 0);
  if (status == HD_OK)
    status = save_unless_there(wrote, ctx, store, page, &counters);
  if (lock >= 0)
    close(lock);
  hd__store_destroy(store);
  return status;
}

hd_status hd__rescue_save(int64_t *step, char run[HD_PATH_BYTES], bool *wrote, hd_ctx *ctx, hd_world *world) {
  hd_segment memory;
  bool ignored, *fresh = wrote ? wrote : &ignored;
  *fresh = false;
  *step = -1;
  run[0] = 0;
  HD_TRY(hd__world_find(&memory, world, ctx, purpose));
  hd_status status = save_last(step, run, fresh, ctx, world, memory.base);
  hd__segment_destroy(&memory);
  return status;
}
