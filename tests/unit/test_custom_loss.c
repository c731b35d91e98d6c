/* A loss of the program trains to one digest on any number of threads, and to the losses of mse where it computes that;
 * a wrong gradient, numbers that are not finite and failures end the run with a line; a metric is in the report. */
#include "scratch.h"

#include <math.h>

#include "heddle.h"

static const char *data;
static int runs;

typedef struct outcome {
  hd_status status;
  char digest[HD_SHA256_TEXT_BYTES], message[1024];
  double test_loss, metric;
} outcome;

static const char yaml[] = "model: small\ninput: [1, 28, 28]\n"
                           "layers: [flat: {op: flatten}, fc: {op: linear, out: 10}]\nloss: %s\n";

/* What the loss of the test does. */
typedef struct trick {
  double factor; /* of the gradient */
  int fails_at, calls;
  int not_finite;
  double offset; /* of each loss */
} trick;

static double exponentials(double *p, const float *y, int32_t width) {
  double sum = 0, most = (double)y[0];
  for (int32_t k = 1; k < width; k++)
    most = fmax(most, (double)y[k]);
  for (int32_t k = 0; k < width; k++)
    sum += p[k] = exp((double)y[k] - most);
  return sum;
}

/* cross_entropy */
static int entropy(const hd_custom_loss_call *c, char why[HD_CUSTOM_WHY_BYTES]) {
  trick *t = c->user;
  double p[10];
  if (++t->calls == t->fails_at) {
    snprintf(why, HD_CUSTOM_WHY_BYTES, "call %d", t->calls);
    return 1;
  }
  for (int64_t n = 0; n < c->samples; n++) {
    const double sum = exponentials(p, c->outputs + n * c->width, c->width);
    c->loss[n] = t->not_finite ? NAN : t->offset - log(p[c->labels[n]] / sum);
    for (int32_t k = 0; c->gradient && k < c->width; k++)
      c->gradient[n * c->width + k] = (float)(t->factor * (p[k] / sum - (k == c->labels[n])));
  }
  return 0;
}

static int count_samples(const hd_custom_loss_call *c, char why[HD_CUSTOM_WHY_BYTES]) {
  (void)why;
  *c->loss = (double)c->samples;
  return 0;
}

static outcome train(hd_ctx *ctx, trick *t, const char *threads) {
  outcome result = {HD_OK, "", "", 0, 0};
  hd_config *config;
  hd_session *session = NULL;
  char out[SCRATCH_PATH_BYTES], model[sizeof yaml + 32];
  snprintf(out, sizeof out, "%s/loss-%d", scratch(), runs++);
  snprintf(model, sizeof model, yaml, "cross_entropy");
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("no configuration");
  const hd_custom_loss loss = {.struct_bytes = sizeof loss, .name = "entropy", .loss = entropy, .user = t};
  const hd_custom_loss metric = {.struct_bytes = sizeof metric, .name = "samples", .loss = count_samples};
  const char *const pair[] = {"data",  data,    "out", out,      "model", model, "threads",
                              threads, "batch", "16",  "epochs", "2",     NULL};
  for (const char *const *p = pair; *p && result.status == HD_OK; p += 2)
    result.status = hd_config_set(config, ctx, p[0], p[1]);
  if (t && result.status == HD_OK)
    result.status = hd_config_set_loss(config, ctx, &loss);
  if (result.status == HD_OK)
    result.status = hd_config_set_metric(config, ctx, &metric);
  if (result.status == HD_OK)
    result.status = hd_session_create(&session, ctx, config);
  if (result.status == HD_OK)
    result.status = hd_session_train(session, ctx, NULL, NULL);
  if (result.status == HD_OK) {
    const hd_report *r = hd_session_report(session);
    memcpy(result.digest, r->weights_sha256, sizeof result.digest);
    result.test_loss = r->test_loss;
    result.metric = r->test_metric;
  } else {
    snprintf(result.message, sizeof result.message, "%.1023s", hd_ctx_message(ctx));
  }
  hd_session_destroy(session);
  hd_config_destroy(config);
  return result;
}

static void test_layouts(hd_ctx *ctx) {
  const outcome plain = train(ctx, NULL, "1"), one = train(ctx, &(trick){.factor = 1}, "1");
  is_int(one.status, HD_OK, "a loss of the program trains");
  if (one.status != HD_OK)
    diag("%s", one.message);
  is_str(train(ctx, &(trick){.factor = 1}, "2").digest, one.digest, "to the same digest on two threads");
  is_str(train(ctx, &(trick){.factor = 1}, "5").digest, one.digest, "and on five");
  ok(fabs(one.test_loss - plain.test_loss) < 1e-4 * plain.test_loss, "and to the loss of cross_entropy: %g, %g",
     one.test_loss, plain.test_loss);
  const outcome more = train(ctx, &(trick){.factor = 1, .offset = 3}, "2");
  ok(fabs(more.test_loss - one.test_loss - 3) < 1e-4, "the function's losses are those of the evaluation");
  ok(one.metric == 40 && plain.metric == 40, "a metric is called with all samples: %g", one.metric);
}

static void is_refused(hd_ctx *ctx, trick *t, hd_status status, const char *says) {
  const outcome found = train(ctx, t, "2");
  is_int(found.status, status, "%s", says);
  ok(strstr(found.message, says) != NULL, "it says so: %s", found.message);
}

static void test_refused(hd_ctx *ctx) {
  hd_config *config;
  is_refused(ctx, &(trick){.factor = 2}, HD_E_USAGE, "as the gradient of sample 0 by its output");
  is_refused(ctx, &(trick){.factor = -1}, HD_E_USAGE, "differences of its losses");
  is_refused(ctx, &(trick){.factor = 1.0 / 16}, HD_E_USAGE, "not of a mean");
  is_refused(ctx, &(trick){.factor = 1, .not_finite = 1}, HD_E_NOTFINITE, "expected a finite number for each sample");
  is_refused(ctx, &(trick){.factor = 1, .fails_at = 1}, HD_E_USAGE, "the loss 'entropy' failed: call 1");
  is_refused(ctx, &(trick){.factor = 1, .fails_at = 30}, HD_E_USAGE, "the loss 'entropy' failed: call 30");
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("no configuration");
  const hd_custom_loss unnamed = {.struct_bytes = sizeof unnamed, .name = "a b", .loss = entropy};
  is_int(hd_config_set_loss(config, ctx, &unnamed), HD_E_USAGE, "a name with a space is refused");
  const hd_custom_loss empty = {.struct_bytes = sizeof empty, .name = "a"};
  is_int(hd_config_set_metric(config, ctx, &empty), HD_E_USAGE, "so is a metric without a function");
  is_int(hd_config_set_loss(config, ctx, NULL), HD_OK, "NULL removes a loss");
  hd_config_destroy(config);
}

int main(void) {
  const char *build = getenv("BUILDDIR");
  char command[2 * SCRATCH_PATH_BYTES];
  hd_ctx *ctx;
  data = strdup(in_scratch("data"));
  snprintf(command, sizeof command, "mkdir '%s' && '%s/tests/bits/make_idx' '%s' 120 40", data, build ? build : ".",
           data);
  if (system(command) != 0 || hd_ctx_create(&ctx) != HD_OK)
    bail_out("no data set");
  test_layouts(ctx);
  test_refused(ctx);
  hd_ctx_destroy(ctx);
  free((void *)data);
  return done_testing();
}
