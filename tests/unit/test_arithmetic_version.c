/* Versions of the arithmetic: which networks each changed, runs of an earlier version that are resumed, evaluated and
 * taken as first weights, and what is refused.
 *
 * Files of version 5 are made of today's: parameters of a batch norm behind a flattened image in the order of memory,
 * and the version's number in counters and record, with checksums that fit. */
#include "scratch.h"

#include <jansson.h>

#include "base/digest.h"
#include "base/version.h"
#include "heddle.h"
#include "heddle/evidence.h"
#include "platform/file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/arithmetic_version.h"

/* A norm of a flattened image of several channels: 3 x 3 x 3. */
enum { CHANNELS = 3, PIXELS = 9, MOST_TENSORS = 64 };
static const char flat[] = "model: flat\ninput: [1, 28, 28]\nlayers:\n"
                           "  - c: {op: conv2d, out: 3, kernel: 5, stride: 8}\n  - f: {op: flatten}\n"
                           "  - b: {op: batch_norm}\n  - l: {op: linear, out: 10}\n";
static const char chain[] = "model: chain\ninput: [1, 28, 28]\nlayers:\n"
                            "  - c: {op: conv2d, out: 3, kernel: 5, stride: 8}\n  - s: {op: swish}\n"
                            "  - b: {op: batch_norm}\n  - d: {op: conv2d, out: 4, kernel: 2}\n  - e: {op: batch_norm}\n"
                            "  - f: {op: flatten}\n  - l: {op: linear, out: 10}\n";

/* ---- Predicates ---- */

#define MODEL(input, layers) "model: m\ninput: " input "\nlayers:\n" layers
#define LAYER(name, op) "  - " name ": {op: " op "}\n"
#define END LAYER("flat", "flatten") LAYER("out", "linear, out: 10")

static const struct trial {
  const char *what, *model;
  int from;           /* the version of a run */
  int steps, digests; /* the version that changed them, 0: none did */
} trials[] = {
    {"a narrow network", MODEL("[1, 8, 8]", LAYER("c", "conv2d, out: 4, kernel: 3") END), 1, 0, 0},
    {"a wide first layer", MODEL("[1, 8, 8]", LAYER("f", "flatten") LAYER("l", "linear, out: 64")), 1, 2, 2},
    {"the same, of version 2", MODEL("[1, 8, 8]", LAYER("f", "flatten") LAYER("l", "linear, out: 64")), 2, 0, 0},
    {"a wide first layer of colours", MODEL("[3, 8, 8]", LAYER("f", "flatten") LAYER("l", "linear, out: 64")), 1, 0, 0},
    {"a wide 3 x 3 convolution",
     MODEL("[3, 16, 16]",
           LAYER("a", "conv2d, out: 16, kernel: 1") LAYER("c", "conv2d, out: 16, kernel: 3, padding: 1") END),
     2, 3, 3},
    {"the same with a pool",
     MODEL("[3, 16, 16]", LAYER("a", "conv2d, out: 16, kernel: 1") LAYER("c", "conv2d, out: 16, kernel: 3, padding: 1")
                              LAYER("p", "max_pool2d, kernel: 2") END),
     2, 3, 3},
    {"the same of version 3",
     MODEL("[3, 16, 16]",
           LAYER("a", "conv2d, out: 16, kernel: 1") LAYER("c", "conv2d, out: 16, kernel: 3, padding: 1") END),
     3, 0, 0},
    {"a wide 5 x 5 convolution",
     MODEL("[3, 16, 16]",
           LAYER("a", "conv2d, out: 16, kernel: 1") LAYER("c", "conv2d, out: 16, kernel: 5, padding: 2") END),
     3, 4, 4},
    {"one norm of a shard's statistics", MODEL("[3, 8, 8]", LAYER("n", "batch_norm, stats: shard") END), 4, 0, 0},
    {"two of them",
     MODEL("[3, 8, 8]",
           LAYER("n", "batch_norm, stats: shard") LAYER("r", "relu") LAYER("o", "batch_norm, stats: shard") END),
     4, 5, 5},
    {"the order of layers of tutorials",
     MODEL("[3, 8, 8]", LAYER("a", "conv2d, out: 4, kernel: 3") LAYER("n", "batch_norm") LAYER("r", "relu")
                            LAYER("b", "conv2d, out: 4, kernel: 3") LAYER("o", "batch_norm") LAYER("s", "relu") END),
     5, 0, 0},
    {"norms behind swishes",
     MODEL("[3, 8, 8]", LAYER("a", "conv2d, out: 4, kernel: 3") LAYER("r", "swish") LAYER("n", "batch_norm")
                            LAYER("b", "conv2d, out: 4, kernel: 3") LAYER("o", "batch_norm") END),
     5, 6, 6},
    {"the same with a shard's statistics",
     MODEL("[3, 8, 8]",
           LAYER("a", "conv2d, out: 4, kernel: 3") LAYER("r", "swish") LAYER("n", "batch_norm, stats: shard") END),
     5, 0, 0},
    {"three norms", MODEL("[3, 8, 8]", LAYER("a", "batch_norm") LAYER("b", "batch_norm") LAYER("c", "batch_norm") END),
     5, 6, 6},
    {"an elementwise layer beside a norm",
     MODEL("[3, 8, 8]",
           LAYER("a", "conv2d, out: 4, kernel: 3") LAYER("r", "swish") LAYER("b", "conv2d, out: 4, kernel: 1")
               LAYER("n", "batch_norm") "  - t: {op: gelu, from: r}\n  - u: {op: add, from: [t, n]}\n" LAYER(
                   "d", "conv2d, out: 4, kernel: 1") LAYER("o", "batch_norm") END),
     5, 6, 6},
    {"a norm of a flattened image", flat, 5, 0, 6},
    {"a norm of a flattened image of one channel",
     MODEL("[1, 8, 8]", LAYER("f", "flatten") LAYER("n", "batch_norm") LAYER("l", "linear, out: 4")), 5, 0, 0},
    {"a long norm of a flattened image",
     MODEL("[3, 32, 32]", LAYER("f", "flatten") LAYER("n", "batch_norm") LAYER("l", "linear, out: 4")), 5, 6, 6},
    {"a version to come", flat, HD_ARITHMETIC_VERSION + 1, 0, 0},
};

static void try_predicates(hd_ctx *ctx) {
  for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
    const struct trial *t = &trials[i];
    hd_network network;
    hd_arithmetic_change steps = {-1, NULL}, digests = {-1, NULL};
    if (hd__network_find(&network, ctx, t->model) != HD_OK)
      bail_out("%s: %s", t->what, hd_ctx_message(ctx));
    const hd_arithmetic_run usual = {.parameters = ""}, bf16 = {.bf16 = true, .parameters = ""};
    hd__arithmetic_changed(&steps, ctx, &network, usual, t->from, HD_ARITHMETIC_OF_STEPS);
    hd__arithmetic_changed(&digests, ctx, &network, usual, t->from, HD_ARITHMETIC_OF_DIGESTS);
    is_int(steps.version, t->steps, "%s: the version that changed its steps", t->what);
    is_int(digests.version, t->digests, "%s: the version that changed its digest", t->what);
    hd__arithmetic_changed(&steps, ctx, &network, bf16, 5, HD_ARITHMETIC_OF_STEPS);
    is_int(steps.version, 6, "%s: with bfloat16 version 6 changed its steps", t->what);
    hd__network_fini(&network);
  }
}

/* Weights that a rule of the model or of --parameters trains for some epochs, with lookahead. */
static void try_ended(hd_ctx *ctx) {
  static const char layers[] = MODEL("[1, 8, 8]", END), rule[] = "parameters:\n  - {match: '*.weight', epochs: 1}\n";
  static const struct ended {
    const char *model_rule, *parameters;
    bool lookahead;
    int version;
  } all[] = {{rule, "", true, 6},
             {rule, "", false, 0},
             {"", "[{match: '*.weight', optimizer: muon, epochs: 1}]", true, 6},
             {"", "[{match: '*.weight', optimizer: muon}]", true, 0}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char text[512];
    hd_network network;
    hd_arithmetic_change change = {-1, NULL};
    snprintf(text, sizeof text, "%s%s", layers, all[i].model_rule);
    if (hd__network_find(&network, ctx, text) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    const hd_arithmetic_run run = {.lookahead = all[i].lookahead, .parameters = all[i].parameters};
    hd__arithmetic_changed(&change, ctx, &network, run, 5, HD_ARITHMETIC_OF_STEPS);
    is_int(change.version, all[i].version, "weights trained for some epochs, lookahead: case %zu", i + 1);
    hd__network_fini(&network);
  }
}

/* ---- Runs ---- */

typedef struct finding {
  hd_status status;
  char digest[HD_SHA256_TEXT_BYTES], note[256];
} finding;

/* Trains up to `steps` steps with these settings: name, value, ..., NULL. */
static finding train(hd_ctx *ctx, int steps, const char *const *settings) {
  finding out = {0};
  hd_config *config = NULL;
  hd_session *session = NULL;
  out.status = hd_config_create(&config, ctx);
  for (; *settings && out.status == HD_OK; settings += 2)
    out.status = hd_config_set(config, ctx, settings[0], settings[1]);
  if (out.status == HD_OK)
    out.status = hd_config_set_int(config, ctx, HD_OPT_MAX_STEPS, steps);
  if (out.status == HD_OK)
    out.status = hd_session_create(&session, ctx, config);
  if (out.status == HD_OK)
    out.status = hd_session_train(session, ctx, NULL, NULL);
  if (out.status == HD_OK) {
    snprintf(out.digest, sizeof out.digest, "%s", hd_session_report(session)->weights_sha256);
    snprintf(out.note, sizeof out.note, "%s", hd_session_report(session)->arithmetic_note);
  }
  hd_session_destroy(session);
  hd_config_destroy(config);
  return out;
}

static finding begin(hd_ctx *ctx, const char *model, const char *folder, int steps) {
  return train(ctx, steps,
               (const char *const[]){"model", model, "data", "random:1x28x28", "batch", "16", "lr", "0.05", "seed", "3",
                                     "ema", "0.9", "threads", "1", "out", folder, NULL});
}

static finding resume(hd_ctx *ctx, const char *folder, int steps, const char *accepts) {
  return train(ctx, steps, (const char *const[]){"resume", folder, "threads", "1", "accept-arithmetic", accepts, NULL});
}

/* Makes a tensor's bytes those of version 5: in the order of memory, or the number of the version. */
static void make_older(hd_st_tensor *t, float *order, int64_t *version) {
  *version = 5;
  if (!strcmp(t->name, "arithmetic_version"))
    t->bytes = version;
  if (strncmp(t->name, "b.", 2) || t->length != CHANNELS * PIXELS * sizeof *order)
    return;
  for (int p = 0; p < PIXELS; p++)
    for (int c = 0; c < CHANNELS; c++)
      memcpy(&order[p * CHANNELS + c], (const float *)t->bytes + c * PIXELS + p, sizeof *order);
  t->bytes = order;
}

static void rewrite(hd_ctx *ctx, const char *folder, const char *name, json_t *record) {
  static float order[MOST_TENSORS][CHANNELS * PIXELS];
  int64_t version;
  char path[HD_PATH_BYTES], sum[HD_CHECKSUM_BYTES];
  hd_mapping file = {0};
  hd_st_list list = {0};
  snprintf(path, sizeof path, "%s/last/%s", folder, name);
  if (hd__file_map(&file, ctx, path) != HD_OK || hd__st_parse(&list, ctx, path, file.bytes, file.length) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  if (list.count > MOST_TENSORS)
    bail_out("%s has %d tensors", path, list.count);
  for (int i = 0; i < list.count; i++)
    make_older(&list.tensor[i], order[i], &version);
  FILE *to = fopen(in_scratch("new"), "wb");
  if (!to || hd__st_write(to, ctx, path, list.tensor, list.count) != HD_OK || fclose(to) != 0)
    bail_out("%s is not written", path);
  hd__st_fini(&list);
  hd__file_unmap(&file);
  if (rename(in_scratch("new"), path) != 0 || hd__file_map(&file, ctx, path) != HD_OK)
    bail_out("%s is not written", path);
  hd__checksum_text(sum, hd__xxh3(file.bytes, file.length));
  json_object_set_new(json_object_get(json_object_get(record, "files"), name), "xxh3", json_string(sum));
  hd__file_unmap(&file);
}

/* Makes the last checkpoint of a run one of version 5. */
static void rewrite_run(hd_ctx *ctx, const char *folder) {
  const char *path = in_scratch("%s/last/run.json", strrchr(folder, '/') + 1);
  json_t *record = json_load_file(path, 0, NULL);
  rewrite(ctx, folder, "model.safetensors", record);
  rewrite(ctx, folder, "state.safetensors", record);
  json_object_set_new(record, "arithmetic_version", json_integer(5));
  if (json_dump_file(record, path, JSON_INDENT(2)) != 0)
    bail_out("%s is not written", path);
  json_decref(record);
}

static double loss_of(hd_ctx *ctx, const char *folder, const char **note) {
  hd_evaluation e = {.struct_bytes = sizeof e};
  hd_config *config;
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("out of memory");
  const double loss = hd_evaluate(&e, ctx, folder, config) == HD_OK ? e.loss : NAN;
  *note = hd_ctx_message(ctx);
  hd_evaluation_fini(&e);
  hd_config_destroy(config);
  return loss;
}

static void try_conversion(hd_ctx *ctx) {
  const char *whole = in_scratch("whole"), *now = in_scratch("now"), *older = in_scratch("older"), *note;
  char init[2][HD_PATH_BYTES];
  const finding end = begin(ctx, flat, whole, 6);
  begin(ctx, flat, now, 3);
  begin(ctx, flat, older, 3);
  rewrite_run(ctx, older);
  const double loss = loss_of(ctx, now, &note);
  ok(loss == loss_of(ctx, older, &note), "a checkpoint of version 5 has the loss of its twin");
  ok(strstr(note, "PyTorch's order") != NULL, "and that it was converted is noted");
  snprintf(init[0], sizeof init[0], "%s/last/model.safetensors", now);
  snprintf(init[1], sizeof init[1], "%s/last/model.safetensors", older);
  finding first[2];
  for (int i = 0; i < 2; i++)
    first[i] = train(ctx, 2,
                     (const char *const[]){"model", flat, "data", "random:1x28x28", "init", init[i], "threads", "1",
                                           "out", in_scratch("init-%d", i), NULL});
  ok(first[1].status == HD_OK && !strcmp(first[0].digest, first[1].digest), "so has it as first weights");
  ok(strstr(first[1].note, "version 5") != NULL, "which is said");
  const finding resumed = resume(ctx, older, 6, "false");
  ok(resumed.status == HD_OK && !strcmp(resumed.digest, end.digest), "resumed, it reaches the digest of a whole run");
  ok(strstr(resumed.note, "PyTorch's order") != NULL, "which is said");
  ok(hd_certify(ctx, older, NULL) == HD_OK, "and can be certified");
  const finding again = resume(ctx, older, 8, "false");
  ok(again.status == HD_OK && !*again.note, "resumed once more, there is nothing to convert");
}

static void try_refusal(hd_ctx *ctx) {
  const char *run = in_scratch("chain");
  begin(ctx, chain, run, 3);
  rewrite_run(ctx, run);
  finding found = resume(ctx, run, 6, "false");
  ok(found.status == HD_E_USAGE, "a run whose network has changed is refused");
  ok(strstr(hd_ctx_message(ctx), "version 6: values between batch norms") != NULL, "and the change named");
  found = resume(ctx, run, 6, "true");
  ok(found.status == HD_OK, "unless that is accepted");
  ok(strstr(found.note, "the digest is a new one") != NULL, "which is said");
  ok(hd_certify(ctx, run, NULL) == HD_E_USAGE, "then it cannot be certified");
  ok(strstr(hd_ctx_message(ctx), "by version 5 of the arithmetic and others by version 6") != NULL, "for that reason");
  found = resume(ctx, run, 8, "false");
  ok(found.status == HD_OK && hd_certify(ctx, run, NULL) == HD_E_USAGE, "nor after it was resumed once more");
}

int main(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  try_predicates(ctx);
  try_ended(ctx);
  try_conversion(ctx);
  try_refusal(ctx);
  hd_ctx_destroy(ctx);
  return done_testing();
}
