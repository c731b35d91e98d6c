/* The CPU budget: quotas of made-up cgroup trees, version 1 and 2, and what follows from this machine's mask. */
#include "scratch.h"

#include <limits.h>
#include <sched.h>

#include "sys/budget.h"

static void make_folder(const char *path) {
  char part[SCRATCH_PATH_BYTES];
  snprintf(part, sizeof part, "%s", path);
  for (char *at = part + 1; (at = strchr(at, '/')); *at++ = '/') {
    *at = 0;
    mkdir(part, 0755);
  }
  mkdir(part, 0755);
}

/* Puts a text into root/folder/name. */
static void put(const char *folder, const char *name, const char *text) {
  char path[SCRATCH_PATH_BYTES];
  snprintf(path, sizeof path, "%s%s%s", in_scratch("cg"), *folder ? "/" : "", folder);
  make_folder(path);
  snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", name);
  put_file(path, text, strlen(text));
}

static void begin(void) {
  scratch_remove(in_scratch("cg"));
  mkdir(in_scratch("cg"), 0755);
}

/* The quota of a process with this /proc/self/cgroup in the tree. */
static int quota(const char *membership) {
  put_file(in_scratch("membership"), membership, strlen(membership));
  return hd__budget_quota(in_scratch("cg"), in_scratch("membership"));
}

static void test_version_2(void) {
  static const struct {
    const char *text;
    int cpus;
    const char *name;
  } max[] = {{"200000 100000\n", 2, "two CPUs"},
             {"max 100000\n", 0, "no quota"},
             {"250000 100000\n", 2, "two and a half"},
             {"199999 100000\n", 1, "a little less than two"},
             {"50000 100000\n", 1, "half a CPU, which is one lane"},
             {"1000 100000\n", 1, "a hundredth of a CPU"},
             {"6400000 100000\n", 64, "64 CPUs"},
             {"30000 10000\n", 3, "a short period"},
             {"max\n", 0, "no quota and no period"},
             {"200000\n", 0, "a quota without period"},
             {"200000 0\n", 0, "a period of 0"},
             {"0 100000\n", 0, "a quota of 0"},
             {"-1 100000\n", 0, "a negative quota"},
             {"", 0, "an empty file"},
             {"garbage\n", 0, "garbage"},
             {"9223372036854775807 100000\n", INT_MAX, "a quota beyond all CPUs"}};
  for (size_t i = 0; i < sizeof max / sizeof *max; i++) {
    begin();
    put("job", "cpu.max", max[i].text);
    is_int(quota("0::/job\n"), max[i].cpus, "cpu.max: %s", max[i].name);
  }
  begin();
  put("a/b/c", "cpu.max", "max 100000\n");
  is_int(quota("0::/a/b/c\n"), 0, "nothing above, nothing here: no quota");
  put("a", "cpu.max", "300000 100000\n");
  is_int(quota("0::/a/b/c\n"), 3, "a folder above sets the quota");
  put("a/b", "cpu.max", "800000 100000\n");
  is_int(quota("0::/a/b/c\n"), 3, "a wider one below does not loosen it");
  put("a/b/c", "cpu.max", "200000 100000\n");
  is_int(quota("0::/a/b/c\n"), 2, "a tighter one does tighten it");
  is_int(quota("0::/a/b\n"), 3, "whoever is above the tighter one does not care");
  is_int(quota("0::/a/bc\n"), 3, "a folder that is not there counts as its parents");
  is_int(quota("0::/other\n"), 0, "a sister does not count");
  put("", "cpu.max", "100000 100000\n");
  is_int(quota("0::/a/b/c\n"), 1, "the root counts, as in a container");
  is_int(quota("0::/\n"), 1, "for the root itself, too");
  is_int(quota("0::/a/b/c"), 1, "the last line needs no newline");
}

static void test_version_1(void) {
  begin();
  put("cpu,cpuacct/docker/x", "cpu.cfs_quota_us", "400000\n");
  put("cpu,cpuacct/docker/x", "cpu.cfs_period_us", "100000\n");
  static const char membership[] =
      "12:pids:/docker/x\n4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n1:name=systemd:/docker/x\n";
  is_int(quota(membership), 4, "version 1: quota and period in two files");
  put("cpu,cpuacct/docker", "cpu.cfs_quota_us", "-1\n");
  put("cpu,cpuacct/docker", "cpu.cfs_period_us", "100000\n");
  is_int(quota(membership), 4, "version 1: -1 above is no quota");
  put("cpu,cpuacct", "cpu.cfs_quota_us", "150000\n");
  put("cpu,cpuacct", "cpu.cfs_period_us", "50000\n");
  is_int(quota(membership), 3, "version 1: the root's counts");
  put("memory/docker/x", "cpu.cfs_quota_us", "100000\n");
  put("memory/docker/x", "cpu.cfs_period_us", "100000\n");
  is_int(quota(membership), 3, "version 1: only the CPU controller's tree is looked at");
  is_int(quota("3:memory:/docker/x\n"), 0, "version 1: without a CPU controller no quota");
  unlink(in_scratch("cg/cpu,cpuacct/docker/x/cpu.cfs_period_us"));
  unlink(in_scratch("cg/cpu,cpuacct/cpu.cfs_period_us"));
  is_int(quota(membership), 0, "version 1: a quota without period is none");
}

static void test_both_versions(void) {
  begin();
  put("cpu,cpuacct/a", "cpu.cfs_quota_us", "500000\n");
  put("cpu,cpuacct/a", "cpu.cfs_period_us", "100000\n");
  put("b", "cpu.max", "300000 100000\n");
  is_int(quota("4:cpu,cpuacct:/a\n0::/b\n"), 3, "both versions: the tighter one, here the second line's");
  is_int(quota("0::/c\n4:cpu,cpuacct:/a\n"), 5, "both versions: the tighter one, here the first version's");
}

static void test_bad_membership(void) {
  begin();
  put("a", "cpu.max", "200000 100000\n");
  static const char *const bad[] = {"", "\n", "0\n", "0:\n", "::\n", "0:/a\n", "\x01\xff\xfe\n", "a:b\n"};
  int wrong = 0;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    wrong += quota(bad[i]) != 0;
  is_int(wrong, 0, "lines that are none are passed over");
  is_int(quota("garbage\n0::/a\n"), 2, "and a good one behind them is read");
  is_int(quota("0::/a/../a\n"), 2, "a path with dots");
  is_int(hd__budget_quota(in_scratch("cg"), in_scratch("missing")), 0, "no membership, no quota");
  is_int(hd__budget_quota(in_scratch("missing"), in_scratch("membership")), 0, "no tree, no quota");
  static char longest[8000];
  memset(longest, 'x', sizeof longest - 1);
  memcpy(longest, "0::/", 4);
  longest[sizeof longest - 2] = '\n';
  is_int(quota(longest), 0, "a path of 8000 letters");
  held before = held_now();
  quota("0::/a\n4:cpu:/x\n");
  holds_same(before, "no file stays open");
}

static void test_lanes(void) {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
    skip(5, "more CPUs than a mask can hold");
    return;
  }
  int cpus = hd__budget_cpus(), lanes = 0, wrong = 0, other = 0;
  hd_ctx *ctx = NULL;
  hd_ctx_create(&ctx);
  ok(cpus >= 1 && cpus <= CPU_COUNT(&mask), "the budget is between one CPU and the mask");
  unsetenv("OMP_NUM_THREADS");
  hd__budget_lanes(&lanes, ctx);
  ok(lanes >= 1 && lanes <= cpus, "by default lanes are between one and the budget");
  static const struct {
    const char *text;
    int lanes;
  } good[] = {{"3", 3}, {"1000", 1000}, {"1024", 1024}, {"5,2", 5}, {" 5 , 2", 5}, {"4\t", 4}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    setenv("OMP_NUM_THREADS", good[i].text, 1);
    wrong += hd__budget_lanes(&other, ctx) != HD_OK || other != good[i].lanes;
  }
  is_int(wrong, 0, "OMP_NUM_THREADS is what the user wants, more than the budget too; of a list the first counts");
  setenv("OMP_NUM_THREADS", "", 1);
  ok(hd__budget_lanes(&other, ctx) == HD_OK && other == lanes, "an empty one is none");
  static const char *const bad[] = {"0", "-2", "many", ",2", "1025", "99999999999999999999", "3x", " "};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv("OMP_NUM_THREADS", bad[i], 1);
    wrong += hd__budget_lanes(&other, ctx) != HD_E_USAGE || !strstr(hd_ctx_message(ctx), bad[i]);
  }
  is_int(wrong, 0, "what is no number of lanes is refused, and named");
  hd_ctx_destroy(ctx);
  unsetenv("OMP_NUM_THREADS");
}

/* Places are distinct and allowed, or all -1. */
static int bad_places(int lanes, const cpu_set_t *mask, int *pinned) {
  int cpu[2 * CPU_SETSIZE], wrong = 0;
  hd__budget_place(cpu, lanes);
  *pinned = cpu[0] >= 0;
  for (int i = 0; i < lanes; i++) {
    wrong += (cpu[i] >= 0) != *pinned || (*pinned && !CPU_ISSET(cpu[i], mask));
    for (int k = 0; *pinned && k < i; k++)
      wrong += cpu[k] == cpu[i];
  }
  return wrong;
}

static void test_places(void) {
  cpu_set_t mask, one;
  int pinned, wrong = 0;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) {
    skip(6, "more CPUs than a mask can hold");
    return;
  }
  int all = CPU_COUNT(&mask), quota_free = hd__budget_cpus() == all;
  for (int lanes = 1; lanes <= all; lanes++)
    wrong += bad_places(lanes, &mask, &pinned);
  is_int(wrong, 0, "lanes get CPUs of their own in the mask, or none is pinned");
  is_int(bad_places(all + 1, &mask, &pinned) + pinned, 0, "more lanes than CPUs are not pinned");
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &mask))
    last--;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) {
    skip(4, "the mask cannot be changed");
    return;
  }
  int place = -2;
  is_int(hd__budget_cpus(), 1, "with one CPU in the mask the budget is one");
  hd__budget_lanes(&place, NULL);
  is_int(place, 1, "and so are the lanes");
  hd__budget_place(&place, 1);
  if (quota_free)
    is_int(place, last, "which sits there");
  else
    ok(place == last || place == -1, "which sits there, or is not pinned under a quota");
  is_int(bad_places(2, &one, &pinned) + pinned, 0, "two lanes on it are not pinned");
  sched_setaffinity(0, sizeof mask, &mask);
}

int main(void) {
  test_version_2();
  test_version_1();
  test_both_versions();
  test_bad_membership();
  test_lanes();
  test_places();
  return done_testing();
}
