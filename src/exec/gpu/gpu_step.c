/* A step on its way to a GPU: its samples are fetched into an inlet, described, copied, and the first segment of work
 * is launched. */
#include <string.h>

#include "exec/gpu/gpu_executor_state.h"
#include "reduce/reduction_tree.h"

typedef struct fetching {
  const hd_exec_cuda *exec;
  const cuda_inlet *inlet;
  hd_exec_caller *caller;
  const cuda_step_rows *from;
  uint32_t flags[HD_MAX_THREADS];
} fetching;

static void fetch_thread(void *arg, int thread) {
  fetching *f = arg;
  const hd_exec_cuda *x = f->exec;
  const hd_plan *plan = x->plan;
  const int threads = hd__threads_count(x->threads);
  const int64_t begin = hd__tree_share(f->from->rows, NULL, threads, thread),
                end = hd__tree_share(f->from->rows, NULL, threads, thread + 1);
  void *const target = f->inlet->host.target + begin * plan->io.label.row_bytes;
  const hd_slots slots = {.x = (float *)(void *)f->inlet->host.x + begin * plan->io.input.stride,
                          .x_stride = plan->io.input.stride,
                          .target = target,
                          .target_stride = plan->io.label.stride,
                          .outputs = plan->io.target_outputs,
                          .weight = hd__weight_after(target, &plan->io),
                          .scratch = x->fetch + thread * x->settings.fetch_bytes};
  f->flags[thread] =
      end > begin ? hd__exec_fetch(f->caller, f->from->step, f->from->first + begin, end - begin, &slots) : 0;
}

hd_status hd__exec_cuda_fetch(uint32_t *flags, hd_exec_cuda *x, hd_ctx *ctx, hd_exec_caller *caller,
                              const cuda_step_rows *from, const cuda_inlet *inlet) {
  fetching f = {.exec = x, .inlet = inlet, .caller = caller, .from = from};
  HD_TRY(hd__threads_run(x->threads, ctx, fetch_thread, &f));
  for (int l = 0; l < hd__threads_count(x->threads); l++)
    *flags |= f.flags[l];
  return HD_OK;
}

void hd__exec_cuda_describe(hd_cuda_step *to, const hd_step *step, int64_t first, int64_t rows, int64_t samples,
                            const hd_reduction *reduction) {
  to->seed = step->seed;
  to->epoch = step->epoch;
  to->position = (uint32_t)(step->cursor + first);
  to->divisor = step->divisor;
  memcpy(to->hyper, step->hyper, sizeof to->hyper);
  if (to->rows == rows && to->samples == samples)
    return; /* the same shards */
  to->rows = rows;
  to->samples = samples;
  to->reduction = *reduction;
}

hd_status hd__exec_cuda_launch_segment(const hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet, int segment) {
  hd__cuda_use(x->cuda);
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.graph_launch(inlet->recorded[segment], x->cuda->compute),
                        "launching a step");
}

/* Copies an inlet to the GPU and launches the first segment of the step that reads it. */
hd_status hd__exec_cuda_launch_step(hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet) {
  const hd_cuda *cuda = x->cuda;
  hd__cuda_use(cuda);
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.stream_after(cuda->copy, inlet->used, 0), "ordering copies"));
  HD_TRY(hd__exec_cuda_time_copies(x, ctx, true));
  HD_TRY(hd__exec_cuda_upload_on(cuda->copy, x, ctx, inlet->gpu.step, inlet->host.step, x->inlet_bytes));
  HD_TRY(hd__exec_cuda_time_copies(x, ctx, false));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.event_record(inlet->copied, cuda->copy), "ordering copies"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.stream_after(cuda->compute, inlet->copied, 0), "ordering steps"));
  return x->timing && x->plan->trains ? hd__exec_cuda_time_step(x, ctx, (int)(inlet - x->inlet))
                                      : hd__exec_cuda_launch_segment(x, ctx, inlet, 0);
}

/* Marks the end of the queued step, the last reader of the inlet. */
hd_status hd__exec_cuda_mark_used(const hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet) {
  hd__cuda_use(x->cuda);
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(inlet->used, x->cuda->compute), "ordering steps");
}
