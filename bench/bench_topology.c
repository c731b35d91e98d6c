/* What it costs a process to look at its machine and to place its threads.
 *
 *     bench_topology [PROCESSES]      default: 20
 *
 * Each time is that of the first look of a process that has just been started by fork. Other load on the machine
 * shows: quote the median, or the least. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heddle.h"
#include "platform/clock.h"
#include "platform/placement.h"

enum { MOST = 1000 };

static double look_ms(void) {
  hd_ctx *ctx;
  hd_topology *machine = NULL;
  hd_placement *place = NULL;
  if (hd_ctx_create(&ctx) != HD_OK)
    exit(1);
  const double start = hd__clock_s();
  hd_status status = hd_topology_create(&machine, ctx);
  if (status == HD_OK)
    status = hd__placement_create(&place, ctx, machine, &(hd_placement_request){0});
  const double spent = hd__clock_s() - start;
  if (status != HD_OK) {
    fprintf(stderr, "bench_topology: %s\n", hd_ctx_message(ctx));
    exit(1);
  }
  return 1e3 * spent;
}

static double look_in_child_ms(void) {
  int ends[2];
  double ms = 0;
  if (pipe(ends) != 0)
    exit(1);
  const pid_t child = fork();
  if (child == 0) {
    ms = look_ms();
    _exit(write(ends[1], &ms, sizeof ms) != (ssize_t)sizeof ms);
  }
  if (child < 0 || read(ends[0], &ms, sizeof ms) != (ssize_t)sizeof ms)
    exit(1);
  close(ends[0]);
  close(ends[1]);
  waitpid(child, NULL, 0);
  return ms;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  double ms[MOST];
  int count = argc > 1 ? atoi(argv[1]) : 20;
  count = count < 1 ? 1 : count > MOST ? MOST : count;
  for (int i = 0; i < count; i++)
    ms[i] = look_in_child_ms();
  qsort(ms, (size_t)count, sizeof *ms, compare);
  printf("first look at the machine, of %d processes: least %.2f ms, median %.2f ms, most %.2f ms\n", count, ms[0],
         ms[count / 2], ms[count - 1]);
  return 0;
}
