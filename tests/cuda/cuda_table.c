/* See cuda_table.h. */
#include "cuda/cuda_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/gpu/device/cuda_device.h"
#include "exec/gpu/gpu_executor_state.h"
#include "op/op.h"
#include "kernel/cuda/cuda_names.h"
#include "op/guarded.h"

static hd_ctx ctx;
static hd_cuda *cuda;
static hd_cuda_step *step;
static hd_kernels plain = {.name = "cuda_plain", .isa = "cuda"}, small = {.name = "cuda_small", .isa = "cuda"},
                  large = {.name = "cuda_large", .isa = "cuda"};
static void *pages[4096];
static int page_count;

/* A batch may be larger than the step that is run, as at the end of an epoch: blocks without samples or shards. */
enum { spare_rows = 1 };

void cuda_table_environment(void) {
  const char *wanted = getenv("HD_GPU"), *build = getenv("BUILDDIR");
  char path[1024];
  if (wanted && !strcmp(wanted, "real")) {
    snprintf(path, sizeof path, "%s/.libs/heddle-cuda.so", build ? build : ".");
    setenv("HEDDLE_CUDA_MODULE", path, 0);
    return;
  }
  static const char *const stub[][2] = {{"HEDDLE_CUDA_DRIVER", "driver"},
                                        {"HEDDLE_CUDA_MODULE", "module"},
                                        {"HEDDLE_CUDA_LIBRARIES", "library"},
                                        {"HEDDLE_NCCL", "nccl"}};
  for (size_t i = 0; i < sizeof stub / sizeof *stub; i++) {
    snprintf(path, sizeof path, "%s/tests/cuda/.libs/%s_stub.so", build ? build : ".", stub[i][1]);
    setenv(stub[i][0], path, 1);
  }
}

/* On a failure there is nothing to compare: the test ends. */
static const char *running = "opening"; /* the operation at work */
static void must(hd_status status) {
  if (status == HD_OK)
    return;
  printf("Bail out! %s: %s\n", running, ctx.message);
  exit(1);
}

static void *take_pages(size_t bytes) {
  void *memory = NULL;
  if (page_count == 4096)
    return NULL;
  must(hd__cuda_take_host(&memory, cuda, &ctx, (int64_t)bytes));
  return pages[page_count++] = memory;
}

/* One shard of all rows, for a GPU of so many processors. */
static void run(hd_op op, const hd_call *call, int processors) {
  hd_cuda_call c = {.g = *call->g, .step = step, .node = call->draw.node};
  running = hd__op_info(op)->name;
  memcpy(c.in, call->in, sizeof c.in);
  memcpy(c.out, call->out, sizeof c.out);
  memcpy(c.in_stride, call->in_stride, sizeof c.in_stride);
  memcpy(c.out_stride, call->out_stride, sizeof c.out_stride);
  *step = (hd_cuda_step){.rows = call->rows,
                         .samples = call->batch_rows,
                         .seed = call->draw.seed,
                         .epoch = call->draw.epoch,
                         .position = call->draw.position,
                         .divisor = call->divisor,
                         .reduction = {.count = 1, .step = {{.row1 = (int32_t)call->rows}}}};
  cuda->processors = processors;
  must(hd__exec_cuda_launch(cuda, &ctx, op, call->rows + spare_rows, 1 + spare_rows, &c));
  must(hd__cuda_check(cuda, &ctx, cuda->driver.stream_wait(cuda->compute), "computing"));
}

#define OP_ROWS(name)                                                                                                  \
  static void plain_##name(const hd_call *call) { run(HD_OP_##name, call, 0); }                                        \
  static void small_##name(const hd_call *call) { run(HD_OP_##name, call, 1 << 20); }                                  \
  static void large_##name(const hd_call *call) { run(HD_OP_##name, call, 1); }
#define OP_SHARD OP_ROWS
#define OP_REDUCE OP_ROWS
#define OP_STATS OP_ROWS
#define OP_UPDATE(name)
#define OP(name, class) OP_##class(name)
#include "kernel/ops.def"
#undef OP_ROWS
#define OP_ROWS(name)                                                                                                  \
  plain.run[HD_OP_##name] = plain_##name;                                                                              \
  small.run[HD_OP_##name] = small_##name;                                                                              \
  large.run[HD_OP_##name] = large_##name;

void cuda_table_open(void) {
  void *memory;
  cuda_table_environment();
  if (hd__cuda_open(&cuda, &ctx, 0) != HD_OK)
    return;
  guarded_pages = take_pages;
  must(hd__cuda_take_host(&memory, cuda, &ctx, sizeof *step));
  step = memory;
#define OP(name, class) OP_##class(name)
#include "kernel/ops.def"
}

void cuda_table_close(void) {
  for (int i = 0; i < page_count; i++)
    hd__cuda_free_host(cuda, pages[i]);
  if (cuda)
    hd__cuda_free_host(cuda, step);
  hd__cuda_close(cuda);
}

const hd_kernels *cuda_table(const char *name) {
  const hd_kernels *const all[] = {&plain, &small, &large};
  for (int i = 0; cuda && i < 3; i++)
    if (!strcmp(all[i]->name, name))
      return all[i];
  return NULL;
}
const char *cuda_table_lacks(void) { return ctx.message; }
