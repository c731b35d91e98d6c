/* Settings: every row of options.def has the value of its text in its field, choices have the constants that code
 * compares with, values outside of their bounds leave the field as it was, and a check that concerns several options
 * names the file and line that gave one of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heddle/topology.h"
#include "tap.h"
#include "train/settings/config.h"

static hd_settings settings;

static bool reads(hd_ctx *ctx, hd_option_id id, const char *text) {
  return hd__settings_read(&settings, ctx, id, text) == HD_OK;
}

static void test_choices(hd_ctx *ctx) {
  const struct {
    hd_option_id id;
    const char *text;
    int value;
    const int *field;
  } choice[] = {{HD_OPT_SAMPLER, "random", HD_SAMPLER_RANDOM, &settings.sampler},
                {HD_OPT_SAMPLER, "sequential", HD_SAMPLER_SEQUENTIAL, &settings.sampler},
                {HD_OPT_SAMPLER, "balanced", HD_SAMPLER_BALANCED, &settings.sampler},
                {HD_OPT_ON_ERROR, "stop", HD_ON_ERROR_STOP, &settings.on_error},
                {HD_OPT_ON_ERROR, "skip", HD_ON_ERROR_SKIP, &settings.on_error},
                {HD_OPT_ARITHMETIC, "portable", HD_ARITHMETIC_PORTABLE, &settings.arithmetic},
                {HD_OPT_ARITHMETIC, "native", HD_ARITHMETIC_NATIVE, &settings.arithmetic},
                {HD_OPT_PRECISION, "f32", HD_PRECISION_F32, &settings.precision},
                {HD_OPT_PRECISION, "tf32", HD_PRECISION_TF32, &settings.precision},
                {HD_OPT_PRECISION, "bf16", HD_PRECISION_BF16, &settings.precision},
                {HD_OPT_OPTIMIZER, "sgd", HD_OPTIMIZER_SGD, &settings.optimizer},
                {HD_OPT_OPTIMIZER, "adam", HD_OPTIMIZER_ADAM, &settings.optimizer},
                {HD_OPT_OPTIMIZER, "adamw", HD_OPTIMIZER_ADAMW, &settings.optimizer},
                {HD_OPT_SCHEDULE, "const", HD_SCHEDULE_CONST, &settings.schedule},
                {HD_OPT_SCHEDULE, "step", HD_SCHEDULE_STEP, &settings.schedule},
                {HD_OPT_SCHEDULE, "cosine", HD_SCHEDULE_COSINE, &settings.schedule},
                {HD_OPT_SCHEDULE, "linear", HD_SCHEDULE_LINEAR, &settings.schedule},
                {HD_OPT_SCHEDULE, "onecycle", HD_SCHEDULE_ONECYCLE, &settings.schedule},
                {HD_OPT_CACHE, "ram", HD_CACHE_RAM, &settings.cache},
                {HD_OPT_CACHE, "disk", HD_CACHE_DISK, &settings.cache},
                {HD_OPT_CACHE, "none", HD_CACHE_NONE, &settings.cache}};
  for (size_t i = 0; i < sizeof choice / sizeof *choice; i++)
    ok(reads(ctx, choice[i].id, choice[i].text) && *choice[i].field == choice[i].value, "--%s %s",
       hd_option_at(choice[i].id)->name, choice[i].text);
  for (int p = 0; p < HD_PLACEMENT_POLICIES; p++) {
    const char *text = hd_choice_name(HD_OPT_PLACEMENT, p);
    ok(reads(ctx, HD_OPT_PLACEMENT, text) && settings.placement == p, "--placement %s", text);
  }
  ok(!reads(ctx, HD_OPT_SAMPLER, "balance") && !reads(ctx, HD_OPT_SAMPLER, "") &&
         !reads(ctx, HD_OPT_SAMPLER, "random|"),
     "the beginning of a choice is none, nor is an empty text or two of them");
}

static void test_values(hd_ctx *ctx) {
  hd__settings_init(&settings);
  ok(settings.batch == 64 && settings.lr == 0.001 && settings.betas[0] == 0.9 && settings.betas[1] == 0.999 &&
         !settings.nesterov && !strcmp(settings.model, "cnn") && settings.optimizer == HD_OPTIMIZER_ADAMW,
     "defaults");
  ok(settings.max_steps == 0 && settings.label_smoothing == 0 && !strcmp(settings.out, "") && settings.recipe == -1,
     "no value: 0, an empty text, -1");
  for (int i = 0; hd_option_at(i); i++)
    if (*hd_option_at(i)->fallback)
      ok(reads(ctx, (hd_option_id)i, hd_option_at(i)->fallback), "the default of --%s is one of its values",
         hd_option_at(i)->name);
  hd__settings_init(&settings);
  ok(reads(ctx, HD_OPT_BATCH, "100") && settings.batch == 100, "a whole number");
  ok(!reads(ctx, HD_OPT_BATCH, "0") && !reads(ctx, HD_OPT_BATCH, "1.5") && settings.batch == 100,
     "the field keeps its value where the next is refused");
  ok(reads(ctx, HD_OPT_SEED, "9007199254740992") && settings.seed == 9007199254740992 &&
         !reads(ctx, HD_OPT_SEED, "9007199254740993"),
     "bounds of whole numbers are exact");
  ok(reads(ctx, HD_OPT_LR, "1e-2") && settings.lr == 0.01 && !reads(ctx, HD_OPT_LR, "nan"), "a number");
  ok(reads(ctx, HD_OPT_BETAS, "0.5,0.75") && settings.betas[0] == 0.5 && settings.betas[1] == 0.75, "a pair");
  ok(!reads(ctx, HD_OPT_BETAS, "0.5,1") && !reads(ctx, HD_OPT_BETAS, "0.5") && settings.betas[1] == 0.75,
     "and what is none");
  ok(reads(ctx, HD_OPT_NESTEROV, "true") && settings.nesterov && reads(ctx, HD_OPT_NESTEROV, "false") &&
         !settings.nesterov && !reads(ctx, HD_OPT_NESTEROV, "yes"),
     "a flag");
  ok(reads(ctx, HD_OPT_THREADS, "3") && settings.thread_count == 3 && !reads(ctx, HD_OPT_THREADS, "0") &&
         settings.thread_count == 3 && reads(ctx, HD_OPT_THREADS, "auto") && settings.thread_count == 0,
     "--threads: a number, or 0 for auto");
}

/* The message of the settings in a file of these lines. */
static const char *refused(hd_ctx *ctx, const char *lines) {
  char path[] = "/tmp/heddle-settings.XXXXXX";
  hd_config *config;
  const int fd = mkstemp(path);
  if (fd < 0 || write(fd, lines, strlen(lines)) != (ssize_t)strlen(lines) || close(fd) != 0)
    return "no file";
  hd_status status = hd_config_create(&config, ctx);
  if (status == HD_OK)
    status = hd_config_load(config, ctx, path);
  if (status == HD_OK)
    status = hd__config_complete(config, ctx);
  hd_config_destroy(config);
  unlink(path);
  return status == HD_E_USAGE ? hd_ctx_message(ctx) : "not refused";
}

static void test_origin(hd_ctx *ctx) {
  const char *message = refused(ctx, "lr: 0.1\ngamma: 0.5\n");
  ok(strstr(message, ":2: --gamma expects --schedule step, found const"), "%s", message);
  message = refused(ctx, "lr: 0.1\n\noptimizer: adam\nmomentum: 0.5\n");
  ok(strstr(message, ":4: --momentum expects --optimizer sgd"), "%s", message);
  message = refused(ctx, "shards: 3\n");
  ok(strstr(message, ":1: --shards expects a power of two"), "%s", message);
}

static void test_copy(hd_ctx *ctx) {
  hd_config *config, *copy = NULL;
  hd_status status = hd_config_create(&config, ctx);
  status = status == HD_OK ? hd_config_set(config, ctx, "model", "mlp") : status;
  status = status == HD_OK ? hd_config_set(config, ctx, "epochs", "7") : status;
  status = status == HD_OK ? hd__config_copy(&copy, ctx, config) : status;
  hd_config_destroy(config);
  ok(status == HD_OK && !strcmp(hd__settings(copy)->model, "mlp") && hd__settings(copy)->epochs == 7 &&
         hd__config_given(copy, HD_OPT_EPOCHS) && !hd__config_given(copy, HD_OPT_LR),
     "a copy has values of its own");
  hd_config_destroy(copy);
}

/* Values by the number of an option, and back. */
static void test_numbers(hd_ctx *ctx) {
  hd_config *c;
  if (hd_config_create(&c, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  ok(hd_config_get_int(c, HD_OPT_BATCH) == 64 && hd_config_get_real(c, HD_OPT_LR) == 0.001 &&
         hd_config_get_int(c, HD_OPT_THREADS) == 0 && hd_config_get_int(c, HD_OPT_RECIPE) == -1,
     "defaults as numbers: threads auto is 0, no choice -1");
  ok(hd_config_set_int(c, ctx, HD_OPT_THREADS, 4) == HD_OK && hd_config_get_int(c, HD_OPT_THREADS) == 4 &&
         !strcmp(hd_config_get(c, "threads"), "4"),
     "a number of threads, and its text");
  ok(hd_config_set_int(c, ctx, HD_OPT_OPTIMIZER, HD_OPTIMIZER_SGD) == HD_OK &&
         !strcmp(hd_config_get(c, "optimizer"), "sgd") && hd_config_get_int(c, HD_OPT_OPTIMIZER) == HD_OPTIMIZER_SGD,
     "a choice");
  ok(hd_config_set_int(c, ctx, HD_OPT_NESTEROV, 1) == HD_OK && hd_config_get_int(c, HD_OPT_NESTEROV) == 1, "a flag");
  ok(hd_config_set_text(c, ctx, HD_OPT_BETAS, "0.5,0.75") == HD_OK && hd__settings(c)->betas[1] == 0.75, "a text");
  static const double lr[] = {0.1, 1e-8, 0, 1.0 / 3, 0.30000000000000004, 1e6, 5e-324};
  static const char *const text[] = {"0.1",   "1e-08", "0", "0.3333333333333333", "0.30000000000000004",
                                     "1e+06", "5e-324"};
  for (size_t i = 0; i < sizeof lr / sizeof *lr; i++)
    ok(hd_config_set_real(c, ctx, HD_OPT_LR, lr[i]) == HD_OK && hd_config_get_real(c, HD_OPT_LR) == lr[i] &&
           !strcmp(hd_config_get(c, "lr"), text[i]),
       "a number keeps its bits in the shortest text, %s: %s", text[i], hd_config_get(c, "lr"));
  const hd_option *threads = hd_option_at(HD_OPT_THREADS);
  ok(threads->min == 1 && threads->max == HD_MAX_THREADS &&
         hd_config_set_int(c, ctx, HD_OPT_THREADS, (int64_t)threads->max + 1) == HD_E_USAGE &&
         hd_config_set_int(c, ctx, HD_OPT_THREADS, 0) == HD_E_USAGE && hd_config_get_int(c, HD_OPT_THREADS) == 4,
     "bounds are known and kept: %s", hd_ctx_message(ctx));
  ok(hd_config_set_real(c, ctx, HD_OPT_LR, NAN) == HD_E_USAGE && strstr(hd_ctx_message(ctx), "found 'nan'"), "%s",
     hd_ctx_message(ctx));
  ok(hd_config_set_int(c, ctx, HD_OPT_LR, 1) == HD_E_USAGE &&
         hd_config_set_real(c, ctx, HD_OPT_BATCH, 1) == HD_E_USAGE &&
         hd_config_set_int(c, ctx, HD_OPT_DATA, 1) == HD_E_USAGE,
     "a value of another type is refused: %s", hd_ctx_message(ctx));
  ok(hd_config_set_int(c, ctx, HD_OPT_CACHE, 3) == HD_E_USAGE &&
         hd_config_set_int(c, ctx, HD_OPT_PIN_MEMORY, 2) != HD_OK &&
         hd_config_set_int(c, ctx, (hd_option_id)HD_OPTION_COUNT, 1) == HD_E_USAGE,
     "a value that is no choice, no flag, no option: %s", hd_ctx_message(ctx));
  ok(!strcmp(hd_choice_name(HD_OPT_CACHE, HD_CACHE_DISK), "disk") && !*hd_choice_name(HD_OPT_CACHE, 3) &&
         !*hd_choice_name(HD_OPT_LR, 0) && !*hd_choice_name(HD_OPT_RECIPE, -1),
     "names of choices");
  hd_config_destroy(c);
}

/* Numbers of options and of their choices are generated: each stands in the row and at the place of its name. */
static void test_generated(void) {
  static const char *const name[] = {[HD_OPT_MODEL] = "model",
                                     [HD_OPT_EVAL_TRANSFORMS] = "eval-transforms",
                                     [HD_OPT_THREADS] = "threads",
                                     [HD_OPT_JSON] = "json",
                                     [HD_OPT_ACCEPT_ARITHMETIC] = "accept-arithmetic",
                                     [HD_OPT_TENSORBOARD] = "tensorboard",
                                     [HD_OPT_METRIC] = "metric",
                                     [HD_OPT_FRESH] = "fresh",
                                     [HD_OPT_NS_STEPS] = "ns-steps",
                                     [HD_OPT_LOOKAHEAD_POWER] = "lookahead-power",
                                     [HD_OPT_TTA] = "tta",
                                     [HD_OPT_EVAL_EPOCHS] = "eval-epochs",
                                     [HD_OPT_ALLOW_EMPTY] = "allow-empty",
                                     [HD_OPT_LOSS] = "loss",
                                     [HD_OPT_TARGET_SCALE] = "target-scale",
                                     [HD_OPT_ALPHA] = "alpha",
                                     [HD_OPT_DECOUPLED_WEIGHT_DECAY] = "decoupled-weight-decay",
                                     [HD_OPT_WEIGHTS] = "weights",
                                     [HD_OPT_SAVE_EPOCHS] = "save-epochs",
                                     [HD_OPT_SAMPLE_EVERY] = "sample-every",
                                     [HD_OPT_CLASS_WEIGHT] = "class-weight",
                                     [HD_OPT_HEAD] = "head",
                                     [HD_OPT_FREEZE] = "freeze",
                                     [HD_OPT_KEEP_FEATURES] = "keep-features",
                                     [HD_OPT_KEEP_VIEWS] = "keep-views",
                                     [HD_OPT_UNFREEZE] = "unfreeze",
                                     [HD_OPT_LR_SCALE] = "lr-scale"};
  for (int i = 0; i < HD_OPTION_COUNT; i++)
    ok(!name[i] || !strcmp(name[i], hd_option_at(i)->name), "option %d is %s", i, hd_option_at(i)->name);
  ok(HD_OPT_LR_SCALE + 1 == HD_OPTION_COUNT && !hd_option_at(HD_OPTION_COUNT) && !hd_option_at(-1),
     "no option is left");
  ok(!strcmp(hd_choice_name(HD_OPT_RECIPE, HD_RECIPE_MNIST_99), "mnist-99") &&
         !strcmp(hd_choice_name(HD_OPT_TTA, HD_TTA_MIRROR_TRANSLATE), "mirror+translate"),
     "choices with a dash and a plus");
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", HD_VERSION_MAJOR, HD_VERSION_MINOR, HD_VERSION_PATCH);
  const size_t digits = strlen(version);
  ok(!strncmp(version, hd_version(), digits) && (!hd_version()[digits] || hd_version()[digits] == '-'),
     "the version in numbers");
  ok(hd_version_number() == HD_VERSION_NUMBER && HD_VERSION_AT(1, 2, 3) > HD_VERSION_AT(1, 1, 999), "which compare");
}

int main(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  test_values(ctx);
  test_choices(ctx);
  test_origin(ctx);
  test_copy(ctx);
  test_numbers(ctx);
  test_generated();
  hd_ctx_destroy(ctx);
  return done_testing();
}
