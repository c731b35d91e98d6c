/* Runs on a machine with two third-level caches, as hwloc describes it: with threads or ranks under
 * both, each barrier of the run has a level of caches, and the digest is that of one thread; the same for groups. */
#include "scratch.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "comm/group_state.h"
#include "exec/exchange/local_group_join.h"
#include "exec/cpu/cpu_executor_state.h"
#include "heddle.h"
#include "train/run/session.h"

/* The CPUs of HWLOC_SYNTHETIC below, however many this machine has. */
#define OTHER_CPUS 64
#define OTHER_WORDS                                                                                                    \
  { 15 }
#include "other_cpus.h"

enum { RANKS = 4, WAIT_S = 120, ELEMS = 5000 };

/* What a rank found. */
typedef struct finding {
  char digest[HD_SHA256_TEXT_BYTES];
  int caches, told; /* told: the line of each cache was written in every barrier */
  int wrong;
  char text[256];
} finding;

static finding *found;
static hd_local_group *founder;

static hd_status train(finding *out, hd_ctx *ctx, hd_local_group *local, const char *model, const char *threads,
                       const char *name) {
  const char *const settings[] = {
      "model", model, "data", "random:1x28x28", "threads", threads, "cpus", "0-3", "max-steps", "12", "out", name};
  hd_config *config;
  hd_session *s;
  HD_TRY(hd_config_create(&config, ctx));
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
    if (i != 6 || strcmp(threads, "1") || local)
      HD_TRY(hd_config_set(config, ctx, settings[i], settings[i + 1]));
  HD_TRY(hd__session_create(&s, ctx, config, &(hd_session_use){.local = local, .lock = -1}));
  HD_TRY(hd_session_train(s, ctx, NULL, NULL));
  const hd_exec_cpu *exec = s->compute.exec->self;
  const hd_barrier *m = &exec->exchange.barrier;
  out->caches = m->caches;
  out->told = m->caches > 1;
  for (int c = 0; c < m->caches && m->caches > 1; c++)
    out->told &= atomic_load(&m->line[m->threads + c].came) == atomic_load(&m->line[0].came) &&
                 atomic_load(&m->line[0].came) >= 24;
  snprintf(out->digest, sizeof out->digest, "%s", hd_session_report(s)->weights_sha256);
  hd_session_destroy(s);
  hd_config_destroy(config);
  return HD_OK;
}

static void run_alone(finding *out, hd_ctx *ctx, const char *model, const char *threads) {
  *out = (finding){0};
  if (train(out, ctx, NULL, model, threads, in_scratch("%s-%s", model, threads)) != HD_OK)
    diag("%s", hd_ctx_message(ctx));
}

static void train_as_rank(finding *out, hd_ctx *ctx, hd_local_group *local, const char *model) {
  out->wrong = train(out, ctx, local, model, "1", in_scratch("%s-ranks", model)) != HD_OK;
}

/* Each on another CPU, as launchers bind ranks. */
static void call_as_rank(finding *out, hd_ctx *ctx, hd_local_group *local, const char *unused) {
  hd_group *g, *some;
  hd_cpu_set own;
  hd__cpu_set_one(&own, hd__local_group_rank(local));
  hd__cpu_set_bind(&own);
  float x[ELEMS], one = 1;
  out->wrong += hd__group_of_ranks(&g, ctx, local, WAIT_S) != HD_OK;
  if (out->wrong)
    return;
  out->caches = g->barrier.caches;
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < ELEMS; i++)
      x[i] = (float)(i + g->rank);
    out->wrong += hd_group_all_reduce(x, g, ctx, x, ELEMS, HD_F32, HD_REDUCE_SUM) != HD_OK;
    for (int i = 0; i < ELEMS; i++)
      out->wrong += x[i] != (float)(4 * i + 6);
    one = (float)g->rank;
    out->wrong += hd_group_all_reduce(&one, g, ctx, &one, 1, HD_F32, HD_REDUCE_MAX) != HD_OK || one != 3;
    out->wrong += hd_group_barrier(g, ctx) != HD_OK;
  }
  for (int c = 0; c < 2; c++) /* others may be ahead */
    out->told += (int)(atomic_load(&g->line[RANKS + c].came) - atomic_load(&g->line[g->rank].came)) >= 0;
  out->told = out->told == 2;
  out->wrong += hd_group_new(&some, g, ctx, (int32_t[]){3, 2, 1, 0}, 4) != HD_OK;
  out->wrong += some && some->barrier.caches != 2;
  out->wrong += hd_group_barrier(some, ctx) != HD_OK;
  hd_group_destroy(some);
  const hd_status status =
      g->rank == 2 ? hd_group_barrier(g, ctx) : hd_group_all_reduce(&one, g, ctx, &one, 1, HD_F32, HD_REDUCE_SUM);
  out->wrong += status != HD_E_USAGE || !strstr(hd_ctx_message(ctx), "and rank 2 calls barrier");
  hd_group_destroy(g);
}

/* Ranks are processes: each has a team of threads. */
static void with_ranks(void (*play)(finding *, hd_ctx *, hd_local_group *, const char *), const char *model) {
  pid_t child[RANKS];
  if (hd__local_group_found(&founder, NULL, RANKS, false) != HD_OK)
    bail_out("no local group");
  scratch();
  fflush(stdout);
  for (int r = 0; r < RANKS; r++) {
    found[r] = (finding){.wrong = 1};
    child[r] = fork();
    if (child[r] == 0) {
      hd_ctx *ctx;
      hd_local_group *local;
      alarm(WAIT_S * 4);
      if (hd_ctx_create(&ctx) != HD_OK ||
          hd__local_group_join(&local, ctx, hd__local_group_fd(founder), r, WAIT_S) != HD_OK)
        _exit(1);
      found[r].wrong = 0;
      play(&found[r], ctx, local, model);
      snprintf(found[r].text, sizeof found[r].text, "%s", hd_ctx_message(ctx));
      hd__local_group_leave(local);
      _exit(0);
    }
  }
  for (int r = 0; r < RANKS; r++)
    waitpid(child[r], NULL, 0);
  hd__local_group_leave(founder);
}

static void check_ranks(const char *name, const char *digest) {
  for (int r = 0; r < RANKS; r++) {
    is_int(found[r].wrong, 0, "%s: rank %d finds nothing wrong", name, r);
    if (found[r].wrong)
      diag("%s", found[r].text);
    ok(found[r].caches == 2 && found[r].told, "%s: rank %d: barriers by 2 caches, always", name, r);
    if (digest)
      is_str(found[r].digest, digest, "%s: rank %d has the digest of one thread", name, r);
  }
}

int main(void) {
  static const char *const model[] = {"simplenet", "cnn"};
  found = mmap(NULL, RANKS * sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED)
    bail_out("no shared memory");
  setenv("HWLOC_SYNTHETIC", "l3:2 core:2 pu:1", 1);
  with_ranks(call_as_rank, NULL);
  check_ranks("calls of a group", NULL);
  /* Before this process starts threads: an OpenMP team does not survive a fork. */
  finding ranked[2];
  for (int i = 0; i < 2; i++) {
    with_ranks(train_as_rank, model[i]);
    check_ranks(model[i], NULL);
    ranked[i] = found[3];
  }
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  for (int i = 0; i < 2; i++) {
    finding one, four;
    run_alone(&one, ctx, model[i], "1");
    run_alone(&four, ctx, model[i], "4");
    is_int(one.caches, 1, "%s: one thread: no level of caches", model[i]);
    ok(four.caches == 2 && four.told, "%s: 4 threads: barriers by 2 caches, always", model[i]);
    is_str(four.digest, one.digest, "%s: in the digest of one thread", model[i]);
    is_str(ranked[i].digest, one.digest, "%s: which 4 ranks have, too", model[i]);
  }
  hd_ctx_destroy(ctx);
  return done_testing();
}
