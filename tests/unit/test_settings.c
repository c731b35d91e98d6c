/* Settings: every row of options.def has the value of its text in its field, choices have the constants that code
 * compares with, values outside of their bounds leave the field as it was, and a check that concerns several options
 * names the file and line that gave one of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/formats/data_request.h"
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
  } choice[] = {{HD_OPT_sampler, "random", HD_SAMPLER_RANDOM, &settings.sampler},
                {HD_OPT_sampler, "sequential", HD_SAMPLER_SEQUENTIAL, &settings.sampler},
                {HD_OPT_sampler, "balanced", HD_SAMPLER_BALANCED, &settings.sampler},
                {HD_OPT_on_error, "stop", HD_ON_ERROR_STOP, &settings.on_error},
                {HD_OPT_on_error, "skip", HD_ON_ERROR_SKIP, &settings.on_error},
                {HD_OPT_arithmetic, "portable", HD_ARITHMETIC_PORTABLE, &settings.arithmetic},
                {HD_OPT_arithmetic, "native", HD_ARITHMETIC_NATIVE, &settings.arithmetic},
                {HD_OPT_precision, "f32", HD_PRECISION_F32, &settings.precision},
                {HD_OPT_precision, "tf32", HD_PRECISION_TF32, &settings.precision},
                {HD_OPT_precision, "bf16", HD_PRECISION_BF16, &settings.precision},
                {HD_OPT_optimizer, "sgd", HD_OPTIMIZER_SGD, &settings.optimizer},
                {HD_OPT_optimizer, "adam", HD_OPTIMIZER_ADAM, &settings.optimizer},
                {HD_OPT_optimizer, "adamw", HD_OPTIMIZER_ADAMW, &settings.optimizer},
                {HD_OPT_schedule, "const", HD_SCHEDULE_CONST, &settings.schedule},
                {HD_OPT_schedule, "step", HD_SCHEDULE_STEP, &settings.schedule},
                {HD_OPT_schedule, "cosine", HD_SCHEDULE_COSINE, &settings.schedule},
                {HD_OPT_schedule, "linear", HD_SCHEDULE_LINEAR, &settings.schedule},
                {HD_OPT_schedule, "onecycle", HD_SCHEDULE_ONECYCLE, &settings.schedule},
                {HD_OPT_cache, "ram", HD_CACHE_RAM, &settings.cache},
                {HD_OPT_cache, "disk", HD_CACHE_DISK, &settings.cache},
                {HD_OPT_cache, "none", HD_CACHE_NONE, &settings.cache}};
  for (size_t i = 0; i < sizeof choice / sizeof *choice; i++)
    ok(reads(ctx, choice[i].id, choice[i].text) && *choice[i].field == choice[i].value, "--%s %s",
       hd_option_at(choice[i].id)->name, choice[i].text);
  for (int p = 0; p < HD_PLACEMENT_POLICIES; p++) {
    const char *text = hd_placement_policy_text((hd_placement_policy)p);
    ok(reads(ctx, HD_OPT_placement, text) && settings.placement == p, "--placement %s", text);
  }
  ok(!reads(ctx, HD_OPT_sampler, "balance") && !reads(ctx, HD_OPT_sampler, "") &&
         !reads(ctx, HD_OPT_sampler, "random|"),
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
  ok(reads(ctx, HD_OPT_batch, "100") && settings.batch == 100, "a whole number");
  ok(!reads(ctx, HD_OPT_batch, "0") && !reads(ctx, HD_OPT_batch, "1.5") && settings.batch == 100,
     "the field keeps its value where the next is refused");
  ok(reads(ctx, HD_OPT_seed, "9007199254740992") && settings.seed == 9007199254740992 &&
         !reads(ctx, HD_OPT_seed, "9007199254740993"),
     "bounds of whole numbers are exact");
  ok(reads(ctx, HD_OPT_lr, "1e-2") && settings.lr == 0.01 && !reads(ctx, HD_OPT_lr, "nan"), "a number");
  ok(reads(ctx, HD_OPT_betas, "0.5,0.75") && settings.betas[0] == 0.5 && settings.betas[1] == 0.75, "a pair");
  ok(!reads(ctx, HD_OPT_betas, "0.5,1") && !reads(ctx, HD_OPT_betas, "0.5") && settings.betas[1] == 0.75,
     "and what is none");
  ok(reads(ctx, HD_OPT_nesterov, "true") && settings.nesterov && reads(ctx, HD_OPT_nesterov, "false") &&
         !settings.nesterov && !reads(ctx, HD_OPT_nesterov, "yes"),
     "a flag");
  ok(reads(ctx, HD_OPT_threads, "3") && settings.thread_count == 3 && !reads(ctx, HD_OPT_threads, "0") &&
         settings.thread_count == 3 && reads(ctx, HD_OPT_threads, "auto") && settings.thread_count == 0,
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
  ok(strstr(message, ":2: --step-size and --gamma expect --schedule step"), "%s", message);
  message = refused(ctx, "lr: 0.1\n\noptimizer: adam\nmomentum: 0.5\n");
  ok(strstr(message, ":4: --momentum and --nesterov expect"), "%s", message);
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
         hd__config_given(copy, HD_OPT_epochs) && !hd__config_given(copy, HD_OPT_lr),
     "a copy has values of its own");
  hd_config_destroy(copy);
}

int main(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  test_values(ctx);
  test_choices(ctx);
  test_origin(ctx);
  test_copy(ctx);
  hd_ctx_destroy(ctx);
  return done_testing();
}
