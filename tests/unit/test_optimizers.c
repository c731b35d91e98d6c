/* Optimizers: each is followed for some steps in double, by its formula as papers have it, and by weights that PyTorch
 * computed in float64 (of lion, which it lacks, the authors' program); every one of the table is tried; defaults are
 * those of its rule. */
#include <math.h>
#include <string.h>

#include "kernel/kernel.h"
#include "optimizer/schedule.h"
#include "tap.h"
#include "train/settings/config.h"

enum { STEPS = 8, WEIGHTS = 6, STATES = 4 };

static hd_ctx *ctx;

/* The gradient of step t, from 0: g0 * swing[t] - w / 2. */
static const double first[WEIGHTS] = {0.5, -1.25, 2, 0, -0.03125, 1}, g0[WEIGHTS] = {1, -0.5, 0.25, 2, -3, 0.125},
                    swing[STEPS] = {1, -2, 1.5, 0.5, -3, 2, 1, -1};

/* ---- The formulas ---- */

typedef struct formula {
  double lr, decay, beta1, beta2, eps, momentum, alpha, momentum_decay;
  bool centered, decoupled, nesterov;
} formula;

/* A step of a weight, t from 1; the states are 0 before the first. */
typedef double step_fn(const formula *f, double w, double g, double s[STATES], int t);

static double sgd(const formula *f, double w, double g, double s[STATES], int t) {
  g += f->decay * w;
  s[0] = f->momentum * s[0] + g;
  return w - f->lr * (f->nesterov ? g + f->momentum * s[0] : s[0]);
}

static double adam_direction(const formula *f, double g, double s[STATES], int t) {
  s[0] = f->beta1 * s[0] + (1 - f->beta1) * g;
  s[1] = f->beta2 * s[1] + (1 - f->beta2) * g * g;
  return s[0] / (1 - pow(f->beta1, t)) / (sqrt(s[1] / (1 - pow(f->beta2, t))) + f->eps);
}

static double adam(const formula *f, double w, double g, double s[STATES], int t) {
  return w - f->lr * adam_direction(f, g + f->decay * w, s, t);
}

static double adamw(const formula *f, double w, double g, double s[STATES], int t) {
  return w * (1 - f->lr * f->decay) - f->lr * adam_direction(f, g, s, t);
}

static double lion(const formula *f, double w, double g, double s[STATES], int t) {
  const double c = f->beta1 * s[0] + (1 - f->beta1) * g;
  s[0] = f->beta2 * s[0] + (1 - f->beta2) * g;
  return w - f->lr * ((c > 0) - (c < 0) + f->decay * w);
}

static double rmsprop(const formula *f, double w, double g, double s[STATES], int t) {
  g += f->decay * w;
  s[0] = f->alpha * s[0] + (1 - f->alpha) * g * g;
  s[1] = f->alpha * s[1] + (1 - f->alpha) * g;
  const double spread = f->centered ? s[0] - s[1] * s[1] : s[0];
  s[2] = f->momentum * s[2] + g / (sqrt(spread) + f->eps);
  return w - f->lr * s[2];
}

static double mu(const formula *f, int t) { return f->beta1 * (1 - 0.5 * pow(0.96, t * f->momentum_decay)); }

static double nadam(const formula *f, double w, double g, double s[STATES], int t) {
  double product = 1;
  for (int i = 1; i <= t; i++)
    product *= mu(f, i);
  g += f->decoupled ? 0 : f->decay * w;
  w *= f->decoupled ? 1 - f->lr * f->decay : 1;
  s[0] = f->beta1 * s[0] + (1 - f->beta1) * g;
  s[1] = f->beta2 * s[1] + (1 - f->beta2) * g * g;
  const double root = sqrt(s[1] / (1 - pow(f->beta2, t))) + f->eps;
  return w - f->lr * ((1 - mu(f, t)) / (1 - product) * g + mu(f, t + 1) / (1 - product * mu(f, t + 1)) * s[0]) / root;
}

/* ---- The cases ---- */

typedef struct trial {
  const char *options; /* NAME VALUE ..., without what is the default */
  step_fn *step;
  formula f;
  double torch[WEIGHTS]; /* after the last step */
} trial;

#define MOMENTS .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
static const trial trials[] = {
    {"optimizer sgd lr 0.05 momentum 0.9 nesterov true weight-decay 0.1",
     sgd,
     {.lr = 0.05, .decay = 0.1, .momentum = 0.9, .nesterov = true},
     {0.87398000849, -2.2410536738, 3.6011143826, -0.056103652592, 0.027778489214, 1.8005571913}},
    {"optimizer adam lr 0.05 weight-decay 0.2",
     adam,
     {.lr = 0.05, .decay = 0.2, MOMENTS},
     {0.48957689493, -1.3515575813, 2.3464358067, -0.040634687634, 0.0084139861629, 1.3510699254}},
    {"optimizer adamw lr 0.05 betas 0.8,0.95 weight-decay 0.1",
     adamw,
     {.lr = 0.05, .decay = 0.1, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-8},
     {0.48981905629, -1.4700654076, 2.2932832353, -0.039109932975, 0.0075295094351, 1.3367072195}},
    {"optimizer lion lr 0.1 weight-decay 0.01",
     lion,
     {.lr = 0.1, .decay = 0.01, .beta1 = 0.9, .beta2 = 0.99},
     {0.29701197483, -2.0372405231, 2.7812614811, -0.1990019972, 0.16800112395, 1.7892335371}},
    {"optimizer lion lr 0.05 betas 0.8,0.95",
     lion,
     {.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95},
     {0.4, -1.65, 2.4, -0.1, 0.06875, 1.4}},
    {"optimizer rmsprop lr 0.05",
     rmsprop,
     {.lr = 0.05, .alpha = 0.99, .eps = 1e-8},
     {0.34753032501, -3.4242242889, 4.4732210846, -0.34488801689, 0.28457319987, 3.6642650928}},
    {"optimizer rmsprop lr 0.05 alpha 0.9 momentum 0.9 weight-decay 0.01",
     rmsprop,
     {.lr = 0.05, .alpha = 0.9, .eps = 1e-8, .momentum = 0.9, .decay = 0.01},
     {0.11170361447, -4.006811916, 5.1985132213, -0.58779169597, 0.53171113502, 4.3982240791}},
    {"optimizer rmsprop lr 0.05 centered true eps 1e-6",
     rmsprop,
     {.lr = 0.05, .alpha = 0.99, .eps = 1e-6, .centered = true},
     {0.34591078876, -3.4534355893, 4.5202523399, -0.34745888448, 0.28680090196, 3.7154778843}},
    {"optimizer rmsprop centered true momentum 0.5",
     rmsprop,
     {.lr = 0.01, .alpha = 0.99, .eps = 1e-8, .centered = true, .momentum = 0.5},
     {0.4479867122, -1.9206209396, 2.8358115938, -0.12509853764, 0.089833238798, 1.8793920294}},
    {"optimizer nadam lr 0.05",
     nadam,
     {.lr = 0.05, MOMENTS, .momentum_decay = 0.004},
     {0.50305552463, -1.4827464527, 2.3121230252, -0.032443402135, 6.9943629231e-05, 1.3199005949}},
    {"optimizer nadam lr 0.05 betas 0.8,0.95 weight-decay 0.2 momentum-decay 0.04",
     nadam,
     {.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-8, .decay = 0.2, .momentum_decay = 0.04},
     {0.49045728694, -1.3330354942, 2.3233871895, -0.033825979849, 0.0017976605983, 1.3335085526}},
    {"optimizer nadam weight-decay 0.1 decoupled-weight-decay true eps 1e-4",
     nadam,
     {.lr = 0.002, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-4, .decay = 0.1, .momentum_decay = 0.004, .decoupled = true},
     {0.49936441667, -1.2568546181, 2.0089499627, -0.0012536597749, -0.029976749328, 1.0105616114}},
};

static hd_config *config_of(const char *options) {
  char text[160], *left, *word;
  hd_config *config;
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  snprintf(text, sizeof text, "%s", options);
  word = strtok_r(text, " ", &left);
  for (const char *value; word && (value = strtok_r(NULL, " ", &left)); word = strtok_r(NULL, " ", &left))
    if (hd_config_set(config, ctx, word, value) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  if (hd__config_complete(config, ctx) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return config;
}

static hd_schedule schedule_of(const char *options) {
  hd_schedule schedule;
  hd_update_settings update;
  hd_config *config = config_of(options);
  hd__config_updates(&update, config);
  if (hd__schedule_init(&schedule, ctx, &update, 1000, 100) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_destroy(config);
  return schedule;
}

/* The reference's kernel, from version to version. */
static void run_kernel(float out[WEIGHTS], const hd_schedule *schedule) {
  float w[2][WEIGHTS], s[2][HD_MAX_STATES][WEIGHTS] = {{{0}}}, g[WEIGHTS];
  hd_hyper hyper;
  const uint32_t kept = hd__optimizer_kept(schedule->optimizer, &schedule->settings);
  for (int i = 0; i < WEIGHTS; i++)
    w[0][i] = (float)first[i];
  for (int t = 0, from = 0; t < STEPS; t++, from = 1 - from) {
    for (int i = 0; i < WEIGHTS; i++)
      g[i] = (float)(g0[i] * swing[t]) - w[from][i] / 2;
    hd__schedule_hyper(&hyper, schedule, t);
    hd_update update = {.g = g, .w = w[from], .w1 = w[1 - from], .count = WEIGHTS, .hyper = &hyper};
    for (int k = 0; k < HD_MAX_STATES; k++)
      if (kept >> k & 1)
        update.s[k] = s[from][k], update.s1[k] = s[1 - from][k];
    hd__kernels_reference()->update[schedule->optimizer->op](&update);
  }
  memcpy(out, w[STEPS % 2], sizeof w[0]);
}

static void follow(const trial *is) {
  double w[WEIGHTS], s[WEIGHTS][STATES] = {{0}}, worst = 0, worst_torch = 0;
  float found[WEIGHTS];
  const hd_schedule schedule = schedule_of(is->options);
  memcpy(w, first, sizeof w);
  for (int t = 1; t <= STEPS; t++)
    for (int i = 0; i < WEIGHTS; i++)
      w[i] = is->step(&is->f, w[i], g0[i] * swing[t - 1] - w[i] / 2, s[i], t);
  run_kernel(found, &schedule);
  for (int i = 0; i < WEIGHTS; i++) {
    worst = fmax(worst, fabs((double)found[i] - w[i]));
    worst_torch = fmax(worst_torch, fabs(w[i] - is->torch[i]));
  }
  ok(worst < 4e-6, "%s: the formula within 4e-6 (%.1e)", is->options, worst);
  ok(worst_torch < 1e-8, "and PyTorch the formula within 1e-8 (%.1e)", worst_torch);
}

/* The bias corrections of a long run, where a product of nadam's is left alone, and under a cycle of the first beta. */
static void test_corrections(void) {
  const formula f = {.beta1 = 0.9, .momentum_decay = 0.004};
  const hd_schedule constant = schedule_of("optimizer nadam"), cycle = schedule_of("optimizer nadam schedule onecycle");
  static const int64_t steps[] = {0, 1, 9, 99, 399, 999};
  hd_schedule later = cycle; /* of parameters that are trained from a later step on */
  later.first = 300;
  double worst[3] = {0}, product[3] = {1, 1, 1};
  for (int64_t t = 1, at = 0; t <= 1000; t++) {
    hd_hyper hyper[3];
    double lr[3], beta[3];
    hd__schedule_at(&constant, t - 1, &lr[0], &beta[0]);
    hd__schedule_at(&cycle, t - 1, &lr[1], &beta[1]);
    hd__schedule_at(&later, later.first + t - 1, &lr[2], &beta[2]);
    for (int k = 0; k < 3; k++)
      product[k] *= mu(&f, (int)t) / 0.9 * beta[k];
    if (steps[at] != t - 1)
      continue;
    at++;
    hd__schedule_hyper(&hyper[0], &constant, t - 1);
    hd__schedule_hyper(&hyper[1], &cycle, t - 1);
    hd__schedule_hyper(&hyper[2], &later, later.first + t - 1);
    for (int k = 0; k < 3; k++) {
      const double of_gradient = lr[k] * (1 - mu(&f, (int)t) / 0.9 * beta[k]) / (1 - product[k]);
      worst[k] = fmax(worst[k], fabs((double)hyper[k].gradient_step / of_gradient - 1));
    }
  }
  ok(worst[0] < 1e-7, "nadam: the product of all its mu (%.1e)", worst[0]);
  ok(worst[1] < 1e-7, "and under a cycle (%.1e)", worst[1]);
  ok(worst[2] < 1e-7, "and under the later part of one (%.1e)", worst[2]);
}

/* A variance that rounding makes negative is none. */
static void test_centered(void) {
  hd_hyper hyper = {.op = HD_OP_rmsprop,
                    .grad_scale = 1,
                    .lr = 1,
                    .alpha = 0.99f,
                    .one_minus_alpha = 0.01f,
                    .eps = 0.5f,
                    .centered = 1};
  int lowest = 0;
  for (int i = 0; i < 2000 && !lowest; i++) {
    const float g = 1 + (float)i * 1e-3f, a = g, v = nextafterf(g * g, 0), w = 0;
    float w1, v1, a1;
    const hd_update update = {
        .g = &g, .w = &w, .s = {&v, NULL, &a}, .w1 = &w1, .s1 = {&v1, NULL, &a1}, .count = 1, .hyper = &hyper};
    const int bad = hd__kernels_reference()->update[HD_OP_rmsprop](&update);
    if (bad || !isfinite(w1))
      lowest = -1;
    else if (fmaf(-a1, a1, v1) < 0)
      lowest = w1 == -g / 0.5f ? 1 : -1;
  }
  ok(lowest == 1, "rmsprop, centered: a variance below 0 counts as 0");
}

/* Without options, an optimizer has the defaults of its rule; what was set stays, whatever the order. */
static void test_defaults(void) {
  static const struct {
    const char *options, *lr, *betas;
    double first, second, rate;
  } cases[] = {{"", "0.001", "0.9,0.999", 0.9, 0.999, 0.001},
               {"optimizer sgd", "0.001", "0.9,0.999", 0.9, 0.999, 0.001},
               {"optimizer lion", "0.0001", "0.9,0.99", 0.9, 0.99, 0.0001},
               {"optimizer lion optimizer adam", "0.001", "0.9,0.999", 0.9, 0.999, 0.001},
               {"lr 0.5 optimizer lion", "0.5", "0.9,0.99", 0.9, 0.99, 0.5},
               {"optimizer lion lr 0.001 betas 0.8,0.9", "0.001", "0.8,0.9", 0.8, 0.9, 0.001},
               {"optimizer rmsprop", "0.01", "0.9,0.999", 0.9, 0.999, 0.01},
               {"optimizer nadam", "0.002", "0.9,0.999", 0.9, 0.999, 0.002}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hd_config *config = config_of(cases[i].options);
    const hd_settings *is = hd__settings(config);
    ok(!strcmp(hd_config_get(config, "lr"), cases[i].lr) && !strcmp(hd_config_get(config, "betas"), cases[i].betas) &&
           is->lr == cases[i].rate && is->betas[0] == cases[i].first && is->betas[1] == cases[i].second,
       "'%s': lr %s, betas %s", cases[i].options, hd_config_get(config, "lr"), hd_config_get(config, "betas"));
    hd_config_destroy(config);
  }
}

/* A rule for parameters that gives an optimizer: what the run's optimizer has as well is the run's, the rest is the
 * default of the rule's. */
static void test_inheritance(void) {
  static const struct {
    const char *run;
    int optimizer;
    double lr, beta1, beta2, momentum, decay;
  } cases[] = {{"", HD_OPTIMIZER_LION, 0.001, 0.9, 0.999, 0, 0},
               {"optimizer sgd lr 0.1 momentum 0.9", HD_OPTIMIZER_LION, 0.1, 0.9, 0.99, 0.9, 0},
               {"optimizer sgd lr 0.1 momentum 0.9", HD_OPTIMIZER_ADAMW, 0.1, 0.9, 0.999, 0.9, 0.01},
               {"optimizer sgd momentum 0.9 weight-decay 0.3", HD_OPTIMIZER_RMSPROP, 0.001, 0.9, 0.999, 0.9, 0.3},
               {"optimizer lion", HD_OPTIMIZER_NADAM, 0.0001, 0.9, 0.99, 0, 0},
               {"betas 0.7,0.8", HD_OPTIMIZER_LION, 0.001, 0.7, 0.8, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hd_update_settings is;
    hd_config *config = config_of(cases[i].run);
    hd__config_updates(&is, config);
    is.value[HD_SET_optimizer] = cases[i].optimizer;
    hd__optimizer_complete(&is);
    ok(is.value[HD_SET_lr] == cases[i].lr && is.value[HD_SET_betas] == cases[i].beta1 &&
           is.value[HD_SET_betas_2] == cases[i].beta2 && is.value[HD_SET_momentum] == cases[i].momentum &&
           is.value[HD_SET_weight_decay] == cases[i].decay,
       "a rule with %s in a run with '%s': lr %g, betas %g,%g, momentum %g, weight decay %g",
       hd__optimizer_of(&is)->name, cases[i].run, is.value[HD_SET_lr], is.value[HD_SET_betas], is.value[HD_SET_betas_2],
       is.value[HD_SET_momentum], is.value[HD_SET_weight_decay]);
    hd_config_destroy(config);
  }
}

/* Each row of the table has a rule, whose settings and states are sound, and is tried above. */
static void test_rules(void) {
  for (int i = 0; hd__optimizer_at(i); i++) {
    const hd_optimizer_rule *rule = hd__optimizer_at(i);
    int tried = rule->matrices; /* a direction: tests/golden has muon */
    bool sound =
        rule->scalars && hd__optimizer_takes(rule, HD_SET_lr) && hd__optimizer_takes(rule, HD_SET_weight_decay);
    for (const trial *t = trials; t < trials + sizeof trials / sizeof *trials; t++)
      tried |= schedule_of(t->options).optimizer == rule;
    for (int s = 0; s < HD_MAX_STATES && rule->states[s].name; s++)
      sound &= !rule->states[s].kept_if || hd__optimizer_takes(rule, rule->states[s].kept_if);
    ok(sound && tried && !strcmp(rule->name, hd__optimizer_names[i]) && hd__optimizer_of_op(rule->op) == rule,
       "%s: a rule that is sound and tried", rule->name);
  }
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
    follow(&trials[i]);
  test_corrections();
  test_centered();
  test_defaults();
  test_inheritance();
  test_rules();
  hd_ctx_destroy(ctx);
  return done_testing();
}
