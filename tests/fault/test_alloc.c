/* Every allocation of a run fails once: setting up, training, evaluating, saving, resuming. Each failure must come back
 * as "out of memory" with a message, nothing half-written may stay, and what is left must still be good to
 * resume from. */
#include "scratch.h"

#include "base/alloc.h"
#include "heddle/session.h"

enum { MOST_ALLOCATIONS = 5000 };

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
      "model", "simplenet", "data", data,         "batch", "16",  "max-steps", "1", "clip-grad-norm",
      "1",     "threads",   "2",    "accumulate", "2",     "out", out,         NULL};
  return train(ctx, settings);
}

static hd_status resumed_run(hd_ctx *ctx) {
  return train(ctx, (const char *const[]){"resume", out, "data", data, "max-steps", "2", "threads", "2", NULL});
}

static hd_status evaluation(hd_ctx *ctx) {
  hd_config *config;
  hd_evaluation result = {0};
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

static int leftovers(void) {
  char command[2 * SCRATCH_PATH_BYTES];
  snprintf(command, sizeof command, "test -z \"$(find '%s' -name '*.tmp*' 2>/dev/null)\"", out);
  return system(command) != 0;
}

/* Fails allocation 0, 1, 2, ... of `work` until it gets through; `before` prepares each attempt. */
static void sweep(const char *what, hd_status (*work)(hd_ctx *ctx), void (*before)(void)) {
  int wrong = 0, count = 0;
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
  }
  ok(count > 20 && count < MOST_ALLOCATIONS, "%s: gets through once %d allocations succeed", what, count - 1);
  is_int(wrong, 0, "%s: each of %d failures is 'out of memory' and leaves nothing half-written", what, count - 1);
}

static void remove_run(void) { scratch_remove(out); }

/* The run that the first sweep ended with, as it was. */
static void restore_run(void) {
  char command[3 * SCRATCH_PATH_BYTES];
  snprintf(command, sizeof command, "cd '%s' && { [ -d kept ] || cp -a run kept; } && rm -rf run && cp -a kept run",
           scratch());
  if (system(command) != 0)
    bail_out("the run to start from cannot be copied");
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
  sweep("a fresh run", fresh_run, remove_run);
  sweep("a resumed run", resumed_run, restore_run);
  sweep("evaluation and digest", evaluation, keep_run);
  free((void *)data);
  free((void *)out);
  return done_testing();
}
