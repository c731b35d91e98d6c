/* heddle launch: starts a program as several ranks, and passes on what becomes of them. */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static volatile sig_atomic_t caught, passed_on;

/* What a terminal sends goes to the ranks, too; what somebody sends to this process alone must be passed on. */
static void on_signal(int number, siginfo_t *info, void *context) {
  (void)context;
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

static void complain_of(void *user, const char *line) {
  (void)user;
  cli_complain("%s", line);
}

static int launch(hd_ctx *ctx, int ranks, const char *hosts, int max_restarts, char *const *argv) {
  hd_launch_result result;
  catch_signals();
  const hd_launch_settings settings = {.ranks = ranks,
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

static int help(void) {
  printf("usage: heddle launch -n N [--max-restarts K] -- PROGRAM [ARGUMENTS]: starts N ranks of a program\n"
         "       heddle launch --hosts LIST -- PROGRAM [ARGUMENTS]: on several hosts, by mpirun\n\n"
         "  -n, --ranks N      how many processes\n"
         "  --hosts LIST       hosts with the number of ranks on each, such as node1:2,node2:2\n"
         "  --max-restarts K   start all of them again, up to K times, when one is lost (0)\n"
         "  --help             this text\n\n"
         "Each finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment;\n"
         "ranks of `heddle train` share every step. The exit code is that of the rank that failed first.\n");
  return CLI_OK;
}

/* A number of at least `least`; -1 and a complaint if it is none. */
static int parse(const char *name, const char *text, long least, long most) {
  char *end;
  const long number = strtol(text, &end, 10);
  if (*text && !*end && number >= least && number <= most)
    return (int)number;
  cli_complain("%s expects a number from %ld to %ld, found '%s'", name, least, most, text);
  return -1;
}

int cli_launch(int argc, char **argv) {
  static const struct option options[] = {{"ranks", required_argument, NULL, 'n'},
                                          {"hosts", required_argument, NULL, 'o'},
                                          {"max-restarts", required_argument, NULL, 'r'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  int ranks = 0, restarts = 0, option;
  const char *hosts = NULL;
  while ((option = getopt_long(argc, argv, "+n:h", options, NULL)) != -1) {
    if (option == 'n')
      ranks = parse("-n", optarg, 1, 1024);
    else if (option == 'o')
      hosts = optarg;
    else if (option == 'r')
      restarts = parse("--max-restarts", optarg, 0, 1000000);
    else
      return option == 'h' ? help() : CLI_USAGE;
    if (ranks < 0 || restarts < 0)
      return CLI_USAGE;
  }
  if ((ranks == 0 && !hosts) || optind == argc) {
    cli_complain("launch expects -n N or --hosts LIST and a program, found no %s; see heddle launch --help",
                 optind < argc ? "-n" : "program");
    return CLI_USAGE;
  }
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    return cli_fail(HD_E_NOMEM, NULL);
  int code = launch(ctx, ranks, hosts, restarts, argv + optind);
  hd_ctx_destroy(ctx);
  return code;
}
