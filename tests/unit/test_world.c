/* Worlds: what ranks do together, what is refused, and how all learn that one is lost: killed, stopped, ended, late, or
 * the process that started them. Ranks that are lost are processes, the others threads. */
#include "scratch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "comm/hosts.h"
#include "comm/world.h"
#include "sys/clock.h"
#include "sys/spawn.h"
#include "tap.h"

enum { RANKS = 3, STEP = 7, WAIT_S = 120, BUSY = 2 };

/* It takes 0.4 s at most; a machine that does much else may take longer. */

static hd_ctx *ctx;

/* ---- ranks as threads ---- */

typedef struct member {
  int rank;
  hd_ctx ctx;
  hd_status status;
  int wrong;
} member;

typedef void scene_fn(member *m, hd_world *world);

static hd_world *founder;
static scene_fn *scene;

static void *play(void *arg) {
  member *m = arg;
  hd_world *world;
  m->status = hd__world_join(&world, &m->ctx, hd__world_fd(founder), m->rank, WAIT_S);
  if (m->status != HD_OK)
    return NULL;
  scene(m, world);
  hd__world_leave(world);
  return NULL;
}

static int with_threads(member all[RANKS], scene_fn *fn) {
  pthread_t thread[RANKS];
  int wrong = 0;
  scene = fn;
  if (hd__world_found(&founder, ctx, RANKS, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int r = 0; r < RANKS; r++) {
    all[r] = (member){.rank = r};
    if (pthread_create(&thread[r], NULL, play, &all[r]))
      bail_out("no thread");
  }
  for (int r = 0; r < RANKS; r++) {
    pthread_join(thread[r], NULL);
    wrong += all[r].wrong + (all[r].status != HD_OK);
  }
  hd__world_leave(founder);
  return wrong;
}

static void gather(member *m, hd_world *world) {
  for (int i = 0; i < 200; i++) {
    const int mine[2] = {m->rank, i};
    int all[RANKS][2];
    m->wrong += hd__world_gather(all, world, &m->ctx, mine, sizeof mine) != HD_OK;
    for (int r = 0; r < RANKS; r++)
      m->wrong += all[r][0] != r || all[r][1] != i;
  }
}

static void gather_other_sizes(member *m, hd_world *world) {
  char all[RANKS * 8];
  const hd_status status = hd__world_gather(all, world, &m->ctx, "1234567", m->rank == 1 ? 3 : 4);
  m->wrong += status != HD_E_USAGE || !strstr(m->ctx.message, "do all ranks make the same calls");
}

static void share_memory(member *m, hd_world *world) {
  hd_segment a, b, found;
  m->wrong += hd__world_memory(&a, world, &m->ctx, 100000, "numbers") != HD_OK;
  m->wrong += hd__world_memory(&b, world, &m->ctx, 5 << 20, "more numbers") != HD_OK;
  int *x = a.base, *y = b.base;
  m->wrong += x[RANKS] != 0 || y[m->rank] != 0;
  x[m->rank] = 10 + m->rank;
  y[m->rank] = 20 + m->rank;
  m->wrong += hd__world_meet(world, &m->ctx) != HD_OK;
  for (int r = 0; r < RANKS; r++)
    m->wrong += x[r] != 10 + r || y[r] != 20 + r;
  m->wrong += hd__world_find(&found, world, &m->ctx, "numbers") != HD_OK;
  m->wrong += ((int *)found.base)[2] != 12;
  hd__segment_destroy(&found);
  m->wrong += hd__world_find(&found, world, &m->ctx, "letters") != HD_E_USAGE;
  hd__segment_destroy(&a);
  hd__segment_destroy(&b);
  for (int i = 0; i < 128; i++) { /* the last of them is known by name */
    m->wrong += hd__world_memory(&a, world, &m->ctx, 64, "one of many") != HD_OK;
    if (m->rank == 0)
      *(int *)a.base = i;
    m->wrong += hd__world_meet(world, &m->ctx) != HD_OK;
    m->wrong += hd__world_find(&found, world, &m->ctx, "one of many") != HD_OK || *(int *)found.base != i;
    m->wrong += hd__world_meet(world, &m->ctx) != HD_OK;
    hd__segment_destroy(&found);
    hd__segment_destroy(&a);
  }
}

static void share_other_memory(member *m, hd_world *world) {
  hd_segment a;
  m->wrong += hd__world_memory(&a, world, &m->ctx, m->rank == 2 ? 8 : 16, "numbers") != HD_E_USAGE;
  m->wrong += !strstr(m->ctx.message, "rank 2 wants 8 bytes for numbers and rank 0 16 for numbers");
}

/* All at once, several times: nobody gets what another one has, and the file never becomes shorter. */
static void take(member *m, hd_world *world) {
  enum { TIMES = 20 };
  int32_t mine[TIMES], all[RANKS][TIMES];
  for (int i = 0; i < TIMES; i++)
    m->wrong += hd__world_take(&mine[i], world, &m->ctx, 1000, RANKS) != HD_OK;
  m->wrong += hd__world_gather(all, world, &m->ctx, mine, sizeof mine) != HD_OK;
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < TIMES; i++) {
      hd_segment s;
      for (int j = 0; j < TIMES; j++)
        m->wrong += all[r][i] == mine[j] && (r != m->rank || i != j);
      m->wrong += hd__world_map(&s, world, &m->ctx, all[r][i], "a piece") != HD_OK;
      m->wrong += ((volatile char *)s.base)[999] != 0; /* SIGBUS if the file were too short */
      ((volatile char *)s.base)[m->rank] = 1;
      hd__segment_destroy(&s);
    }
  m->wrong += hd__world_meet(world, &m->ctx) != HD_OK;
}

static struct stat file_of(const hd_world *world) {
  struct stat file = {0};
  fstat(hd__world_fd(world), &file);
  return file;
}

/* What all have destroyed has no pages, is zero when it comes back, and is not found any more; and nothing is added to
 * the file by what comes and goes. */
static void give_back(member *m, hd_world *world) {
  enum { TIMES = 1000, BYTES = 3 << 20 };
  hd_segment a, b;
  m->wrong += hd__world_memory(&a, world, &m->ctx, BYTES, "what comes and goes") != HD_OK;
  hd__segment_destroy(&a);
  m->wrong += hd__world_meet(world, &m->ctx) != HD_OK;
  const struct stat before = file_of(world);
  for (int i = 0; i < TIMES; i++) {
    m->wrong += hd__world_memory(&a, world, &m->ctx, BYTES - 4096 * (size_t)(i % 5), "what comes and goes") != HD_OK;
    m->wrong += ((volatile int *)a.base)[m->rank] != 0;
    ((volatile int *)a.base)[m->rank] = i;
    if (i == 0) { /* held by some is held */
      m->wrong += hd__world_find(&b, world, &m->ctx, "what comes and goes") != HD_OK || b.held;
      hd__segment_destroy(&b);
    }
    hd__segment_destroy(&a);
    m->wrong += hd__world_meet(world, &m->ctx) != HD_OK;
  }
  m->wrong += hd__world_find(&b, world, &m->ctx, "what comes and goes") != HD_E_USAGE;
  const struct stat after = file_of(world);
  m->wrong += after.st_size != before.st_size || after.st_blocks != before.st_blocks;
}

static void agree(member *m, hd_world *world) {
  const char *const texts[RANKS] = {"a: 1\nb: 2\n", "a: 1\nb: 2\n", "a: 1\nb: 3\n"};
  m->wrong += hd__hosts_agree(world, &m->ctx, "settings", "same\n") != HD_OK;
  m->wrong += hd__hosts_agree(world, &m->ctx, "settings", texts[m->rank]) != HD_E_USAGE;
  m->wrong += strcmp(m->ctx.message, "expected all ranks to have the same settings, found that rank 0 has 'b: 2' and "
                                     "rank 2 'b: 3'; give all of them the same") != 0;
}

static void give_up(member *m, hd_world *world) {
  hd__world_keep_process(world);
  m->wrong += hd__world_meet(world, &m->ctx) != HD_OK; /* all are there */
  if (m->rank == 1)
    hd__world_give_up(world, "the disk is full");
  while (hd__world_meet(world, &m->ctx) == HD_OK)
    ;
  m->wrong += hd__world_check(world, &m->ctx) != HD_E_PEER || !strstr(m->ctx.message, "rank 1 (pid ") ||
              !strstr(m->ctx.message, ") gave up: the disk is full");
}

static void test_together(void) {
  static const struct {
    const char *name;
    scene_fn *fn;
  } scenes[] = {{"what all hand in comes in the order of ranks", gather},
                {"unequal sizes are refused", gather_other_sizes},
                {"memory is shared, zeroed and found by name", share_memory},
                {"unequal memory is refused", share_other_memory},
                {"all take pieces at once", take},
                {"what all have given back is there again", give_back},
                {"texts agree, or the first line that differs is named", agree},
                {"a rank that gives up says why to all", give_up}};
  member all[RANKS];
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
    is_int(with_threads(all, scenes[i].fn), 0, "%s: %s", scenes[i].name, all[0].ctx.message);
}

/* ---- joining ---- */

static void *join_first(void *arg) {
  member *m = arg;
  hd_world *world;
  m->status = hd__world_join(&world, &m->ctx, hd__world_fd(founder), m->rank, 0.2);
  hd__world_leave(world);
  return NULL;
}

static void is_refused(hd_status status, hd_status want, const char *text, const char *name) {
  ok(status == want && strstr(hd_ctx_message(ctx), text), "%s: %s", name, hd_ctx_message(ctx));
}

static void test_refused(void) {
  hd_world *world;
  char number[32];
  is_refused(hd__world_found(&world, ctx, 0, false), HD_E_USAGE, "1 to 1024 ranks, found 0", "no ranks");
  is_refused(hd__world_found(&world, ctx, 1025, false), HD_E_USAGE, "1 to 1024 ranks, found 1025", "too many ranks");
  if (hd__world_found(&founder, ctx, 20, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  is_refused(hd__world_join(&world, ctx, hd__world_fd(founder), 20, 1), HD_E_USAGE, "a rank from 0 to 19, found 20",
             "a rank out of range");
  is_refused(hd__world_join(&world, ctx, hd__world_fd(founder), -1, 1), HD_E_USAGE, "from 0 to 19, found -1",
             "and below");
  member one = {.rank = 5};
  pthread_t thread;
  pthread_create(&thread, NULL, join_first, &one);
  pthread_join(thread, NULL);
  ok(one.status == HD_E_TIMEOUT &&
         strstr(one.ctx.message, "ranks 0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
                                 "... did not"),
     "who does not come is named: %s", one.ctx.message);
  hd__world_leave(founder);
  if (hd__world_found(&founder, ctx, 2, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  one = (member){.rank = 1};
  pthread_create(&thread, NULL, join_first, &one);
  while (hd__world_view(founder, 1).state != HD_RANK_JOINED && hd__world_view(founder, 1).state != HD_RANK_LEFT)
    usleep(1000);
  snprintf(number, sizeof number, "taken by pid %d;", (int)getpid());
  is_refused(hd__world_join(&world, ctx, hd__world_fd(founder), 1, 1), HD_E_USAGE, number, "a rank that is taken");
  pthread_join(thread, NULL);
  ok(one.status == HD_E_TIMEOUT && strstr(one.ctx.message, "rank 0 did not"), "one that is missing: %s",
     one.ctx.message);
  hd__world_leave(founder);
  is_refused(hd__world_join(&world, ctx, 0, 0, 1), HD_E_USAGE, "the memory of the ranks at descriptor 0",
             "no world's file");
  is_refused(hd__world_join(&world, ctx, 999, 0, 1), HD_E_USAGE, "the memory of the ranks at descriptor 999",
             "no file");
}

/* What the file has no room for takes nothing: not one of the pieces, of which there are HD_WORLD_PIECES, and no place
 * in the file, behind which the next one would find no room either. */
static void test_no_room(void) {
  enum { MIB = 1 << 20 };
  struct rlimit was, little;
  int32_t piece, other;
  int wrong = 0;
  if (hd__world_found(&founder, ctx, 1, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  getrlimit(RLIMIT_FSIZE, &was);
  little = was;
  little.rlim_cur = 64 * MIB;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &little);
  const hd_status refused = hd__world_take(&piece, founder, ctx, 100 * MIB, 1);
  is_refused(refused, HD_E_NOMEM, "expected 100 MiB", "more than the file may hold");
  for (int i = 0; i < HD_WORLD_PIECES + 1; i++)
    wrong += hd__world_take(&piece, founder, NULL, 100 * MIB, 1) != HD_E_NOMEM;
  const hd_status first = hd__world_take(&piece, founder, ctx, 10 * MIB, 1);
  const hd_status second = hd__world_take(&other, founder, ctx, 10 * MIB, 1);
  setrlimit(RLIMIT_FSIZE, &was);
  is_int(wrong, 0, "however often it is asked for");
  ok(first == HD_OK && second == HD_OK && piece != other, "and less is there afterwards: %s", hd_ctx_message(ctx));
  hd__world_leave(founder);
}

/* ---- ranks as processes ---- */

/* Says how it ended: status and message. */
static void report(const char *path, hd_status status, const char *message) {
  char text[HD_MESSAGE_BYTES + 32];
  snprintf(text, sizeof text, "%d %s", (int)status, message);
  put_file(path, text, strlen(text));
}

static void leave_at_once(int number) { _exit(3); }

/* A rank: meets and meets, until it is told that there is no use in it. */
static int be_rank(const char *what, const char *path) {
  hd_world *world;
  hd_ctx_create(&ctx);
  signal(SIGUSR1, leave_at_once);
  signal(SIGSEGV, SIG_DFL); /* a sanitizer has its own idea */
  hd_status status = hd__world_join_launched(&world, ctx, WAIT_S);
  const int rank = hd__world_rank(world);
  if (status == HD_OK) {
    hd__world_set_patience(world, strcmp(what, "late") ? WAIT_S : 0.3);
    hd__world_step(world, STEP);
    while (rank == 1 || (!strcmp(what, "busy") && rank == BUSY))
      pause(); /* looks at nothing */
    while ((status = hd__world_meet(world, ctx)) == HD_OK)
      ;
  }
  report(path, status, hd_ctx_message(ctx));
  hd__world_leave(world);
  hd_ctx_destroy(ctx);
  return status == HD_E_PEER ? 4 : 5;
}

static pid_t start_rank(int fd, const char *what, int rank, const char *path) {
  char variable[64];
  const char *const set[] = {variable, NULL};
  char *const argv[] = {(char *)"test_world", (char *)what, (char *)path, NULL};
  pid_t pid;
  snprintf(variable, sizeof variable, HD_WORLD_VARIABLE "=%d/%d", rank, RANKS);
  if (hd__spawn(&pid, ctx, &(hd_spawn_how){.argv = argv, .set = set, .fd = fd}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return pid;
}

/* Between the test and its ranks, to be killed. */
static int be_parent(const char *path) {
  char own[SCRATCH_PATH_BYTES + 16];
  hd_ctx_create(&ctx);
  if (hd__world_found(&founder, ctx, RANKS, true) != HD_OK)
    return 1;
  for (int r = 0; r < RANKS; r++) {
    snprintf(own, sizeof own, "%s-%d", path, r);
    start_rank(hd__world_fd(founder), "orphans", r, own);
  }
  for (int r = 0; r < RANKS; r++)
    while (hd__world_view(founder, r).step != STEP)
      usleep(1000);
  return raise(SIGKILL);
}

static char *read_report(const char *path) {
  static char text[HD_MESSAGE_BYTES + 64];
  FILE *file = fopen(path, "r");
  text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
  if (file)
    fclose(file);
  return text;
}

static int end_of(pid_t pid) {
  int how;
  while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
    ;
  return how;
}

static void test_loss(const char *what, int number, const char *text) {
  char path[RANKS][SCRATCH_PATH_BYTES], want[256];
  pid_t pid[RANKS];
  if (hd__world_found(&founder, ctx, RANKS, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int r = 0; r < RANKS; r++) {
    snprintf(path[r], sizeof path[r], "%s", in_scratch("%s-%d", what, r));
    pid[r] = start_rank(hd__world_fd(founder), what, r, path[r]);
  }
  for (int r = 0; r < RANKS; r++)
    while (hd__world_view(founder, r).step != STEP)
      usleep(1000);
  const double begin_s = hd__clock_s();
  if (number)
    kill(pid[1], number);
  char host[HD_FAULT_HOST_BYTES] = "";
  gethostname(host, sizeof host - 1);
  snprintf(want, sizeof want, "%d rank 1 (pid %d on %s) %s", HD_E_PEER, (int)pid[1], host, text);
  for (int r = 0; r < RANKS; r += 2) {
    const int how = end_of(pid[r]);
    const bool unheard = !strcmp(what, "busy") && r == BUSY, ended = WIFEXITED(how) && WEXITSTATUS(how) == 1;
    /* On a busy machine, one that would have looked in a moment is ended, too. */
    ok(ended || (!unheard && WIFEXITED(how) && WEXITSTATUS(how) == 4), "%s: rank %d ends with status %d", what, r,
       WEXITSTATUS(how));
    if (!ended && !ok(!strncmp(read_report(path[r]), want, strlen(want)), "and says: %s", read_report(path[r])))
      diag("expected '%s'", want);
  }
  const double took_s = hd__clock_s() - begin_s;
  diag("they were told and gone in %.2f s", took_s);
  kill(pid[1], SIGKILL);
  end_of(pid[1]);
  hd__world_leave(founder);
}

static void test_orphans(void) {
  char path[SCRATCH_PATH_BYTES], own[SCRATCH_PATH_BYTES + 16], want[128];
  int how, heard = 0, ended = 0, silent = 1; /* rank 1 looks at nothing */
  pid_t parent;
  snprintf(path, sizeof path, "%s", in_scratch("orphan"));
  char *const argv[] = {(char *)"test_world", (char *)"parent", path, NULL};
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (hd__spawn(&parent, ctx, &(hd_spawn_how){.argv = argv, .fd = -1}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  end_of(parent);
  for (pid_t pid; (pid = wait(&how)) > 0 || errno == EINTR;)
    if (pid > 0) {
      heard += WIFEXITED(how) && WEXITSTATUS(how) == 4;
      ended += WIFEXITED(how) && WEXITSTATUS(how) == 1;
    }
  for (int r = 0; r < RANKS; r += 2) {
    snprintf(own, sizeof own, "%s-%d", path, r);
    snprintf(want, sizeof want, "%d the process that started the ranks (pid %d on ", HD_E_PEER, (int)parent);
    silent += !*read_report(own);
    ok(!*read_report(own) || !strncmp(read_report(own), want, strlen(want)), "orphan %d: %s", r, read_report(own));
  }
  /* On a busy machine, one that would have looked in a moment is ended, too. */
  ok(heard + ended == RANKS && ended == silent, "%d of them heard, %d were ended", heard, ended);
}

int main(int argc, char **argv) {
  if (argc == 3)
    return strcmp(argv[1], "parent") ? be_rank(argv[1], argv[2]) : be_parent(argv[2]);
  hd_ctx_create(&ctx);
  test_together();
  test_refused();
  test_no_room();
  test_loss("killed", SIGKILL, "was killed by signal 9 (Killed) after step 7");
  test_loss("crashed", SIGSEGV, "was killed by signal 11 (Segmentation fault) after step 7");
  test_loss("stopped", SIGSTOP, "is stopped, by SIGSTOP or a debugger, after step 7");
  test_loss("exits", SIGUSR1, "ended with exit status 3 in the middle of the run after step 7");
  test_loss("late", 0, "lives, but has not come to a meeting for 0 s");
  test_loss("busy", SIGKILL, "was killed by signal 9 (Killed) after step 7");
  test_orphans();
  hd_ctx_destroy(ctx);
  return done_testing();
}
