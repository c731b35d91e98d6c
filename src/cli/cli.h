/* What the commands share: exit codes, the one way to report an error, options, and numbers as text.
 *
 * A command is a function that gets its own argv (argv[0] is its name) and returns an exit code: 0 success, 1 a
 * failure at run time, 2 wrong usage, 3 something found, 129, 130 and 143 after SIGHUP, SIGINT and SIGTERM. Errors are
 * one line on standard error. Commands use the public headers alone. */
#ifndef HD_CLI_CLI_H
#define HD_CLI_CLI_H

#include <stdio.h>

#include "heddle.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_FOUND = 3 };

int cli_train(int argc, char **argv);
int cli_launch(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_summary(int argc, char **argv);
int cli_data(int argc, char **argv);
int cli_digest(int argc, char **argv);
int cli_topo(int argc, char **argv);
int cli_tune(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_devices(int argc, char **argv);
int cli_top(int argc, char **argv);

/* Prints "heddle: ..." on standard error: one line, whatever control characters the texts of users and files hold. */
void cli_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Closes the picture that --svg names, NULL if it could not be opened; an exit code, after a complaint if it is not
 * whole. */
int cli_close_svg(FILE *file, const char *path);

/* Complains of a failure and returns the exit code that the status stands for. */
int cli_fail(hd_status status, const char *message);

/* Starts ranks, tells what happens to them on standard error, passes signals on to them; returns the exit code, that of
 * the rank that failed first. argv as in hd_launch_settings. */
int cli_launch_ranks(hd_ctx *ctx, int ranks, int max_restarts, char *const *argv);

/* A command's end: what it found, or that all went well, counts only if all of its output could be written. Returns the
 * exit code. */
int cli_end(int code);

/* Lets a bus error, which ends the process, say which file became shorter while it was read. */
void cli_catch_bus_errors(void);

/* An option of one command that is no setting of a run: `take` gets each value (NULL where `arg` is NULL: a flag) and
 * returns -1, or complains and returns an exit code. */
typedef struct cli_extra {
  const char *name, *arg, *help;
  int (*take)(void *self, const char *value);
  void *self;
} cli_extra;

enum { CLI_ANY = -1 };

/* A command: its long options, and what does the work. */
typedef struct cli_command {
  const char *name, *usage;
  const char *const *options; /* those of the table that it takes, up to a NULL; NULL: all of them */
  const cli_extra *extra;     /* up to 16 of its own, and {0}; NULL: none */
  int operands;               /* how many it takes: 0, 1 or CLI_ANY */
  const char *operand;        /* what the one is called */
  const char *remedy;         /* where an operand is found and none is taken; NULL: its help */
  /* Gets the options as they were set, and the operands; returns an exit code. */
  int (*run)(void *self, hd_ctx *ctx, hd_config *config, int count, char **operand);
  void *self;
} cli_command;

/* Makes a context and a configuration, reads the options into it, with --config FILE (set after the command line, which
 * wins) and --help, and runs the command. Returns the exit code. */
int cli_run(const cli_command *command, int argc, char **argv);

/* A JSON string with its quotes, and a number (null if it is not finite), on `to`. */
void cli_json_text(FILE *to, const char *text);
void cli_json_real(FILE *to, double value);

/* Whether standard output is a terminal that can rewrite a line. */
int cli_is_terminal(void);

/* 12,345,678 in a static buffer that the next call but three reuses. */
const char *cli_grouped(long long value);

#endif
