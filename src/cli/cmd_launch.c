/* heddle launch: starts a program as several ranks, and returns their exit code. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static volatile sig_atomic_t caught, passed_on;

/* Signals of the terminal reach the ranks too; signals to this process alone must be passed on. */
static void on_signal(int number, siginfo_t *info, void *context) {
  caught = number;
  if (info->si_code != SI_KERNEL)
    passed_on = number;
}

static void catch_signals(void) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, before;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, NULL);
}

static void complain_of(void *user, const char *line) { cli_complain("%s", line); }

static int launch(hd_ctx *ctx, int ranks, const char *hosts, int max_restarts, char *const *argv) {
  hd_launch_result result = {.struct_bytes = sizeof result};
  catch_signals();
  const hd_launch_settings settings = {.struct_bytes = sizeof settings,
                                       .ranks = ranks,
                                       .hosts = hosts,
                                       .argv = argv,
                                       .max_restarts = max_restarts,
                                       .signal = &passed_on,
                                       .note = complain_of};
  hd_status status = hd_launch(&result, ctx, &settings);
  if (status == HD_E_PEER)
    return result.exit_code;
  return status == HD_OK ? CLI_OK : cli_fail(status, hd_ctx_message(ctx));
}

int cli_launch_ranks(hd_ctx *ctx, int ranks, int max_restarts, char *const *argv) {
  return launch(ctx, ranks, NULL, max_restarts, argv);
}

typedef struct request {
  const char *hosts;
  int ranks, restarts;
} request;

/* Reads a whole number within bounds; reports an error and returns an exit code otherwise. */
static int take_number(int *out, const char *name, const char *text, long least, long most) {
  char *end;
  const long number = strtol(text, &end, 10);
  if (!*text || *end || number < least || number > most) {
    cli_complain("%s expects a number from %ld to %ld, found '%s'", name, least, most, text);
    return CLI_USAGE;
  }
  *out = (int)number;
  return -1;
}

static int take_ranks(void *self, const char *value) {
  return take_number(&((request *)self)->ranks, "-n", value, 1, 1024);
}

static int take_restarts(void *self, const char *value) {
  return take_number(&((request *)self)->restarts, "--max-restarts", value, 0, 1000000);
}

static int run(void *self, hd_ctx *ctx, hd_config *config, int count, char **operand) {
  const request *r = self;
  if (count > 0 && (r->ranks > 0 || r->hosts))
    return launch(ctx, r->ranks, r->hosts, r->restarts, operand);
  cli_complain("launch expects -n N or --hosts LIST and a program, found no %s; see heddle launch --help",
               count > 0 ? "-n" : "program");
  return CLI_USAGE;
}

int cli_launch(int argc, char **argv) {
  static const char *const options[] = {NULL};
  request r = {0};
  const cli_extra extra[] = {
      {"ranks", "N", "how many processes", take_ranks, &r},
      {"hosts", "LIST", "hosts with the number of ranks on each, such as node1:2,node2:2; by mpirun", cli_take_text,
       &r.hosts},
      {"max-restarts", "K", "start all of them again, up to K times, when one is lost (0)", take_restarts, &r},
      {0}};
  const cli_command command = {
      .name = "launch",
      .usage = "heddle launch -n N|--hosts LIST [--max-restarts K] -- PROGRAM [ARGUMENTS]: starts a program as several "
               "ranks",
      .notes =
          "Each finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment; "
          "ranks of heddle train share every step. The exit code is that of the rank that failed first.",
      .options = options,
      .extra = extra,
      .letters = "n",
      .operands = CLI_ANY,
      .ends_at_operand = 1,
      .run = run,
      .self = &r};
  return cli_run(&command, argc, argv);
}
