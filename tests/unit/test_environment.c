/* The environment is never changed in place, since other threads may be reading it; and a program that has more rights
 * than its user takes no path of a module or a library from it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "exec/gpu/device/cuda_driver.h"
#include "heddle/topology.h"
#include "platform/environment.h"
#include "platform/module.h"
#include "tap.h"
#include "tensor/blas.h"

enum { STRANGER = 65533, TIMES = 200 };

extern char **environ;

/* Replacements of the system's functions that count calls and do nothing. */
static atomic_int changes;

int setenv(const char *name, const char *value, int overwrite) { return atomic_fetch_add(&changes, 1) < 0; }
int unsetenv(const char *name) { return atomic_fetch_add(&changes, 1) < 0; }
int putenv(char *text) { return atomic_fetch_add(&changes, 1) < 0; }

/* ---- while others read ---- */

static atomic_bool ends;

static void *read_often(void *arg) {
  intptr_t wrong = 0;
  while (!atomic_load(&ends)) {
    const char *standing = getenv("TEST_STANDING"), *extra = getenv("TEST_EXTRA");
    wrong += !standing || strcmp(standing, "1") || (extra && strcmp(extra, "2"));
  }
  return (void *)wrong;
}

static void look(void *arg) {
  const char *extra = getenv("TEST_EXTRA"), *standing = getenv("TEST_STANDING");
  *(int *)arg += extra && !strcmp(extra, "2") && standing && !strcmp(standing, "1");
}

static void test_during(void) {
  char *own[] = {(char *)"TEST_STANDING=1", NULL}, **before = environ;
  pthread_t reader;
  void *wrong = NULL;
  int seen = 0;
  environ = own;
  const bool reads = pthread_create(&reader, NULL, read_often, NULL) == 0;
  for (int i = 0; i < TIMES; i++)
    hd__environment_during((const char *const[]){"TEST_EXTRA=2", "TEST_STANDING=0", NULL}, look, &seen);
  atomic_store(&ends, true);
  if (reads)
    pthread_join(reader, &wrong);
  is_int(seen, TIMES, "a variable is there meanwhile, and one that the user set stays");
  ok(environ == own && !getenv("TEST_EXTRA"), "and gone afterwards");
  is_int((intptr_t)wrong, 0, "a concurrent reader sees it or not, and all others");
  environ = before;
}

static void find_extra(void *arg) { *(bool *)arg = getenv("TEST_EXTRA") != NULL; }

/* As clearenv leaves it. */
static void test_none(void) {
  char **before = environ;
  bool found = false;
  hd_ctx ctx = {0};
  hd_topology *machine;
  environ = NULL;
  hd__environment_during((const char *const[]){"TEST_EXTRA=2", NULL}, find_extra, &found);
  ok(found && !environ, "a program without an environment gets a variable meanwhile");
  is_int(hd_topology_create(&machine, &ctx), HD_OK, "and its machine is looked at %s", ctx.message);
  hd_topology_destroy(machine);
  environ = before;
}

static void test_unchanged(void) {
  hd_ctx ctx = {0};
  hd_topology *machine;
  is_int(hd_topology_create(&machine, &ctx), HD_OK, "this machine is looked at %s", ctx.message);
  hd_topology_destroy(machine);
  const hd_blas *blas = hd__blas();
  is_int(atomic_load(&changes), 0, "neither that nor opening %s changes the environment",
         blas ? blas->name : "OpenBLAS, which is not there,");
}

/* ---- more rights than the user ---- */

/* In a program that has them: 0, or a bit for each variable that is followed; 64: it has no more than its user. */
static int follow(void) {
  hd_ctx ctx = {0};
  hd_cuda_driver driver;
  void *module;
  int followed = 0;
  hd__module_find(&module, &ctx, "nothing", "nothing", "a test", "no remedy");
  followed |= strstr(ctx.message, "HEDDLE_MODULE_PATH") ? 1 : 0;
  hd__cuda_driver_open(&driver, &ctx);
  followed |= strstr(driver.file, "libtest-nothing.so") ? 2 : 0;
  return followed | (getauxval(AT_SECURE) ? 0 : 64);
}

/* A copy of this program that runs with another user's rights. */
static bool make_privileged(char path[512]) {
  const char *above = getenv("TMPDIR");
  char block[65536];
  size_t got;
  snprintf(path, 512, "%s/heddle-test-XXXXXX", above && *above ? above : "/tmp");
  const int fd = mkstemp(path);
  FILE *from = fopen("/proc/self/exe", "rb"), *to = fd >= 0 ? fdopen(fd, "wb") : NULL;
  bool fine = from && to;
  while (fine && (got = fread(block, 1, sizeof block, from)) > 0)
    fine = fwrite(block, 1, got, to) == got;
  if (from)
    fclose(from);
  if (to)
    fine = fclose(to) == 0 && fine;
  return fine && chown(path, STRANGER, STRANGER) == 0 && chmod(path, 04755) == 0;
}

static int run_with_paths(const char *path) {
  int how = -1;
  const pid_t pid = fork();
  if (pid == 0) {
    execle(path, path, "follow", (char *)NULL,
           (char *[]){(char *)"HEDDLE_MODULE_PATH=/nowhere", (char *)"HEDDLE_CUDA_DRIVER=libtest-nothing.so", NULL});
    _exit(127);
  }
  while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR)
    ;
  return pid > 0 && WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void test_rights(void) {
  char path[512];
  is_int(run_with_paths("/proc/self/exe"), 64 | 3, "paths of modules and libraries are the user's to name");
  const bool made = make_privileged(path);
  const int code = made ? run_with_paths(path) : -1;
  if (!made)
    skip(1, "a program with the rights of a second user needs those of root");
  else if (code < 0 || code & 64)
    skip(1, "the folder for temporary files gives programs no rights (nosuid)");
  else
    is_int(code, 0, "but not in a program that has more rights than its user");
  unlink(path);
}

int main(int argc, char **argv) {
  if (argc == 2)
    _exit(follow()); /* without a look for leaks, which such a program may not take */
  test_during();
  test_none();
  test_unchanged();
  test_rights();
  return done_testing();
}
