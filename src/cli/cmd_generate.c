/* heddle generate: text that a trained network writes, as it is written. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/cli.h"
#include "heddle/generate.h"

static struct {
  const char *prompt;
  int length, top_k, count;
  double temperature, top_p, seed;
} asked = {.prompt = "", .length = 500, .count = 1, .temperature = 1, .top_p = 1};

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

/* The first text: on a terminal words that would pass its edge begin on the next line, and bytes that are no characters
 * to be seen are shown as \xHH. */
static struct {
  bool wraps;
  int columns, column;
  char word[256];
  size_t bytes; /* of the word that has not ended yet */
  char last;
} screen = {.last = '\n'};

static void end_word(void) {
  char shown[4 * sizeof screen.word + 1];
  hd__utf8_show(shown, sizeof shown, screen.word, screen.bytes);
  const int width = cli_width(shown);
  if (screen.column > 0 && screen.column + width > screen.columns) {
    putchar('\n');
    screen.column = 0;
  }
  fputs(shown, stdout);
  screen.column += width;
  screen.bytes = 0;
}

static void wrap(char c) {
  c = c == '\t' ? ' ' : c;
  const bool ends = c == ' ' || c == '\n', begins = ((unsigned char)c & 0xc0) != 0x80; /* a character */
  const size_t room = sizeof screen.word - screen.bytes;
  if (ends || room == 0 || (begins && room < 4)) /* long words are cut between characters */
    end_word();
  if (!ends) {
    screen.word[screen.bytes++] = c;
    return;
  }
  c = c == ' ' && screen.column >= screen.columns - 1 ? '\n' : c;
  putchar(c);
  screen.column = c == '\n' ? 0 : screen.column + 1;
}

static void show(const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes && screen.wraps; i++)
    wrap(text[i]);
  if (!screen.wraps)
    fwrite(text, 1, bytes, stdout);
  screen.last = bytes > 0 ? text[bytes - 1] : screen.last;
}

static void end_text(void) {
  if (screen.wraps)
    end_word();
  if (screen.last != '\n')
    putchar('\n');
  screen.column = 0;
  screen.last = '\n';
}

/* What is printed when the first text has ended. */
typedef struct later_text {
  FILE *file;
  char *text;
  size_t bytes;
} later_text;

static void close_later(later_text *later, int count) {
  for (int t = 0; later && t < count; t++) {
    if (later[t].file)
      fclose(later[t].file);
    free(later[t].text);
  }
  free(later);
}

static later_text *open_later(int count) {
  later_text *later = calloc((size_t)count + 1, sizeof *later);
  bool opened = later != NULL;
  for (int t = 0; t < count && opened; t++)
    opened = (later[t].file = open_memstream(&later[t].text, &later[t].bytes)) != NULL;
  if (opened)
    return later;
  close_later(later, count);
  return NULL;
}

static int print_later(hd_ctx *ctx, const later_text *later, int count) {
  for (int t = 0; t < count && !ferror(stdout); t++) {
    if (fflush(later[t].file) != 0 || ferror(later[t].file))
      return hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for texts");
    printf("---- %d of %d ----\n", t + 2, count + 1);
    show(later[t].text, later[t].bytes);
    end_text();
  }
  return CLI_OK;
}

/* The tokens of all texts. */
static int write_tokens(hd_ctx *ctx, hd_generator *g, const later_text *later, char *text, size_t *bytes) {
  for (int i = 0; i < asked.length && !stopped && !ferror(stdout); i++) {
    CLI_TRY(hd_generator_next(g, ctx, text, bytes));
    show(text, bytes[0]);
    fflush(stdout);
    for (int t = 1; t < asked.count; t++)
      fwrite(text + t * HD_TOKEN_BYTES, 1, bytes[t], later[t - 1].file);
  }
  return CLI_OK;
}

static int write_texts(hd_ctx *ctx, hd_generator *g, const char *prompt, size_t prompt_bytes) {
  char *const text = calloc((size_t)asked.count, HD_TOKEN_BYTES);
  size_t *const bytes = calloc((size_t)asked.count, sizeof *bytes);
  later_text *const later = open_later(asked.count - 1);
  int result = text && bytes && later ? CLI_OK : (int)hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for texts");
  if (result == CLI_OK) {
    show(prompt, prompt_bytes);
    for (int t = 0; t < asked.count - 1; t++)
      fwrite(prompt, 1, prompt_bytes, later[t].file);
    result = write_tokens(ctx, g, later, text, bytes);
    end_text();
  }
  if (result == CLI_OK && !stopped)
    result = print_later(ctx, later, asked.count - 1);
  close_later(later, asked.count - 1);
  free(text);
  free(bytes);
  return result;
}

/* A stopped text ends where it is: that is no failure to report. */
static int write_all(hd_ctx *ctx, hd_generator *g) {
  const hd_generation how = {.temperature = asked.temperature,
                             .top_k = asked.top_k,
                             .seed = (uint64_t)asked.seed,
                             .top_p = asked.top_p,
                             .count = asked.count};
  const bool reads = !strcmp(asked.prompt, "-");
  size_t bytes = strlen(asked.prompt);
  char *prompt = reads ? read_input(&bytes) : strdup(asked.prompt);
  int result = prompt ? (int)hd_generator_begin(g, ctx, prompt, bytes, &how)
                      : (int)hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for a prompt");
  screen.wraps = cli_is_terminal() && cli_columns() > 0;
  screen.columns = cli_columns();
  if (result == CLI_OK && !stopped)
    result = write_texts(ctx, g, prompt, bytes);
  free(prompt);
  return result == CLI_OK && stopped ? 128 + stopped : result;
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
  const int result = write_all(ctx, g);
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
    {"top-p", "P", "draw from the fewest tokens whose probabilities add up to P (default 1: from all)", cli_take_real,
     .self = &asked.top_p, .least = 1e-6, .most = 1},
    {"count", "N", "texts with this beginning, written at the same time (default 1)", cli_take_whole,
     .self = &asked.count, .least = 1, .most = HD_MOST_TEXTS},
    {"seed", "N", "seed of the draws (default 0)", cli_take_seed, .self = &asked.seed, .least = 0,
     .most = 9007199254740992.0},
    {0}};

const cli_command cli_generate = {.name = "generate",
                                  .help = "text that a trained network writes",
                                  .usage = "heddle generate CHECKPOINT [--prompt TEXT] [--length N] [options]: writes "
                                           "text as a network does that was trained on text; the same on every "
                                           "machine. The network reads a window of the last tokens; when it is full, "
                                           "its first half is dropped, and positions begin anew",
                                  .options = (const char *const[]){"threads", "device", NULL},
                                  .extra = extra,
                                  .operands = 1,
                                  .operand = "checkpoint (a run's folder or a step's)",
                                  .run = run};
