/* Trains a few steps of a model on noise of its shape, 16 samples each, with one thread: what bench/instructions
 * counts.
 *
 *     count_steps MODEL CxHxW STEPS
 *
 * Counting starts and ends with hd__exec_run, so that setting up is not in it. Prints the compiler, since another one's
 * counts are others. Developers' tool; reaches internals. */
#include <stdio.h>
#include <stdlib.h>

#include "heddle.h"
#include "train/run/rehearsal.h"
#include "train/run/session.h"

#if defined(__clang__)
#define COMPILER "clang " __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static hd_status run(hd_ctx *ctx, hd_config *config, char **argv) {
  char data[64];
  hd_session *session;
  hd_rehearsal *rehearsal = NULL;
  snprintf(data, sizeof data, "random:%.40s", argv[2]);
  HD_TRY(hd_config_set(config, ctx, "model", argv[1]));
  HD_TRY(hd_config_set(config, ctx, "data", data));
  HD_TRY(hd_config_set(config, ctx, "batch", "16"));
  HD_TRY(hd_config_set(config, ctx, "threads", "1"));
  HD_TRY(hd__session_create(&session, ctx, config, &(hd_session_use){.rehearses = true, .lock = -1}));
  hd__feed_shuffle(&session->input.train, 0, 0);
  hd_threads *threads;
  hd_status status = hd__threads_open(&threads, ctx, &(hd_placement_request){.threads = 1});
  if (status == HD_OK)
    status = hd__rehearsal_create(&rehearsal, ctx, session, threads, 0);
  if (status == HD_OK)
    status = hd__rehearsal_steps(rehearsal, ctx, atoi(argv[3]));
  hd__rehearsal_destroy(rehearsal);
  hd_session_destroy(session);
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config = NULL;
  if (argc != 4) {
    fprintf(stderr, "usage: count_steps MODEL CxHxW STEPS\n");
    return 2;
  }
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  hd_status status = hd_config_create(&config, ctx);
  if (status == HD_OK)
    status = run(ctx, config, argv);
  if (status == HD_OK)
    printf("%s\n", COMPILER);
  else
    fprintf(stderr, "count_steps: %s\n", hd_ctx_message(ctx));
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return status != HD_OK;
}
