/* heddle generate: text that a trained network writes, as it is written. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "heddle/generate.h"

static struct {
  const char *prompt;
  int length, top_k;
  double temperature, seed;
} asked = {.prompt = "", .length = 500, .temperature = 1};

static volatile sig_atomic_t stopped;

static void on_signal(int number) { stopped = number; }

/* Standard input to its end. */
static char *read_input(size_t *bytes) {
  char *text = NULL;
  FILE *copy = open_memstream(&text, bytes);
  for (int c; copy && (c = getchar()) != EOF;)
    putc(c, copy);
  const bool failed = !copy || ferror(copy);
  if (copy && fclose(copy) == 0 && !failed)
    return text;
  free(text);
  return NULL;
}

static int write_text(hd_ctx *ctx, hd_generator *g) {
  char text[HD_TOKEN_BYTES], last = '\n';
  size_t bytes;
  for (int i = 0; i < asked.length && !stopped; i++) {
    CLI_TRY(hd_generator_next(g, ctx, text, &bytes));
    last = text[bytes - 1];
    if (fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0)
      return CLI_OK; /* the end of the command reports it */
  }
  if (last != '\n')
    putchar('\n');
  return stopped ? cli_stopped_by(stopped) : CLI_OK;
}

static int begin(hd_ctx *ctx, hd_generator *g) {
  const hd_generation how = {.temperature = asked.temperature, .top_k = asked.top_k, .seed = (uint64_t)asked.seed};
  const bool reads = !strcmp(asked.prompt, "-");
  size_t bytes = strlen(asked.prompt);
  char *text = reads ? read_input(&bytes) : strdup(asked.prompt);
  int result = text ? (int)hd_generator_begin(g, ctx, text, bytes, &how)
                    : (int)hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for a prompt");
  if (result == 0)
    fwrite(text, 1, bytes, stdout);
  free(text);
  return result;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  hd_generator *g;
  if (count < 1)
    return hd_ctx_fail(ctx, HD_E_USAGE,
                       "generate expects a checkpoint (a run's folder or a step's), found none; see heddle generate "
                       "--help");
  CLI_TRY(hd_generator_create(&g, ctx, operand[0], config));
  cli_note(ctx);
  cli_catch_signals(on_signal);
  int result = begin(ctx, g);
  if (result == 0)
    result = write_text(ctx, g);
  hd_generator_destroy(g);
  return result;
}

static const cli_extra extra[] = {
    {"prompt", "TEXT", "the beginning of the text; - reads it from standard input (default: the end of a line)",
     cli_take_text, .self = &asked.prompt},
    {"length", "N", "tokens to write (default 500)", cli_take_whole, .self = &asked.length, .least = 0, .most = 1e9},
    {"temperature", "T", "divide scores by T before a token is drawn; 0: the most likely one (default 1)",
     cli_take_real, .self = &asked.temperature, .least = 0, .most = 1e6},
    {"top-k", "K", "draw from the K most likely tokens (default: from all)", cli_take_whole, .self = &asked.top_k,
     .least = 1, .most = 1e6},
    {"seed", "N", "seed of the draws (default 0)", cli_take_seed, .self = &asked.seed, .least = 0,
     .most = 9007199254740992.0},
    {0}};

const cli_command cli_generate = {.name = "generate",
                                  .help = "text that a trained network writes",
                                  .usage = "heddle generate CHECKPOINT [--prompt TEXT] [--length N] [options]: writes "
                                           "text as a network does that was trained on text; the same on every "
                                           "machine",
                                  .options = (const char *const[]){"threads", "device", NULL},
                                  .extra = extra,
                                  .operands = 1,
                                  .operand = "checkpoint (a run's folder or a step's)",
                                  .run = run};
