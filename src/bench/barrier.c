/* What it takes lanes to meet: heddle's meeting against the OpenMP runtime's barrier, in turns, lanes with nothing else
 * to do. A turn's time is that of the first lane. */
#include <string.h>

#include "base/alloc.h"
#include "bench/machine.h"
#include "sys/clock.h"
#include "sys/cpu_name.h"
#include "sys/lanes.h"
#include "sys/meeting.h"
#include "train/scaling.h"

enum { TURNS = 15, FIRST_MEETINGS = 16 };

typedef struct gathering {
  hd_meeting meeting;
  int64_t meetings;
  double s; /* of lane 0 */
} gathering;

static void meet(void *arg, int lane) {
  gathering *g = arg;
  hd__meeting_come(&g->meeting, lane, 0);
  double start = hd__clock_s();
  for (int64_t i = 0; i < g->meetings; i++)
    hd__meeting_come(&g->meeting, lane, 0);
  if (lane == 0)
    g->s = hd__clock_s() - start;
}

static void meet_by_openmp(void *arg, int lane) {
  gathering *g = arg;
#pragma omp barrier
  double start = hd__clock_s();
  for (int64_t i = 0; i < g->meetings; i++) {
#pragma omp barrier
  }
  if (lane == 0)
    g->s = hd__clock_s() - start;
}

/* Microseconds of one meeting, in a turn of about `seconds`. */
static hd_status time_turn(double *us, hd_ctx *ctx, gathering *g, hd_lanes *lanes, void (*work)(void *, int),
                           double seconds) {
  for (g->meetings = FIRST_MEETINGS;; g->meetings *= 2) {
    HD_TRY(hd__lanes_run(lanes, ctx, work, g));
    if (g->s >= seconds / 2)
      break;
  }
  *us = 1e6 * g->s / (double)g->meetings;
  return HD_OK;
}

static hd_status measure(hd_bench_barrier_result *out, hd_ctx *ctx, hd_lanes *lanes, hd_meeting_line *lines,
                         double seconds) {
  gathering g = {0};
  double own[TURNS], openmp[TURNS], turn = seconds / TURNS / 4;
  hd__meeting_init(&g.meeting, lines, out->threads, hd__lanes_crowded(lanes));
  for (int i = 0; i < out->threads; i++)
    hd__meeting_live(lines, i, hd__lanes_cache(lanes, i));
  hd__meeting_join_caches(&g.meeting);
  for (int t = 0; t < TURNS; t++, out->turns = t) {
    HD_TRY(time_turn(&own[t], ctx, &g, lanes, meet, turn));
    HD_TRY(time_turn(&openmp[t], ctx, &g, lanes, meet_by_openmp, turn));
  }
  hd_median us = hd__median(own, TURNS), openmp_us = hd__median(openmp, TURNS);
  out->us = us.value;
  out->us_low = us.low;
  out->us_high = us.high;
  out->openmp_us = openmp_us.value;
  out->openmp_us_low = openmp_us.low;
  out->openmp_us_high = openmp_us.high;
  return HD_OK;
}

hd_status hd_bench_barrier(hd_bench_barrier_result *out, hd_ctx *ctx, const hd_config *config, double seconds) {
  hd_placement_request request = hd_config_lanes(config);
  hd_lanes *lanes;
  *out = (hd_bench_barrier_result){0};
  HD_TRY(hd__bench_check_seconds(ctx, seconds));
  HD_TRY(hd__lanes_open(&lanes, ctx, &request));
  out->threads = hd__lanes_count(lanes);
  out->cpus = hd__lanes_cpus(lanes);
  hd__cpu_name(out->cpu, sizeof out->cpu);
  hd_meeting_line *lines = hd__malloc_aligned((size_t)HD_MEETING_LINES(out->threads) * sizeof *lines);
  hd_status status = lines ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for a measurement");
  if (lines)
    status = measure(out, ctx, lanes, lines, seconds);
  hd__free(lines);
  hd__lanes_destroy(lanes);
  return status;
}
