/* A stub of NVIDIA's library: two GPUs, of which the second one behaves as STUB_GPU sets ("lost", "mute": every
 * question but its name fails). STUB_INIT is what nvmlInit_v2 returns, STUB_GPUS how many there are.
 *
 * Built a second time as NVML_STUB_BARE, with hardly a function. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { DONE = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, IS_LOST = 15 };

static int number_of(const char *variable, int fallback) {
  const char *text = getenv(variable);
  return text && *text ? atoi(text) : fallback;
}

API int nvmlInit_v2(void);
API int nvmlInit_v2(void) { return number_of("STUB_INIT", DONE); }

API int nvmlDeviceGetCount_v2(unsigned *count);
API int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = (unsigned)number_of("STUB_GPUS", 2);
  return DONE;
}

typedef struct gpu {
  int index;
} gpu;

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu **out);

#ifndef NVML_STUB_NO_HANDLES
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu **out) {
  static gpu gpus[64];
  const char *does = getenv("STUB_GPU");
  if (index == 1 && does && !strcmp(does, "lost"))
    return IS_LOST;
  gpus[index].index = (int)index;
  *out = &gpus[index];
  return DONE;
}
#endif

#ifndef NVML_STUB_BARE
static int is_mute(const gpu *g) {
  const char *does = getenv("STUB_GPU");
  return g->index == 1 && does && !strcmp(does, "mute");
}

#define ANSWERS(g)                                                                                                     \
  if (is_mute(g))                                                                                                      \
  return NOT_SUPPORTED

API int nvmlShutdown(void);
API int nvmlShutdown(void) { return DONE; }

API const char *nvmlErrorString(int error);
API const char *nvmlErrorString(int error) {
  return error == IS_LOST ? "GPU is lost" : error == 9 ? "Driver Not Loaded" : "Other";
}

API int nvmlDeviceGetName(gpu *g, char *name, unsigned length);
API int nvmlDeviceGetName(gpu *g, char *name, unsigned length) {
  snprintf(name, length, "%s", g->index == 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA GeForce RTX 4090");
  return DONE;
}

API int nvmlDeviceGetUUID(gpu *g, char *uuid, unsigned length);
API int nvmlDeviceGetUUID(gpu *g, char *uuid, unsigned length) {
  ANSWERS(g);
  snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012d", g->index);
  return DONE;
}

typedef struct memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
} memory;

API int nvmlDeviceGetMemoryInfo_v2(gpu *g, memory *m);
API int nvmlDeviceGetMemoryInfo_v2(gpu *g, memory *m) {
  if (m->version != (sizeof *m | 2u << 24) || g->index != 0)
    return NOT_SUPPORTED;
  *m = (memory){m->version, 80ull << 30, 1ull << 30, 39ull << 30, 40ull << 30};
  return DONE;
}

/* The older form, in which the driver's own part counts as used. */
API int nvmlDeviceGetMemoryInfo(gpu *g, unsigned long long *m);
API int nvmlDeviceGetMemoryInfo(gpu *g, unsigned long long *m) {
  ANSWERS(g);
  m[0] = 24ull << 30;
  m[1] = 18ull << 30;
  m[2] = 6ull << 30;
  return DONE;
}

API int nvmlDeviceGetUtilizationRates(gpu *g, unsigned *percent);
API int nvmlDeviceGetUtilizationRates(gpu *g, unsigned *percent) {
  ANSWERS(g);
  percent[0] = g->index == 0 ? 97 : 3;
  percent[1] = 41;
  return DONE;
}

API int nvmlDeviceGetTemperature(gpu *g, int sensor, unsigned *celsius);
API int nvmlDeviceGetTemperature(gpu *g, int sensor, unsigned *celsius) {
  ANSWERS(g);
  *celsius = 61;
  return sensor == 0 ? DONE : NOT_SUPPORTED;
}

API int nvmlDeviceGetPowerUsage(gpu *g, unsigned *milliwatts);
API int nvmlDeviceGetPowerUsage(gpu *g, unsigned *milliwatts) {
  ANSWERS(g);
  *milliwatts = 412345;
  return DONE;
}

API int nvmlDeviceGetEnforcedPowerLimit(gpu *g, unsigned *milliwatts);
API int nvmlDeviceGetEnforcedPowerLimit(gpu *g, unsigned *milliwatts) {
  ANSWERS(g);
  *milliwatts = 700000;
  return DONE;
}

typedef struct process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
} process;

/* This process, one of unknown memory, and STUB_PROCESSES more if set. */
API int nvmlDeviceGetComputeRunningProcesses_v3(gpu *g, unsigned *count, process *list);
API int nvmlDeviceGetComputeRunningProcesses_v3(gpu *g, unsigned *count, process *list) {
  const unsigned all = (unsigned)number_of("STUB_PROCESSES", 2);
  ANSWERS(g);
  if (*count < all)
    return INSUFFICIENT_SIZE;
  *count = g->index == 0 ? all : 0;
  for (unsigned i = 0; i < *count; i++)
    list[i] = (process){i == 0 ? (unsigned)number_of("STUB_PID", 1) : 4000000 + i, i == 1 ? ~0ull : 1ull << 30, 0, 0};
  return DONE;
}

/* The same process again, under the older name. */
API int nvmlDeviceGetGraphicsRunningProcesses_v2(gpu *g, unsigned *count, process *list);
API int nvmlDeviceGetGraphicsRunningProcesses_v2(gpu *g, unsigned *count, process *list) {
  ANSWERS(g);
  *count = g->index == 0;
  list[0] = (process){(unsigned)number_of("STUB_PID", 1), 5, 0, 0};
  return DONE;
}
#endif
