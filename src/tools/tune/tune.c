/* The thread-count experiment: see heddle/tune.h. */
#include "heddle/tune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "platform/cpu_claim.h"
#include "platform/clock.h"
#include "platform/cpu_load.h"
#include "platform/machine.h"
#include "train/run/thread_count.h"
#include "train/run/rehearsal.h"
#include "train/run/session.h"
#include "tools/tune/scaling.h"

/* A turn is long enough for threads to settle, short enough for many. */
static const double LEAST_TURN_S = 0.02, MOST_TURN_S = 0.5, TURNS_WANTED = 15;
/* Speeds closer than this are the same: then fewer threads are better. */
static const double SAME = 0.01;

enum { LISTED = -1, ANY = -2, PROOF_STEPS = 20, ALL_UP_TO = 8, MAX_TURNS = 1000, MOST_WORKERS = 4 };

typedef struct experiment {
  hd_session *session;
  const hd_config *config;
  uint32_t sweep;
  hd_placement_request wanted; /* of the configuration */
  hd_topology *machine;
  hd_claim claim; /* keeps other jobs off these CPUs meanwhile */
  hd_placement *place[HD_TUNE_MAX_SETTINGS];
  hd_rehearsal *rehearsal[HD_TUNE_MAX_SETTINGS];
  double *speed[HD_TUNE_MAX_SETTINGS]; /* MAX_TURNS each */
  int turns;
  hd_cpu_load before;
  hd_tune *out;
} experiment;

/* ---- Settings ---- */

static bool same_places(const hd_placement *a, const hd_placement *b) {
  bool same = a->threads == b->threads;
  for (int i = 0; same && i < a->threads; i++)
    same = a->thread[i].cpu == b->thread[i].cpu;
  return same;
}

/* Takes over the placement. */
static hd_status add_setting(experiment *e, hd_ctx *ctx, hd_placement *place, int policy) {
  hd_tune *t = e->out;
  for (int i = 0; i < t->count; i++) {
    if (place->workers != e->place[i]->workers || !same_places(place, e->place[i]))
      continue;
    t->settings[i].same |= policy >= 0 ? 1u << policy : 0;
    hd_placement_destroy(place);
    return HD_OK;
  }
  if (t->count == HD_TUNE_MAX_SETTINGS) {
    hd_placement_destroy(place);
    return hd__fail(ctx, HD_E_USAGE,
                    "expected at most %d settings to measure, found more; leave placement or workers out of --sweep",
                    HD_TUNE_MAX_SETTINGS);
  }
  e->place[t->count] = place;
  t->settings[t->count++] =
      (hd_tune_setting){.threads = place->threads, .workers = place->workers, .placement = policy};
  return HD_OK;
}

/* Adds threads and workers in every placement tried. */
static hd_status add_places(experiment *e, hd_ctx *ctx, int threads, int workers) {
  hd_placement_request request = e->wanted;
  const bool all = e->sweep & HD_TUNE_PLACEMENT;
  request.threads = threads;
  request.workers = workers;
  for (int p = 0; p < HD_PLACEMENT_POLICIES; p++) {
    hd_placement *place;
    if (!all && p != (int)e->wanted.policy)
      continue;
    request.policy = (hd_placement_choice)p;
    HD_TRY(hd__placement_create(&place, ctx, e->machine, &request));
    HD_TRY(add_setting(e, ctx, place, request.cpus ? LISTED : p));
  }
  return HD_OK;
}

static hd_status add_threads(experiment *e, hd_ctx *ctx, int threads) {
  if (!(e->sweep & HD_TUNE_WORKERS))
    return add_places(e, ctx, threads, e->wanted.workers);
  for (int workers = 0; workers <= MOST_WORKERS && workers <= e->out->cpus; workers += workers > 0 ? workers : 1)
    HD_TRY(add_places(e, ctx, threads, workers));
  return HD_OK;
}

/* Every number on small machines; on large ones powers of two and quarters of the CPUs. */
static hd_status choose_settings(experiment *e, hd_ctx *ctx) {
  const int cpus = e->out->cpus;
  HD_TRY(add_threads(e, ctx, 1));
  for (int n = 2; n <= cpus && (e->sweep & HD_TUNE_THREADS); n++) {
    bool power = (n & (n - 1)) == 0, quarter = n % ((cpus + 3) / 4) == 0;
    if (cpus <= ALL_UP_TO || power || quarter || n == cpus)
      HD_TRY(add_threads(e, ctx, n));
  }
  if (e->sweep & HD_TUNE_THREADS)
    return HD_OK;
  hd_placement *place;
  HD_TRY(hd__placement_create(&place, ctx, e->machine, &e->wanted));
  const int threads = place->threads;
  hd_placement_destroy(place);
  return threads > 1 ? add_threads(e, ctx, threads) : HD_OK;
}

static hd_status choose_sweep(experiment *e, hd_ctx *ctx, uint32_t sweep) {
  const bool placed = hd__config_given(e->config, HD_OPT_PLACEMENT), listed = *hd__settings(e->config)->cpus;
  e->sweep = sweep ? sweep : HD_TUNE_THREADS | (placed || listed ? 0 : HD_TUNE_PLACEMENT);
  e->wanted = hd__config_placement(e->config);
  if (e->wanted.threads == 0)
    e->wanted.threads = ctx->threads;
  if (e->sweep & ~(uint32_t)(HD_TUNE_THREADS | HD_TUNE_PLACEMENT | HD_TUNE_WORKERS))
    return hd__fail(ctx, HD_E_USAGE, "expected a sweep over threads, placement and workers, found %u", sweep);
  if ((e->sweep & HD_TUNE_WORKERS) && hd__config_given(e->config, HD_OPT_WORKERS))
    return hd__fail(ctx, HD_E_USAGE,
                    "a sweep over workers chooses them itself, found --workers; leave one of them out");
  if ((e->sweep & HD_TUNE_PLACEMENT) && (placed || listed))
    return hd__fail(ctx, HD_E_USAGE, "a sweep over placement chooses it itself, found --%s; leave one of them out",
                    listed ? "cpus" : "placement");
  return HD_OK;
}

static hd_status open_rehearsals(experiment *e, hd_ctx *ctx) {
  for (int i = 0; i < e->out->count; i++) {
    const int count = e->out->settings[i].threads;
    hd_threads *threads;
    e->speed[i] = hd__calloc(MAX_TURNS, sizeof **e->speed);
    HD_TRY(HD_ALLOCATED(e->speed[i], ctx, "out of memory for the experiment"));
    HD_TRY(hd__threads_create(&threads, ctx, e->place[i]));
    HD_TRY(hd__rehearsal_create(&e->rehearsal[i], ctx, e->session, threads, e->out->settings[i].workers));
    if (hd__rehearsal_threads(e->rehearsal[i]) != count)
      return hd__fail(ctx, HD_E_SYSTEM, "OMP_THREAD_LIMIT allows %d of %d threads; raise or unset it",
                      hd__rehearsal_threads(e->rehearsal[i]), count);
  }
  return HD_OK;
}

/* ---- Proof and measurement ---- */

static const char *places(const hd_tune *t, int setting) {
  const int placement = t->settings[setting].placement;
  return placement == LISTED ? "cpus" : hd_choice_name(HD_OPT_PLACEMENT, placement);
}

/* Proves that every setting trains the same steps to the same weights. */
static hd_status prove(experiment *e, hd_ctx *ctx) {
  hd_tune *t = e->out;
  char digest[HD_SHA256_TEXT_BYTES];
  t->proof_steps = PROOF_STEPS;
  for (int i = 0; i < t->count; i++) {
    HD_TRY(hd__rehearsal_steps(e->rehearsal[i], ctx, PROOF_STEPS));
    HD_TRY(hd__rehearsal_digest(digest, e->rehearsal[i], ctx));
    if (i == 0)
      memcpy(t->weights_sha256, digest, sizeof digest);
    else if (strcmp(t->weights_sha256, digest))
      return hd__fail(ctx, HD_E_SYSTEM,
                      "expected one digest, found %.12s with %d threads (%s) and %.12s with %d (%s, %d workers); "
                      "memory or CPU may be faulty, else please report it",
                      t->weights_sha256, t->settings[0].threads, places(t, 0), digest, t->settings[i].threads,
                      places(t, i), t->settings[i].workers);
  }
  return HD_OK;
}

static hd_status take_turn(experiment *e, hd_ctx *ctx, double seconds) {
  for (int k = 0; k < e->out->count; k++) {
    int i = e->turns % 2 ? e->out->count - 1 - k : k; /* forward and backward, so that a drift affects all settings
                                                         equally */
    HD_TRY(hd__rehearsal_time(&e->speed[i][e->turns], e->rehearsal[i], ctx, seconds));
  }
  e->turns++;
  return HD_OK;
}

static hd_status measure(experiment *e, hd_ctx *ctx, const hd_tune_request *request) {
  const double seconds = request->seconds, start = hd__clock_s();
  double turn = seconds / TURNS_WANTED / e->out->count;
  turn = fmin(fmax(turn, LEAST_TURN_S), MOST_TURN_S);
  bool stop = false;
  while (!stop && e->turns < MAX_TURNS && (e->turns < 3 || hd__clock_s() - start < seconds)) {
    HD_TRY(take_turn(e, ctx, turn));
    stop = request->progress && request->progress(request->user, hd__clock_s() - start, seconds);
  }
  return HD_OK;
}

/* ---- Results ---- */

/* Whether the setting stands for this placement, and has this number of workers; -1: any. */
static bool is_such(const hd_tune_setting *s, int placement, int workers) {
  return (workers < 0 || s->workers == workers) &&
         (s->placement == placement || (placement >= 0 && s->same >> placement & 1));
}

/* The fastest setting of a placement (ANY: of all); of those that are statistically equal, the one with the fewest
 * threads. */
static int best_of(const hd_tune *t, int placement, int workers) {
  double most = 0;
  int best = 0;
  for (int i = 0; i < t->count; i++)
    if (placement == ANY || is_such(&t->settings[i], placement, workers))
      most = fmax(most, t->settings[i].samples_per_s);
  while ((placement != ANY && !is_such(&t->settings[best], placement, workers)) ||
         t->settings[best].samples_per_s < most * (1 - SAME))
    best++;
  return best;
}

static void fit_law(hd_tune *t, int placement, int workers) {
  int32_t threads[HD_TUNE_MAX_SETTINGS];
  double speed[HD_TUNE_MAX_SETTINGS];
  int count = 0;
  for (int i = 0; i < t->count; i++)
    if (is_such(&t->settings[i], placement, workers)) {
      threads[count] = t->settings[i].threads;
      speed[count++] = t->settings[i].samples_per_s;
    }
  hd_law law = hd__fit_law(threads, speed, count);
  t->amdahl = law.amdahl;
  t->contention = law.contention;
  t->coherence = law.coherence;
  t->predicted_best = law.best;
}

static void conclude(experiment *e) {
  hd_tune *t = e->out;
  for (int i = 0; i < t->count; i++) {
    hd_tune_setting *s = &t->settings[i];
    hd_median m = hd__median(e->speed[i], e->turns);
    s->turns = e->turns;
    s->samples_per_s = m.value;
    s->low = m.low;
    s->high = m.high;
    s->speedup = m.value / t->settings[0].samples_per_s;
    s->efficiency = s->speedup / s->threads;
  }
  t->best = best_of(t, ANY, -1);
  fit_law(t, t->settings[t->best].placement, t->settings[t->best].workers);
}

/* A busy machine: others kept more than a tenth of the CPUs busy, beyond what the system's clock counts wrong. */
static void look_at_load(experiment *e, double seconds) {
  const double share = 0.1, tick_s = 0.02, cpus = e->before.cpus;
  e->out->load = hd__cpu_load_others(&e->before);
  e->out->busy = e->out->load > cpus * (share + tick_s / seconds);
}

/* Stores the best of each placement for configurations that request it, and the best of all for the others; with the
 * number of workers of the first settings, the smallest. */
static void remember(const experiment *e) {
  const hd_tune *t = e->out;
  if (!(e->sweep & HD_TUNE_THREADS) || e->wanted.cpus || t->busy)
    return;
  for (int p = 0; p < HD_PLACEMENT_POLICIES; p++) {
    if (!(e->sweep & HD_TUNE_PLACEMENT) && p != (int)e->wanted.policy)
      continue;
    const hd_tune_setting *s = &t->settings[best_of(t, p, t->settings[0].workers)];
    const hd_best best = {s->threads, (hd_placement_choice)p, s->samples_per_s, t->load, ""};
    hd__best_threads_remember(e->session, hd_choice_name(HD_OPT_PLACEMENT, p), &best);
    if (!hd__config_given(e->config, HD_OPT_PLACEMENT) && p == t->settings[t->best].placement)
      hd__best_threads_remember(e->session, NULL, &best);
  }
}

/* ---- Run ---- */

static void describe(hd_tune *t, const hd_session *s) {
  snprintf(t->model, sizeof t->model, "%s", s->report.facts.model);
  snprintf(t->data, sizeof t->data, "%s", s->report.facts.data);
  snprintf(t->isa, sizeof t->isa, "%s", s->report.facts.isa);
  hd__cpu_name(t->cpu, sizeof t->cpu);
  t->batch = s->report.facts.batch;
  t->cpus = s->report.facts.cpus;
}

/* Unbinds the session's threads first, so that they do not count as holders of their CPUs. */
static hd_status prepare_machine(experiment *e, hd_ctx *ctx) {
  hd__threads_unbind(e->session->compute.threads);
  HD_TRY(hd_topology_create(&e->machine, ctx));
  HD_TRY(choose_settings(e, ctx));
  (void)hd__claim_take(&e->claim, e->place[e->out->count - 1]);
  return HD_OK;
}

static hd_status run(experiment *e, hd_ctx *ctx, const hd_tune_request *request) {
  hd_session *s = e->session;
  hd__feed_shuffle(&s->input.train, (uint64_t)s->report.facts.seed, 0);
  describe(e->out, s);
  HD_TRY(prepare_machine(e, ctx));
  HD_TRY(open_rehearsals(e, ctx));
  HD_TRY(prove(e, ctx));
  hd__cpu_load_now(&e->before);
  HD_TRY(measure(e, ctx, request));
  look_at_load(e, hd__clock_s() - e->before.at_s);
  conclude(e);
  remember(e);
  return HD_OK;
}

/* With one thread: the session itself does not train, and "auto" must not search. */
static hd_status open_session(hd_session **out, hd_ctx *ctx, const hd_config *config) {
  hd_config *copy;
  HD_TRY(hd__config_copy(&copy, ctx, config));
  hd_status status = hd_config_set(copy, ctx, "threads", "1");
  HD_THEN(status, hd__session_create(out, ctx, copy, &(hd_session_use){.rehearses = true, .lock = -1}));
  hd_config_destroy(copy);
  return status;
}

static hd_status tune(hd_tune *out, hd_ctx *ctx, const hd_config *config, const hd_tune_request *request) {
  double start = hd__clock_s();
  if (!(request->seconds >= 0.1) || request->seconds > 86400)
    return hd__fail(ctx, HD_E_USAGE, "expected 0.1 to 86400 seconds, found %g", request->seconds);
  experiment e = {.out = out, .config = config};
  HD_TRY(choose_sweep(&e, ctx, request->sweep));
  HD_TRY(hd__rehearsal_check(ctx, config));
  HD_TRY(open_session(&e.session, ctx, config));
  hd_status status = run(&e, ctx, request);
  for (int i = 0; i < HD_TUNE_MAX_SETTINGS; i++) {
    hd__rehearsal_destroy(e.rehearsal[i]);
    hd_placement_destroy(e.place[i]);
    hd__free(e.speed[i]);
  }
  hd__claim_drop(&e.claim);
  hd_topology_destroy(e.machine);
  hd_session_destroy(e.session);
  out->seconds = hd__clock_s() - start;
  return status;
}

hd_status hd_tune_run(hd_tune *out, hd_ctx *ctx, const hd_config *config, const hd_tune_request *request) {
  hd_tune result = {0};
  hd_tune_request wanted;
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_tune"));
  HD_TRY(hd__struct_read(&wanted, ctx, request, sizeof wanted, "hd_tune_request"));
  const hd_status status = tune(&result, ctx, config, &wanted);
  hd__struct_write(out, &result, sizeof result);
  return status;
}

double hd_tune_predict(const hd_tune *tune, double threads) {
  return hd__law_speedup(&(hd_law){.contention = tune->contention, .coherence = tune->coherence}, threads);
}
