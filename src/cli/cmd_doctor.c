/* heddle doctor: what makes this machine slow for training, what each costs, and the line that mends it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void print_report(const hd_doctor *d) {
  printf("%d checks for a run of %d thread%s on %d CPU%s:", d->checks, d->threads, d->threads == 1 ? "" : "s", d->cpus,
         d->cpus == 1 ? "" : "s");
  for (int i = 0; i < d->checks; i++)
    printf("%s %s", i ? "," : "", d->check[i]);
  printf("\n");
  if (d->count == 0)
    printf("\nnothing found\n");
  for (int i = 0; i < d->count; i++) {
    const hd_finding *f = &d->finding[i];
    printf("\n%s", f->id);
    if (isfinite(f->factor))
      printf(" (%.2f times)", f->factor);
    printf("\n  found:  %s\n  remedy: %s\n", f->measured, f->remedy);
  }
}

static void print_json(const hd_doctor *d) {
  printf("{\"findings\": [");
  for (int i = 0; i < d->count; i++) {
    const hd_finding *f = &d->finding[i];
    printf("%s{\"id\": ", i ? ", " : "");
    cli_json_text(stdout, f->id);
    printf(", \"factor\": ");
    cli_json_real(stdout, f->factor);
    printf(", \"measured\": ");
    cli_json_text(stdout, f->measured);
    printf(", \"remedy\": ");
    cli_json_text(stdout, f->remedy);
    printf("}");
  }
  printf("]}\n");
}

static int run(hd_ctx *ctx, const hd_config *config) {
  const char *threads = hd_config_get(config, "threads");
  hd_doctor *doctor;
  hd_status status = hd_doctor_create(&doctor, ctx, strcmp(threads, "auto") ? atoi(threads) : 0);
  if (status != HD_OK)
    return cli_fail(status, hd_ctx_message(ctx));
  if (!strcmp(hd_config_get(config, "json"), "true"))
    print_json(doctor);
  else
    print_report(doctor);
  int code = doctor->count > 0 ? CLI_FOUND : CLI_OK;
  hd_doctor_destroy(doctor);
  return code;
}

int cli_doctor(int argc, char **argv) {
  static const char *const names[] = {"threads", "json", NULL};
  hd_ctx *ctx;
  hd_config *config;
  if (hd_ctx_create(&ctx) != HD_OK)
    return cli_fail(HD_E_NOMEM, NULL);
  int first = 0, code = hd_config_create(&config, ctx) == HD_OK ? -1 : cli_fail(HD_E_NOMEM, NULL);
  if (code < 0)
    code = cli_parse(&first, config, ctx, argc, argv, names,
                     "usage: heddle doctor [options]: what makes this machine slow for training, and what mends it");
  if (code < 0 && first < argc) {
    cli_complain("doctor expects options only, found '%s'; see heddle doctor --help", argv[first]);
    code = CLI_USAGE;
  }
  if (code < 0)
    code = run(ctx, config);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return code;
}
