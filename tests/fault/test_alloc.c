/* Every allocation of a run fails once: planning, setting up, training, evaluating, saving, resuming. Each failure must
 * come back as "out of memory" with a message, nothing half-written may stay, nothing be lost, and what is left must
 * still be good to resume from. */
#include "scratch.h"

#include "base/alloc.h"
#include "graph/model.h"
#include "heddle/session.h"
#include "plan/plan.h"

enum { MOST_ALLOCATIONS = 5000, SLACK_BYTES = 4096 };

static const char *data, *out;

static hd_status set_all(hd_config *config, hd_ctx *ctx, const char *const *pair) {
  hd_status status = HD_OK;
  for (; *pair && status == HD_OK; pair += 2)
    status = hd_config_set(config, ctx, pair[0], pair[1]);
  return status;
}

static hd_status train(hd_ctx *ctx, const char *const *settings) {
  hd_config *config = NULL;
  hd_session *session = NULL;
  hd_status status = hd_config_create(&config, ctx);
  if (status == HD_OK)
    status = set_all(config, ctx, settings);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, NULL, NULL);
  hd_session_destroy(session);
  hd_config_destroy(config);
  return status;
}

static hd_status fresh_run(hd_ctx *ctx) {
  const char *const settings[] = {
      "model", "simplenet", "data", data,         "batch", "16",  "max-steps", "1",       "clip-grad-norm",
      "1",     "threads",   "2",    "accumulate", "2",     "out", out,         "profile", in_scratch("profile.json"),
      NULL};
  return train(ctx, settings);
}

static hd_status resumed_run(hd_ctx *ctx) {
  return train(ctx, (const char *const[]){"resume", out, "data", data, "max-steps", "2", "threads", "2", NULL});
}

static hd_status evaluation(hd_ctx *ctx) {
  hd_config *config;
  hd_evaluation result = {.struct_bytes = sizeof result};
  char hex[HD_SHA256_TEXT_BYTES];
  hd_status status = hd_config_create(&config, ctx);
  if (status != HD_OK)
    return status;
  status = hd_config_set(config, ctx, "data", data);
  if (status == HD_OK)
    status = hd_evaluate(&result, ctx, out, config);
  hd_evaluation_fini(&result);
  hd_config_destroy(config);
  return status == HD_OK ? hd_digest(hex, ctx, out) : status;
}

static int is_leftover(const char *path, const struct stat *info, int kind, struct FTW *where) {
  return strstr(path + where->base, ".tmp") != NULL;
}

static int leftovers(void) { return nftw(out, is_leftover, 16, FTW_PHYS) == 1; }

/* Once without a failure: what libraries keep is there from now on. */
static held warm_up(hd_status (*work)(hd_ctx *ctx), void (*before)(void)) {
  hd_ctx *ctx;
  before();
  if (hd_ctx_create(&ctx) != HD_OK || work(ctx) != HD_OK)
    bail_out("it fails by itself");
  hd_ctx_destroy(ctx);
  return held_now();
}

/* Fails allocation 0, 1, 2, ... of `work` until it gets through; `before` prepares each attempt. */
static void sweep(const char *what, hd_status (*work)(hd_ctx *ctx), void (*before)(void)) {
  int wrong = 0, count = 0;
  held early = warm_up(work, before), late = early;
  for (hd_status status = HD_E_NOMEM; status != HD_OK && count < MOST_ALLOCATIONS; count++) {
    hd_ctx *ctx;
    before();
    if (hd_ctx_create(&ctx) != HD_OK)
      bail_out("no context");
    hd__alloc_fail_after(count);
    status = work(ctx);
    hd__alloc_fail_after(-1);
    int good = status == HD_OK || (status == HD_E_NOMEM && strstr(hd_ctx_message(ctx), "memory"));
    if (!good || leftovers()) {
      wrong++;
      diag("%s, allocation %d: status %d, '%s'", what, count, (int)status, hd_ctx_message(ctx));
    }
    hd_ctx_destroy(ctx);
    late = held_now();
  }
  ok(count > 20 && count < MOST_ALLOCATIONS, "%s: gets through once %d allocations succeed", what, count - 1);
  is_int(wrong, 0, "%s: each of %d failures is 'out of memory' and leaves nothing half-written", what, count - 1);
  is_int(late.files, early.files, "%s: no file stays open", what);
  is_int(late.mappings, early.mappings, "%s: nor mapped", what);
  ok(late.bytes <= early.bytes + SLACK_BYTES, "%s: no memory is lost: %zu bytes, then %zu", what, early.bytes,
     late.bytes);
}

/* A model of nearly every operation, and both plans made of it. */
static hd_status planning(hd_ctx *ctx) {
  static char text[8192];
  static size_t length;
  hd_status status = HD_OK;
  if (length == 0) {
    char path[SCRATCH_PATH_BYTES];
    snprintf(path, sizeof path, "%s/tests/bits/mixed.yaml", getenv("SRCDIR") ? getenv("SRCDIR") : ".");
    FILE *file = fopen(path, "r");
    length = file ? fread(text, 1, sizeof text, file) : 0;
    if (length == 0)
      bail_out("expected to read %s, found no way", path);
    fclose(file);
  }
  for (int train = 0; train < 2 && status == HD_OK; train++) {
    const hd_plan_settings settings = {.train = train, .clip_norm = true, .recompute = train};
    hd_graph *graph;
    hd_plan *plan = NULL;
    status = hd__model_parse(&graph, NULL, ctx, text, length, "mixed.yaml");
    if (status == HD_OK)
      status = hd__plan_create(&plan, ctx, graph, hd__kernels_reference(), &settings);
    hd__plan_destroy(plan);
  }
  return status;
}

static void remove_run(void) { scratch_remove(out); }

static const char *copy_from, *copy_to;

static int copy_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
  char to[SCRATCH_PATH_BYTES], bytes[1 << 16];
  snprintf(to, sizeof to, "%s%s", copy_to, path + strlen(copy_from));
  if (kind == FTW_D)
    return mkdir(to, 0755);
  if (kind == FTW_SL) {
    const ssize_t length = readlink(path, bytes, sizeof bytes - 1);
    bytes[length < 0 ? 0 : length] = 0;
    return symlink(bytes, to);
  }
  FILE *file = fopen(path, "rb");
  const size_t length = file ? fread(bytes, 1, sizeof bytes, file) : 0;
  put_file(to, bytes, length);
  return !file || fclose(file) != 0 || length == sizeof bytes;
}

static void copy_run(const char *from, const char *to) {
  copy_from = from, copy_to = to;
  if (nftw(from, copy_one, 16, FTW_PHYS) != 0)
    bail_out("the run to start from cannot be copied");
}

/* The run that the first sweep ended with, as it was. */
static void restore_run(void) {
  static char *kept;
  if (!kept)
    copy_run(out, kept = strdup(in_scratch("kept")));
  scratch_remove(out);
  copy_run(kept, out);
}

static void keep_run(void) {}

int main(void) {
  const char *build = getenv("BUILDDIR");
  char command[2 * SCRATCH_PATH_BYTES];
  if (access("/dev/shm", W_OK) == 0)
    setenv("TMPDIR", "/dev/shm", 1); /* hundreds of runs, each synced to the disk */
  data = strdup(in_scratch("data"));
  out = strdup(in_scratch("run"));
  snprintf(command, sizeof command, "mkdir '%s' && '%s/tests/bits/make_idx' '%s' 80 30", data, build ? build : ".",
           data);
  if (system(command) != 0)
    bail_out("no data set");
  sweep("planning", planning, keep_run);
  sweep("a fresh run", fresh_run, remove_run);
  sweep("a resumed run", resumed_run, restore_run);
  sweep("evaluation and digest", evaluation, keep_run);
  free((void *)data);
  free((void *)out);
  return done_testing();
}
