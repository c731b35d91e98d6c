/* The cost of the contract: a training step as it is, and without what keeps layouts from changing bits.
 *
 *     bench_contract [SECONDS [MODEL ...]]       default: 5 seconds for each of cnn, mlp, simplenet;
 *                                                OMP_NUM_THREADS threads
 *
 * Taken away one after the other: a sum for each shard (then one for each thread, whose number must be a power of two),
 * the second version of weights and optimizer state (then both versions are the same memory), and the check
 * for numbers that are not finite (where the kernels are those of AVX-512). All variants share plan and threads and run
 * in short turns, one after the other. Times are CPU times, so that other load on the machine matters less; reported
 * are medians over the turns. The chain of operations of an output element stays: kernels consist of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/executor.h"
#include "kernel/kernel.h"
#include "platform/clock.h"
#include "train/placement/run_plan.h"
#include "tools/tune/scaling.h"
#include "train/run/session.h"

enum { VARIANTS = 4, MAX_ROUNDS = 4000 };

static const double TURN_S = 0.01;

void hd__update_fill_unchecked(hd_kernels *table);

typedef struct variant {
  const char *name;
  bool one_sum, one_version, unchecked;
  hd_store *store;
  hd_exec *exec;
  double rate[MAX_ROUNDS]; /* samples a second of CPU */
} variant;

typedef struct course {
  hd_session *session;
  int64_t at, steps, samples;
  double start_s, end_s;
} course;

/* Of all threads together. */
static double cpu_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool next_step(void *self, hd_step *step) {
  course *c = self;
  if (c->steps > 1 && c->end_s - c->start_s >= TURN_S)
    return false;
  hd__session_describe(step, c->session, c->at++ % (c->session->run.steps_per_epoch - 1));
  return true;
}

static uint32_t step_done(void *self, const hd_step *step, double loss_sum, bool counts) {
  course *c = self;
  (void)loss_sum;
  if (!counts)
    return 0;
  c->end_s = cpu_s();
  if (c->steps++ == 0)
    c->start_s = c->end_s;
  else
    c->samples += step->samples;
  return 0;
}

static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  course *c = self;
  return hd__feed_read(&c->session->input.train, ctx, step->epoch, step->cursor + first, rows, to);
}

/* Samples a second in a turn. */
static hd_status run(double *rate, hd_ctx *ctx, const variant *v, hd_session *s) {
  course c = {.session = s};
  const hd_step_source source = {.self = &c, .next = next_step, .fetch = fetch};
  uint32_t flags;
  HD_TRY(hd__exec_run(v->exec, ctx, &source, step_done, &flags));
  *rate = (double)c.samples / (c.end_s - c.start_s);
  return HD_OK;
}

static hd_status prepare(variant *v, hd_ctx *ctx, const hd_session *s) {
  const hd_run_device here = hd__device_threads(s->run.config);
  hd_exec_settings settings = hd__planned_training(s->run.config, (int32_t)s->report.facts.shards, &here);
  settings.fetch_bytes = hd__feed_scratch_bytes(&s->input.train);
  HD_TRY(hd__store_create(&v->store, ctx, NULL, s->compute.plan));
  memcpy(v->store->segment.base, s->compute.store->segment.base, s->compute.store->segment.bytes);
  if (v->one_version) {
    v->store->weights[1] = v->store->weights[0];
    for (int i = 0; i < s->compute.plan->update.states; i++)
      v->store->state[1][i] = v->store->state[0][i];
  }
  if (v->one_sum)
    settings.shards = hd__threads_count(s->compute.threads);
  return hd__exec_create(&v->exec, ctx, s->compute.plan, v->store, s->compute.threads, &settings);
}

/* Rounds of turns until the time is over; returns how many, or a status. */
static int take_turns(variant *v, hd_ctx *ctx, hd_session *s, int variants, double seconds) {
  const hd_kernels *kernels = s->compute.plan->kernels;
  hd_kernels unchecked = *kernels;
  double end_s = hd__clock_s() + seconds;
  int round = 0;
#ifdef HD_HAVE_UNCHECKED
  hd__update_fill_unchecked(&unchecked);
#endif
  for (; round < MAX_ROUNDS && (round < 3 || hd__clock_s() < end_s); round++)
    for (int i = 0; i < variants; i++) {
      hd__plan_set_kernels(s->compute.plan, v[i].unchecked ? &unchecked : kernels);
      hd_status status = run(&v[i].rate[round], ctx, &v[i], s);
      hd__plan_set_kernels(s->compute.plan, kernels);
      if (status != HD_OK)
        return status;
    }
  return round;
}

static void report(variant *v, int variants, int rounds, const hd_session *s) {
  double as_it_is = 0;
  for (int i = 0; i < variants; i++) {
    double rate = hd__median(v[i].rate, rounds).value;
    as_it_is = i ? as_it_is : rate;
    printf("%-10s %2d threads, %-35s %10.0f samples/s of CPU  %+5.1f %%\n", s->report.facts.model,
           s->report.facts.threads, v[i].name, rate, 100 * (rate / as_it_is - 1));
  }
}

static const variant kinds[VARIANTS] = {
    {.name = "as it is"},
    {.name = "one sum a thread", .one_sum = true},
    {.name = "and one version", .one_sum = true, .one_version = true},
    {.name = "and no look for what is not finite", .one_sum = true, .one_version = true, .unchecked = true}};

static hd_status measure(hd_ctx *ctx, const hd_config *config, double seconds) {
  static variant v[VARIANTS];
  hd_session *s;
  int variants = VARIANTS, rounds = 0;
  memcpy(v, kinds, sizeof v);
  HD_TRY(hd__session_create(&s, ctx, config, &(hd_session_use){.rehearses = true, .lock = -1}));
  hd_status status = HD_OK;
  if (s->report.facts.threads & (s->report.facts.threads - 1))
    status = hd__fail(ctx, HD_E_USAGE, "expected a power of two of threads, found %d; set OMP_NUM_THREADS",
                      s->report.facts.threads);
#ifdef HD_HAVE_UNCHECKED
  variants -= strcmp(s->compute.kernels->isa, "avx512") != 0;
#else
  variants--;
#endif
  hd__feed_shuffle(&s->input.train, 0, 0);
  for (int i = 0; i < variants && status == HD_OK; i++)
    status = prepare(&v[i], ctx, s);
  if (status == HD_OK)
    rounds = take_turns(v, ctx, s, variants, seconds);
  if (status == HD_OK && rounds > 0)
    report(v, variants, rounds, s);
  for (int i = 0; i < variants; i++) {
    hd__exec_destroy(v[i].exec);
    hd__store_destroy(v[i].store);
  }
  hd_session_destroy(s);
  return rounds < 0 ? rounds : status;
}

int main(int argc, char **argv) {
  static char *usual[] = {"cnn", "mlp", "simplenet"};
  char **model = argc > 2 ? argv + 2 : usual;
  int models = argc > 2 ? argc - 2 : 3;
  hd_ctx *ctx;
  hd_config *config;
  hd_status status = hd_ctx_create(&ctx);
  for (int i = 0; i < models && status == HD_OK; i++) {
    status = hd_config_create(&config, ctx);
    if (status == HD_OK)
      status = hd_config_set(config, ctx, "model", model[i]);
    if (status == HD_OK)
      status = measure(ctx, config, argc > 1 ? atof(argv[1]) : 5);
    hd_config_destroy(config);
  }
  if (status != HD_OK)
    fprintf(stderr, "%s\n", hd_ctx_message(ctx));
  hd_ctx_destroy(ctx);
  return status != HD_OK;
}
