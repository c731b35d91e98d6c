/* Trains the built-in model `cnn` for a few steps and prints the results.
 *
 *     train_cnn [DATA [STEPS]]        DATA: digits (the default), mnist, fashion or a folder of IDX files */
#include <heddle.h>
#include <stdio.h>

static void show(void *user, const hd_event *event) {
  (void)user;
  if (event->kind == HD_EVENT_LOG)
    printf("step %lld: loss %.4f\n", (long long)event->step, event->loss);
}

static hd_status train(hd_ctx *ctx, hd_config *config) {
  hd_session *session;
  hd_status status = hd_session_create(&session, ctx, config);
  if (status != HD_OK)
    return status;
  status = hd_session_train(session, ctx, show, NULL);
  if (status == HD_OK) {
    const hd_report *report = hd_session_report(session);
    printf("accuracy %.2f %%\n", 100 * report->test_accuracy);
    printf("weights_sha256 %s\n", report->weights_sha256);
    printf("saved in %s\n", report->out);
  }
  hd_session_destroy(session);
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config = NULL;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  int failed = hd_config_create(&config, ctx) || hd_config_set_text(config, ctx, HD_OPT_MODEL, "cnn") ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits") ||
               hd_config_set_text(config, ctx, HD_OPT_MAX_STEPS, argc > 2 ? argv[2] : "100") ||
               hd_config_set_int(config, ctx, HD_OPT_BATCH, 32) ||
               hd_config_set_int(config, ctx, HD_OPT_LOG_EVERY, 10) || train(ctx, config);
  if (failed)
    fprintf(stderr, "train_cnn: %s\n", hd_ctx_message(ctx));
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return failed;
}
