/* Runs that end in the middle of what follows a step: a process, one of two ranks, or both are killed during an
 * evaluation or before the first step, and an evaluation finds a sample that cannot be read. The run that goes on has
 * the weights, the number of steps, `best`, `last` and the metrics of an undisturbed one. */
#include "scratch.h"

#include <jansson.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "comm/group_state.h"
#include "exec/exchange/local_group_join.h"
#include "heddle.h"
#include "train/checkpoint/emergency_save.h"

enum { MOST_RANKS = 2, TRAIN = 40, TEST = 12, SIDE = 4, BATCH = 8, WAIT_S = 120 };
enum { EPOCH = (TRAIN - TRAIN / 5) / BATCH };
enum { NO_RANK = -1, BOTH_RANKS = MOST_RANKS };

/* What happens to a run; shared by its processes. */
typedef struct plot {
  int ranks, victim; /* which rank is killed: a number, BOTH_RANKS, NO_RANK */
  int64_t step;      /* after this step, in its evaluation; 0: in the first step */
  bool fails;        /* instead, a sample of that evaluation cannot be read */
} plot;

typedef struct finding {
  hd_status status;
  char digest[HD_SHA256_TEXT_BYTES], text[512];
} finding;

static finding *found;
static plot now; /* copied by fork */
static int my_rank;
static int64_t my_step;
static bool trains;

static int64_t len(void *self) { return self == &found[0] ? TRAIN : TEST; }

static bool strikes(bool test) { return now.step == my_step && trains && test == (now.step > 0); }

/* Labels are noise: the first epochs learn them by heart, and the test's loss rises. */
static int get(void *self, int64_t index, hd_custom_sample *sample) {
  const bool test = self != &found[0];
  if (strikes(test) && (now.victim == my_rank || now.victim == BOTH_RANKS))
    raise(SIGKILL);
  snprintf(sample->why, sizeof sample->why, "the tape is torn");
  for (int i = 0; i < SIDE * SIDE; i++)
    sample->bytes[i] = (uint8_t)((index * 37 + i * i * 11 + (test ? 101 : 0)) % 256);
  sample->label = (int32_t)((index * index + (test ? 1 : 0)) % 3);
  return strikes(test) && now.fails && index >= TEST / 2;
}

static void on_event(void *user, const hd_event *event) {
  if (event->kind == HD_EVENT_STEP)
    my_step = event->step;
}

static hd_status run(finding *out, hd_ctx *ctx, hd_group *group, const char *folder, bool resumes) {
  const char *const settings[] = {"model",     in_scratch("net.yaml"),
                                  "data",      "mine",
                                  "batch",     "8",
                                  "lr",        "0.05",
                                  "seed",      "2",
                                  "epochs",    "6",
                                  "log-every", "1",
                                  "shards",    "8",
                                  "val-split", "0.2"};
  const hd_custom_data custom = {.struct_bytes = sizeof custom,
                                 .name = "mine",
                                 .channels = 1,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .dtype = HD_U8,
                                 .classes = 3,
                                 .train = &found[0],
                                 .test = &found[1],
                                 .len = len,
                                 .get = get};
  hd_config *config;
  hd_session *s;
  HD_TRY(hd_data_add(ctx, &custom));
  HD_TRY(hd_config_create(&config, ctx));
  for (size_t i = 0; i < sizeof settings / sizeof *settings && !resumes; i += 2)
    HD_TRY(hd_config_set(config, ctx, settings[i], settings[i + 1]));
  if (!resumes)
    HD_TRY(hd_config_set(config, ctx, "patience", "3"));
  HD_TRY(hd_config_set(config, ctx, "threads", "1"));
  HD_TRY(hd_config_set(config, ctx, "cache", "none"));
  HD_TRY(hd_config_set(config, ctx, resumes ? "resume" : "out", folder));
  HD_TRY(hd_ddp(&s, ctx, config, group));
  my_step = hd_session_report(s)->resumed_step;
  trains = true;
  const hd_status status = hd_session_train(s, ctx, on_event, NULL);
  snprintf(out->digest, sizeof out->digest, "%s", hd_session_report(s)->weights_sha256);
  hd_session_destroy(s);
  hd_config_destroy(config);
  return status;
}

static void be_process(hd_local_group *founder, int rank, const char *folder, bool resumes) {
  hd_ctx *ctx;
  hd_local_group *local = NULL;
  hd_group *group = NULL;
  my_rank = rank;
  if (hd_ctx_create(&ctx) != HD_OK)
    _exit(1);
  if (founder && (hd__local_group_join(&local, ctx, hd__local_group_fd(founder), rank, WAIT_S) != HD_OK ||
                  hd__group_of_ranks(&group, ctx, local, WAIT_S) != HD_OK))
    _exit(1);
  found[rank].status = run(&found[rank], ctx, group, folder, resumes);
  snprintf(found[rank].text, sizeof found[rank].text, "%s", hd_ctx_message(ctx));
  hd_group_destroy(group);
  hd__local_group_leave(local);
  _exit(0);
}

/* Nothing is saved beside a process that writes the run: a rank that goes on, or one that has resumed it. */
static void save_beside_another(hd_local_group *founder, const char *folder) {
  hd_ctx ctx = {0};
  char where[HD_PATH_BYTES], last[64], path[SCRATCH_PATH_BYTES + 8];
  int64_t step;
  int lock;
  if (hd__file_lock_folder(&lock, &ctx, folder, 0) != HD_OK)
    bail_out("%s", ctx.message);
  is_int(hd__emergency_save(&step, where, NULL, &ctx, founder), HD_E_IO, "a run that another process writes: %s",
         ctx.message);
  snprintf(last, sizeof last, "step-%lld", (long long)now.step);
  snprintf(path, sizeof path, "%s/%s", folder, last);
  ok(!hd__file_exists(path), "and %s is not there", last);
  hd__file_unlock(&lock);
}

/* One life of a run; what its ranks leave is saved as by the process that started them. */
static void live(const char *folder, bool resumes) {
  pid_t child[MOST_RANKS];
  hd_local_group *founder = NULL;
  char where[HD_PATH_BYTES];
  int64_t step;
  int killed = 0, end;
  if (now.ranks > 1 && hd__local_group_found(&founder, NULL, now.ranks, true) != HD_OK)
    bail_out("no shared memory");
  fflush(stdout);
  for (int r = 0; r < now.ranks; r++) {
    found[r] = (finding){.status = HD_E_SYSTEM};
    child[r] = fork();
    if (child[r] == 0)
      be_process(founder, r, folder, resumes);
  }
  for (int r = 0; r < now.ranks; r++) {
    waitpid(child[r], &end, 0);
    killed += WIFSIGNALED(end);
  }
  hd_ctx ctx = {0};
  static bool tried;
  if (founder && killed && !tried) /* before the first step was saved */
    save_beside_another(founder, folder);
  tried |= founder && killed;
  if (founder && killed && hd__emergency_save(&step, where, NULL, &ctx, founder) != HD_OK)
    diag("expected a step to be saved, found %s", ctx.message);
  hd__local_group_leave(founder);
}

static void read_link(char name[64], const char *folder, const char *which) {
  char path[SCRATCH_PATH_BYTES + 8];
  snprintf(path, sizeof path, "%s/%s", folder, which);
  const ssize_t n = readlink(path, name, 63);
  name[n > 0 ? n : 0] = 0;
}

/* The lines of metrics.jsonl without what time measures. */
static char *read_metrics(const char *folder) {
  char path[SCRATCH_PATH_BYTES + 16], *text = NULL, *line = NULL;
  size_t room = 0, bytes;
  snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
  FILE *from = fopen(path, "r"), *to = open_memstream(&text, &bytes);
  while (from && getline(&line, &room, from) > 0) {
    json_t *object = json_loads(line, 0, NULL);
    json_object_del(object, "samples_per_s");
    json_object_del(object, "ranks");
    json_dumpf(object, to, JSON_COMPACT);
    fputc('\n', to);
    json_decref(object);
  }
  if (from)
    fclose(from);
  fclose(to);
  free(line);
  return text;
}

typedef struct outcome {
  char digest[HD_SHA256_TEXT_BYTES], best[64], last[64];
  char *metrics;
} outcome;

static outcome look(const char *folder) {
  outcome o = {.metrics = read_metrics(folder)};
  snprintf(o.digest, sizeof o.digest, "%s", found[0].digest);
  read_link(o.best, folder, "best");
  read_link(o.last, folder, "last");
  return o;
}

static void check(const outcome *o, const outcome *wanted, const char *name) {
  is_str(o->digest, wanted->digest, "%s: the digest of an undisturbed run", name);
  is_str(o->last, wanted->last, "%s: and as many steps", name);
  is_str(o->best, wanted->best, "%s: and its best checkpoint", name);
  is_str(o->metrics, wanted->metrics, "%s: and its metrics", name);
}

static void disturb(const outcome *wanted, const plot *what) {
  char name[96], folder[SCRATCH_PATH_BYTES / 2], saved[64];
  static int number;
  snprintf(name, sizeof name, "%d rank%s, %s %d after step %lld", what->ranks, what->ranks > 1 ? "s" : "",
           what->fails ? "no sample" : "kill", what->victim, (long long)what->step);
  snprintf(folder, sizeof folder, "%s", in_scratch("run-%d", number++));
  now = *what;
  live(folder, false);
  for (int r = 0; r < what->ranks && what->fails; r++) {
    const char *why = strstr(found[r].text, "the tape is torn"),
               *how = strstr(found[r].text, "continue with --resume ");
    ok(found[r].status == HD_E_IO && why && how && strstr(how, folder), "%s: rank %d reports how to go on", name, r);
    if (!why || !how)
      diag("%s", found[r].text);
  }
  read_link(saved, folder, "last");
  if (what->step > 0) {
    char last[64];
    snprintf(last, sizeof last, "step-%lld", (long long)what->step);
    is_str(saved, last, "%s: the step is saved", name);
  }
  now = (plot){.ranks = what->ranks == 1 ? 2 : 1, .victim = NO_RANK, .step = -1};
  live(folder, *saved != 0);
  const outcome o = look(folder);
  check(&o, wanted, name);
  free(o.metrics);
}

int main(void) {
  static const char net[] = "model: tiny\ninput: [1, 4, 4]\nlayers:\n  - flat: {op: flatten}\n"
                            "  - fc1: {op: linear, out: 32}\n  - relu: {op: relu}\n  - fc2: {op: linear, out: 3}\n";
  found = mmap(NULL, MOST_RANKS * sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED)
    bail_out("no shared memory");
  put_file(in_scratch("net.yaml"), net, sizeof net - 1);
  now = (plot){.ranks = 1, .victim = NO_RANK, .step = -1};
  live(in_scratch("whole"), false);
  const outcome wanted = look(in_scratch("whole"));
  diag("best %s, last %s", wanted.best, wanted.last);
  ok(found[0].status == HD_OK && strcmp(wanted.best, wanted.last),
     "an undisturbed run has a best step before its last");
  if (found[0].status != HD_OK)
    diag("%s", found[0].text);
  ok(strcmp(wanted.last, "step-24"), "and ends by --patience");
  for (int64_t step = 0; step <= 3 * EPOCH; step += EPOCH) {
    disturb(&wanted, &(plot){.ranks = 1, .victim = 0, .step = step});
    for (int victim = 0; victim <= BOTH_RANKS; victim++)
      disturb(&wanted, &(plot){.ranks = 2, .victim = victim, .step = step});
    if (step > 0)
      for (int ranks = 1; ranks <= 2; ranks++)
        disturb(&wanted, &(plot){.ranks = ranks, .victim = NO_RANK, .step = step, .fails = true});
  }
  free(wanted.metrics);
  return done_testing();
}
