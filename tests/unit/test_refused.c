/* Where the system does not let threads be bound, or memory bound or locked, as in many a container, a run goes on,
 * with one line of report, and comes to the same weights. Where no threads can be started a run fails with a message.
 * Each run is a process: what is refused to a process stays refused. */
#include "scratch.h"

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "heddle.h"
#include "platform/topology.h"
#include "refused_calls.h"

enum { LINE = 512 };

/* Binding threads, and binding and locking memory; starting threads, where the library then tries the older call. */
static const refused_call places[] = {{SYS_sched_setaffinity, EPERM}, {SYS_mlock, EPERM}, {SYS_mbind, EPERM}},
                          starts[] = {{SYS_clone3, ENOSYS}, {SYS_clone, EAGAIN}};

enum { NOTHING, PLACES, THREADS };

/* A sanitizer's mlock() locks nothing and reports no error. */
static bool locks_memory(void) {
  char byte = 0;
  return mlock(&byte, 1) == 0;
}

static void at_event(void *notes, const hd_event *event) {
  if (event->kind == HD_EVENT_NOTE)
    fprintf(notes, "%s;", event->text);
}

/* The output of a run: its notes, then its digest. */
static void run(FILE *to) {
  const char *const settings[] = {"model", "simplenet", "data", "random:1x28x28", "max-steps", "120", "epochs", "1"};
  hd_ctx *ctx;
  hd_config *config;
  hd_session *session;
  if (hd_ctx_create(&ctx) != HD_OK)
    return;
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "out", in_scratch("run-%d", (int)getpid()));
  hd_config_set(config, ctx, "eval-every", "50"); /* several regions */
  hd_config_set(config, ctx, "threads", getenv("THREADS"));
  hd_config_set(config, ctx, "placement", "all");
  if (getenv("WORKERS")) {
    hd_config_set(config, ctx, "workers", getenv("WORKERS"));
    hd_config_set(config, ctx, "pin-memory", "true");
  }
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
    hd_config_set(config, ctx, settings[i], settings[i + 1]);
  hd_status status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, at_event, to);
  fprintf(to, "%s", status == HD_OK ? hd_session_report(session)->weights_sha256 : hd_ctx_message(ctx));
}

/* machine: in hwloc's words, NULL for this one. 1 if it ran. */
static int tells(char line[LINE], const char *machine, int refused) {
  int channel[2], status = 1;
  fflush(stdout);
  if (pipe(channel) != 0)
    bail_out("no pipe");
  pid_t child = fork();
  if (child == 0) {
    FILE *to = fdopen(channel[1], "w");
    if (machine) {
      setenv("HWLOC_SYNTHETIC", machine, 1);
      setenv("HWLOC_THISSYSTEM", "1", 1); /* so that it does bind */
    }
    if ((refused == PLACES && (refuse_calls(places, 3) != 0 || (getenv("WORKERS") && locks_memory()))) ||
        (refused == THREADS && refuse_calls(starts, 2) != 0))
      _exit(77);
    run(to);
    fclose(to);
    _exit(0);
  }
  close(channel[1]);
  FILE *from = fdopen(channel[0], "r");
  if (!fgets(line, LINE, from))
    line[0] = 0;
  fclose(from);
  waitpid(child, &status, 0);
  return status == 0;
}

static void check(const char *plain, const char *machine, int refused, const char *note, const char *name) {
  char line[LINE];
  if (!tells(line, machine, refused)) {
    skip(2, "%s: this system cannot be made to refuse", name);
    return;
  }
  char *digest = strrchr(line, ';');
  is_str(digest ? digest + 1 : line, plain, "%s: the same digest", name);
  if (digest)
    *digest = 0;
  is_str(digest ? line : "nothing", note, "%s: and one line", name);
}

/* An OpenMP runtime that gets no thread would end the process with its message. */
static void test_threads(void) {
  char line[LINE];
  if (!tells(line, NULL, PLACES)) {
    skip(2, "this system cannot be made to refuse");
    return;
  }
  ok(tells(line, NULL, THREADS) && strstr(line, "expected 2 threads, but the system starts no more than 1;"),
     "no threads: %s", line);
  setenv("THREADS", "1", 1);
  ok(tells(line, NULL, THREADS) && strstr(line, "cannot start a thread to write the checkpoint"),
     "one is enough until another is needed: %s", line);
  setenv("THREADS", "2", 1);
}

/* The pages inside a block, none that it shares with its neighbours. */
static void test_bound(void) {
  enum { PAGES = 4, OF_ADDRESS = 1 << 1 };
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const hd_memory_range piece = {memory + 100, (PAGES - 1) * page, 0};
  int policy[PAGES] = {0};
  if (memory == MAP_FAILED)
    bail_out("no memory");
  if (hd__topology_bind_memory(NULL, &piece, 1) != HD_OK) {
    skip(1, "this system does not bind memory");
    return;
  }
  for (int i = 0; i < PAGES; i++)
    syscall(SYS_get_mempolicy, &policy[i], NULL, 0, memory + i * page, OF_ADDRESS);
  ok(policy[0] == 0 && policy[1] != 0 && policy[2] != 0 && policy[3] == 0, "whole pages are bound: %d %d %d %d",
     policy[0], policy[1], policy[2], policy[3]);
  munmap(memory, PAGES * page);
}

int main(void) {
  char plain[LINE];
  setenv("THREADS", "2", 1);
  scratch();
  test_bound();
  test_threads();
  if (!tells(plain, NULL, 0))
    bail_out("a plain run fails: %s", plain);
  if (strlen(plain) != 64) {
    ok(strstr(plain, "could not be bound") || strstr(plain, "the system places"), "a plain run says: %s", plain);
    skip(7, "this system refuses as it is: %s", plain);
    return done_testing();
  }
  cpu_set_t usable;
  sched_getaffinity(0, sizeof usable, &usable);
  const int cpus = CPU_COUNT(&usable);
  const int by_mask = cpus == 1 && sysconf(_SC_NPROCESSORS_ONLN) > 1; /* others exist, which nothing is bound to */
  check(plain, NULL, 1, cpus > 1 ? "threads could not be bound to CPUs; the system places them" : "nothing",
        "threads may not be bound");
  if (by_mask)
    skip(2, "two CPUs are needed, this process may use one");
  else if (access("/sys/devices/system/node/node1", F_OK) != 0)
    check(plain, "numa:2 core:1 pu:1", 0,
          cpus > 1 ? "memory could not be bound to NUMA nodes; it is allocated where a thread first touches it"
                   : "threads could not be bound to CPUs, nor memory to NUMA nodes; the system places both",
          "a node that is not there");
  else
    skip(2, "this machine has a second node");
  if (by_mask)
    skip(2, "two CPUs are needed, this process may use one");
  else
    check(plain, "numa:2 core:1 pu:1", 1,
          "threads could not be bound to CPUs, nor memory to NUMA nodes; the system places both",
          "two nodes, and nothing may be bound");
  setenv("WORKERS", "2", 1);
  setenv("THREADS", "1", 1);
  check(plain, NULL, 1,
        cpus > 1 || by_mask ? "threads could not be bound to CPUs; the system places them;the loader's batches could "
                              "not be locked in memory and may be swapped out; raise `ulimit -l`, or leave "
                              "--pin-memory out"
                            : "the loader's batches could not be locked in memory and may be swapped out; raise "
                              "`ulimit -l`, or leave --pin-memory out",
        "loader workers whose batches may not be locked");
  return done_testing();
}
