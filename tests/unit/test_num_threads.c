/* How many threads a context takes: what counts before what, for sessions, tensors and pools. */
#include "scratch.h"

#include <stdatomic.h>
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <jansson.h>

#include "heddle.h"
#include "heddle/tools.h"
#include "heddle/experimental.h"
#include "platform/placement.h"
#include "tensor/eager.h"
#include "train/run/thread_count.h"

static hd_ctx *ctx;

static int told(hd_ctx *of) {
  int32_t threads = -1;
  if (hd_get_num_threads(&threads, of) != HD_OK)
    diag("%s", hd_ctx_message(of));
  return threads;
}

/* ---- What really runs ---- */

static void count_shares(void *arg, int64_t first, int64_t end) { atomic_fetch_add((atomic_int *)arg, 1); }

/* Threads of the context's tensors. */
static int of_tensors(void) {
  atomic_int shares = 0;
  hd__team_run(ctx, 1 << 16, 1 << 20, count_shares, &shares);
  return shares;
}

static int of_pool(int workers) {
  hd_pool *pool;
  if (hd_pool_create(&pool, ctx, HD_POOL_THREADS, workers) != HD_OK)
    return -1;
  workers = hd_pool_workers(pool);
  hd_pool_destroy(pool);
  return workers;
}

static int of_session(const char *threads) {
  hd_config *config;
  hd_session *session;
  int came = -1;
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_set(config, ctx, "model", "simplenet");
  hd_config_set(config, ctx, "epochs", "1000000"); /* long enough for a search */
  hd_config_set(config, ctx, "threads", threads);
  hd_config_set(config, ctx, "out", in_scratch("run-%s", threads));
  scratch_remove(in_scratch("run-%s", threads));
  if (hd_session_create(&session, ctx, config) == HD_OK) {
    came = hd_session_report(session)->threads;
    hd_session_destroy(session);
  } else {
    diag("%s", hd_ctx_message(ctx));
  }
  hd_config_destroy(config);
  return came;
}

/* ---- Tests ---- */

static void test_refused(void) {
  static const int32_t bad[] = {0, -1, INT32_MIN, HD_MAX_THREADS + 1, INT32_MAX};
  hd_set_num_threads(ctx, 2);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char found[32];
    snprintf(found, sizeof found, "found %d;", bad[i]);
    hd_status status = hd_set_num_threads(ctx, bad[i]);
    ok(status == HD_E_USAGE && strstr(hd_ctx_message(ctx), found), "%d threads are refused: %s", bad[i],
       hd_ctx_message(ctx));
  }
  is_int(told(ctx), 2, "and the number before stands");
  is_int(hd_set_num_threads(NULL, 2), HD_E_USAGE, "no context is refused");
}

static void test_warning(void) {
  hd_topology *machine;
  if (hd_topology_create(&machine, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const int cpus = machine->budget.cpus;
  hd_topology_destroy(machine);
  is_int(hd_set_num_threads(ctx, cpus + 1), HD_OK, "more than the budget are allowed");
  char wanted[32];
  snprintf(wanted, sizeof wanted, "%d threads share %d CPU", cpus + 1, cpus);
  ok(strstr(hd_ctx_message(ctx), "warning: ") && strstr(hd_ctx_message(ctx), wanted), "with a warning: %s",
     hd_ctx_message(ctx));
  is_int(told(ctx), cpus + 1, "and never silently fewer");
  is_int(hd_set_num_threads(ctx, 1), HD_OK, "one thread");
  is_str(hd_ctx_message(ctx), "", "is no reason to warn");
}

static void test_default(void) {
  hd_ctx *fresh;
  hd_topology *machine;
  hd_placement *place;
  if (hd_ctx_create(&fresh) != HD_OK || hd_topology_create(&machine, ctx) != HD_OK ||
      hd__placement_create(&place, ctx, machine, &(hd_placement_request){0}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  is_int(told(fresh), place->threads, "without a number: one thread for each core within the budget");
  hd_placement_destroy(place);
  hd_topology_destroy(machine);
  setenv("OMP_NUM_THREADS", "3", 1);
  is_int(told(fresh), 3, "OMP_NUM_THREADS stands above that");
  is_int(hd_set_num_threads(fresh, 2), HD_OK, "a number that is set");
  is_int(told(fresh), 2, "stands above both");
  setenv("OMP_NUM_THREADS", "none", 1);
  is_int(told(fresh), 2, "and above nonsense");
  hd_ctx_destroy(fresh);
  if (hd_ctx_create(&fresh) != HD_OK)
    bail_out("out of memory");
  int32_t threads = -1;
  is_int(hd_get_num_threads(&threads, fresh), HD_E_USAGE, "which is refused without one");
  ok(threads == 0 && strstr(hd_ctx_message(fresh), "'none'"), "%s", hd_ctx_message(fresh));
  hd_ctx_destroy(fresh);
  unsetenv("OMP_NUM_THREADS");
}

static void test_what_follows(void) {
  hd_ctx *other;
  if (hd_ctx_create(&other) != HD_OK)
    bail_out("out of memory");
  const int before = told(other);
  hd_set_num_threads(ctx, 3);
  is_int(of_tensors(), 3, "tensors follow");
  is_int(of_pool(0), 3, "pools do");
  is_int(of_session("auto"), 3, "sessions do, and search for nothing better");
  is_int(of_pool(2), 2, "the number of the pool wins");
  is_int(of_session("2"), 2, "so does a session's");
  hd_set_num_threads(ctx, 2);
  is_int(of_tensors(), 2, "tensors follow a change");
  hd_tensor_set_threads(ctx, 4);
  is_int(of_tensors(), 4, "their number wins");
  hd_set_num_threads(ctx, 3);
  is_int(of_tensors(), 4, "over a later one too");
  hd_tensor_set_threads(ctx, 0);
  is_int(of_tensors(), 3, "until it is given up");
  hd_set_num_threads(ctx, 1);
  is_int(of_tensors(), 1, "one thread");
  is_int(told(other), before, "another context does not notice");
  hd_ctx_destroy(other);
}

static int stop_at_once(void *user, double done, double seconds) {
  ++*(int *)user;
  return 1;
}

static void test_tune(void) {
  static hd_tune tune = {.struct_bytes = sizeof tune};
  hd_config *config;
  int turns = 0;
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_set(config, ctx, "model", "simplenet");
  is_int(hd_tune_run(&tune, ctx, config, &(hd_tune_request){.struct_bytes = sizeof(hd_tune_request), .seconds = 0.05}),
         HD_E_USAGE, "tuning for 0.05 s");
  is_int(hd_tune_run(&tune, ctx, config,
                     &(hd_tune_request){.struct_bytes = sizeof(hd_tune_request), .seconds = 0.0 / 0.0}),
         HD_E_USAGE, "or for no number");
  is_int(hd_tune_run(&tune, ctx, config,
                     &(hd_tune_request){.struct_bytes = sizeof(hd_tune_request), .seconds = 1, .sweep = 8}),
         HD_E_USAGE, "and a sweep that there is not are refused");
  ok(strstr(hd_ctx_message(ctx), "found 8") != NULL, "%s", hd_ctx_message(ctx));
  hd_set_num_threads(ctx, 2);
  const hd_tune_request request = {.struct_bytes = sizeof request,
                                   .seconds = 1000,
                                   .sweep = HD_TUNE_PLACEMENT,
                                   .progress = stop_at_once,
                                   .user = &turns};
  is_int(hd_tune_run(&tune, ctx, config, &request), HD_OK, "a sweep over placements alone");
  ok(tune.settings[0].threads == 1 && tune.settings[tune.count - 1].threads == 2,
     "takes the context's number of threads, and one to compare");
  ok(turns == 1 && tune.settings[0].turns == 1 && tune.seconds < 500, "and ends when stopped");
  ok(tune.settings[0].samples_per_s > 0 && tune.settings[0].speedup == 1 && strlen(tune.weights_sha256) == 64,
     "with what it has");
  hd_config_set(config, ctx, "placement", "spread");
  is_int(hd_tune_run(&tune, ctx, config, &request), HD_E_USAGE, "a placement that is set is not varied");
  hd_config_destroy(config);
}

/* ---- The file of results ---- */

enum { WRITERS = 2, RESULTS = 15 };

/* As many tunes as there are results, each for another placement. */
static void store_results(const hd_session *session, int writer) {
  for (int i = 0; i < RESULTS; i++) {
    char asked[32];
    snprintf(asked, sizeof asked, "%d of writer %d", i, writer);
    hd__best_threads_remember(session, asked, &(hd_best){.threads = 1, .samples_per_s = 1, .load = NAN});
  }
}

static void test_results(void) {
  const char *const all[] = {"model", "simplenet", "data", "random:1x28x28", "threads", "1", "max-steps", "1"};
  hd_config *config;
  hd_session *session;
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_set(config, ctx, "out", in_scratch("run"));
  for (size_t i = 0; i < sizeof all / sizeof *all; i += 2)
    hd_config_set(config, ctx, all[i], all[i + 1]);
  if (hd_session_create(&session, ctx, config) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  fflush(stdout);
  for (int w = 0; w < WRITERS; w++)
    if (fork() == 0) {
      store_results(session, w);
      _exit(0);
    }
  for (int w = 0; w < WRITERS; w++)
    wait(NULL);
  json_t *stored = json_load_file(in_scratch("cache/threads.json"), 0, NULL);
  const char *key;
  json_t *entry;
  int found = 0;
  json_object_foreach(stored, key, entry) found += strstr(key, " of writer ") != NULL;
  is_int(found, WRITERS * RESULTS, "two processes that store results at once lose none");
  json_decref(stored);
  hd_session_destroy(session);
  hd_config_destroy(config);
}

int main(void) {
  unsetenv("OMP_NUM_THREADS");
  setenv("HEDDLE_CACHE", in_scratch("cache"), 1);
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_refused();
  test_warning();
  test_default();
  test_what_follows();
  test_tune();
  test_results();
  hd_ctx_destroy(ctx);
  return done_testing();
}
