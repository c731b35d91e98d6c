/* CPU quotas of made-up cgroup trees, version 1 and 2. */
#include "scratch.h"

#include <limits.h>

#include "made_up_files.h"
#include "platform/cgroup.h"

/* Whole CPUs under the quota of a process with this /proc/self/cgroup in the tree, 0 for none. */
static hd_quota found;

static int quota_of(const char *root, const char *membership) {
  found = hd__quota_read(root, membership);
  return found.cpus > 0 ? hd__quota_floor(found.cpus) : 0;
}

static int quota(const char *membership) {
  put_file(in_scratch("membership"), membership, strlen(membership));
  return quota_of(in_scratch("root"), in_scratch("membership"));
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
             {"50000 100000\n", 1, "half a CPU, which is one thread"},
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
  is_int(quota("0::/a/b\n"), 3, "it does not hold for the folders above it");
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
  unlink(in_scratch("root/cpu,cpuacct/docker/x/cpu.cfs_period_us"));
  unlink(in_scratch("root/cpu,cpuacct/cpu.cfs_period_us"));
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
  is_int(quota_of(in_scratch("root"), in_scratch("missing")), 0, "no membership, no quota");
  is_int(quota_of(in_scratch("missing"), in_scratch("membership")), 0, "no tree, no quota");
  static char longest[8000];
  memset(longest, 'x', sizeof longest - 1);
  memcpy(longest, "0::/", 4);
  longest[sizeof longest - 2] = '\n';
  is_int(quota(longest), 0, "a path of 8000 letters");
  held before = held_now();
  quota("0::/a\n4:cpu:/x\n");
  holds_same(before, "no file stays open");
}

static void test_exact(void) {
  begin();
  put("a", "cpu.max", "150000 100000\n");
  is_int(quota("0::/a\n"), 1, "a quota of 1.5 CPUs is one thread");
  near(found.cpus, 1.5, 0, "and is reported exactly");
  is_str(found.file, in_scratch("root/a/cpu.max"), "with its file");
  begin();
  put("unified/a", "cpu.max", "200000 100000\n");
  put("cpu/b", "cpu.cfs_quota_us", "300000\n");
  put("cpu/b", "cpu.cfs_period_us", "100000\n");
  put("cpuset/b", "cpu.max", "100000 100000\n");
  is_int(quota("0::/a\n"), 2, "hybrid: version 2 is in another folder");
  is_int(quota("4:cpuacct,cpu:/b\n"), 3, "version 1: controllers in another order, a folder with the short name");
  is_int(quota("5:cpuset:/b\n"), 0, "version 1: cpuset is another controller");
  is_int(quota("4:cpuacct,cpu:/b\n5:cpuset:/b\n0::/a\n"), 2, "hybrid: the tightest of all");
  is_str(found.file, in_scratch("root/unified/a/cpu.max"), "is named");
  is_int(hd__quota_floor(0), INT_MAX, "no quota allows any number");
}

int main(void) {
  test_version_2();
  test_version_1();
  test_both_versions();
  test_bad_membership();
  test_exact();
  return done_testing();
}
