/* heddle verify: repeats a run and compares it with its claims. */
#include <signal.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "heddle/evidence.h"

static int spot, plain;
static double seed = -1;
static volatile sig_atomic_t caught;

static void on_signal(int number) { caught = number; }

static int on_step(void *user, int64_t step, int64_t steps) {
  cli_show_step(user, step, steps);
  return caught;
}

static const char *const verdict_name[] = {"verified", "refuted", "not comparable"};

static void print_verdict(const hd_verification *v) {
  cli_print("%s \t", verdict_name[v->verdict]);
  if (v->verdict == HD_VERIFIED)
    cli_print("%s%s, weights_sha256 %s\n", cli_grouped_of(v->steps, "step"), v->seed >= 0 ? " repeated" : "",
              v->weights_sha256);
  else
    cli_print("%s\n", v->why);
  if (v->seed >= 0)
    cli_print("drawn \twith --seed %lld\n", (long long)v->seed);
}

static void print_json(const hd_verification *v) {
  cli_json("{'verdict': %s, 'steps': %lld, ", verdict_name[v->verdict], (long long)v->steps);
  if (v->verdict != HD_VERIFIED)
    cli_json("'why': %s, ", v->why);
  if (v->step > 0)
    cli_json("'step': %lld, ", (long long)v->step);
  if (v->seed >= 0)
    cli_json("'seed': %lld, ", (long long)v->seed);
  cli_json("'weights_sha256': %s}\n", v->weights_sha256);
}

/* 0 verified, 3 refuted, 4 not comparable. */
static int verify(hd_ctx *ctx, hd_config *config, const char *what, hd_group *group) {
  const int leads = hd_group_rank(group) == 0;
  cli_step_line line = {.terminal = leads && cli_is_terminal()};
  hd_verification v = {.struct_bytes = sizeof v};
  const hd_verify_request request = {.struct_bytes = sizeof request,
                                     .what = what,
                                     .spot = spot,
                                     .seed = (int64_t)seed,
                                     .group = group,
                                     .progress = on_step,
                                     .user = &line};
  cli_catch_signals(on_signal);
  const hd_status status = hd_verify(&v, ctx, config, &request);
  cli_clear_step(&line);
  if (status == HD_E_INTERRUPTED && caught)
    return leads ? cli_stopped_by(caught) : 128 + caught;
  CLI_TRY(status);
  if (!leads)
    return CLI_OK;
  (cli_wants_json(config) ? print_json : print_verdict)(&v);
  return v.verdict == HD_VERIFIED ? CLI_OK : v.verdict == HD_REFUTED ? CLI_FOUND : CLI_NOT_COMPARABLE;
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  int32_t rank, ranks;
  hd_group *group = NULL;
  const hd_group_settings settings = {.struct_bytes = sizeof settings, .rank = -1, .world_size = -1};
  if (plain)
    setenv("HEDDLE_PLAN", "plain", 1);
  if (!hd_launched(&rank, &ranks)) {
    ranks = (int32_t)hd_config_get_int(config, HD_OPT_PROCS);
    if (ranks > 1)
      return cli_launch_ranks(ctx, ranks, NULL, 0, NULL);
    return verify(ctx, config, operand[0], NULL);
  }
  CLI_TRY(hd_group_init(&group, ctx, &settings));
  const int code = verify(ctx, config, operand[0], group);
  hd_group_destroy(group);
  return code;
}

static const cli_extra extra[] = {
    {"spot", "N", "repeat only N random segments between checkpoints (default: the whole run)", cli_take_whole, &spot,
     .least = 1, .most = 1000},
    {"seed", "N", "seed of --spot, to repeat the same segments (default: random)", cli_take_seed, &seed, .least = 0,
     .most = 4294967295.0},
    {"plain", NULL, "compute with the reference kernels and no shortcuts; slow (default: off)", cli_take_flag,
     .self = &plain},
    {0}};

const cli_command cli_verify = {
    .name = "verify",
    .data = "the run's",
    .help = "repeat a run and check that it is what it claims to be",
    .usage = "heddle verify RUN|CERTIFICATE [--spot N] [layout] [--json]: repeats a run on any layout",
    .notes =
        "Exit codes: 0 verified, 3 refuted, 4 not comparable: different arithmetic, or missing data or checkpoints.",
    .options = (const char *const[]){"threads", "procs", "stages", "schedule-stages", "cpus", "placement", "accumulate",
                                     "workers", "device", "cache", "data", "data-dir", "stall-timeout", "json", NULL},
    .extra = extra,
    .operands = 1,
    .operand = "run (its folder) or certificate",
    .run = run};
