/* Opening the GPUs of --device, and refusing what a device does not support; see device_open.h. */
#include "train/placement/device_open.h"

#include <stdio.h>

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

bool hd__device_is_one_gpu(const hd_cuda *cuda) { return cuda && !cuda->next; }

bool hd__device_runs_stages(const hd_cuda *cuda) { return !cuda; }

bool hd__device_recomputes(const hd_cuda *cuda) { return !cuda; }

const char *hd__device_kind(const hd_cuda *cuda) { return cuda ? "cuda" : "cpu"; }

hd_status hd__device_thread_kernels(const hd_kernels **of_threads, hd_ctx *ctx, const hd_config *config,
                                    const hd_cuda *cuda) {
  return cuda ? hd__planned_kernels(of_threads, ctx) : hd__planned_run_kernels(of_threads, ctx, config);
}

const hd_kernels *hd__device_kernels(const hd_cuda *cuda, const hd_kernels *of_threads, int64_t shard_rows) {
  return cuda ? hd__kernels_cuda(cuda->native ? 0 : shard_rows) : of_threads;
}

const char *hd__device_isa(const hd_cuda *cuda, const hd_kernels *of_threads) {
  return cuda ? cuda->arch : of_threads->isa;
}

bool hd__device_is_native(const hd_cuda *cuda) { return cuda && cuda->native; }

const char *hd__device_library(const hd_cuda *cuda, const hd_config *config) {
  if (!cuda)
    return hd__planned_library(config);
  return cuda->native ? hd__cuda_native_name(cuda->native) : "";
}

hd_cuda_precision hd__device_precision(const hd_config *config) {
  static const hd_cuda_precision of[] = {
      [HD_PRECISION_F32] = HD_CUDA_F32, [HD_PRECISION_TF32] = HD_CUDA_TF32, [HD_PRECISION_BF16] = HD_CUDA_BF16};
  return of[hd__settings(config)->precision];
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

static hd_status open_libraries(hd_cuda *first, hd_ctx *ctx) {
  for (hd_cuda *cuda = first; cuda; cuda = cuda->next) {
    hd__cuda_use(cuda);
    HD_TRY(hd__cuda_native_create(&cuda->native, ctx, cuda));
  }
  return HD_OK;
}

/* For rank `rank` of `ranks` on this host. */
static hd_status open_as(hd_cuda **out, char *text, size_t bytes, hd_ctx *ctx, const hd_config *config, int rank,
                         int ranks, const hd_device_choice *wanted) {
  hd_device_choice c = *wanted;
  *out = NULL;
  snprintf(text, bytes, "cpu");
  if (c.automatic)
    return check_auto_settings(ctx, config);
  if (!c.gpus)
    return check_cpu_settings(ctx, config);
  HD_TRY(check_settings(ctx, config));
  HD_TRY(name_all(&c, ctx, ranks));
  HD_TRY(check_ranks(ctx, &c, ranks));
  if (c.count > 1 && *hd__settings(config)->profile)
    return refuse(ctx, "one GPU with --profile, found several", "name one");
  list_gpus(text, bytes, &c);
  HD_TRY(ranks == 1 ? hd__cuda_open_all(out, ctx, c.index, c.count) : hd__cuda_open_all(out, ctx, &c.index[rank], 1));
  const hd_status status = is_native(config) ? open_libraries(*out, ctx) : HD_OK;
  return HD_CREATED(status, out, hd__cuda_close);
}

hd_status hd__device_open(hd_cuda **out, char *text, size_t bytes, hd_ctx *ctx, const hd_config *config,
                          const hd_local_group *local) {
  return open_as(out, text, bytes, ctx, config, hd__local_group_rank(local), hd__local_group_ranks(local),
                 &hd__settings(config)->devices);
}

hd_status hd__device_open_named(hd_cuda **out, hd_ctx *ctx, const hd_config *config, const char *text) {
  char unused[16];
  hd_device_choice named;
  *out = NULL;
  if (text)
    HD_TRY(hd__device_read(&named, ctx, text));
  else
    named = hd__settings(config)->devices;
  if (hd__settings(config)->procs > 1 && (named.gpus || named.automatic))
    return refuse(ctx, "one process when it is not named from the start, found --procs", "name it");
  return open_as(out, unused, sizeof unused, ctx, config, 0, 1, &named);
}
