/* Between two steps of a run nothing is allocated, freed or locked, by any thread and any library (but that loader
 * workers lock): the functions of the C library are replaced here and counted. The line that every --log-every-th step
 * writes is left out. */
#include "scratch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "heddle.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define TAKES_OVER 0
#elif defined(__has_feature)
#define TAKES_OVER !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define TAKES_OVER 1
#endif

static atomic_int watching, allocated, freed, locked, steps;

#if TAKES_OVER
#pragma GCC visibility push(default) /* for libraries as well */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *old);

static void note(atomic_int *counter) {
  if (atomic_load_explicit(&watching, memory_order_relaxed))
    atomic_fetch_add(counter, 1);
}

void *malloc(size_t bytes) {
  note(&allocated);
  return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
  note(&allocated);
  return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes) {
  note(&allocated);
  return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
  note(&allocated);
  return __libc_memalign(alignment, bytes);
}

void free(void *old) {
  if (old)
    note(&freed);
  __libc_free(old);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
  static int (*_Atomic next)(pthread_mutex_t *);
  if (!next)
    next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  note(&locked);
  return next(mutex);
}
#pragma GCC visibility pop
#endif

/* Steps end while the other threads are in the next one: from the first end to the last but one all is watched. */
static void at_event(void *last, const hd_event *event) {
  if (event->kind != HD_EVENT_STEP)
    return;
  steps += atomic_load(&watching);
  atomic_store(&watching, event->step >= 1 && event->step < *(const int *)last);
}

static void count_in(hd_ctx *ctx, const char *model, const char *threads, const char *more, const char *value) {
  const char *const settings[] = {"model",     model, "data",      "random:1x28x28", "threads", threads,
                                  "max-steps", "40",  "log-every", "1000",           more,      value};
  int last = 40;
  hd_config *config;
  hd_session *session;
  allocated = freed = locked = steps = 0;
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "out", in_scratch("%s-%s-%s", model, threads, more));
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
    if (hd_config_set(config, ctx, settings[i], settings[i + 1]) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  if (hd_session_create(&session, ctx, config) != HD_OK || hd_session_train(session, ctx, at_event, &last) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
  is_int(steps, last - 1, "%s, %s threads, %s %s: so many steps were watched", model, threads, more, value);
  is_int(allocated, 0, "nothing was allocated");
  is_int(freed, 0, "nothing was freed");
  if (strcmp(more, "workers")) /* which lock to claim what they read */
    is_int(locked, 0, "nothing was locked");
}

/* Is anything counted at all? */
static void test_counting(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex); /* the first call looks up the real function */
  pthread_mutex_unlock(&mutex);
  atomic_store(&watching, 1);
  char *volatile text = strdup("text");
  free(text);
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  atomic_store(&watching, 0);
  is_int(allocated, 1, "what a library allocates is counted");
  is_int(freed, 1, "what is freed, too");
  is_int(locked, 1, "and what is locked");
}

int main(void) {
  hd_ctx *ctx;
  /* clang's OpenMP takes a lock to put a thread to sleep that is in no region: that is not a thread. */
  setenv("KMP_BLOCKTIME", "infinite", 1);
  if (!TAKES_OVER) {
    skip(1, "a sanitizer has the allocator");
    return done_testing();
  }
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  test_counting();
  count_in(ctx, "cnn", "4", "accumulate", "1");
  count_in(ctx, "cnn", "1", "clip-grad-norm", "1");
  count_in(ctx, "cnn", "3", "accumulate", "4");
  count_in(ctx, "resnet", "4", "batch", "16");
  count_in(ctx, "mlp", "4", "optimizer", "sgd");
  count_in(ctx, "cnn", "3", "transforms",
           "[{random_crop: {size: 28, padding: 2}}, {affine: {degrees: 10, shear: 5}}, {elastic: 20}, erase, to_float, "
           "normalise]");
  count_in(ctx, "cnn", "2", "workers", "2");
  hd_ctx_destroy(ctx);
  return done_testing();
}
