/* heddle models: the built-in models with their costs, or the file of one of them. */
#include <string.h>

#include "cli/cli.h"

enum { NAME = 18, INPUT = 13, NUMBER = 13, LINE_BYTES = 128 };

/* What a list has about a model. The input and the outputs of a file that leaves them to the data are those of
 * hd_summary_create without data: 1x28x28 and 10. */
typedef struct entry {
  hd_built_in_model model;
  char about[LINE_BYTES];
  char input[32];
  bool of_data; /* it leaves its input or outputs to the data */
  int64_t params, macs;
} entry;

/* Whether a sentence's first part ends here. */
static bool ends_at(const char *at) { return *at == '(' || (strchr(".:;", *at) && (at[1] == ' ' || at[1] == '\n')); }

/* The first part of the comment that the file begins with. */
static void describe(char about[LINE_BYTES], const char *text) {
  int length = 0;
  for (const char *at = text + strspn(text, "# "); length < LINE_BYTES - 1 && *at && !ends_at(at); at++) {
    if (*at == '\n' && at[1] != '#')
      break;
    about[length++] = *at == '\n' ? ' ' : *at;
    at += *at == '\n' ? strspn(at + 1, "# ") : 0;
  }
  while (length > 0 && about[length - 1] == ' ')
    length--;
  about[length] = 0;
}

/* "3x224x224"; "256" for a row of numbers. */
static void write_input(char *to, size_t bytes, const int32_t input[3]) {
  if (input[0] == 1 && input[1] == 1)
    snprintf(to, bytes, "%d", input[2]);
  else
    snprintf(to, bytes, "%dx%dx%d", input[0], input[1], input[2]);
}

static int measure(entry *e, hd_ctx *ctx) {
  hd_config *config;
  hd_summary *s;
  CLI_TRY(hd_config_create(&config, ctx));
  int status = hd_config_set(config, ctx, "model", e->model.name);
  if (status == HD_OK)
    status = hd_summary_create(&s, ctx, config, NULL);
  hd_config_destroy(config);
  if (status != HD_OK)
    return status;
  write_input(e->input, sizeof e->input, s->input);
  e->params = s->params;
  e->macs = s->macs;
  hd_summary_destroy(s);
  describe(e->about, e->model.text);
  e->of_data = strstr(e->model.text, "\ninput: data\n") || strstr(e->model.text, ": classes");
  return CLI_OK;
}

static void print_entry(const entry *e) {
  cli_print("%-*s %-*s %*s  %*s\n", NAME, e->model.name, INPUT, e->input, NUMBER, cli_grouped(e->params), NUMBER,
            cli_grouped(e->macs));
  cli_print("  \t%s\n", e->about);
}

static void json_entry(const entry *e, int32_t index) {
  cli_json("%c{'name': %s, 'input': %s, 'params': %lld, 'macs': %lld, 'of_data': ", index, e->model.name, e->input,
           (long long)e->params, (long long)e->macs);
  cli_json(e->of_data ? "true" : "false");
  cli_json(", 'about': %s}", e->about);
}

static int list(hd_ctx *ctx, bool json) {
  entry e = {0};
  if (json)
    cli_json("{'models': [");
  else
    cli_print("%-*s %-*s %*s  %*s\n", NAME, "model", INPUT, "input", NUMBER, "parameters", NUMBER, "multiply-adds");
  for (int32_t i = 0; hd_built_in_model_at(&e.model, i); i++) {
    CLI_TRY(measure(&e, ctx));
    if (json)
      json_entry(&e, i);
    else
      print_entry(&e);
  }
  if (json)
    cli_json("]}\n");
  else
    cli_print("\nWhat a model leaves to the data is counted with samples of 1x28x28 and 10 classes or tokens.\n");
  return CLI_OK;
}

static const char *name_of(int index) {
  enum { MOST = 64 };
  static hd_built_in_model model[MOST];
  return index < MOST && hd_built_in_model_at(&model[index], index) ? model[index].name : NULL;
}

static int show(const char *name, bool json) {
  hd_built_in_model model = {0};
  for (int32_t i = 0; strcmp(model.name, name); i++)
    if (!hd_built_in_model_at(&model, i))
      return cli_unknown("models expects a model", name_of, name, "heddle models");
  if (json)
    cli_json("{'name': %s, 'text': %s}\n", model.name, model.text);
  else
    fputs(model.text, stdout);
  return CLI_OK;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  if (count > 1)
    return hd_ctx_fail(ctx, HD_E_USAGE, "models expects one model at most, found %d; name one", count);
  return count > 0 ? show(operand[0], cli_wants_json(config)) : list(ctx, cli_wants_json(config));
}

const cli_command cli_models = {
    .name = "models",
    .help = "the built-in models, or the file of one",
    .usage = "heddle models [NAME] [--json]: the built-in models with their parameters and multiply-adds, or the file "
             "of one",
    .options = (const char *const[]){"json", NULL},
    .operands = CLI_ANY,
    .operand = "model",
    .run = run};
