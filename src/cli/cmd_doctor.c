/* heddle doctor: finds what slows down training on this machine, with cost and remedy. */
#include <math.h>

#include "cli/cli.h"
#include "heddle/tools.h"

static void print_report(const hd_doctor *d) {
  cli_print("%d checks for a run of %s on %s, with kernels and block sizes for %s:", d->checks,
            cli_counted(d->threads, "thread"), cli_counted(d->cpus, "CPU"), d->isa);
  for (int i = 0; i < d->checks; i++)
    cli_print("%s %s", i ? "," : "", hd_check_name(d->check[i]));
  cli_print("\n");
  if (d->count == 0)
    cli_print("\nnothing found\n");
  for (int i = 0; i < d->count; i++) {
    const hd_finding *f = &d->finding[i];
    cli_print("\n%s\n", hd_check_name(f->check));
    cli_print("  found:  \t%s\n", f->measured);
    if (isfinite(f->factor))
      cli_print("  cost:   \twhat was measured took %.2f times as long\n", f->factor);
    cli_print("  remedy: \t%s\n", f->remedy);
  }
}

static void print_json(const hd_doctor *d) {
  cli_json("{'findings': [");
  for (int i = 0; i < d->count; i++) {
    const hd_finding *f = &d->finding[i];
    cli_json("%c{'id': %s, 'factor': %g, 'measured': %s, 'remedy': %s}", i, hd_check_name(f->check), f->factor,
             f->measured, f->remedy);
  }
  cli_json("]}\n");
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_doctor *doctor;
  CLI_TRY(hd_doctor_create(&doctor, ctx, (int32_t)hd_config_get_int(config, HD_OPT_THREADS)));
  (cli_wants_json(config) ? print_json : print_report)(doctor);
  const int code = doctor->count > 0 ? CLI_FOUND : CLI_OK;
  hd_doctor_destroy(doctor);
  return code;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .help = "what slows down training on this machine, and how to fix it",
    .usage = "heddle doctor [options]: find out what slows down training on this machine, and how to fix it",
    .options = (const char *const[]){"threads", "json", NULL},
    .run = run};
