/* heddle launch: starts a program as several ranks, and returns their exit code. */
#include <signal.h>

#include "cli/cli.h"

static volatile sig_atomic_t caught, passed_on;

/* Signals of the terminal reach the ranks too; signals to this process alone must be passed on. */
static void on_signal(int number, siginfo_t *info, void *context) {
  caught = number;
  if (info->si_code != SI_KERNEL)
    passed_on = number;
}

static void complain_of(void *user, const char *line) { cli_complain("%s", line); }

int cli_launch_ranks(hd_ctx *ctx, int ranks, const char *hosts, int max_restarts, char *const *argv) {
  hd_launch_result result = {.struct_bytes = sizeof result};
  cli_catch(&(struct sigaction){.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO});
  const hd_launch_settings settings = {.struct_bytes = sizeof settings,
                                       .ranks = ranks,
                                       .hosts = hosts,
                                       .argv = argv,
                                       .max_restarts = max_restarts,
                                       .signal = &passed_on,
                                       .note = complain_of};
  hd_status status = hd_launch(&result, ctx, &settings);
  return status == HD_E_PEER ? result.exit_code : status;
}

static struct {
  const char *hosts;
  int ranks, restarts;
} asked;

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  if (count > 0 && (asked.ranks > 0 || asked.hosts))
    return cli_launch_ranks(ctx, asked.ranks, asked.hosts, asked.restarts, operand);
  cli_complain("launch expects -n N or --hosts LIST and a program, found no %s; see heddle launch --help",
               count > 0 ? "-n" : "program");
  return CLI_USAGE;
}

static const cli_extra extra[] = {
    {"ranks", "N", "number of processes", cli_take_whole, &asked.ranks, 1, 1024, .letter = 'n'},
    {"hosts", "LIST", "hosts with the number of processes on each, such as node1:2,node2:2; uses mpirun", cli_take_text,
     .self = &asked.hosts},
    {"max-restarts", "K", "if a process is lost, restart all of them, up to K times (default 0)", cli_take_whole,
     &asked.restarts, .least = 0, .most = 1000000},
    {0}};

const cli_command cli_launch = {
    .name = "launch",
    .help = "start a program as several ranks that share a run",
    .usage = "heddle launch -n N|--hosts LIST [--max-restarts K] -- PROGRAM [ARGUMENTS]: starts a program as several "
             "ranks",
    .notes =
        "Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its "
        "environment; ranks of heddle train share every step. The exit code is that of the rank that failed first.",
    .options = (const char *const[]){NULL},
    .extra = extra,
    .operands = CLI_ANY,
    .ends_at_operand = 1,
    .run = run};
