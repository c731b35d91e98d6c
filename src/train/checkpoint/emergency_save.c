/* Publishing what an emergency save needs in shared memory, and saving from there: see emergency_save.h. */
#include "train/checkpoint/emergency_save.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "train/checkpoint/saver.h"

/* How long to wait for the rank that holds the lock of the run's folder to end. */
static const double LOCK_S = 3;

static const char purpose[] = "the emergency save";

typedef struct emergency_page {
  _Atomic int ready;
  char run[HD_PATH_BYTES]; /* absolute path */
  int32_t keep, remote, apart;
  int64_t record_bytes;
  hd_counters counters[2]; /* of an even and of an odd version */
  char record[];           /* JSON */
} emergency_page;

struct hd_emergency {
  hd_segment memory;
  emergency_page *page;
  bool writes;
};

static void fill(emergency_page *page, const hd_emergency_run *run, const char *record) {
  char path[PATH_MAX];
  snprintf(page->run, sizeof page->run, "%.*s", HD_PATH_BYTES - 1, realpath(run->folder, path) ? path : run->folder);
  page->keep = run->keep;
  page->remote = run->remote;
  page->apart = run->apart;
  page->counters[run->counters->step & 1] = *run->counters;
  page->record_bytes = (int64_t)strlen(record);
  memcpy(page->record, record, (size_t)page->record_bytes);
  atomic_store(&page->ready, 1);
}

static hd_status open_page(hd_emergency *emergency, hd_ctx *ctx, hd_local_group *local, const hd_emergency_run *run,
                           const char *record) {
  const int ranks = hd__local_group_ranks(local);
  const int64_t this_rank = record ? (int64_t)strlen(record) : 0;
  HD_OWNED int64_t *all = hd__malloc((size_t)ranks * sizeof *all);
  HD_TRY(HD_ALLOCATED(all && (record || !emergency->writes), ctx, "out of memory for %s", purpose));
  HD_TRY(hd__local_group_gather(all, local, ctx, &this_rank, sizeof this_rank));
  HD_TRY(hd__local_group_memory(&emergency->memory, local, ctx, sizeof(emergency_page) + (size_t)all[0], purpose));
  emergency->page = emergency->memory.base;
  if (emergency->writes)
    fill(emergency->page, run, record);
  return hd__local_group_barrier(local, ctx);
}

hd_status hd__emergency_open(hd_emergency **out, hd_ctx *ctx, hd_local_group *local, const hd_emergency_run *run) {
  if (!local)
    return HD_OK;
  hd_emergency *emergency = *out = hd__calloc(1, sizeof *emergency);
  HD_TRY(HD_ALLOCATED(emergency, ctx, "out of memory for %s", purpose));
  emergency->writes = hd__local_group_rank(local) == 0;
  char *text = emergency->writes ? hd__json_dump(run->record, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  hd_status status = open_page(emergency, ctx, local, run, text);
  free(text);
  return HD_CREATED(status, out, hd__emergency_close);
}

void hd__emergency_close(hd_emergency *emergency) {
  if (!emergency)
    return;
  hd__segment_destroy(&emergency->memory);
  hd__free(emergency);
}

void hd__emergency_note(hd_emergency *emergency, const hd_counters *counters) {
  if (emergency) /* all ranks write the same values, so any surviving rank has published them */
    emergency->page->counters[counters->step & 1] = *counters;
}

static hd_status save(hd_ctx *ctx, hd_store *store, const emergency_page *page, const hd_counters *counters) {
  HD_RELEASED(hd__saver_fini) hd_saver saver = {0};
  json_error_t error;
  json_auto_t *record = json_loadb(page->record, (size_t)page->record_bytes, 0, &error);
  if (!record)
    return hd__fail(ctx, HD_E_FORMAT, "expected the run's record in the ranks' memory, found %s", error.text);
  HD_TRY(hd__saver_init(&saver, ctx, store, page->run, page->keep));
  HD_TRY(hd__saver_begin(&saver, ctx, counters, record));
  return hd__saver_wait(&saver, ctx);
}

/* The number of --save-every in the run's record; 0: none. */
static long long save_every(const emergency_page *page) {
  json_auto_t *record = json_loadb(page->record, (size_t)page->record_bytes, 0, NULL);
  const char *text = json_string_value(json_object_get(json_object_get(record, "settings"), "save-every"));
  return text ? atoll(text) : 0;
}

/* What to do where there is no checkpoint: --save-every may have been given, and its saves have failed. */
static hd_status no_checkpoint(hd_ctx *ctx, const emergency_page *page, long long last, const char *why) {
  const long long every = save_every(page);
  if (every > 0 && last >= every)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "cannot save step %lld: %s, and there is no checkpoint of --save-every %lld in %.400s; see why "
                    "they could not be written (a full disk?), and start again",
                    last, why, every, page->run);
  return hd__fail(ctx, HD_E_UNSUPPORTED, "cannot save step %lld: %s; start again, and use %s--save-every", last, why,
                  every > 0 ? "a smaller " : "");
}

/* The last version is lost: *step becomes that of the last checkpoint. */
static hd_status lost(int64_t *step, hd_ctx *ctx, const emergency_page *page) {
  const int64_t even = page->counters[0].step, odd = page->counters[1].step;
  const long long last = even > odd ? even : odd;
  const char *why = page->remote ? "it was only in the memory of GPUs whose ranks have all ended"
                                 : "each host had only the weights of its own stages";
  *step = hd__steps_linked(page->run, "last");
  if (*step < 0)
    return no_checkpoint(ctx, page, last, why);
  return hd__fail(ctx, HD_E_UNSUPPORTED, "cannot save step %lld: %s; continue from step %lld with --resume %.900s",
                  last, why, (long long)*step, page->run);
}

/* Saves the step unless its folder exists. A rank may have ended between the folder and the link; then only the link is
 * made. */
static hd_status save_unless_there(bool *wrote, hd_ctx *ctx, hd_store *store, emergency_page *page,
                                   const hd_counters *counters) {
  if (hd__steps_has(page->run, counters->step)) {
    if (hd__steps_linked(page->run, "last") >= counters->step)
      return HD_OK; /* a later link belongs to a run that was resumed from an earlier step */
    return hd__steps_link(ctx, page->run, "last", counters->step);
  }
  hd__saver_remove_leftovers(page->run); /* of the rank that was writing */
  HD_TRY(save(ctx, store, page, counters));
  *wrote = true;
  return HD_OK;
}

/* Whether the values that ranks wrote are within bounds. */
static bool is_sound(const emergency_page *page, size_t bytes) {
  return page->record_bytes >= 0 && page->record_bytes <= (int64_t)(bytes - sizeof *page) && page->keep >= 1 &&
         memchr(page->run, 0, sizeof page->run);
}

HD_RELEASER(release_store, hd_store, hd__store_destroy)

hd_status hd__emergency_save(int64_t *step, char run[HD_PATH_BYTES], bool *wrote, hd_ctx *ctx, hd_local_group *local) {
  HD_RELEASED(hd__segment_destroy) hd_segment memory = {0};
  HD_RELEASED(release_store) hd_store *store = NULL;
  HD_RELEASED(hd__file_unlock) int lock = -1;
  bool ignored, *fresh = wrote ? wrote : &ignored;
  *fresh = false;
  *step = -1;
  run[0] = 0;
  HD_TRY(hd__local_group_find(&memory, local, ctx, purpose));
  emergency_page *page = memory.base;
  if (!atomic_load(&page->ready) || !is_sound(page, memory.bytes))
    return hd__fail(ctx, HD_E_USAGE, "there is no started run to save");
  HD_TRY(hd__store_find(&store, ctx, local));
  const hd_counters counters = page->counters[hd__store_buffer(store)];
  *step = (int64_t)hd__store_version(store);
  snprintf(run, HD_PATH_BYTES, "%.*s", HD_PATH_BYTES - 1, page->run);
  if (counters.step != *step)
    return page->remote ? lost(step, ctx, page) : hd__fail(ctx, HD_E_USAGE, "there is no started run to save");
  if (page->apart && !hd__steps_has(page->run, *step))
    return lost(step, ctx, page);
  if (hd__local_group_rank(local) != 0) /* rank 0 holds the lock already */
    HD_TRY(hd__file_lock_folder(&lock, ctx, run, LOCK_S));
  return save_unless_there(fresh, ctx, store, page, &counters);
}
