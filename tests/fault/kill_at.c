/* Runs a command and kills, with SIGKILL, the process that makes the n-th system call of a kind, before the call has
 * an effect; all processes and threads that the command starts are counted together.
 *
 *     kill_at files|waits N COMMAND [ARGUMENT...]
 *
 * `files`: calls that change files and folders, or write to them; `waits`: mmap and futex. The last line on standard
 * error is "killed at CALL" with exit status 0, or "calls COUNT" with exit status 3 where the command made fewer
 * than N; 77 where the system allows no tracing. A filter in the kernel stops the processes at those calls alone, so
 * the rest of the run is as fast as ever. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, NOT_REACHED = 3, CALL_DATA = 1 };

typedef struct call {
  long number;
  const char *name;
} call;

static const call files[] = {
#ifdef SYS_rename
    {SYS_rename, "rename"},       {SYS_link, "link"},           {SYS_symlink, "symlink"},
    {SYS_unlink, "unlink"},       {SYS_rmdir, "rmdir"},         {SYS_mkdir, "mkdir"},
#endif
    {SYS_renameat2, "renameat2"}, {SYS_linkat, "linkat"},       {SYS_symlinkat, "symlinkat"},
    {SYS_unlinkat, "unlinkat"},   {SYS_mkdirat, "mkdirat"},     {SYS_openat, "openat"}, /* those that create */
    {SYS_fsync, "fsync"},         {SYS_fdatasync, "fdatasync"}, {SYS_write, "write"},
    {SYS_pwrite64, "pwrite64"},   {SYS_writev, "writev"},       {SYS_ftruncate, "ftruncate"},
    {SYS_fallocate, "fallocate"},
};

static const call waits[] = {{SYS_mmap, "mmap"}, {SYS_futex, "futex"}};

static int usage(void) {
  fprintf(stderr, "kill_at: expected files|waits N COMMAND\n");
  return 2;
}

/* In the child: stops at the calls of the list, lets all others pass. */
static int install_filter(const call *list, size_t count) {
  struct sock_filter code[4 * 32];
  unsigned short n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; i++) {
    if (list[i].number == SYS_openat) {
      const unsigned flags = offsetof(struct seccomp_data, args[2]); /* the low half: little-endian */
      code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4);
      code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags);
      code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1);
      code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | CALL_DATA);
      code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
      continue;
    }
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)list[i].number, 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | CALL_DATA);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {.len = n, .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

static void be_command(const call *list, size_t count, char **argv) {
  raise(SIGSTOP); /* until it is traced */
  if (install_filter(list, count))
    _exit(SKIPPED);
  execvp(argv[0], argv);
  _exit(127);
}

static long call_number(pid_t thread) {
  struct __ptrace_syscall_info info;
  if (ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0)
    return -1;
  return info.op == PTRACE_SYSCALL_INFO_SECCOMP ? (long)info.seccomp.nr : -1;
}

static pid_t process_of(pid_t thread) {
  char path[64], line[256];
  int process = thread;
  snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file) && sscanf(line, "Tgid: %d", &process) != 1) {
  }
  if (file)
    fclose(file);
  return process;
}

static const char *name_of(const call *list, size_t count, long number) {
  for (size_t i = 0; i < count; i++)
    if (list[i].number == number)
      return list[i].name;
  return "a call";
}

/* Lets a stopped thread go on, as if it were not traced. */
static void go_on(pid_t thread, int status) {
  const int event = status >> 16, number = WSTOPSIG(status);
  const int group_stop = number == SIGSTOP || number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
  if (event == PTRACE_EVENT_STOP && group_stop)
    ptrace(PTRACE_LISTEN, thread, 0, 0);
  else
    ptrace(PTRACE_CONT, thread, 0, event ? 0 : number);
}

/* Until all processes have ended; returns how many calls there were. */
static long trace(const call *list, size_t count, long wanted, const char **killed) {
  long calls = 0;
  int status;
  for (;;) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0 && errno == EINTR)
      continue;
    if (thread < 0)
      return calls;
    if (!WIFSTOPPED(status))
      continue;
    if (status >> 16 == PTRACE_EVENT_SECCOMP && ++calls == wanted) {
      *killed = name_of(list, count, call_number(thread));
      kill(process_of(thread), SIGKILL);
      continue;
    }
    go_on(thread, status);
  }
}

int main(int argc, char **argv) {
  const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                       PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (argc < 4 || (strcmp(argv[1], "files") && strcmp(argv[1], "waits")))
    return usage();
  const call *list = argv[1][0] == 'f' ? files : waits;
  const size_t count = argv[1][0] == 'f' ? sizeof files / sizeof *files : sizeof waits / sizeof *waits;
  const char *killed = NULL;
  int status;
  const pid_t child = fork();
  if (child == 0)
    be_command(list, count, argv + 3);
  if (child < 0 || waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status) ||
      ptrace(PTRACE_SEIZE, child, 0, options) != 0) {
    kill(child, SIGKILL);
    return SKIPPED;
  }
  kill(child, SIGCONT);
  const long calls = trace(list, count, atol(argv[2]), &killed);
  if (killed)
    fprintf(stderr, "killed at %s\n", killed);
  else
    fprintf(stderr, "calls %ld\n", calls);
  return killed ? 0 : NOT_REACHED;
}
