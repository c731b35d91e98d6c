/* Looking for idle GPUs: see idle_gpus.h. The management library is read first, which starts nothing on a GPU; the
 * slower driver only where CUDA_VISIBLE_DEVICES may hide the GPUs found. */
#include "exec/gpu/device/idle_gpus.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/gpu/device/cuda_device.h"
#include "exec/gpu/device/nvml.h"

static const double BUSY = 0.05;

/* Nearly nothing was computed recently, and half of the memory is free. */
static bool is_idle(const hd_gpu *gpu) {
  return !gpu->trouble[0] && gpu->use <= BUSY && gpu->memory_bytes > 0 &&
         gpu->memory_used_bytes <= gpu->memory_bytes / 2;
}

static bool is_listed(const hd_cuda_uuid *list, int count, const char *uuid) {
  for (int i = 0; i < count; i++)
    if (!strcmp(list[i].text, uuid))
      return true;
  return false;
}

static int count_idle(char name[HD_LOOK_TEXT_BYTES], const hd_nvml *nvml) {
  const bool hides = getenv("CUDA_VISIBLE_DEVICES") != NULL;
  hd_cuda_uuid visible[HD_CUDA_MOST];
  int idle = 0, known = -1;
  for (int i = 0; i < hd__nvml_count(nvml); i++) {
    hd_gpu gpu;
    hd__nvml_look(&gpu, nvml, i);
    if (!is_idle(&gpu))
      continue;
    if (hides && known < 0)
      known = hd__cuda_uuids(visible);
    if (hides && !is_listed(visible, known, gpu.uuid))
      continue;
    if (idle++ == 0)
      snprintf(name, HD_LOOK_TEXT_BYTES, "%s", gpu.name);
  }
  return idle;
}

/* A library that a process has not found, or that did not answer, is not looked for again: runs may be many and
 * short. */
int hd__idle_gpus(char name[HD_LOOK_TEXT_BYTES]) {
  static atomic_bool absent;
  char note[HD_LOOK_TEXT_BYTES];
  name[0] = 0;
  hd_nvml *nvml = atomic_load(&absent) ? NULL : hd__nvml_open(note);
  if (!nvml)
    atomic_store(&absent, true);
  const int idle = nvml && hd__cuda_installed() ? count_idle(name, nvml) : 0;
  hd__nvml_close(nvml);
  return idle;
}
