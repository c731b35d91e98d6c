/* --profile: the file is a trace that viewers open. Every thread has a track, slices nest and never overlap, operations
 * carry the layers' names, steps their numbers, and every barrier one waiting slice a thread. It is there after a run
 * that was stopped or that found a NaN; a long run keeps its first and its last steps; recording allocates nothing and
 * changes no digest. */
#include "scratch.h"

#include <jansson.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "exec/trace.h"
#include "heddle.h"

enum { MOST_DEPTH = 8, MOST_TRACKS = 9 };

static const char *data;

/* One run of a small model; its profile is read back. */
typedef struct run {
  hd_ctx *ctx;
  hd_session *session;
  hd_status status;
  char digest[HD_SHA256_TEXT_BYTES];
  json_t *trace;
} run;

static int64_t stop_at; /* 0: never */
static long allocations_early, allocations_late;

static void on_event(void *user, const hd_event *event) {
  if (event->kind != HD_EVENT_STEP)
    return;
  if (event->step == 2)
    allocations_early = hd__alloc_count();
  if (event->step == 8) /* the end of the first epoch, behind which a checkpoint is written */
    allocations_late = hd__alloc_count();
  if (event->step == stop_at)
    hd_session_stop(user);
}

static hd_status open_run(run *r, const char *const *pair) {
  static int runs;
  hd_config *config;
  *r = (run){0};
  if (hd_ctx_create(&r->ctx) != HD_OK || hd_config_create(&config, r->ctx) != HD_OK)
    bail_out("no context");
  hd_config_set(config, r->ctx, "data", data);
  hd_config_set(config, r->ctx, "out", in_scratch("run-%d", runs++));
  r->status = HD_OK;
  for (; *pair && r->status == HD_OK; pair += 2)
    r->status = hd_config_set(config, r->ctx, pair[0], pair[1]);
  if (r->status == HD_OK)
    r->status = hd_session_create(&r->session, r->ctx, config);
  hd_config_destroy(config);
  return r->status;
}

static void train(run *r, const char *const *pair) {
  if (open_run(r, pair) != HD_OK)
    bail_out("%s", hd_ctx_message(r->ctx));
  r->status = hd_session_train(r->session, r->ctx, on_event, r->session);
  memcpy(r->digest, hd_session_report(r->session)->weights_sha256, sizeof r->digest);
  const hd_profile *profile = hd_session_report(r->session)->profile;
  json_error_t error;
  r->trace = profile ? json_load_file(profile->path, 0, &error) : NULL;
  if (profile && !r->trace)
    diag("%s: %s in line %d", profile->path, error.text, error.line);
}

static void end(run *r) {
  json_decref(r->trace);
  hd_session_destroy(r->session);
  hd_ctx_destroy(r->ctx);
}

static int64_t ns_of(const json_t *event, const char *key) {
  return llround(json_number_value(json_object_get(event, key)) * 1000);
}

static const char *text_of(const json_t *event, const char *key) {
  const char *text = json_string_value(json_object_get(event, key));
  return text ? text : "";
}

static const json_t *arg_of(const json_t *event, const char *key) {
  return json_object_get(json_object_get(event, "args"), key);
}

/* What is on a track, gathered event by event in the order of the file. */
typedef struct track {
  char name[64];
  int64_t end[MOST_DEPTH]; /* of the slices around */
  int depth, slices, overlaps, waits, steps, evaluations, writes;
  int64_t first, last; /* step numbers */
  int64_t behind;      /* where the last outermost slice ended */
} track;

static void add_slice(track *t, const json_t *event) {
  int64_t begin = ns_of(event, "ts"), stop = begin + ns_of(event, "dur");
  const char *name = text_of(event, "name");
  while (t->depth > 0 && t->end[t->depth - 1] <= begin)
    t->depth--;
  t->overlaps += begin < 0 || stop < begin || (t->depth > 0 && stop > t->end[t->depth - 1]) || t->depth == MOST_DEPTH;
  if (t->depth < MOST_DEPTH)
    t->end[t->depth++] = stop;
  t->slices++;
  t->waits += !strcmp(name, "wait");
  t->evaluations += !strcmp(name, "evaluate");
  t->writes += !strcmp(name, "write the checkpoint");
  if (strcmp(name, "step"))
    return;
  t->last = json_integer_value(arg_of(event, "step"));
  t->first = t->steps++ == 0 ? t->last : t->first;
}

static void read_tracks(track tracks[MOST_TRACKS], const json_t *trace) {
  size_t i;
  json_t *event, *list = json_object_get(trace, "traceEvents");
  memset(tracks, 0, MOST_TRACKS * sizeof *tracks);
  json_array_foreach(list, i, event) {
    int64_t tid = json_integer_value(json_object_get(event, "tid"));
    if (tid < 0 || tid >= MOST_TRACKS)
      bail_out("expected few tracks, found number %lld", (long long)tid);
    if (!strcmp(text_of(event, "ph"), "X"))
      add_slice(&tracks[tid], event);
    else if (!strcmp(text_of(event, "name"), "thread_name"))
      snprintf(tracks[tid].name, sizeof tracks[tid].name, "%s", json_string_value(arg_of(event, "name")));
  }
}

/* Events between steps stand behind all steps of a track, each by itself: they must not overlap those. */
static int overlaps_between(const json_t *trace, int64_t tid) {
  size_t i, k;
  json_t *a, *b, *list = json_object_get(trace, "traceEvents");
  int overlaps = 0;
  json_array_foreach(list, i, a) {
    bool between = !strcmp(text_of(a, "name"), "evaluate") || !strcmp(text_of(a, "cat"), "checkpoint") ||
                   !strcmp(text_of(a, "name"), "shuffle");
    if (!between || strcmp(text_of(a, "ph"), "X") || json_integer_value(json_object_get(a, "tid")) != tid)
      continue;
    int64_t begin = ns_of(a, "ts"), stop = begin + ns_of(a, "dur");
    json_array_foreach(list, k, b) overlaps += k != i && !strcmp(text_of(b, "ph"), "X") &&
                                               json_integer_value(json_object_get(b, "tid")) == tid &&
                                               ns_of(b, "ts") < stop && ns_of(b, "ts") + ns_of(b, "dur") > begin;
  }
  return overlaps;
}

/* The slices' names without the direction, each once, in the order of their first slices. */
static void names_of(char *out, size_t bytes, const json_t *trace, const char *category) {
  size_t i;
  json_t *event;
  *out = 0;
  json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
    char name[80];
    if (strcmp(text_of(event, "cat"), category))
      continue;
    snprintf(name, sizeof name, "%s ", text_of(event, "name"));
    *strchr(name, ' ') = 0;
    strcat(name, " ");
    if (!strstr(out, name) && strlen(out) + strlen(name) < bytes)
      strcat(out, name);
  }
}

static void check_tracks(const run *r, int threads, int waits_a_step) {
  track t[MOST_TRACKS];
  char name[32];
  read_tracks(t, r->trace);
  for (int l = 1; l <= threads; l++) {
    snprintf(name, sizeof name, "thread %d, ", l - 1);
    ok(!strncmp(t[l].name, name, strlen(name)), "%d threads: track %d is called '%s'", threads, l, t[l].name);
    is_int(t[l].overlaps + overlaps_between(r->trace, l), 0, "its %d slices nest and never overlap", t[l].slices);
    is_int(t[l].steps, t[1].steps, "it has the steps of the others");
    is_int(t[l].waits, t[l].steps * waits_a_step, "each barrier has a slice of waiting");
    is_int(t[l].evaluations, 2, "it evaluated after each epoch");
  }
  is_str(t[threads + 1].name, "checkpoint writer", "the writer of checkpoints has a track");
  is_int(t[threads + 1].writes, 2, "with what it wrote");
  is_int(t[threads + 2].slices, 0, "there is no other track");
  is_int(t[1].first, 1, "the first step is 1");
  is_int(t[1].last, hd_session_report(r->session)->steps, "the last step is the run's");
}

static void check_shares(const hd_profile *p, int threads) {
  double sum = p->waiting;
  bool falls = true;
  for (int i = 0; i < p->items; i++) {
    sum += p->item[i].share;
    falls = falls && (i == 0 || p->item[i].share <= p->item[i - 1].share);
  }
  near(sum, 1, 0.02, "%d threads: the shares make a whole", threads);
  ok(p->items > 5 && falls, "%d of them, the largest first", p->items);
  ok(threads > 1 ? p->waiter >= 0 && p->waiter < threads && p->awaited >= 0 && p->awaited != p->waiter
                 : p->waiter == -1,
     "thread %d waited for thread %d", p->waiter, p->awaited);
}

static void test_layouts(void) {
  static const char *const threads[] = {"1", "2", "3"};
  run plain, r;
  const char *settings[] = {"model", "cnn", "batch", "16", "epochs", "2", "threads", "1", NULL};
  train(&plain, settings);
  for (int l = 0; l < 3; l++) {
    const char *traced[] = {
        "model", "cnn", "batch", "16", "epochs", "2", "threads", threads[l], "profile", in_scratch("p%d", l), NULL};
    char names[256];
    train(&r, traced);
    is_str(r.digest, plain.digest, "%s threads: a profile does not change the digest", threads[l]);
    is_int(allocations_late, allocations_early, "steps allocate nothing");
    check_tracks(&r, l + 1, 2);
    check_shares(hd_session_report(r.session)->profile, l + 1);
    names_of(names, sizeof names, r.trace, "forward");
    is_str(names, "conv1 conv2 fc1 fc2 loss ", "forward are the model's layers, those fused behind them included");
    names_of(names, sizeof names, r.trace, "backward");
    is_str(names, "loss fc2 fc1 conv2 conv1 ", "and backward");
    end(&r);
  }
  end(&plain);
}

/* Three phases, accumulation, statistics of the batch, and a thread without work. */
static void test_phases(void) {
  char model[SCRATCH_PATH_BYTES];
  run r;
  snprintf(model, sizeof model, "%s/tests/bits/norm.yaml", getenv("SRCDIR") ? getenv("SRCDIR") : ".");
  train(&r, (const char *const[]){"model", model, "batch", "4", "epochs", "2", "threads", "7", "clip-grad-norm", "1",
                                  "profile", in_scratch("phases"), NULL});
  track t[MOST_TRACKS];
  read_tracks(t, r.trace);
  for (int l = 1; l <= 7; l++)
    is_int(t[l].overlaps, 0, "batch norm and clipping, thread %d: slices nest", l - 1);
  is_int(t[7].waits, t[1].waits, "all threads come to as many barriers");
  end(&r);
  train(&r, (const char *const[]){"model", "mlp", "batch", "16", "epochs", "2", "threads", "2", "accumulate", "4",
                                  "profile", in_scratch("parts"), NULL});
  check_tracks(&r, 2, 16); /* a part: samples, outputs, the rest, chunks */
  end(&r);
}

/* However a run ends. */
static void test_ends(void) {
  run r, rest;
  track t[MOST_TRACKS];
  char out[SCRATCH_PATH_BYTES];
  stop_at = 3;
  train(&r, (const char *const[]){"model", "simplenet", "batch", "16", "threads", "2", "profile", in_scratch("stopped"),
                                  NULL});
  stop_at = 0;
  is_int(r.status, HD_E_INTERRUPTED, "a run is stopped");
  read_tracks(t, r.trace);
  ok(t[1].last >= 3 && t[1].last == t[2].last, "its profile has the steps until then");
  snprintf(out, sizeof out, "%s", hd_session_report(r.session)->out);
  hd_session_destroy(r.session);
  r.session = NULL;
  train(&rest,
        (const char *const[]){"out", out, "resume", out, "max-steps", "9", "profile", in_scratch("resumed"), NULL});
  int64_t stopped_at = t[1].last;
  read_tracks(t, rest.trace);
  is_int(t[1].first, stopped_at + 1, "a resumed run's profile goes on with the next number");
  is_int(t[1].last, 9, "up to the end");
  end(&rest);
  end(&r);
  train(&r, (const char *const[]){"model", "mlp", "optimizer", "sgd", "lr", "1000000", "threads", "2", "batch", "16",
                                  "profile", in_scratch("nan"), NULL});
  is_int(r.status, HD_E_NOTFINITE, "a run finds a number that is not finite");
  read_tracks(t, r.trace);
  ok(t[1].steps > 0 && t[1].steps == t[2].steps, "its profile has the %d steps until then", t[1].steps);
  end(&r);
}

/* A loop of the caller. */
static void test_own_loop(void) {
  run r;
  double loss;
  if (open_run(&r, (const char *const[]){"model", "simplenet", "profile", in_scratch("own"), NULL}) != HD_OK)
    bail_out("%s", hd_ctx_message(r.ctx));
  r.trace = json_load_file(in_scratch("own"), 0, NULL);
  ok(r.trace && json_array_size(json_object_get(r.trace, "traceEvents")) == 0, "before the first step it is empty");
  is_int(hd_session_step(&loss, r.session, r.ctx, 2), HD_OK, "two steps");
  ok(!hd_session_report(r.session)->profile, "nothing is written by itself");
  is_int(hd_session_profile(r.session, r.ctx), HD_OK, "hd_session_profile writes it");
  is_int(hd_session_report(r.session)->profile->steps, 2, "with two steps");
  end(&r);
  if (open_run(&r, (const char *const[]){"model", "simplenet", NULL}) != HD_OK)
    bail_out("%s", hd_ctx_message(r.ctx));
  refuses(hd_session_profile(r.session, r.ctx), HD_E_USAGE, r.ctx, "", "profile", "without the option there is none");
  end(&r);
}

static void test_refusals(void) {
  run r;
  char path[SCRATCH_PATH_BYTES + 16];
  snprintf(path, sizeof path, "%s/p.json", in_scratch("nowhere"));
  open_run(&r, (const char *const[]){"model", "simplenet", "profile", path, NULL});
  refuses(r.status, HD_E_IO, r.ctx, "--profile", "nowhere",
          "a folder that is not there is refused before the first step");
  ok(!r.session, "there is no session");
  end(&r);
  open_run(&r, (const char *const[]){"model", "simplenet", "profile", scratch(), NULL});
  refuses(r.status, HD_E_IO, r.ctx, "--profile", "directory", "so is the name of a folder");
  end(&r);
}

/* The buffer itself: as few blocks as there may be, of two slices. */
static void test_reel(void) {
  enum { STEPS = 100, HALF = 8 };
  hd_ctx *ctx;
  hd_trace *trace;
  const hd_trace_size size = {.threads = 2, .process_threads = 2, .room = 2, .slices = 64};
  if (hd_ctx_create(&ctx) != HD_OK || hd__trace_create(&trace, ctx, NULL, &size) != HD_OK)
    bail_out("no trace");
  hd_track *thread = &trace->track[1];
  for (int n = 0; n < STEPS; n++) {
    hd__trace_step(thread);
    for (int i = 0; i < 3; i++)
      hd__trace_leaf(thread, HD_SLICE_CALL, n);
  }
  int kept = 0, right = 0;
  for (int n = 0; n < STEPS; n++) {
    int64_t block = hd__slice_buffer_block(&thread->steps, n);
    kept += block >= 0;
    right += block >= 0 && *hd__slice_buffer_used(&thread->steps, block) == 2 &&
             hd__slice_buffer_slices(&thread->steps, block)[1].of == n;
    if (n < HALF || n >= STEPS - HALF)
      ok(block >= 0, "step %d is kept", n);
  }
  is_int(kept, 2 * HALF, "the first and the last steps are kept");
  is_int(right, kept, "each with what it recorded, and no more than there is room for");
  hd__trace_destroy(trace);
  hd_ctx_destroy(ctx);
}

int main(void) {
  const char *build = getenv("BUILDDIR");
  char command[3 * SCRATCH_PATH_BYTES];
  data = strdup(in_scratch("data"));
  snprintf(command, sizeof command, "mkdir '%s' && '%s/tests/bits/make_idx' '%s' 120 40", data, build ? build : ".",
           data);
  if (system(command) != 0)
    bail_out("no data");
  test_reel();
  test_layouts();
  test_phases();
  test_ends();
  test_own_loop();
  test_refusals();
  return done_testing();
}
