/* Choosing, locking and opening the run's folder: see session.h. */
#include "train/run/session.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "train/checkpoint/saver_hosts.h"
#include "train/launch/supervisor.h"
#include "train/records/loss_score.h"
#include "train/run/stages.h"

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

/* Whether the folder has a link `last`, also to a checkpoint that is gone. */
static bool has_last(const char *folder) {
  char last[HD_PATH_BYTES];
  return hd__steps_linked(folder, "last") >= 0 ||
         (hd__file_join(last, NULL, folder, "last") == HD_OK && hd__file_exists(last));
}

/* Whether it is a run's folder, which may have lost its links. */
static bool is_run(const char *folder) {
  char record[HD_PATH_BYTES];
  return has_last(folder) || (hd__file_join(record, NULL, folder, "run.json") == HD_OK && hd__file_exists(record));
}

/* Claims runs/MODEL-N with the first free N. */
static hd_status claim_new(hd_session *s, hd_ctx *ctx) {
  char name[201];
  bool made = false;
  file_name_of(name, sizeof name, s->run.network.name);
  HD_TRY(hd__file_make_folder(ctx, "runs"));
  for (int n = 1; n < 1000000; n++) {
    snprintf(s->checkpoints.folder, sizeof s->checkpoints.folder, "runs/%s-%d", name, n);
    hd_status status = hd__file_make_new_folder(&made, ctx, s->checkpoints.folder);
    if (status != HD_OK || made)
      return status;
  }
  return hd__fail(ctx, HD_E_IO, "runs: found no free name %s-N; remove old runs or use --out", name);
}

/* The run that a resumed session continues: the folder that holds the checkpoint. */
static hd_status resumed_folder(char out[HD_PATH_BYTES], const hd_session *s, hd_ctx *ctx) {
  const char *from = s->run.settings->resume;
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, from, "model.safetensors"));
  HD_TRY(hd__file_join(out, ctx, from, ""));
  for (size_t length = strlen(out); length > 1 && out[length - 1] == '/'; length--)
    out[length - 1] = 0;
  char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out;
  const bool is_missing = !hd__file_exists(out) && hd__steps_names(name); /* may be restored later */
  if (!hd__file_exists(path) && !is_missing)
    return HD_OK;
  /* A step's folder: its run is the folder above. */
  if (!strcmp(name, ".") || !strcmp(name, ".."))
    strncat(out, "/..", HD_PATH_BYTES - strlen(out) - 1);
  else if (slash)
    slash[slash == out] = 0;
  else
    snprintf(out, HD_PATH_BYTES, ".");
  if (is_missing || is_run(out))
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "--resume %s: expected a checkpoint inside a run's folder, found a checkpoint by itself; choose a "
                  "folder to continue in with --out",
                  from);
}

static bool same_folder(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Of a new run: --out holds another one. Where that has lost its last checkpoint, it goes on from the newest. */
static hd_status refuse_run(hd_ctx *ctx, const char *folder) {
  char from[HD_PATH_BYTES];
  HD_TRY(hd__steps_resumed(from, ctx, folder));
  return hd__fail(ctx, HD_E_USAGE,
                  "--out %s: expected a folder without a run, found one; use --resume %s to continue, or another --out",
                  folder, *from ? from : folder);
}

/* --out must not hold a run other than the resumed one. */
static hd_status check_wanted(hd_session *s, hd_ctx *ctx) {
  const char *folder = s->checkpoints.folder;
  char resumed[HD_PATH_BYTES];
  if (!has_last(folder) && (*s->run.settings->resume || hd__steps_newest(folder) < 0))
    return HD_OK;
  if (!*s->run.settings->resume)
    return refuse_run(ctx, folder);
  if (resumed_folder(resumed, s, ctx) == HD_OK && same_folder(resumed, s->checkpoints.folder))
    return HD_OK;
  return hd__fail(
      ctx, HD_E_USAGE,
      "--out %s: expected a folder without a run, found a run that is not the resumed one; choose another --out",
      s->checkpoints.folder);
}

static hd_status choose_folder(hd_session *s, hd_ctx *ctx) {
  const char *wanted = s->run.settings->out;
  if (!*wanted)
    return *s->run.settings->resume ? resumed_folder(s->checkpoints.folder, s, ctx) : claim_new(s, ctx);
  if (strlen(wanted) >= sizeof s->checkpoints.folder)
    return hd__fail(ctx, HD_E_USAGE, "--out expects a path below %zu bytes, found a longer one; shorten it",
                    sizeof s->checkpoints.folder);
  snprintf(s->checkpoints.folder, sizeof s->checkpoints.folder, "%s", wanted);
  HD_TRY(hd__file_make_folder(ctx, s->checkpoints.folder));
  return check_wanted(s, ctx);
}

/* How long a resumed run waits for the supervisor of its earlier ranks, which may still be saving. */
static const double SUPERVISOR_S = 3;

static hd_status lock_resumed(hd_session *s, hd_ctx *ctx) {
  const char *wanted = s->run.settings->out;
  char resumed[HD_PATH_BYTES];
  if (!*s->run.settings->resume || resumed_folder(resumed, s, ctx) != HD_OK ||
      (*wanted && !same_folder(resumed, wanted)))
    return HD_OK; /* the run continues in another folder, or in none */
  if (!hd__file_exists(resumed))
    return hd__fail(ctx, HD_E_IO, "--resume %s: expected a run's folder or a checkpoint, found none; check the path",
                    s->run.settings->resume);
  if (s->checkpoints.lock < 0)
    HD_TRY(hd__file_lock_folder(&s->checkpoints.lock, ctx, resumed, SUPERVISOR_S));
  if (s->checkpoints.lock >= 0)
    hd__saver_remove_leftovers(resumed); /* before the checkpoint is read, which this may restore */
  return HD_OK;
}

hd_status hd__session_lock_resumed(hd_session *s, hd_ctx *ctx) {
  if (hd__session_writes(s))
    HD_TRY(lock_resumed(s, ctx));
  return hd__local_group_barrier(s->compute.local, ctx); /* no rank reads the folder before it is locked */
}

/* A run that continues in another folder takes the metrics and losses of its earlier steps with it. */
static hd_status open_steps(hd_session *s, hd_ctx *ctx) {
  char from[HD_PATH_BYTES] = "";
  hd_ctx quiet = {0};
  if (!*s->run.settings->resume || resumed_folder(from, s, &quiet) != HD_OK)
    snprintf(from, sizeof from, "%s", s->checkpoints.folder);
  HD_TRY(hd__session_open_metrics(s, ctx, from));
  HD_TRY(hd__losses_open(&s->checkpoints.losses, ctx, s->checkpoints.folder, from, s->run.counters.step));
  return hd__divisors_open(&s->checkpoints.divisors, ctx, s->checkpoints.folder, from, s->run.counters.step,
                           hd__target_varies(&s->run.network.target, s->input.train.split));
}

/* Opens what each step is noted in. After a return to an earlier checkpoint the notes of later steps are cut, so `last`
 * names that checkpoint: a run that continued a later one would lack the losses between. */
static hd_status open_notes(hd_session *s, hd_ctx *ctx) {
  const int64_t step = s->run.counters.step;
  const bool returns = hd__steps_linked(s->checkpoints.folder, "last") > step;
  if (returns && s->report.had_ended)
    return HD_OK;
  if (returns && hd__steps_has(s->checkpoints.folder, step))
    HD_TRY(hd__steps_link(ctx, s->checkpoints.folder, "last", step));
  HD_TRY(open_steps(s, ctx));
  return *s->run.settings->tensorboard ? hd__events_open(&s->report.events, ctx, s->run.settings->tensorboard, step)
                                       : HD_OK;
}

/* A resume with nothing left to do is no part of the run: its settings stay those that made the weights. */
static hd_status write_record(const hd_session *s, hd_ctx *ctx) {
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, s->checkpoints.folder, "run.json"));
  return s->report.had_ended && hd__file_exists(path)
             ? HD_OK
             : hd__checkpoint_write_record(ctx, s->checkpoints.folder, s->run.record);
}

static hd_status begin_folder(hd_session *s, hd_ctx *ctx) {
  s->checkpoints.saved_step = hd__steps_has(s->checkpoints.folder, s->run.counters.step) ? s->run.counters.step : -1;
  if (s->checkpoints.lock < 0)
    HD_TRY(hd__file_lock_folder(&s->checkpoints.lock, ctx, s->checkpoints.folder, 0));
  if (s->checkpoints.lock >= 0)
    hd__saver_remove_leftovers(s->checkpoints.folder);
  HD_TRY(hd__saver_check_run(ctx, s->checkpoints.folder, s->run.counters.step > 0 ? s->run.counters.step + 1 : 0));
  HD_TRY(hd__session_find_end(s, ctx));
  HD_TRY(open_notes(s, ctx));
  HD_TRY(write_record(s, ctx));
  HD_TRY(hd__session_open_history(s, ctx));
  HD_TRY(
      hd__saver_init(&s->checkpoints.saver, ctx, s->compute.store, s->checkpoints.folder, (int)s->run.settings->keep));
  s->report.facts.memory_bytes = hd__session_bytes(s);
  s->checkpoints.saver.track = hd__profile_writer_track(&s->report.profiler);
  return HD_OK;
}

/* Files of a run without a record are no run: they are removed if the record could not be written. */
static void remove_beginning(const hd_session *s) {
  char path[HD_PATH_BYTES];
  if (has_last(s->checkpoints.folder) || hd__file_join(path, NULL, s->checkpoints.folder, "run.json") != HD_OK ||
      hd__file_exists(path))
    return;
  if (s->checkpoints.losses.fd >= 0 && *s->checkpoints.losses.path)
    unlink(s->checkpoints.losses.path);
  if (s->checkpoints.divisors.fd >= 0 && *s->checkpoints.divisors.path)
    unlink(s->checkpoints.divisors.path);
  if (s->report.metrics && hd__file_join(path, NULL, s->checkpoints.folder, "metrics.jsonl") == HD_OK)
    unlink(path);
}

static hd_status open_folder(hd_session *s, hd_ctx *ctx) {
  HD_TRY(choose_folder(s, ctx));
  const hd_status status = begin_folder(s, ctx);
  if (status != HD_OK)
    remove_beginning(s);
  return status;
}

/* Receives from rank 0 the path of the run's folder on its host, and the step saved there. */
static hd_status receive_folder(hd_session *s, hd_ctx *ctx) {
  typedef struct place {
    int64_t saved_step;
    char path[HD_LOCAL_GROUP_GATHER_BYTES - sizeof(int64_t)];
  } place;
  place this_rank = {.saved_step = s->checkpoints.saved_step};
  HD_OWNED place *all = hd__malloc((size_t)hd__cluster_ranks(s->compute.local) * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for the run's folder"));
  snprintf(this_rank.path, sizeof this_rank.path, "%.*s", (int)sizeof this_rank.path - 1, s->checkpoints.folder);
  HD_TRY(hd__cluster_gather(all, s->compute.local, ctx, &this_rank, sizeof this_rank));
  if (!hd__session_writes(s)) {
    snprintf(s->checkpoints.folder, sizeof s->checkpoints.folder, "%s", all[0].path);
    s->checkpoints.saved_step = all[0].saved_step;
  }
  return HD_OK;
}

/* ---- The job's page, which all ranks of a host open ---- */

/* Local rank 0 of a host creates the page; the other ranks open it through that rank's descriptor. */
static hd_status open_page(hd_session *s, hd_ctx *ctx, const hd_job_facts *facts) {
  typedef struct holder {
    int32_t pid, fd;
  } holder;
  const int ranks = hd__local_group_ranks(s->compute.local);
  if (hd__local_group_rank(s->compute.local) == 0)
    hd__job_open(&s->report.page, ranks, facts);
  const holder this_rank = {(int32_t)getpid(), s->report.page.head ? s->report.page.fd : -1};
  HD_OWNED holder *all = hd__malloc((size_t)ranks * sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for a job of %d ranks", ranks));
  HD_TRY(hd__local_group_gather(all, s->compute.local, ctx, &this_rank, sizeof this_rank));
  if (hd__local_group_rank(s->compute.local) > 0)
    hd__job_join(&s->report.page, all[0].pid, all[0].fd, hd__local_group_rank(s->compute.local));
  return hd__local_group_barrier(s->compute.local, ctx); /* rank 0 must not close it earlier */
}

static hd_status publish(hd_session *s, hd_ctx *ctx) {
  hd_job_facts facts = {.batch = s->run.batch, .epochs = s->report.facts.epochs, .steps = s->run.steps_in_all};
  char path[PATH_MAX];
  int cpu[HD_MAX_THREADS], threads = hd__threads_count(s->compute.threads);
  snprintf(facts.model, sizeof facts.model, "%s", s->report.facts.model);
  snprintf(facts.data, sizeof facts.data, "%.*s", HD_JOB_PATH_BYTES - 1, s->report.facts.data);
  snprintf(facts.isa, sizeof facts.isa, "%s", s->report.facts.isa);
  snprintf(facts.device, sizeof facts.device, "%s", s->report.facts.device);
  snprintf(facts.out, sizeof facts.out, "%.*s", HD_JOB_PATH_BYTES - 1,
           realpath(s->checkpoints.folder, path) ? path : s->checkpoints.folder);
  HD_TRY(open_page(s, ctx, &facts));
  for (int i = 0; i < threads && i < HD_MAX_THREADS; i++)
    cpu[i] = hd__threads_cpu(s->compute.threads, i);
  hd__job_threads(&s->report.page, cpu, threads);
  hd__job_step(&s->report.page, s->run.counters.step, s->run.counters.step / s->run.steps_per_epoch, 0, NAN);
  return HD_OK;
}

/* Where hosts have stages of their own: the first ranks of other hosts save with rank 0. */
static hd_status share_saver(hd_session *s, hd_ctx *ctx) {
  const hd_plan *plan = s->compute.plan;
  const int hosts = hd__cluster_count(s->compute.local);
  HD_OWNED int *host = hd__calloc((size_t)(plan->param_count + plan->alias_count), sizeof *host);
  HD_TRY(HD_ALLOCATED(host, ctx, "out of memory for checkpoints"));
  for (int p = 0; p < plan->param_count; p++)
    host[p] = hd__stage_host(plan->params[p].stage, plan->pipeline.stages.count, hosts);
  if (!hd__session_writes(s))
    HD_TRY(hd__saver_init(&s->checkpoints.saver, ctx, s->compute.store, "", 1));
  return hd__saver_share(&s->checkpoints.saver, ctx, s->compute.local, host);
}

/* An emergency save runs on the host of rank 0, where the run's folder is. */
hd_status hd__session_open_run(hd_session *s, hd_ctx *ctx) {
  if (hd__session_writes(s))
    HD_TRY(open_folder(s, ctx));
  HD_TRY(receive_folder(s, ctx));
  if (hd__stages_are_apart(s) && hd__local_group_rank(s->compute.local) == 0)
    HD_TRY(share_saver(s, ctx));
  if (hd__cluster_this_host(s->compute.local) == 0)
    HD_TRY(hd__emergency_open(&s->checkpoints.emergency, ctx, s->compute.local,
                              &(hd_emergency_run){.folder = s->checkpoints.folder,
                                                  .keep = (int)s->run.settings->keep,
                                                  .remote = !s->compute.device.executor->versions_in_store,
                                                  .apart = hd__stages_are_apart(s),
                                                  .record = s->run.record,
                                                  .counters = &s->run.counters}));
  if (hd__session_writes(s))
    hd__supervisor_start(s->compute.local, s->checkpoints.folder);
  hd__local_group_step(s->compute.local, s->run.counters.step);
  return publish(s, ctx);
}
