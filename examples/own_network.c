/* A network built in C, of any width and depth, then trained.
 *
 *     own_network [DATA [STEPS]] */
#include <heddle.h>
#include <stdio.h>

/* `blocks` convolutions of `width` channels, then a linear layer. */
static hd_status build(hd_model *model, hd_ctx *ctx, int blocks, int width) {
  char name[16];
  hd_status status = HD_OK;
  for (int i = 1; i <= blocks && status == HD_OK; i++) {
    snprintf(name, sizeof name, "conv%d", i);
    status = hd_model_add(model, ctx, name, "op: conv2d, out: %d, kernel: 3, padding: 1", width * i);
    snprintf(name, sizeof name, "relu%d", i);
    if (status == HD_OK)
      status = hd_model_add(model, ctx, name, "op: relu");
    snprintf(name, sizeof name, "pool%d", i);
    if (status == HD_OK)
      status = hd_model_add(model, ctx, name, "op: max_pool2d, kernel: 2");
  }
  if (status == HD_OK)
    status = hd_model_add(model, ctx, "flat", "op: flatten");
  return status == HD_OK ? hd_model_add(model, ctx, "fc", "op: linear, out: 10") : status;
}

int main(int argc, char **argv) {
  int64_t count;
  hd_ctx *ctx;
  hd_model *model = NULL;
  hd_config *config = NULL;
  hd_session *session = NULL;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  int failed = hd_model_create(&model, ctx, "blocks", 1, 28, 28) || build(model, ctx, 3, 8) ||
               hd_model_check(&count, model, ctx) || hd_config_create(&config, ctx) ||
               hd_config_set_text(config, ctx, HD_OPT_MODEL, hd_model_text(model)) ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits") ||
               hd_config_set_text(config, ctx, HD_OPT_MAX_STEPS, argc > 2 ? argv[2] : "100") ||
               hd_session_create(&session, ctx, config) || hd_session_train(session, ctx, NULL, NULL);
  if (failed)
    fprintf(stderr, "own_network: %s\n", hd_ctx_message(ctx));
  else
    printf("%s%lld parameters, accuracy %.2f %%\n", hd_model_text(model), (long long)count,
           100 * hd_session_report(session)->test_accuracy);
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_model_destroy(model);
  hd_ctx_destroy(ctx);
  return failed;
}
