/* heddle digest: SHA-256 of a checkpoint's weights. */

#include "cli/cli.h"

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  char text[HD_SHA256_TEXT_BYTES];
  CLI_TRY(hd_digest(text, ctx, operand[0]));
  printf(cli_wants_json(config) ? "{\"weights_sha256\": \"%s\"}\n" : "%s\n", text);
  return CLI_OK;
}

const cli_command cli_digest = {
    .name = "digest",
    .help = "SHA-256 of a checkpoint's weights",
    .usage =
        "heddle digest CHECKPOINT [--json]: SHA-256 of the weights of a run, a step, or a safetensors or ONNX file",
    .options = (const char *const[]){"json", NULL},
    .operands = 1,
    .operand = "checkpoint (a run's folder, a step's, or a safetensors or ONNX file)",
    .run = run};
