/* Lanes' speeds: said, told, or all alike; and lanes on a machine with more CPUs than a cpu_set_t holds. (Where lanes
 * go and that they get there: test_placement.) */
#include "scratch.h"

#include <errno.h>
#include <sched.h>

#include "base/status.h"
#include "sys/cpu_set.h"
#include "sys/lanes.h"

static hd_ctx *ctx;

/* ---- A system with CPUs 0 to 4095, in place of this one: what threads ask it for, it notes ---- */

enum { CPUS = 4096 };

static _Thread_local hd_cpu_set allowed = {.word = {~0UL, [CPUS / 64 - 1] = ~0UL}};

/* As the system: it does not tell the half of a set. */
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
  if (bytes < CPUS / 8) {
    errno = EINVAL;
    return -1;
  }
  memset(set, 0, bytes);
  memcpy(set, &allowed, bytes < sizeof allowed ? bytes : sizeof allowed);
  return 0;
}

int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set) {
  hd_cpu_set wanted = {0};
  memcpy(&wanted, set, bytes < CPUS / 8 ? bytes : CPUS / 8);
  if (hd__cpu_set_count(&wanted) == 0) {
    errno = EINVAL;
    return -1;
  }
  allowed = wanted;
  return 0;
}

/* Where this thread is bound to; -1: to none alone. */
static int bound_to(void) {
  int found = -1;
  for (int i = 0; i < CPUS && hd__cpu_set_count(&allowed) == 1; i++)
    found = hd__cpu_set_has(&allowed, i) ? i : found;
  return found;
}

static void note_cpu(void *arg, int lane) { ((int *)arg)[lane] = bound_to(); }

static void test_many_cpus(void) {
  hd_binding lane[] = {{3, -1, 0, -1}, {1023, -1, 0, -1}, {1024, -1, 0, -1}, {CPUS - 1, -1, 0, -1}};
  const hd_cpu_set before = allowed;
  int cpu[4];
  hd_lanes *lanes;
  if (hd__lanes_create(&lanes, ctx, &(hd_placement){.lanes = 4, .lane = lane, .cpus = 4}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd__lanes_run(lanes, ctx, note_cpu, cpu);
  for (int i = 0; i < 4; i++)
    is_int(cpu[i], lane[i].cpu, "lane %d is bound to CPU %d of %d", i, lane[i].cpu, CPUS);
  ok(!hd__lanes_refused(lanes), "none is refused");
  ok(!memcmp(&before, &allowed, sizeof before), "and the thread that called has its CPUs back");
  hd__lanes_destroy(lanes);
}

/* Unbound lanes on cores of these kinds. */
static hd_status make(hd_lanes **out, const int *kind, int count) {
  hd_binding lane[8];
  for (int i = 0; i < count; i++)
    lane[i] = (hd_binding){-1, -1, kind[i], -1};
  return hd__lanes_create(out, ctx, &(hd_placement){.lanes = count, .lane = lane, .cpus = count});
}

/* "7 1 7", or "alike". */
static const char *speeds(const hd_lanes *lanes) {
  static char text[128];
  const int32_t *speed = hd__lanes_speeds(lanes);
  size_t at = 0;
  snprintf(text, sizeof text, "alike");
  for (int i = 0; speed && i < hd__lanes_count(lanes); i++)
    at += (size_t)snprintf(text + at, sizeof text - at, i ? " %d" : "%d", speed[i]);
  return text;
}

static void test_said(void) {
  static const char *const bad[] = {"fast", "1,,2", "1,2,", "-1", "1001", "1.5", "1 2", "0", "0,0", "123456789012345"};
  hd_lanes *lanes;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv("HEDDLE_LANE_SPEEDS", bad[i], 1);
    hd_status status = make(&lanes, (int[]){0, 0, 0}, 3);
    ok(status == HD_E_USAGE && !lanes && strstr(hd_ctx_message(ctx), bad[i]), "'%s' is refused: %s", bad[i],
       hd_ctx_message(ctx));
  }
  setenv("HEDDLE_LANE_SPEEDS", "7,0", 1);
  make(&lanes, (int[]){1, 0, 0}, 3);
  is_str(speeds(lanes), "7 0 7", "a short list goes round");
  ok(!hd__lanes_want_rates(lanes), "what was said is not measured");
  hd__lanes_destroy(lanes);
  unsetenv("HEDDLE_LANE_SPEEDS");
}

static void test_told(void) {
  hd_lanes *lanes;
  make(&lanes, (int[]){1, 1, 1}, 3);
  is_str(speeds(lanes), "alike", "lanes on cores of one kind are alike");
  ok(!hd__lanes_want_rates(lanes), "and need no measuring");
  hd__lanes_destroy(lanes);
  make(&lanes, (int[]){1, 0, -1, 1, 0}, 5);
  ok(hd__lanes_want_rates(lanes), "lanes on cores of several kinds do");
  is_str(speeds(lanes), "alike", "until then they count as alike");
  hd__lanes_take_rates(lanes, (double[]){8e6, 3e6, 2e6, 5e6, 4e6});
  is_str(speeds(lanes), "1000 500 250 1000 500", "a kind is as fast as its fastest lane");
  ok(!hd__lanes_want_rates(lanes), "and need it once");
  hd__lanes_destroy(lanes);
  make(&lanes, (int[]){1, 0}, 2);
  hd__lanes_unbind(lanes);
  ok(!hd__lanes_want_rates(lanes), "lanes that are anywhere need none");
  hd__lanes_destroy(lanes);
}

int main(void) {
  unsetenv("HEDDLE_LANE_SPEEDS");
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  test_said();
  test_told();
  test_many_cpus();
  hd_ctx_destroy(ctx);
  return done_testing();
}
