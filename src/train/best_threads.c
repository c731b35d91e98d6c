/* Remembering and finding the best number of threads: see best_threads.h. */
#include "train/best_threads.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "graph/op.h"
#include "sys/clock.h"
#include "sys/cpu_name.h"
#include "sys/file.h"
#include "train/rehearsal.h"
#include "train/scaling.h"

static const double SEARCH_S = 0.3, TURN_S = 0.015, WORTH_S = 5;
/* A second, on one core: outputs that nobody reads and zero gradients are left out, so that dense counts pass the peak. */
static const double FAST_FLOPS = 300e9;

enum { KEY_BYTES = 512, CANDIDATES = 5, MAX_TURNS = 16 };

static hd_status path_of(char path[HD_PATH_BYTES], char folder[HD_PATH_BYTES]) {
  const char *own = getenv("HEDDLE_CACHE"), *home = getenv("HOME");
  if ((!own || !*own) && (!home || !*home))
    return HD_E_IO;
  snprintf(folder, HD_PATH_BYTES, "%s%s", own && *own ? own : home, own && *own ? "" : "/.cache/heddle");
  return hd__file_join(path, NULL, folder, "threads.json");
}

/* What the best number depends on. */
static void key_of(char key[KEY_BYTES], const hd_session *s) {
  char digest[HD_SHA256_HEX_BYTES], cpu[128];
  hd_sha256 *sha = hd__sha256_create();
  snprintf(digest, sizeof digest, "?");
  if (sha) {
    hd__sha256_update(sha, s->network.text, s->network.length);
    hd__sha256_finish(sha, digest);
  }
  hd__cpu_name(cpu, sizeof cpu);
  snprintf(key, KEY_BYTES, "%.64s %.12s, batch %lld in %lld shards and %lld parts, %s, %.16s on %d CPUs of %s",
           s->network.name, digest, (long long)s->batch, (long long)s->report.shards, (long long)s->report.accumulate,
           s->kernels->isa, hd__config_text(s->config, HD_OPT_placement), hd__lanes_cpus(s->lanes), cpu);
}

static json_t *read_all(const char *path) {
  json_t *all = json_load_file(path, 0, NULL);
  if (json_is_object(all))
    return all;
  json_decref(all);
  return json_object();
}

int hd__best_threads_recall(const hd_session *s) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES], key[KEY_BYTES];
  if (path_of(path, folder) != HD_OK)
    return 0;
  key_of(key, s);
  json_t *all = read_all(path);
  json_int_t threads = json_integer_value(json_object_get(json_object_get(all, key), "threads"));
  json_decref(all);
  return threads >= 1 && threads <= hd__lanes_cpus(s->lanes) ? (int)threads : 0;
}

static hd_status write_all(FILE *to, hd_ctx *ctx, void *all) {
  return json_dumpf(all, to, JSON_INDENT(1) | JSON_SORT_KEYS) ? HD_E_IO : HD_OK;
}

void hd__best_threads_remember(const hd_session *s, int threads, double samples_per_s) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES], key[KEY_BYTES];
  if (path_of(path, folder) != HD_OK || hd__file_make_folder(NULL, folder) != HD_OK)
    return;
  key_of(key, s);
  json_t *all = read_all(path);
  json_t *entry = json_pack("{s:i, s:f}", "threads", threads, "samples_per_s", round(samples_per_s));
  json_object_set_new(all, key, entry);
  (void)hd__file_write(NULL, path, write_all, all);
  json_decref(all);
}

/* Fewer and fewer threads, down to one. */
static int choose_candidates(int candidate[CANDIDATES], int most) {
  int count = 0;
  for (int n = most; n >= 1 && count < CANDIDATES - 1; n = n * 2 / 3)
    candidate[count++] = n;
  if (candidate[count - 1] != 1)
    candidate[count++] = 1;
  return count;
}

/* Times the candidates in turns until the time is over; the best median. */
static hd_status search(int *best, double *speed, hd_session *s, hd_ctx *ctx, hd_rehearsal **rehearsal,
                        const int *candidate, int count) {
  double measured[CANDIDATES][MAX_TURNS], end = hd__clock_s() + SEARCH_S;
  int turns = 0;
  for (int i = 0; i < count; i++)
    if (!rehearsal[i])
      HD_TRY(hd__rehearsal_create(&rehearsal[i], ctx, s, candidate[i]));
  for (; turns < MAX_TURNS && (turns < 1 || hd__clock_s() < end); turns++)
    for (int i = 0; i < count; i++)
      HD_TRY(hd__rehearsal_time(&measured[i][turns], rehearsal[i], ctx, TURN_S));
  *best = 0;
  for (int i = 0; i < count; i++) {
    double median = hd__median(measured[i], turns).value;
    if (*best && median <= *speed)
      continue;
    *best = candidate[i];
    *speed = median;
  }
  return HD_OK;
}

/* What the run cannot be faster than, by its floating-point operations, were it to keep a fast core busy on each lane:
 * short runs are told from it without a step. */
static double least_seconds(const hd_session *s) {
  double flops = 0, samples = (double)((s->steps_in_all - s->counters.step) * s->batch);
  for (int i = 0; i < s->plan->graph->node_count; i++) {
    const hd_node *node = &s->plan->graph->nodes[i];
    flops += (double)hd__op_flops(node->op, &node->geom);
  }
  return flops * samples / (FAST_FLOPS * hd__lanes_count(s->lanes));
}

int hd__best_threads_search(hd_session *s, hd_ctx *ctx) {
  int candidate[CANDIDATES], most = hd__lanes_count(s->lanes), best = 0;
  int count = choose_candidates(candidate, most);
  hd_rehearsal *rehearsal[CANDIDATES] = {NULL};
  double speed = 0, left = (double)((s->steps_in_all - s->counters.step) * s->batch);
  if (most == 1 || least_seconds(s) < WORTH_S / 5)
    return 0;
  hd__feed_shuffle(&s->train_feed, (uint64_t)s->report.seed, 0);
  s->shuffled_epoch = 0;
  hd_status status = hd__rehearsal_create(&rehearsal[0], ctx, s, most);
  if (status == HD_OK)
    status = hd__rehearsal_time(&speed, rehearsal[0], ctx, 0);
  if (status == HD_OK && left / speed > WORTH_S)
    status = search(&best, &speed, s, ctx, rehearsal, candidate, count);
  for (int i = 0; i < count; i++)
    hd__rehearsal_destroy(rehearsal[i]);
  if (status != HD_OK)
    return 0;
  if (best)
    hd__best_threads_remember(s, best, speed);
  return best;
}
