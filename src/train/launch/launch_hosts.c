/* Starting ranks on several hosts by mpirun, whose arguments depend on the MPI it belongs to. See supervisor.h. */
#include "train/launch/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "platform/process.h"
#include "platform/spawn.h"

enum { TICK_MS = 50, MOST_RANKS = 1024 };

typedef enum kind { NO_MPIRUN, OPEN_MPI, HYDRA } kind;

/* Variables that Open MPI's mpirun exports only if told to; Hydra exports all. */
static const char *const handed_on[] = {
    "HEDDLE_DATA",        "HEDDLE_ISA",         "HEDDLE_CACHE",   "HEDDLE_LOG",       "HEDDLE_MODULE_PATH",
    "HEDDLE_BLAS",        "OPENBLAS_CORETYPE",  "HEDDLE_PLAN",    "HEDDLE_HOST_SUMS", "HEDDLE_THREAD_SPEEDS",
    "HEDDLE_CUDA_DRIVER", "HEDDLE_CUDA_MODULE", "HEDDLE_NCCL",    "HEDDLE_NVML",      "HEDDLE_CUDA_LIBRARIES",
    "HEDDLE_SYSROOT",     "OMP_NUM_THREADS",    "LD_LIBRARY_PATH"};

enum { MOST_OPTIONS = 7 + 2 * sizeof handed_on / sizeof *handed_on };

/* The number of ranks in NAME[:RANKS],...; 0 for a malformed list. */
static int ranks_of(const char *hosts) {
  int ranks = 0;
  for (const char *at = hosts;; at++) {
    const size_t name = strcspn(at, ":,");
    long count = 1;
    at += name;
    if (*at == ':') {
      char *end;
      count = at[1] >= '0' && at[1] <= '9' ? strtol(at + 1, &end, 10) : 0;
      at = count > 0 ? end : at;
    }
    if (name == 0 || count < 1 || count > MOST_RANKS || (*at && *at != ','))
      return 0;
    ranks += (int)count;
    if (!*at || ranks > MOST_RANKS)
      return ranks <= MOST_RANKS ? ranks : 0;
  }
}

/* Runs it for its version text, which holds the name of its MPI. */
static kind kind_of(const char *mpirun) {
  char command[512], text[2048];
  snprintf(command, sizeof command, "'%s' --version 2>/dev/null", mpirun);
  if (strchr(mpirun, '\''))
    return NO_MPIRUN;
  FILE *says = popen(command, "re");
  const size_t got = says ? fread(text, 1, sizeof text - 1, says) : 0;
  text[got] = 0;
  while (says && fgetc(says) != EOF) {
  }
  if (says)
    pclose(says);
  return strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "PRRTE") ? OPEN_MPI
         : strcasestr(text, "HYDRA")                                                  ? HYDRA
                                                                                      : NO_MPIRUN;
}

static hd_status find_mpirun(const char **mpirun, kind *is, hd_ctx *ctx, const char *hosts, int ranks) {
  const char *const names[] = {secure_getenv("HEDDLE_MPIRUN"), "mpirun", "mpiexec"};
  for (size_t i = names[0] && *names[0] ? 0 : 1; i < sizeof names / sizeof *names; i++) {
    *mpirun = names[i];
    *is = kind_of(names[i]);
    if (*is != NO_MPIRUN)
      return HD_OK;
    if (i == 0)
      break;
  }
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "expected the mpirun of Open MPI or MPICH for the %d ranks on %.100s, found none%s; install it "
                  "(tools/install-deps --mpi), or set HEDDLE_MPIRUN to its path",
                  ranks, hosts, names[0] && *names[0] ? " in HEDDLE_MPIRUN" : "");
}

/* At an end by mpirun, ranks get as long as a checkpoint may take. */
static int add_options(const char **argv, kind is, const char *hosts, const char *count) {
  int n = 0;
  argv[n++] = "-n";
  argv[n++] = count;
  if (is == HYDRA) {
    argv[n++] = "-hosts";
    argv[n++] = hosts;
    return n;
  }
  argv[n++] = "--host";
  argv[n++] = hosts;
  argv[n++] = "--mca";
  argv[n++] = "odls_base_sigkill_timeout";
  argv[n++] = "3";
  for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
    if (getenv(handed_on[i])) {
      argv[n++] = "-x";
      argv[n++] = handed_on[i];
    }
  return n;
}

static hd_status wait_for(int *end, hd_ctx *ctx, pid_t pid, volatile sig_atomic_t *number) {
  const int fd = hd__child_open(pid); /* -1 where there is none: the child is then polled at each tick */
  struct pollfd ended = {.fd = fd, .events = POLLIN};
  pid_t got;
  while ((got = waitpid(pid, end, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
    poll(&ended, 1, TICK_MS);
    if (number && *number) {
      hd__child_signal(fd, pid, *number);
      *number = 0;
    }
  }
  const int why = errno;
  if (fd >= 0)
    close(fd);
  return got == pid ? HD_OK : hd__fail(ctx, HD_E_SYSTEM, "cannot wait for mpirun: %s", strerror(why));
}

static hd_status run(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *is, const char *const *argv) {
  static const char *const nothing[] = {NULL};
  const hd_spawn_how how = {.argv = (char *const *)(uintptr_t)argv, .program = argv[0], .set = nothing, .fd = -1};
  pid_t pid;
  int end = 0;
  HD_TRY(hd__spawn(&pid, ctx, &how));
  HD_TRY(wait_for(&end, ctx, pid, is->signal));
  out->exit_code = WIFSIGNALED(end) ? 128 + WTERMSIG(end) : WEXITSTATUS(end);
  return out->exit_code == 0 ? HD_OK
                             : hd__fail(ctx, HD_E_PEER, "%s ended with exit status %d", argv[0], out->exit_code);
}

hd_status hd__launch_hosts(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *is) {
  const char *mpirun;
  char count[16];
  kind which;
  size_t arguments = 0;
  const int ranks = ranks_of(is->hosts);
  if (ranks == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected hosts with the number of ranks on each, such as node1:2,node2:2, with at most %d in all, "
                    "found '%.100s'; write --hosts in this form",
                    MOST_RANKS, is->hosts);
  if ((is->ranks > 0 && is->ranks != ranks) || is->max_restarts > 0 || !is->argv)
    return hd__fail(ctx, HD_E_USAGE, "expected only hosts and a program, found %s; leave it out",
                    !is->argv              ? "no program"
                    : is->max_restarts > 0 ? "restarts"
                                           : "a different number of ranks");
  HD_TRY(find_mpirun(&mpirun, &which, ctx, is->hosts, ranks));
  snprintf(count, sizeof count, "%d", ranks);
  while (is->argv[arguments])
    arguments++;
  HD_OWNED const char **argv = NULL;
  HD_TRY(HD_NEW(argv, 1 + MOST_OPTIONS + arguments + 1, ctx, "out of memory for mpirun's arguments"));
  argv[0] = mpirun;
  const int options = 1 + add_options(argv + 1, which, is->hosts, count);
  memcpy(argv + options, is->argv, arguments * sizeof *argv);
  return run(out, ctx, is, argv);
}
