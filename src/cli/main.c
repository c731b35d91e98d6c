/* The heddle command: finds the command and runs it. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "cli/cli.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
} commands[] = {
    {"train", cli_train, "train a model, evaluate it, save it"},
    {"launch", cli_launch, "start a program as several ranks that share a run"},
    {"eval", cli_eval, "accuracy and loss of a checkpoint"},
    {"predict", cli_predict, "classes of pictures, with probabilities"},
    {"summary", cli_summary, "layers, parameters, costs and memory of a model"},
    {"data", cli_data, "what a data set holds, and which samples cannot be read"},
    {"tune", cli_tune, "how many threads are best for a model here"},
    {"bench", cli_bench, "this machine's limits, and how close to them heddle comes"},
    {"digest", cli_digest, "SHA-256 of a checkpoint's weights"},
    {"topo", cli_topo, "the machine, what may be used of it, and where lanes go"},
    {"doctor", cli_doctor, "what makes this machine slow, what it costs, what mends it"},
    {"devices", cli_devices, "the CPUs and GPUs of this machine, and who uses them"},
    {"top", cli_top, "what runs on them just now, live"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static int help(void) {
  printf("heddle %s: trains small neural networks on all cores; the layout never changes the result.\n\n",
         hd_version());
  printf("usage: heddle COMMAND [options]\n\n");
  for (int i = 0; i < COMMANDS; i++)
    printf("  %-10s %s\n", commands[i].name, commands[i].help);
  printf("\nheddle COMMAND --help tells more. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 doctor or data "
         "--check found something, 129, 130 and 143 after signals.\n");
  return CLI_OK;
}

static void complain_of_command(const char *found) {
  char list[256];
  int at = 0;
  for (int i = 0; i < COMMANDS; i++)
    at += snprintf(list + at, sizeof list - (size_t)at, "%s%s", i ? ", " : "", commands[i].name);
  cli_complain("expected a command (%s), found %s; see heddle --help", list, found);
}

/* The next file that is opened would take the number of a standard stream that is closed, and what is printed would go
 * into it. What stands there instead can be neither read nor written, so that a closed stream still is an error. */
static void keep_streams_closed(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/", O_RDONLY) < 0)
      return;
}

int main(int argc, char **argv) {
  keep_streams_closed();
  hd_keeper();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write, not the end of a training run */
  signal(SIGXFSZ, SIG_IGN); /* and so is a limit on the size of files */
  signal(SIGCHLD, SIG_DFL); /* whoever started this may have ignored it: then nobody would know how a rank ended */
  cli_catch_bus_errors();
  if (argc < 2) {
    complain_of_command("none");
    return CLI_USAGE;
  }
  if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
    return cli_end(help());
  if (!strcmp(argv[1], "--version")) {
    printf("heddle %s\n", hd_version());
    return cli_end(CLI_OK);
  }
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(argv[1], commands[i].name))
      return cli_end(commands[i].run(argc - 1, argv + 1));
  char found[256];
  snprintf(found, sizeof found, "'%.250s'", argv[1]);
  complain_of_command(found);
  return CLI_USAGE;
}
