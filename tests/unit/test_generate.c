/* What a decoder computes from the keys, values and states that it keeps are the bits of the whole forward pass,
 * whatever the kernels, the number of texts and threads, and how many places come at once; networks that it cannot
 * follow write text all the same; how tokens are drawn. */
#include "scratch.h"

#include <math.h>

#include "heddle.h"
#include "heddle/generate.h"
#include "train/inference/decoder.h"
#include "train/inference/trained_model.h"

enum { PLACES = 13, MOST_TEXTS = 40 };

static hd_ctx *ctx;

#define HEAD "input: [13]\nlayers:\n  - e: {op: embedding, tokens: classes, out: 20, std: 0.3}\n"
#define TAIL "  - o: {op: linear, out: classes, bias: false, share: e}\n"

static const struct {
  const char *name, *text;
  bool decoded;
} models[] = {
    {"gpt",
     "model: gpt\n" HEAD "  - p: {op: position, std: 0.3}\n  - n: {op: layer_norm2d}\n  - q: {op: linear, out: 60}\n"
     "  - a: {op: attention, heads: 2, dropout: 0.2}\n  - s: {op: add, from: [a, p]}\n  - f: {op: linear, out: 40}\n"
     "  - g: {op: gelu}\n  - d: {op: dropout, p: 0.1}\n  - b: {op: linear, out: 20}\n  - t: {op: add, from: [b, s]}\n"
     "  - r: {op: linear, out: 60}\n  - c: {op: attention, heads: 4}\n" TAIL,
     true},
    {"llama",
     "model: llama\n" HEAD "  - n: {op: rms_norm}\n  - q: {op: linear, out: 32, bias: false}\n"
     "  - r: {op: rotary, heads: 4, key_heads: 2}\n  - a: {op: attention, heads: 4, key_heads: 2}\n"
     "  - c: {op: linear, out: 20}\n  - s: {op: add, from: [c, e]}\n  - g: {op: linear, out: 24, from: s}\n"
     "  - w: {op: swish}\n  - u: {op: linear, out: 24, from: s}\n  - m: {op: mul, from: [w, u]}\n"
     "  - d: {op: linear, out: 20}\n  - t: {op: add, from: [d, s]}\n  - q2: {op: linear, out: 32}\n"
     "  - r2: {op: rotary, heads: 4, key_heads: 2, base: 100}\n  - a2: {op: attention, heads: 4, key_heads: 2}\n"
     "  - c2: {op: linear, out: 20}\n" TAIL,
     true},
    {"states",
     "model: states\n" HEAD "  - l: {op: lstm, hidden_size: 20, num_layers: 2}\n  - g: {op: gru, hidden_size: 17}\n"
     "  - b: {op: gru, hidden_size: 20, bias: false}\n" TAIL,
     true},
    {"all-places",
     "model: all-places\n" HEAD "  - q: {op: linear, out: 60}\n  - a: {op: attention, heads: 2, causal: false}\n" TAIL,
     false},
    {"windows", "model: windows\n" HEAD "  - q: {op: conv2d, out: 20, kernel: [1, 3], padding: [0, 1]}\n" TAIL, false},
};
enum { MODELS = sizeof models / sizeof *models };

static void put_text(const char *path) {
  FILE *file = fopen(path, "w");
  uint32_t state = 1;
  for (int i = 0; file && i < 3000; i++) {
    state = state * 1664525u + 1013904223u;
    putc("abcdefgh \n"[(i + (state >> 30)) % 10], file);
  }
  if (!file || fclose(file) != 0)
    bail_out("cannot write %s", path);
}

static void train(const char *out, const char *model_text, const char *data) {
  const char *path = in_scratch("model.yaml");
  hd_config *config;
  hd_session *session;
  put_file(path, model_text, strlen(model_text));
  const char *const pair[][2] = {{"model", path},     {"data", data},   {"context", "13"},
                                 {"max-steps", "12"}, {"batch", "16"},  {"lr", "0.01"},
                                 {"out", out},        {"threads", "1"}, {"log-every", "99"}};
  hd_config_create(&config, ctx);
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
    if (hd_config_set(config, ctx, pair[i][0], pair[i][1]) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  if (hd_session_create(&session, ctx, config) != HD_OK || hd_session_train(session, ctx, NULL, NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
}

/* ---- Bits ---- */

static int32_t window[MOST_TEXTS * PLACES];
static int32_t texts;

static hd_status fetch(void *self, hd_ctx *c, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  for (int64_t r = 0; r < rows; r++)
    for (int i = 0; i < PLACES; i++) {
      to->x[r * to->x_stride + i] = (float)window[(first + r) * PLACES + i];
      ((int32_t *)to->target)[r * to->target_stride + i] = -1;
    }
  return HD_OK;
}

typedef struct decoding {
  hd_decoder *decoder;
  hd_new_places places;
} decoding;

static float score[MOST_TEXTS * 64];

static void compute(void *arg, int share) {
  const decoding *of = arg;
  hd__decoder_compute(of->decoder, share, &of->places, score);
}

/* Places where the decoder's scores differ from those of the whole pass; it takes `steps` places in turn. */
static int differences(hd_trained *t, hd_decoder *d, const float *whole, const int *steps) {
  const int32_t tokens = t->network.target.scores;
  int wrong = 0;
  for (int kept = 0, s = 0, count; kept < PLACES; kept += count, s++) {
    count = steps[s] < PLACES - kept ? steps[s] : PLACES - kept;
    decoding of = {d, {window + kept, PLACES, kept, count}};
    if (hd__decoder_each(d, ctx, compute, &of) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    for (int i = 0; i < texts; i++)
      wrong += memcmp(score + i * tokens, whole + (i * PLACES + kept + count - 1) * tokens,
                      (size_t)tokens * sizeof *score) != 0;
  }
  return wrong;
}

static void compare(const char *run, const char *name, const char *isa, const char *threads) {
  static const int steps[][PLACES] = {
      {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 1, 3, 2, 2}, {13}, {9, 1, 1, 1, 1}, {6, 6, 1}};
  static float whole[MOST_TEXTS * PLACES * 64], loss[MOST_TEXTS];
  static int32_t guess[MOST_TEXTS];
  static const int counts[] = {1, 3, 17, MOST_TEXTS};
  hd_trained trained;
  hd_config *config;
  int wrong = 0;
  setenv("HEDDLE_ISA", isa, 1);
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "threads", threads);
  if (hd__trained_open(&trained, ctx, run, config) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    hd_decoder *d;
    texts = counts[c];
    for (int i = 0; i < texts * PLACES; i++)
      window[i] = (i * 7 + i / 5) % trained.network.target.scores;
    const hd_exec_outcome out = {.loss = loss, .guess = guess, .score = whole};
    if (hd__exec_evaluate(trained.exec, ctx, &(hd_step_source){.fetch = fetch}, texts, &out) != HD_OK ||
        hd__decoder_create(&d, ctx, trained.plan, trained.store, trained.threads, texts) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
      wrong += differences(&trained, d, whole, steps[s]);
    hd__decoder_destroy(d);
  }
  is_int(wrong, 0, "%s, %s, %s threads: the scores of each text and place are those of the whole pass", name, isa,
         threads);
  hd__trained_fini(&trained);
  hd_config_destroy(config);
  unsetenv("HEDDLE_ISA");
}

/* ---- Draws ---- */

static hd_generator *open_generator(const char *run, const char *threads) {
  hd_generator *g;
  hd_config *config;
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "threads", threads);
  if (hd_generator_create(&g, ctx, run, config) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_destroy(config);
  return g;
}

enum { LENGTH = 40, MOST_COUNT = 17 };

/* All texts of a generation. */
static void write_all(char text[][LENGTH + 1], hd_generator *g, const hd_generation *how) {
  static char token[MOST_COUNT * HD_TOKEN_BYTES];
  const int count = how->count ? how->count : 1;
  size_t bytes[MOST_COUNT];
  if (hd_generator_begin(g, ctx, "abc", 3, how) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int t = 0; t < LENGTH; t++) {
    if (hd_generator_next(g, ctx, token, bytes) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    for (int i = 0; i < count; i++)
      text[i][t] = token[i * HD_TOKEN_BYTES];
  }
  for (int i = 0; i < count; i++)
    text[i][LENGTH] = 0;
}

/* The text i of a generation. */
static const char *written(hd_generator *g, const hd_generation *how, int i) {
  static char all[16][MOST_COUNT][LENGTH + 1];
  static int used;
  char(*to)[LENGTH + 1] = all[used++ % 16];
  write_all(to, g, how);
  return to[i];
}

/* A text does not depend on how many are written with it, on threads, nor on the instruction set. */
static void check_counts(const char *run, const char *name) {
  static const char *const isas[] = {"scalar", "avx2", "avx512", "reference"}, *const threads[] = {"1", "2", "3"};
  static const int counts[] = {MOST_COUNT, 16, 8, 3, 2, 1};
  static char wanted[MOST_COUNT][LENGTH + 1], found[MOST_COUNT][LENGTH + 1];
  const char *why;
  int wrong = 0, compared = 0;
  for (int i = 0; i < 12; i++) {
    if (!hd__kernels_select(isas[i / 3], &why))
      continue;
    setenv("HEDDLE_ISA", isas[i / 3], 1);
    hd_generator *g = open_generator(run, threads[i % 3]);
    for (int c = 0; c < 6; c++) {
      write_all(compared ? found : wanted, g, &(hd_generation){.temperature = 1, .seed = 3, .count = counts[c]});
      for (int k = 0; k < counts[c] && compared; k++)
        wrong += strcmp(found[k], wanted[k]) != 0;
      compared++;
    }
    hd_generator_destroy(g);
  }
  unsetenv("HEDDLE_ISA");
  is_int(wrong, 0, "%s: each text is the same whatever the count, the threads and the kernels", name);
}

static void check_draws(const char *run, const char *name) {
  hd_generator *g = open_generator(run, "2");
  const char *one = written(g, &(hd_generation){.temperature = 1, .seed = 3}, 0);
  is_str(written(g, &(hd_generation){.temperature = 1, .seed = 3, .count = 5}, 0), one,
         "%s: the first of five texts is the one that is written alone", name);
  const char *third = written(g, &(hd_generation){.temperature = 1, .seed = 3, .count = 3}, 2);
  is_str(written(g, &(hd_generation){.temperature = 1, .seed = 3, .count = 9}, 2), third,
         "%s: as the third of three is the third of nine", name);
  ok(strcmp(one, third) != 0, "%s: another text", name);
  is_str(written(g, &(hd_generation){.temperature = 1, .seed = 3, .top_p = 1, .top_k = 1000}, 0), one,
         "%s: all tokens are those of top_p 1 and a large top_k", name);
  const char *likely = written(g, &(hd_generation){.temperature = 0}, 0);
  is_str(written(g, &(hd_generation){.temperature = 1, .top_p = 1e-6}, 0), likely,
         "%s: a small top_p leaves the most likely token", name);
  is_str(written(g, &(hd_generation){.temperature = 2, .top_k = 1, .top_p = 0.5}, 0), likely,
         "%s: as a top_k of 1 does", name);
  ok(strcmp(written(g, &(hd_generation){.temperature = 1, .seed = 3, .top_p = 0.3}, 0), one) != 0,
     "%s: a top_p of 0.3 leaves fewer", name);
  hd_generator_destroy(g);
}

static void check_refused(const char *run) {
  hd_generator *g = open_generator(run, "2");
  const hd_generation bad[] = {{.temperature = 1, .top_p = 1.5},
                               {.temperature = 1, .top_p = -1},
                               {.temperature = 1, .top_p = (double)NAN},
                               {.temperature = 1, .count = -1},
                               {.temperature = 1, .count = HD_MOST_TEXTS + 1}};
  int refused = 0;
  for (int i = 0; i < 5; i++)
    refused += hd_generator_begin(g, ctx, "", 0, &bad[i]) == HD_E_USAGE;
  is_int(refused, 5, "a top_p or a count out of range is refused");
  char text[HD_TOKEN_BYTES];
  size_t bytes;
  is_int(hd_generator_next(g, ctx, text, &bytes), HD_E_USAGE, "so is a text that was not begun");
  is_int(hd_generator_begin(g, ctx, "ab\xff", 3, &(hd_generation){.temperature = 1}), HD_E_USAGE,
         "a bad prompt is, too");
  is_int(hd_generator_next(g, ctx, text, &bytes), HD_E_USAGE, "and no text follows it");
  hd_generator_destroy(g);
}

int main(void) {
  static const char *const isas[] = {"scalar", "avx2", "avx512", "reference"};
  char data[SCRATCH_PATH_BYTES], run[SCRATCH_PATH_BYTES];
  hd_ctx_create(&ctx);
  snprintf(data, sizeof data, "%s", in_scratch("abc.txt"));
  put_text(data);
  for (int m = 0; m < MODELS; m++) {
    hd_trained trained;
    hd_config *config;
    const char *why;
    snprintf(run, sizeof run, "%s", in_scratch("run-%s", models[m].name));
    train(run, models[m].text, data);
    hd_config_create(&config, ctx);
    if (hd__trained_open(&trained, ctx, run, config) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    is_int(hd__decoder_takes(trained.plan), models[m].decoded, "%s: %s", models[m].name,
           models[m].decoded ? "it can be decoded" : "it is computed as a whole");
    hd__trained_fini(&trained);
    hd_config_destroy(config);
    for (int i = 0; models[m].decoded && i < 4; i++)
      if (hd__kernels_select(isas[i], &why))
        compare(run, models[m].name, isas[i], i % 2 ? "3" : "1");
    check_draws(run, models[m].name);
    check_counts(run, models[m].name);
  }
  check_refused(run);
  hd_ctx_destroy(ctx);
  return done_testing();
}
