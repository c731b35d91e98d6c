/* Options specific to heddle bench: duration, shapes and products, peers. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

static int take_seconds(void *self, const char *value) {
  bench_request *r = self;
  char *end;
  r->seconds = strtod(value, &end);
  if (end != value && !*end && r->seconds >= 0.1 && r->seconds <= 3600)
    return -1;
  cli_complain("--seconds expects 0.1 to 3600, found '%s'", value);
  return CLI_USAGE;
}

/* "13x13x32": up to `most` numbers of 1 to 5 digits; returns their count (0: none, or a trailing x) and the rest of
 * the text. */
static int read_sizes(int32_t *out, int most, const char *text, const char **rest) {
  int count = 0;
  for (*rest = text; count < most;) {
    size_t digits = strspn(*rest, "0123456789");
    if (digits < 1 || digits > 5)
      return 0;
    out[count++] = atoi(*rest);
    *rest += digits;
    if (**rest != 'x')
      break;
    ++*rest;
  }
  return count;
}

/* ",NAME=A" or ",NAME=AxB": sets one or two numbers. */
static int read_setting(hd_bench_conv_shape *s, const char *text, const char **rest) {
  const struct {
    const char *name;
    int32_t *value;
    int values;
  } settings[] = {{"out", &s->out, 1},        {"kernel", s->kernel, 2},  {"stride", s->stride, 2},
                  {"padding", s->padding, 2}, {"groups", &s->groups, 1}, {"pool", &s->pool, 1}};
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    size_t length = strlen(settings[i].name);
    if (strncmp(text + 1, settings[i].name, length) || text[1 + length] != '=')
      continue;
    int32_t number[2] = {0};
    int count = read_sizes(number, settings[i].values, text + 2 + length, rest);
    settings[i].value[0] = number[0];
    if (settings[i].values == 2)
      settings[i].value[1] = count == 2 ? number[1] : number[0];
    return count > 0 && (**rest == ',' || !**rest);
  }
  return 0;
}

static int take_shape(void *self, const char *value) {
  bench_request *r = self;
  int32_t input[3] = {0};
  const char *at;
  hd_bench_conv_shape s = {.kernel = {3, 3}, .stride = {1, 1}, .groups = 1, .pool = 1};
  int sound = read_sizes(input, 3, value, &at) == 3 && (*at == ',' || !*at);
  s.channels = input[0];
  s.height = input[1];
  s.width = input[2];
  while (sound && *at == ',')
    sound = read_setting(&s, at, &at);
  if (!sound || s.out < 1 || r->shapes == BENCH_MOST_SHAPES) {
    cli_complain("--shape expects CxHxW,out=N[,kernel=K][,stride=S][,padding=P][,groups=G][,pool=M], for example "
                 "32x13x13,out=64,pool=2, up to %d times, found '%s'",
                 BENCH_MOST_SHAPES, value);
    return CLI_USAGE;
  }
  r->shape[r->shapes++] = s;
  return -1;
}

static int take_size(void *self, const char *value) {
  bench_request *r = self;
  int32_t size[3] = {0};
  const char *rest;
  int count = read_sizes(size, 3, value, &rest);
  if ((count != 1 && count != 3) || *rest || r->products == BENCH_MOST_SHAPES) {
    cli_complain("--size expects MxNxK, or N for NxNxN, up to %d times, found '%s'", BENCH_MOST_SHAPES, value);
    return CLI_USAGE;
  }
  r->product[r->products++] =
      (hd_bench_product){.m = size[0], .n = size[count == 1 ? 0 : 1], .k = size[count == 1 ? 0 : 2]};
  return -1;
}

static int take_word(bench_request *r, const char *option, const char *value) {
  if (r->words + 4 > BENCH_MOST_WORDS) {
    cli_complain("%s expects to be given less often, found it once more; leave some out", option);
    return CLI_USAGE;
  }
  r->peers[r->words++] = option;
  if (value)
    r->peers[r->words++] = value;
  return -1;
}

static int take_python(void *self, const char *value) { return take_word(self, "--python", value); }
static int take_markdown(void *self, const char *value) { return take_word(self, "--markdown", value); }

static int take_nothing(void *self, const char *value) { return -1; }

static int take_work(void *self, const char *value) {
  static const char *const works[] = {"cnn", "mlp", "simplenet", "fastmnist", "ddp"};
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    if (!strcmp(value, works[i]))
      return take_word(self, "--work", value);
  cli_complain("--work expects cnn, mlp, simplenet, fastmnist or ddp, found '%s'", value);
  return CLI_USAGE;
}

static int take_rounds(void *self, const char *value) {
  ((bench_request *)self)->rounds = atoi(value);
  if (strspn(value, "0123456789") == strlen(value) && strlen(value) < 4 && atoi(value) > 0)
    return take_word(self, "--rounds", value);
  cli_complain("--rounds expects 1 to 999, found '%s'", value);
  return CLI_USAGE;
}

void bench_list_extra(cli_extra *out, int has, bench_request *r) {
  int count = 0;
  if (!(has & BENCH_NO_SECONDS))
    out[count++] =
        (cli_extra){"seconds", "S",
                    has & BENCH_HAS_ROUNDS ? "how long a run on all cores takes, about (1)" : "how long to measure (3)",
                    take_seconds, r};
  if (has & BENCH_HAS_SVG)
    out[count++] = (cli_extra){"svg", "FILE", "draw it", cli_take_text, &r->svg};
  if (has & BENCH_HAS_SHAPE)
    out[count++] = (cli_extra){
        "shape", "SHAPE",
        "CxHxW,out=N,kernel=3,stride=1,pool=1 instead of a model's, padding=0 and groups=1 too; may be repeated",
        take_shape, r};
  if (has & BENCH_HAS_SIZE)
    out[count++] = (cli_extra){"size", "MxNxK", "this product instead of a list; may be repeated", take_size, r};
  if (has & BENCH_HAS_PEERS) {
    out[count++] =
        (cli_extra){"python", "PATH", "an interpreter with peers (python3); may be repeated", take_python, r};
    out[count++] = (cli_extra){"markdown", NULL, "a table for a page", take_markdown, r};
  }
  if (has & (BENCH_HAS_PEERS | BENCH_HAS_ROUNDS))
    out[count++] = (cli_extra){"rounds", "N", "how often each is measured (5)", take_rounds, r};
  if (has & BENCH_HAS_WORK)
    out[count++] =
        (cli_extra){"work", "NAME", "cnn, mlp, simplenet, fastmnist or ddp (all); may be repeated", take_work, r};
  if (has & BENCH_MAY_HAVE_PEERS)
    out[count++] = (cli_extra){"peers", NULL, "against other libraries, in turns; see --peers --help", take_nothing, r};
  out[count] = (cli_extra){0};
}
