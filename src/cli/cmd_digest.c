/* heddle digest: SHA-256 of a checkpoint's weights. */

#include "cli/cli.h"

static int run(void *self, hd_ctx *ctx, hd_config *config, int count, char **operand) {
  char text[HD_SHA256_TEXT_BYTES];
  const hd_status status = hd_digest(text, ctx, operand[0]);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  const int json = cli_wants_json(config);
  printf(json ? "{\"weights_sha256\": \"%s\"}\n" : "%s\n", text);
  return CLI_OK;
}

int cli_digest(int argc, char **argv) {
  static const char *const options[] = {"json", NULL};
  static const cli_command command = {
      .name = "digest",
      .usage = "heddle digest CHECKPOINT [--json]: SHA-256 of the weights of a run, a step's folder or a safetensors "
               "file",
      .options = options,
      .operands = 1,
      .operand = "checkpoint (a run's folder, a step's or a safetensors file)",
      .run = run};
  return cli_run(&command, argc, argv);
}
