/* heddle get: fetches published data sets. The command carries tools/get-mnist and its table, and becomes the shell
 * that runs it. */
#include <string.h>
#include <unistd.h>

#include "base/embed.h"
#include "cli/cli.h"

enum { MOST_ARGUMENTS = 64 };

static const char *argument[MOST_ARGUMENTS + 8] = {"sh", "-c", NULL, "heddle", "--sets", NULL};
static int arguments = 6;

static int add(const char *text) {
  if (arguments < MOST_ARGUMENTS) {
    argument[arguments++] = text;
    return 0;
  }
  cli_complain("get expects at most %d arguments, found more; run it again for the rest", MOST_ARGUMENTS);
  return CLI_USAGE;
}

/* Options are the script's own, under the same names. */
static int take(const cli_extra *option, const char *value) {
  static const char *const name[] = {"--from", "--dir", "--patience"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(option->name, name[i] + strlen("--")))
      CLI_TRY(add(name[i]));
  return add(value);
}

static int take_patience(const cli_extra *option, const char *value) {
  CLI_TRY(cli_take_whole(option, value));
  return take(option, value);
}

static const char *text_of(const char *name) {
  const hd_embedded *file = hd__embed_sets;
  while (strcmp(file->name, name))
    file++;
  return (const char *)file->bytes;
}

static const char *name_of_set(int index) {
  static const char *const name[] = {"mnist", "fashion", "cifar10", "cifar100", "shakespeare", NULL};
  return name[index];
}

static int add_set(const char *name) {
  for (int i = 0; name_of_set(i); i++)
    if (!strcmp(name, name_of_set(i)))
      return add(name);
  return cli_unknown("get expects a data set", name_of_set, name, "heddle get --help");
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  if (count == 0)
    return hd_ctx_fail(ctx, HD_E_USAGE,
                       "get expects mnist, fashion, cifar10, cifar100 or shakespeare, found none; name one");
  for (int i = 0; i < count; i++)
    CLI_TRY(add_set(operand[i]));
  argument[2] = text_of("get-mnist");
  argument[5] = text_of("datasets.txt");
  execvp(argument[0], (char *const *)argument);
  return hd_ctx_fail(ctx, HD_E_SYSTEM, "expected a shell, sh, found: %m; install one");
}

static int patience;
static const cli_extra extra[] = {
    {"from", "URL|DIR|FILE",
     "fetch from here, or use files that are already downloaded (default: the known mirrors); may be repeated", take,
     .self = NULL},
    {"dir", "DIR", "put data sets here (default ~/.cache/heddle)", take, .self = NULL},
    {"patience", "S", "give up on a mirror that sends less than 1 kB/s for S seconds (default 20)", take_patience,
     .self = &patience, .least = 1, .most = 86400},
    {0}};

const cli_command cli_get = {
    .name = "get",
    .help = "fetch published data sets and check them",
    .usage =
        "heddle get mnist|fashion|cifar10|cifar100|shakespeare... [--from URL|DIR|FILE]... [--dir DIR] [--patience S]",
    .options = (const char *const[]){NULL},
    .extra = extra,
    .operands = CLI_ANY,
    .operand = "data set",
    .run = run};
