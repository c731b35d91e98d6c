/* Common to the commands: exit codes, error reports, options, and numbers as text.
 *
 * A command is a row of options and a function. The function returns 0, an exit code or an hd_status. Exit codes are
 * 0 success, 1 a failure at run time, 2 wrong usage, 3 something found, 4 not comparable, 129, 130 and 143 after
 * SIGHUP, SIGINT and SIGTERM, and 137 where a process of the run was killed. Errors are one line on standard error.
 * Commands use only the public headers. */
#pragma once

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "heddle.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_FOUND = 3, CLI_NOT_COMPARABLE = 4 };

/* The next step of a function of a command: returns its result unless that is 0. */
#define CLI_TRY(expr)                                                                                                  \
  do {                                                                                                                 \
    const int cli_try_ = (expr);                                                                                       \
    if (cli_try_ != 0)                                                                                                 \
      return cli_try_;                                                                                                 \
  } while (0)

/* Prints the note or warning that a call that succeeded has left in the context, if any. */
void cli_note(const hd_ctx *ctx);

/* Prints "heddle: ..." on standard error: one line, with control characters of the texts replaced. */
void cli_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints text for people on standard output, not JSON or terminal codes. Newlines may stand only at the format's
 * beginning and end. A line is written when it ends, as valid UTF-8 without control characters; each invalid byte
 * becomes '?'. A line longer than cli_columns is broken between words and continues below the column of the format's
 * tab, which prints nothing. */
void cli_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Columns of the screen: from COLUMNS, else from the terminal; 0 if neither gives a number, and lines are not
 * broken. */
int cli_columns(void);

/* Sets the width of further lines of cli_print; 0: lines are not broken; -1: cli_columns. */
void cli_print_within(int columns);

/* The number of characters of a text. */
int cli_width(const char *text);

/* Whether the whole text is a number. */
bool cli_number(double *out, const char *text);

/* Whether --json is given: results are printed as JSON. */
bool cli_wants_json(const hd_config *config);

/* Writes a file atomically; one that is no regular file, or standard output's, in place. follows: a link at the path
 * stays one, else it is replaced. Returns 0 or the system's error. */
int cli_save(const char *path, bool follows, void (*draw)(FILE *file, const void *what), const void *what);

/* The same for a file that is written as results come: what close does not keep leaves the path as it was. */
typedef struct cli_saved {
  FILE *file;
  char path[PATH_MAX], temporary[PATH_MAX];
} cli_saved;
int cli_save_open(cli_saved *saved, const char *path, bool follows);
int cli_save_close(cli_saved *saved, bool keeps);

/* Whether cli_save, following links, could write a file now: 0, or the system's error. Nothing is written. */
int cli_can_save(const char *path);

/* Writes the file of --svg, if there is a path; returns an exit code, and reports an incomplete file. */
int cli_save_svg(const char *path, void (*draw)(FILE *file, const void *what), const void *what);

/* The exit code for what a function of a command returned: reports the failure if that is an hd_status. */
int cli_report(hd_ctx *ctx, int result);

/* Reports a word (NULL: a missing one) that is not one of the NULL-terminated names: "EXPECTED (NAMES), found
 * 'WORD'", then the name that resembles it or how to get help. Returns an exit code. */
int cli_unknown(const char *expected, const char *(*name)(int index), const char *found, const char *help);

/* Starts ranks, reports their failures on standard error, passes signals on to them; the exit code is that of the rank
 * that failed first. hosts and argv as in hd_launch_settings. */
int cli_launch_ranks(hd_ctx *ctx, int ranks, const char *hosts, int max_restarts, char *const *argv);

/* A command's end: CLI_OK and CLI_FOUND become a failure if output could not be written; if it went to a pipe that no
 * longer has a reader, the process ends silently, by SIGPIPE unless it was started with that ignored. Returns the exit
 * code. */
int cli_end(int code);

/* A closed pipe is an error of the write, not the end of a training run; for main, before any output. */
void cli_ignore_pipe(void);

/* Installs the handler of bus errors, which names the file that became shorter while it was read. */
void cli_catch_bus_errors(void);

/* A command-specific option, not a setting of a run: `take` stores each value (NULL where `arg` is NULL: a flag), or
 * reports an error and returns an exit code. */
typedef struct cli_extra {
  const char *name, *arg, *help;
  int (*take)(const struct cli_extra *option, const char *value);
  void *self;         /* where the value is stored */
  double least, most; /* of a number */
  char letter;        /* short form; 0: none */
  unsigned of;        /* the kinds of commands that have it; 0: all */
} cli_extra;

/* `take` of a text (self: const char **), a flag (int *, which becomes 1), a number within bounds (double *), a
 * whole one (int *) and a seed, which is whole (double *). */
int cli_take_text(const cli_extra *option, const char *value);
int cli_take_flag(const cli_extra *option, const char *value);
int cli_take_real(const cli_extra *option, const char *value);
int cli_take_whole(const cli_extra *option, const char *value);
int cli_take_seed(const cli_extra *option, const char *value);

enum { CLI_ANY = -1 };

/* A command: its options and its function. */
typedef struct cli_command {
  const char *name, *help;    /* help: what it does, in a list of commands */
  unsigned kind;              /* a bit of `of` of its command-specific options; 0: they have none */
  const char *usage;          /* "heddle NAME ...", a line; NULL: "heddle NAME [options]: HELP" */
  const char *notes;          /* printed after the options in its help; NULL: none */
  const char *const *options; /* accepted options of the table, NULL-terminated; NULL: all */
  const char *procs, *data;   /* its defaults of --procs and --data; NULL: those of the table */
  const cli_extra *extra;     /* up to 16 command-specific ones, and {0}; NULL: none */
  int operands;               /* number accepted: 0, 1 or CLI_ANY */
  const char *operand;        /* its name in help */
  int ends_at_operand;        /* arguments after the first operand are not parsed */
  const char *remedy;         /* for an unexpected operand; NULL: its help */
  int (*run)(hd_ctx *ctx, hd_config *config, int count, char **operand); /* gets the options and the operands */
  void (*refused)(hd_ctx *ctx, const char *why); /* called instead of `run` after an error in the command line; or
                                                    NULL */
  int (*choose)(int argc, char **argv);          /* instead: runs the command that the first argument names */
} cli_command;

#define COMMAND(name) extern const cli_command cli_##name;
#include "cli/commands.def"

/* Makes a context and a configuration, reads the options into it, with --config FILE (set after the command line, which
 * wins) and --help, and runs the command; argv[0] is its name. Returns the exit code. */
int cli_run(const cli_command *command, int argc, char **argv);

/* Elements of help: the width, 80 columns if the screen's is unknown; a name with its text; a command-specific
 * option. */
void cli_help_width(void);
void cli_print_entry(const char *name, const char *text);
void cli_print_extra(const cli_extra *extra);

/* Prints JSON, in which ' stands for ". %s is a string, which gets its quotes; %g a number and %e a float, in the
 * shortest text that reads back equal; %.Ng a number rounded to N digits, %.Nf one rounded to N decimals; null if a
 * number is not finite. %c is a comma and a blank unless its argument, the index of an item in a list, is 0; %d and
 * %lld are those of printf. */
void cli_json(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Seconds on a clock that is never set. Safe in a signal handler. */
double cli_now_s(void);

/* Calls `on_signal` at SIGINT, SIGTERM and, unless it is ignored, as under nohup, SIGHUP; the same with an action. */
void cli_catch_signals(void (*on_signal)(int number));
void cli_catch(const struct sigaction *action);

/* Reports that a signal ended a command before it had a result; returns its exit code. */
int cli_stopped_by(int number);

/* A line "step 5 of 100" that is rewritten on a terminal, and removed at the end. */
typedef struct cli_step_line {
  int terminal;
  double shown_s;
} cli_step_line;

void cli_show_step(cli_step_line *line, int64_t step, int64_t steps);
void cli_clear_step(const cli_step_line *line);

/* Removes it. */
void cli_clear_line(void);

/* Rewrites the last line on a terminal; a line wider than the screen is cut, so that it stays one line. */
void cli_draw_line(const char *text);

/* Whether standard output is a terminal that can rewrite a line and that a person sees, unlike that of a launcher,
 * which copies the output to a log. */
int cli_is_terminal(void);

/* "12,345,678"; "1 thread", "2 threads"; "1 step", "1,200 steps": in a static buffer that the next call but seven
 * reuses. */
const char *cli_grouped(long long value);
const char *cli_counted(int count, const char *what);
const char *cli_grouped_of(long long count, const char *what);
