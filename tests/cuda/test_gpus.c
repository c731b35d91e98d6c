/* The stub of the driver has several GPUs with separate memory and detects: a kernel that accesses memory of another
 * GPU, a call made for another GPU, a call of a process that was forked after the driver had started, and a call
 * that is not allowed while a graph is recorded. Tests on the stub rely on these checks.
 *
 * And kernels that work shard by shard access nothing where a batch leaves a GPU without samples. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/gpu/device/cuda_device.h"
#include "kernel/cuda/cuda_names.h"
#include "tap.h"

static hd_ctx ctx;

static hd_cuda *open_two(void) {
  const int index[2] = {0, 1};
  const char *build = getenv("BUILDDIR");
  char path[1024];
  hd_cuda *all = NULL;
  snprintf(path, sizeof path, "%s/tests/cuda/.libs/driver_stub.so", build ? build : ".");
  setenv("HEDDLE_CUDA_DRIVER", path, 1);
  snprintf(path, sizeof path, "%s/tests/cuda/.libs/module_stub.so", build ? build : ".");
  setenv("HEDDLE_CUDA_MODULE", path, 1);
  setenv("STUB_CUDA_GPUS", "2", 1);
  return hd__cuda_open_all(&all, &ctx, index, 2) == HD_OK ? all : NULL;
}

/* A sum over one shard, from memory of one GPU to that of another, on the first; as a process's exit status. */
static int reduce(hd_cuda *all, hd_cuda *of_sums, hd_cuda *of_out) {
  cu_pointer sums, out, step;
  hd_cuda_step host = {.rows = 1, .samples = 1, .reduction = {.count = 1, .step = {{.row1 = 1}}}};
  if (hd__cuda_take_for(&sums, of_sums, &ctx, 64, HD_GPU_TABLES) != HD_OK ||
      hd__cuda_take_for(&out, of_out, &ctx, 64, HD_GPU_TABLES) != HD_OK ||
      hd__cuda_take_for(&step, all, &ctx, sizeof host, HD_GPU_TABLES) != HD_OK)
    return 1;
  hd__cuda_use(all);
  all->driver.upload(step, &host, sizeof host, all->compute);
  const hd_cuda_reduce args = {.sums = (const float *)(uintptr_t)sums,
                               .out = (float *)(uintptr_t)out,
                               .count = 1,
                               .step = (const hd_cuda_step *)(uintptr_t)step};
  if (hd__cuda_launch(all, &ctx, HD_CUDA_reduce, 1, 1, &args) != HD_OK ||
      all->driver.stream_wait(all->compute) != CU_DONE)
    return 2;
  return 0;
}

/* Kernels with a matrix for each shard, over a step without samples whose list of shards holds old values: a read
 * would be at address 0. */
static int launch_empty(hd_cuda *cuda, cu_pointer step, int kernel, int pool, int by_shard) {
  const hd_cuda_call call = {.g = {.ci = 16,
                                   .hi = 4,
                                   .wi = 4,
                                   .co = 16,
                                   .ho = 4,
                                   .wo = 4,
                                   .hp = 4 / pool,
                                   .wp = 4 / pool,
                                   .window = {.kh = 3, .kw = 3, .sh = 1, .sw = 1, .ph = 1, .pw = 1},
                                   .conv = {.groups = 1, .pool = pool}},
                             .cut = {.a_rows = 16,
                                     .b_rows = 16,
                                     .steps = 1,
                                     .unit = 1,
                                     .by_shard = by_shard,
                                     .b_side = 16,
                                     .across = cuda_divisor(1),
                                     .blocks = cuda_divisor(1),
                                     .sample = cuda_divisor(1)},
                             .step = (const hd_cuda_step *)(uintptr_t)step};
  return hd__cuda_launch(cuda, &ctx, kernel, HD_CUDA_BLOCK, 1, &call) == HD_OK ? 0 : 1;
}

static int without_samples(hd_cuda *cuda, hd_cuda *unused, hd_cuda *unused_too) {
  static const int by_shard[] = {
      HD_CUDA_linear_dw_product_2_2,  HD_CUDA_conv_dw_tiles_3_2,      HD_CUDA_conv_db,
      HD_CUDA_batch_stats_channels,   HD_CUDA_batch_norm_dw_channels, HD_CUDA_shard_norm_channels,
      HD_CUDA_shard_norm_dx_channels, HD_CUDA_layer_norm_dw_rows};
  hd_cuda_step host = {.samples = 1, .reduction = {.step = {{.row1 = 1000}}}};
  cu_pointer step;
  int failed = hd__cuda_take_for(&step, cuda, &ctx, sizeof host, HD_GPU_TABLES) != HD_OK ||
               cuda->driver.upload(step, &host, sizeof host, cuda->compute) != CU_DONE;
  for (size_t i = 0; i < sizeof by_shard / sizeof *by_shard && !failed; i++)
    failed = launch_empty(cuda, step, by_shard[i], 1, 1);
  return failed || launch_empty(cuda, step, HD_CUDA_conv_dw_live_9, 2, 1) ||
         launch_empty(cuda, step, HD_CUDA_layer_norm_rows_16, 1, 0) ||
         launch_empty(cuda, step, HD_CUDA_cross_entropy_dx_rows_1, 1, 0) ||
         cuda->driver.stream_wait(cuda->compute) != CU_DONE;
}

/* Between the two calls of a recording. */
static int while_recording(hd_cuda *cuda, hd_cuda *unused, hd_cuda *unused_too) {
  enum { NOT_WHILE_RECORDING = 900 };
  cu_pointer memory;
  void *host;
  cu_graph_exec recorded = NULL;
  return hd__cuda_record(cuda, &ctx) != HD_OK || cuda->driver.memory_take(&memory, 64) != NOT_WHILE_RECORDING ||
         cuda->driver.host_take(&host, 64, 0) != NOT_WHILE_RECORDING ||
         cuda->driver.stream_wait(cuda->compute) != NOT_WHILE_RECORDING || hd__cuda_record(cuda, &ctx) == HD_OK ||
         hd__cuda_recorded(&recorded, cuda, &ctx) != HD_OK || !recorded ||
         cuda->driver.memory_take(&memory, 64) != CU_DONE;
}

typedef int work_fn(hd_cuda *first, hd_cuda *second, hd_cuda *third);

/* Its result in a child process, with two GPUs: numbers are the GPU of each argument. */
static int status_of(work_fn *work, int first, int second, int third) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    hd_cuda *all = open_two(), *of[2] = {all, all ? all->next : NULL};
    close(STDERR_FILENO);
    _exit(all ? work(of[first], of[second], of[third]) : 99);
  }
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int status_of_started(hd_cuda *first) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0)
    _exit(hd__cuda_count(&ctx) > 0 || first->driver.stream_wait(first->compute) == CU_DONE);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  enum { TOUCHED = 86, OTHER_CONTEXT = 201 };
  ok(status_of(reduce, 0, 0, 0) == 0, "a kernel computes in its GPU's memory");
  ok(status_of(reduce, 0, 1, 0) == TOUCHED, "a kernel that reads another GPU's memory is caught");
  ok(status_of(reduce, 0, 0, 1) == TOUCHED, "a kernel that writes another GPU's memory is caught");
  ok(status_of(while_recording, 0, 0, 0) == 0, "while recording, memory cannot be allocated and waits fail");
  ok(status_of(without_samples, 0, 0, 0) == 0, "a GPU without samples of a step touches none");
  hd_cuda *first = open_two(), *second = first ? first->next : NULL;
  cu_pointer memory = 0;
  ok(second != NULL, "two GPUs are opened");
  if (!second)
    return done_testing();
  ok(status_of_started(first) == 0, "a process that is forked behind the driver's start cannot use it");
  ok(hd__cuda_take_for(&memory, second, &ctx, 64, HD_GPU_TABLES) == HD_OK, "memory is taken");
  hd__cuda_use(first);
  ok(second->driver.stream_wait(second->compute) == OTHER_CONTEXT,
     "a call for another GPU than the one in use is refused");
  ok(first->driver.memory_clear(memory, 0, 64, first->compute) != CU_DONE, "a copy to another GPU's memory is refused");
  hd__cuda_free(second, memory);
  hd__cuda_close(first);
  return done_testing();
}
