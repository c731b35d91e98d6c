/* Features of all samples: see kept_features.h. */
#include "train/run/kept_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/event_log.h"
#include "base/version.h"
#include "data/feed/feed_options.h"
#include "data/split/cache_file.h"
#include "exec/exchange/cluster.h"
#include "graph/graph_cut.h"
#include "train/placement/run_plan.h"

enum { PARTS = 3, LEAST_AT_ONCE = 64, MOST_AT_ONCE = 4096, NUMBERS_AT_ONCE = 1 << 23 };

static const int64_t MOST_IN_MEMORY = INT64_C(1) << 30, MOST_ON_DISK = INT64_C(1) << 34;

static void list_feeds(hd_feed *feed[PARTS], hd_session *s) {
  feed[0] = &s->input.train;
  feed[1] = &s->input.test;
  feed[2] = &s->input.val;
}

/* Samples, and for each of their views one. */
static int64_t rows_of(const hd_feed *feed) { return feed->count * (feed->views > 0 ? feed->views : 1); }

static int64_t all_rows(hd_session *s) {
  hd_feed *feed[PARTS];
  int64_t rows = 0;
  list_feeds(feed, s);
  for (int i = 0; i < PARTS; i++)
    rows += rows_of(feed[i]);
  return rows;
}

/* ---- Choosing ---- */

static bool may_keep(const hd_session *s, int stages) {
  const hd_settings *is = s->run.settings;
  const hd_feed *train = &s->input.train;
  const bool same = !hd__feed_draws(train) || train->views > 0;
  const bool wanted =
      is->keep_features == HD_KEEP_FEATURES_AUTO ? *is->freeze : is->keep_features != HD_KEEP_FEATURES_NO;
  return wanted && !s->run.rehearses && same && stages <= 1 && s->compute.device.executor->threads_compute &&
         is->arithmetic == HD_ARITHMETIC_PORTABLE && is->tta == HD_TTA_NONE && is->on_error != HD_ON_ERROR_SKIP &&
         !train->split->window && !train->split->masks && !hd__feed_makes_targets(train) &&
         s->run.steps_in_all > s->run.steps_per_epoch;
}

static bool fits_memory(const hd_session *s, int64_t bytes) {
  const int choice = s->run.settings->keep_features;
  return choice == HD_KEEP_FEATURES_RAM || (choice == HD_KEEP_FEATURES_AUTO && bytes <= MOST_IN_MEMORY);
}

/* A file's key cannot tell what a program's own transforms do; and without a folder there is no file. */
static bool may_use_disk(const hd_session *s, const hd_ctx *ctx, int64_t bytes) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  const bool fits = s->run.settings->keep_features == HD_KEEP_FEATURES_DISK || bytes <= MOST_ON_DISK;
  return fits && !ctx->custom_transforms && hd__cache_file_path(path, folder, &quiet, "features", 0) == HD_OK;
}

hd_status hd__features_choose(hd_session *s, hd_ctx *ctx, int stages) {
  hd_feed *feed[PARTS];
  hd_graph *graph;
  list_feeds(feed, s);
  for (int i = 0; i < PARTS; i++)
    feed[i]->features = (hd_kept_values){0};
  s->compute.cut = -1;
  if (!may_keep(s, stages))
    return HD_OK;
  HD_TRY(hd__session_graph(&graph, s, ctx, false));
  const int cut = hd__graph_cut(graph);
  session_features *kept = &s->input.features;
  if (cut >= 0) {
    kept->elems = hd__shape_elems(&graph->values[graph->nodes[cut].out[0]].shape);
    snprintf(kept->layer, sizeof kept->layer, "%s", graph->nodes[cut].name);
  }
  hd__graph_destroy(graph);
  if (cut < 0)
    return HD_OK;
  const int64_t bytes = all_rows(s) * kept->elems * (int64_t)sizeof(float);
  kept->on_disk = !fits_memory(s, bytes);
  if (!kept->on_disk || may_use_disk(s, ctx, bytes))
    s->compute.cut = cut;
  return HD_OK;
}

/* ---- Computing ---- */

/* The front of the network, and the feed that it reads. */
typedef struct front {
  hd_session *session;
  hd_store *store;
  hd_exec *exec;
  hd_segment room; /* of an evaluation's outcome, and its features unless they stay where they are written */
  hd_feed feed;    /* in the order of its samples */
  int64_t first;   /* row of an evaluation */
} front;

/* Rows of an evaluation, so that a few MB are in flight. */
static int64_t rows_at_once(const hd_session *s) {
  const int64_t rows = NUMBERS_AT_ONCE / s->input.features.elems;
  return rows < LEAST_AT_ONCE ? LEAST_AT_ONCE : rows > MOST_AT_ONCE ? MOST_AT_ONCE : rows;
}

static void front_fini(front *f) {
  hd__exec_destroy(f->exec);
  hd__store_destroy(f->store);
  hd__segment_destroy(&f->room);
}

/* The weights lie in all plans of a session alike. */
static hd_status open_front(front *f, hd_ctx *ctx) {
  hd_session *s = f->session;
  hd_local_group *local = s->compute.local;
  const hd_plan *plan = s->compute.front;
  hd_feed *feed[PARTS];
  hd_exec_settings settings = hd__planned_evaluation(plan, &s->compute.device);
  const int64_t elems = s->input.features.on_disk ? s->input.features.elems : 0;
  list_feeds(feed, s);
  for (int i = 0; i < PARTS; i++)
    if (feed[i]->count > 0 && hd__feed_scratch_bytes(feed[i]) > settings.fetch_bytes)
      settings.fetch_bytes = hd__feed_scratch_bytes(feed[i]);
  settings.local = local;
  HD_TRY(hd__local_group_memory(&f->room, local, ctx, (size_t)(rows_at_once(s) * (2 + elems)) * sizeof(float),
                                "the features of some samples"));
  HD_TRY(hd__store_create(&f->store, ctx, local, plan));
  if (hd__local_group_rank(local) == 0) {
    const hd_store *from = s->compute.store;
    memcpy(f->store->weights[hd__store_buffer(f->store)], from->weights[hd__store_buffer(from)],
           (size_t)from->directory->param_elems * sizeof(float));
    hd__store_pack(f->store, plan, NULL);
  }
  HD_TRY(hd__local_group_barrier(local, ctx));
  return hd__exec_create(&f->exec, ctx, plan, f->store, s->compute.threads, &settings);
}

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  const front *f = self;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t row = f->first + first + r, view = row / f->feed.count;
    const hd_slots one = {.x = to->x + r * to->x_stride, .scratch = to->scratch};
    HD_TRY(hd__feed_read(&f->feed, ctx, (uint32_t)view, row % f->feed.count, 1, &one));
    ((int32_t *)to->target)[r * to->target_stride] = -1; /* the loss ignores it */
  }
  return HD_OK;
}

/* Where features go: to memory, or to a file and its checksum. */
typedef struct sink {
  float *memory;
  FILE *to;
  hd_xxh3 *sum;
} sink;

/* Other ranks of the host may write the room again when the leader has written the file. */
static hd_status put_some(front *f, hd_ctx *ctx, sink *to, int64_t rows) {
  const int64_t elems = f->session->input.features.elems;
  const int64_t most = rows_at_once(f->session);
  float *loss = f->room.base;
  const hd_step_source source = {.self = f, .fetch = fetch};
  const hd_exec_outcome out = {
      .loss = loss, .guess = (int32_t *)(void *)(loss + most), .score = to->memory ? to->memory : loss + 2 * most};
  HD_TRY(hd__exec_evaluate(f->exec, ctx, &source, rows, &out));
  if (to->memory)
    to->memory += rows * elems;
  if (to->to) {
    hd__xxh3_update(to->sum, out.score, (size_t)(rows * elems) * sizeof(float));
    fwrite(out.score, sizeof(float), (size_t)(rows * elems), to->to); /* errors are found when the file is closed */
  }
  return to->memory ? HD_OK : hd__local_group_barrier(f->session->compute.local, ctx);
}

static hd_status put_all(front *f, hd_ctx *ctx, sink *to) {
  hd_feed *feed[PARTS];
  list_feeds(feed, f->session);
  for (int i = 0; i < PARTS; i++) {
    f->feed = *feed[i];
    f->feed.sampler = NULL;
    const int64_t rows = rows_of(feed[i]), most = rows_at_once(f->session);
    for (f->first = 0; f->first < rows; f->first += most)
      HD_TRY(put_some(f, ctx, to, rows - f->first < most ? rows - f->first : most));
  }
  return HD_OK;
}

static hd_status compute(hd_session *s, hd_ctx *ctx, sink *to) {
  HD_RELEASED(front_fini) front f = {.session = s};
  HD_TRY(open_front(&f, ctx));
  HD_LOG(DATA, "features: %lld samples of %lld numbers", (long long)all_rows(s), (long long)s->input.features.elems);
  return put_all(&f, ctx, to);
}

/* ---- On disk ---- */

typedef struct head {
  uint64_t magic, key, checksum;
  int64_t bytes;
} head;

static const uint64_t magic = UINT64_C(0x3174616566646568); /* "hdfeat1" */

static void add_text(hd_xxh3 *sum, const char *text) { hd__xxh3_update(sum, text, strlen(text) + 1); }

/* How rows are normalised. */
static void add_columns(hd_xxh3 *sum, const hd_dataset *data) {
  const int32_t normalize = data->normalize;
  hd__xxh3_update(sum, &normalize, sizeof normalize);
  for (const hd_feature *f = data->features.feature; f < data->features.feature + data->features.count; f++) {
    const double numbers[] = {f->empty, f->fill, f->mean, f->std};
    hd__xxh3_update(sum, numbers, sizeof numbers);
    add_text(sum, f->category ? f->category : "");
  }
}

static void add_numbers(hd_xxh3 *sum, const hd_session *s) {
  const hd_settings *is = s->run.settings;
  const hd_dataset *data = s->input.data;
  const int64_t numbers[] = {HD_ARITHMETIC_VERSION,
                             s->compute.cut,
                             is->precision,
                             s->compute.front->shifts,
                             s->input.train.views,
                             s->input.train.count,
                             s->input.test.count,
                             s->input.val.count,
                             s->input.train.views > 0 ? is->seed : 0,
                             s->input.val.members ? is->seed : 0};
  hd__xxh3_update(sum, numbers, sizeof numbers);
  hd__xxh3_update(sum, data->statistics.checksum, sizeof data->statistics.checksum);
  hd__xxh3_update(sum, data->statistics.mean, sizeof data->statistics.mean);
  hd__xxh3_update(sum, data->statistics.std, sizeof data->statistics.std);
  add_columns(sum, data);
}

/* Each parameter that the front reads. */
static void add_weights(hd_xxh3 *sum, const hd_session *s) {
  const hd_graph *graph = s->compute.front->graph;
  const float *weights = s->compute.store->weights[hd__store_buffer(s->compute.store)];
  for (const hd_node *node = graph->nodes; node < graph->nodes + graph->node_count; node++)
    for (int k = 0; k < HD_MAX_IN; k++) {
      const int p = node->in[k] < 0 ? -1 : graph->values[node->in[k]].param;
      if (p >= 0)
        hd__xxh3_update(sum, weights + s->compute.front->params[p].offset,
                        (size_t)hd__param_elems(&graph->params[p]) * sizeof *weights);
    }
}

/* Of all that features depend on. */
static hd_status find_key(uint64_t *key, const hd_session *s, hd_ctx *ctx) {
  hd_xxh3 *sum = hd__xxh3_create();
  HD_TRY(HD_ALLOCATED(sum, ctx, "out of memory for features"));
  add_text(sum, s->run.network.text);
  add_text(sum, s->run.settings->transforms);
  add_text(sum, s->run.settings->eval_transforms);
  add_numbers(sum, s);
  add_weights(sum, s);
  *key = hd__xxh3_finish(sum);
  return HD_OK;
}

/* Maps the file; the host's leader reads it whole for its checksum. */
static bool map_file(session_features *kept, const char *path, const head *want, bool checks) {
  hd_ctx quiet = {0};
  head found;
  hd__file_unmap(&kept->file);
  bool whole = hd__file_map_guarded(&kept->file, &quiet, path) == HD_OK &&
               kept->file.length == sizeof found + (size_t)want->bytes;
  if (whole) {
    memcpy(&found, kept->file.bytes, sizeof found);
    whole = found.magic == magic && found.key == want->key && found.bytes == want->bytes;
    whole = whole && (!checks || hd__xxh3(kept->file.bytes + sizeof found, (size_t)want->bytes) == found.checksum);
  }
  if (!whole)
    hd__file_unmap(&kept->file);
  return whole;
}

/* Whether all ranks of all hosts have it. */
static hd_status all_have(bool *all, const hd_session *s, hd_ctx *ctx, bool here) {
  const hd_local_group *local = s->compute.local;
  const int ranks = hd__cluster_ranks(local);
  const int32_t mine = here;
  HD_OWNED int32_t *each = hd__malloc((size_t)ranks * sizeof *each);
  HD_TRY(HD_ALLOCATED(each, ctx, "out of memory for features"));
  HD_TRY(hd__cluster_gather(each, s->compute.local, ctx, &mine, sizeof mine));
  *all = true;
  for (int i = 0; i < ranks; i++)
    *all = *all && each[i];
  return HD_OK;
}

typedef struct writing {
  hd_session *session;
  head head;
} writing;

static hd_status write_all(FILE *to, hd_ctx *ctx, void *arg) {
  writing *w = arg;
  sink disk = {.to = to, .sum = hd__xxh3_create()};
  hd_status status = HD_ALLOCATED(disk.sum, ctx, "out of memory for features");
  hd__file_guard(to);
  fseek(to, (long)sizeof w->head, SEEK_SET);
  HD_THEN(status, compute(w->session, ctx, &disk));
  w->head.checksum = hd__xxh3_finish(disk.sum);
  rewind(to);
  fwrite(&w->head, sizeof w->head, 1, to);
  return status;
}

static hd_status make_file(hd_session *s, hd_ctx *ctx, const char *folder, const char *path, const head *h) {
  if (hd__local_group_rank(s->compute.local) != 0)
    return compute(s, ctx, &(sink){0});
  HD_TRY(hd__file_make_folder(ctx, folder));
  return hd__file_write_cache(ctx, path, write_all, &(writing){s, *h});
}

static hd_status keep_on_disk(hd_session *s, hd_ctx *ctx, int64_t bytes) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES];
  session_features *kept = &s->input.features;
  head h = {.magic = magic, .bytes = bytes};
  const bool leads = hd__local_group_rank(s->compute.local) == 0;
  bool all;
  HD_TRY(find_key(&h.key, s, ctx));
  HD_TRY(hd__cache_file_path(path, folder, ctx, "features", h.key));
  HD_TRY(all_have(&all, s, ctx, map_file(kept, path, &h, leads)));
  if (!all) {
    hd__file_unmap(&kept->file);
    HD_TRY(make_file(s, ctx, folder, path, &h));
    HD_TRY(hd__local_group_barrier(s->compute.local, ctx));
    HD_TRY(all_have(&all, s, ctx, map_file(kept, path, &h, leads)));
  }
  if (all)
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected the features that were just written, found others; check the disk, or use "
                  "--keep-features no",
                  path);
}

/* ---- Keeping ---- */

static void note(hd_session *s, int64_t bytes) {
  const session_features *kept = &s->input.features;
  snprintf(
      s->report.features_note, sizeof s->report.features_note,
      "the frozen layers up to '%s' are computed once for each sample%s, not in every epoch: %.3g MB of features%s",
      kept->layer, s->input.train.views > 0 ? "'s view" : "", (double)bytes * 1e-6,
      kept->on_disk ? " in the cache on disk" : "");
}

hd_status hd__features_keep(hd_session *s, hd_ctx *ctx) {
  session_features *kept = &s->input.features;
  hd_feed *feed[PARTS];
  const int64_t bytes = all_rows(s) * kept->elems * (int64_t)sizeof(float);
  if (s->compute.cut < 0)
    return HD_OK;
  if (kept->cut != s->compute.cut + 1) {
    hd__kept_features_fini(kept);
    if (!kept->on_disk)
      HD_TRY(hd__local_group_memory(&kept->memory, s->compute.local, ctx, (size_t)bytes, "features"));
    HD_TRY(kept->on_disk ? keep_on_disk(s, ctx, bytes) : compute(s, ctx, &(sink){.memory = kept->memory.base}));
    kept->cut = s->compute.cut + 1;
    note(s, bytes);
  }
  const float *at = kept->on_disk ? (const float *)(const void *)(kept->file.bytes + sizeof(head)) : kept->memory.base;
  list_feeds(feed, s);
  for (int i = 0; i < PARTS; i++) {
    feed[i]->features = (hd_kept_values){at, kept->elems};
    at += rows_of(feed[i]) * kept->elems;
  }
  return HD_OK;
}

void hd__kept_features_fini(session_features *kept) {
  hd__segment_destroy(&kept->memory);
  hd__file_unmap(&kept->file);
  kept->memory = (hd_segment){0};
  kept->cut = 0;
}
