/* Options, errors and numbers for all commands. */
#include "cli/cli.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 64, OPT_HELP = 1000, OPT_CONFIG = 1001, OPT_BATCH_SIZE = 1002 };

int cli_fail(hd_status status, const char *message) {
  fprintf(stderr, "heddle: %s\n", message && *message ? message : hd_status_text(status));
  return status == HD_E_USAGE ? CLI_USAGE : CLI_FAILED;
}

static int is_wanted(const hd_option *option, unsigned kinds) { return (kinds >> option->kind & 1u) != 0; }

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

static void print_help(const char *usage, unsigned kinds) {
  static const char *title[] = {"The experiment (defines the result)", "The layout (never changes the result)", "Files and output"};
  printf("%s\n", usage);
  for (int kind = 0; kind < 3; kind++) {
    if (!(kinds >> kind & 1u))
      continue;
    printf("\n%s:\n", title[kind]);
    for (int i = 0; hd_option_at(i); i++)
      if (hd_option_at(i)->kind == (hd_option_kind)kind)
        print_option(hd_option_at(i));
  }
  printf("\n  %-24s %s\n  %-24s %s\n", "--config FILE.yaml", "options from a file; the command line wins", "--help", "this text");
}

static void add(struct option *list, int *count, const char *name, int takes_value, int value) {
  list[(*count)++] = (struct option){name, takes_value ? required_argument : no_argument, NULL, value};
}

static void list_options(struct option *list, unsigned kinds) {
  int count = 0;
  for (int i = 0; hd_option_at(i) && count < MAX_OPTIONS - 4; i++)
    if (is_wanted(hd_option_at(i), kinds))
      add(list, &count, hd_option_at(i)->name, hd_option_at(i)->arg != NULL, i);
  if (kinds >> HD_OPTION_EXPERIMENT & 1u)
    add(list, &count, "batch-size", 1, OPT_BATCH_SIZE);
  add(list, &count, "config", 1, OPT_CONFIG);
  add(list, &count, "help", 0, OPT_HELP);
  list[count] = (struct option){0};
}

static hd_status take(hd_config *config, hd_ctx *ctx, int which) {
  if (which == OPT_CONFIG)
    return HD_OK; /* loaded after the command line, which wins because it was set before */
  const char *name = which == OPT_BATCH_SIZE ? "batch" : hd_option_at(which)->name;
  return hd_config_set(config, ctx, name, optarg ? optarg : "true");
}

static int wrong_option(const struct option *list, int argc, char **argv, int at, int missing) {
  const char *word = at > 0 && at <= argc ? argv[at - 1] : argv[0];
  if (missing)
    fprintf(stderr, "heddle: %s expects a value, found none; see heddle %s --help\n", word, argv[0]);
  else
    fprintf(stderr, "heddle: expected an option of %s, found '%s'; see heddle %s --help\n", argv[0], word, argv[0]);
  (void)list;
  return CLI_USAGE;
}

int cli_parse(int *first, hd_config *config, hd_ctx *ctx, int argc, char **argv, unsigned kinds, const char *usage) {
  struct option list[MAX_OPTIONS];
  const char *file = NULL;
  list_options(list, kinds);
  optind = 0;
  opterr = 0;
  for (int which; (which = getopt_long(argc, argv, ":", list, NULL)) != -1;) {
    if (which == '?' || which == ':')
      return wrong_option(list, argc, argv, optind, which == ':');
    if (which == OPT_HELP) {
      print_help(usage, kinds);
      return CLI_OK;
    }
    if (which == OPT_CONFIG)
      file = optarg;
    hd_status status = take(config, ctx, which);
    if (status != HD_OK)
      return cli_fail(status, hd_ctx_message(ctx));
  }
  if (file && hd_config_load(config, ctx, file) != HD_OK)
    return cli_fail(HD_E_USAGE, hd_ctx_message(ctx));
  *first = optind;
  return -1;
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
