/* Local groups: operations of the ranks, what is refused, and the report of a lost rank to all others: killed, stopped,
 * ended, late, or the process that started them. Ranks that are lost are processes, the others threads. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "exec/exchange/cluster.h"
#include "exec/exchange/local_group_join.h"
#include "exec/exchange/local_group_state.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/spawn.h"
#include "tap.h"
#include "train/placement/rank_threads.h"

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

typedef void scene_fn(member *m, hd_local_group *local);

static hd_local_group *founder;
static scene_fn *scene;

static void *play(void *arg) {
  member *m = arg;
  hd_local_group *local;
  m->status = hd__local_group_join(&local, &m->ctx, hd__local_group_fd(founder), m->rank, WAIT_S);
  if (m->status != HD_OK)
    return NULL;
  scene(m, local);
  hd__local_group_leave(local);
  return NULL;
}

static int with_threads(member all[RANKS], scene_fn *fn) {
  pthread_t thread[RANKS];
  int wrong = 0;
  scene = fn;
  if (hd__local_group_found(&founder, ctx, RANKS, false) != HD_OK)
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
  hd__local_group_leave(founder);
  return wrong;
}

static void gather(member *m, hd_local_group *local) {
  for (int i = 0; i < 200; i++) {
    const int of_rank[2] = {m->rank, i};
    int all[RANKS][2];
    m->wrong += hd__local_group_gather(all, local, &m->ctx, of_rank, sizeof of_rank) != HD_OK;
    for (int r = 0; r < RANKS; r++)
      m->wrong += all[r][0] != r || all[r][1] != i;
  }
}

static void gather_other_sizes(member *m, hd_local_group *local) {
  char all[RANKS * 8];
  const hd_status status = hd__local_group_gather(all, local, &m->ctx, "1234567", m->rank == 1 ? 3 : 4);
  m->wrong += status != HD_E_USAGE || !strstr(m->ctx.message, "do all ranks make the same calls");
}

static void share_memory(member *m, hd_local_group *local) {
  hd_segment a, b, found;
  m->wrong += hd__local_group_memory(&a, local, &m->ctx, 100000, "numbers") != HD_OK;
  m->wrong += hd__local_group_memory(&b, local, &m->ctx, 5 << 20, "more numbers") != HD_OK;
  int *x = a.base, *y = b.base;
  m->wrong += x[RANKS] != 0 || y[m->rank] != 0;
  x[m->rank] = 10 + m->rank;
  y[m->rank] = 20 + m->rank;
  m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK;
  for (int r = 0; r < RANKS; r++)
    m->wrong += x[r] != 10 + r || y[r] != 20 + r;
  m->wrong += hd__local_group_find(&found, local, &m->ctx, "numbers") != HD_OK;
  m->wrong += ((int *)found.base)[2] != 12;
  hd__segment_destroy(&found);
  m->wrong += hd__local_group_find(&found, local, &m->ctx, "letters") != HD_E_USAGE;
  hd__segment_destroy(&a);
  hd__segment_destroy(&b);
  for (int i = 0; i < 128; i++) { /* the last of them is named */
    m->wrong += hd__local_group_memory(&a, local, &m->ctx, 64, "one of many") != HD_OK;
    if (m->rank == 0)
      *(int *)a.base = i;
    m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK;
    m->wrong += hd__local_group_find(&found, local, &m->ctx, "one of many") != HD_OK || *(int *)found.base != i;
    m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK;
    hd__segment_destroy(&found);
    hd__segment_destroy(&a);
  }
}

static void share_other_memory(member *m, hd_local_group *local) {
  hd_segment a;
  m->wrong += hd__local_group_memory(&a, local, &m->ctx, m->rank == 2 ? 8 : 16, "numbers") != HD_E_USAGE;
  m->wrong += !strstr(m->ctx.message, "rank 2 wants 8 bytes for numbers and rank 0 16 for numbers");
}

/* All ranks at once, several times: no block is given out twice, and the file never becomes shorter. */
static void take(member *m, hd_local_group *local) {
  enum { TIMES = 20 };
  int32_t of_rank[TIMES], all[RANKS][TIMES];
  for (int i = 0; i < TIMES; i++)
    m->wrong += hd__local_group_allocate(&of_rank[i], local, &m->ctx, 1000, RANKS) != HD_OK;
  m->wrong += hd__local_group_gather(all, local, &m->ctx, of_rank, sizeof of_rank) != HD_OK;
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < TIMES; i++) {
      hd_segment s;
      for (int j = 0; j < TIMES; j++)
        m->wrong += all[r][i] == of_rank[j] && (r != m->rank || i != j);
      m->wrong += hd__local_group_map(&s, local, &m->ctx, all[r][i], "a block") != HD_OK;
      m->wrong += ((volatile char *)s.base)[999] != 0; /* SIGBUS if the file were too short */
      ((volatile char *)s.base)[m->rank] = 1;
      hd__segment_destroy(&s);
    }
  m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK;
}

static struct stat file_of(const hd_local_group *local) {
  struct stat file = {0};
  fstat(hd__local_group_fd(local), &file);
  return file;
}

/* What all have destroyed has no pages, is zero when it comes back, and is not found any more; and nothing is added to
 * the file by what comes and goes. */
static void give_back(member *m, hd_local_group *local) {
  enum { TIMES = 1000, BYTES = 3 << 20 };
  hd_segment a, b;
  m->wrong += hd__local_group_memory(&a, local, &m->ctx, BYTES, "what comes and goes") != HD_OK;
  hd__segment_destroy(&a);
  m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK;
  const struct stat before = file_of(local);
  for (int i = 0; i < TIMES; i++) {
    m->wrong +=
        hd__local_group_memory(&a, local, &m->ctx, BYTES - 4096 * (size_t)(i % 5), "what comes and goes") != HD_OK;
    m->wrong += ((volatile int *)a.base)[m->rank] != 0;
    ((volatile int *)a.base)[m->rank] = i;
    if (i == 0) { /* held by some is held */
      m->wrong += hd__local_group_find(&b, local, &m->ctx, "what comes and goes") != HD_OK || b.held;
      hd__segment_destroy(&b);
    }
    hd__segment_destroy(&a);
    m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK;
  }
  m->wrong += hd__local_group_find(&b, local, &m->ctx, "what comes and goes") != HD_E_USAGE;
  const struct stat after = file_of(local);
  m->wrong += after.st_size != before.st_size || after.st_blocks != before.st_blocks;
}

/* Whether the ranks, of which rank 2 has another text, all get this message; "": the texts are equal. */
static bool is_compared(member *m, hd_local_group *local, const char *text, const char *other, const char *message) {
  const hd_status status = hd__cluster_compare(local, &m->ctx, m->rank == 2 ? other : text);
  if (!*message)
    return status == HD_OK;
  return status == HD_E_USAGE && !strcmp(m->ctx.message, message);
}

/* A difference behind the first 3,000 bytes of a value is shown by what lies around it. */
static bool long_values_are_compared(member *m, hd_local_group *local) {
  enum { BEFORE = 3000, BEHIND = 200 };
  char text[BEFORE + BEHIND + 16] = "", other[sizeof text];
  strcat(text, "--x\t");
  memset(text + 4, 'a', BEFORE + BEHIND);
  snprintf(other, sizeof other, "%s", text);
  other[BEFORE] = 'b';
  const bool differ = hd__cluster_compare(local, &m->ctx, m->rank == 2 ? other : text) == HD_E_USAGE;
  return differ && strstr(m->ctx.message, "--x must be the same on all ranks: ranks 0-1 have '...aaa") &&
         strstr(m->ctx.message, "aaa...', and rank 2 has '...aaa") && strstr(m->ctx.message, "abaaa") &&
         strlen(m->ctx.message) < 400;
}

static void agree(member *m, hd_local_group *local) {
  m->wrong += !is_compared(m, local, "a\t1\n", "a\t1\n", "");
  m->wrong += !is_compared(m, local, "a\t1\nb\t2\n", "a\t1\nb\t3\n",
                           "b must be the same on all ranks: ranks 0-1 have '2', and rank 2 has '3'; give all ranks "
                           "the same");
  m->wrong += !is_compared(m, local, "a\t1\nb\t\n", "a\t1\nb\t3\n",
                           "b must be the same on all ranks: ranks 0-1 have none, and rank 2 has '3'; give all ranks "
                           "the same");
  m->wrong += !is_compared(m, local, "a\t1\n", "a\t1\nc\t3\n",
                           "c must be the same on all ranks: ranks 0-1 have none, and rank 2 has '3'; give all ranks "
                           "the same");
  m->wrong += !long_values_are_compared(m, local);
}

/* Rank 0 places the loader workers of all ranks, also where it has fewer than another rank. */
static void place_workers(member *m, hd_local_group *local) {
  hd_threads *threads;
  const hd_placement_request request = {.policy = HD_PLACEMENT_COMPACT, .threads = 1, .workers = m->rank == 2 ? 3 : 0};
  m->wrong += hd__rank_threads_open(&threads, &m->ctx, local, &request) != HD_OK;
  if (m->wrong)
    return;
  const hd_binding *place = hd__threads_workers(threads);
  m->wrong += (place != NULL) != (m->rank == 2);
  for (int i = 0; place && i < request.workers; i++)
    m->wrong += place[i].cpu < -1;
  hd__threads_destroy(threads);
}

/* A fault of another host keeps the step that it was reported with there, though this host has come further. */
static void hear(member *m, hd_local_group *local) {
  const hd_fault fault = {
      .kind = HD_FAULT_SIGNAL, .rank = -1, .global_rank = 5, .number = 9, .step = STEP, .host = "b"};
  hd__local_group_keep_process(local);
  hd__local_group_step(local, STEP + 1);
  m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK;
  if (m->rank == 0)
    hd__local_group_break(local, &fault);
  while (hd__local_group_barrier(local, &m->ctx) == HD_OK)
    ;
  m->wrong += !strstr(m->ctx.message, "rank 5 (pid 0 on b) was killed by signal 9 (Killed) after step 7");
}

static void give_up(member *m, hd_local_group *local) {
  hd__local_group_keep_process(local);
  m->wrong += hd__local_group_barrier(local, &m->ctx) != HD_OK; /* all are there */
  if (m->rank == 1)
    hd__local_group_give_up(local, "the disk is full");
  while (hd__local_group_barrier(local, &m->ctx) == HD_OK)
    ;
  m->wrong += hd__local_group_check(local, &m->ctx) != HD_E_PEER || !strstr(m->ctx.message, "rank 1 (pid ") ||
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
                {"all take blocks at once", take},
                {"what all have given back is there again", give_back},
                {"values agree, or the first that differs is named", agree},
                {"each rank has places for its own loader workers", place_workers},
                {"a fault of another host keeps its step", hear},
                {"a rank that gives up sends its message to all", give_up}};
  member all[RANKS];
  for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
    is_int(with_threads(all, scenes[i].fn), 0, "%s: %s", scenes[i].name, all[0].ctx.message);
}

/* ---- joining ---- */

static void *join_first(void *arg) {
  member *m = arg;
  hd_local_group *local;
  m->status = hd__local_group_join(&local, &m->ctx, hd__local_group_fd(founder), m->rank, 0.2);
  hd__local_group_leave(local);
  return NULL;
}

static void is_refused(hd_status status, hd_status want, const char *text, const char *name) {
  ok(status == want && strstr(hd_ctx_message(ctx), text), "%s: %s", name, hd_ctx_message(ctx));
}

static void test_refused(void) {
  hd_local_group *local;
  char number[32];
  is_refused(hd__local_group_found(&local, ctx, 0, false), HD_E_USAGE, "1 to 1024 ranks, found 0", "no ranks");
  is_refused(hd__local_group_found(&local, ctx, 1025, false), HD_E_USAGE, "1 to 1024 ranks, found 1025",
             "too many ranks");
  if (hd__local_group_found(&founder, ctx, 20, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  is_refused(hd__local_group_join(&local, ctx, hd__local_group_fd(founder), 20, 1), HD_E_USAGE,
             "a rank from 0 to 19, found 20", "a rank out of range");
  is_refused(hd__local_group_join(&local, ctx, hd__local_group_fd(founder), -1, 1), HD_E_USAGE,
             "from 0 to 19, found -1", "and below");
  member one = {.rank = 5};
  pthread_t thread;
  pthread_create(&thread, NULL, join_first, &one);
  pthread_join(thread, NULL);
  ok(one.status == HD_E_TIMEOUT &&
         strstr(one.ctx.message, "ranks 0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, "
                                 "... did not"),
     "a rank that does not come is named: %s", one.ctx.message);
  hd__local_group_leave(founder);
  if (hd__local_group_found(&founder, ctx, 2, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  one = (member){.rank = 1};
  pthread_create(&thread, NULL, join_first, &one);
  while (hd__local_group_view(founder, 1).state != HD_RANK_JOINED &&
         hd__local_group_view(founder, 1).state != HD_RANK_LEFT)
    usleep(1000);
  snprintf(number, sizeof number, "taken by pid %d;", (int)getpid());
  is_refused(hd__local_group_join(&local, ctx, hd__local_group_fd(founder), 1, 1), HD_E_USAGE, number,
             "a rank that is taken");
  pthread_join(thread, NULL);
  ok(one.status == HD_E_TIMEOUT && strstr(one.ctx.message, "rank 0 did not"), "one that is missing: %s",
     one.ctx.message);
  hd__local_group_leave(founder);
  is_refused(hd__local_group_join(&local, ctx, 0, 0, 1), HD_E_USAGE, "the memory of the ranks at descriptor 0",
             "not the file of a local group");
  is_refused(hd__local_group_join(&local, ctx, 999, 0, 1), HD_E_USAGE, "the memory of the ranks at descriptor 999",
             "no file");
}

/* A request beyond the limit of the file takes nothing: none of the HD_LOCAL_GROUP_BLOCKS blocks, and no space in the
 * file, which would leave no room for the next one. */
static void test_no_room(void) {
  enum { MIB = 1 << 20 };
  struct rlimit was, little;
  int32_t block, other;
  int wrong = 0;
  if (hd__local_group_found(&founder, ctx, 1, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  getrlimit(RLIMIT_FSIZE, &was);
  little = was;
  little.rlim_cur = 64 * MIB;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &little);
  const hd_status refused = hd__local_group_allocate(&block, founder, ctx, 100 * MIB, 1);
  is_refused(refused, HD_E_NOMEM, "cannot get 100 MiB", "more than the file may hold");
  for (int i = 0; i < HD_LOCAL_GROUP_BLOCKS + 1; i++)
    wrong += hd__local_group_allocate(&block, founder, NULL, 100 * MIB, 1) != HD_E_NOMEM;
  const hd_status first = hd__local_group_allocate(&block, founder, ctx, 10 * MIB, 1);
  const hd_status second = hd__local_group_allocate(&other, founder, ctx, 10 * MIB, 1);
  setrlimit(RLIMIT_FSIZE, &was);
  is_int(wrong, 0, "however often it is requested");
  ok(first == HD_OK && second == HD_OK && block != other, "and less is there afterwards: %s", hd_ctx_message(ctx));
  hd__local_group_leave(founder);
}

/* A rank that adds a block counts it before it takes it: until then no other rank may have it, for 0 bytes neither. */
static void test_block_of_another(void) {
  int32_t block[2];
  if (hd__local_group_found(&founder, ctx, 1, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const int added = atomic_fetch_add(&founder->head->blocks, 1);
  for (int i = 0; i < 2; i++)
    if (hd__local_group_allocate(&block[i], founder, ctx, 0, 1) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  ok(block[0] != added && block[1] != added && block[0] != block[1], "0 bytes: blocks %d and %d, not %d", (int)block[0],
     (int)block[1], added);
  hd__local_group_release(founder, block[0]);
  if (hd__local_group_allocate(&block[1], founder, ctx, 0, 1) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  is_int(block[1], block[0], "a block that was given back is used again");
  hd__local_group_leave(founder);
}

/* ---- ranks as processes ---- */

/* Reports how it ended: status and message. */
static void report(const char *path, hd_status status, const char *message) {
  char text[HD_MESSAGE_BYTES + 32];
  snprintf(text, sizeof text, "%d %s", (int)status, message);
  put_file(path, text, strlen(text));
}

static void leave_at_once(int number) { _exit(3); }

/* A pipe that is full, and that no process will read. */
static void fill_stderr(void) {
  static const char block[4096];
  int ends[2];
  if (pipe2(ends, O_NONBLOCK) != 0)
    _exit(9);
  while (write(ends[1], block, sizeof block) > 0)
    ;
  fcntl(ends[1], F_SETFL, 0);
  dup2(ends[1], STDERR_FILENO);
}

/* Rank 1 leaves and ends; to the others, whose threads that watch have had time to look, nothing has happened. */
static hd_status outlive(hd_local_group *local) {
  const int rank = hd__local_group_rank(local);
  if (rank == 1)
    return HD_OK;
  for (hd_rank_view view; view = hd__local_group_view(local, 1),
                          view.state != HD_RANK_LEFT || !hd__process_read(view.pid, view.start).has_ended;)
    usleep(1000);
  usleep(300000);
  return hd__local_group_check(local, ctx);
}

/* A rank: waits at barriers until one fails. */
static int be_rank(const char *what, const char *path) {
  hd_local_group *local;
  hd_ctx_create(&ctx);
  signal(SIGUSR1, leave_at_once);
  signal(SIGSEGV, SIG_DFL); /* a sanitizer ends otherwise */
  hd_status status = hd__local_group_join_launched(&local, ctx, WAIT_S);
  const int rank = hd__local_group_rank(local);
  if (status == HD_OK && !strcmp(what, "leaves")) {
    status = outlive(local);
  } else if (status == HD_OK) {
    hd__local_group_set_timeout(local, strcmp(what, "late") ? WAIT_S : 0.3);
    hd__local_group_step(local, STEP);
    if (!strcmp(what, "deaf") && rank == BUSY)
      fill_stderr();
    while (rank == 1 || ((!strcmp(what, "busy") || !strcmp(what, "deaf")) && rank == BUSY))
      pause(); /* looks at nothing */
    while ((status = hd__local_group_barrier(local, ctx)) == HD_OK)
      ;
  }
  report(path, status, hd_ctx_message(ctx));
  hd__local_group_leave(local);
  hd_ctx_destroy(ctx);
  return status == HD_OK ? 0 : status == HD_E_PEER ? 4 : 5;
}

static pid_t start_rank(int fd, const char *what, int rank, const char *path) {
  char variable[64];
  const char *const set[] = {variable, NULL};
  char *const argv[] = {(char *)"test_world", (char *)what, (char *)path, NULL};
  pid_t pid;
  snprintf(variable, sizeof variable, HD_LOCAL_GROUP_VARIABLE "=%d/%d", rank, RANKS);
  if (hd__spawn(&pid, ctx, &(hd_spawn_how){.argv = argv, .set = set, .fd = fd}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return pid;
}

/* Between the test and its ranks, to be killed. */
static int be_parent(const char *path) {
  char own[SCRATCH_PATH_BYTES + 16];
  hd_ctx_create(&ctx);
  if (hd__local_group_found(&founder, ctx, RANKS, true) != HD_OK)
    return 1;
  for (int r = 0; r < RANKS; r++) {
    snprintf(own, sizeof own, "%s-%d", path, r);
    start_rank(hd__local_group_fd(founder), "orphans", r, own);
  }
  for (int r = 0; r < RANKS; r++)
    while (hd__local_group_view(founder, r).step != STEP)
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

static int reports; /* of losses, by ranks that noticed them themselves */

static void test_loss(const char *what, int number, const char *text) {
  char path[RANKS][SCRATCH_PATH_BYTES], want[256];
  pid_t pid[RANKS];
  if (hd__local_group_found(&founder, ctx, RANKS, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int r = 0; r < RANKS; r++) {
    snprintf(path[r], sizeof path[r], "%s", in_scratch("%s-%d", what, r));
    pid[r] = start_rank(hd__local_group_fd(founder), what, r, path[r]);
  }
  for (int r = 0; r < RANKS; r++)
    while (hd__local_group_view(founder, r).step != STEP)
      usleep(1000);
  const double begin_s = hd__clock_s();
  if (number)
    kill(pid[1], number);
  char host[HD_FAULT_HOST_BYTES] = "";
  gethostname(host, sizeof host - 1);
  snprintf(want, sizeof want, "%d rank 1 (pid %d on %s) %s", HD_E_PEER, (int)pid[1], host, text);
  for (int r = 0; r < RANKS; r += 2) {
    const int how = end_of(pid[r]);
    const bool unheard = (!strcmp(what, "busy") || !strcmp(what, "deaf")) && r == BUSY,
               ended = WIFEXITED(how) && WEXITSTATUS(how) == 1;
    /* On a busy machine, one that would have looked in a moment is ended, too. */
    ok(ended || (!unheard && WIFEXITED(how) && WEXITSTATUS(how) == 4), "%s: rank %d ends with status %d", what, r,
       WEXITSTATUS(how));
    reports += !ended;
    if (!ended && !ok(!strncmp(read_report(path[r]), want, strlen(want)), "and reports: %s", read_report(path[r])))
      diag("expected '%s'", want);
  }
  const double took_s = hd__clock_s() - begin_s;
  diag("they were notified and ended in %.2f s", took_s);
  kill(pid[1], SIGKILL);
  end_of(pid[1]);
  hd__local_group_leave(founder);
}

static void test_leaving(void) {
  char path[RANKS][SCRATCH_PATH_BYTES];
  pid_t pid[RANKS];
  if (hd__local_group_found(&founder, ctx, RANKS, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int r = 0; r < RANKS; r++) {
    snprintf(path[r], sizeof path[r], "%s", in_scratch("leaves-%d", r));
    pid[r] = start_rank(hd__local_group_fd(founder), "leaves", r, path[r]);
  }
  is_int(end_of(pid[1]), 0, "a rank leaves and ends");
  for (int r = 0; r < RANKS; r += 2) {
    is_int(end_of(pid[r]), 0, "which is no loss to rank %d", r);
    diag("%s", read_report(path[r]));
  }
  hd__local_group_leave(founder);
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
  ok(heard + ended == RANKS && ended == silent, "%d of them got the report, %d were ended", heard, ended);
}

int main(int argc, char **argv) {
  if (argc == 3)
    return strcmp(argv[1], "parent") ? be_rank(argv[1], argv[2]) : be_parent(argv[2]);
  hd_ctx_create(&ctx);
  test_together();
  test_refused();
  test_no_room();
  test_block_of_another();
  test_loss("killed", SIGKILL, "was killed by signal 9 (Killed) after step 7");
  test_loss("crashed", SIGSEGV, "was killed by signal 11 (Segmentation fault) after step 7");
  test_loss("stopped", SIGSTOP, "is stopped, by SIGSTOP or a debugger, after step 7");
  test_loss("exits", SIGUSR1, "ended with exit status 3 in the middle of the run after step 7");
  test_loss("late", 0, "is alive, but has not reached a barrier for 0 s");
  test_loss("busy", SIGKILL, "was killed by signal 9 (Killed) after step 7");
  test_loss("deaf", SIGKILL, "was killed by signal 9 (Killed) after step 7"); /* with a pipe that is full */
  ok(reports >= 5, "ranks report losses themselves: %d times", reports);
  test_leaving();
  test_orphans();
  hd_ctx_destroy(ctx);
  return done_testing();
}
