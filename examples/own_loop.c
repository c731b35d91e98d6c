/* A custom training loop: ten steps at a time, the loss as a curve of text and in loss.csv, and an early end when it
 * is good enough.
 *
 *     own_loop [DATA [STEPS]] */
#include <heddle.h>
#include <stdio.h>

enum { WIDTH = 50 };

static void draw(long long step, double loss, double first) {
  int length = first > 0 ? (int)(loss / first * WIDTH) : 0;
  printf("%5lld %7.4f |", step, loss);
  for (int i = 0; i < length && i < WIDTH; i++)
    putchar('=');
  printf("\n");
}

static hd_status loop(hd_session *session, hd_ctx *ctx, FILE *csv) {
  double loss, first = 0;
  fprintf(csv, "step,loss\n");
  while (!hd_session_done(session)) {
    hd_status status = hd_session_step(&loss, session, ctx, 10);
    if (status != HD_OK)
      return status;
    long long step = (long long)hd_session_report(session)->steps;
    first = first > 0 ? first : loss;
    fprintf(csv, "%lld,%.9g\n", step, loss);
    draw(step, loss, first);
    if (loss < 0.05)
      return hd_session_save(session, ctx); /* good enough */
  }
  return hd_session_train(session, ctx, NULL, NULL); /* nothing left to train: completes the report */
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config = NULL;
  hd_session *session = NULL;
  FILE *csv = fopen("loss.csv", "w");
  if (!csv || hd_ctx_create(&ctx) != HD_OK)
    return 1;
  int failed = hd_config_create(&config, ctx) || hd_config_set_text(config, ctx, HD_OPT_MODEL, "mlp") ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits") ||
               hd_config_set_text(config, ctx, HD_OPT_MAX_STEPS, argc > 2 ? argv[2] : "200") ||
               hd_session_create(&session, ctx, config) || loop(session, ctx, csv);
  if (failed)
    fprintf(stderr, "own_loop: %s\n", hd_ctx_message(ctx));
  else
    printf("weights_sha256 %s\n", hd_session_report(session)->weights_sha256);
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return fclose(csv) != 0 || failed;
}
