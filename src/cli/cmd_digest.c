/* heddle digest: SHA-256 of a checkpoint's weights. */
#include <string.h>

#include "cli/cli.h"

int cli_digest(int argc, char **argv) {
  int json = 0;
  const char *checkpoint = NULL;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help")) {
      printf("usage: heddle digest CHECKPOINT [--json]: SHA-256 of the weights of a run, a step's folder or a "
             "safetensors file\n");
      return CLI_OK;
    }
    if (!strcmp(argv[i], "--json")) {
      json = 1;
    } else if (argv[i][0] == '-' || checkpoint) {
      cli_complain("digest expects one checkpoint and --json, found '%s'; see heddle digest --help", argv[i]);
      return CLI_USAGE;
    } else {
      checkpoint = argv[i];
    }
  }
  if (!checkpoint) {
    cli_complain("digest expects a checkpoint, found none; see heddle digest --help");
    return CLI_USAGE;
  }
  hd_ctx *ctx;
  char text[HD_SHA256_TEXT_BYTES];
  if (hd_ctx_create(&ctx) != HD_OK)
    return cli_fail(HD_E_NOMEM, NULL);
  hd_status status = hd_digest(text, ctx, checkpoint);
  if (status == HD_OK)
    printf(json ? "{\"weights_sha256\": \"%s\"}\n" : "%s\n", text);
  int code = status == HD_OK ? CLI_OK : cli_fail(status, hd_ctx_message(ctx));
  hd_ctx_destroy(ctx);
  return code;
}
