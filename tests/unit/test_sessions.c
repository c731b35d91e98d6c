/* Sessions share nothing: two in one process, their steps taken in turn or in two threads at once, end in the digests
 * of separate runs, however their steps are cut; one that goes on from another ends in the digest of one run of both;
 * and a thousand of them, with loader workers or without, created
 * and destroyed, leave no memory, no thread, no open file and no mapping behind. After a step that fails a session is
 * as it was before. */
#include "scratch.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"
#include "heddle.h"
#include "train/checkpoint/gpt_names.h"

enum { WARM_UP = 20, MORE_RESIDENT_KIB = 512, TEXT = HD_SHA256_TEXT_BYTES };

/* A different experiment each. */
static const char *const left[] = {"model",     "mlp",  "seed",  "3",  "threads", "2",
                                   "optimizer", "adam", "batch", "16", NULL};
static const char *const right[] = {"model",    "simplenet", "seed",  "4", "threads",        "2", "optimizer", "sgd",
                                    "momentum", "0.9",       "batch", "8", "clip-grad-norm", "1", NULL};

static const char *data;
static int runs;

static int sessions(void) { return check_depth() > 1 ? 1000 : 300; }

/* A session in a new folder; NULL and a message after a failure. */
static hd_session *open_session(hd_ctx *ctx, const char *const *pair, int run) {
  hd_session *session = NULL;
  hd_config *config;
  char out[SCRATCH_PATH_BYTES];
  snprintf(out, sizeof out, "%s/run-%d", scratch(), run);
  if (hd_config_create(&config, ctx) != HD_OK)
    return NULL;
  hd_status status = hd_config_set(config, ctx, "data", data);
  if (status == HD_OK)
    status = hd_config_set(config, ctx, "out", out);
  for (; *pair && status == HD_OK; pair += 2)
    status = hd_config_set(config, ctx, pair[0], pair[1]);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  hd_config_destroy(config);
  return session;
}

static void finish(char digest[TEXT], hd_session *session, hd_ctx *ctx) {
  digest[0] = 0;
  if (session && hd_session_train(session, ctx, NULL, NULL) == HD_OK)
    memcpy(digest, hd_session_report(session)->weights_sha256, TEXT);
  else
    snprintf(digest, TEXT, "failed");
  hd_session_destroy(session);
}

static void alone(char digest[TEXT], hd_ctx *ctx, const char *const *pair) {
  hd_session *session = open_session(ctx, pair, runs++);
  finish(digest, session, ctx);
  if (!strcmp(digest, "failed"))
    diag("%s", hd_ctx_message(ctx));
}

static void test_turns(hd_ctx *ctx, char want[2][TEXT]) {
  hd_session *a = open_session(ctx, left, runs++), *b = open_session(ctx, right, runs++);
  char found[2][TEXT];
  double loss;
  int failed = !a || !b;
  for (int i = 1; !failed && !(hd_session_done(a) && hd_session_done(b)); i++) {
    failed = hd_session_step(&loss, a, ctx, i % 3 + 1) || hd_session_step(&loss, b, ctx, i % 2 + 1);
    if (i % 4 == 0)
      failed = failed || hd_session_evaluate(a, ctx);
  }
  is_int(failed, 0, "two sessions take steps in turn");
  finish(found[0], a, ctx);
  finish(found[1], b, ctx);
  is_str(found[0], want[0], "the one has the digest of a separate run");
  is_str(found[1], want[1], "so has the other");
}

/* Of a network with a norm, which counts batches: the digest of two runs is that of one, and that of their files. */
static void test_counts(hd_ctx *ctx) {
  static const char layers[] = "model: normed\ninput: [1, 28, 28]\n"
                               "layers: [conv: {op: conv2d, out: 3, kernel: 5, stride: 5}, norm: {op: batch_norm}, "
                               "flat: {op: flatten}, fc: {op: linear, out: 10}]\n";
  const char *const both[] = {"model", layers, "batch", "16", "epochs", "2", NULL};
  const char *const one[] = {"model", layers, "batch", "16", "epochs", "1", NULL};
  char want[TEXT], found[TEXT], first[SCRATCH_PATH_BYTES], saved[SCRATCH_PATH_BYTES];
  alone(want, ctx, both);
  snprintf(first, sizeof first, "%s/run-%d", scratch(), runs);
  alone(found, ctx, one);
  hd_session *session = open_session(ctx, one, runs++);
  is_int(hd_session_go_on(session, ctx, first, 1), HD_OK, "a session with a norm goes on");
  finish(found, session, ctx);
  is_str(found, want, "to the digest of one run of both");
  is_int(hd_digest(found, ctx, in_scratch("run-%d", runs - 1)), HD_OK, "its files are read");
  is_str(found, want, "and have that digest");
  session = open_session(ctx, one, runs++);
  is_int(hd_session_go_on(session, ctx, first, 1) || hd_session_step(NULL, session, ctx, 3) ||
             hd_session_save(session, ctx),
         0, "another one is saved");
  hd_session_destroy(session);
  snprintf(saved, sizeof saved, "%s/run-%d", scratch(), runs - 1);
  alone(found, ctx, (const char *const[]){"resume", saved, NULL});
  is_str(found, want, "and ends there when it is resumed");
}

/* One run of two epochs, and two of an epoch each. */
static void test_going_on(hd_ctx *ctx) {
  const char *const both[] = {"model", "mlp", "optimizer", "adam", "batch", "16", "epochs", "2", NULL};
  const char *const one[] = {"model", "mlp", "optimizer", "adam", "batch", "16", "epochs", "1", NULL};
  const char *const sgd[] = {"model", "mlp", "optimizer", "sgd", "batch", "16", NULL};
  const char *const average[] = {"model", "mlp", "optimizer", "adam", "batch", "16", "ema", "0.9", NULL};
  char want[TEXT], found[TEXT], first[SCRATCH_PATH_BYTES], weights[SCRATCH_PATH_BYTES + 32];
  const char *const init[] = {"model", "mlp", "init", weights, NULL};
  alone(want, ctx, both);
  snprintf(first, sizeof first, "%s/run-%d", scratch(), runs);
  snprintf(weights, sizeof weights, "%s/last/model.safetensors", first);
  alone(found, ctx, one);
  hd_session *session = open_session(ctx, one, runs++);
  hd_session_evaluate(session, ctx);
  const double drawn = hd_session_report(session)->test_loss;
  is_int(hd_session_go_on(session, ctx, first, 1), HD_OK, "a session goes on from another run");
  is_int(hd_session_evaluate(session, ctx), HD_OK, "and is evaluated");
  ok(hd_session_report(session)->test_loss < drawn, "as the run's weights are, and not as its own first ones were");
  is_int(hd_session_step(NULL, session, ctx, 1), HD_OK, "it trains");
  is_int(hd_session_go_on(session, ctx, first, 1), HD_E_USAGE, "not after its first step");
  finish(found, session, ctx);
  is_str(found, want, "and ends in the digest of one run of both");
  session = open_session(ctx, sgd, runs++);
  is_int(hd_session_go_on(session, ctx, first, 1), HD_E_USAGE, "nor with another optimizer");
  hd_session_destroy(session);
  session = open_session(ctx, average, runs++);
  is_int(hd_session_go_on(session, ctx, first, 1), HD_E_USAGE, "nor with an average that the run has not");
  ok(strstr(hd_ctx_message(ctx), "expected a run with the ema 0.9, found unset"), "%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd__fail(ctx, HD_OK, HD_GPT_NOTE "as an earlier session found");
  session = open_session(ctx, init, runs++);
  is_str(session ? hd_session_report(session)->arithmetic_note : "failed", "",
         "a note on other weights is not of these");
  hd_session_destroy(session);
}

typedef struct job {
  const char *const *pair;
  int run;
  char digest[TEXT];
} job;

static void *work(void *arg) {
  job *j = arg;
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    return NULL;
  finish(j->digest, open_session(ctx, j->pair, j->run), ctx);
  hd_ctx_destroy(ctx);
  return NULL;
}

static void test_threads(char want[2][TEXT]) {
  job jobs[4] = {{left, 0, ""}, {right, 0, ""}, {right, 0, ""}, {left, 0, ""}};
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    jobs[i].run = runs++;
    if (pthread_create(&thread[i], NULL, work, &jobs[i]) != 0)
      bail_out("expected a thread, found none");
  }
  for (int i = 0; i < 4; i++)
    pthread_join(thread[i], NULL);
  for (int i = 0; i < 4; i++)
    is_str(jobs[i].digest, want[jobs[i].pair == right], "session %d of four at once has its digest", i + 1);
}

/* Weight decay multiplies the weights by -1e12 in each step, so the fourth is not finite. Convolutions compute with a
 * packed copy of their weight. */
static void test_failed_step(hd_ctx *ctx) {
  static const char layers[] = "model: wide\ninput: [1, 28, 28]\n"
                               "layers: [conv: {op: conv2d, out: 64, kernel: 28}, flat: {op: flatten}]\n";
  char model[SCRATCH_PATH_BYTES];
  snprintf(model, sizeof model, "%s", in_scratch("wide.yaml"));
  put_file(model, layers, strlen(layers));
  const char *const pair[] = {"model", model, "threads",      "2",   "batch", "16", "optimizer", "sgd",
                              "lr",    "1e6", "weight-decay", "1e6", NULL};
  double loss[2] = {0};
  for (int fails = 0; fails < 2; fails++) {
    hd_session *session = open_session(ctx, pair, runs++);
    if (!session || hd_session_step(NULL, session, ctx, 3) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    if (fails)
      is_int(hd_session_step(NULL, session, ctx, 1), HD_E_NOTFINITE, "a step's weights are not finite");
    is_int(hd_session_evaluate(session, ctx), HD_OK, "the session is evaluated");
    loss[fails] = hd_session_report(session)->test_loss;
    hd_session_destroy(session);
  }
  ok(loss[0] > 0 && loss[1] == loss[0], "a failed step does not change the loss");
}

/* All resources that a process could leak. */
typedef struct census {
  held memory;
  int threads, mappings;
  long resident_kib;
} census;

static census count_all(void) {
  census now = {.memory = held_now(), .threads = entries_in("/proc/self/task")};
  char line[1024];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    now.mappings++;
  if (maps)
    fclose(maps);
  FILE *status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    sscanf(line, "VmRSS: %ld", &now.resident_kib);
  if (status)
    fclose(status);
  return now;
}

static void test_many(hd_ctx *ctx) {
  static const char *const workers[] = {"0", "1", "3"};
  int failed = 0, run = runs++;
  census before = {0}, after;
  for (int i = 0; i < WARM_UP + sessions(); i++) {
    if (i == WARM_UP)
      before = count_all();
    const char *const pair[] = {"model", "simplenet", "max-steps",    "1", "threads", "2", "batch",
                                "16",    "workers",   workers[i % 3], NULL};
    hd_session *session = open_session(ctx, pair, run);
    if (!session) {
      diag("%s", hd_ctx_message(ctx));
      failed++;
      break;
    }
    bool trained = i % 50 == 0; /* saving takes a thread, too */
    if (trained)
      failed += hd_session_step(NULL, session, ctx, 1) != HD_OK;
    hd_session_destroy(session);
    if (trained)
      scratch_remove(in_scratch("run-%d", run));
  }
  after = count_all();
  is_int(failed, 0, "%d sessions are created and destroyed", sessions());
  is_int(after.threads, before.threads, "no thread more");
  is_int(after.memory.files, before.memory.files, "no open file more");
  is_int(after.memory.mappings, before.memory.mappings, "no mapped file more");
  if (after.memory.bytes == 0) {
    skip(3, "a sanitizer keeps what was freed, in mappings of its own");
    return;
  }
  ok(after.mappings <= before.mappings + 4, "no mappings more: %d, then %d", before.mappings, after.mappings);
  ok(after.memory.bytes <= before.memory.bytes + 4096, "no memory more: %zu bytes, then %zu", before.memory.bytes,
     after.memory.bytes);
  ok(after.resident_kib <= before.resident_kib + MORE_RESIDENT_KIB, "no page more: %ld KiB, then %ld KiB",
     before.resident_kib, after.resident_kib);
}

/* What an event's function did: how often it was called, and what its calls returned. */
typedef struct seen {
  hd_session *session;
  hd_ctx *ctx;
  int calls, refused, unlike;
} seen;

static void call_inside(void *user, const hd_event *event) {
  seen *s = user;
  double loss;
  s->calls++;
  s->refused += hd_session_step(&loss, s->session, s->ctx, 1) == HD_E_USAGE;
  s->refused += hd_session_train(s->session, s->ctx, NULL, NULL) == HD_E_USAGE;
  if (event->kind == HD_EVENT_STEP)
    s->unlike += hd_session_evaluate(s->session, s->ctx) != HD_E_USAGE;
}

static void test_events(hd_ctx *ctx, const char *want) {
  hd_ctx *inside;
  hd_session *session = open_session(ctx, left, runs++);
  if (!session || hd_ctx_create(&inside) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  seen s = {.session = session, .ctx = inside};
  is_int(hd_session_train(session, ctx, call_inside, &s), HD_OK, "a session trains whose callback calls it");
  ok(s.calls > 1, "which is called: %d times", s.calls);
  is_int(s.refused, 2 * s.calls, "it neither trains nor steps in a callback");
  is_int(s.unlike, 0, "nor evaluates in a step's");
  is_str(hd_session_report(session)->weights_sha256, want, "and has the digest of a run without");
  const int calls = s.calls;
  is_int(hd_session_save(session, ctx), HD_OK, "it is saved once more");
  is_int(s.calls, calls, "without a callback, which may be gone");
  hd_session_destroy(session);
  hd_ctx_destroy(inside);
}

int main(void) {
  const char *build = getenv("BUILDDIR");
  char command[2 * SCRATCH_PATH_BYTES], want[2][TEXT];
  hd_ctx *ctx;
  if (access("/dev/shm", W_OK) == 0)
    setenv("TMPDIR", "/dev/shm", 1); /* a thousand runs' folders */
  data = strdup(in_scratch("data"));
  snprintf(command, sizeof command, "mkdir '%s' && '%s/tests/bits/make_idx' '%s' 120 40", data, build ? build : ".",
           data);
  if (system(command) != 0 || hd_ctx_create(&ctx) != HD_OK)
    bail_out("no data set");
  alone(want[0], ctx, left);
  alone(want[1], ctx, right);
  ok(strcmp(want[0], want[1]) && strcmp(want[0], "failed") && strcmp(want[1], "failed"), "two experiments run alone");
  test_turns(ctx, want);
  test_threads(want);
  test_failed_step(ctx);
  test_events(ctx, want[0]);
  test_counts(ctx);
  test_going_on(ctx);
  test_many(ctx);
  hd_ctx_destroy(ctx);
  free((void *)data);
  return done_testing();
}
