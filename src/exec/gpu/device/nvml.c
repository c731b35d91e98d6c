/* Loading and calling NVML: see nvml.h. Only the functions in use are declared here, as NVIDIA documents them (NVML API
 * Reference Guide); functions with a version in their name do not change. */
#include "exec/gpu/device/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "platform/process.h"

enum { NVML_DONE = 0, NVML_TEMPERATURE_GPU = 0, NVML_TEXT_BYTES = 96, MOST_GPUS = 64 };

typedef struct nvml_gpu *nvml_handle;

typedef struct nvml_memory {
  unsigned long long total, free, used;
} nvml_memory;

/* Memory reserved by the driver is not counted as used, as in nvidia-smi. */
typedef struct nvml_memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
} nvml_memory_v2;

typedef struct nvml_use {
  unsigned gpu, memory; /* percent */
} nvml_use;

typedef struct nvml_process {
  unsigned pid;
  unsigned long long used_memory; /* all ones: unknown */
  unsigned gpu_instance, compute_instance;
} nvml_process;

/* The functions, each with its names over time, the newest first. */
typedef struct nvml_calls {
  int (*init)(void);
  int (*shutdown)(void);
  int (*count)(unsigned *);
  int (*handle)(unsigned, nvml_handle *);
  const char *(*error)(int);
  int (*name)(nvml_handle, char *, unsigned);
  int (*uuid)(nvml_handle, char *, unsigned);
  int (*memory_v2)(nvml_handle, nvml_memory_v2 *);
  int (*memory)(nvml_handle, nvml_memory *);
  int (*use)(nvml_handle, nvml_use *);
  int (*temperature)(nvml_handle, int, unsigned *);
  int (*power)(nvml_handle, unsigned *);
  int (*power_limit)(nvml_handle, unsigned *);
  int (*compute)(nvml_handle, unsigned *, nvml_process *);
  int (*graphics)(nvml_handle, unsigned *, nvml_process *);
} nvml_calls;

static const struct {
  size_t offset;
  const char *name, *older;
  int needed;
} entries[] = {
    {offsetof(nvml_calls, init), "nvmlInit_v2", NULL, 1},
    {offsetof(nvml_calls, shutdown), "nvmlShutdown", NULL, 0},
    {offsetof(nvml_calls, count), "nvmlDeviceGetCount_v2", NULL, 1},
    {offsetof(nvml_calls, handle), "nvmlDeviceGetHandleByIndex_v2", NULL, 1},
    {offsetof(nvml_calls, error), "nvmlErrorString", NULL, 0},
    {offsetof(nvml_calls, name), "nvmlDeviceGetName", NULL, 0},
    {offsetof(nvml_calls, uuid), "nvmlDeviceGetUUID", NULL, 0},
    {offsetof(nvml_calls, memory_v2), "nvmlDeviceGetMemoryInfo_v2", NULL, 0},
    {offsetof(nvml_calls, memory), "nvmlDeviceGetMemoryInfo", NULL, 0},
    {offsetof(nvml_calls, use), "nvmlDeviceGetUtilizationRates", NULL, 0},
    {offsetof(nvml_calls, temperature), "nvmlDeviceGetTemperature", NULL, 0},
    {offsetof(nvml_calls, power), "nvmlDeviceGetPowerUsage", NULL, 0},
    {offsetof(nvml_calls, power_limit), "nvmlDeviceGetEnforcedPowerLimit", NULL, 0},
    {offsetof(nvml_calls, compute), "nvmlDeviceGetComputeRunningProcesses_v3",
     "nvmlDeviceGetComputeRunningProcesses_v2", 0},
    {offsetof(nvml_calls, graphics), "nvmlDeviceGetGraphicsRunningProcesses_v3",
     "nvmlDeviceGetGraphicsRunningProcesses_v2", 0},
};

struct hd_nvml {
  void *library;
  nvml_calls call;
  int gpus;
};

/* ---- Loading ---- */

/* The name of the first missing function; NULL if all required ones exist. */
static const char *find_calls(nvml_calls *call, void *library) {
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
    void *function = dlsym(library, entries[i].name);
    if (!function && entries[i].older)
      function = dlsym(library, entries[i].older);
    if (!function && entries[i].needed)
      return entries[i].name;
    memcpy((char *)call + entries[i].offset, &function, sizeof function);
  }
  return NULL;
}

static const char *words_of(const hd_nvml *nvml, int error) {
  const char *words = nvml->call.error ? nvml->call.error(error) : NULL;
  return words ? words : "it failed";
}

static int start(hd_nvml *nvml, char note[HD_LOOK_TEXT_BYTES], const char *name) {
  const char *missing = find_calls(&nvml->call, nvml->library);
  unsigned gpus = 0;
  if (missing) {
    snprintf(note, HD_LOOK_TEXT_BYTES, "no GPU: %.48s has no %.40s", name, missing);
    return 0;
  }
  int error = nvml->call.init();
  if (error == NVML_DONE) {
    error = nvml->call.count(&gpus);
    if (error == NVML_DONE && gpus > 0) {
      nvml->gpus = gpus < MOST_GPUS ? (int)gpus : MOST_GPUS;
      return 1;
    }
    if (nvml->call.shutdown)
      nvml->call.shutdown();
  }
  snprintf(note, HD_LOOK_TEXT_BYTES, "no GPU: %.48s says: %.56s", name,
           error == NVML_DONE ? "there is none" : words_of(nvml, error));
  return 0;
}

hd_nvml *hd__nvml_open(char note[HD_LOOK_TEXT_BYTES]) {
  const char *wanted = secure_getenv("HEDDLE_NVML"), *name = wanted && *wanted ? wanted : "libnvidia-ml.so.1";
  hd_nvml *nvml = hd__calloc(1, sizeof *nvml);
  note[0] = 0;
  if (!nvml) {
    snprintf(note, HD_LOOK_TEXT_BYTES, "no GPU: out of memory");
    return NULL;
  }
  nvml->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!nvml->library)
    snprintf(note, HD_LOOK_TEXT_BYTES, "no GPU: NVIDIA's library %.60s cannot be loaded", name);
  else if (start(nvml, note, name))
    return nvml;
  if (nvml->library)
    dlclose(nvml->library);
  hd__free(nvml);
  return NULL;
}

void hd__nvml_close(hd_nvml *nvml) {
  if (!nvml)
    return;
  if (nvml->call.shutdown)
    nvml->call.shutdown();
  dlclose(nvml->library);
  hd__free(nvml);
}

int hd__nvml_count(const hd_nvml *nvml) { return nvml ? nvml->gpus : 0; }

/* ---- Reading ---- */

static void read_memory(hd_gpu *out, const nvml_calls *call, nvml_handle gpu) {
  nvml_memory_v2 exact = {.version = (unsigned)sizeof exact | 2u << 24};
  nvml_memory plain;
  if (call->memory_v2 && call->memory_v2(gpu, &exact) == NVML_DONE) {
    out->memory_bytes = (int64_t)exact.total;
    out->memory_used_bytes = (int64_t)exact.used;
  } else if (call->memory && call->memory(gpu, &plain) == NVML_DONE) {
    out->memory_bytes = (int64_t)plain.total;
    out->memory_used_bytes = (int64_t)plain.used;
  }
}

/* An unsigned number in units of 1 / `per`; NAN if the query is not supported or fails. */
static double scaled(int error, unsigned value, double per) { return error == NVML_DONE ? value / per : NAN; }

static void read_sensors(hd_gpu *out, const nvml_calls *call, nvml_handle gpu) {
  nvml_use use = {0};
  unsigned value = 0;
  int error = call->use ? call->use(gpu, &use) : -1;
  out->use = scaled(error, use.gpu < 100 ? use.gpu : 100, 100);
  error = call->temperature ? call->temperature(gpu, NVML_TEMPERATURE_GPU, &value) : -1;
  out->temperature_c = scaled(error, value, 1);
  error = call->power ? call->power(gpu, &value) : -1;
  out->power_w = scaled(error, value, 1000);
  error = call->power_limit ? call->power_limit(gpu, &value) : -1;
  out->power_limit_w = scaled(error, value, 1000);
}

static void name_process(hd_gpu_process *process) {
  char name[64];
  hd__process_name(name, sizeof name, process->pid);
  hd__utf8_clean(process->name, sizeof process->name, name, sizeof name);
}

/* Adds the processes of one kind; a process of both kinds counts once. */
static void read_processes(hd_gpu *out, int (*ask)(nvml_handle, unsigned *, nvml_process *), nvml_handle gpu) {
  nvml_process list[HD_GPU_MOST_PROCESSES];
  unsigned count = HD_GPU_MOST_PROCESSES;
  if (!ask || ask(gpu, &count, list) != NVML_DONE)
    return;
  out->processes = out->processes < 0 ? 0 : out->processes;
  for (unsigned i = 0; i < count && i < HD_GPU_MOST_PROCESSES; i++) {
    int at = 0;
    while (at < out->processes && out->process[at].pid != (int32_t)list[i].pid)
      at++;
    if (at < out->processes || at == HD_GPU_MOST_PROCESSES)
      continue;
    const int64_t bytes = list[i].used_memory > INT64_MAX ? -1 : (int64_t)list[i].used_memory;
    out->process[out->processes++] = (hd_gpu_process){.pid = (int32_t)list[i].pid, .memory_bytes = bytes};
    name_process(&out->process[at]);
  }
}

void hd__nvml_look(hd_gpu *out, const hd_nvml *nvml, int index) {
  const nvml_calls *call = &nvml->call;
  char text[NVML_TEXT_BYTES];
  nvml_handle gpu = NULL;
  *out = (hd_gpu){.index = index, .cuda = -1, .memory_bytes = -1, .memory_used_bytes = -1, .processes = -1};
  out->use = out->temperature_c = out->power_w = out->power_limit_w = NAN;
  snprintf(out->name, sizeof out->name, "GPU");
  int error = call->handle((unsigned)index, &gpu);
  if (error != NVML_DONE) {
    hd__utf8_clean(out->trouble, sizeof out->trouble, words_of(nvml, error), sizeof out->trouble);
    return;
  }
  error = call->name ? call->name(gpu, text, sizeof text) : NVML_DONE;
  if (error != NVML_DONE)
    hd__utf8_clean(out->trouble, sizeof out->trouble, words_of(nvml, error), sizeof out->trouble);
  else if (call->name)
    hd__utf8_clean(out->name, sizeof out->name, text, sizeof text);
  if (call->uuid && call->uuid(gpu, text, sizeof text) == NVML_DONE)
    hd__utf8_clean(out->uuid, sizeof out->uuid, text, sizeof text);
  read_memory(out, call, gpu);
  read_sensors(out, call, gpu);
  read_processes(out, call->compute, gpu);
  read_processes(out, call->graphics, gpu);
}
