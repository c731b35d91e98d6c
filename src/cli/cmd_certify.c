/* heddle certify: writes a run's claims to a certificate, for heddle verify. */
#include "cli/cli.h"
#include "heddle/evidence.h"

static const char *path;

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  char own[4096];
  CLI_TRY(hd_certify(ctx, operand[0], path));
  snprintf(own, sizeof own, "%s/certificate.json", operand[0]);
  if (cli_wants_json(config))
    cli_json("{'certificate': %s}\n", path ? path : own);
  else
    cli_print("certified \t%s\n", path ? path : own);
  return CLI_OK;
}

static const cli_extra extra[] = {{"output", "FILE", "write the certificate here (default RUN/certificate.json)",
                                   cli_take_text, .self = &path, .letter = 'o'},
                                  {0}};

const cli_command cli_certify = {
    .name = "certify",
    .help = "write a run's certificate, for others to verify",
    .usage = "heddle certify RUN [--output FILE] [--json]: writes RUN/certificate.json, which heddle verify checks",
    .options = (const char *const[]){"json", NULL},
    .extra = extra,
    .operands = 1,
    .operand = "run (its folder)",
    .run = run};
