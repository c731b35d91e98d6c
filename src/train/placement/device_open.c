/* Opening the GPUs of --device, and refusing what a device does not support; see device_open.h. */
#include "train/placement/device_open.h"

#include <stdio.h>

#include "exec/cpu/cpu_executor.h"
#include "exec/exchange/cluster.h"
#include "exec/gpu/device/cuda_products.h"
#include "exec/gpu/device/idle_gpus.h"
#include "exec/gpu/gpu_executor.h"
#include "train/placement/run_plan.h"

static hd_status refuse(hd_ctx *ctx, const char *what, const char *remedy) {
  return hd__fail(ctx, HD_E_UNSUPPORTED, "--device cuda expects %s; %s, or use --device cpu", what, remedy);
}

static bool is_native(const hd_config *config) { return hd__settings(config)->arithmetic == HD_ARITHMETIC_NATIVE; }

/* Refuses settings that only a GPU supports. */
static hd_status check_cpu_settings(hd_ctx *ctx, const hd_config *config) {
  const int precision = hd__settings(config)->precision;
  if (precision == HD_PRECISION_TF32)
    return hd__fail(ctx, HD_E_USAGE, "--precision tf32 expects a GPU, found --device cpu; use --device cuda, or f32");
  if (precision != HD_PRECISION_F32 && is_native(config))
    return hd__fail(ctx, HD_E_USAGE, "--precision bf16 expects --arithmetic portable, found native; leave one out");
  return HD_OK;
}

/* The results must not depend on which device was faster. */
static hd_status check_auto_settings(hd_ctx *ctx, const hd_config *config) {
  if (is_native(config))
    return hd__fail(ctx, HD_E_USAGE,
                    "--device auto expects --arithmetic portable, found native, whose numbers differ between devices; "
                    "name the device");
  return check_cpu_settings(ctx, config);
}

static hd_status check_settings(hd_ctx *ctx, const hd_config *config) {
  if (hd__settings(config)->precision != HD_PRECISION_F32 && !is_native(config))
    return hd__fail(ctx, HD_E_USAGE,
                    "--precision %s on a GPU expects --arithmetic native, since NVIDIA's libraries compute it, found "
                    "portable; give that, or --precision f32",
                    hd__config_shown(config, HD_OPT_PRECISION));
  return HD_OK;
}

/* ---- The threads ---- */

hd_run_device hd__device_threads(const hd_config *config) {
  static hd_cpu_settings own[2][2] = {{{HD_SCHEDULE_1F1B, false}, {HD_SCHEDULE_1F1B, true}},
                                      {{HD_SCHEDULE_GPIPE, false}, {HD_SCHEDULE_GPIPE, true}}};
  const hd_settings *is = hd__settings(config);
  return (hd_run_device){.executor = &hd__cpu_executor,
                         .own = &own[is->schedule_stages][is->place_stages == HD_PLACE_STAGES_HOSTS],
                         .name = {HD_CPU, 0},
                         .count = 1,
                         .kind = "cpu",
                         .library = hd__planned_library(config),
                         .may_shift = true,
                         .kernels = is_native(config) ? hd__planned_native_kernels : NULL};
}

/* ---- GPUs ---- */

static const hd_kernels *kernels_of_one(const hd_kernels *of_threads, int64_t batch, int32_t shards) {
  return hd__kernels_cuda((batch + shards - 1) / shards);
}

static const hd_kernels *kernels_of_several(const hd_kernels *of_threads, int64_t batch, int32_t shards) {
  return hd__kernels_cuda(0);
}

static void close_gpus(void *own) { hd__cuda_close(own); }

/* `ranks`: of the run. */
static hd_run_device device_of(hd_cuda *first, int ranks) {
  const bool has_all = !first->next && ranks == 1;
  hd_run_device device = {.executor = &hd__gpu_executor,
                          .own = first,
                          .name = {HD_CUDA, first->index},
                          .kind = "cuda",
                          .isa = first->arch,
                          .library = first->native ? hd__cuda_native_name(first->native) : "",
                          .may_shift = !first->native,
                          .kernels = has_all && !first->native ? kernels_of_one : kernels_of_several,
                          .close = close_gpus};
  for (const hd_cuda *cuda = first; cuda; cuda = cuda->next)
    device.count++;
  return device;
}

/* Names the GPUs of a host, in the order of its ranks. */
static hd_status name_all(hd_device_choice *c, hd_ctx *ctx, int ranks) {
  if (c->count > 0)
    return HD_OK;
  const int there = c->first && ranks == 1 ? 1 : hd__cuda_count(ctx);
  if (there == 0)
    return HD_E_UNSUPPORTED;                       /* with the reason as message */
  if (ranks > 1 && hd__cuda_is_shown_one(there)) { /* the executor checks whether ranks share it */
    c->each = true;
    c->count = ranks < HD_DEVICE_MOST_GPUS ? ranks : HD_DEVICE_MOST_GPUS;
    return HD_OK;
  }
  c->count = ranks > 1 && there > ranks ? ranks : there < HD_DEVICE_MOST_GPUS ? there : HD_DEVICE_MOST_GPUS;
  for (int i = 0; i < c->count; i++)
    c->index[i] = i;
  return HD_OK;
}

static hd_status check_ranks(hd_ctx *ctx, const hd_device_choice *c, int ranks) {
  if (ranks == 1 || c->count == ranks)
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--device expects a GPU for each rank of a host, since two on one would only take turns, found %d "
                  "GPU%s and %d ranks; start %d, or name that many GPUs",
                  c->count, c->count == 1 ? "" : "s", ranks, c->count);
}

static void list_gpus(char *text, size_t bytes, const hd_device_choice *c) {
  size_t at = (size_t)snprintf(text, bytes, "cuda:");
  for (int i = 0; i < (c->each ? 1 : c->count) && at < bytes; i++)
    at += (size_t)snprintf(text + at, bytes - at, "%s%d", i ? "," : "", c->index[i]);
}

static hd_status open_libraries(hd_cuda *first, hd_ctx *ctx, int precision) {
  static const hd_cuda_precision of[] = {
      [HD_PRECISION_F32] = HD_CUDA_F32, [HD_PRECISION_TF32] = HD_CUDA_TF32, [HD_PRECISION_BF16] = HD_CUDA_BF16};
  for (hd_cuda *cuda = first; cuda; cuda = cuda->next) {
    hd__cuda_use(cuda);
    cuda->precision = of[precision];
    HD_TRY(hd__cuda_native_create(&cuda->native, ctx, cuda));
  }
  return HD_OK;
}

/* ---- By name ---- */

static hd_status open_as(hd_run_device *out, char *text, size_t bytes, hd_ctx *ctx, const hd_config *config,
                         const hd_local_group *local, const hd_device_choice *wanted) {
  const int rank = hd__local_group_rank(local), ranks = hd__local_group_ranks(local);
  hd_device_choice c = *wanted;
  hd_cuda *first;
  *out = (hd_run_device){0};
  snprintf(text, bytes, "cpu");
  if (!c.gpus) {
    HD_TRY(c.automatic ? check_auto_settings(ctx, config) : check_cpu_settings(ctx, config));
    *out = hd__device_threads(config);
    return HD_OK;
  }
  HD_TRY(check_settings(ctx, config));
  HD_TRY(name_all(&c, ctx, ranks));
  HD_TRY(check_ranks(ctx, &c, ranks));
  if (c.count > 1 && *hd__settings(config)->profile)
    return refuse(ctx, "one GPU with --profile, found several", "name one");
  list_gpus(text, bytes, &c);
  HD_TRY(hd__cuda_open_all(&first, ctx, ranks == 1 ? c.index : &c.index[rank], ranks == 1 ? c.count : 1));
  const hd_status status = is_native(config) ? open_libraries(first, ctx, hd__settings(config)->precision) : HD_OK;
  if (status == HD_OK)
    *out = device_of(first, hd__cluster_ranks(local));
  else
    hd__cuda_close(first);
  return status;
}

hd_status hd__device_open(hd_run_device *out, char *text, size_t bytes, hd_ctx *ctx, const hd_config *config,
                          const hd_local_group *local) {
  return open_as(out, text, bytes, ctx, config, local, &hd__settings(config)->devices);
}

hd_status hd__device_open_named(hd_run_device *out, hd_ctx *ctx, const hd_config *config, const char *text) {
  char unused[16];
  hd_device_choice named;
  *out = (hd_run_device){0};
  if (text)
    HD_TRY(hd__device_read(&named, ctx, text));
  else
    named = hd__settings(config)->devices;
  if (hd__settings(config)->procs > 1 && (named.gpus || named.automatic))
    return refuse(ctx, "one process when it is not named from the start, found --procs", "name it");
  return open_as(out, unused, sizeof unused, ctx, config, NULL, &named);
}

void hd__device_close(hd_run_device *device) {
  if (device->close)
    device->close(device->own);
  *device = (hd_run_device){0};
}

hd_status hd__device_thread_kernels(const hd_kernels **out, hd_ctx *ctx, const hd_config *config,
                                    const hd_run_device *device) {
  return device->executor->threads_compute ? hd__planned_run_kernels(out, ctx, config) : hd__planned_kernels(out, ctx);
}

const hd_kernels *hd__device_kernels(const hd_run_device *device, const hd_kernels *of_threads, const hd_config *config,
                                     bool train) {
  hd_ctx quiet = {0};
  int32_t shards = 1; /* checked before */
  if (!device->kernels)
    return of_threads;
  if (!train || hd__planned_shards(&shards, &quiet, config) != HD_OK)
    return device->kernels(of_threads, 0, 1);
  return device->kernels(of_threads, hd__settings(config)->batch, shards);
}

int hd__device_idle(char *name) { return hd__idle_gpus(name); }
