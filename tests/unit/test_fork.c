/* A child by fork of a process that has trained: it trains to the same weights, predicts the same, and computes with
 * tensors; what belongs to its parent is refused in one line, and can be destroyed; and the parent goes on. A child
 * that waited for threads of its parent would wait for ever: an alarm ends it. */
#include "scratch.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "heddle.h"
#include "heddle/loader.h"
#include "heddle/pool.h"
#include "heddle/predict.h"
#include "heddle/tensor.h"
#include "heddle/topology.h"

enum { TEXT_BYTES = 512, ALARM_S = 60, PIXELS = 28 * 28, CLASSES = 10 };

static hd_ctx *ctx;

/* Runs `work` in a child: what it returns, or how the child ended. */
static const char *in_child(const char *(*work)(void *arg), void *arg) {
  static char text[TEXT_BYTES];
  int channel[2], end;
  fflush(stdout);
  if (pipe(channel) != 0)
    bail_out("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    alarm(ALARM_S);
    const char *result = work(arg);
    (void)!write(channel[1], result, strlen(result));
    _exit(0);
  }
  close(channel[1]);
  const ssize_t got = read(channel[0], text, sizeof text - 1);
  text[got > 0 ? got : 0] = 0;
  close(channel[0]);
  waitpid(child, &end, 0);
  if (WIFSIGNALED(end))
    snprintf(text, sizeof text, WTERMSIG(end) == SIGALRM ? "it hangs" : "signal %d", WTERMSIG(end));
  return text;
}

static hd_config *settings(int threads, int workers, const char *out) {
  const char *const all[] = {"model", "simplenet", "data", "random:1x28x28", "max-steps", "6", "save-every", "3"};
  hd_config *config;
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("no configuration");
  for (size_t i = 0; i < sizeof all / sizeof *all; i += 2)
    if (hd_config_set(config, ctx, all[i], all[i + 1]) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  char number[2][16];
  snprintf(number[0], sizeof number[0], "%d", threads);
  snprintf(number[1], sizeof number[1], "%d", workers);
  hd_config_set(config, ctx, "threads", number[0]);
  hd_config_set(config, ctx, "workers", number[1]);
  hd_config_set(config, ctx, "out", in_scratch("%s-%d-%d-%d", out, (int)getpid(), threads, workers));
  return config;
}

/* The digest of a run, or what failed. */
static const char *train(int threads, int workers, const char *out) {
  static char text[TEXT_BYTES];
  hd_config *config = settings(threads, workers, out);
  hd_session *session;
  hd_status status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, NULL, NULL);
  snprintf(text, sizeof text, "%s", status == HD_OK ? hd_session_report(session)->weights_sha256 : hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
  return text;
}

typedef struct layout {
  int threads, workers;
} layout;

static const char *train_again(void *arg) {
  const layout *l = arg;
  return train(l->threads, l->workers, "child");
}

static const char *train_in_grandchild(void *arg) { return in_child(train_again, arg); }

static void test_training(void) {
  char digest[TEXT_BYTES];
  snprintf(digest, sizeof digest, "%s", train(2, 1, "parent"));
  is_int((int)strlen(digest), 64, "a run: %s", digest);
  for (int threads = 1; threads <= 2; threads++)
    for (int workers = 0; workers <= 1; workers++)
      is_str(in_child(train_again, &(layout){threads, workers}), digest, "a child trains on %d threads, %d workers",
             threads, workers);
  is_str(in_child(train_in_grandchild, &(layout){2, 0}), digest, "and so does its child");
  is_str(train(2, 1, "after"), digest, "and then the parent");
}

/* ---- What a child may use ---- */

typedef struct use {
  hd_predictor *predictor;
  hd_tensor *x;
} use;

/* Predictions and a product as text: of their bits. */
static const char *use_all(void *arg) {
  static char text[TEXT_BYTES];
  const use *u = arg;
  static uint8_t pixels[8 * PIXELS];
  double value[8 * CLASSES];
  hd_tensor *product;
  uint64_t bits = 0, word;
  for (int i = 0; i < 8 * PIXELS; i++)
    pixels[i] = (uint8_t)(i * 7);
  if (hd_predict_pixels(value, u->predictor, ctx, pixels, 8) != HD_OK ||
      hd_tensor_matmul(&product, ctx, u->x, u->x) != HD_OK)
    return hd_ctx_message(ctx);
  for (int i = 0; i < 8 * CLASSES; i++) {
    memcpy(&word, &value[i], sizeof word);
    bits = bits * 31 + word;
  }
  const float *element = hd_tensor_data(product);
  for (int64_t i = 0; i < hd_tensor_elems(product); i++)
    bits = bits * 31 + (uint64_t)(int64_t)(element[i] * 1e4F);
  hd_tensor_destroy(product);
  snprintf(text, sizeof text, "%016llx", (unsigned long long)bits);
  return text;
}

static const char *use_and_destroy(void *arg) {
  use *u = arg;
  const char *text = use_all(u);
  hd_predictor_destroy(u->predictor);
  hd_tensor_destroy(u->x);
  hd_ctx_destroy(ctx);
  return text;
}

static void test_use(int threads) {
  char run[SCRATCH_PATH_BYTES], here[TEXT_BYTES];
  hd_config *config = settings(threads, 0, "used");
  snprintf(run, sizeof run, "%s", in_scratch("used-%d-%d-0", (int)getpid(), threads));
  train(threads, 0, "used");
  use u;
  if (hd_tensor_set_threads(ctx, threads) != HD_OK || hd_predictor_create(&u.predictor, ctx, run, config) != HD_OK ||
      hd_tensor_randn(&u.x, ctx, 3, 2, (int64_t[]){256, 256}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  snprintf(here, sizeof here, "%s", use_all(&u));
  is_int((int)strlen(here), 16, "%d threads predict and multiply: %s", threads, here);
  is_str(in_child(use_all, &u), here, "so do a child's");
  is_str(in_child(use_and_destroy, &u), here, "which may destroy all");
  is_str(use_all(&u), here, "and the parent's again");
  hd_predictor_destroy(u.predictor);
  hd_tensor_destroy(u.x);
  hd_config_destroy(config);
}

/* A sanitizer's allocator has locks of its own, which it does not prepare for a fork: a child may wait for ever
 * where it frees memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_FORK_BESIDE_A_THREAD 0
#elif defined(__has_feature)
#define MAY_FORK_BESIDE_A_THREAD !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define MAY_FORK_BESIDE_A_THREAD 1
#endif

static void skip_fork_beside_a_thread(void) {
  skip(1, "a sanitizer's allocator does not expect a fork beside a thread that allocates");
}

/* ---- What stays with the parent ---- */

static hd_status add_one(void *output, hd_ctx *task_ctx, const void *input) {
  *(int *)output = *(const int *)input + 1;
  return HD_OK;
}

static const hd_task task = {
    .name = "add one", .run = add_one, .input_bytes = sizeof(int), .output_bytes = sizeof(int)};

typedef struct owned {
  hd_session *session;
  hd_loader *loader;
  hd_pool *pool;
  hd_future *future;
} owned;

static bool is_refused(hd_status status) {
  return status == HD_E_USAGE && strstr(hd_ctx_message(ctx), "a child of it") && !strchr(hd_ctx_message(ctx), '\n');
}

static const char *be_refused(void *arg) {
  owned *o = arg;
  const hd_batch *batch;
  const int input = 1;
  int output;
  if (!is_refused(hd_session_step(NULL, o->session, ctx, 1)) || !is_refused(hd_session_save(o->session, ctx)))
    return "the session";
  if (!is_refused(hd_loader_next(&batch, o->loader, ctx)) || !is_refused(hd_loader_begin(o->loader, ctx, 1)))
    return "the loader";
  if (!is_refused(hd_pool_map(&output, o->pool, ctx, &task, &input, 1, NULL)) ||
      !is_refused(hd_future_result(&output, o->future, ctx, -1)))
    return "the pool";
  hd_session_destroy(o->session);
  hd_loader_destroy(o->loader);
  hd_future_destroy(o->future);
  hd_pool_destroy(o->pool);
  return "all";
}

static void test_refused(void) {
  hd_config *config = settings(2, 2, "owned");
  owned o;
  const hd_batch *batch;
  const int input = 41;
  int output = 0;
  if (hd_session_create(&o.session, ctx, config) != HD_OK || hd_session_step(NULL, o.session, ctx, 4) != HD_OK ||
      hd_loader_create(&o.loader, ctx, config, HD_LOADER_TRAINING, NULL) != HD_OK ||
      hd_loader_next(&batch, o.loader, ctx) != HD_OK || hd_pool_create(&o.pool, ctx, HD_POOL_THREADS, 2) != HD_OK ||
      hd_pool_submit(&o.future, o.pool, ctx, &task, &input) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  if (MAY_FORK_BESIDE_A_THREAD)
    is_str(in_child(be_refused, &o), "all", "a child is refused the session, the loader and the pool of its parent");
  else
    skip_fork_beside_a_thread();
  ok(hd_session_step(NULL, o.session, ctx, 2) == HD_OK && hd_session_save(o.session, ctx) == HD_OK &&
         hd_loader_next(&batch, o.loader, ctx) == HD_OK && hd_future_result(&output, o.future, ctx, -1) == HD_OK,
     "which go on in the parent: %s", hd_ctx_message(ctx));
  is_int(output, 42, "with the result of a task");
  hd_session_destroy(o.session);
  hd_loader_destroy(o.loader);
  hd_future_destroy(o.future);
  hd_pool_destroy(o.pool);
  hd_config_destroy(config);
}

/* ---- What another thread was doing ---- */

enum { FORKS = 40 };

static atomic_bool ends;

static const char *look_at_machine(void *arg) {
  hd_topology *machine;
  if (hd_topology_create(&machine, ctx) != HD_OK)
    return hd_ctx_message(ctx);
  hd_topology_destroy(machine);
  return "the machine";
}

static void *look_on(void *arg) {
  hd_ctx *own;
  hd_topology *machine;
  if (hd_ctx_create(&own) != HD_OK)
    return NULL;
  while (!atomic_load(&ends) && hd_topology_create(&machine, own) == HD_OK)
    hd_topology_destroy(machine);
  hd_ctx_destroy(own);
  return NULL;
}

/* A thread of the parent that holds a lock at the fork holds it for ever in the child, which has no such thread. */
static void test_other_thread(void) {
  pthread_t thread;
  const char *found = look_at_machine(NULL);
  if (!MAY_FORK_BESIDE_A_THREAD) {
    skip_fork_beside_a_thread();
    return;
  }
  if (pthread_create(&thread, NULL, look_on, NULL) != 0)
    bail_out("no thread");
  for (int i = 0; i < FORKS && !strcmp(found, "the machine"); i++)
    found = in_child(look_at_machine, NULL);
  atomic_store(&ends, true);
  pthread_join(thread, NULL);
  is_str(found, "the machine", "a child sees it while a thread of its parent looks at it");
}

int main(void) {
  scratch();
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  test_training();
  test_use(1);
  test_use(2);
  test_refused();
  test_other_thread();
  hd_ctx_destroy(ctx);
  return done_testing();
}
