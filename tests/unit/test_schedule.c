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
  COSINE_TENTH,
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
} settings[SCHEDULES] = {[STEP] = {"step", "sgd", "0"},
                         [STEP_WARM] = {"step", "sgd", "8"},
                         [COSINE] = {"cosine", "sgd", "0"},
                         [COSINE_WARM] = {"cosine", "sgd", "8"},
                         [COSINE_TENTH] = {"cosine", "sgd", "8"},
                         [LINEAR] = {"linear", "sgd", "0"},
                         [LINEAR_WARM] = {"linear", "adam", "8"},
                         [ONECYCLE] = {"onecycle", "sgd", "0"},
                         [ONECYCLE_ADAM] = {"onecycle", "adam", "0"},
                         [CONST_WARM] = {"const", "sgd", "8"}};

/* Of some steps, counted from 0: learning rates, 0 where PyTorch was not asked; behind them the momenta of ONECYCLE. */
static const int asked[] = {0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 17, 18, 33, 34};
enum { ASKED = sizeof asked / sizeof *asked };
static const double rate[SCHEDULES + 1][ASKED] = {
    [STEP] = {0.05, 0.05, 0.05, 0.05, 0.05, 0, 0, 0.05, 0.015, 0.015, 0.015, 0, 0.0013499999999999999,
              0.0013499999999999999},
    [STEP_WARM] = {0.00625, 0.0125, 0.018750000000000003, 0, 0.0375, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.015, 0.0045,
                   0.0045},
    [COSINE] = {0.05, 0.049899357349880984, 0.04959823971496574, 0.049099071517396335, 0.04752422169756049, 0, 0,
                0.04227656622467163, 0.04058724504646835, 0.03877242453630257, 0.026121620758762884, 0,
                0.0004017602850342584, 0.00010064265011902332},
    [COSINE_WARM] = {0.00625, 0.0125, 0.018750000000000003, 0, 0.0375, 0.05, 0.05, 0.04983095894354858,
                     0.0493261217644956, 0.048492315519647715, 0.037500000000000006, 0.03490199415097892,
                     0.0006738782355044049, 0.0001690410564514244},
    [COSINE_TENTH] = {0.00625, 0.0125, 0.018750000000000003, 0.025, 0.0375, 0.05, 0.05, 0.04984786304919372,
                      0.04939350958804604, 0.048643083967682944, 0.03875, 0.03641179473588103, 0.005606490411953964,
                      0.005152136950806282},
    [LINEAR] = {0.05, 0.04857142857142857, 0.04714285714285714, 0.045714285714285714, 0.04285714285714286, 0, 0,
                0.03714285714285716, 0.03571428571428573, 0.0342857142857143, 0.025714285714285724, 0,
                0.0028571428571428593, 0.0014285714285714297},
    [LINEAR_WARM] = {0.00625, 0.0125, 0.018750000000000003, 0.025, 0.0375, 0.05, 0.05, 0.048148148148148155,
                     0.04629629629629631, 0.04444444444444445, 0.03333333333333335, 0.03148148148148149,
                     0.003703703703703706, 0.001851851851851853},
    [ONECYCLE] = {0.0020000000000000018, 0.003300386199184775, 0.007060627774486551, 0.012873244205061751,
                  0.027981904291335978, 0, 0, 0.04967267128166534, 0.04994863502421914, 0.04953898076886094,
                  0.03930295929138823, 0, 0.00020544883342023102, 2e-07},
    [ONECYCLE_ADAM] = {0.0020000000000000018, 0.003300386199184775, 0.007060627774486551, 0.012873244205061751,
                       0.027981904291335978, 0, 0, 0.04967267128166534, 0.04994863502421914, 0.04953898076886094,
                       0.03930295929138823, 0, 0.00020544883342023102, 2e-07},
    [CONST_WARM] = {0.00625, 0.0125, 0.018750000000000003, 0, 0.0375, 0.05, 0.05, 0.05, 0, 0, 0, 0, 0, 0},
    [SCHEDULES] = {0.95, 0.9472908620850317, 0.9394570254698197, 0.9273474079061214, 0.8958710327263834, 0, 0,
                   0.8506819348298639, 0.8501027303624832, 0.8509220421504468, 0.8713941669938915, 0,
                   0.9495895006911622, 0.95}};

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
    if (s == COSINE_TENTH)
      hd_config_set(config, ctx, "end-factor", "0.1");
    ok(hd__config_complete(config, ctx) == HD_OK && init(&schedule[s], ctx, config, STEPS, STEPS_PER_EPOCH) == HD_OK,
       "%s, %s, warm-up %s: accepted", settings[s].schedule, settings[s].optimizer, settings[s].warmup);
    hd_config_destroy(config);
  }
  for (int s = 0; s < SCHEDULES; s++)
    for (int i = 0; i < ASKED; i++) {
      double lr, beta1;
      hd__schedule_at(&schedule[s], asked[i], &lr, &beta1);
      if (rate[s][i] == 0)
        continue;
      worst[s] = fmax(worst[s], fabs(lr / rate[s][i] - 1));
      worst[s] = fmax(worst[s], fabs(beta1 / (s == ONECYCLE || s == ONECYCLE_ADAM ? rate[SCHEDULES][i] : 0.9) - 1));
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
