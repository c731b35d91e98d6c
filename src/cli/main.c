/* The heddle command: finds the command and runs it. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"

static const cli_command *const commands[] = {
    &cli_train,   &cli_launch, &cli_eval,   &cli_predict, &cli_summary, &cli_data,    &cli_runs,  &cli_report_runs,
    &cli_certify, &cli_verify, &cli_bisect, &cli_digest,  &cli_export,  &cli_get,     &cli_sweep, &cli_tune,
    &cli_bench,   &cli_topo,   &cli_doctor, &cli_devices, &cli_top,     &cli_generate};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(void) {
  cli_help_width();
  cli_print("\theddle %s: trains small neural networks on all cores; the layout never changes the result.\n\n",
            hd_version());
  cli_print("usage: heddle COMMAND [options]\n\n");
  for (int i = 0; i < COMMANDS; i++)
    cli_print("  %-10s \t%s\n", commands[i]->name, commands[i]->help);
  cli_print(
      "\nheddle COMMAND --help, or heddle help COMMAND, says more. Exit codes: 0 success, 1 failure, 2 wrong "
      "usage, 3 doctor, data --check, verify or bisect found something, 4 verify or bisect could not compare, "
      "129, 130 and 143 after signals, 137 when a process of the run was killed, for example for lack of memory.\n");
  return CLI_OK;
}

static const char *name_of_command(int index) { return index < COMMANDS ? commands[index]->name : NULL; }

/* argv[0] is the command's name. */
static int run_command(int argc, char **argv) {
  for (int i = 0; argc > 0 && i < COMMANDS; i++)
    if (!strcmp(argv[0], commands[i]->name))
      return cli_end(commands[i]->choose ? commands[i]->choose(argc, argv) : cli_run(commands[i], argc, argv));
  return cli_unknown("expected a command", name_of_command, argc > 0 ? argv[0] : NULL, "heddle --help");
}

/* "help bench step" is "bench step --help". */
static int help_of(int argc, char **argv) {
  static char option[] = "--help";
  for (int i = 0; i + 1 < argc; i++)
    argv[i] = argv[i + 1];
  argv[argc - 1] = option;
  return run_command(argc, argv);
}

static int is_help(const char *word) { return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help"); }

/* Opens a substitute for each closed standard stream; otherwise the next file that is opened would get its number,
 * and output would go into that file. The substitute can be neither read nor written, so a closed stream remains an
 * error. */
static void keep_streams_closed(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/", O_RDONLY) < 0)
      return;
}

/* The first thread computes too: its stack grows up to the limit of this moment. False where that is not enough. */
static bool enlarge_stack(void) {
  const rlim_t usual = 8 << 20, least = 256 << 10;
  struct rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= usual)
    return true;
  stack.rlim_cur = stack.rlim_max < usual ? stack.rlim_max : usual;
  setrlimit(RLIMIT_STACK, &stack);
  return stack.rlim_cur >= least;
}

/* Formatting a line could take more stack than there is. */
static int refuse_stack(void) {
  static const char line[] = "heddle: expected a stack of 256 KB or more, found a lower limit; raise `ulimit -s`\n";
  (void)!write(STDERR_FILENO, line, sizeof line - 1);
  return CLI_FAILED;
}

int main(int argc, char **argv) {
  if (!enlarge_stack())
    return refuse_stack();
  keep_streams_closed();
  hd_supervisor();
  cli_ignore_pipe();
  signal(SIGXFSZ, SIG_IGN); /* and so is a limit on the size of files */
  signal(SIGCHLD, SIG_DFL); /* inherited as ignored it would hide how a rank ended */
  cli_catch_bus_errors();
  if (argc > 1 && is_help(argv[1]))
    return argc > 2 && argv[2][0] != '-' ? help_of(argc - 1, argv + 1) : cli_end(help());
  if (argc > 1 && !strcmp(argv[1], "--version")) {
    cli_print("heddle %s\n", hd_version());
    cli_print("built with  %s\n", BUILT_WITH);
    if (LEFT_OUT[0])
      cli_print("left out    %s\n", LEFT_OUT);
    return cli_end(CLI_OK);
  }
  return run_command(argc - 1, argv + 1);
}
