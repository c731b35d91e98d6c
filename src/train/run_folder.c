/* The run's folder: finding a name, keeping metrics, drawing mistakes. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "data/picture.h"
#include "data/skip.h"
#include "train/keeper.h"
#include "train/session.h"

enum { MISTAKES_SHOWN = 40 };

/* Claims runs/MODEL-N with the first N that nobody has. */
static hd_status claim_new(hd_session *s, hd_ctx *ctx) {
  HD_TRY(hd__file_make_folder(ctx, "runs"));
  for (int n = 1; n < 1000000; n++) {
    snprintf(s->out, sizeof s->out, "runs/%.200s-%d", s->network.name, n);
    if (mkdir(s->out, 0777) == 0)
      return HD_OK;
    if (errno != EEXIST)
      return hd__fail(ctx, HD_E_IO, "%s: expected to create the run's folder, found: %s; use --out", s->out,
                      strerror(errno));
  }
  return hd__fail(ctx, HD_E_IO, "runs: expected a free name %s-N, found none; remove old runs or use --out",
                  s->network.name);
}

/* The run that a resumed session goes on in: the folder that holds the checkpoint. */
static hd_status resumed_folder(char out[HD_PATH_BYTES], const hd_session *s, hd_ctx *ctx) {
  const char *from = hd__config_text(s->config, HD_OPT_resume);
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, from, "model.safetensors"));
  HD_TRY(hd__file_join(out, ctx, from, ""));
  for (size_t length = strlen(out); length > 1 && out[length - 1] == '/'; length--)
    out[length - 1] = 0;
  if (!hd__file_exists(path))
    return HD_OK;
  char *slash = strrchr(out, '/'), *name = slash ? slash + 1 : out; /* a step's folder: the run is the one above */
  if (!strcmp(name, ".") || !strcmp(name, ".."))
    strncat(out, "/..", HD_PATH_BYTES - strlen(out) - 1);
  else if (slash)
    slash[slash == out] = 0;
  else
    snprintf(out, HD_PATH_BYTES, ".");
  HD_TRY(hd__file_join(path, ctx, out, "last"));
  if (hd__file_exists(path))
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

/* --out must hold no run, except the one that is resumed. */
static hd_status check_wanted(hd_session *s, hd_ctx *ctx) {
  char last[HD_PATH_BYTES], resumed[HD_PATH_BYTES];
  HD_TRY(hd__file_join(last, ctx, s->out, "last"));
  if (!hd__file_exists(last))
    return HD_OK;
  if (!hd__config_has(s->config, HD_OPT_resume))
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
  const char *wanted = hd__config_text(s->config, HD_OPT_out);
  if (!*wanted)
    return hd__config_has(s->config, HD_OPT_resume) ? resumed_folder(s->out, s, ctx) : claim_new(s, ctx);
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

/* Copies the lines of old metrics up to the resumed step; later ones will be written again. Old ones that cannot be read
 * are not lost over it. */
static hd_status keep_lines(FILE *to, hd_ctx *ctx, void *arg) {
  const hd_session *s = arg;
  char path[HD_PATH_BYTES], *line = NULL;
  size_t room = 0;
  HD_TRY(hd__file_join(path, ctx, s->out, "metrics.jsonl"));
  FILE *from = fopen(path, "re");
  if (!from && errno != ENOENT)
    return cannot_read(ctx, path, errno);
  while (from && getline(&line, &room, from) >= 0) {
    json_t *object = json_loads(line, 0, NULL);
    json_int_t step = json_integer_value(json_object_get(object, "step"));
    if (object && step > 0 && step <= s->counters.step)
      fputs(line, to);
    json_decref(object);
  }
  const int failed = from && ferror(from), why = errno;
  free(line);
  if (from)
    fclose(from);
  return failed ? cannot_read(ctx, path, why) : HD_OK;
}

/* How long who goes on with a run waits for the keeper of its ranks, which may just be saving. */
static const double KEEPER_S = 3;

static hd_status lock_resumed(hd_session *s, hd_ctx *ctx) {
  const char *wanted = hd__config_text(s->config, HD_OPT_out);
  char resumed[HD_PATH_BYTES];
  if (!hd__config_has(s->config, HD_OPT_resume) || resumed_folder(resumed, s, ctx) != HD_OK ||
      (*wanted && !same_folder(resumed, wanted)))
    return HD_OK; /* it goes on elsewhere, or nowhere */
  return hd__file_lock_folder(&s->lock, ctx, resumed, KEEPER_S);
}

hd_status hd__session_lock_resumed(hd_session *s, hd_ctx *ctx) {
  if (hd__session_writes(s))
    HD_TRY(lock_resumed(s, ctx));
  return hd__world_meet(s->world, ctx); /* before the others read anything of it */
}

/* The first rank of a host makes the page, the others open it through that rank's descriptor: nobody else needs to know
 * it. */
static hd_status open_page(hd_session *s, hd_ctx *ctx, const hd_job_facts *facts) {
  typedef struct holder {
    int32_t pid, fd;
  } holder;
  const int ranks = hd__world_ranks(s->world);
  if (hd__world_rank(s->world) == 0)
    hd__job_open(&s->page, ranks, facts);
  holder mine = {(int32_t)getpid(), s->page.head ? s->page.fd : -1}, *all = hd__malloc((size_t)ranks * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a job of %d ranks", ranks);
  hd_status status = hd__world_gather(all, s->world, ctx, &mine, sizeof mine);
  if (status == HD_OK && hd__world_rank(s->world) > 0)
    hd__job_join(&s->page, all[0].pid, all[0].fd, hd__world_rank(s->world));
  hd__free(all);
  return status == HD_OK ? hd__world_meet(s->world, ctx) : status; /* before the first may close it */
}

/* Shows the run to whoever looks for jobs. */
static hd_status announce(hd_session *s, hd_ctx *ctx) {
  hd_job_facts facts = {.batch = s->batch, .epochs = s->report.epochs, .steps = s->steps_in_all};
  char path[PATH_MAX];
  int cpu[HD_MAX_THREADS], lanes = hd__lanes_count(s->lanes);
  snprintf(facts.model, sizeof facts.model, "%s", s->report.model);
  snprintf(facts.data, sizeof facts.data, "%.*s", HD_JOB_PATH_BYTES - 1, s->report.data);
  snprintf(facts.isa, sizeof facts.isa, "%s", s->report.isa);
  snprintf(facts.device, sizeof facts.device, "%s", s->report.device);
  snprintf(facts.out, sizeof facts.out, "%.*s", HD_JOB_PATH_BYTES - 1, realpath(s->out, path) ? path : s->out);
  HD_TRY(open_page(s, ctx, &facts));
  for (int i = 0; i < lanes && i < HD_MAX_THREADS; i++)
    cpu[i] = hd__lanes_cpu(s->lanes, i);
  hd__job_lanes(&s->page, cpu, lanes);
  hd__job_step(&s->page, s->counters.step, s->counters.step / s->steps_per_epoch, 0, NAN);
  return HD_OK;
}

static hd_status open_folder(hd_session *s, hd_ctx *ctx) {
  char path[HD_PATH_BYTES];
  HD_TRY(choose_folder(s, ctx));
  if (s->lock < 0)
    HD_TRY(hd__file_lock_folder(&s->lock, ctx, s->out, 0));
  if (s->lock >= 0)
    hd__file_remove_leftovers(s->out);
  HD_TRY(hd__saver_check_run(ctx, s->out));
  HD_TRY(hd__file_join(path, ctx, s->out, "metrics.jsonl"));
  HD_TRY(hd__file_write(ctx, path, keep_lines, s));
  HD_TRY(hd__checkpoint_announce(ctx, s->out, s->record));
  s->metrics = fopen(path, "ae");
  if (!s->metrics)
    return hd__fail(ctx, HD_E_IO, "%s: expected to write it, found: %s; use --out", path, strerror(errno));
  setvbuf(s->metrics, NULL, _IOLBF, 0); /* whoever follows the run sees a line when it is written */
  HD_TRY(hd__saver_init(&s->saver, ctx, s->store, s->schedule.op, s->out, (int)hd__config_int(s->config, HD_OPT_keep)));
  s->report.memory_bytes = hd__session_bytes(s);
  s->saver.track = hd__profile_writer_track(&s->profiler);
  return HD_OK;
}

/* Where rank 0 keeps the run: a path of its host. */
static hd_status hear_folder(hd_session *s, hd_ctx *ctx) {
  typedef char path[HD_WORLD_GATHER_BYTES];
  path mine, *all = hd__malloc((size_t)hd__hosts_ranks(s->world) * sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the run's folder");
  snprintf(mine, sizeof mine, "%.*s", (int)sizeof mine - 1, s->out);
  hd_status status = hd__hosts_gather(all, s->world, ctx, mine, sizeof mine);
  if (status == HD_OK && !hd__session_writes(s))
    snprintf(s->out, sizeof s->out, "%s", all[0]);
  hd__free(all);
  return status;
}

/* What is saved when ranks are lost is saved on the host of rank 0, where the run is. */
hd_status hd__session_open_run(hd_session *s, hd_ctx *ctx) {
  if (hd__session_writes(s))
    HD_TRY(open_folder(s, ctx));
  HD_TRY(hear_folder(s, ctx));
  if (hd__hosts_mine(s->world) == 0)
    HD_TRY(hd__rescue_open(&s->rescue, ctx, s->world, s->out, (int)hd__config_int(s->config, HD_OPT_keep),
                           s->schedule.op, s->record));
  if (hd__session_writes(s))
    hd__keeper_start(s->world, s->out);
  hd__rescue_note(s->rescue, &s->counters);
  hd__world_step(s->world, s->counters.step);
  return announce(s, ctx);
}

void hd__session_tell(hd_session *s, const hd_event *event) {
  if (s->on_event)
    s->on_event(s->user, event);
}

/* Writes a line of metrics.jsonl and releases it. */
static void write_line(const hd_session *s, json_t *line) {
  if (line && s->metrics && json_dumpf(line, s->metrics, JSON_COMPACT | JSON_PRESERVE_ORDER) == 0)
    fputc('\n', s->metrics);
  json_decref(line);
}

void hd__session_log(hd_session *s, const hd_step *step, double loss) {
  double now = hd__session_train_s(s), seconds = now - s->logged_s;
  hd_event event = {.kind = HD_EVENT_LOG,
                    .step = s->counters.step,
                    .epoch = (s->counters.step - 1) / s->steps_per_epoch,
                    .loss = loss,
                    .samples_per_s = seconds > 0 ? (double)(s->trained_samples - s->logged_samples) / seconds : 0};
  double beta;
  hd__schedule_at(&s->schedule, s->counters.step - 1, &event.lr, &beta);
  (void)step;
  json_t *line = json_pack("{s:I, s:I, s:f, s:f, s:f, s:o*}", "step", (json_int_t)event.step, "epoch",
                           (json_int_t)event.epoch, "loss", event.loss, "lr", event.lr, "samples_per_s",
                           event.samples_per_s, "ranks", hd__rank_times_tell(&s->rank_times));
  write_line(s, line);
  s->logged_s = now;
  s->logged_samples = s->trained_samples;
  hd__session_tell(s, &event);
}

void hd__session_log_validation(hd_session *s) {
  if (s->val_feed.count == 0)
    return;
  double accuracy = s->report.val_accuracy;
  json_t *line = json_pack("{s:I, s:I, s:f, s:o*}", "step", (json_int_t)s->counters.step, "epoch",
                           (json_int_t)((s->counters.step - 1) / s->steps_per_epoch), "val_loss", s->report.val_loss,
                           "val_accuracy", isnan(accuracy) ? NULL : json_real(accuracy));
  write_line(s, line);
}

/* The mistakes with the highest confidence, most confident first; returns how many of all mistakes. */
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
    shown[at] = (hd_mistake){.image = test->images + i * hd__dataset_elems(test),
                             .label = test->labels[i],
                             .guess = s->guesses.guess[i],
                             .confidence = s->guesses.probability[i],
                             .index = i};
  }
  return wrong;
}

hd_status hd__session_draw_wrong(hd_session *s, hd_ctx *ctx) {
  hd_mistake shown[MISTAKES_SHOWN];
  const hd_dataset *test = hd__data_test(s->data);
  int count;
  if (!hd__target_judges(&s->network.target, test) || !test->images || test->channels != 1 || test->flat)
    return HD_OK; /* nothing to judge, or to draw */
  int64_t wrong = pick_mistakes(s, shown, &count);
  if (wrong == 0)
    return HD_OK;
  HD_TRY(hd__file_join(s->wrong_png, ctx, s->out, "wrong.png"));
  hd_status status = hd__picture_mistakes(ctx, s->wrong_png, shown, count, wrong, test->count - hd__skips_count(test),
                                          test->height, test->width);
  if (status != HD_OK)
    s->wrong_png[0] = 0;
  return status;
}
