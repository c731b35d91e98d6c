/* A monitor: the previous reading, and the present one that is returned. See heddle/monitor.h. */
#include "heddle/monitor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "exec/gpu/device/cuda_device.h"
#include "exec/gpu/device/nvml.h"
#include "kernel/kernel.h"
#include "tools/monitor/jobs.h"
#include "tools/monitor/machine_use.h"
#include "platform/clock.h"

struct hd_monitor {
  const char *root; /* HEDDLE_SYSROOT, or "" */
  hd_topology *machine;
  int numbers; /* the largest CPU number plus one */
  hd_cpu_time *before, *now;
  double *use; /* of machine->cpu[i] */
  hd_energy energy;
  double read_s;
  hd_nvml *nvml;
  hd_gpu *gpu;
  hd_cuda_uuid uuid[HD_CUDA_MOST]; /* of the GPUs that --device cuda can use, by its numbers */
  int uuids;
  char gpu_note[HD_LOOK_TEXT_BYTES], cuda_note[2 * HD_LOOK_TEXT_BYTES];
  hd_jobs jobs;
  hd_look look;
};

/* Counts the driver's GPUs, without starting anything on them. The remedy is left out: a GPU is not required. */
static void note_cuda(hd_monitor *m) {
  hd_ctx why = {0};
  const int count = hd__cuda_count(&why);
  const char *found = strstr(why.message, ", found ");
  m->uuids = count > 0 ? hd__cuda_uuids(m->uuid) : 0;
  if (count > 0)
    snprintf(m->cuda_note, sizeof m->cuda_note, "%d GPU%s can be used", count, count == 1 ? "" : "s");
  else
    snprintf(m->cuda_note, sizeof m->cuda_note, "found %.*s", (int)strcspn(found ? found + 8 : "none", ";"),
             found ? found + 8 : "none");
}

static hd_status prepare(hd_monitor *m, hd_ctx *ctx) {
  const char *root = getenv("HEDDLE_SYSROOT"), *isa = getenv("HEDDLE_ISA");
  m->root = root ? root : "";
  HD_TRY(hd_topology_create(&m->machine, ctx));
  for (int i = 0; i < m->machine->cpus; i++)
    m->numbers = m->machine->cpu[i].cpu >= m->numbers ? m->machine->cpu[i].cpu + 1 : m->numbers;
  m->nvml = hd__nvml_open(m->gpu_note);
  note_cuda(m);
  m->before = hd__calloc((size_t)m->numbers, sizeof *m->before);
  m->now = hd__calloc((size_t)m->numbers, sizeof *m->now);
  m->use = hd__calloc((size_t)m->machine->cpus, sizeof *m->use);
  m->gpu = hd__calloc((size_t)hd__nvml_count(m->nvml) + 1, sizeof *m->gpu);
  HD_TRY(HD_ALLOCATED(m->before && m->now && m->use && m->gpu, ctx, "out of memory while inspecting the machine"));
  const hd_kernels *kernels = hd__kernels_select(isa, NULL);
  m->look = (hd_look){.machine = m->machine,
                      .isa = kernels ? kernels->isa : "",
                      .use = m->use,
                      .gpus = hd__nvml_count(m->nvml),
                      .gpu = m->gpu,
                      .gpu_note = m->gpu_note,
                      .cuda_note = m->cuda_note};
  return HD_OK;
}

hd_status hd_monitor_create(hd_monitor **out, hd_ctx *ctx) {
  *out = NULL;
  hd_monitor *m = hd__calloc(1, sizeof *m);
  HD_TRY(HD_ALLOCATED(m, ctx, "out of memory for a monitor"));
  const hd_status status = prepare(m, ctx);
  *out = m;
  if (status != HD_OK)
    return HD_CREATED(status, out, hd_monitor_destroy);
  hd__use_cpus(m->now, m->numbers, m->root);
  m->energy = hd__use_energy(m->root);
  m->read_s = hd__clock_s();
  return HD_OK;
}

void hd_monitor_destroy(hd_monitor *m) {
  if (!m)
    return;
  hd__jobs_fini(&m->jobs);
  hd__nvml_close(m->nvml);
  hd_topology_destroy(m->machine);
  hd__free(m->before);
  hd__free(m->now);
  hd__free(m->use);
  hd__free(m->gpu);
  hd__free(m);
}

static void read_cpus(hd_monitor *m) {
  double sum = 0;
  int known = 0;
  hd_cpu_time *before = m->now;
  m->now = m->before;
  m->before = before;
  hd__use_cpus(m->now, m->numbers, m->root);
  for (int i = 0; i < m->machine->cpus; i++) {
    const int cpu = m->machine->cpu[i].cpu;
    m->use[i] = hd__use_between(before[cpu], m->now[cpu]);
    sum += isnan(m->use[i]) ? 0 : m->use[i];
    known += !isnan(m->use[i]);
  }
  m->look.use_all = known > 0 ? sum / known : NAN;
}

static void read_power(hd_monitor *m) {
  const hd_energy energy = hd__use_energy(m->root);
  const double now = hd__clock_s();
  m->look.power_w = hd__use_power_between(&m->energy, &energy, now - m->read_s);
  if (isnan(m->look.power_w))
    m->look.power_w = hd__use_power(m->root);
  m->energy = energy;
  m->read_s = now;
}

static void read_gpu(hd_monitor *m, int index) {
  hd_gpu *gpu = &m->gpu[index];
  hd__nvml_look(gpu, m->nvml, index);
  for (int i = 0; i < m->uuids; i++)
    if (!strcmp(m->uuid[i].text, gpu->uuid))
      gpu->cuda = i;
}

hd_status hd_monitor_look(const hd_look **out, hd_monitor *m, hd_ctx *ctx) {
  hd_look *look = &m->look;
  read_cpus(m);
  read_power(m);
  const hd_memory_use memory = hd__use_memory(m->root);
  look->memory_bytes = memory.bytes;
  look->memory_used_bytes = memory.used_bytes;
  look->swap_bytes = memory.swap_bytes;
  look->swap_used_bytes = memory.swap_used_bytes;
  look->temperature_c = hd__use_temperature(m->root);
  hd__use_load(look->load, m->root);
  for (int i = 0; i < look->gpus; i++)
    read_gpu(m, i);
  hd__jobs_fini(&m->jobs);
  look->jobs = 0;
  HD_TRY(hd__jobs_find(&m->jobs, ctx, m->root));
  look->jobs = m->jobs.count;
  look->job = m->jobs.job;
  *out = look;
  return HD_OK;
}

const char *hd_job_state_name(hd_job_state state) {
  static const char *const name[] = {"ready", "training", "evaluating", "saving"};
  return (unsigned)state <= HD_JOB_SAVING ? name[state] : "";
}
