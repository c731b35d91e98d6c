/* Pools: ordered results, failures by index, processes that crash, timeouts, the end with work left. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heddle/pool.h"
#include "tap.h"

enum { PATH_BYTES = 4096, TASKS = 10000, FAILS = 4321, CRASHES = 7654 };

static hd_status square(void *output, hd_ctx *ctx, const void *input) {
  *(double *)output = *(const double *)input * *(const double *)input;
  return HD_OK;
}

/* Squares, but for two of them. */
static hd_status hostile(void *output, hd_ctx *ctx, const void *input) {
  int number = *(const int *)input;
  *(int *)output = 2 * number;
  if (number == FAILS)
    return hd_ctx_fail(ctx, HD_E_FORMAT, "number %d has a\nbad day", number);
  if (number == CRASHES)
    raise(SIGKILL);
  return HD_OK;
}

static hd_status own_pid(void *output, hd_ctx *ctx, const void *input) {
  *(pid_t *)output = getpid();
  return HD_OK;
}

/* Waits for a byte from a pipe: it ends when the test writes one. */
static hd_status wait_for_pipe(void *output, hd_ctx *ctx, const void *input) {
  char byte;
  ssize_t got;
  while ((got = read(*(const int *)input, &byte, 1)) < 0 && errno == EINTR) {
  }
  return got == 1 ? HD_OK : hd_ctx_fail(ctx, HD_E_IO, "the pipe has ended");
}

/* For ever, in a process; a file shows that it has begun. */
static hd_status hang(void *output, hd_ctx *ctx, const void *input) {
  fclose(fopen(input, "w"));
  while (pause() < 0) {
  }
  return HD_OK;
}

/* Says in one named pipe of a folder that it has come, and waits for a byte from another. */
static hd_status meet(void *output, hd_ctx *ctx, const void *input) {
  char path[PATH_BYTES + 16], byte = 'x';
  snprintf(path, sizeof path, "%s/here", (const char *)input);
  const int here = open(path, O_WRONLY);
  snprintf(path, sizeof path, "%s/go", (const char *)input);
  const int go = open(path, O_RDONLY);
  const bool met = write(here, &byte, 1) == 1 && read(go, &byte, 1) == 1;
  close(here);
  close(go);
  return met ? HD_OK : hd_ctx_fail(ctx, HD_E_IO, "a pipe has ended");
}

/* Crashes, and leaves a process behind that ends when a pipe is opened. */
static hd_status leave(void *output, hd_ctx *ctx, const void *input) {
  char command[PATH_BYTES + 64];
  snprintf(command, sizeof command, "cat '%s' >/dev/null 2>&1 &", (const char *)input);
  if (system(command) == 0)
    raise(SIGKILL);
  return HD_OK;
}

/* The same by a fork without another program. */
static hd_status leave_fork(void *output, hd_ctx *ctx, const void *input) {
  const pid_t child = fork();
  if (child == 0) {
    close(open(input, O_RDONLY));
    _exit(0);
  }
  return child < 0 || raise(SIGKILL) ? HD_E_SYSTEM : HD_OK;
}

static const hd_task tasks[] = {{"square", square, sizeof(double), sizeof(double)},
                                {"hostile", hostile, sizeof(int), sizeof(int)},
                                {"own_pid", own_pid, 0, sizeof(pid_t)},
                                {"hang", hang, PATH_BYTES, 0},
                                {"wait_for_pipe", wait_for_pipe, sizeof(int), 0},
                                {"leave", leave, PATH_BYTES, 0},
                                {"leave_fork", leave_fork, PATH_BYTES, 0},
                                {"meet", meet, PATH_BYTES, 0}};
enum { SQUARE, HOSTILE, OWN_PID, HANG, WAIT, LEAVE, LEAVE_FORK, MEET };
static const hd_task unserved = {"unserved", square, sizeof(double), sizeof(double)};

static hd_ctx *ctx;
static const char *const kinds[] = {"threads", "processes"};

static hd_pool *open_pool(hd_pool_kind kind, int workers) {
  hd_pool *pool;
  if (hd_pool_create(&pool, ctx, kind, workers) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return pool;
}

static void test_squares(hd_pool_kind kind) {
  static double input[TASKS], output[TASKS];
  hd_pool *pool = open_pool(kind, 4);
  int wrong = 0;
  for (int i = 0; i < TASKS; i++)
    input[i] = i;
  ok(hd_pool_map(output, pool, ctx, &tasks[SQUARE], input, TASKS, NULL) == HD_OK, "%s: %d tasks", kinds[kind], TASKS);
  for (int i = 0; i < TASKS; i++)
    wrong += output[i] != (double)i * i;
  ok(wrong == 0 && hd_pool_workers(pool) == 4, "%s: results lie in the order of their inputs", kinds[kind]);
  ok(hd_pool_map(output, pool, ctx, &tasks[SQUARE], input, 0, NULL) == HD_OK, "%s: a map of nothing", kinds[kind]);
  hd_pool_destroy(pool);
}

/* A pool of four runs four tasks at a time: each waits until all have come. The alarm ends one that runs fewer. */
static void test_at_once(hd_pool_kind kind) {
  enum { WORKERS = 4 };
  char folder[] = "heddle-pool-XXXXXX", path[PATH_BYTES], byte;
  static char input[WORKERS][PATH_BYTES];
  hd_future *future[WORKERS];
  int pipes[2], came = 0, met = 0;
  hd_pool *pool = open_pool(kind, WORKERS);
  if (!mkdtemp(folder))
    bail_out("no folder");
  for (int p = 0; p < 2; p++) {
    snprintf(path, sizeof path, "%s/%s", folder, p ? "go" : "here");
    if (mkfifo(path, 0600) != 0 || (pipes[p] = open(path, O_RDWR)) < 0)
      bail_out("no pipe");
  }
  for (int w = 0; w < WORKERS; w++) {
    snprintf(input[w], PATH_BYTES, "%s", folder);
    if (hd_pool_submit(&future[w], pool, ctx, &tasks[MEET], input[w]) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  }
  while (came < WORKERS && read(pipes[0], &byte, 1) == 1)
    came++;
  if (write(pipes[1], "good", WORKERS) != WORKERS)
    bail_out("no pipe");
  for (int w = 0; w < WORKERS; w++) {
    met += hd_future_result(NULL, future[w], ctx, 60) == HD_OK;
    hd_future_destroy(future[w]);
  }
  is_int(met, WORKERS, "%s: as many tasks at a time as there are workers", kinds[kind]);
  for (int p = 0; p < 2; p++) {
    snprintf(path, sizeof path, "%s/%s", folder, p ? "go" : "here");
    close(pipes[p]);
    remove(path);
  }
  remove(folder);
  hd_pool_destroy(pool);
}

static void test_failures(hd_pool_kind kind, int count) {
  static int input[TASKS], output[TASKS];
  static hd_task_result result[TASKS];
  hd_pool *pool = open_pool(kind, 3);
  int wrong = 0, failed = 0;
  for (int i = 0; i < TASKS; i++)
    input[i] = i;
  hd_status status = hd_pool_map(output, pool, ctx, &tasks[HOSTILE], input, (size_t)count, result);
  ok(status == HD_E_FORMAT && strstr(hd_ctx_message(ctx), "task 4321 of ") &&
         strstr(hd_ctx_message(ctx), "('hostile'): number 4321 has a?bad day"),
     "%s: the map reports the first failure: %s", kinds[kind], hd_ctx_message(ctx));
  for (int i = 0; i < count; i++) {
    failed += result[i].status != HD_OK;
    wrong += output[i] != (result[i].status == HD_OK ? 2 * i : 0);
  }
  ok(wrong == 0 && failed == 1 + (count > CRASHES) && result[FAILS].status == HD_E_FORMAT,
     "%s: the other tasks went on, a failed one's output is zero", kinds[kind]);
  if (count > CRASHES)
    ok(result[CRASHES].status == HD_E_SYSTEM && strstr(result[CRASHES].message, "signal 9"),
       "a crash is its task's: %s", result[CRASHES].message);
  hd_pool_destroy(pool);
}

static void test_processes(void) {
  hd_pool *pool = open_pool(HD_POOL_PROCESSES, 2);
  pid_t pid[64];
  int own = 0;
  bool two = false;
  ok(hd_pool_map(pid, pool, ctx, &tasks[OWN_PID], NULL, 64, NULL) == HD_OK, "tasks without inputs");
  for (int i = 0; i < 64; i++) {
    own += pid[i] == getpid();
    two |= pid[i] != pid[0];
  }
  ok(own == 0, "tasks ran in other processes (%s)", two ? "two" : "one");
  hd_future *future;
  ok(hd_pool_submit(&future, pool, ctx, &unserved, &(double){1}) == HD_E_USAGE && !future,
     "a task that is not served is refused: %s", hd_ctx_message(ctx));
  hd_pool_destroy(pool);
  ok(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no process is left");
  ok(kill(pid[0], 0) < 0, "nor its number in use");
}

static void test_futures(hd_pool_kind kind) {
  hd_pool *pool = open_pool(kind, 2);
  hd_future *future[100], *next;
  bool seen[100] = {false};
  int wrong = 0, count = 0;
  double output;
  for (int i = 0; i < 100; i++)
    if (hd_pool_submit(&future[i], pool, ctx, &tasks[SQUARE], &(double){i}) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  while (hd_pool_next(&next, pool, ctx, -1) == HD_OK && next) {
    int number = (int)hd_future_number(next);
    wrong += seen[number] || hd_future_result(&output, next, ctx, 0) != HD_OK || output != (double)number * number;
    seen[number] = true;
    count++;
  }
  ok(wrong == 0 && count == 100, "%s: every future comes once, as it completes", kinds[kind]);
  for (int i = 0; i < 100; i++)
    hd_future_destroy(future[i]);
  hd_pool_destroy(pool);
}

static void test_timeouts(void) {
  hd_pool *pool = open_pool(HD_POOL_THREADS, 1);
  hd_future *future, *other, *next;
  int pipes[2];
  if (pipe(pipes))
    bail_out("no pipe");
  hd_pool_submit(&future, pool, ctx, &tasks[WAIT], &pipes[0]);
  hd_pool_submit(&other, pool, ctx, &tasks[SQUARE], &(double){3});
  ok(hd_future_result(NULL, future, ctx, 0.01) == HD_E_TIMEOUT, "a result that does not come: %s", hd_ctx_message(ctx));
  ok(hd_pool_next(&next, pool, ctx, 0) == HD_E_TIMEOUT && !next, "nor any: %s", hd_ctx_message(ctx));
  hd_future_destroy(other); /* given up before it began */
  if (write(pipes[1], "x", 1) != 1)
    bail_out("no pipe");
  ok(hd_future_result(NULL, future, ctx, 60) == HD_OK, "it comes when it can");
  ok(hd_pool_next(&next, pool, ctx, 60) == HD_OK && next == future, "it is returned once");
  ok(hd_pool_next(&next, pool, ctx, 60) == HD_OK && !next, "then nothing is left, the one given up included");
  close(pipes[0]);
  close(pipes[1]);
  hd_future_destroy(future);
  hd_pool_destroy(pool);
}

static void test_end_with_work_left(void) {
  hd_pool *pool = open_pool(HD_POOL_PROCESSES, 1);
  hd_future *running, *waiting;
  pid_t pid;
  hd_pool_map(&pid, pool, ctx, &tasks[OWN_PID], NULL, 1, NULL); /* its process is there */
  char path[PATH_BYTES], folder[] = "heddle-pool-XXXXXX";
  if (!mkdtemp(folder))
    bail_out("no folder");
  snprintf(path, sizeof path, "%s/begun", folder);
  hd_pool_submit(&running, pool, ctx, &tasks[HANG], path);
  hd_pool_submit(&waiting, pool, ctx, &tasks[SQUARE], &(double){3});
  while (access(path, F_OK)) /* the alarm ends a test that never begins */
    sched_yield();
  hd_pool_destroy(pool);
  remove(path);
  remove(folder);
  ok(hd_future_result(NULL, running, ctx, -1) == HD_E_INTERRUPTED, "a task that hangs: %s", hd_ctx_message(ctx));
  ok(hd_future_result(NULL, waiting, ctx, -1) == HD_E_INTERRUPTED, "one behind it: %s", hd_ctx_message(ctx));
  hd_future_destroy(running);
  hd_future_destroy(waiting);
  ok(kill(pid, 0) < 0 && errno == ESRCH, "the process has ended");
}

static void test_left_behind(void) {
  hd_pool *pool = open_pool(HD_POOL_PROCESSES, 1);
  char path[PATH_BYTES], folder[] = "heddle-pool-XXXXXX";
  if (!mkdtemp(folder))
    bail_out("no folder");
  snprintf(path, sizeof path, "%s/pipe", folder);
  if (mkfifo(path, 0600) != 0)
    bail_out("no pipe");
  for (int task = LEAVE; task <= LEAVE_FORK; task++) {
    is_int(hd_pool_map(NULL, pool, ctx, &tasks[task], path, 1, NULL), HD_E_SYSTEM,
           "a task that crashes is not waited for because of what it started: %s", hd_ctx_message(ctx));
    close(open(path, O_WRONLY)); /* ends it */
  }
  unlink(path);
  rmdir(folder);
  hd_pool_destroy(pool);
}

/* A child of the program that lives as long as the pool has a copy of its sockets. */
static void test_forked_child(void) {
  hd_pool *pool = open_pool(HD_POOL_PROCESSES, 1);
  int pipes[2];
  pid_t pid;
  hd_pool_map(&pid, pool, ctx, &tasks[OWN_PID], NULL, 1, NULL);
  if (pipe(pipes) != 0)
    bail_out("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(pipes[1]);
    _exit(read(pipes[0], &byte, 1) == 0 ? 0 : 1);
  }
  hd_pool_destroy(pool);
  ok(kill(pid, 0) < 0 && errno == ESRCH, "a pool ends while a child of the program lives");
  close(pipes[1]); /* ends it */
  waitpid(child, NULL, 0);
  close(pipes[0]);
}

/* A file that is cut short while a task reads it: the program's handler is called on any thread. */
static void on_bus_error(int number) { _exit(42); }

static hd_status read_beyond(void *output, hd_ctx *unused, const void *input) {
  *(char *)output = **(volatile char *const *)input;
  return HD_OK;
}

static void test_bus_error(void) {
  static const hd_task task = {"read_beyond", read_beyond, sizeof(char *), 1};
  int how = 0;
  FILE *file = tmpfile();
  char *page = file && ftruncate(fileno(file), 4096) == 0 ? mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0)
                                                          : MAP_FAILED;
  if (page == MAP_FAILED || ftruncate(fileno(file), 0) != 0)
    bail_out("no file");
  const pid_t child = fork();
  if (child == 0) {
    char out;
    signal(SIGBUS, on_bus_error);
    hd_pool_map(&out, open_pool(HD_POOL_THREADS, 1), ctx, &task, &page, 1, NULL);
    _exit(0);
  }
  waitpid(child, &how, 0);
  ok(WIFEXITED(how) && WEXITSTATUS(how) == 42, "SIGBUS on a thread of a pool reaches the program's handler (%#x)",
     (unsigned)how);
  munmap(page, 4096);
  fclose(file);
}

/* A worker whose parent is killed between its start and the first line of its program. */
static void test_lost_parent(void) {
  int told[2], pair[2], how = 0;
  char text[16] = "";
  if (pipe(told) != 0)
    bail_out("no pipe");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t parent = fork();
  if (parent == 0) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
      _exit(1);
    const pid_t pool = getpid(), worker = fork();
    if (worker != 0)
      _exit(worker < 0);
    while (getppid() == pool)
      sched_yield();
    char variable[64], mark[64];
    snprintf(variable, sizeof variable, "HEDDLE_POOL_PARENT=%ld", (long)pool);
    snprintf(mark, sizeof mark, "TEST_POOL_MAIN=%d", 4);
    dup2(told[1], 4);
    dup2(pair[1], 3);
    execle("/proc/self/exe", "heddle-pool-worker", (char *)NULL, (char *[]){variable, mark, NULL});
    _exit(1);
  }
  close(told[1]);
  waitpid(parent, &how, 0);
  const ssize_t got = read(told[0], text, sizeof text - 1); /* until the worker, which holds the other end, is gone */
  while (waitpid(-1, &how, 0) > 0 || errno == EINTR)
    ;
  ok(got == 0 && WIFEXITED(how) && WEXITSTATUS(how) != 0, "a worker whose parent was killed ends (%#x)%s",
     (unsigned)how, got > 0 ? ", and ran the program's main instead" : "");
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  close(told[0]);
}

static void test_misuse(void) {
  hd_pool *pool;
  ok(hd_pool_create(&pool, ctx, HD_POOL_THREADS, -1) == HD_E_USAGE && !pool, "%s", hd_ctx_message(ctx));
  ok(hd_pool_create(&pool, ctx, HD_POOL_THREADS, HD_POOL_MAX_WORKERS + 1) == HD_E_USAGE, "%s", hd_ctx_message(ctx));
  hd_pool_destroy(NULL);
  hd_future_destroy(NULL);
}

int main(void) {
  hd_pool *early;
  hd_ctx *first;
  if (!getenv("HEDDLE_POOL_PARENT") && hd_ctx_create(&first) == HD_OK) {
    ok(hd_pool_create(&early, first, HD_POOL_PROCESSES, 1) == HD_E_USAGE, "processes without hd_pool_serve: %s",
       hd_ctx_message(first));
    hd_ctx_destroy(first);
  }
  hd_pool_serve(tasks, (int)(sizeof tasks / sizeof *tasks));
  if (getenv("TEST_POOL_MAIN")) /* in a worker, the program's main must not run */
    return write(atoi(getenv("TEST_POOL_MAIN")), "main", 4) != 4;
  alarm(300);
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  for (int kind = HD_POOL_THREADS; kind <= HD_POOL_PROCESSES; kind++) {
    test_squares((hd_pool_kind)kind);
    test_at_once((hd_pool_kind)kind);
    test_failures((hd_pool_kind)kind, kind == HD_POOL_THREADS ? CRASHES : TASKS);
    test_futures((hd_pool_kind)kind);
  }
  test_processes();
  test_timeouts();
  test_end_with_work_left();
  test_left_behind();
  test_forked_child();
  test_misuse();
  test_bus_error();
  test_lost_parent();
  hd_ctx_destroy(ctx);
  return done_testing();
}
