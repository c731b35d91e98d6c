/* What the doctor's checks make of numbers: machines that this one is not, shown to the functions that judge. */
#include "tap.h"

#include "tools/doctor/doctor_checks.h"

static hd_ctx *ctx;

static void test_steal(void) {
  double steal, total;
  ok(hd__parse_steal(&steal, &total, "cpu  10 20 30 40 50 60 70 80 5 5\ncpu0 1 2 3\n") && steal == 80 && total == 360,
     "steal is the eighth number, guests' time is not counted twice");
  ok(!hd__parse_steal(&steal, &total, "cpu  1 2 3 4\n") && !hd__parse_steal(&steal, &total, ""),
     "a file of an old kernel, or none, has no information");
}

static void test_throttled(void) {
  near(hd__parse_throttled("nr_periods 9\nnr_throttled 2\nthrottled_usec 2500000\n"), 2.5, 1e-12, "version 2, in us");
  near(hd__parse_throttled("nr_periods 9\nnr_throttled 2\nthrottled_time 2500000000\n"), 2.5, 1e-12,
       "version 1, in ns");
  ok(hd__parse_throttled("usage_usec 5\n") == 0 && hd__parse_throttled("") == 0, "no quota, no time");
}

static void test_runtimes(void) {
  static const struct {
    const char *maps, *names;
    int count;
  } list[] = {{"", "", 0},
              {"7f r-xp 0 0:0 0 [heap]\n", "", 0},
              {"7f r-xp 0 0:0 1 /lib/libgomp.so.1.0.0\n7f r--p 0 0:0 1 /lib/libgomp.so.1.0.0\n", "libgomp.so.1.0.0", 1},
              {"7f r-xp 0 0:0 1 /a/libgomp.so.1\n7f r-xp 0 0:0 2 /b/libomp.so.5\n", "libgomp.so.1, libomp.so.5", 2},
              {"7f r-xp 0 0:0 1 /a/libiomp5.so", "libiomp5.so", 1},
              {"7f r-xp 0 0:0 1 /a/torch/libgomp-a34b3233.so.1\n7f r-xp 0 0:0 2 /libgomp.so.1\n",
               "libgomp-a34b3233.so.1, libgomp.so.1", 2},
              {"7f r-xp 0 0:0 1 /home/libomp.so/other.so\n", "", 0}};
  char names[160];
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    is_int(hd__count_runtimes(names, sizeof names, list[i].maps), list[i].count, "%d runtimes in map %d", list[i].count,
           (int)i);
    is_str(names, list[i].names, "and their names");
  }
}

static void test_pairs(void) {
  int pair[2];
  double share;
  const double none[9] = {1, 0.97, 0.95, 0.99, 1, 0.98, 0.96, 0.97, 1};
  is_int(hd__judge_pairs(&share, pair, none, 3), 0, "CPUs that leave each other alone");
  /* 0 with 2, 1 with 3, as many machines number the two CPUs of a core. */
  const double siblings[16] = {1, 0.98, 0.6, 0.97, 0.96, 1, 0.99, 0.58, 0.62, 0.97, 1, 0.98, 0.99, 0.6, 0.97, 1};
  is_int(hd__judge_pairs(&share, pair, siblings, 4), 4, "all four have a partner");
  ok(pair[0] == 0 && pair[1] == 2, "the first pair is 0 and 2");
  near(share, 0.6, 0.001, "each keeps 60 %%");
  const double disturbed[4] = {1, 0.5, 0.98, 1};
  is_int(hd__judge_pairs(&share, pair, disturbed, 2), 0, "one that was slow while the other was not is no pair");
  is_int(hd__count_cores(8, 8, 8), 4, "8 CPUs in pairs are 4 cores");
  is_int(hd__count_cores(64, 24, 24), 32, "64 are 32, if the 24 that were tried are pairs");
  is_int(hd__count_cores(64, 24, 12), 48, "and 48, if half of these are");
}

static void test_bare(void) {
  ok(hd__parse_bare("processor\t: 0\nflags\t\t: fpu vme\nbugs\t: none\n"), "a machine without a hypervisor");
  ok(!hd__parse_bare("processor\t: 0\nflags\t\t: fpu hypervisor vme\n"), "one with");
  ok(hd__parse_bare("processor\t: 0\nflags\t\t: fpu\nmodel name\t: a hypervisor\n"), "a name is no flag");
  ok(!hd__parse_bare("processor\t: 0\nFeatures\t: fp asimd\n") && !hd__parse_bare(""), "without information");
}

/* The finding of a check on a patient; measured is empty if there is none. */
static hd_finding find(hd_check_fn *check, const hd_machine_facts *p) {
  hd_finding f = {0};
  if (check(&f, ctx, p) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return f;
}

static void test_losses(void) {
  hd_machine_facts p = {.root = "",
                        .threads = 4,
                        .cpus = 4,
                        .effort = {.threads = 4, .wall_s = 1, .cpu_s = 3.96, .early = 10, .late = 9.8}};
  p.after.total = 400;
  ok(!find(hd__check_steal, &p).measured[0] && !find(hd__check_throttled, &p).measured[0] &&
         !find(hd__check_busy, &p).measured[0] && !find(hd__check_frequency, &p).measured[0],
     "a machine that gives what it has");
  p.after.steal = 100;
  p.effort.cpu_s = 3;
  hd_finding f = find(hd__check_steal, &p);
  near(f.factor, 4.0 / 3, 1e-9, "a quarter stolen: 4/3 as fast without");
  ok(strstr(f.measured, "25 %") && strstr(f.remedy, "dedicated"), "%s; %s", f.measured, f.remedy);
  ok(!find(hd__check_busy, &p).measured[0], "what the host took is not laid to other programs");
  p.after.steal = 0;
  near(find(hd__check_busy, &p).factor, 4.0 / 3, 1e-9, "without steal, other programs had it");
  p.after.throttled_s = 1;
  p.quota = 3;
  f = find(hd__check_throttled, &p);
  near(f.factor, 4.0 / 3, 1e-9, "a second of four held back");
  ok(strstr(f.remedy, "--threads 3") != NULL, "%s", f.remedy);
  ok(!find(hd__check_busy, &p).measured[0], "nor what the quota held back");
  p.effort.late = 7;
  f = find(hd__check_frequency, &p);
  near(f.factor, 10.0 / 7, 1e-9, "a CPU that slows down to 70 %%");
  ok(strstr(f.measured, "70 %") != NULL, "%s", f.measured);
}

/* Cores from the system: CPUs without a number, so that some of this machine are measured. */
static void test_cores(void) {
  int cpu[4] = {-1, -1, -1, -1}, core[4] = {0, 1, 0, 1};
  hd_machine_facts p = {.root = "", .threads = 4, .cpus = 4, .cpu = cpu, .core = core};
  p.kernels = hd__kernels_select(NULL, &(const char *){NULL});
  hd_finding f = find(hd__check_pairs, &p);
  ok(strstr(f.measured, "4 of 4 CPUs share a physical core") != NULL, "listed pairs are used: %s", f.measured);
  ok(strstr(f.remedy, "--threads 2:") && !(f.factor < 1), "%s, %.2f times", f.remedy, f.factor);
  p.threads = 2;
  ok(!find(hd__check_pairs, &p).measured[0], "a thread on each core is no finding");
  p.kernels = NULL; /* a check that measures crashes */
  p.threads = 8;
  p.bare = true;
  memcpy(core, (int[4]){0, 1, 2, 3}, sizeof core);
  ok(!find(hd__check_pairs, &p).measured[0], "a machine that is not virtual and lists none has no pairs");
}

/* The measurements themselves: more threads than CPUs cannot be faster than one's share; rates are positive. */
static void test_work(void) {
  const hd_kernels *kernels = hd__kernels_select(NULL, &(const char *){NULL});
  double beside = 0;
  hd_pace pace = {0};
  hd_effort effort = {0};
  hd_product product;
  ok(hd__work_steps(&pace, ctx, kernels, 3, 1, 0.02) == HD_OK && pace.wall > 0 && pace.cpu > 0,
     "a team of three takes steps");
  /* Other programs may have the CPUs for a while. */
  for (int try = 0; try < 100 && beside <= 0; try++)
    if (hd__work_beside(&beside, ctx, kernels, -1, -1, 0.02) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  ok(beside > 0, "a CPU works alone");
  for (int try = 0; try < 50 && effort.early <= 0; try++)
    if (hd__work_effort(&effort, ctx, kernels, 2, 0.03) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  ok(effort.cpu_s > 0 && effort.cpu_s < 2.2 * effort.wall_s && effort.early > 0 && effort.late > 0,
     "two threads at work: processor time of at most two");
  if (hd__product_init(&product, ctx, kernels, 64) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  double fast = hd__work_gflops(hd__product_run, &product, 2.0 * 64 * 64 * 64);
  ok(fast > 0.1 && fast < 1e4, "%.1f GFLOP/s", fast);
  hd__product_fini(&product);
}

static void test_requests(void) {
  hd_doctor *doctor;
  is_int(hd_doctor_create(&doctor, ctx, -1), HD_E_USAGE, "-1 threads are refused");
  ok(!doctor, "without a report");
  is_int(hd_doctor_create(&doctor, ctx, 100000), HD_E_USAGE, "so are 100,000");
  hd_doctor_destroy(NULL);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_steal();
  test_throttled();
  test_runtimes();
  test_pairs();
  test_losses();
  test_bare();
  test_cores();
  test_work();
  test_requests();
  hd_ctx_destroy(ctx);
  return done_testing();
}
