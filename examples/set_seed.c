/* All randomness follows from one seed: no worker and no library has another generator to seed. Trains with the
 * seeds 1, 1 and 2: the first two runs have the same bits.
 *
 *     set_seed [DATA [STEPS]] */
#include <heddle.h>
#include <stdio.h>
#include <string.h>

static hd_status train(char digest[HD_SHA256_TEXT_BYTES], hd_ctx *ctx, hd_config *config, int seed) {
  hd_session *session;
  hd_status status = hd_config_set_int(config, ctx, HD_OPT_SEED, seed);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status != HD_OK)
    return status;
  status = hd_session_train(session, ctx, NULL, NULL);
  memcpy(digest, hd_session_report(session)->weights_sha256, HD_SHA256_TEXT_BYTES);
  hd_session_destroy(session);
  printf("seed %d: %s\n", seed, digest);
  return status;
}

int main(int argc, char **argv) {
  char first[HD_SHA256_TEXT_BYTES], again[HD_SHA256_TEXT_BYTES], other[HD_SHA256_TEXT_BYTES];
  hd_ctx *ctx;
  hd_config *config = NULL;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  int failed = hd_config_create(&config, ctx) || hd_config_set_text(config, ctx, HD_OPT_MODEL, "simplenet") ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits") ||
               hd_config_set_text(config, ctx, HD_OPT_MAX_STEPS, argc > 2 ? argv[2] : "20") ||
               train(first, ctx, config, 1) || train(again, ctx, config, 1) || train(other, ctx, config, 2);
  if (failed)
    fprintf(stderr, "set_seed: %s\n", hd_ctx_message(ctx));
  else
    printf("the same seed gives %s weights, another seed %s\n", strcmp(first, again) ? "OTHER" : "the same",
           strcmp(first, other) ? "others" : "THE SAME");
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return failed || strcmp(first, again) != 0 || strcmp(first, other) == 0;
}
