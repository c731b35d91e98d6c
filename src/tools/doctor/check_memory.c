/* Checks of memory: huge pages, the limit on locked memory, and room for shared memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "heddle/device.h"
#include "platform/clock.h"
#include "tools/doctor/doctor_checks.h"

enum { LINES = 8192, PAGE = 4096, LINE = 64, MEGABYTE = 1 << 20 };

/* Seconds to read LINES cache lines, `apart` bytes from each other: the best of several passes. */
static double walk_s(const volatile char *memory, size_t apart) {
  double best = 1e9;
  for (int walk = 0; walk < 20; walk++) {
    double start = hd__clock_s();
    for (size_t i = 0, at = 0; i < LINES; i++, at = (at + 5557) % LINES)
      (void)memory[at * apart];
    double spent = hd__clock_s() - start;
    best = spent < best ? spent : best;
  }
  return best;
}

hd_status hd__check_huge_pages(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  char text[128];
  if (!strstr(hd__host_text(text, sizeof text, facts, "/sys/kernel/mm/transparent_hugepage/enabled"), "[never]"))
    return HD_OK;
  size_t bytes = (size_t)LINES * (PAGE + LINE);
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  memset(memory, 1, bytes);
  double far = walk_s(memory, PAGE + LINE), near = walk_s(memory, LINE), factor = far / near > 1 ? far / near : 1;
  munmap(memory, bytes);
  hd__find(
      out, factor, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
      "huge pages are off: reading one line from each of %d pages takes %.1f times as long as reading adjacent lines",
      LINES, factor);
  return HD_OK;
}

hd_status hd__check_memlock(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  enum { WANTED = 64 * MEGABYTE };
  void *memory = mmap(NULL, WANTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  int refused = mlock(memory, WANTED);
  hd_ctx quiet = {0};
  munmap(memory, WANTED);
  if (refused)
    hd__find(out, NAN, "ulimit -l unlimited (docker: --ulimit memlock=-1)", "%d MiB cannot be locked in memory: %s",
             WANTED / MEGABYTE,
             hd_device_count(&quiet) > 0 ? "buffers for a GPU are copied twice"
                                         : "--pin-memory has no effect; nothing else needs it here");
  return HD_OK;
}

hd_status hd__check_shm(hd_finding *out, hd_ctx *ctx, const hd_machine_facts *facts) {
  char path[1024];
  struct statvfs shm;
  snprintf(path, sizeof path, "%.1000s/dev/shm", facts->root);
  if (statvfs(path, &shm))
    return HD_OK;
  double room = (double)shm.f_bavail * (double)shm.f_frsize / MEGABYTE;
  if (room < 256)
    hd__find(out, NAN, "mount -o remount,size=2G /dev/shm (docker: --shm-size 2g)",
             "/dev/shm has room for %.0f MiB: heddle does not need it, but programs that pass batches through it fail",
             room);
  return HD_OK;
}
