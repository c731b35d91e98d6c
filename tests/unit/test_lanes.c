/* Lanes' speeds: said, told, or all alike. (Where lanes go and that they get there: test_placement.) */
#include "scratch.h"

#include "base/status.h"
#include "sys/lanes.h"

static hd_ctx *ctx;

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
  hd_ctx_destroy(ctx);
  return done_testing();
}
