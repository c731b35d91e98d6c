/* Devices: a list of them, a product of tensors on one, and a run that continues there.
 *
 * usage: devices [DATA [DEVICE]]     DEVICE: cpu, cuda or cuda:1 (the first GPU if there is one, else the CPU) */
#include <heddle/experimental.h>
#include <stdio.h>

/* The device that `text` names, or by default the best one. */
static hd_status choose(hd_device *out, hd_ctx *ctx, const char *text) {
  char name[HD_DEVICE_NAME_BYTES];
  const int gpus = hd_device_count(ctx);
  for (int i = 0; i < gpus; i++)
    if (hd_device_name(name, ctx, (hd_device){HD_CUDA, i}) == HD_OK)
      printf("cuda:%d is %s\n", i, name);
  return hd_device_parse(out, ctx, text ? text : gpus > 0 ? "cuda" : "cpu");
}

static hd_status multiply(hd_ctx *ctx, hd_device device) {
  hd_tensor *a, *b = NULL, *c = NULL, *back = NULL;
  double corner = 0;
  hd_status status = hd_tensor_randn(&a, ctx, 1, HD_DIMS(64, 64));
  if (status == HD_OK)
    status = hd_tensor_to(&b, ctx, a, device);
  if (status == HD_OK)
    status = hd_tensor_matmul(&c, ctx, b, b);
  if (status == HD_OK)
    status = hd_tensor_to(&back, ctx, c, (hd_device){HD_CPU, 0});
  if (status == HD_OK)
    status = hd_tensor_get(&corner, ctx, back, HD_DIMS(0, 0));
  printf("the product's corner is %.9g\n", corner);
  hd_tensor *const all[] = {a, b, c, back};
  for (int i = 0; i < 4; i++)
    hd_tensor_destroy(all[i]);
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx = NULL;
  hd_config *config = NULL;
  hd_session *session = NULL;
  hd_device device;
  hd_status status = hd_ctx_create(&ctx);
  if (status == HD_OK && (status = choose(&device, ctx, argc > 2 ? argv[2] : NULL)) == HD_OK)
    status = multiply(ctx, device);
  if (status == HD_OK && (status = hd_config_create(&config, ctx)) == HD_OK &&
      (status = hd_config_set_int(config, ctx, HD_OPT_MAX_STEPS, 20)) == HD_OK &&
      (status = hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits")) == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status == HD_OK && (status = hd_session_step(NULL, session, ctx, 10)) == HD_OK)
    status = hd_session_to(session, ctx, device); /* weights and optimizer keep their bits */
  if (status == HD_OK && (status = hd_session_train(session, ctx, NULL, NULL)) == HD_OK)
    printf("20 steps, the last on %s: %s\n", hd_session_report(session)->device,
           hd_session_report(session)->weights_sha256);
  if (status != HD_OK)
    fprintf(stderr, "devices: %s\n", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return status != HD_OK;
}
