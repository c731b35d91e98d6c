/* Options, errors and numbers for all commands. */
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json_number.h"
#include "base/nearest.h"
#include "base/utf8.h"

enum { MAX_LINE_BYTES = 8192, HELP_COLUMN = 27, HELP_COLUMNS = 80, LETTERS_BYTES = 32, TEXT_BYTES = 48 };
enum { HELP_BYTES = 512, RANGE_BYTES = 96 };

/* Upper bounds that no one meets are multiples of this, and not shown. */
static const double HUGE_BOUND = 1e9;

/* What getopt_long returns for each option: above every character, to distinguish it from an unknown short option. */
enum { OPT_HELP = 1000, OPT_CONFIG, OPT_BATCH_SIZE, OPT_EXTRA, OPT_FIRST = OPT_EXTRA + 16 };

static char complaint[MAX_LINE_BYTES]; /* the last one */

void cli_complain(const char *fmt, ...) {
  char line[MAX_LINE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  hd__utf8_clean(line, sizeof line, line, sizeof line);
  fprintf(stderr, "heddle: %s\n", line);
  memcpy(complaint, line, sizeof complaint);
}

int cli_take_text(const cli_extra *option, const char *value) {
  *(const char **)option->self = value;
  return 0;
}

int cli_take_flag(const cli_extra *option, const char *value) {
  *(int *)option->self = 1;
  return 0;
}

static const char *number_remedy(char text[RANGE_BYTES], const cli_extra *option, const char *value) {
  double number;
  if (cli_number(&number, value) && number < option->least)
    snprintf(text, RANGE_BYTES, "raise it to %.16g or more", option->least);
  else if (cli_number(&number, value) && number > option->most)
    snprintf(text, RANGE_BYTES, "lower it to %.16g or less", option->most);
  else
    snprintf(text, RANGE_BYTES, "write a number such as %.16g", fmax(option->least, 1));
  return text;
}

static int refuse_number(const cli_extra *option, const char *value) {
  char letter[] = {'-', option->letter, 0}, remedy[RANGE_BYTES];
  cli_complain("%s%s expects %s%.16g to %.16g%s, found '%s'; %s", option->letter ? letter : "--",
               option->letter ? "" : option->name, option->take == cli_take_real ? "" : "a whole number from ",
               option->least, option->most, option->arg && !strcmp(option->arg, "S") ? " seconds" : "", value,
               number_remedy(remedy, option, value));
  return CLI_USAGE;
}

int cli_take_real(const cli_extra *option, const char *value) {
  double *const number = option->self;
  const bool within = cli_number(number, value) && *number >= option->least && *number <= option->most;
  return within ? 0 : refuse_number(option, value);
}

int cli_take_whole(const cli_extra *option, const char *value) {
  const double number = strlen(value) < 10 && strspn(value, "0123456789") == strlen(value) ? atof(value) : NAN;
  if (!*value || !(number >= option->least && number <= option->most))
    return refuse_number(option, value);
  *(int *)option->self = (int)number;
  return 0;
}

int cli_take_seed(const cli_extra *option, const char *value) {
  const bool whole = strspn(value, "0123456789") == strlen(value);
  return whole ? cli_take_real(option, value) : refuse_number(option, value);
}

bool cli_number(double *out, const char *text) {
  char *end;
  *out = strtod(text, &end);
  return end != text && !*end;
}

bool cli_wants_json(const hd_config *config) { return hd_config_get_int(config, HD_OPT_JSON); }

/* Opens a temporary file beside a path, or opens the path itself if it must be written in place (no temporary name).
 * The name is one that is removed from a run's folder with other leftovers. */
static FILE *open_beside(char temporary[PATH_MAX], const char *path) {
  struct stat there, out = {0};
  uint64_t number;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const bool replaces = lstat(path, &there) == 0 && !S_ISLNK(there.st_mode);
  fstat(STDOUT_FILENO, &out);
  *temporary = 0;
  if (replaces && there.st_dev == out.st_dev && there.st_ino == out.st_ino && fflush(stdout) == 0)
    return fdopen(dup(STDOUT_FILENO), "w"); /* append */
  if (replaces && !S_ISREG(there.st_mode))
    return fopen(path, "we");
  if (getentropy(&number, sizeof number) != 0)
    return NULL;
  snprintf(temporary, PATH_MAX, "%.*s.%s.tmp-%016llx", (int)(name - path), path, name, (unsigned long long)number);
  return fopen(temporary, "wxe");
}

int cli_save(const char *path, bool follows, void (*draw)(FILE *file, const void *what), const void *what) {
  char temporary[PATH_MAX], *real = follows ? realpath(path, NULL) : NULL;
  FILE *file = open_beside(temporary, real ? real : path);
  bool failed = !file;
  if (file) {
    draw(file, what);
    failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    failed = failed || (*temporary && rename(temporary, real ? real : path) != 0);
  }
  const int error = failed ? (errno ? errno : EIO) : 0;
  if (file && failed && *temporary)
    remove(temporary);
  free(real);
  return error;
}

int cli_save_svg(const char *path, void (*draw)(FILE *file, const void *what), const void *what) {
  const int error = path ? cli_save(path, true, draw, what) : 0;
  if (error == 0)
    return CLI_OK;
  cli_complain("--svg expects a file that can be written, found %s: %s; choose another one", path, strerror(error));
  return CLI_FAILED;
}

static pid_t parent; /* when the command began */

/* Whether heddle's launcher, which names a lost rank itself, started this process and still runs. */
static bool has_launcher(void) { return getenv("HEDDLE_WORLD") && getppid() == parent; }

int cli_report(hd_ctx *ctx, int result) {
  if (result >= 0)
    return result;
  if (result == HD_E_PEER && has_launcher())
    return CLI_FAILED;
  const char *message = hd_ctx_message(ctx);
  cli_complain("%s", *message ? message : hd_status_text((hd_status)result));
  return result == HD_E_USAGE ? CLI_USAGE : CLI_FAILED;
}

void cli_note(const hd_ctx *ctx) {
  if (*hd_ctx_message(ctx))
    cli_complain("%s", hd_ctx_message(ctx));
}

int cli_unknown(const char *expected, const char *(*name)(int index), const char *found, const char *help) {
  char list[256];
  hd_nearest nearest = {.word = found ? found : ""};
  size_t at = 0;
  for (int i = 0; name(i); i++) {
    if (at < sizeof list)
      at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", name(i));
    hd__nearest_try(&nearest, name(i));
  }
  if (!found)
    cli_complain("%s (%s), found none; see %s", expected, list, help);
  else if (nearest.name)
    cli_complain("%s (%s), found '%.250s'; did you mean %s?", expected, list, found, nearest.name);
  else
    cli_complain("%s (%s), found '%.250s'; see %s", expected, list, found, help);
  return CLI_USAGE;
}

static bool pipe_was_ignored; /* as this process was started */

void cli_ignore_pipe(void) { pipe_was_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN; }

/* A reader that has enough, such as head, is no failure to report: the command ends as SIGPIPE would have ended it. */
static int end_by_pipe(void) {
  if (!pipe_was_ignored && signal(SIGPIPE, SIG_DFL) != SIG_ERR)
    raise(SIGPIPE);
  return 128 + SIGPIPE;
}

int cli_end(int code) {
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  int failed = fflush(stdout) != 0 || ferror(stdout);
  if ((code != CLI_OK && code != CLI_FOUND) || !failed)
    return code;
  if (poll(&out, 1, 0) == 1 && out.revents & POLLERR) /* a pipe without a reader */
    return end_by_pipe();
  cli_complain("expected to write to standard output, found it closed or full; free some space or open it");
  return CLI_FAILED;
}

static int is_wanted(const hd_option *option, const char *const *names) {
  for (int i = 0; names && names[i]; i++)
    if (!strcmp(names[i], option->name))
      return 1;
  return names == NULL;
}

void cli_help_width(void) { cli_print_within(cli_columns() ? cli_columns() : HELP_COLUMNS); }

void cli_print_entry(const char *name, const char *text) {
  if (strlen(name) <= HELP_COLUMN - 4) { /* two blanks behind it, by which tools/list-options knows it */
    cli_print("  %-*s \t%s\n", HELP_COLUMN - 3, name, text);
  } else {
    cli_print("  %s\n", name);
    cli_print("%*s\t%s\n", HELP_COLUMN, "", text);
  }
}

/* "1 to 256", "1 or more", "" for text. */
static void name_range(char text[RANGE_BYTES], double least, double most, const char *beside) {
  char from[HD_JSON_NUMBER_BYTES], to[HD_JSON_NUMBER_BYTES];
  hd__json_number(from, least);
  hd__json_number(to, most);
  *text = 0;
  if (most > least && fmod(most, HUGE_BOUND) != 0)
    snprintf(text, RANGE_BYTES, "%s%s to %s", beside, from, to);
  else if (most > least)
    snprintf(text, RANGE_BYTES, "%s%s or more", beside, from);
}

/* "HELP: CHOICES (default X; RANGE)". A help text with "(default ...)" says what happens without the option; else the
 * default is `fallback`. No text of a table is longer than its buffer. */
static void join_help(char text[HELP_BYTES], const char *help, const char *choices, const char *fallback,
                      const char *range) {
  const char *own = strstr(help, " (default"), *given = *choices ? ": " : "";
  const int length = own ? (int)(own - help) : (int)strlen(help), inner = own ? (int)strcspn(own, ")") - 2 : 0;
  int bytes = snprintf(text, HELP_BYTES, "%.*s%s%s", length, help, given, choices);
  const size_t left = HELP_BYTES - (size_t)bytes;
  assert(bytes < HELP_BYTES);
  if (own)
    bytes += snprintf(text + bytes, left, " (%.*s%s%s%s", inner, own + 2, *range ? "; " : "", range, own + 2 + inner);
  else if (*fallback || *range)
    bytes += snprintf(text + bytes, left, " (%s%s%s%s)", *fallback ? "default " : "", fallback,
                      *fallback && *range ? "; " : "", range);
  assert(bytes < HELP_BYTES);
  (void)bytes;
}

static const char *default_of(const cli_command *command, const hd_option *option) {
  const char *name = option->name;
  const char *own = !strcmp(name, "procs") ? command->procs : !strcmp(name, "data") ? command->data : NULL;
  return own ? own : option->fallback;
}

/* The option's help; for a command on a run, settings of the experiment are the run's unless they are given. */
static const char *help_of(char text[HELP_BYTES], const cli_command *command, const hd_option *option) {
  const bool of_run = command->data && !strcmp(command->data, "the run's");
  if (!of_run || option->kind != HD_OPTION_EXPERIMENT)
    return option->help;
  const char *own = strstr(option->help, " (default");
  snprintf(text, HELP_BYTES, "%.*s (default: as the run did)", own ? (int)(own - option->help) : HELP_BYTES,
           option->help);
  return text;
}

enum { MOST_UNBROKEN = 52 }; /* characters of a word that fit beside the names of options */

static size_t join_choices(char text[128], const char *const *choices, const char *between) {
  size_t at = 0;
  *text = 0;
  for (int i = 0; choices && choices[i]; i++) {
    at += (size_t)snprintf(text + at, 128 - at, "%s%s", i ? between : "", choices[i]);
    assert(at < 128);
  }
  return at;
}

static void print_option(const cli_command *command, const hd_option *option) {
  char name[64], help[HELP_BYTES], text[HELP_BYTES], range[RANGE_BYTES], choices[128];
  if (join_choices(choices, option->choices, "|") > MOST_UNBROKEN)
    join_choices(choices, option->choices, ", ");
  name_range(range, option->min, option->max, option->type == HD_OPTION_TEXT ? "N: " : "");
  if (strstr(option->help, "above 0") || strstr(option->help, "below 1")) /* it says its range itself */
    *range = 0;
  snprintf(name, sizeof name, "--%s%s%s", option->name, option->arg ? " " : "", option->arg ? option->arg : "");
  join_help(text, help_of(help, command, option), choices, default_of(command, option), range);
  cli_print_entry(name, text);
}

void cli_print_extra(const cli_extra *extra) {
  char name[64], text[HELP_BYTES], range[RANGE_BYTES], letter[] = {'-', extra->letter, ',', ' ', 0};
  snprintf(name, sizeof name, "%s--%s%s%s", extra->letter ? letter : "", extra->name, extra->arg ? " " : "",
           extra->arg ? extra->arg : "");
  name_range(range, extra->least, extra->most, strchr(extra->arg ? extra->arg : "", '|') ? "N: " : "");
  join_help(text, extra->help, "", "", range);
  cli_print_entry(name, text);
}

/* Whether the command has this command-specific option. */
static int has(const cli_command *command, const cli_extra *extra) { return !extra->of || extra->of & command->kind; }

/* The command has settings of a run, so --config is accepted. */
static int takes_settings(const cli_command *command) { return !command->options || command->options[0]; }

static const char OF_TRAIN[] = "--model, --data, --batch, --optimizer, --lr, --threads, --device, --json and the "
                               "others; see heddle train --help";

static void print_settings(const cli_command *command) {
  static const char *const title[] = {"The experiment (defines the result)", "The layout (never changes the result)",
                                      "Files and output"};
  for (int kind = 0; kind < 3; kind++) {
    int shown = 0;
    for (int i = 0; hd_option_at(i); i++) {
      if (hd_option_at(i)->kind != (hd_option_kind)kind || !is_wanted(hd_option_at(i), command->options))
        continue;
      if (!shown++)
        cli_print("\n%s:\n", title[kind]);
      print_option(command, hd_option_at(i));
    }
  }
}

/* The command's own options first; those of a run are listed by train alone, unless the command has only some. */
static void print_help(const cli_command *command) {
  const bool of_train = !command->options && command->extra;
  int own = 0;
  cli_help_width();
  if (command->usage)
    cli_print("usage: \t%s\n", command->usage);
  else
    cli_print("usage: \theddle %s [options%s]: %s\n", command->name, of_train ? ", those of train too" : "",
              command->help);
  for (const cli_extra *e = command->extra; e && e->name; e++)
    if (has(command, e)) {
      if (!own++)
        cli_print("\n");
      cli_print_extra(e);
    }
  if (!of_train)
    print_settings(command);
  cli_print("\n");
  if (takes_settings(command))
    cli_print_entry("--config FILE.yaml", "options from a file; those of the command line win");
  cli_print_entry("-h, --help", "show this text");
  if (of_train)
    cli_print("\nand the options of heddle train: %s\n", OF_TRAIN);
  if (command->notes)
    cli_print("\n%s\n", command->notes);
}

static void add(struct option *list, int *count, const char *name, int takes_value, int value) {
  list[(*count)++] = (struct option){name, takes_value ? required_argument : no_argument, NULL, value};
}

/* The options of a command for getopt_long, with room for all there are; NULL when out of memory. */
static struct option *list_options(const cli_command *command) {
  enum { OTHERS = OPT_FIRST - OPT_HELP + 1 };
  const cli_extra *extra = command->extra;
  int count = 0;
  while (hd_option_at(count))
    count++;
  struct option *list = calloc((size_t)(count + OTHERS), sizeof *list);
  if (!list)
    return NULL;
  count = 0;
  for (int i = 0; hd_option_at(i); i++)
    if (is_wanted(hd_option_at(i), command->options))
      add(list, &count, hd_option_at(i)->name, hd_option_at(i)->arg != NULL, OPT_FIRST + i);
  if (!command->options)
    add(list, &count, "batch-size", 1, OPT_BATCH_SIZE);
  for (int i = 0; extra && extra[i].name; i++)
    if (has(command, &extra[i]))
      add(list, &count, extra[i].name, extra[i].arg != NULL, OPT_EXTRA + i);
  if (takes_settings(command))
    add(list, &count, "config", 1, OPT_CONFIG);
  add(list, &count, "help", 0, OPT_HELP);
  return list;
}

/* The short options for getopt: -h and the command's. */
static void list_letters(char letters[LETTERS_BYTES], const cli_command *command) {
  size_t at = (size_t)snprintf(letters, LETTERS_BYTES, "%s:h", command->ends_at_operand ? "+" : "");
  for (const cli_extra *e = command->extra; e && e->name; e++)
    if (e->letter)
      at += (size_t)snprintf(letters + at, LETTERS_BYTES - at, "%c%s", e->letter, e->arg ? ":" : "");
}

/* The value that getopt_long returns for the long option of this letter. */
static int option_of(int letter, const cli_command *command) {
  for (int i = 0; command->extra && command->extra[i].name; i++)
    if (command->extra[i].letter == letter)
      return OPT_EXTRA + i;
  return letter == 'h' ? OPT_HELP : letter;
}

/* The name that an option has here, of one that it has elsewhere; NULL: it is not known. */
static const char *name_here(const char *name, const struct option *list) {
  static const char *const same[][2] = {{"learning-rate", "lr"}, {"learning_rate", "lr"}, {"out", "output"}};
  for (; list->name; list++)
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
      if (!strcmp(name, same[i][0]) && !strcmp(list->name, same[i][1]))
        return list->name;
  return NULL;
}

/* Reports an unknown option name: the beginning of some names, a word that resembles an option, or neither. */
static void complain_of_name(const char *command, const char *word, const struct option *list) {
  char name[64], begin[256] = "";
  hd_nearest nearest = {.word = name};
  size_t at = 0;
  int begun = 0;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
  const char *here = name_here(name, list);
  for (; list->name; list++) {
    hd__nearest_try(&nearest, list->name);
    if (!strncmp(list->name, name, strlen(name)) && at < sizeof begin)
      at += (size_t)snprintf(begin + at, sizeof begin - at, "%s--%s", begun++ ? ", " : "", list->name);
  }
  if (here)
    cli_complain("expected an option of %s, found '%s'; did you mean --%s?", command, word, here);
  else if (begun > 0)
    cli_complain("expected an option of %s in full, found '%s'; write %s%s", command, word, begun > 1 ? "one of " : "",
                 begin);
  else if (nearest.name)
    cli_complain("expected an option of %s, found '%s'; did you mean --%s?", command, word, nearest.name);
  else
    cli_complain("expected an option of %s, found '%s'; see heddle %s --help", command, word, command);
}

static int wrong_option(char **argv, int missing, const struct option *list) {
  const char *word = argv[optind - 1];
  if (missing)
    cli_complain("%s expects a value, found none; see heddle %s --help", word, argv[0]);
  else if (optopt >= OPT_HELP)
    cli_complain("expected a flag without a value, found '%s'; leave the value out", word);
  else if (optopt > 0)
    cli_complain("expected an option of %s, found '-%c'; see heddle %s --help", argv[0], optopt, argv[0]);
  else
    complain_of_name(argv[0], word, list);
  return CLI_USAGE;
}

/* Applies one option; only --config is deferred, in *file, until all others are applied. */
static int take(const char **file, hd_config *config, hd_ctx *ctx, int which) {
  if (which != OPT_CONFIG)
    return hd_config_set(config, ctx, which == OPT_BATCH_SIZE ? "batch" : hd_option_at(which - OPT_FIRST)->name,
                         optarg ? optarg : "true");
  if (*file)
    return hd_ctx_fail(ctx, HD_E_USAGE, "--config expects one file, found a second; put all options into one file");
  *file = optarg;
  return 0;
}

/* The word of the option that was read last. */
static const char *option_word(char **argv) { return argv[optind - (optarg && optarg == argv[optind - 1] ? 2 : 1)]; }

/* getopt_long accepts the beginning of a name, which would change its meaning when a later version has another option
 * that begins so. */
static bool is_in_full(const char *word, const char *name) { return strcspn(word + 2, "=") == strlen(name); }

/* The command's name and what follows it. */
typedef struct command_line {
  int argc;
  char **argv;
} command_line;

static int parse_words(int *first, hd_config *config, hd_ctx *ctx, const command_line *line, const cli_command *command,
                       const struct option *list) {
  const cli_extra *extra = command->extra;
  char letters[LETTERS_BYTES];
  const char *file = NULL;
  char **const argv = line->argv;
  list_letters(letters, command);
  optind = 0;
  opterr = 0;
  for (int which, place = -1; (which = getopt_long(line->argc, argv, letters, list, &place)) != -1; place = -1) {
    if (which == '?' || which == ':')
      return wrong_option(argv, which == ':', list);
    if (place >= 0 && !is_in_full(option_word(argv), list[place].name)) {
      complain_of_name(argv[0], option_word(argv), list);
      return CLI_USAGE;
    }
    which = option_of(which, command);
    if (which == OPT_HELP) {
      print_help(command);
      *first = -1;
      return 0;
    }
    const cli_extra *special = which >= OPT_EXTRA && which < OPT_FIRST ? &extra[which - OPT_EXTRA] : NULL;
    CLI_TRY(special ? special->take(special, optarg) : take(&file, config, ctx, which));
  }
  *first = optind;
  return file && hd_config_load(config, ctx, file) != HD_OK ? HD_E_USAGE : 0;
}

/* *first is the index of the first operand; -1: help was printed. */
static int parse(int *first, hd_config *config, hd_ctx *ctx, const command_line *line, const cli_command *command) {
  struct option *list = list_options(command);
  if (!list)
    return hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for the options");
  const int code = parse_words(first, config, ctx, line, command, list);
  free(list);
  return code;
}

/* Checks the number of operands. */
static int check_operands(const cli_command *command, int count, char **operand) {
  if (command->operands == CLI_ANY || command->operands == count)
    return 0;
  if (command->operands == 0 && command->remedy)
    cli_complain("%s expects options only, found '%s'; %s", command->name, operand[0], command->remedy);
  else if (command->operands == 0)
    cli_complain("%s expects options only, found '%s'; see heddle %s --help", command->name, operand[0], command->name);
  else if (count > 1)
    cli_complain("%s expects one %s, found '%s' too; see heddle %s --help", command->name, command->operand, operand[1],
                 command->name);
  else
    cli_complain("%s expects one %s, found %d; see heddle %s --help", command->name, command->operand, count,
                 command->name);
  return CLI_USAGE;
}

static int parse_and_run(const cli_command *command, hd_ctx *ctx, hd_config *config, int argc, char **argv) {
  int first = 0;
  int code = parse(&first, config, ctx, &(command_line){argc, argv}, command);
  if (code == 0 && first >= 0)
    code = check_operands(command, argc - first, argv + first);
  if (code == 0)
    return first < 0 ? CLI_OK : command->run(ctx, config, argc - first, argv + first);
  code = cli_report(ctx, code);
  if (command->refused)
    command->refused(ctx, complaint);
  return code;
}

int cli_run(const cli_command *command, int argc, char **argv) {
  hd_ctx *ctx = NULL;
  hd_config *config = NULL;
  parent = getppid();
  int code = hd_ctx_create(&ctx);
  if (code == HD_OK)
    code = hd_config_create(&config, ctx);
  if (code == HD_OK && command->procs)
    code = hd_config_set(config, ctx, "procs", command->procs);
  if (code == HD_OK)
    code = parse_and_run(command, ctx, config, argc, argv);
  code = cli_report(ctx, code);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return code;
}

void cli_catch_signals(void (*on_signal)(int number)) {
  const struct sigaction action = {.sa_handler = on_signal};
  struct sigaction before;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, NULL);
}

int cli_stopped_by(int number) {
  const char *const name = number == SIGINT ? "SIGINT" : number == SIGHUP ? "SIGHUP" : "SIGTERM";
  cli_complain("stopped by %s, without a result; start it again", name);
  return 128 + number;
}

/* One character, or one invalid byte; returns the number of bytes. Characters of two or three bytes that are not shown
 * are written as \u, too: controls beyond ASCII, and those that change the direction of a text. */
static size_t put_character(const unsigned char *at, size_t left) {
  const size_t shown = hd__utf8_shown((const char *)at, left);
  if (*at == '"' || *at == '\\')
    putchar('\\');
  if (shown > 0)
    return fwrite(at, 1, shown, stdout);
  if (*at == 0xc2 && left > 1 && (at[1] & 0xe0) == 0x80) {
    printf("\\u%04x", at[1]);
    return 2;
  }
  if (*at == 0xd8 && left > 1 && at[1] == 0x9c) {
    fputs("\\u061c", stdout);
    return 2;
  }
  if (*at == 0xe2 && left > 2 && (at[1] & 0xfe) == 0x80 && (at[2] & 0xc0) == 0x80) {
    printf("\\u%04x", 0x2000u | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu));
    return 3;
  }
  printf("\\u%04x", *at < 0x80 ? *at : 0xfffdu); /* or the replacement character */
  return 1;
}

static void put_string(const char *text) {
  const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
  putchar('"');
  while (at < end) {
    const size_t bytes = put_character(at, (size_t)(end - at));
    at += bytes ? bytes : 1; /* 0: the write failed, which ends the command with an error */
  }
  putchar('"');
}

/* A number of %g, %e, %.Ng and %.Nf, as cli.h has them. */
static void put_number(char kind, const char *spec, double value) {
  char text[HD_JSON_NUMBER_BYTES], rounded[512];
  const int digits = *spec == '.' ? atoi(spec + 1) : -1;
  if (digits >= 0 && isfinite(value)) {
    snprintf(rounded, sizeof rounded, kind == 'f' ? "%.*f" : "%.*g", digits, value);
    value = strtod(rounded, NULL);
  }
  if (kind == 'e')
    hd__json_float(text, (float)value);
  else
    hd__json_number(text, value);
  fputs(text, stdout);
}

void cli_json(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  for (const char *at = fmt; *at; at++) {
    if (*at != '%') {
      putchar(*at == '\'' ? '"' : *at);
      continue;
    }
    const char *spec = at + 1, *kind = at + strcspn(at, "cdefgs");
    if (*kind == 'c')
      fputs(va_arg(args, int) ? ", " : "", stdout);
    else if (*kind == 'd')
      printf("%lld", kind > spec ? va_arg(args, long long) : va_arg(args, int));
    else if (*kind == 's')
      put_string(va_arg(args, const char *));
    else
      put_number(*kind, spec, va_arg(args, double));
    at = kind;
  }
  va_end(args);
}

double cli_now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* mpirun of Open MPI and MPICH runs each process on a separate terminal, where no person reads it. */
static bool is_launched(void) { return getenv("OMPI_COMM_WORLD_SIZE") || getenv("MPI_LOCALNRANKS"); }

int cli_is_terminal(void) {
  const char *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !is_launched();
}

void cli_draw_line(const char *text) {
  const int columns = cli_columns();
  printf("\r%.*s\033[K", columns > 0 && cli_width(text) >= columns ? columns - 1 : (int)strlen(text), text);
  fflush(stdout);
}

void cli_show_step(cli_step_line *line, int64_t step, int64_t steps) {
  const double now = cli_now_s();
  if (!line->terminal || now - line->shown_s <= 0.05)
    return;
  line->shown_s = now;
  char text[64];
  snprintf(text, sizeof text, "step %s of %s", cli_grouped(step), cli_grouped(steps));
  cli_draw_line(text);
}

void cli_clear_line(void) {
  printf("\r\033[K");
  fflush(stdout); /* before an error's line on standard error */
}

void cli_clear_step(const cli_step_line *line) {
  if (line->shown_s > 0)
    cli_clear_line();
}

static char *next_text(void) {
  static char ring[8][TEXT_BYTES];
  static int next;
  return ring[next++ % 8];
}

const char *cli_grouped(long long value) {
  char plain[TEXT_BYTES], *out = next_text();
  const unsigned long long size = value < 0 ? -(unsigned long long)value : (unsigned long long)value;
  int digits = snprintf(plain, sizeof plain, "%llu", size), at = 0;
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

const char *cli_counted(int count, const char *what) {
  char *out = next_text();
  snprintf(out, TEXT_BYTES, "%d %s%s", count, what, count == 1 ? "" : "s");
  return out;
}

const char *cli_grouped_of(long long count, const char *what) {
  char *out = next_text();
  snprintf(out, TEXT_BYTES, "%s %s%s", cli_grouped(count), what, count == 1 ? "" : "s");
  return out;
}
