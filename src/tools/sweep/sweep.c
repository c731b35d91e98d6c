/* Sweeps: see heddle/sweep.h.
 *
 * The folder is the queue. A job takes a run that has not ended by locking the run's folder, checks again whether it
 * has ended, and trains it under that lock; so a run has one writer at a time, on any number of hosts, and the lock of
 * a killed process is free. Rounds of successive halving are logical: the runs that continue are chosen from the
 * results of all runs of a round, which no process changes before round-N.json names them.
 *
 * A job has one thread unless the option threads says more: a run on one thread waits at no barrier, so one run per CPU
 * gives the most runs a second, if there are enough runs. Each session binds its thread to a core that no other job of
 * the machine has claimed, which also works between processes. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "base/rounding.h"
#include "base/sized_struct.h"
#include "platform/clock.h"
#include "tools/sweep/sweep_source.h"
#include "train/checkpoint/saver.h"

/* ---- Jobs ---- */

typedef struct job {
  hd_sweep *sweep;
  hd_ctx ctx;
  hd_session *session;
  int number;
  hd_thread thread;
} job;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); }

/* The last step of a run in the present round; 0 without successive halving: its end. */
static int64_t target_of(const hd_sweep *s, int64_t run) {
  int64_t whole = s->run[run].steps;
  const double part = pow((double)s->halving, s->rounds - 1 - s->round);
  return !s->halving ? 0 : whole < part ? 1 : (int64_t)floor((double)whole / part + 0.5);
}

static void on_step(void *user, const hd_event *event) {
  const job *j = user;
  if (event->kind == HD_EVENT_STEP && atomic_load(&j->sweep->stop))
    hd_session_stop(j->session);
}

/* The settings of a run in its folder, from its last checkpoint if it has one. */
static hd_status configure(hd_config **out, job *j, int64_t run, const char *folder) {
  const hd_sweep *s = j->sweep;
  char from[HD_PATH_BYTES], cpus[512] = "";
  size_t at = 0;
  hd_status status = hd__sweep_config(out, &j->ctx, s, run);
  HD_THEN(status, hd_config_set_text(*out, &j->ctx, HD_OPT_OUT, folder));
  HD_THEN(status, hd_config_set_int(*out, &j->ctx, HD_OPT_THREADS, s->threads));
  for (int i = 0; i < s->threads && s->cpus > 0 && at < sizeof cpus; i++)
    at += (size_t)snprintf(cpus + at, sizeof cpus - at, "%s%d", i ? "," : "",
                           s->cpu[(j->number * s->threads + i) % s->cpus]);
  if (*cpus)
    HD_THEN(status, hd_config_set_text(*out, &j->ctx, HD_OPT_CPUS, cpus));
  if (s->halving)
    HD_THEN(status, hd_config_set_int(*out, &j->ctx, HD_OPT_MAX_STEPS, target_of(s, run)));
  HD_THEN(status, hd__steps_resumed(from, &j->ctx, folder));
  if (status == HD_OK && *from) {
    status = hd_config_set_text(*out, &j->ctx, HD_OPT_RESUME, from);
    HD_THEN(status, hd__sweep_check_run(s, &j->ctx, run, folder));
  }
  return status;
}

/* Trains a run whose folder is locked, and releases the lock. */
static hd_status train(job *j, int64_t run, const char *folder, int lock) {
  HD_CONFIG_OWNED *config = NULL;
  const hd_status status = configure(&config, j, run, folder);
  if (status != HD_OK) {
    hd__file_unlock(&lock);
    return status;
  }
  HD_TRY(hd__session_create(&j->session, &j->ctx, config, &(hd_session_use){.lock = lock}));
  const hd_status end = hd_session_train(j->session, &j->ctx, on_step, j);
  hd_session_destroy(j->session);
  return end == HD_E_NOTFINITE ? HD_OK : end;
}

/* Whether a run has ended the present round; it must be this sweep's. */
static hd_status read_end(bool *ended, job *j, int64_t run, const char *folder) {
  *ended = false;
  if (!hd__sweep_read(j->sweep, run, folder, target_of(j->sweep, run)))
    return HD_OK;
  HD_TRY(hd__sweep_check_run(j->sweep, &j->ctx, run, folder));
  *ended = true;
  return HD_OK;
}

/* Completes a run that this job has taken; *ended is false if another process has it. */
static hd_status attend(bool *ended, bool *trained, job *j, int64_t run) {
  hd_sweep *s = j->sweep;
  char folder[HD_PATH_BYTES];
  int lock;
  HD_TRY(hd__sweep_path(folder, s, &j->ctx, run));
  HD_TRY(read_end(ended, j, run, folder));
  if (*ended)
    return HD_OK;
  HD_TRY(hd__file_make_folder(&j->ctx, folder));
  HD_TRY(hd__file_lock_folder(&lock, &j->ctx, folder, -1));
  if (lock < 0)
    return HD_OK;
  const hd_status status = read_end(ended, j, run, folder);
  if (status != HD_OK || *ended) { /* ended before the lock was taken */
    hd__file_unlock(&lock);
    return status;
  }
  *trained = true;
  HD_TRY(train(j, run, folder, lock));
  HD_TRY(read_end(ended, j, run, folder));
  if (*ended)
    return HD_OK;
  return hd__fail(&j->ctx, HD_E_FORMAT, "the run stopped before step %lld; did its data change?",
                  (long long)target_of(s, run));
}

/* Takes the next run behind `run` that has not ended; -1: there is none. *left: some have neither ended nor are taken
 * by this process. */
static int64_t take(hd_sweep *s, int64_t run, bool *left) {
  int64_t found = -1;
  pthread_mutex_lock(&s->mutex);
  *left = false;
  for (int64_t i = 0; i < s->grid.runs; i++) {
    const bool is_free = s->run[i].in && !s->run[i].ended && !s->run[i].taken;
    *left |= is_free;
    if (is_free && i > run) {
      s->run[found = i].taken = true;
      break;
    }
  }
  pthread_mutex_unlock(&s->mutex);
  return found;
}

static void report(hd_sweep *s, int64_t run, bool trained) {
  const hd_sweep_row *row = &s->row[run];
  s->ended_count++;
  if (hd__sweep_rank(s, row->metric) > hd__sweep_rank(s, s->best < 0 ? NAN : s->best_metric)) {
    s->best = run;
    s->best_metric = row->metric;
  }
  const hd_sweep_event event = {run,          row->state, row->metric,    trained, s->ended_count,
                                s->trainings, s->best,    s->best_metric, NULL};
  if (s->on_event)
    s->on_event(s->user, &event);
}

static void release(job *j, int64_t run, hd_status status, bool ended, bool trained) {
  hd_sweep *s = j->sweep;
  if (status != HD_OK && status != HD_E_INTERRUPTED)
    hd__sweep_fail(&j->ctx, status, s, run);
  pthread_mutex_lock(&s->mutex);
  s->run[run].taken = false;
  s->run[run].ended = ended;
  if (ended)
    report(s, run, trained);
  if (status != HD_OK && s->status == HD_OK) {
    s->status = status;
    s->failure = j->ctx;
    atomic_store(&s->stop, 1);
  }
  pthread_mutex_unlock(&s->mutex);
}

/* ---- Waiting for other processes ---- */

static const double FOREIGN_S = 5, SILENT_S = 3600, CHOICE_S = 60;

/* The time of the last change in the folder of a run; of the clock of its host. */
static struct timespec changed(const char *folder) {
  static const char *const file[] = {"", "run.json", "history.jsonl", "metrics.jsonl", "losses.bin", HD_LOCK_NAME};
  struct timespec last = {0};
  for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
    char path[HD_PATH_BYTES];
    struct stat is;
    if (hd__file_join(path, NULL, folder, file[i]) == HD_OK && stat(path, &is) == 0 &&
        (is.st_mtim.tv_sec > last.tv_sec || (is.st_mtim.tv_sec == last.tv_sec && is.st_mtim.tv_nsec > last.tv_nsec)))
      last = is.st_mtim;
  }
  return last;
}

/* The first run that another process has; -1: there is none. */
static int64_t awaited_run(const hd_sweep *s) {
  for (int64_t i = 0; i < s->grid.runs; i++)
    if (s->run[i].in && !s->run[i].ended && !s->run[i].taken)
      return i;
  return -1;
}

/* Reports once what this process waits for. */
static void say_waiting(hd_sweep *s, int64_t run, const char *who) {
  char text[HD_LOCK_WHO_BYTES + 32];
  snprintf(text, sizeof text, "waiting for %s", who);
  const hd_sweep_event event = {.run = run,
                                .state = HD_SWEEP_PENDING,
                                .metric = NAN,
                                .ended = s->ended_count,
                                .trainings = s->trainings,
                                .best = s->best,
                                .best_metric = s->best_metric,
                                .text = text};
  if (s->on_event)
    s->on_event(s->user, &event);
}

/* The state of the lock that is waited for, which lasts since `since_s`. */
static hd_status follow_lock(hd_sweep *s, hd_ctx *ctx, int64_t run, const char *folder) {
  sweep_wait *w = &s->wait;
  char who[HD_LOCK_WHO_BYTES];
  const hd_lock_state state = hd__file_lock_state(who, folder);
  const struct timespec last = changed(folder);
  const double now_s = hd__clock_s();
  const bool same = w->run == run && w->state == state && !strcmp(w->who, who);
  if (!same || memcmp(&last, &w->changed, sizeof last) != 0)
    w->since_s = now_s;
  if (!same && state != HD_LOCK_FREE && state != HD_LOCK_FOREIGN)
    say_waiting(s, run, who);
  w->run = run;
  w->state = state;
  w->changed = last;
  memcpy(w->who, who, sizeof who);
  if (state == HD_LOCK_FOREIGN && now_s - w->since_s > FOREIGN_S)
    return hd__fail(ctx, HD_E_IO,
                    "cannot train it: %s/" HD_LOCK_NAME " is locked by %s; end that program and continue with "
                    "heddle sweep --out %s",
                    folder, who, s->folder);
  if (state == HD_LOCK_UNKNOWN && now_s - w->since_s > SILENT_S)
    return hd__fail(
        ctx, HD_E_IO,
        "%s should be training it, but has written nothing to %s for an hour; if it has ended, remove %s/" HD_LOCK_NAME
        " and continue with heddle sweep --out %s",
        who, folder, folder, s->folder);
  return HD_OK;
}

/* Waits a moment for processes that have the remaining runs. One job looks at their lock, for all. */
static void wait_for_others(job *j) {
  hd_sweep *s = j->sweep;
  char folder[HD_PATH_BYTES];
  pthread_mutex_lock(&s->mutex);
  const int64_t run = awaited_run(s);
  hd_status status = run < 0 ? HD_OK : hd__sweep_path(folder, s, &j->ctx, run);
  if (run >= 0)
    HD_THEN(status, follow_lock(s, &j->ctx, run, folder));
  pthread_mutex_unlock(&s->mutex);
  if (status != HD_OK)
    release(j, run, status, false, false);
  else
    nap();
}

/* ---- Rounds ---- */

/* Goes over the runs again and again until all have ended, or are taken by this process. */
static void *work(void *arg) {
  job *j = arg;
  int64_t run = -1;
  bool left = true;
  while (left && !atomic_load(&j->sweep->stop)) {
    bool ended = false, trained = false;
    run = take(j->sweep, run, &left);
    if (run >= 0) {
      const hd_status status = attend(&ended, &trained, j, run);
      release(j, run, status, ended, trained);
    } else if (left) {
      wait_for_others(j);
    }
  }
  return NULL;
}

static hd_status train_round(hd_sweep *s, hd_ctx *ctx) {
  HD_OWNED job *all = hd__calloc((size_t)s->report.jobs, sizeof *all);
  int started = 0;
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for %d jobs", s->report.jobs));
  for (int64_t i = 0; i < s->grid.runs; i++)
    s->run[i].ended = false;
  for (; started < s->report.jobs; started++) {
    all[started] = (job){.sweep = s, .number = started};
    if (hd__thread_start(&all[started].thread, work, &all[started]) != 0)
      break;
  }
  for (int i = 0; i < started; i++)
    hd__thread_join(&all[i].thread);
  if (started == 0)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot start a thread for a job: %s; raise `ulimit -u`", strerror(EAGAIN));
  if (s->status != HD_OK && s->status != HD_E_INTERRUPTED)
    return hd__fail(ctx, s->status, "%s", s->failure.message);
  for (int64_t i = 0; i < s->grid.runs; i++)
    if (s->run[i].in && !s->run[i].ended)
      return hd__fail(ctx, HD_E_INTERRUPTED, "stopped after %lld of %lld runs", (long long)s->ended_count,
                      (long long)s->trainings);
  return HD_OK;
}

/* ---- Successive halving ---- */

/* Writes the best 1/K of a round's runs; equal runs in their order. */
static hd_status write_choice(hd_sweep *s, hd_ctx *ctx, const char *name) {
  int64_t left = 0;
  for (int64_t i = 0; i < s->grid.runs; i++)
    left += s->run[i].in;
  left /= s->halving;
  hd__sweep_order(s);
  json_t *list = json_array();
  for (int64_t i = 0; i < s->grid.runs && left > 0; i++)
    if (s->run[s->order[i]].in) {
      json_array_append_new(list, json_integer(s->order[i] + 1));
      left--;
    }
  char *text = hd__json_dump(list, JSON_COMPACT);
  json_decref(list);
  hd_status status = HD_ALLOCATED(text, ctx, "out of memory for a round");
  HD_THEN(status, hd__sweep_write(s, ctx, name, text));
  free(text);
  return status;
}

/* Another process that is past this round has written the choice, and may have changed results since. */
static hd_status choose(hd_sweep *s, hd_ctx *ctx) {
  char name[32], path[HD_PATH_BYTES];
  snprintf(name, sizeof name, "round-%d.json", s->round + 1);
  const double end_s = hd__clock_s() + CHOICE_S; /* for a file system that shows new files late */
  HD_TRY(hd__file_join(path, ctx, s->folder, name));
  while (!hd__file_exists(path)) {
    if (!s->advanced)
      HD_TRY(write_choice(s, ctx, name));
    else if (hd__clock_s() > end_s)
      return hd__fail(ctx, HD_E_IO,
                      "%s: expected this round's list of runs, since some runs are past it, found none; it was "
                      "removed, choose another --out",
                      path);
    else if (atomic_load(&s->stop))
      return hd__fail(ctx, HD_E_INTERRUPTED, "stopped between two rounds");
    else
      nap();
  }
  json_auto_t *list = hd__sweep_json(path);
  for (int64_t i = 0; i < s->grid.runs; i++)
    s->run[i].in = false;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_int_t run = json_integer_value(json_array_get(list, i));
    if (run >= 1 && run <= s->grid.runs)
      s->run[run - 1].in = true;
  }
  s->advanced = false;
  return HD_ALLOCATED(list, ctx, "%s: expected the list of runs to continue, found none; remove the file", path);
}

/* ---- Calls ---- */

hd_status hd_sweep_create(hd_sweep **out, hd_ctx *ctx, const hd_config *config, const hd_sweep_request *request) {
  HD_ROUNDING_TO_NEAREST;
  hd_sweep_request wanted;
  *out = NULL;
  HD_TRY(hd__struct_read(&wanted, ctx, request, sizeof wanted, "hd_sweep_request"));
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for a sweep"));
  pthread_mutex_init(&(*out)->mutex, NULL);
  (*out)->last = (*out)->value;
  const hd_status status = hd__sweep_plan(*out, ctx, config, &wanted);
  return HD_CREATED(status, out, hd_sweep_destroy);
}

static void free_run(sweep_run *run) {
  free(run->line);
  hd__free(run->written);
  hd__free(run->model);
  hd__free(run->library);
}

void hd_sweep_destroy(hd_sweep *s) {
  if (!s)
    return;
  for (int64_t i = 0; s->run && i < s->grid.runs; i++)
    free_run(&s->run[i]);
  json_decref(s->kept);
  hd__grid_fini(&s->grid);
  hd_config_destroy(s->fixed);
  hd__free(s->cpu);
  hd__free(s->run);
  hd__free(s->row);
  hd__free(s->order);
  hd__free(s->group);
  pthread_mutex_destroy(&s->mutex);
  hd__free(s);
}

hd_status hd_sweep_run(hd_sweep *s, hd_ctx *ctx) {
  HD_ROUNDING_TO_NEAREST;
  for (int64_t i = 0; i < s->grid.runs; i++)
    s->run[i].in = true;
  for (s->round = 0;; s->round++) {
    HD_TRY(train_round(s, ctx));
    if (s->round + 1 == s->rounds)
      return hd__sweep_conclude(s, ctx);
    HD_TRY(choose(s, ctx));
  }
}

void hd_sweep_stop(hd_sweep *s) { atomic_store(&s->stop, 1); }

const hd_sweep_report *hd_sweep_result(const hd_sweep *s) { return &s->report; }

const char *hd_sweep_value(const hd_sweep *s, int64_t run, int32_t key) {
  HD_ROUNDING_TO_NEAREST;
  char *text = s->last;
  if (key < s->grid.axes)
    return hd__grid_value(text, &s->grid, run, key);
  snprintf(text, sizeof s->value, "%.10g", s->row[run].metric);
  return isnan(s->row[run].metric) ? "" : text;
}
