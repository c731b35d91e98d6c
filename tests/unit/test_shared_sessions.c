/* A thousand sessions that two ranks share, made and destroyed one after the other in one group: what the ranks share
 * is about as large as after the first ones, and holds as many pages. */
#include "scratch.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "comm/group_state.h"
#include "exec/exchange/local_group_join.h"
#include "heddle.h"

enum { RANKS = 2, FIRST = 10, PIECES = 16, PIECE_BYTES = 4 << 20, TRAINED = 50, WAIT_S = 120, PAGE_BLOCKS = 8 };

static int sessions(void) { return check_depth() > 1 ? 1000 : 300; }

typedef struct finding {
  int wrong;
  struct stat before, after;
  char text[256], digest[2][HD_SHA256_TEXT_BYTES]; /* of the first and of the last one that trained */
} finding;

static finding *found;
static const char *data;

static hd_status use_session(finding *out, hd_ctx *ctx, hd_group *group, int number) {
  const char *const settings[] = {"model",     "simplenet", "data", data,  "threads",
                                  "1",         "batch",     "8",    "out", in_scratch("%d", number),
                                  "max-steps", "3"};
  hd_config *config;
  hd_session *s;
  HD_TRY(hd_config_create(&config, ctx));
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
    HD_TRY(hd_config_set(config, ctx, settings[i], settings[i + 1]));
  HD_TRY(hd_ddp(&s, ctx, config, group));
  if (number % TRAINED == 0) {
    HD_TRY(hd_session_train(s, ctx, NULL, NULL));
    snprintf(out->digest[number > 0], HD_SHA256_TEXT_BYTES, "%s", hd_session_report(s)->weights_sha256);
  }
  hd_session_destroy(s);
  hd_config_destroy(config);
  return HD_OK;
}

static void play(finding *out, hd_ctx *ctx, hd_local_group *local) {
  hd_group *group;
  out->wrong = hd__group_of_ranks(&group, ctx, local, WAIT_S) != HD_OK;
  for (int i = 0; i < sessions() && !out->wrong; i++) {
    out->wrong += use_session(out, ctx, group, i) != HD_OK;
    if (i != FIRST && i != sessions() - 1)
      continue;
    out->wrong += hd_group_barrier(group, ctx) != HD_OK;
    fstat(hd__local_group_fd(local), i == FIRST ? &out->before : &out->after);
    out->wrong += hd_group_barrier(group, ctx) != HD_OK;
  }
  snprintf(out->text, sizeof out->text, "%s", hd_ctx_message(ctx));
  hd_group_destroy(group);
}

static void be_rank(hd_local_group *founder, int rank) {
  hd_ctx *ctx;
  hd_local_group *local;
  if (hd_ctx_create(&ctx) != HD_OK ||
      hd__local_group_join(&local, ctx, hd__local_group_fd(founder), rank, WAIT_S) != HD_OK)
    _exit(1);
  play(&found[rank], ctx, local);
  hd__local_group_leave(local);
  _exit(0);
}

int main(void) {
  const char *build = getenv("BUILDDIR");
  char command[2 * SCRATCH_PATH_BYTES];
  pid_t child[RANKS];
  hd_local_group *founder;
  found = mmap(NULL, RANKS * sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED || hd__local_group_found(&founder, NULL, RANKS, false) != HD_OK)
    bail_out("no shared memory");
  if (access("/dev/shm", W_OK) == 0)
    setenv("TMPDIR", "/dev/shm", 1); /* a thousand runs' folders */
  data = in_scratch("data");
  snprintf(command, sizeof command, "mkdir '%s' && '%s/tests/bits/make_idx' '%s' 120 40", data, build ? build : ".",
           data);
  if (system(command) != 0 || !(data = strdup(data)))
    bail_out("no data set");
  for (int r = 0; r < RANKS; r++) {
    found[r].wrong = -1;
    child[r] = fork();
    if (child[r] == 0)
      be_rank(founder, r);
  }
  for (int r = 0; r < RANKS; r++)
    waitpid(child[r], NULL, 0);
  hd__local_group_leave(founder);
  free((void *)data);
  for (int r = 0; r < RANKS; r++) {
    const finding *f = &found[r];
    is_int(f->wrong, 0, "rank %d: %d sessions came and went", r, sessions());
    if (f->wrong)
      diag("%s", f->text);
    ok(f->after.st_size <= f->before.st_size + PIECES * PIECE_BYTES, /* a rank may be ahead when it takes one */
       "rank %d: the shared memory is about as large as after the first ones: %lld bytes, then %lld", r,
       (long long)f->before.st_size, (long long)f->after.st_size);
    ok(f->after.st_blocks <= f->before.st_blocks + PIECES * PAGE_BLOCKS,
       "rank %d: and has no more pages: %lld blocks, then %lld", r, (long long)f->before.st_blocks,
       (long long)f->after.st_blocks);
    ok(*f->digest[0] && !strcmp(f->digest[0], f->digest[1]), "rank %d: the last ends in the digest of the first", r);
  }
  return done_testing();
}
