/* A rank of a group on several hosts that counts what heddle allocates while it calls and trains: "host_steps OUT"
 * says "nothing was allocated in 1000 calls and 35 steps", or how much was. Counted are allocations by this program,
 * which includes heddle, and by its module for MPI; those of the MPI library are not. "host_steps OUT stall": rank 1
 * stops making progress after a step, and keeps running. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "heddle.h"

enum { CALLS = 1000, WARM_UP = 10, ELEMS = 40000, FIRST_STEP = 4, LAST_STEP = 39 };

static atomic_bool counts;
static atomic_long asked; /* of the system's allocator */
static long in_steps = -1;
static bool stalls;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_OWN_ALLOCATOR
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define HAS_OWN_ALLOCATOR
#endif

#ifndef HAS_OWN_ALLOCATOR
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);

static void count(void *caller) {
  Dl_info from, own;
  if (atomic_load(&counts) && dladdr(caller, &from) && dladdr(&asked, &own) &&
      (from.dli_fbase == own.dli_fbase || strstr(from.dli_fname, "heddle-mpi")))
    atomic_fetch_add(&asked, 1);
}

__attribute__((visibility("default"))) void *malloc(size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t number, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_calloc(number, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}
#endif

/* Those of heddle's allocator, which may take aligned memory, are counted by itself, too. */
static void begin_count(void) {
  hd__alloc_fail_after(-1);
  atomic_store(&asked, 0);
  atomic_store(&counts, true);
}

static long end_count(void) {
  const long own = hd__alloc_count(), whole = atomic_load(&asked);
  atomic_store(&counts, false);
  return own > whole ? own : whole;
}

static void must(hd_status status, hd_ctx *ctx) {
  if (status == HD_OK)
    return;
  fprintf(stderr, "%s\n", hd_ctx_message(ctx));
  exit(1);
}

static void at_event(void *unused, const hd_event *event) {
  if (event->kind != HD_EVENT_STEP)
    return;
  if (event->step == FIRST_STEP && stalls)
    pause();
  if (event->step == FIRST_STEP)
    begin_count();
  if (event->step == LAST_STEP)
    in_steps = end_count();
}

static long count_calls(hd_ctx *ctx, hd_group *group) {
  static float x[ELEMS];
  for (int i = 0; i < WARM_UP + CALLS; i++) {
    if (i == WARM_UP)
      begin_count();
    must(hd_group_all_reduce(x, group, ctx, x, i % 3 ? 1 : ELEMS, HD_F32, HD_REDUCE_SUM), ctx);
    must(hd_group_barrier(group, ctx), ctx);
  }
  return end_count();
}

static long count_steps(hd_ctx *ctx, hd_group *group, const char *out, const char *patience) {
  const char *const settings[] = {"model",     "cnn",  "data", "digits", "threads",       "1",     "max-steps", "40",
                                  "log-every", "1000", "out",  out,      "stall-timeout", patience};
  hd_config *config;
  hd_session *session;
  must(hd_config_create(&config, ctx), ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
    must(hd_config_set(config, ctx, settings[i], settings[i + 1]), ctx);
  must(hd_ddp(&session, ctx, config, group), ctx);
  must(hd_session_train(session, ctx, at_event, NULL), ctx);
  hd_session_destroy(session);
  hd_config_destroy(config);
  return in_steps;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_group *group;
  if (argc < 2 || hd_ctx_create(&ctx) != HD_OK)
    return 2;
  must(hd_group_init(&group, ctx, NULL), ctx);
  stalls = argc > 2 && hd_group_rank(group) == 1;
  const long calls = count_calls(ctx, group), steps = count_steps(ctx, group, argv[1], argc > 2 ? "1" : "60");
  if (calls == 0 && steps == 0)
    printf("nothing was allocated in %d calls and %d steps\n", CALLS, LAST_STEP - FIRST_STEP);
  else
    printf("%ld allocations in %d calls, %ld in %d steps\n", calls, CALLS, steps, LAST_STEP - FIRST_STEP);
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return 0;
}
