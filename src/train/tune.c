/* The thread-count experiment: see heddle/tune.h. */
#include "heddle/tune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sys/clock.h"
#include "sys/cpu_name.h"
#include "train/best_threads.h"
#include "train/rehearsal.h"
#include "train/scaling.h"

/* A turn is long enough for lanes to settle, short enough for many. */
static const double LEAST_TURN_S = 0.02, MOST_TURN_S = 0.5, TURNS_WANTED = 15;
/* Speeds closer than this are the same: then fewer threads are better. */
static const double SAME = 0.01;

enum { PROOF_STEPS = 20, ALL_UP_TO = 8, MAX_TURNS = 1000 };

typedef struct experiment {
  hd_session *session;
  hd_rehearsal *rehearsal[HD_TUNE_MAX_SETTINGS];
  double *speed[HD_TUNE_MAX_SETTINGS]; /* MAX_TURNS each */
  int turns;
  hd_tune *out;
} experiment;

static void add_threads(hd_tune *t, int threads) {
  if (threads < 1 || t->count == HD_TUNE_MAX_SETTINGS || (t->count && t->settings[t->count - 1].threads >= threads))
    return;
  t->settings[t->count++] = (hd_tune_setting){.threads = threads};
}

/* Every number on small machines; on large ones powers of two and the quarters of what there is. */
static void choose_settings(hd_tune *t) {
  for (int n = 1; n <= t->cpus; n++) {
    bool power = (n & (n - 1)) == 0, quarter = n % ((t->cpus + 3) / 4) == 0;
    if (t->cpus <= ALL_UP_TO || power || quarter || n == t->cpus)
      add_threads(t, n);
  }
}

static hd_status open_rehearsals(experiment *e, hd_ctx *ctx) {
  for (int i = 0; i < e->out->count; i++) {
    hd_tune_setting *s = &e->out->settings[i];
    e->speed[i] = hd__calloc(MAX_TURNS, sizeof **e->speed);
    if (!e->speed[i])
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for the experiment");
    HD_TRY(hd__rehearsal_create(&e->rehearsal[i], ctx, e->session, s->threads));
    if (hd__rehearsal_threads(e->rehearsal[i]) != s->threads)
      return hd__fail(ctx, HD_E_SYSTEM, "expected %d threads, the OpenMP runtime delivered %d; raise OMP_THREAD_LIMIT",
                      s->threads, hd__rehearsal_threads(e->rehearsal[i]));
  }
  return HD_OK;
}

/* Every setting trains the same steps to the same weights. */
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
      return hd__fail(
          ctx, HD_E_SYSTEM,
          "expected one digest, found %.12s with %d threads and %.12s with %d; memory or CPU may be faulty, "
          "else please report it",
          t->weights_sha256, t->settings[0].threads, digest, t->settings[i].threads);
  }
  return HD_OK;
}

static hd_status take_turn(experiment *e, hd_ctx *ctx, double seconds) {
  for (int k = 0; k < e->out->count; k++) {
    int i = e->turns % 2 ? e->out->count - 1 - k : k; /* forth and back: a drift hits all alike */
    HD_TRY(hd__rehearsal_time(&e->speed[i][e->turns], e->rehearsal[i], ctx, seconds));
  }
  e->turns++;
  return HD_OK;
}

static hd_status measure(experiment *e, hd_ctx *ctx, double seconds, hd_tune_progress_fn *progress, void *user) {
  double start = hd__clock_s(), turn = seconds / TURNS_WANTED / e->out->count;
  turn = fmin(fmax(turn, LEAST_TURN_S), MOST_TURN_S);
  bool stop = false;
  while (!stop && e->turns < MAX_TURNS && (e->turns < 3 || hd__clock_s() - start < seconds)) {
    HD_TRY(take_turn(e, ctx, turn));
    stop = progress && progress(user, hd__clock_s() - start, seconds);
  }
  return HD_OK;
}

static void conclude(experiment *e) {
  hd_tune *t = e->out;
  int32_t threads[HD_TUNE_MAX_SETTINGS];
  double speed[HD_TUNE_MAX_SETTINGS], most = 0;
  for (int i = 0; i < t->count; i++) {
    hd_tune_setting *s = &t->settings[i];
    hd_median m = hd__median(e->speed[i], e->turns);
    s->turns = e->turns;
    s->samples_per_s = m.value;
    s->low = m.low;
    s->high = m.high;
    s->speedup = m.value / t->settings[0].samples_per_s;
    s->efficiency = s->speedup / s->threads;
    threads[i] = s->threads;
    speed[i] = m.value;
    most = fmax(most, m.value);
  }
  while (speed[t->best] < most * (1 - SAME))
    t->best++;
  hd_law law = hd__fit_law(threads, speed, t->count);
  t->amdahl = law.amdahl;
  t->contention = law.contention;
  t->coherence = law.coherence;
  t->predicted_best = law.best;
}

static hd_status run(experiment *e, hd_ctx *ctx, double seconds, hd_tune_progress_fn *progress, void *user) {
  hd_tune *t = e->out;
  hd_session *s = e->session;
  hd__feed_shuffle(&s->train_feed, (uint64_t)s->report.seed, 0);
  snprintf(t->model, sizeof t->model, "%s", s->report.model);
  snprintf(t->data, sizeof t->data, "%s", s->report.data);
  snprintf(t->isa, sizeof t->isa, "%s", s->report.isa);
  hd__cpu_name(t->cpu, sizeof t->cpu);
  t->batch = s->report.batch;
  t->cpus = s->report.cpus;
  choose_settings(t);
  HD_TRY(open_rehearsals(e, ctx));
  HD_TRY(prove(e, ctx));
  HD_TRY(measure(e, ctx, seconds, progress, user));
  conclude(e);
  hd__best_threads_remember(s, t->settings[t->best].threads, t->settings[t->best].samples_per_s);
  return HD_OK;
}

/* On one thread: the session itself does not train, and "auto" must not search. */
static hd_status open_session(hd_session **out, hd_ctx *ctx, const hd_config *config) {
  hd_config *copy;
  HD_TRY(hd__config_copy(&copy, ctx, config));
  hd_status status = hd_config_set(copy, ctx, "threads", "1");
  if (status == HD_OK)
    status = hd__session_rehearse(out, ctx, copy);
  hd_config_destroy(copy);
  return status;
}

hd_status hd_tune_run(hd_tune *out, hd_ctx *ctx, const hd_config *config, double seconds, hd_tune_progress_fn *progress,
                      void *user) {
  double start = hd__clock_s();
  *out = (hd_tune){0};
  if (!(seconds >= 0.1) || seconds > 86400)
    return hd__fail(ctx, HD_E_USAGE, "expected 0.1 to 86400 seconds, found %g", seconds);
  experiment e = {.out = out};
  HD_TRY(open_session(&e.session, ctx, config));
  hd_status status = run(&e, ctx, seconds, progress, user);
  for (int i = 0; i < HD_TUNE_MAX_SETTINGS; i++) {
    hd__rehearsal_destroy(e.rehearsal[i]);
    hd__free(e.speed[i]);
  }
  hd_session_destroy(e.session);
  out->seconds = hd__clock_s() - start;
  return status;
}

double hd_tune_predict(const hd_tune *tune, double threads) {
  return hd__law_speedup(&(hd_law){.contention = tune->contention, .coherence = tune->coherence}, threads);
}
