/* A rank of a group on several hosts that counts what heddle allocates while it calls and trains: "host_steps OUT" says
 * "nothing was allocated in 1000 calls and 35 steps", or how much was. The MPI library's own is not counted. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "heddle.h"

enum { CALLS = 1000, WARM_UP = 10, ELEMS = 40000, FIRST_STEP = 4, LAST_STEP = 39 };

static long first, last;

static void must(hd_status status, hd_ctx *ctx) {
  if (status == HD_OK)
    return;
  fprintf(stderr, "%s\n", hd_ctx_message(ctx));
  exit(1);
}

static void at_event(void *unused, const hd_event *event) {
  if (event->kind != HD_EVENT_STEP)
    return;
  if (event->step == FIRST_STEP)
    first = hd__alloc_count();
  if (event->step == LAST_STEP)
    last = hd__alloc_count();
}

static long count_calls(hd_ctx *ctx, hd_group *group) {
  static float x[ELEMS];
  long before = 0;
  for (int i = 0; i < WARM_UP + CALLS; i++) {
    if (i == WARM_UP)
      before = hd__alloc_count();
    must(hd_group_all_reduce(x, group, ctx, x, i % 3 ? 1 : ELEMS, HD_F32, HD_REDUCE_SUM), ctx);
    must(hd_group_barrier(group, ctx), ctx);
  }
  return hd__alloc_count() - before;
}

static long count_steps(hd_ctx *ctx, hd_group *group, const char *out) {
  const char *const settings[] = {"model",     "cnn", "data",      "digits", "threads", "1",
                                  "max-steps", "40",  "log-every", "1000",   "out",     out};
  hd_config *config;
  hd_session *session;
  must(hd_config_create(&config, ctx), ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
    must(hd_config_set(config, ctx, settings[i], settings[i + 1]), ctx);
  must(hd_ddp(&session, ctx, config, group), ctx);
  must(hd_session_train(session, ctx, at_event, NULL), ctx);
  hd_session_destroy(session);
  hd_config_destroy(config);
  return last - first;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_group *group;
  if (argc != 2 || hd_ctx_create(&ctx) != HD_OK)
    return 2;
  must(hd_group_init(&group, ctx, NULL), ctx);
  const long calls = count_calls(ctx, group), steps = count_steps(ctx, group, argv[1]);
  if (calls + steps == 0 && last > 0)
    printf("nothing was allocated in %d calls and %d steps\n", CALLS, LAST_STEP - FIRST_STEP);
  else
    printf("%ld allocations in %d calls, %ld in %d steps\n", calls, CALLS, steps, LAST_STEP - FIRST_STEP);
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return 0;
}
