/* The run's folder: choosing its name, writing metrics, drawing mistakes. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "data/images/mistakes_sheet.h"
#include "data/loader/skipped_samples.h"
#include "train/launch/supervisor.h"
#include "train/session/session.h"

enum { MISTAKES_SHOWN = 40 };

/* A model's name as part of a file name: letters, digits and "._-", every other byte as '_', and no leading dot, so
 * that it names no other folder and no hidden file. */
static void file_name_of(char out[], size_t bytes, const char *name) {
  size_t at = 0;
  for (; name[at] && at + 1 < bytes; at++) {
    const char c = name[at];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '-' || (c == '.' && at > 0);
    out[at] = plain ? c : '_';
  }
  out[at] = 0;
}

/* Claims runs/MODEL-N with the first free N. */
static hd_status claim_new(hd_session *s, hd_ctx *ctx) {
  char name[201];
  bool made = false;
  file_name_of(name, sizeof name, s->network.name);
  HD_TRY(hd__file_make_folder(ctx, "runs"));
  for (int n = 1; n < 1000000; n++) {
    snprintf(s->out, sizeof s->out, "runs/%s-%d", name, n);
    hd_status status = hd__file_make_new_folder(&made, ctx, s->out);
    if (status != HD_OK || made)
      return status;
  }
  return hd__fail(ctx, HD_E_IO, "runs: expected a free name %s-N, found none; remove old runs or use --out", name);
}

/* The run that a resumed session continues: the folder that holds the checkpoint. */
static hd_status resumed_folder(char out[HD_PATH_BYTES], const hd_session *s, hd_ctx *ctx) {
  const char *from = s->settings->resume;
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, from, "model.safetensors"));
  HD_TRY(hd__file_join(out, ctx, from, ""));
  for (size_t length = strlen(out); length > 1 && out[length - 1] == '/'; length--)
    out[length - 1] = 0;
  char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out;
  const bool is_missing = !hd__file_exists(out) && hd__saver_names_checkpoint(name); /* may be restored later */
  if (!hd__file_exists(path) && !is_missing)
    return HD_OK;
  /* A step's folder: its run is the folder above. */
  if (!strcmp(name, ".") || !strcmp(name, ".."))
    strncat(out, "/..", HD_PATH_BYTES - strlen(out) - 1);
  else if (slash)
    slash[slash == out] = 0;
  else
    snprintf(out, HD_PATH_BYTES, ".");
  HD_TRY(hd__file_join(path, ctx, out, "last"));
  if (is_missing || hd__file_exists(path))
    return HD_OK;
  return hd__fail(
      ctx, HD_E_USAGE,
      "--resume %s: expected a checkpoint inside a run's folder, found one by itself; say with --out where to "
      "go on",
      from);
}

static bool same_folder(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* --out must not hold a run other than the resumed one. */
static hd_status check_wanted(hd_session *s, hd_ctx *ctx) {
  char last[HD_PATH_BYTES], resumed[HD_PATH_BYTES];
  HD_TRY(hd__file_join(last, ctx, s->out, "last"));
  if (!hd__file_exists(last))
    return HD_OK;
  if (!*s->settings->resume)
    return hd__fail(ctx, HD_E_USAGE,
                    "--out %s: expected a folder without a run, found one; use --resume %s to go on or another --out",
                    s->out, s->out);
  if (resumed_folder(resumed, s, ctx) == HD_OK && same_folder(resumed, s->out))
    return HD_OK;
  return hd__fail(
      ctx, HD_E_USAGE,
      "--out %s: expected a folder without a run, found another run than the resumed one; choose another --out",
      s->out);
}

static hd_status choose_folder(hd_session *s, hd_ctx *ctx) {
  const char *wanted = s->settings->out;
  if (!*wanted)
    return *s->settings->resume ? resumed_folder(s->out, s, ctx) : claim_new(s, ctx);
  if (strlen(wanted) >= sizeof s->out)
    return hd__fail(ctx, HD_E_USAGE, "--out expects a path below %zu bytes, found a longer one", sizeof s->out);
  snprintf(s->out, sizeof s->out, "%s", wanted);
  HD_TRY(hd__file_make_folder(ctx, s->out));
  return check_wanted(s, ctx);
}

static hd_status cannot_read(hd_ctx *ctx, const char *path, int why) {
  return hd__fail(ctx, HD_E_IO, "%s: expected to read what was written before, found: %s; see to it, or use --out",
                  path, strerror(why));
}

/* Writes a line of metrics.jsonl and releases it. */
static void write_line(FILE *to, json_t *line) {
  if (line && to && json_dumpf(line, to, JSON_COMPACT | JSON_PRESERVE_ORDER) == 0)
    fputc('\n', to);
  json_decref(line);
}

/* The metrics line of the last step; takes over `ranks`. NAN: the rate is unknown. */
static json_t *step_line(const hd_session *s, double samples_per_s, json_t *ranks) {
  double lr, beta;
  hd__schedule_at(&s->schedule, s->counters.step - 1, &lr, &beta);
  return json_pack("{s:I, s:I, s:f, s:f, s:o, s:o*}", "step", (json_int_t)s->counters.step, "epoch",
                   (json_int_t)((s->counters.step - 1) / s->steps_per_epoch), "loss", s->counters.step_loss, "lr", lr,
                   "samples_per_s", isnan(samples_per_s) ? json_null() : json_real(samples_per_s), "ranks", ranks);
}

static bool is_logged(const hd_session *s, int64_t step) { return step > 0 && step % s->settings->log_every == 0; }

/* Whether a line of earlier metrics stays: lines after the resumed step are written again, and so is its evaluation if
 * that is still due. *is_last: it is the line of the resumed step itself. */
static bool holds(bool *is_last, const hd_session *s, const json_t *line) {
  const json_int_t step = json_integer_value(json_object_get(line, "step"));
  const bool evaluates = json_object_get(line, "val_loss") != NULL, resumed = step == s->counters.step;
  *is_last = resumed && !evaluates;
  return step > 0 && step <= s->counters.step && !(resumed && evaluates && s->counters.owes_evaluation);
}

/* Copies the lines of earlier metrics that stay. A run that was killed between a step and its line gets the line now.
 * Unreadable metrics are no failure. */
static hd_status keep_lines(FILE *to, hd_ctx *ctx, void *arg) {
  const hd_session *s = arg;
  bool has_last = false, is_last;
  char path[HD_PATH_BYTES], *line = NULL;
  size_t room = 0;
  HD_TRY(hd__file_join(path, ctx, s->out, "metrics.jsonl"));
  FILE *from = fopen(path, "re");
  if (!from && errno != ENOENT)
    return cannot_read(ctx, path, errno);
  while (from && getline(&line, &room, from) >= 0) {
    json_t *object = json_loads(line, 0, NULL);
    if (holds(&is_last, s, object)) {
      fputs(line, to);
      has_last |= is_last;
    }
    json_decref(object);
  }
  if (from && !has_last && is_logged(s, s->counters.step) && !isnan(s->counters.step_loss))
    write_line(to, step_line(s, NAN, NULL));
  const int failed = from && ferror(from), why = errno;
  free(line);
  if (from)
    fclose(from);
  return failed ? cannot_read(ctx, path, why) : HD_OK;
}

/* How long a resumed run waits for the supervisor of its earlier ranks, which may still be saving. */
static const double SUPERVISOR_S = 3;

static hd_status lock_resumed(hd_session *s, hd_ctx *ctx) {
  const char *wanted = s->settings->out;
  char resumed[HD_PATH_BYTES];
  if (!*s->settings->resume || resumed_folder(resumed, s, ctx) != HD_OK || (*wanted && !same_folder(resumed, wanted)))
    return HD_OK; /* the run continues in another folder, or in none */
  HD_TRY(hd__file_lock_folder(&s->lock, ctx, resumed, SUPERVISOR_S));
  if (s->lock >= 0)
    hd__saver_remove_leftovers(resumed); /* before the checkpoint is read, which this may restore */
  return HD_OK;
}

hd_status hd__session_lock_resumed(hd_session *s, hd_ctx *ctx) {
  if (hd__session_writes(s))
    HD_TRY(lock_resumed(s, ctx));
  return hd__local_group_barrier(s->local, ctx); /* no rank reads the folder before it is locked */
}

/* Local rank 0 of a host creates the page; the other ranks open it through that rank's descriptor. */
static hd_status open_page(hd_session *s, hd_ctx *ctx, const hd_job_facts *facts) {
  typedef struct holder {
    int32_t pid, fd;
  } holder;
  const int ranks = hd__local_group_ranks(s->local);
  if (hd__local_group_rank(s->local) == 0)
    hd__job_open(&s->page, ranks, facts);
  holder this_rank = {(int32_t)getpid(), s->page.head ? s->page.fd : -1},
         *all = hd__malloc((size_t)ranks * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a job of %d ranks", ranks);
  hd_status status = hd__local_group_gather(all, s->local, ctx, &this_rank, sizeof this_rank);
  if (status == HD_OK && hd__local_group_rank(s->local) > 0)
    hd__job_join(&s->page, all[0].pid, all[0].fd, hd__local_group_rank(s->local));
  hd__free(all);
  return status == HD_OK ? hd__local_group_barrier(s->local, ctx) : status; /* rank 0 must not close it earlier */
}

/* Publishes the run for tools that list jobs. */
static hd_status publish_job(hd_session *s, hd_ctx *ctx) {
  hd_job_facts facts = {.batch = s->batch, .epochs = s->report.epochs, .steps = s->steps_in_all};
  char path[PATH_MAX];
  int cpu[HD_MAX_THREADS], threads = hd__threads_count(s->threads);
  snprintf(facts.model, sizeof facts.model, "%s", s->report.model);
  snprintf(facts.data, sizeof facts.data, "%.*s", HD_JOB_PATH_BYTES - 1, s->report.data);
  snprintf(facts.isa, sizeof facts.isa, "%s", s->report.isa);
  snprintf(facts.device, sizeof facts.device, "%s", s->report.device);
  snprintf(facts.out, sizeof facts.out, "%.*s", HD_JOB_PATH_BYTES - 1, realpath(s->out, path) ? path : s->out);
  HD_TRY(open_page(s, ctx, &facts));
  for (int i = 0; i < threads && i < HD_MAX_THREADS; i++)
    cpu[i] = hd__threads_cpu(s->threads, i);
  hd__job_threads(&s->page, cpu, threads);
  hd__job_step(&s->page, s->counters.step, s->counters.step / s->steps_per_epoch, 0, NAN);
  return HD_OK;
}

static hd_status open_folder(hd_session *s, hd_ctx *ctx) {
  char path[HD_PATH_BYTES];
  char step[48];
  HD_TRY(choose_folder(s, ctx));
  snprintf(step, sizeof step, "step-%lld/run.json", (long long)s->counters.step);
  HD_TRY(hd__file_join(path, ctx, s->out, step));
  s->saved_step = hd__file_exists(path) ? s->counters.step : -1;
  if (s->lock < 0)
    HD_TRY(hd__file_lock_folder(&s->lock, ctx, s->out, 0));
  if (s->lock >= 0)
    hd__saver_remove_leftovers(s->out);
  HD_TRY(hd__saver_check_run(ctx, s->out, s->counters.step > 0 ? s->counters.step + 1 : 0));
  HD_TRY(hd__file_join(path, ctx, s->out, "metrics.jsonl"));
  HD_TRY(hd__file_write(ctx, path, keep_lines, s));
  HD_TRY(hd__checkpoint_write_record(ctx, s->out, s->record));
  s->metrics = fopen(path, "ae");
  if (!s->metrics)
    return hd__fail(ctx, HD_E_IO, "%s: expected to write it, found: %s; use --out", path, strerror(errno));
  setvbuf(s->metrics, NULL, _IOLBF, 0); /* a reader of the file sees each line when it is written */
  HD_TRY(hd__saver_init(&s->saver, ctx, s->store, s->schedule.op, s->out, (int)s->settings->keep));
  s->report.memory_bytes = hd__session_bytes(s);
  s->saver.track = hd__profile_writer_track(&s->profiler);
  return HD_OK;
}

/* Receives from rank 0 the path of the run's folder on its host, and the step saved there. */
static hd_status receive_folder(hd_session *s, hd_ctx *ctx) {
  typedef struct place {
    int64_t saved_step;
    char path[HD_LOCAL_GROUP_GATHER_BYTES - sizeof(int64_t)];
  } place;
  place this_rank = {.saved_step = s->saved_step}, *all = hd__malloc((size_t)hd__cluster_ranks(s->local) * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the run's folder");
  snprintf(this_rank.path, sizeof this_rank.path, "%.*s", (int)sizeof this_rank.path - 1, s->out);
  hd_status status = hd__cluster_gather(all, s->local, ctx, &this_rank, sizeof this_rank);
  if (status == HD_OK && !hd__session_writes(s)) {
    snprintf(s->out, sizeof s->out, "%s", all[0].path);
    s->saved_step = all[0].saved_step;
  }
  hd__free(all);
  return status;
}

/* An emergency save runs on the host of rank 0, where the run's folder is. */
hd_status hd__session_open_run(hd_session *s, hd_ctx *ctx) {
  if (hd__session_writes(s))
    HD_TRY(open_folder(s, ctx));
  HD_TRY(receive_folder(s, ctx));
  if (hd__cluster_this_host(s->local) == 0)
    HD_TRY(hd__emergency_open(&s->emergency, ctx, s->local,
                              &(hd_emergency_run){.folder = s->out,
                                                  .keep = (int)s->settings->keep,
                                                  .update = s->schedule.op,
                                                  .on_gpu = s->cuda != NULL,
                                                  .record = s->record,
                                                  .counters = &s->counters}));
  if (hd__session_writes(s))
    hd__supervisor_start(s->local, s->out);
  hd__local_group_step(s->local, s->counters.step);
  return publish_job(s, ctx);
}

void hd__session_event(hd_session *s, const hd_event *event) {
  if (s->on_event)
    s->on_event(s->user, event);
}

void hd__session_log(hd_session *s) {
  if (!is_logged(s, s->counters.step))
    return;
  double now = hd__session_train_s(s), seconds = now - s->logged_s;
  hd_event event = {.kind = HD_EVENT_LOG,
                    .step = s->counters.step,
                    .epoch = (s->counters.step - 1) / s->steps_per_epoch,
                    .loss = s->counters.step_loss,
                    .samples_per_s = seconds > 0 ? (double)(s->trained_samples - s->logged_samples) / seconds : 0};
  double beta;
  hd__schedule_at(&s->schedule, s->counters.step - 1, &event.lr, &beta);
  write_line(s->metrics, step_line(s, event.samples_per_s, hd__rank_times_interval(&s->rank_times)));
  s->logged_s = now;
  s->logged_samples = s->trained_samples;
  hd__session_event(s, &event);
}

void hd__session_log_validation(hd_session *s) {
  if (s->val_feed.count == 0)
    return;
  double accuracy = s->report.val_accuracy;
  json_t *line = json_pack("{s:I, s:I, s:f, s:o*}", "step", (json_int_t)s->counters.step, "epoch",
                           (json_int_t)((s->counters.step - 1) / s->steps_per_epoch), "val_loss", s->report.val_loss,
                           "val_accuracy", isnan(accuracy) ? NULL : json_real(accuracy));
  write_line(s->metrics, line);
}

/* The mistakes with the highest confidence, most confident first; returns the number of all mistakes. */
static int64_t pick_mistakes(const hd_session *s, hd_mistake shown[MISTAKES_SHOWN], int *count) {
  const hd_dataset *test = hd__data_test(s->data);
  int64_t wrong = 0;
  *count = 0;
  for (int64_t i = 0; i < test->count; i++) {
    if (s->guesses.guess[i] == test->labels[i] || !hd__target_counts(&s->network.target, test, i))
      continue;
    wrong++;
    int at = *count;
    while (at > 0 && shown[at - 1].confidence < s->guesses.probability[i])
      at--;
    if (at == MISTAKES_SHOWN)
      continue;
    int tail = *count < MISTAKES_SHOWN ? (*count)++ : MISTAKES_SHOWN - 1;
    memmove(&shown[at + 1], &shown[at], (size_t)(tail - at) * sizeof *shown);
    shown[at] = (hd_mistake){
        .label = test->labels[i], .guess = s->guesses.guess[i], .confidence = s->guesses.probability[i], .index = i};
  }
  return wrong;
}

hd_status hd__session_draw_wrong(hd_session *s, hd_ctx *ctx) {
  hd_mistake shown[MISTAKES_SHOWN];
  const hd_dataset *test = hd__data_test(s->data);
  int count;
  if (!hd__target_judges(&s->network.target, test) || test->flat)
    return HD_OK; /* nothing to compare, or to draw */
  int64_t wrong = pick_mistakes(s, shown, &count);
  if (wrong == 0)
    return HD_OK;
  HD_TRY(hd__file_join(s->wrong_png, ctx, s->out, "wrong.png"));
  hd_status status =
      hd__picture_mistakes(ctx, s->wrong_png, shown, count, wrong, test->count - hd__skips_count(test), test);
  if (status != HD_OK)
    s->wrong_png[0] = 0;
  return status;
}
