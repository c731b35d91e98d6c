/* The rendezvous of ranks: by a path, by an address, by the environment of launchers; and errors: ranks that are
 * missing, doubled, out of range, of another world size, or on another host. */
#include "scratch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "comm/group_state.h"
#include "exec/exchange/local_group_join.h"
#include "exec/exchange/rendezvous.h"
#include "platform/spawn.h"
#include "tap.h"

enum { MOST = 4, WAIT_S = 20, FEW_S = 5 };

static hd_ctx *ctx;

typedef struct comer {
  hd_group_settings settings;
  hd_ctx ctx;
  hd_status status;
  int sum;
} comer;

static void *come(void *arg) {
  comer *c = arg;
  hd_group *group;
  const int one = 1 + c->settings.rank;
  c->status = hd_group_init(&group, &c->ctx, &c->settings);
  if (c->status == HD_OK)
    c->status = hd_group_all_reduce(&c->sum, group, &c->ctx, &one, 1, HD_I32, HD_REDUCE_SUM);
  hd_group_destroy(group);
  return NULL;
}

static void meet(comer *c, int count) {
  pthread_t thread[MOST];
  for (int i = 0; i < count; i++)
    if (pthread_create(&thread[i], NULL, come, &c[i]))
      bail_out("no thread");
  for (int i = 0; i < count; i++)
    pthread_join(thread[i], NULL);
}

static comer comer_of(const char *method, int rank, int size, double timeout_s) {
  return (comer){.settings = {.struct_bytes = sizeof(hd_group_settings),
                              .backend = HD_GROUP_SHM,
                              .init_method = method,
                              .rank = rank,
                              .world_size = size,
                              .timeout_s = timeout_s}};
}

static const char *method_of(const char *name) {
  static char text[4][600];
  static int next;
  char *out = text[next++ % 4];
  snprintf(out, sizeof text[0], "file://%s", in_scratch("%s", name));
  return out;
}

static void test_methods(void) {
  char address[64];
  const char *const methods[] = {method_of("meet"), address};
  snprintf(address, sizeof address, "tcp://127.0.0.1:%d", 20000 + (int)(getpid() % 20000));
  for (int m = 0; m < 2; m++)
    for (int size = 1; size <= MOST; size++) {
      comer c[MOST];
      int wrong = 0;
      for (int i = 0; i < size; i++) /* the last first */
        c[i] = comer_of(methods[m], size - 1 - i, size, WAIT_S);
      meet(c, size);
      for (int i = 0; i < size; i++)
        wrong += c[i].status != HD_OK || c[i].sum != size * (size + 1) / 2;
      ok(wrong == 0, "%d ranks find each other at %.6s %s", size, methods[m], c[0].ctx.message);
    }
  ok(access(in_scratch("meet"), F_OK) != 0, "and no file is made");
}

static void expect(const comer *c, hd_status status, const char *text, const char *name) {
  ok(c->status == status && strstr(c->ctx.message, text), "%s: rank %d: %s", name, c->settings.rank, c->ctx.message);
}

/* The first wait of each thread, and every second one after it, ends as by a signal that the program takes. */
static atomic_bool interrupted;

int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
  static _Thread_local unsigned calls;
  const struct timespec most = {timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
  if (atomic_load(&interrupted) && calls++ % 2 == 0) {
    errno = EINTR;
    return -1;
  }
  return ppoll(fds, count, timeout_ms < 0 ? NULL : &most, NULL);
}

static void test_signals(void) {
  const char *at = method_of("interrupted");
  comer c[MOST];
  atomic_store(&interrupted, true);
  for (int i = 0; i < MOST; i++)
    c[i] = comer_of(at, i, MOST, WAIT_S);
  meet(c, MOST);
  for (int i = 0; i < MOST; i++)
    ok(c[i].status == HD_OK, "rank %d finds the others although signals come: %s", i, c[i].ctx.message);
  atomic_store(&interrupted, false);
}

/* A process without a free descriptor: rank 0 takes no connection, or the other one no memory. */
static atomic_bool none_to_accept, none_to_receive;

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
  if (!atomic_load(&none_to_accept))
    return (int)syscall(SYS_accept4, fd, address, length, flags);
  errno = EMFILE;
  return -1;
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
  const ssize_t got = syscall(SYS_recvmsg, fd, message, flags);
  int received;
  const struct cmsghdr *head = got > 0 && atomic_load(&none_to_receive) ? CMSG_FIRSTHDR(message) : NULL;
  if (!head)
    return got;
  memcpy(&received, CMSG_DATA(head), sizeof received);
  close(received);
  message->msg_controllen = 0;
  message->msg_flags |= MSG_CTRUNC;
  return got;
}

static void test_no_descriptors(void) {
  comer c[2];
  for (int i = 0; i < 2; i++)
    c[i] = comer_of(method_of("crowded"), i, 2, 2);
  atomic_store(&none_to_accept, true);
  meet(c, 2);
  atomic_store(&none_to_accept, false);
  expect(&c[0], HD_E_SYSTEM, "a socket for the ranks to connect to: Too many open files; raise `ulimit -n`", "accept");
  atomic_store(&none_to_receive, true);
  meet(c, 2);
  atomic_store(&none_to_receive, false);
  expect(&c[1], HD_E_SYSTEM, "found no free descriptor for it; raise `ulimit -n`", "receive");
}

static void test_refused(void) {
  comer c[MOST];
  const char *at = method_of("missing");
  c[0] = comer_of(at, 0, 4, 0.3);
  c[1] = comer_of(at, 2, 4, 0.3);
  meet(c, 2);
  expect(&c[0], HD_E_TIMEOUT, "ranks 1, 3 did not", "missing");
  ok((c[1].status == HD_E_PEER || c[1].status == HD_E_TIMEOUT) && strstr(c[1].ctx.message, "ranks 1, 3 did not"),
     "missing: rank 2: %s", c[1].ctx.message);
  c[0] = comer_of(method_of("no-first"), 1, 2, 0.3);
  meet(c, 1);
  expect(&c[0], HD_E_TIMEOUT, "expected rank 0 of 2 at file://", "no rank 0");
  /* An address for examples is no machine's here; a name without an address is kept as a name. */
  c[0] = comer_of("tcp://192.0.2.1:29500", 1, 3, 0.3);
  meet(c, 1);
  expect(&c[0], HD_E_UNSUPPORTED,
         "192.0.2.1 is another host: a run that spans hosts needs MPI; start the ranks with "
         "`mpirun -n 3 PROGRAM`",
         "another host");
  c[0] = comer_of("tcp://192.0.2.1:29500", 1, 3, 1800);
  meet(c, 1);
  expect(&c[0], HD_E_UNSUPPORTED, "`mpirun -n 3 PROGRAM`", "another host, long before the timeout");
  c[0] = comer_of("tcp://192.0.2.1:29500", 1, 2, WAIT_S);
  c[1] = comer_of("tcp://192.0.2.1:29500", 0, 2, WAIT_S);
  meet(c, 2);
  ok(c[0].status == HD_OK && c[1].status == HD_OK, "as a mere name it will do");
  c[0] = comer_of("tcp://127.0.0.1:29500", 1, 2, 0.3);
  meet(c, 1);
  expect(&c[0], HD_E_TIMEOUT, "On several hosts start them with `mpirun -n 2 PROGRAM`", "this host");

  at = method_of("doubled");
  c[0] = comer_of(at, 0, 3, FEW_S);
  c[1] = comer_of(at, 1, 3, FEW_S);
  c[2] = comer_of(at, 1, 3, FEW_S);
  meet(c, 3);
  expect(&c[0], HD_E_USAGE, "each rank once, found rank 1 in pid", "doubled");
  const int second = c[1].status == HD_E_PEER; /* which of them came first */
  expect(&c[1 + second], HD_E_USAGE, "each rank once, found rank 1 in pid", "doubled");
  expect(&c[2 - second], HD_E_PEER, "gave up: expected each rank once, found rank 1 in pid", "doubled, the first");

  at = method_of("two");
  c[0] = comer_of(at, 0, 2, 1);
  c[1] = comer_of(at, 0, 2, 1);
  meet(c, 2);
  const int late = c[0].status == HD_E_TIMEOUT;
  expect(&c[late], HD_E_USAGE, "already waits as rank 0 at file://", "two ranks 0");
  expect(&c[!late], HD_E_TIMEOUT, "rank 1 did not", "the other one");

  at = method_of("sizes");
  c[0] = comer_of(at, 0, 2, FEW_S);
  c[1] = comer_of(at, 1, 3, FEW_S);
  meet(c, 2);
  expect(&c[0], HD_E_USAGE, "found 2 in rank 0 and 3 in rank 1", "another size");
  expect(&c[1], HD_E_USAGE, "found 2 in rank 0 and 3 in rank 1", "another size");
}

static void test_settings(void) {
  enum { SIZE = sizeof(hd_group_settings) };
  static const struct {
    hd_group_settings settings;
    hd_status status;
    const char *text;
  } bad[] = {
      {{SIZE, HD_GROUP_MPI, NULL, 0, 2, 0, 0}, HD_E_USAGE, "expected ranks that mpirun or srun started"},
      {{SIZE, (hd_group_backend)9, NULL, 0, 1, 0, 0}, HD_E_USAGE, "expected a backend of hd_group_backend, found 9"},
      {{SIZE, HD_GROUP_ANY, NULL, 0, 1, 0, (hd_arithmetic_choice)2}, HD_E_USAGE, "portable or native, found 2"},
      {{SIZE, HD_GROUP_ANY, NULL, -1, -1, 0, 0},
       HD_E_USAGE,
       "found no rank and no world size; start the program with `heddle launch"},
      {{SIZE, HD_GROUP_ANY, NULL, 0, -1, 0, 0}, HD_E_USAGE, "found no world size"},
      {{SIZE, HD_GROUP_ANY, NULL, -1, 2, 0, 0}, HD_E_USAGE, "found no rank"},
      {{SIZE, HD_GROUP_ANY, NULL, 2, 2, 0, 0}, HD_E_USAGE, "a rank from 0 to 1, found 2"},
      {{SIZE, HD_GROUP_ANY, NULL, -2, 2, 0, 0}, HD_E_USAGE, "a rank from 0 to 1, found -2"},
      {{SIZE, HD_GROUP_ANY, NULL, 0, 0, 0, 0}, HD_E_USAGE, "a world size from 1 to 1024, found 0"},
      {{SIZE, HD_GROUP_ANY, NULL, 0, 1025, 0, 0}, HD_E_USAGE, "found 1025"},
      {{SIZE, HD_GROUP_ANY, "http://x", 0, 2, 0, 0}, HD_E_USAGE, "env://, file:///PATH or tcp://HOST:PORT"},
      {{SIZE, HD_GROUP_ANY, "tcp://host", 0, 2, 0, 0}, HD_E_USAGE, "found 'tcp://host'"},
      {{SIZE, HD_GROUP_ANY, "tcp://:1", 0, 2, 0, 0}, HD_E_USAGE, "found 'tcp://:1'"},
      {{SIZE, HD_GROUP_ANY, "file://relative", 0, 2, 0, 0}, HD_E_USAGE, "found 'file://relative'"},
      {{SIZE, HD_GROUP_ANY, NULL, 0, 1, -1, 0}, HD_E_USAGE, "a timeout in seconds"},
      {{SIZE, HD_GROUP_ANY, NULL, 0, 1, NAN, 0}, HD_E_USAGE, "a timeout in seconds"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    hd_group *group;
    const hd_status status = hd_group_init(&group, ctx, &bad[i].settings);
    ok(status == bad[i].status && !group && strstr(hd_ctx_message(ctx), bad[i].text), "refused: %s",
       hd_ctx_message(ctx));
  }
}

/* ---- the environment ---- */

static const char *const variables[] = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TORCHELASTIC_RUN_ID",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_STEP_NUM_NODES",
                                        "SLURM_NTASKS",
                                        "SLURM_JOB_ID",
                                        "HEDDLE_WORLD",
                                        "PMIX_NAMESPACE",
                                        "HEDDLE_HOST_ID"};

static void clear_environment(void) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    unsetenv(variables[i]);
}

static void test_environment(void) {
  static const struct {
    const char *set[6];
    hd_status status;
    int rank, ranks;
    const char *text;
  } cases[] = {
      {{NULL}, HD_OK, -1, -1, ""},
      {{"RANK=1", "WORLD_SIZE=3"}, HD_OK, 1, 3, "torchrun"},
      {{"RANK=1", "WORLD_SIZE=3", "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}, HD_OK, 1, 3, "torchrun"},
      {{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4"}, HD_OK, 2, 4, "Open MPI"},
      {{"PMI_RANK=0", "PMI_SIZE=2"}, HD_OK, 0, 2, "mpiexec"},
      {{"RANK=7", "PMI_RANK=0", "PMI_SIZE=2"}, HD_OK, 0, 2, "mpiexec"}, /* RANK is the shell's */
      {{"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=1"}, HD_OK, 1, 2, "srun"},
      {{"SLURM_PROCID=0", "SLURM_NTASKS=8"}, HD_OK, -1, -1, ""}, /* a batch script by itself is no rank */
      {{"RANK=1"}, HD_E_USAGE, 0, 0, "expected RANK and WORLD_SIZE in the environment, found only RANK"},
      {{"WORLD_SIZE=2"}, HD_E_USAGE, 0, 0, "found only WORLD_SIZE"},
      {{"RANK=2", "WORLD_SIZE=2"}, HD_E_USAGE, 0, 0, "expected RANK from 0 to 1, as WORLD_SIZE is 2, found 2"},
      {{"RANK=-1", "WORLD_SIZE=2"}, HD_E_USAGE, 0, 0, "in RANK, found '-1'"},
      {{"RANK=one", "WORLD_SIZE=2"}, HD_E_USAGE, 0, 0, "in RANK, found 'one'"},
      {{"RANK=0", "WORLD_SIZE=0"}, HD_E_USAGE, 0, 0, "in WORLD_SIZE, found '0'"},
      {{"RANK=0", "WORLD_SIZE=99999999999"}, HD_E_USAGE, 0, 0, "in WORLD_SIZE"},
      {{"RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2"}, HD_E_UNSUPPORTED, 0, 0, "`mpirun -n 4 PROGRAM`"},
      {{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
       HD_OK,
       2,
       4,
       "Open MPI's mpirun, several hosts"},
      {{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "HEDDLE_HOST_ID=a"},
       HD_OK,
       2,
       4,
       "Open MPI's mpirun, several hosts"},
      {{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4", "HEDDLE_HOST_ID="},
       HD_E_USAGE,
       0,
       0,
       "HEDDLE_HOST_ID expects the name of a host, found an empty one in rank 2"},
      {{"PMI_RANK=0", "PMI_SIZE=2", "MPI_LOCALNRANKS=1"}, HD_OK, 0, 2, "mpiexec, several hosts"},
      {{"SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=2"}, HD_OK, 1, 2, "srun, several hosts"},
      {{"RANK=1", "WORLD_SIZE=3", "HEDDLE_HOST_ID=a"}, HD_OK, 1, 3, "torchrun, one host"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    hd_start start;
    clear_environment();
    for (int v = 0; v < 6 && cases[i].set[v]; v++)
      putenv((char *)cases[i].set[v]);
    const hd_status status = hd__start_read(&start, ctx);
    char said[2048];
    snprintf(said, sizeof said, "%s%s",
             status != HD_OK ? hd_ctx_message(ctx)
             : start.by      ? start.by
                             : "",
             status != HD_OK ? ""
             : start.spans   ? ", several hosts"
                             : ", one host");
    ok(status == cases[i].status && strstr(said, cases[i].text) &&
           (status != HD_OK || (start.rank == cases[i].rank && start.ranks == cases[i].ranks)),
       "%s: %s", cases[i].set[0] ? cases[i].set[0] : "nothing", said);
  }
  clear_environment();
}

/* Ranks that give both numbers have a name from the environment, too: that of ranks that read their numbers there. */
static void test_given_numbers(void) {
  comer c[2];
  putenv((char *)"MASTER_ADDR=localhost");
  putenv((char *)"MASTER_PORT=29513");
  c[0] = comer_of(NULL, 0, 2, 0.1);
  meet(c, 1);
  expect(&c[0], HD_E_TIMEOUT, "at env:// (torchrun|localhost|29513|", "both numbers given");
  putenv((char *)"RANK=1");
  putenv((char *)"WORLD_SIZE=2");
  c[0] = comer_of(NULL, 0, 2, WAIT_S);
  c[1] = comer_of("env://", -1, -1, WAIT_S);
  meet(c, 2);
  ok(c[0].status == HD_OK && c[1].status == HD_OK, "they find one that reads its numbers: %s", c[0].ctx.message);
  clear_environment();
}

/* A process with nothing but its environment. */
static int be_rank(int ranks) {
  hd_group *group;
  int sum = 0, one = 1;
  hd_ctx_create(&ctx);
  hd_status status = hd_group_init(&group, ctx, NULL);
  if (status == HD_OK)
    status = hd_group_all_reduce(&sum, group, ctx, &one, 1, HD_I32, HD_REDUCE_SUM);
  if (status != HD_OK)
    diag("%s", hd_ctx_message(ctx));
  hd_group_destroy(group);
  hd_ctx_destroy(ctx);
  return status == HD_OK && sum == ranks ? 0 : 1;
}

static void test_processes(void) {
  static const char *const families[][4] = {{"RANK", "WORLD_SIZE", "MASTER_ADDR=localhost", "MASTER_PORT=29512"},
                                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE=7", NULL},
                                            {"PMI_RANK", "PMI_SIZE", NULL, NULL},
                                            {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_ID=5", NULL},
                                            {"HEDDLE_WORLD", NULL, NULL, NULL}};
  enum { RANKS = 3 };
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    const bool launched = !families[f][1];
    hd_local_group *local = NULL;
    pid_t pid[RANKS];
    int failed = 0, how;
    if (launched && hd__local_group_found(&local, ctx, RANKS, true) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    for (int r = 0; r < RANKS; r++) {
      char rank[64], size[64];
      const char *const set[] = {rank, launched ? NULL : size, families[f][2], families[f][2] ? families[f][3] : NULL,
                                 NULL};
      char *const argv[] = {(char *)"test_rendezvous", (char *)"rank", NULL};
      snprintf(rank, sizeof rank, launched ? "%s=%d/3" : "%s=%d", families[f][0], r);
      snprintf(size, sizeof size, "%s=%d", launched ? "" : families[f][1], RANKS);
      const hd_spawn_how start = {.argv = argv, .set = set, .fd = launched ? hd__local_group_fd(local) : -1};
      if (hd__spawn(&pid[r], ctx, &start) != HD_OK)
        bail_out("%s", hd_ctx_message(ctx));
    }
    for (int r = 0; r < RANKS; r++) {
      while (waitpid(pid[r], &how, 0) < 0 && errno == EINTR)
        ;
      failed += !WIFEXITED(how) || WEXITSTATUS(how) != 0;
    }
    is_int(failed, 0, "processes find each other by %s", families[f][0]);
    hd__local_group_leave(local);
  }
}

int main(int argc, char **argv) {
  if (argc == 2)
    return be_rank(3);
  clear_environment();
  hd_ctx_create(&ctx);
  test_methods();
  test_signals();
  test_no_descriptors();
  test_refused();
  test_settings();
  test_environment();
  test_given_numbers();
  test_processes();
  hd_ctx_destroy(ctx);
  return done_testing();
}
