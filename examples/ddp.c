/* SimpleNet over several processes, with a custom training loop: each rank prints its progress.
 *
 * usage: ddp [DATA]: starts itself as 4 ranks; or heddle launch -n 2 -- ddp, torchrun, mpirun or srun */
#include <heddle.h>
#include <stdio.h>
#include <stdlib.h>

static hd_status configure(hd_config **config, hd_ctx *ctx, const char *data) {
  const char *const settings[][2] = {{"model", "simplenet"}, {"data", data},       {"epochs", "1"}, {"batch", "256"},
                                     {"lr", "0.01"},         {"optimizer", "sgd"}, {"threads", "1"}};
  hd_status status = hd_config_create(config, ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings && status == HD_OK; i++)
    status = hd_config_set(*config, ctx, settings[i][0], settings[i][1]);
  return status;
}

/* The loss is that of the whole batch: every rank has the same. */
static hd_status train(hd_session *session, hd_ctx *ctx, int rank) {
  hd_status status = HD_OK;
  for (int batch = 0; status == HD_OK && !hd_session_done(session); batch += 20) {
    double loss;
    status = hd_session_step(&loss, session, ctx, 20);
    if (status == HD_OK)
      printf("Rank %d, Epoch 1, Batch %d, Loss %.4f\n", rank, batch, loss);
  }
  return status;
}

int main(int argc, char **argv) {
  int32_t rank;
  hd_ctx *ctx = NULL;
  hd_config *config = NULL;
  hd_group *group = NULL;
  hd_session *session = NULL;
  hd_status status = hd_ctx_create(&ctx);
  if (status == HD_OK)
    status = hd_spawn(&rank, ctx, 4);
  if (status == HD_OK && rank >= 0) {
    status = hd_group_init(&group, ctx, NULL);
    if (status == HD_OK)
      status = configure(&config, ctx, argc > 1 ? argv[1] : "digits");
    if (status == HD_OK)
      status = hd_ddp(&session, ctx, config, group);
    if (status == HD_OK)
      status = train(session, ctx, hd_group_rank(group));
    if (status == HD_OK)
      status = hd_session_save(session, ctx);
    if (status == HD_OK && hd_group_rank(group) == 0)
      printf("weights_sha256 %s\nsaved in %s\n", hd_session_report(session)->weights_sha256,
             hd_session_report(session)->out);
  }
  if (status != HD_OK)
    fprintf(stderr, "ddp: %s\n", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return status == HD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
