/* A custom operation, y = max(x, 0)^2, among the built-in ones: the same network with it and with relu.
 *
 *     custom_op [DATA [STEPS]] */
#include <heddle.h>
#include <stdio.h>

static void forward(const hd_custom_call *call) {
  for (int64_t i = 0; i < call->y_elems; i++)
    call->y[i] = call->x[0][i] > 0 ? call->x[0][i] * call->x[0][i] : 0;
}

static void backward(const hd_custom_call *call) {
  for (int64_t i = 0; i < call->x_elems; i++)
    call->dx[0][i] = call->x[0][i] > 0 ? 2 * call->x[0][i] * call->dy[i] : 0;
}

static const hd_custom_op squared_relu = {sizeof squared_relu, "squared_relu", 1, NULL, forward, backward, 2, NULL};

static hd_status build(hd_model *model, hd_ctx *ctx, const char *activation) {
  hd_status status = hd_model_add(model, ctx, "flat", "op: flatten");
  if (status == HD_OK)
    status = hd_model_add(model, ctx, "fc1", "op: linear, out: 64");
  if (status == HD_OK)
    status = hd_model_add(model, ctx, "act1", "op: %s", activation);
  return status == HD_OK ? hd_model_add(model, ctx, "fc2", "op: linear, out: 10") : status;
}

static int train(hd_ctx *ctx, hd_config *config, const char *name, const char *activation) {
  hd_model *model;
  hd_session *session = NULL;
  if (hd_model_create(&model, ctx, name, 1, 28, 28) != HD_OK)
    return 1;
  int failed = build(model, ctx, activation) || hd_config_set_text(config, ctx, HD_OPT_MODEL, hd_model_text(model)) ||
               hd_session_create(&session, ctx, config) || hd_session_train(session, ctx, NULL, NULL);
  if (!failed)
    printf("%-8s test accuracy %.2f %%\n",
           activation[0] == 's' ? "squared:" : "plain:", 100 * hd_session_report(session)->test_accuracy);
  hd_session_destroy(session);
  hd_model_destroy(model);
  return failed;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config = NULL;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  int failed = hd_custom_op_add(ctx, &squared_relu) || hd_config_create(&config, ctx) ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits") ||
               hd_config_set_text(config, ctx, HD_OPT_MAX_STEPS, argc > 2 ? argv[2] : "200") ||
               train(ctx, config, "squared", "squared_relu") || train(ctx, config, "plain", "relu");
  if (failed)
    fprintf(stderr, "custom_op: %s\n", hd_ctx_message(ctx));
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return failed;
}
