/* Opens GPUs and launches kernels; see cuda_device.h. */
#include "exec/gpu/device/cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/version.h"
#include "exec/gpu/device/cuda_products.h"
#include "kernel/cuda/cuda_module.h"
#include "kernel/cuda/cuda_names.h"

static const char *const names[HD_CUDA_COUNT] = {
#define OP(name, class) [HD_OP_##name] = "hdk_" #name,
#include "kernel/ops.def"
#define KERNEL(name, args) [HD_CUDA_##name] = "hdk_" #name,
    HD_CUDA_EXTRA(KERNEL)
#define BLOCK KERNEL
#define TILED(op, name, what, a_side, b_side) KERNEL(name, )
#include "kernel/cuda/cuda_blocks.def"
};

/* ---- Opening ---- */

static hd_status find_module(const hd_cuda_module **out, hd_ctx *ctx) {
  const char *wanted = secure_getenv("HEDDLE_CUDA_MODULE");
  const char *path = wanted && *wanted ? wanted : PKGLIBDIR "/heddle-cuda.so";
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const hd_cuda_module *module = library ? dlsym(library, HD_CUDA_MODULE_SYMBOL) : NULL;
  *out = module;
  if (!library)
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "--device cuda expects heddle's CUDA module, found none: %.400s cannot be loaded; build and install heddle on "
        "a machine with nvcc (./configure --with-cuda=DIR), name it in HEDDLE_CUDA_MODULE, or use "
        "--device cpu",
        path);
  if (!module || strcmp(module->version, hd__version()) || module->args_bytes != HD_CUDA_ARGS_BYTES)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--device cuda expects the CUDA module of this heddle %s, found that of another build in %.400s; "
                    "install both from one build, or use --device cpu",
                    hd__version(), path);
  return HD_OK;
}

bool hd__cuda_installed(void) {
  const hd_cuda_module *module;
  hd_ctx quiet = {0};
  return hd__cuda_driver_there() && find_module(&module, &quiet) == HD_OK;
}

static hd_status count_devices(int *out, hd_ctx *ctx, const hd_cuda_driver *driver) {
  char text[HD_CUDA_ERROR_BYTES];
  const cu_result error = driver->device_count(out);
  if (error == CU_DONE && *out > 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--device cuda expects a GPU, found none (%s); see nvidia-smi and CUDA_VISIBLE_DEVICES, or use "
                  "--device cpu",
                  error == CU_DONE ? "the driver counts 0" : hd__cuda_driver_error(text, driver, error));
}

int hd__cuda_count(hd_ctx *ctx) {
  hd_cuda_driver driver;
  const hd_cuda_module *module;
  int count = 0;
  if (hd__cuda_driver_open(&driver, ctx) != HD_OK || count_devices(&count, ctx, &driver) != HD_OK ||
      find_module(&module, ctx) != HD_OK)
    return 0;
  return count;
}

/* The driver runs machine code of its major version and of earlier ones. */
static hd_status check_driver(const hd_cuda *cuda, hd_ctx *ctx, const hd_cuda_module *module) {
  int version = 0;
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.version(&version), "asking the driver's version"));
  if (version / 1000 >= module->toolkit / 1000)
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--device cuda expects a driver for CUDA %d.0 or later, found one for %d.%d; update NVIDIA's driver, "
                  "build heddle with an older nvcc, or use --device cpu",
                  module->toolkit / 1000, version / 1000, version % 1000 / 10);
}

/* Machine code for a capability runs on GPUs with the same major number and an equal or higher minor one; for other
 * GPUs the driver translates the code for the lowest capability. */
static bool runs_on(const char *archs, int capability) {
  for (const char *at = archs; *at; at += strcspn(at, " "), at += strspn(at, " "))
    if (atoi(at) <= capability)
      return true;
  return false;
}

static hd_status check_arch(hd_cuda *cuda, hd_ctx *ctx, const hd_cuda_module *module) {
  int major = 0, minor = 0;
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.device_attribute(&major, CU_CAPABILITY_MAJOR, cuda->device),
                        "asking the GPU's compute capability"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.device_attribute(&minor, CU_CAPABILITY_MINOR, cuda->device),
                        "asking the GPU's compute capability"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.device_attribute(&cuda->processors, CU_MULTIPROCESSORS, cuda->device),
                        "asking the GPU's number of multiprocessors"));
  snprintf(cuda->arch, sizeof cuda->arch, "sm_%d", 10 * major + minor);
  if (runs_on(module->archs, 10 * major + minor))
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--device cuda expects a GPU of one of the architectures that this build has (%s), found %s of %d%d; "
                  "build with ./configure --with-cuda-arch=%d%d, or use --device cpu",
                  module->archs, cuda->name, major, minor, major, minor);
}

static hd_status open_device(hd_cuda *cuda, hd_ctx *ctx) {
  int count;
  HD_TRY(count_devices(&count, ctx, &cuda->driver));
  if (cuda->index < 0 || cuda->index >= count)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--device cuda:%d expects a GPU of that number, found %d GPU%s, numbered from 0; use %s%d",
                    cuda->index, count, count == 1 ? "" : "s", count == 1 ? "cuda:" : "cuda:0 to cuda:", count - 1);
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.device_get(&cuda->device, cuda->index), "finding the GPU"));
  return hd__cuda_check(cuda, ctx, cuda->driver.device_name(cuda->name, sizeof cuda->name, cuda->device),
                        "asking the GPU's name");
}

static hd_status load_kernels(hd_cuda *cuda, hd_ctx *ctx, const hd_cuda_module *module) {
  HD_TRY(HD_NEW(cuda->kernel, HD_CUDA_COUNT, ctx, "out of memory for the GPU's kernels"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.module_load(&cuda->module, module->image), "loading the kernels"));
  for (int i = 0; i < HD_CUDA_COUNT; i++)
    HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.module_function(&cuda->kernel[i], cuda->module, names[i]), names[i]));
  return HD_OK;
}

static hd_status open_context(hd_cuda *cuda, hd_ctx *ctx) {
  size_t free_bytes, all = 0;
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.context_retain(&cuda->context, cuda->device), "starting the GPU"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.context_use(cuda->context), "starting the GPU"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.memory_info(&free_bytes, &all), "asking the GPU's memory"));
  cuda->memory_bytes = (int64_t)all;
  cu_stream *const streams[] = {&cuda->compute, &cuda->copy, &cuda->beside};
  for (int i = 0; i < 3; i++)
    HD_TRY(
        hd__cuda_check(cuda, ctx, cuda->driver.stream_create(streams[i], CU_STREAM_NON_BLOCKING), "creating a stream"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.event_create(&cuda->forked, CU_EVENT_NO_TIMING), "creating a stream"));
  return hd__cuda_check(cuda, ctx, cuda->driver.event_create(&cuda->joined, CU_EVENT_NO_TIMING), "creating a stream");
}

hd_status hd__cuda_find(hd_cuda *out, hd_ctx *ctx, int index) {
  *out = (hd_cuda){.index = index};
  HD_TRY(hd__cuda_driver_open(&out->driver, ctx));
  return open_device(out, ctx);
}

static hd_status open_all(hd_cuda *cuda, hd_ctx *ctx, int index) {
  const hd_cuda_module *module;
  HD_TRY(hd__cuda_find(cuda, ctx, index));
  HD_TRY(find_module(&module, ctx));
  HD_TRY(check_driver(cuda, ctx, module));
  HD_TRY(check_arch(cuda, ctx, module));
  HD_TRY(open_context(cuda, ctx));
  return load_kernels(cuda, ctx, module);
}

hd_status hd__cuda_open(hd_cuda **out, hd_ctx *ctx, int index) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for the GPU"));
  hd_cuda *cuda = *out;
  const hd_status status = open_all(cuda, ctx, index);
  return HD_CREATED(status, out, hd__cuda_close);
}

/* If GPUs cannot access each other's memory, the driver copies through the host's. */
static void let_reach(const hd_cuda *all) {
  for (const hd_cuda *a = all; a; a = a->next)
    for (const hd_cuda *b = all; b; b = b->next) {
      int can = 0;
      hd__cuda_use(a);
      if (a != b && a->driver.can_reach(&can, a->device, b->device) == CU_DONE && can)
        a->driver.reach(b->context, 0); /* or access was enabled already */
    }
}

hd_status hd__cuda_open_all(hd_cuda **out, hd_ctx *ctx, const int *index, int count) {
  hd_cuda **end = out;
  *out = NULL;
  for (int i = 0; i < count; i++) {
    const hd_status status = hd__cuda_open(end, ctx, index[i]);
    if (status != HD_OK) {
      hd__cuda_close(*out);
      *out = NULL;
      return status;
    }
    end = &(*end)->next;
  }
  let_reach(*out);
  return HD_OK;
}

void hd__cuda_use(const hd_cuda *cuda) { cuda->driver.context_use(cuda->context); /* the next call reports an error */ }

static void close_one(hd_cuda *cuda) {
  if (cuda->context)
    hd__cuda_use(cuda);
  hd__cuda_native_destroy(cuda->native);
  cu_stream const streams[] = {cuda->beside, cuda->copy, cuda->compute};
  for (int i = 0; i < 3; i++)
    if (streams[i])
      cuda->driver.stream_destroy(streams[i]);
  if (cuda->forked)
    cuda->driver.event_destroy(cuda->forked);
  if (cuda->joined)
    cuda->driver.event_destroy(cuda->joined);
  if (cuda->module)
    cuda->driver.module_unload(cuda->module);
  if (cuda->context) {
    cuda->driver.context_release(cuda->device);
    cuda->driver.context_use(NULL); /* a released context must not stay the thread's */
  }
  hd__free(cuda->kernel);
  hd__free(cuda);
}

void hd__cuda_close(hd_cuda *cuda) {
  while (cuda) {
    hd_cuda *next = cuda->next;
    close_one(cuda);
    cuda = next;
  }
}

hd_status hd__cuda_check(const hd_cuda *cuda, hd_ctx *ctx, cu_result error, const char *doing) {
  char text[HD_CUDA_ERROR_BYTES];
  if (error == CU_DONE)
    return HD_OK;
  return hd__fail(ctx, error == CU_OUT_OF_MEMORY ? HD_E_NOMEM : HD_E_SYSTEM,
                  "GPU %d (%s): %s failed (%s); see dmesg and nvidia-smi, or use --device cpu", cuda->index,
                  *cuda->name ? cuda->name : "not known", doing, hd__cuda_driver_error(text, &cuda->driver, error));
}

/* ---- Kernels ---- */

static unsigned power_of_two(int64_t at_least, unsigned most) {
  unsigned power = 1;
  while (power < most && power < at_least)
    power *= 2;
  return power;
}

static unsigned blocks(int64_t threads, unsigned block, int64_t most) {
  const int64_t wanted = (threads + block - 1) / block;
  return (unsigned)(wanted < 1 ? 1 : wanted > most ? most : wanted);
}

/* Launches beyond `room` are not timed. */
static hd_status mark(const hd_cuda *cuda, hd_ctx *ctx, int kernel) {
  hd_cuda_marks *m = cuda->marks;
  if (!m || m->count == m->room)
    return HD_OK;
  m->kernel[m->count] = kernel;
  m->label[m->count] = m->next_label;
  return hd__cuda_check(cuda, ctx, cuda->driver.event_record(m->event[m->count++], cuda->compute), "timing a kernel");
}

typedef struct launch {
  int kernel;
  int64_t columns, rows;
  const void *arguments;
} launch;

static hd_status launch_on(cu_stream stream, const hd_cuda *cuda, hd_ctx *ctx, const launch *l) {
  const unsigned block_x = power_of_two(l->columns, HD_CUDA_BLOCK),
                 block_y = power_of_two(l->rows, HD_CUDA_BLOCK / block_x);
  void *list[] = {(void *)l->arguments};
  return hd__cuda_check(cuda, ctx,
                        cuda->driver.launch(cuda->kernel[l->kernel], blocks(l->columns, block_x, INT32_MAX),
                                            blocks(l->rows, block_y, 65535), 1, block_x, block_y, 1, 0, stream, list,
                                            NULL),
                        names[l->kernel]);
}

hd_status hd__cuda_launch(hd_cuda *cuda, hd_ctx *ctx, int kernel, int64_t columns, int64_t rows,
                          const void *arguments) {
  HD_TRY(launch_on(cuda->compute, cuda, ctx, &(launch){kernel, columns, rows, arguments}));
  return mark(cuda, ctx, kernel);
}

/* `to` waits until the work queued on `from` so far is done. */
static hd_status order(const hd_cuda *cuda, hd_ctx *ctx, cu_event event, cu_stream from, cu_stream to) {
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.event_record(event, from), "ordering kernels"));
  return hd__cuda_check(cuda, ctx, cuda->driver.stream_after(to, event, 0), "ordering kernels");
}

hd_status hd__cuda_launch_beside(hd_cuda *cuda, hd_ctx *ctx, int kernel, int64_t columns, int64_t rows,
                                 const void *arguments) {
  if (cuda->marks)
    return hd__cuda_launch(cuda, ctx, kernel, columns, rows, arguments);
  HD_TRY(order(cuda, ctx, cuda->forked, cuda->compute, cuda->beside));
  return launch_on(cuda->beside, cuda, ctx, &(launch){kernel, columns, rows, arguments});
}

hd_status hd__cuda_join(hd_cuda *cuda, hd_ctx *ctx) {
  return cuda->marks ? HD_OK : order(cuda, ctx, cuda->joined, cuda->beside, cuda->compute);
}

hd_status hd__cuda_record(hd_cuda *cuda, hd_ctx *ctx) {
  hd__cuda_use(cuda);
  return hd__cuda_check(cuda, ctx, cuda->driver.capture_begin(cuda->compute, CU_CAPTURE_THREAD), "recording a step");
}

hd_status hd__cuda_recorded(cu_graph_exec *out, hd_cuda *cuda, hd_ctx *ctx) {
  cu_graph graph = NULL;
  *out = NULL;
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.capture_end(cuda->compute, &graph), "recording a step"));
  const cu_result error = cuda->driver.graph_instantiate(out, graph, 0);
  cuda->driver.graph_destroy(graph);
  return hd__cuda_check(cuda, ctx, error, "preparing a recorded step");
}
