/* The note of what ended a run, in memory that processes share: a process that is killed in the middle of writing it
 * has noted nothing, another one notes the fault then, and all read the same. */
#include "scratch.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "exec/exchange/fault.h"
#include "tap.h"

enum { WRITERS = 3, PAGE_BYTES = 4096 };

static hd_fault_record *record;

static void *map(size_t bytes) {
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED)
    bail_out("no memory");
  return base;
}

/* A fault whose end lies in a page that cannot be read: the process that copies it dies in the middle. */
static hd_fault *half_a_fault(void) {
  char *pages = map(2 * PAGE_BYTES);
  mprotect(pages + PAGE_BYTES, PAGE_BYTES, PROT_NONE);
  hd_fault *fault = (void *)(pages + PAGE_BYTES - 128);
  *(volatile int32_t *)&fault->kind = HD_FAULT_GAVE_UP;
  return fault;
}

static void test_killed(void) {
  int how;
  hd_fault fault = {0}, read = {0}, again = {0};
  const pid_t writer = fork();
  if (writer == 0) {
    signal(SIGSEGV, SIG_DFL); /* a sanitizer ends otherwise */
    hd__fault_put(record, 0, half_a_fault());
    _exit(0);
  }
  waitpid(writer, &how, 0);
  ok(WIFSIGNALED(how), "a process is killed while it notes a fault");
  is_int(hd__fault_get(&fault, record, WRITERS), 0, "it has noted nothing");
  ok(hd__fault_put(record, 1, &(hd_fault){.kind = HD_FAULT_EXIT, .rank = 1, .number = 3}), "another one notes it");
  ok(!hd__fault_put(record, 2, &(hd_fault){.kind = HD_FAULT_LATE, .rank = 0}), "and only one");
  ok(hd__fault_get(&read, record, WRITERS) && hd__fault_get(&again, record, WRITERS) &&
         !memcmp(&read, &again, sizeof read),
     "all read the same");
  ok(read.kind == HD_FAULT_EXIT && read.rank == 1 && read.number == 3, "which is the record");
}

static void test_overwritten(void) {
  hd_fault fault = {0};
  memset(record->note[1].text, 'x', sizeof record->note[1].text);
  memset(record->note[1].host, 'x', sizeof record->note[1].host);
  ok(hd__fault_get(&fault, record, WRITERS) && strlen(fault.text) < sizeof fault.text &&
         strlen(fault.host) < sizeof fault.host,
     "texts end");
  atomic_store(&record->state, WRITERS + 1);
  ok(hd__fault_get(&fault, record, WRITERS) && fault.rank == -1 && strstr(fault.text, "overwritten"),
     "a note behind all notes is none");
}

int main(void) {
  record = map(hd__fault_record_bytes(WRITERS));
  test_killed();
  test_overwritten();
  return done_testing();
}
