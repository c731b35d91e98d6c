/* Planted faults: one element of one result of one step of a run is one unit in the last place off, and hd_bisect must
 * name the step, what computed it and the element, in at most log2(steps) + 3 replays. Equal runs have no difference.
 *
 * `make check` plants some, `make check-long` a hundred. */
#include "scratch.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/philox.h"
#include "heddle.h"
#include "heddle/evidence.h"

enum { STEPS = 12, SOME = 20, ALL = 100, NETWORKS = 4 };

static const struct {
  const char *model;
  const char *settings[6];
} network[NETWORKS] = {
    {"model: pooled\ninput: [1, 12, 12]\nlayers:\n  - conv: {op: conv2d, out: 8, kernel: 3}\n  - relu: {op: relu}\n"
     "  - pool: {op: max_pool2d, kernel: 2}\n  - flat: {op: flatten}\n  - fc1: {op: linear, out: 64}\n"
     "  - act: {op: relu}\n  - fc2: {op: linear, out: 10}\n",
     {"optimizer", "adam"}},
    {"model: normed\ninput: [1, 12, 12]\nlayers:\n  - conv: {op: conv2d, out: 16, kernel: 3, padding: 1}\n"
     "  - norm: {op: batch_norm}\n  - relu: {op: relu}\n  - tiles: {op: conv2d, out: 16, kernel: 3, padding: 1}\n"
     "  - sum: {op: add, from: [relu, tiles]}\n  - mean: {op: global_avg_pool2d}\n  - flat: {op: flatten}\n"
     "  - fc: {op: linear, out: 10}\n",
     {"optimizer", "sgd", "momentum", "0.9", "clip-grad-norm", "1"}},
    {"model: layered\ninput: [1, 12, 12]\nlayers:\n  - flat: {op: flatten}\n  - fc1: {op: linear, out: 40}\n"
     "  - norm: {op: layer_norm}\n  - gelu: {op: gelu}\n  - drop: {op: dropout}\n  - fc2: {op: linear, out: 10}\n",
     {"optimizer", "adamw"}},
    {"model: grouped\ninput: [1, 12, 12]\nlayers:\n  - conv: {op: conv2d, out: 24, kernel: 5, stride: 2}\n"
     "  - norm: {op: group_norm, groups: 4}\n  - act: {op: leaky_relu}\n  - pool: {op: avg_pool2d, kernel: 2}\n"
     "  - flat: {op: flatten}\n  - fc: {op: linear, out: 10}\n",
     {"optimizer", "sgd", "weight-decay", "0.01"}}};

static hd_ctx *ctx;
static int64_t drawn;

static int64_t draw(int64_t below) {
  uint32_t word[4];
  hd__rng_block(word, 11, HD_RNG_TEST, 0, 0, 0, (uint32_t)drawn++);
  return (int64_t)(((uint64_t)word[0] * (uint64_t)below) >> 32);
}

static void train(int n, const char *out, const char *option, const char *value) {
  const char *const settings[] = {
      "model", network[n].model, "data", "random:1x12x12", "batch", "16",  "max-steps",          "12", "save-every",
      "4",     "keep",           "99",   "threads",        "1",     "out", in_scratch("%s", out)};
  hd_config *config;
  hd_session *session;
  hd_config_create(&config, ctx);
  hd_status status = HD_OK;
  for (size_t i = 0; i < sizeof settings / sizeof *settings && status == HD_OK; i += 2)
    status = hd_config_set(config, ctx, settings[i], settings[i + 1]);
  for (int i = 0; i < 6 && network[n].settings[i] && status == HD_OK; i += 2)
    status = hd_config_set(config, ctx, network[n].settings[i], network[n].settings[i + 1]);
  if (option && status == HD_OK)
    status = hd_config_set(config, ctx, option, value);
  if (status != HD_OK || hd_session_create(&session, ctx, config) != HD_OK ||
      hd_session_train(session, ctx, NULL, NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
}

static hd_bisection bisect(const char *a, const char *b, hd_fault_place fault) {
  hd_bisection found = {.struct_bytes = sizeof found};
  char of_a[SCRATCH_PATH_BYTES], of_b[SCRATCH_PATH_BYTES];
  snprintf(of_a, sizeof of_a, "%s", in_scratch("%s", a));
  snprintf(of_b, sizeof of_b, "%s", in_scratch("%s", b ? b : ""));
  const hd_bisect_request request = {.struct_bytes = sizeof request, .a = of_a, .b = b ? of_b : NULL, .fault = fault};
  hd_config *config;
  hd_config_create(&config, ctx);
  if (hd_bisect(&found, ctx, config, &request) != HD_OK && fault.result != INT64_MAX)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_destroy(config);
  return found;
}

static const char *in_name(int n) {
  static const char *const name[NETWORKS] = {"pooled", "normed", "layered", "grouped"};
  return name[n];
}

static bool plant_one(int n, int64_t results) {
  const hd_fault_place fault = {1 + draw(STEPS), draw(results), draw(1 << 30)};
  char found[512];
  const hd_bisection f = bisect(in_name(n), NULL, fault);
  snprintf(found, sizeof found, "%s %s", f.what, f.index);
  const bool right = f.verdict == HD_RUNS_DIFFER && f.step == fault.step && !strcmp(found, f.planted) && f.ulps == 1 &&
                     f.replays <= 3 + 3;
  if (!right)
    diag("network %d, step %lld, result %lld: planted %s, found step %lld, %s: %s", n, (long long)fault.step,
         (long long)fault.result, f.planted, (long long)f.step, found, f.why);
  return right;
}

int main(void) {
  const int count = check_depth() > 2 ? ALL : SOME;
  int64_t results[NETWORKS];
  int right = 0;
  hd_ctx_create(&ctx);
  for (int n = 0; n < NETWORKS; n++) {
    train(n, in_name(n), NULL, NULL);
    train(n, "again", NULL, NULL);
    const hd_bisection f = bisect(in_name(n), "again", (hd_fault_place){0});
    is_int(f.verdict, HD_RUNS_EQUAL, "network %d: equal runs are equal: %s", n, f.why);
    scratch_remove(in_scratch("again"));
    is_int(bisect(in_name(n), NULL, (hd_fault_place){1, INT64_MAX, -1}).results, 0, "no element is before the first");
    results[n] = bisect(in_name(n), NULL, (hd_fault_place){1, INT64_MAX, 0}).results;
    ok(results[n] > 10, "a step has %lld results", (long long)results[n]);
  }
  for (int i = 0; i < count; i++)
    right += plant_one(i % NETWORKS, results[i % NETWORKS]);
  is_int(right, count, "of %d planted faults all are found at their step, node and element", count);
  hd_ctx_destroy(ctx);
  return done_testing();
}
