/* GPUs, by a stub of NVIDIA's library: two of them, a lost one, one that does not answer, a library without functions,
 * and none at all. */
#include "scratch.h"

#include <sys/prctl.h>

#include "exec/gpu/device/nvml.h"

static char note[HD_LOOK_TEXT_BYTES];

static const char *stub(const char *name) {
  static char path[SCRATCH_PATH_BYTES];
  const char *build = getenv("BUILDDIR");
  snprintf(path, sizeof path, "%s/tests/unit/.libs/%s.so", build ? build : ".", name);
  return path;
}

static hd_nvml *open_stub(const char *name) {
  setenv("HEDDLE_NVML", stub(name), 1);
  return hd__nvml_open(note);
}

static void test_two(void) {
  char pid[16];
  hd_gpu gpu;
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  setenv("STUB_PID", pid, 1);
  prctl(PR_SET_NAME, "digits; \"\t\"");
  hd_nvml *nvml = open_stub("nvml_stub");
  is_str(note, "", "nothing to remark");
  is_int(hd__nvml_count(nvml), 2, "two GPUs");
  hd__nvml_look(&gpu, nvml, 0);
  is_str(gpu.name, "NVIDIA H100 80GB HBM3", "the first one's name");
  is_str(gpu.uuid, "GPU-00000000-0000-0000-0000-000000000000", "and UUID");
  is_str(gpu.trouble, "", "and no trouble");
  near(gpu.use, 0.97, 1e-12, "97 %% busy");
  is_int(gpu.memory_bytes, 80LL << 30, "memory");
  is_int(gpu.memory_used_bytes, 40LL << 30, "used memory, without the driver's");
  near(gpu.temperature_c, 61, 0, "temperature");
  near(gpu.power_w, 412.345, 1e-9, "power");
  near(gpu.power_limit_w, 700, 0, "and its limit");
  is_int(gpu.processes, 2, "two processes: one that computes and draws counts once");
  is_int(gpu.process[0].pid, getpid(), "this one");
  is_str(gpu.process[0].name, "digits; \"?\"", "with its name");
  is_int(gpu.process[0].memory_bytes, 1LL << 30, "and its memory");
  is_int(gpu.process[1].memory_bytes, -1, "memory that the driver does not report");
  is_str(gpu.process[1].name, "", "a process that is not there has no name");
  hd__nvml_look(&gpu, nvml, 1);
  is_str(gpu.name, "NVIDIA GeForce RTX 4090", "the second one's name");
  is_int(gpu.memory_used_bytes, 6LL << 30, "an older question where the new one is not answered");
  is_int(gpu.processes, 0, "no process");
  setenv("STUB_PROCESSES", "1000", 1);
  hd__nvml_look(&gpu, nvml, 0);
  is_int(gpu.processes, 1, "more processes than requested: the result of the other query");
  unsetenv("STUB_PROCESSES");
  hd__nvml_close(nvml);
}

static void test_trouble(void) {
  hd_gpu gpu;
  hd_nvml *nvml = open_stub("nvml_stub");
  setenv("STUB_GPU", "mute", 1);
  hd__nvml_look(&gpu, nvml, 1);
  is_str(gpu.name, "NVIDIA GeForce RTX 4090", "a GPU that answers nothing but its name");
  ok(isnan(gpu.use) && isnan(gpu.temperature_c) && isnan(gpu.power_w) && isnan(gpu.power_limit_w), "has no sensors");
  ok(gpu.memory_bytes == -1 && gpu.memory_used_bytes == -1 && gpu.processes == -1, "no memory and no processes");
  setenv("STUB_GPU", "lost", 1);
  hd__nvml_look(&gpu, nvml, 1);
  is_str(gpu.trouble, "GPU is lost", "a lost one is reported, in the driver's words");
  ok(isnan(gpu.use) && gpu.memory_bytes == -1 && gpu.processes == -1, "and its values are unknown");
  hd__nvml_look(&gpu, nvml, 0);
  near(gpu.use, 0.97, 1e-12, "the other one is as well as ever");
  unsetenv("STUB_GPU");
  hd__nvml_close(nvml);
}

static void test_bare(void) {
  hd_gpu gpu;
  hd_nvml *nvml = open_stub("nvml_bare");
  is_int(hd__nvml_count(nvml), 2, "a library with three functions");
  hd__nvml_look(&gpu, nvml, 0);
  is_str(gpu.name, "GPU", "has no names");
  ok(isnan(gpu.use) && gpu.memory_bytes == -1 && gpu.processes == -1, "and nothing else");
  hd__nvml_close(nvml);
}

static void refuses_to_open(const char *name, const char *says, const char *what) {
  hd_nvml *nvml = open_stub(name);
  ok(!nvml && !strncmp(note, "no GPU: ", 8) && strstr(note, says) && !strchr(note, '\n'), "%s: %s", what, note);
  hd__nvml_close(nvml);
}

int main(void) {
  if (access(stub("nvml_stub"), R_OK) != 0)
    skip_all("this build makes no modules");
  test_two();
  test_trouble();
  test_bare();
  refuses_to_open("nvml_useless", "has no nvmlDeviceGetHandleByIndex_v2", "a library that lacks what is needed");
  refuses_to_open("no_such_library", "cannot be loaded", "no library");
  setenv("STUB_INIT", "9", 1);
  refuses_to_open("nvml_stub", "Driver Not Loaded", "a library without a driver");
  refuses_to_open("nvml_bare", "it failed", "one without error texts");
  unsetenv("STUB_INIT");
  setenv("STUB_GPUS", "0", 1);
  refuses_to_open("nvml_stub", "there is none", "a driver without a GPU");
  unsetenv("STUB_GPUS");
  return done_testing();
}
