/* What benches rest on: limits that every instruction set computes alike, bounds, executed shares, a probe that
 * sees every call and changes no bit, and rows that show a whole step where a step is longer than a turn. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "heddle.h"
#include "heddle/tools.h"
#include "tools/bench/machine_limits.h"
#include "tools/bench/kernel_probe.h"
#include "op/op.h"
#include "tap.h"
#include "train/run/rehearsal.h"
#include "train/run/session.h"

enum { STEPS = 3, MOST = 200 };

static void test_limits(void) {
  static const char *const isas[] = {"reference", "scalar", "avx2", "avx512", "neon"};
  static _Alignas(64) float a[MOST], b[MOST], c[MOST], want[MOST];
  for (int i = 0; i < MOST; i++) {
    b[i] = (float)(i % 17) / 7;
    c[i] = (float)(i % 5) - 1.3f;
  }
  for (size_t t = 0; t < sizeof isas / sizeof *isas; t++) {
    const hd_kernels *k = hd__kernels_of(isas[t]);
    if (!k)
      continue;
    int same = 1;
    for (int64_t count = 0; count <= MOST - 16; count += 29) {
      memset(a, 0, sizeof a);
      memset(want, 0, sizeof want);
      k->triad(a, b, c, 0.3f, count);
      hd__kernels_reference()->triad(want, b, c, 0.3f, count);
      same &= !memcmp(a, want, sizeof a);
    }
    ok(same, "%s: triads of any length, and nothing behind them", isas[t]);
    float sink = 0.5f;
    int64_t one = k->chains(&sink, 1), many = k->chains(&sink, 1000);
    ok(one > 0 && many == 1000 * one && isfinite(sink), "%s: chains count %lld FLOPs a round", isas[t], (long long)one);
  }
}

static int close_to(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

static void test_bounds(void) {
  const hd_bench_machine m = {
      .peak_gflops = 100, .levels = 2, .level = {{HD_L1D, 1000, 50, 50}, {HD_MAIN_MEMORY, 100000, 10, 10}}};
  int32_t level;
  ok(close_to(hd__bench_least_s(&level, &m, 1000, 100, 100), 1e-9 * 10) && level == -1, "much to compute: FMA");
  ok(close_to(hd__bench_least_s(&level, &m, 10, 500, 1000), 1e-9 * 10) && level == 0,
     "little to compute: the first level");
  ok(close_to(hd__bench_least_s(&level, &m, 10, 500, 1001), 1e-9 * 50) && level == 1,
     "more bytes than fit: the next one");
  ok(close_to(hd__bench_least_s(&level, &m, 0, 10, 1e9), 1e-9) && level == 1, "more than fits anywhere: the last one");
}

enum { BF16 = 2 }; /* instead of a live share */
static double share(hd_op op, hd_geom g, double live) {
  hd__geom_finish(&g);
  return hd__bench_executed_share(op, &g, live, live == BF16);
}

static void test_shares(void) {
  const hd_geom pooled = {.ci = 1,
                          .hi = 13,
                          .wi = 13,
                          .co = 8,
                          .window = {.kh = 3, .kw = 3, .sh = 1, .sw = 1},
                          .conv = {.pool = 2, .groups = 1}};
  hd_geom plain = pooled, wide = pooled;
  plain.conv.pool = 1;
  wide.ci = wide.co = 32;
  ok(fabs(share(HD_OP_conv2d, pooled, 1) - 100.0 / 121) < 1e-12, "a pool reads 10 x 10 of 11 x 11 outputs");
  ok(fabs(share(HD_OP_conv2d_dw, pooled, 0.5) - 12.5 / 121) < 1e-12, "half of 5 x 5 gradients behind it are not zero");
  ok(share(HD_OP_conv2d, plain, 1) == 1 && share(HD_OP_conv2d_dx, plain, 0.5) == 1, "without a pool all is executed");
  ok(fabs(share(HD_OP_conv2d, wide, 1) - 17 * 17 / (121 * 9.0)) < 1e-12,
     "3 x 3 tiles of Winograd's, 6 x 6 products each, 5 where an edge cuts them");
  ok(fabs(share(HD_OP_conv2d_dx, wide, BF16) - 100.0 / 121) < 1e-12, "bfloat16 has neither tiles nor live lists");
  wide.conv.pool = 1, wide.hp = wide.wp = 11;
  ok(fabs(share(HD_OP_conv2d_dx, wide, 1) - 23 * 23 / (121 * 9.0)) < 1e-12, "and 4 x 4 over the input");
  wide.ci = 4, wide.conv.pool = 1, wide.window.ph = wide.window.pw = 1;
  ok(share(HD_OP_conv2d, wide, 1) == 1 && fabs(share(HD_OP_conv2d_dw, wide, 1) - pow(37.0 / 39, 2)) < 1e-12,
     "gradients leave out the padding: 37 of 39 taps across");
  ok(share(HD_OP_shifted_linear, pooled, 0.5) == 0.5, "half of the products with samples are not zero");
  ok(share(HD_OP_linear, pooled, 0.5) == 1, "and of anything else all");
}

static void must(hd_status status, hd_ctx *ctx) {
  if (status != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
}

static hd_session *open_session(hd_ctx *ctx) {
  static const char *const settings[][2] = {
      {"model", "cnn"}, {"data", "random:1x28x28"}, {"batch", "16"}, {"threads", "1"}, {"accumulate", "2"}};
  hd_config *config;
  hd_session *s;
  must(hd_config_create(&config, ctx), ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    must(hd_config_set(config, ctx, settings[i][0], settings[i][1]), ctx);
  must(hd__session_create(&s, ctx, config, &(hd_session_use){.rehearses = true, .lock = -1}), ctx);
  hd_config_destroy(config);
  hd__feed_shuffle(&s->input.train, 0, 0);
  return s;
}

static void steps_to(char digest[65], hd_session *s, hd_ctx *ctx, hd_probe *probe) {
  hd_rehearsal *rehearsal;
  hd_threads *threads;
  must(hd__threads_open(&threads, ctx, &(hd_placement_request){.threads = 1}), ctx);
  must(hd__rehearsal_create(&rehearsal, ctx, s, threads, 0), ctx);
  if (probe) {
    s->input.train.kernels = &probe->table;
    hd__plan_set_kernels(s->compute.plan, &probe->table);
    hd__probe_enter(probe);
  }
  must(hd__rehearsal_steps(rehearsal, ctx, STEPS), ctx);
  hd__probe_leave();
  s->input.train.kernels = s->compute.kernels;
  hd__plan_set_kernels(s->compute.plan, s->compute.kernels);
  must(hd__rehearsal_digest(digest, rehearsal, ctx), ctx);
  hd__rehearsal_destroy(rehearsal);
}

static void test_probe(void) {
  char plain[65], probed[65];
  hd_ctx *ctx;
  hd_probe probe;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  hd_session *s = open_session(ctx);
  const hd_graph *graph = s->compute.plan->graph;
  steps_to(plain, s, ctx, NULL);
  must(hd__probe_init(&probe, ctx, s->compute.plan), ctx);
  probe.counting = true;
  steps_to(probed, s, ctx, &probe);
  ok(!strcmp(plain, probed), "a probe changes no bit: %.12s", probed);
  int seen = 1, rows = 1, live = 1;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_probe_sum *sum = &probe.node[i];
    hd_op op = graph->nodes[i].op;
    bool formed = hd__op_info(op)->class == HD_CLASS_REDUCE && s->compute.kernels->form[op];
    if (graph->nodes[i].view)
      continue;
    seen &= sum->calls >= 2 * STEPS && sum->s >= 0;
    rows &= formed || sum->rows == 16 * STEPS;
    if (op == HD_OP_conv2d_dx || op == HD_OP_conv2d_dw)
      live &= sum->live_rows > 0 && sum->live_rows < 0.8 * sum->rows;
  }
  ok(seen, "every operation is seen in both parts of every step");
  ok(rows, "with all of its rows");
  ok(live, "gradients behind pools are partly zero");
  ok(probe.updates.bytes == STEPS * 7.0 * sizeof(float) * 225034, "the update reads and writes every parameter");
  ok(probe.gathers.bytes == STEPS * 16.0 * 784 * 5, "and every pixel is gathered");
  hd__probe_restart(&probe);
  ok(probe.updates.calls == 0 && probe.node[0].calls == 0 && probe.node[0].rows > 0,
     "times are forgotten, counts kept");
  hd__probe_fini(&probe);
  hd_session_destroy(s);
  hd_ctx_destroy(ctx);
}

enum { WHOLE = 5000, PER_NAP = 100 }; /* random: has 8,192 samples, so an epoch ends with a shorter batch */
static const double NAP_S = 0.006;
static atomic_llong trained;

/* Sleeps once for PER_NAP samples: a step is slow, whatever the machine. */
static void slow_forward(const hd_custom_call *c) {
  if (atomic_fetch_add(&trained, 1) % PER_NAP == 0)
    nanosleep(&(struct timespec){.tv_nsec = (long)(NAP_S * 1e9)}, NULL);
  c->y[0] = c->x[0][0];
}

static void slow_backward(const hd_custom_call *c) { c->dx[0][0] = c->dy[0]; }

static hd_bench_step_result *bench_slow_step(hd_ctx *ctx) {
  static const hd_custom_op slow = {sizeof slow, "slow", 1, NULL, slow_forward, slow_backward, 1, NULL};
  hd_bench_step_result *r;
  hd_config *config;
  hd_model *model;
  must(hd_custom_op_add(ctx, &slow), ctx);
  must(hd_model_create(&model, ctx, "slow", 1, 1, 1), ctx);
  must(hd_model_add(model, ctx, "wait", "op: slow"), ctx);
  must(hd_model_add(model, ctx, "flat", "op: flatten"), ctx);
  must(hd_model_add(model, ctx, "fc", "op: linear, out: 10"), ctx);
  const char *const settings[][2] = {
      {"model", hd_model_text(model)}, {"data", "random:1x1x1"}, {"batch", "5000"}, {"threads", "1"}};
  must(hd_config_create(&config, ctx), ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    must(hd_config_set(config, ctx, settings[i][0], settings[i][1]), ctx);
  must(hd_bench_step(&r, ctx, config, 0.1), ctx);
  hd_config_destroy(config);
  hd_model_destroy(model);
  return r;
}

static void test_slow_step(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  hd_bench_step_result *r = bench_slow_step(ctx);
  const double naps_s = NAP_S * WHOLE / PER_NAP;
  double sum = 0;
  for (int i = 0; i < r->op_count; i++)
    sum += r->ops[i].s;
  ok(trained % WHOLE == 0, "%lld samples: no step is shorter than the batch", (long long)trained);
  ok(!strcmp(r->ops[0].name, "wait") && r->ops[0].s > 0.99 * naps_s, "a row has the time of a whole step: %g of %g s",
     r->ops[0].s, naps_s);
  ok(fabs(sum - r->thread_step_s) < 1e-9 * sum, "the rows add up to the step: %g s", r->thread_step_s);
  ok(!strcmp(r->ops[r->op_count - 1].name, "other") && r->turns >= 3, "the last row is the rest");
  ok(r->cpu_share > 0 && r->cpu_share < 1, "the thread had a CPU for a part of the time: %g", r->cpu_share);
  hd_bench_step_destroy(r);
  hd_ctx_destroy(ctx);
}

int main(void) {
  test_limits();
  test_bounds();
  test_shares();
  test_probe();
  test_slow_step();
  return done_testing();
}
