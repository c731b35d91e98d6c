/* heddle eval: accuracy and loss of a checkpoint on a test set, per class. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"

static void print_table(const hd_evaluation *e) {
  printf("samples   %s\nloss      %.6f\naccuracy  %.2f %%\n", cli_grouped(e->samples), e->loss, 100 * e->accuracy);
  for (int c = 0; c < e->classes; c++)
    if (e->class_samples[c] > 0)
      printf("class %-3d %.2f %% of %lld\n", c, 100.0 * (double)e->class_right[c] / (double)e->class_samples[c],
             (long long)e->class_samples[c]);
}

static void print_json(const hd_evaluation *e) {
  printf("{\"loss\": ");
  cli_json_real(stdout, e->loss);
  printf(", \"accuracy\": ");
  cli_json_real(stdout, e->accuracy);
  printf(", \"per_class\": [");
  for (int c = 0; c < e->classes; c++) {
    printf("%s", c ? ", " : "");
    cli_json_real(stdout, e->class_samples[c] ? (double)e->class_right[c] / (double)e->class_samples[c] : NAN);
  }
  printf("], \"confusion\": [");
  for (int row = 0; row < e->classes; row++) {
    printf("%s[", row ? ", " : "");
    for (int col = 0; col < e->classes; col++)
      printf("%s%lld", col ? ", " : "", (long long)e->confusion[row * e->classes + col]);
    printf("]");
  }
  printf("]}\n");
}

static int run(hd_ctx *ctx, const hd_config *config, const char *checkpoint) {
  hd_evaluation e;
  hd_status status = hd_evaluate(&e, ctx, checkpoint, config);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  if (strcmp(hd_config_get(config, "json"), "true"))
    print_table(&e);
  else
    print_json(&e);
  hd_evaluation_fini(&e);
  return CLI_OK;
}

int cli_eval(int argc, char **argv) {
  static const char *const names[] = {"data", "data-dir", "threads", "json", NULL};
  hd_ctx *ctx;
  hd_config *config;
  if (hd_ctx_create(&ctx) != HD_OK)
    return cli_fail(HD_E_NOMEM, NULL);
  int first = 0, code = hd_config_create(&config, ctx) == HD_OK ? -1 : cli_fail(HD_E_NOMEM, NULL);
  if (code < 0)
    code = cli_parse(&first, config, ctx, argc, argv, names,
                     "usage: heddle eval CHECKPOINT [--data NAME|PATH] [--data-dir DIR] [--threads N] [--json]");
  if (code < 0 && first + 1 != argc) {
    cli_complain("eval expects one checkpoint (a run's folder or a step's), found %d; see heddle eval --help",
                 argc - first);
    code = CLI_USAGE;
  }
  if (code < 0)
    code = run(ctx, config, argv[first]);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return code;
}
