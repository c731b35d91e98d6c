/* Two ranks that ask a shared session for different numbers of steps: both are refused with the same line, at once, and
 * may go on to the digest of ranks that agreed. */
#include "scratch.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "comm/group_state.h"
#include "exec/exchange/local_group_join.h"
#include "heddle.h"

enum { RANKS = 2, WAIT_S = 120 };

typedef struct finding {
  hd_status steps, mixed, rest;
  char text[2][256], digest[2][HD_SHA256_TEXT_BYTES]; /* of sessions whose ranks differed, and did not */
} finding;

static finding *found;

static hd_session *open_session(hd_ctx *ctx, hd_group *group, const char *out) {
  const char *const settings[] = {"model", "simplenet", "threads", "1", "max-steps", "6", "out", out};
  hd_config *config;
  hd_session *s = NULL;
  hd_status status = hd_config_create(&config, ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings && status == HD_OK; i += 2)
    status = hd_config_set(config, ctx, settings[i], settings[i + 1]);
  if (status == HD_OK)
    status = hd_ddp(&s, ctx, config, group);
  hd_config_destroy(config);
  return s;
}

static void differ(finding *out, hd_ctx *ctx, hd_session *s, int rank) {
  out->steps = hd_session_step(NULL, s, ctx, 3 - rank);
  snprintf(out->text[0], sizeof out->text[0], "%s", hd_ctx_message(ctx));
  hd_session_step(NULL, s, ctx, 2);
  out->mixed = rank == 0 ? hd_session_train(s, ctx, NULL, NULL) : hd_session_step(NULL, s, ctx, 1);
  snprintf(out->text[1], sizeof out->text[1], "%s", hd_ctx_message(ctx));
}

static void play(finding *out, hd_ctx *ctx, hd_group *group, int rank) {
  for (int agreed = 0; agreed < 2; agreed++) {
    hd_session *s = open_session(ctx, group, in_scratch("out-%d", agreed));
    if (!s)
      return;
    if (!agreed)
      differ(out, ctx, s, rank);
    out->rest = hd_session_train(s, ctx, NULL, NULL);
    snprintf(out->digest[agreed], sizeof out->digest[agreed], "%s", hd_session_report(s)->weights_sha256);
    hd_session_destroy(s);
  }
}

static void be_rank(hd_local_group *founder, int rank) {
  hd_ctx *ctx;
  hd_local_group *local;
  hd_group *group;
  if (hd_ctx_create(&ctx) != HD_OK ||
      hd__local_group_join(&local, ctx, hd__local_group_fd(founder), rank, WAIT_S) != HD_OK)
    _exit(1);
  hd__local_group_keep_process(local);
  if (hd__group_of_ranks(&group, ctx, local, WAIT_S) == HD_OK) {
    play(&found[rank], ctx, group, rank);
    hd_group_destroy(group);
  }
  hd__local_group_leave(local);
  _exit(0);
}

int main(void) {
  pid_t child[RANKS];
  hd_local_group *founder;
  found = mmap(NULL, RANKS * sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED || hd__local_group_found(&founder, NULL, RANKS, false) != HD_OK)
    bail_out("no shared memory");
  in_scratch("folder");
  for (int r = 0; r < RANKS; r++) {
    found[r].rest = 1;
    child[r] = fork();
    if (child[r] == 0)
      be_rank(founder, r);
  }
  for (int r = 0; r < RANKS; r++)
    waitpid(child[r], NULL, 0);
  hd__local_group_leave(founder);
  for (int r = 0; r < RANKS; r++) {
    const finding *f = &found[r];
    is_int(f->steps, HD_E_USAGE, "rank %d: 3 steps on rank 0, and 2 on rank 1", r);
    is_str(f->text[0],
           "the step up to which a call trains must be the same on all ranks: rank 0 has '3', and rank 1 has '2'; "
           "give all ranks the same",
           "rank %d: by a line with both", r);
    is_int(f->mixed, HD_E_USAGE, "rank %d: all steps on rank 0, and 1 on rank 1", r);
    is_str(f->text[1],
           "the step up to which a call trains must be the same on all ranks: rank 0 has '6', and rank 1 has '3'; "
           "give all ranks the same",
           "rank %d: likewise", r);
    is_int(f->rest, HD_OK, "rank %d: goes on", r);
    ok(*f->digest[0] && !strcmp(f->digest[0], f->digest[1]), "rank %d: to the digest of ranks that agreed", r);
  }
  return done_testing();
}
