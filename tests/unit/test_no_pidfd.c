/* Kernels before 5.3, and many a container, give no descriptor of a process, and a program that ignores SIGCHLD does
 * not learn how one ended: ranks are started, lost and ended there as elsewhere. All of this runs under a filter
 * that refuses descriptors. */
#include "scratch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "heddle.h"
#include "heddle/group.h"
#include "heddle/launch.h"
#include "platform/process.h"
#include "refused_calls.h"
#include "tap.h"

enum { MOST_S = 300 };

static hd_ctx *ctx;

/* A rank of two that reduces with the other, until rank 1 is lost if `loses` is set. Returns 0, 1 for an error, 7 for a
 * reported loss. */
static int be_rank(bool loses) {
  hd_group *group;
  int sum = 0, one = 1;
  hd_status status = hd_group_init(&group, ctx, NULL);
  for (int i = 0; i < 20 && status == HD_OK; i++)
    status = hd_group_all_reduce(&sum, group, ctx, &one, 1, HD_I32, HD_REDUCE_SUM);
  if (status != HD_OK || sum != 2)
    return diag("%s", hd_ctx_message(ctx)), 1;
  if (loses && hd_group_rank(group) == 1)
    raise(SIGKILL);
  const bool lost = loses && hd_group_barrier(group, ctx) == HD_E_PEER;
  hd_group_destroy(group);
  return lost ? 7 : loses;
}

static hd_status launch(hd_launch_result *out, const char *what) {
  char *const own[] = {(char *)"/proc/self/exe", (char *)what, NULL}, *const shell[] = {(char *)"sh", (char *)"-c",
                                                                                        (char *)"exit 3", NULL};
  return hd_launch(
      out, ctx,
      &(hd_launch_settings){.struct_bytes = sizeof(hd_launch_settings), .ranks = 2, .argv = what ? own : shell});
}

static void test_launch(void) {
  hd_launch_result result = {.struct_bytes = sizeof result};
  is_int(launch(&result, "meet"), HD_OK, "ranks run and end well: %s", hd_ctx_message(ctx));
  is_int(launch(&result, NULL), HD_E_PEER, "ranks that fail are reported");
  is_int(result.exit_code, 3, "with their exit code");
  is_int(launch(&result, "lose"), HD_E_PEER, "a rank is lost: %s", hd_ctx_message(ctx));
  ok(strstr(hd_ctx_message(ctx), "rank 1") && strstr(hd_ctx_message(ctx), "signal 9"),
     "and the report names rank and signal");
}

/* Where a program ignores SIGCHLD the system does not report how a child ended. */
static void test_ignored(void) {
  hd_launch_result result = {.struct_bytes = sizeof result};
  signal(SIGCHLD, SIG_IGN);
  is_int(launch(&result, "meet"), HD_OK, "ranks that left their run count as ended well: %s", hd_ctx_message(ctx));
  is_int(launch(&result, NULL), HD_E_PEER, "others did not: %s", hd_ctx_message(ctx));
  signal(SIGCHLD, SIG_DFL);
}

static void test_signal(void) {
  int how = 0;
  const pid_t child = fork();
  if (child == 0)
    for (;;)
      pause();
  const uint64_t start = hd__process_start(child);
  is_int(hd__process_signal(child, start + 1, SIGTERM), ESRCH, "another process of that number gets no signal");
  is_int(hd__process_signal(child, start, SIGTERM), 0, "the right one does");
  waitpid(child, &how, 0);
  ok(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM, "and ends by it");
  is_int(hd__process_signal(child, start, SIGTERM), ESRCH, "then there is none");
}

/* A number that is a child's no more, and may be another process's: here that of a grandchild. */
static void test_children(const char *where) {
  pid_t grandchild = 0;
  int ends[2], alive[2], how = 0;
  char byte;
  if (pipe(ends) != 0 || pipe(alive) != 0)
    bail_out("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL); /* before its parent can end */
      close(alive[0]);
      grandchild = getpid();
      (void)!write(ends[1], &grandchild, sizeof grandchild);
      for (;;)
        pause();
    }
    close(alive[1]);
    for (;;)
      pause();
  }
  close(alive[1]);
  if (read(ends[0], &grandchild, sizeof grandchild) != (ssize_t)sizeof grandchild)
    bail_out("no child");
  const int stranger = hd__child_open(grandchild), own = hd__child_open(child);
  is_int(stranger, -1, "%s: a process that is no child has no descriptor", where);
  hd__child_signal(stranger, grandchild, SIGKILL);
  fcntl(alive[0], F_SETFL, O_NONBLOCK);
  ok(read(alive[0], &byte, 1) < 0 && errno == EAGAIN && kill(grandchild, 0) == 0, "%s: and gets no signal", where);
  hd__child_signal(own, child, SIGTERM);
  waitpid(child, &how, 0);
  ok(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM, "%s: a child does", where);
  if (own >= 0)
    close(own);
  hd__child_signal(-1, child, SIGTERM);
  close(alive[0]);
  close(ends[0]);
  close(ends[1]);
}

static void test_open(void) {
  const uint64_t start = hd__process_start(0);
  const int fd = hd__process_open(getpid(), start);
  is_int(hd__process_open(getpid(), start + 1), -1,
         "a process of that number that began at another time is not opened");
  if (fd < 0)
    skip(1, "the system gives no descriptor of a process");
  else
    pass("the right one is");
  if (fd >= 0)
    close(fd);
}

int main(int argc, char **argv) {
  alarm(MOST_S); /* instead of waiting for ever */
  hd_ctx_create(&ctx);
  if (argc == 2)
    return be_rank(!strcmp(argv[1], "lose"));
  test_children("with descriptors");
  test_open();
  if (refuse_calls(&(refused_call){SYS_pidfd_open, ENOSYS}, 1) != 0) {
    skip(1, "the system takes no filter for calls");
    return done_testing();
  }
  test_launch();
  test_ignored();
  test_signal();
  test_children("without descriptors");
  is_int(hd__process_open(getpid(), hd__process_start(0)), -1, "and none is to be had here");
  hd_ctx_destroy(ctx);
  return done_testing();
}
