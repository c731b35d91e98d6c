/* Schedules and the SGD update against PyTorch 2: learning rates and momenta of torch.optim.lr_scheduler (StepLR,
 * CosineAnnealingLR, LinearLR, OneCycleLR, and each behind a LinearLR in a SequentialLR), step by step over 7 epochs of
 * 5 steps, and weights of torch.optim.SGD with Nesterov's momentum. The numbers below are what PyTorch printed. */
#include "kernel/kernel.h"
#include "tap.h"
#include "optimizer/schedule.h"
#include "train/settings/config.h"

enum { EPOCHS = 7, STEPS_PER_EPOCH = 5, STEPS = EPOCHS * STEPS_PER_EPOCH };

typedef enum which {
  STEP,
  STEP_WARM,
  COSINE,
  COSINE_WARM,
  LINEAR,
  LINEAR_WARM,
  ONECYCLE,
  ONECYCLE_ADAM,
  CONST_WARM,
  SCHEDULES
} which;

/* Settings beside lr 0.05, and momentum 0.9 of sgd. */
static const struct {
  const char *schedule, *optimizer, *warmup;
} settings[SCHEDULES] = {[STEP] = {"step", "sgd", "0"},         [STEP_WARM] = {"step", "sgd", "8"},
                         [COSINE] = {"cosine", "sgd", "0"},     [COSINE_WARM] = {"cosine", "sgd", "8"},
                         [LINEAR] = {"linear", "sgd", "0"},     [LINEAR_WARM] = {"linear", "adam", "8"},
                         [ONECYCLE] = {"onecycle", "sgd", "0"}, [ONECYCLE_ADAM] = {"onecycle", "adam", "0"},
                         [CONST_WARM] = {"const", "sgd", "8"}};

static const struct {
  which schedule;
  int step; /* from 0 */
  double lr, beta1;
} expected[] = {
    {STEP, 0, 0.050000000000000003, 0.90000000000000002},
    {STEP, 1, 0.050000000000000003, 0.90000000000000002},
    {STEP, 2, 0.050000000000000003, 0.90000000000000002},
    {STEP, 3, 0.050000000000000003, 0.90000000000000002},
    {STEP, 5, 0.050000000000000003, 0.90000000000000002},
    {STEP, 9, 0.050000000000000003, 0.90000000000000002},
    {STEP, 10, 0.014999999999999999, 0.90000000000000002},
    {STEP, 11, 0.014999999999999999, 0.90000000000000002},
    {STEP, 17, 0.014999999999999999, 0.90000000000000002},
    {STEP, 33, 0.0013499999999999999, 0.90000000000000002},
    {STEP, 34, 0.0013499999999999999, 0.90000000000000002},
    {STEP_WARM, 0, 0.0062500000000000003, 0.90000000000000002},
    {STEP_WARM, 1, 0.012500000000000001, 0.90000000000000002},
    {STEP_WARM, 2, 0.018750000000000003, 0.90000000000000002},
    {STEP_WARM, 5, 0.037499999999999999, 0.90000000000000002},
    {STEP_WARM, 7, 0.050000000000000003, 0.90000000000000002},
    {STEP_WARM, 8, 0.050000000000000003, 0.90000000000000002},
    {STEP_WARM, 9, 0.050000000000000003, 0.90000000000000002},
    {STEP_WARM, 10, 0.050000000000000003, 0.90000000000000002},
    {STEP_WARM, 11, 0.050000000000000003, 0.90000000000000002},
    {STEP_WARM, 17, 0.050000000000000003, 0.90000000000000002},
    {STEP_WARM, 18, 0.014999999999999999, 0.90000000000000002},
    {STEP_WARM, 33, 0.0044999999999999997, 0.90000000000000002},
    {STEP_WARM, 34, 0.0044999999999999997, 0.90000000000000002},
    {COSINE, 0, 0.050000000000000003, 0.90000000000000002},
    {COSINE, 1, 0.049899357349880984, 0.90000000000000002},
    {COSINE, 2, 0.049598239714965742, 0.90000000000000002},
    {COSINE, 3, 0.049099071517396335, 0.90000000000000002},
    {COSINE, 5, 0.047524221697560487, 0.90000000000000002},
    {COSINE, 9, 0.04227656622467163, 0.90000000000000002},
    {COSINE, 10, 0.040587245046468351, 0.90000000000000002},
    {COSINE, 11, 0.038772424536302572, 0.90000000000000002},
    {COSINE, 17, 0.026121620758762884, 0.90000000000000002},
    {COSINE, 33, 0.00040176028503425838, 0.90000000000000002},
    {COSINE, 34, 0.00010064265011902332, 0.90000000000000002},
    {COSINE_WARM, 0, 0.0062500000000000003, 0.90000000000000002},
    {COSINE_WARM, 1, 0.012500000000000001, 0.90000000000000002},
    {COSINE_WARM, 2, 0.018750000000000003, 0.90000000000000002},
    {COSINE_WARM, 5, 0.037499999999999999, 0.90000000000000002},
    {COSINE_WARM, 7, 0.050000000000000003, 0.90000000000000002},
    {COSINE_WARM, 8, 0.050000000000000003, 0.90000000000000002},
    {COSINE_WARM, 9, 0.049830958943548581, 0.90000000000000002},
    {COSINE_WARM, 10, 0.049326121764495599, 0.90000000000000002},
    {COSINE_WARM, 11, 0.048492315519647715, 0.90000000000000002},
    {COSINE_WARM, 17, 0.037500000000000006, 0.90000000000000002},
    {COSINE_WARM, 18, 0.034901994150978922, 0.90000000000000002},
    {COSINE_WARM, 33, 0.00067387823550440487, 0.90000000000000002},
    {COSINE_WARM, 34, 0.00016904105645142441, 0.90000000000000002},
    {LINEAR, 0, 0.050000000000000003, 0.90000000000000002},
    {LINEAR, 1, 0.048571428571428571, 0.90000000000000002},
    {LINEAR, 2, 0.047142857142857139, 0.90000000000000002},
    {LINEAR, 3, 0.045714285714285714, 0.90000000000000002},
    {LINEAR, 5, 0.042857142857142858, 0.90000000000000002},
    {LINEAR, 9, 0.037142857142857158, 0.90000000000000002},
    {LINEAR, 10, 0.035714285714285733, 0.90000000000000002},
    {LINEAR, 11, 0.034285714285714301, 0.90000000000000002},
    {LINEAR, 17, 0.025714285714285724, 0.90000000000000002},
    {LINEAR, 33, 0.0028571428571428593, 0.90000000000000002},
    {LINEAR, 34, 0.0014285714285714297, 0.90000000000000002},
    {LINEAR_WARM, 0, 0.0062500000000000003, 0.90000000000000002},
    {LINEAR_WARM, 1, 0.012500000000000001, 0.90000000000000002},
    {LINEAR_WARM, 2, 0.018750000000000003, 0.90000000000000002},
    {LINEAR_WARM, 3, 0.025000000000000001, 0.90000000000000002},
    {LINEAR_WARM, 5, 0.037499999999999999, 0.90000000000000002},
    {LINEAR_WARM, 7, 0.050000000000000003, 0.90000000000000002},
    {LINEAR_WARM, 8, 0.050000000000000003, 0.90000000000000002},
    {LINEAR_WARM, 9, 0.048148148148148155, 0.90000000000000002},
    {LINEAR_WARM, 10, 0.046296296296296308, 0.90000000000000002},
    {LINEAR_WARM, 11, 0.044444444444444453, 0.90000000000000002},
    {LINEAR_WARM, 17, 0.033333333333333347, 0.90000000000000002},
    {LINEAR_WARM, 18, 0.031481481481481492, 0.90000000000000002},
    {LINEAR_WARM, 33, 0.003703703703703706, 0.90000000000000002},
    {LINEAR_WARM, 34, 0.001851851851851853, 0.90000000000000002},
    {ONECYCLE, 0, 0.0020000000000000018, 0.94999999999999996},
    {ONECYCLE, 1, 0.0033003861991847752, 0.94729086208503166},
    {ONECYCLE, 2, 0.0070606277744865512, 0.93945702546981968},
    {ONECYCLE, 3, 0.012873244205061751, 0.92734740790612136},
    {ONECYCLE, 5, 0.027981904291335978, 0.89587103272638335},
    {ONECYCLE, 9, 0.049672671281665338, 0.85068193482986387},
    {ONECYCLE, 10, 0.049948635024219139, 0.85010273036248318},
    {ONECYCLE, 11, 0.049538980768860937, 0.85092204215044676},
    {ONECYCLE, 17, 0.039302959291388231, 0.87139416699389149},
    {ONECYCLE, 33, 0.00020544883342023102, 0.94958950069116221},
    {ONECYCLE, 34, 1.9999999999999999e-07, 0.94999999999999996},
    {ONECYCLE_ADAM, 0, 0.0020000000000000018, 0.94999999999999996},
    {ONECYCLE_ADAM, 1, 0.0033003861991847752, 0.94729086208503166},
    {ONECYCLE_ADAM, 2, 0.0070606277744865512, 0.93945702546981968},
    {ONECYCLE_ADAM, 3, 0.012873244205061751, 0.92734740790612136},
    {ONECYCLE_ADAM, 5, 0.027981904291335978, 0.89587103272638335},
    {ONECYCLE_ADAM, 9, 0.049672671281665338, 0.85068193482986387},
    {ONECYCLE_ADAM, 10, 0.049948635024219139, 0.85010273036248318},
    {ONECYCLE_ADAM, 11, 0.049538980768860937, 0.85092204215044676},
    {ONECYCLE_ADAM, 17, 0.039302959291388231, 0.87139416699389149},
    {ONECYCLE_ADAM, 33, 0.00020544883342023102, 0.94958950069116221},
    {ONECYCLE_ADAM, 34, 1.9999999999999999e-07, 0.94999999999999996},
    {CONST_WARM, 0, 0.0062500000000000003, 0.90000000000000002},
    {CONST_WARM, 1, 0.012500000000000001, 0.90000000000000002},
    {CONST_WARM, 2, 0.018750000000000003, 0.90000000000000002},
    {CONST_WARM, 5, 0.037499999999999999, 0.90000000000000002},
    {CONST_WARM, 7, 0.050000000000000003, 0.90000000000000002},
    {CONST_WARM, 8, 0.050000000000000003, 0.90000000000000002},
    {CONST_WARM, 9, 0.050000000000000003, 0.90000000000000002},
};

static hd_config *make_config(hd_ctx *ctx, const char *schedule, const char *optimizer, const char *warmup) {
  hd_config *config;
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "lr", "0.05");
  hd_config_set(config, ctx, "schedule", schedule);
  hd_config_set(config, ctx, "optimizer", optimizer);
  hd_config_set(config, ctx, "warmup", warmup);
  if (!strcmp(optimizer, "sgd"))
    hd_config_set(config, ctx, "momentum", "0.9");
  if (!strcmp(schedule, "step")) {
    hd_config_set(config, ctx, "step-size", "2");
    hd_config_set(config, ctx, "gamma", "0.3");
  }
  return config;
}

static hd_status init(hd_schedule *out, hd_ctx *ctx, const hd_config *config, int64_t steps, int64_t steps_per_epoch) {
  hd_update_settings run;
  hd__config_updates(&run, config);
  return hd__schedule_init(out, ctx, &run, steps, steps_per_epoch);
}

static void test_schedules(hd_ctx *ctx) {
  hd_schedule schedule[SCHEDULES];
  double worst[SCHEDULES] = {0}; /* relative */
  for (int s = 0; s < SCHEDULES; s++) {
    hd_config *config = make_config(ctx, settings[s].schedule, settings[s].optimizer, settings[s].warmup);
    ok(hd__config_complete(config, ctx) == HD_OK && init(&schedule[s], ctx, config, STEPS, STEPS_PER_EPOCH) == HD_OK,
       "%s, %s, warm-up %s: accepted", settings[s].schedule, settings[s].optimizer, settings[s].warmup);
    hd_config_destroy(config);
  }
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    double lr, beta1, *most = &worst[expected[i].schedule];
    hd__schedule_at(&schedule[expected[i].schedule], expected[i].step, &lr, &beta1);
    *most = fmax(*most, fabs(lr / expected[i].lr - 1));
    *most = fmax(*most, fabs(beta1 / expected[i].beta1 - 1));
  }
  for (int s = 0; s < SCHEDULES; s++)
    ok(worst[s] < 1e-12, "%s, %s, warm-up %s: as PyTorch within 1e-12 (%.1e)", settings[s].schedule,
       settings[s].optimizer, settings[s].warmup, worst[s]);
}

static void test_warmup_length(hd_ctx *ctx) {
  hd_schedule schedule;
  hd_config *config = make_config(ctx, "cosine", "sgd", "34");
  ok(init(&schedule, ctx, config, STEPS, STEPS_PER_EPOCH) == HD_OK, "a warm-up may leave one step");
  hd_config_set(config, ctx, "warmup", "35");
  ok(init(&schedule, ctx, config, STEPS, STEPS_PER_EPOCH) == HD_E_USAGE && strstr(hd_ctx_message(ctx), "35 steps"),
     "but must leave one");
  hd_config_destroy(config);
}

enum { UPDATES = 6, WEIGHTS = 6 };

/* lr 0.1, momentum 0.9, weight decay 0.01; gradient g0 * (t + 1) / 4 - w / 2. */
static const float first[WEIGHTS] = {0.5f, -1.25f, 2.0f, 0.0f, -0.03125f, 1.0f};
static const float g0[WEIGHTS] = {1.0f, -0.5f, 0.25f, 2.0f, -3.0f, 0.125f};
static const float trajectory[2][UPDATES][WEIGHTS] = {
    {{0.499500006f, -1.29875004f, 2.09174991f, -0.0500000007f, 0.0422187522f, 1.04587495f},
     {0.473525494f, -1.38126385f, 2.26432061f, -0.197449997f, 0.260409325f, 1.13216031f},
     {0.398351192f, -1.48570812f, 2.51183605f, -0.489830047f, 0.694540918f, 1.25591803f},
     {0.250213534f, -1.60250771f, 2.83267999f, -0.976973772f, 1.41929185f, 1.41633999f},
     {0.00415010704f, -1.72365022f, 3.22899079f, -1.71327484f, 2.5161128f, 1.6144954f},
     {-0.367103636f, -1.84213734f, 3.7063911f, -2.75989628f, 4.07654142f, 1.85319555f}},
    {{0.499049991f, -1.34262502f, 2.17432499f, -0.0949999988f, 0.108340621f, 1.08716249f},
     {0.450106561f, -1.45961094f, 2.42732215f, -0.334344506f, 0.462936848f, 1.21366107f},
     {0.328454286f, -1.59282827f, 2.76074052f, -0.771692574f, 1.11289501f, 1.38037026f},
     {0.107196644f, -1.73539734f, 3.1801722f, -1.4674058f, 2.14855242f, 1.5900861f},
     {-0.24394007f, -1.88128126f, 3.69511104f, -2.49113154f, 3.67409563f, 1.84755552f},
     {-0.759901285f, -2.02494311f, 4.31920004f, -3.92469645f, 5.81189156f, 2.15960002f}}};

static void test_sgd(hd_ctx *ctx, int nesterov) {
  hd_config *config = make_config(ctx, "const", "sgd", "0");
  hd_schedule schedule;
  hd_hyper hyper;
  hd_config_set(config, ctx, "lr", "0.1");
  hd_config_set(config, ctx, "weight-decay", "0.01");
  hd_config_set(config, ctx, "nesterov", nesterov ? "true" : "false");
  init(&schedule, ctx, config, STEPS, STEPS_PER_EPOCH);
  float w[2][WEIGHTS], m[2][WEIGHTS] = {{0}}, g[WEIGHTS];
  double worst = 0;
  memcpy(w[0], first, sizeof first);
  for (int t = 0; t < UPDATES; t++) {
    const float *now = w[t % 2];
    for (int i = 0; i < WEIGHTS; i++)
      g[i] = g0[i] * (float)(t + 1) / 4 - 0.5f * now[i];
    hd__schedule_hyper(&hyper, &schedule, t);
    hd_update update = {.g = g, .w = now, .s = {m[t % 2]}, .w1 = w[1 - t % 2], .s1 = {m[1 - t % 2]}};
    update.count = WEIGHTS;
    update.hyper = &hyper;
    hd__kernels_reference()->update[HD_OP_sgd](&update);
    for (int i = 0; i < WEIGHTS; i++)
      worst = fmax(worst, fabs((double)update.w1[i] - (double)trajectory[nesterov][t][i]));
  }
  ok(worst < 2e-6, "sgd with %s momentum: PyTorch's weights within 2e-6 (%.1e)", nesterov ? "Nesterov's" : "plain",
     worst);
  hd_config_destroy(config);
}

int main(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  test_schedules(ctx);
  test_warmup_length(ctx);
  test_sgd(ctx, 0);
  test_sgd(ctx, 1);
  hd_ctx_destroy(ctx);
  return done_testing();
}
