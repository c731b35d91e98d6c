/* Both ends of the socket between a pool and a worker process: see worker_process.h. */
#include "pool/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "platform/local_socket.h"
#include "platform/process.h"
#include "platform/spawn.h"

static const char variable[] = "HEDDLE_POOL_PARENT";

static const hd_task *served;
static int served_count = -1;

int hd__serves(void) { return served_count >= 0; }

int hd__served_task(const hd_task *task) {
  for (int i = 0; i < served_count; i++)
    if (!strcmp(served[i].name, task->name) && served[i].run == task->run)
      return i;
  return -1;
}

/* Sends all bytes; false on failure. */
static int send_all(int fd, const void *bytes, size_t length) {
  const char *at = bytes;
  while (length > 0) {
    ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return 0;
    at += sent;
    length -= (size_t)sent;
  }
  return 1;
}

static int receive_all(int fd, void *bytes, size_t length) {
  char *at = bytes;
  while (length > 0) {
    ssize_t got = recv(fd, at, length, MSG_WAITALL);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return 0;
    at += got;
    length -= (size_t)got;
  }
  return 1;
}

/* Serves one task; false when the socket is closed. */
static int serve_one(hd_ctx *ctx) {
  uint32_t number;
  if (!receive_all(HD_SPAWN_FD, &number, sizeof number) || number >= (uint32_t)served_count)
    return 0;
  const hd_task *task = &served[number];
  char *input = hd__malloc(task->input_bytes + 1), *output = hd__calloc(task->output_bytes + 1, 1);
  int more = input && output && receive_all(HD_SPAWN_FD, input, task->input_bytes);
  if (more) {
    hd_task_result result = {task->run(output, ctx, input), ""};
    if (result.status != HD_OK) {
      snprintf(result.message, sizeof result.message, "%s", hd_ctx_message(ctx));
      memset(output, 0, task->output_bytes);
    }
    hd_ctx_fail(ctx, HD_OK, "%s", "");
    more = send_all(HD_SPAWN_FD, &result, sizeof result) && send_all(HD_SPAWN_FD, output, task->output_bytes);
  }
  hd__free(input);
  hd__free(output);
  return more;
}

/* The process of the pool that started this worker, running or ended; 0: this process is no worker. The variable
 * alone proves nothing, since programs pass on what they inherit; the credentials of the socket name the process
 * that made it, also after that was killed. */
static pid_t pool_of(void) {
  const char *text = getenv(variable);
  const pid_t maker = text ? hd__local_socket_maker(HD_SPAWN_FD) : 0;
  return text && strtol(text, NULL, 10) == (long)maker ? maker : 0;
}

/* In a child; for children of that one the number may be a file of their own. */
static void close_socket(void) {
  static bool closed;
  if (!closed)
    close(HD_SPAWN_FD);
  closed = true;
}

void hd_pool_serve(const hd_task *tasks, int count) {
  served = tasks;
  served_count = count;
  const pid_t parent = pool_of();
  if (parent == 0)
    return;
  unsetenv(variable);
  if (!hd__spawn_end_with_parent(parent))
    exit(EXIT_FAILURE);
  /* A process that a task starts must not keep the socket open: the pool would wait for an answer after a crash. */
  fcntl(HD_SPAWN_FD, F_SETFD, FD_CLOEXEC);
  pthread_atfork(NULL, NULL, close_socket);
  signal(SIGINT, SIG_IGN); /* the terminal sends it to all processes; the program decides what to do */
  hd_ctx *ctx;
  int failed = hd_ctx_create(&ctx) != HD_OK;
  while (!failed && serve_one(ctx)) {
  }
  hd_ctx_destroy(failed ? NULL : ctx);
  exit(failed ? EXIT_FAILURE : EXIT_SUCCESS);
}

hd_status hd__worker_process_start(hd_worker_process *out, hd_ctx *ctx) {
  int pair[2];
  char parent[64];
  char worker[] = "heddle-pool-worker";
  *out = (hd_worker_process){0};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
    return hd__fail(ctx, HD_E_SYSTEM, "cannot open a socket for a worker: %s; raise `ulimit -n`", strerror(errno));
  snprintf(parent, sizeof parent, "%s=%ld", variable, (long)getpid());
  const hd_spawn_how how = {
      .argv = (char *[]){worker, NULL}, .set = (const char *const[]){parent, NULL}, .fd = pair[1]};
  hd_status status = hd__spawn(&out->pid, ctx, &how);
  close(pair[1]);
  out->fd = pair[0];
  out->end = status == HD_OK ? hd__child_open(out->pid) : -1;
  if (status != HD_OK) {
    close(pair[0]);
    *out = (hd_worker_process){0};
  }
  return status;
}

int hd__worker_process_call(hd_task_result *result, void *output, const hd_worker_process *w, const hd_task *task,
                            const void *input) {
  uint32_t number = (uint32_t)hd__served_task(task);
  return send_all(w->fd, &number, sizeof number) && send_all(w->fd, input, task->input_bytes) &&
         receive_all(w->fd, result, sizeof *result) && receive_all(w->fd, output, task->output_bytes);
}

void hd__worker_process_end(char *text, hd_worker_process *w) {
  shutdown(w->fd, SHUT_RDWR); /* children of this process that it forked may hold copies, which close leaves open */
  close(w->fd);
  if (w->end >= 0)
    close(w->end);
  hd__spawn_end(text, w->pid);
  *w = (hd_worker_process){0};
}
