/* Options, errors and numbers for all commands. */
#include "cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OPTIONS = 96, MAX_LINE_BYTES = 8192 };

/* What getopt_long returns for each option: above every character, so that an unknown short option is told
 * from them. */
enum { OPT_HELP = 1000, OPT_CONFIG, OPT_BATCH_SIZE, OPT_EXTRA, OPT_FIRST = OPT_EXTRA + 16 };

void cli_complain(const char *fmt, ...) {
  char line[MAX_LINE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  for (char *c = line; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f)
      *c = '?';
  fprintf(stderr, "heddle: %s\n", line);
}

int cli_close_svg(FILE *file, const char *path) {
  int failed = !file || ferror(file) != 0;
  if (file)
    failed |= fclose(file) != 0;
  if (!failed)
    return CLI_OK;
  cli_complain("--svg expects a file that can be written, found %s: %s; choose another one", path, strerror(errno));
  return CLI_FAILED;
}

int cli_fail(hd_status status, const char *message) {
  cli_complain("%s", message && *message ? message : hd_status_text(status));
  return status == HD_E_USAGE ? CLI_USAGE : CLI_FAILED;
}

int cli_end(int code) {
  int failed = fflush(stdout) != 0 || ferror(stdout);
  if ((code != CLI_OK && code != CLI_FOUND) || !failed)
    return code;
  cli_complain(
      "expected to write to standard output, found it closed or full; free some space or keep its reader alive");
  return CLI_FAILED;
}

static int is_wanted(const hd_option *option, const char *const *names) {
  for (int i = 0; names && names[i]; i++)
    if (!strcmp(names[i], option->name))
      return 1;
  return names == NULL;
}

/* "--name ARG" or "--[no-]flag", padded for the help's left column. */
static void print_option(const hd_option *option) {
  char left[64];
  snprintf(left, sizeof left, "--%s%s%s", option->name, option->arg ? " " : "", option->arg ? option->arg : "");
  printf("  %-24s %s", left, option->help);
  if (option->choices)
    printf(": %s", option->choices);
  if (option->fallback[0])
    printf(" (%s)", option->fallback);
  printf("\n");
}

static void print_help(const char *usage, const char *const *names, const cli_extra *extra) {
  static const char *const title[] = {"The experiment (defines the result)", "The layout (never changes the result)",
                                      "Files and output"};
  printf("%s\n", usage);
  for (int kind = 0; kind < 3; kind++) {
    int shown = 0;
    for (int i = 0; hd_option_at(i); i++) {
      if (hd_option_at(i)->kind != (hd_option_kind)kind || !is_wanted(hd_option_at(i), names))
        continue;
      if (!shown++)
        printf("\n%s:\n", title[kind]);
      print_option(hd_option_at(i));
    }
  }
  printf("\n");
  for (; extra && extra->name; extra++)
    printf("  --%s %-*s %s\n", extra->name, 21 - (int)strlen(extra->name), extra->arg ? extra->arg : "", extra->help);
  printf("  %-24s %s\n  %-24s %s\n", "--config FILE.yaml", "options from a file; the command line wins", "--help",
         "this text");
}

static void add(struct option *list, int *count, const char *name, int takes_value, int value) {
  list[(*count)++] = (struct option){name, takes_value ? required_argument : no_argument, NULL, value};
}

static void list_options(struct option *list, const char *const *names, const cli_extra *extra) {
  int count = 0;
  for (int i = 0; hd_option_at(i) && count < MAX_OPTIONS - 20; i++)
    if (is_wanted(hd_option_at(i), names))
      add(list, &count, hd_option_at(i)->name, hd_option_at(i)->arg != NULL, OPT_FIRST + i);
  if (!names)
    add(list, &count, "batch-size", 1, OPT_BATCH_SIZE);
  for (int i = 0; extra && extra[i].name; i++)
    add(list, &count, extra[i].name, extra[i].arg != NULL, OPT_EXTRA + i);
  add(list, &count, "config", 1, OPT_CONFIG);
  add(list, &count, "help", 0, OPT_HELP);
  list[count] = (struct option){0};
}

static int wrong_option(char **argv, int missing) {
  const char *word = argv[optind - 1];
  if (missing)
    cli_complain("%s expects a value, found none; see heddle %s --help", word, argv[0]);
  else if (optopt >= OPT_HELP)
    cli_complain("expected a flag without a value, found '%s'; leave the value out", word);
  else if (optopt > 0)
    cli_complain("expected an option of %s, found '-%c'; see heddle %s --help", argv[0], optopt, argv[0]);
  else
    cli_complain("expected an option of %s, found '%s'; see heddle %s --help", argv[0], word, argv[0]);
  return CLI_USAGE;
}

/* Takes one option; only --config waits, in *file, until all have been taken. */
static int take(const char **file, hd_config *config, hd_ctx *ctx, int which) {
  if (which == OPT_CONFIG) {
    if (*file)
      return cli_fail(HD_E_USAGE, "--config expects one file, found a second; put all options into one");
    *file = optarg;
    return -1;
  }
  const char *name = which == OPT_BATCH_SIZE ? "batch" : hd_option_at(which - OPT_FIRST)->name;
  hd_status status = hd_config_set(config, ctx, name, optarg ? optarg : "true");
  return status == HD_OK ? -1 : cli_fail(status, hd_ctx_message(ctx));
}

/* Returns -1 to go on, else an exit code; *first is the index of the first operand. */
static int parse(int *first, hd_config *config, hd_ctx *ctx, int argc, char **argv, const cli_command *command) {
  const cli_extra *extra = command->extra;
  struct option list[MAX_OPTIONS];
  const char *file = NULL;
  int code = -1;
  list_options(list, command->options, extra);
  optind = 0;
  opterr = 0;
  for (int which; code < 0 && (which = getopt_long(argc, argv, ":", list, NULL)) != -1;) {
    if (which == '?' || which == ':')
      return wrong_option(argv, which == ':');
    if (which == OPT_HELP) {
      print_help(command->usage, command->options, extra);
      return CLI_OK;
    }
    const cli_extra *own = which >= OPT_EXTRA && which < OPT_FIRST ? &extra[which - OPT_EXTRA] : NULL;
    code = own ? own->take(own->self, optarg) : take(&file, config, ctx, which);
  }
  if (code < 0 && file && hd_config_load(config, ctx, file) != HD_OK)
    code = cli_fail(HD_E_USAGE, hd_ctx_message(ctx));
  *first = optind;
  return code;
}

/* Whether there are as many operands as the command takes: -1, else an exit code. */
static int check_operands(const cli_command *command, int count, char **operand) {
  if (command->operands == CLI_ANY || command->operands == count)
    return -1;
  if (command->operands == 0 && command->remedy)
    cli_complain("%s expects options only, found '%s'; %s", command->name, operand[0], command->remedy);
  else if (command->operands == 0)
    cli_complain("%s expects options only, found '%s'; see heddle %s --help", command->name, operand[0], command->name);
  else
    cli_complain("%s expects one %s, found %d; see heddle %s --help", command->name, command->operand, count,
                 command->name);
  return CLI_USAGE;
}

int cli_run(const cli_command *command, int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config;
  if (hd_ctx_create(&ctx) != HD_OK)
    return cli_fail(HD_E_NOMEM, NULL);
  int first = 0, code = hd_config_create(&config, ctx) == HD_OK ? -1 : cli_fail(HD_E_NOMEM, NULL);
  if (code < 0)
    code = parse(&first, config, ctx, argc, argv, command);
  if (code < 0)
    code = check_operands(command, argc - first, argv + first);
  if (code < 0)
    code = command->run(command->self, ctx, config, argc - first, argv + first);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return code;
}

void cli_json_text(FILE *to, const char *text) {
  fputc('"', to);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    if (*c == '"' || *c == '\\')
      fprintf(to, "\\%c", *c);
    else if (*c < 0x20)
      fprintf(to, "\\u%04x", *c);
    else
      fputc(*c, to);
  }
  fputc('"', to);
}

void cli_json_real(FILE *to, double value) {
  if (isfinite(value))
    fprintf(to, "%.10g", value);
  else
    fputs("null", to);
}

int cli_is_terminal(void) {
  const char *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

const char *cli_grouped(long long value) {
  static char ring[4][32];
  static int next;
  char plain[32], *out = ring[next++ % 4];
  int digits = snprintf(plain, sizeof plain, "%lld", value < 0 ? -value : value), at = 0;
  if (value < 0)
    out[at++] = '-';
  for (int i = 0; i < digits; i++) {
    if (i > 0 && (digits - i) % 3 == 0)
      out[at++] = ',';
    out[at++] = plain[i];
  }
  out[at] = 0;
  return out;
}
