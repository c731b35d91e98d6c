/* Kernels before 5.3, and many a container, give no descriptor of a process, and a program that ignores SIGCHLD is not
 * told how one ended: ranks are started, lost and ended there as elsewhere. All of this runs under a filter that refuses
 * descriptors. */
#include "scratch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "heddle.h"
#include "heddle/group.h"
#include "heddle/launch.h"
#include "sys/process.h"
#include "tap.h"

enum { MOST_S = 300 };

static hd_ctx *ctx;

static int refuse(void) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {.len = sizeof program / sizeof *program, .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* A rank of two that adds with the other one, until rank 1 is lost if `loses` says so: 0, 1 for what is wrong, 7 for who
 * heard of the loss. */
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
  if (loses && hd_group_barrier(group, ctx) == HD_E_PEER)
    return 7;
  hd_group_destroy(group);
  return loses;
}

static hd_status launch(hd_launch_result *out, const char *what) {
  char *const own[] = {(char *)"/proc/self/exe", (char *)what, NULL}, *const shell[] = {(char *)"sh", (char *)"-c",
                                                                                        (char *)"exit 3", NULL};
  return hd_launch(out, ctx, &(hd_launch_settings){.ranks = 2, .argv = what ? own : shell});
}

static void test_launch(void) {
  hd_launch_result result;
  is_int(launch(&result, "meet"), HD_OK, "ranks meet, and end well: %s", hd_ctx_message(ctx));
  is_int(launch(&result, NULL), HD_E_PEER, "ranks that fail are seen to");
  is_int(result.exit_code, 3, "with how they failed");
  is_int(launch(&result, "lose"), HD_E_PEER, "a rank is lost: %s", hd_ctx_message(ctx));
  ok(strstr(hd_ctx_message(ctx), "rank 1") && strstr(hd_ctx_message(ctx), "signal 9"), "and told as what it was");
}

/* Where a program ignores SIGCHLD the system tells nobody how a child ended. */
static void test_ignored(void) {
  hd_launch_result result;
  signal(SIGCHLD, SIG_IGN);
  is_int(launch(&result, "meet"), HD_OK, "ranks that left their run ended well, although nobody says so: %s",
         hd_ctx_message(ctx));
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
  is_int(hd__process_signal(child, start, SIGTERM), 0, "the one that is meant does");
  waitpid(child, &how, 0);
  ok(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM, "and ends by it");
  is_int(hd__process_signal(child, start, SIGTERM), ESRCH, "then there is none");
}

int main(int argc, char **argv) {
  alarm(MOST_S); /* instead of waiting for ever */
  hd_ctx_create(&ctx);
  if (argc == 2)
    return be_rank(!strcmp(argv[1], "lose"));
  if (refuse() != 0)
    skip_all("the system takes no filter for calls");
  test_launch();
  test_ignored();
  test_signal();
  hd_ctx_destroy(ctx);
  return done_testing();
}
