/* Internal state of the GPU executor, shared by the files that plan its memory, record its steps and run them. Of
 * several GPUs each has such a state; they are a list. */
#pragma once

#include "exec/gpu/device/cuda_products.h"
#include "exec/gpu/gpu_share.h"
#include "kernel/cuda/cuda_names.h"

enum {
  HD_CUDA_RESULTS = 16, /* steps whose results the GPU keeps until they are read back */
  HD_CUDA_INLETS = 8
};

/* The calls that NVIDIA's libraries compute, and their memory: see gpu_native.c. */
typedef struct cuda_native {
  bool *taken; /* per call of the plan; NULL: none */
  int64_t bf16_bytes[3], dense_bytes, workspace_bytes;
  uint16_t *bf16[3]; /* x, w and y as bfloat16 */
  float *dense;      /* a convolution's result at every position, before the max pool */
  char *workspace;
} cuda_native;

/* The inputs of a step, in the host's pinned memory and, in the same order, on the GPU: one copy moves them. Indices
 * instead of samples if these are resident; the targets are then written there. */
typedef struct cuda_samples {
  hd_cuda_step *step;  /* of this GPU: its samples and shards */
  hd_cuda_step *whole; /* of the batch and all partial sums; with one GPU the same as `step` */
  int32_t *sample;
  char *target, *x;
} cuda_samples;

/* Steps take turns with the inlets, an even number of them, so that an inlet always reads one buffer of the store: the
 * host fills one while the GPU reads others. */
typedef struct cuda_inlet {
  cuda_samples host, gpu;
  cu_event copied, used;   /* the copy is done; the step that read it is */
  cu_graph_exec *recorded; /* one graph for each segment of work between two exchanges */
} cuda_inlet;

/* A GPU's executor. It has more fields than a struct should: each array of `memory` has one, all laid out together. */
typedef struct hd_exec_cuda hd_exec_cuda;
struct hd_exec_cuda {
  const hd_plan *plan;
  hd_store *store;
  hd_threads *threads;
  hd_exec_settings settings; /* batch and shards: this GPU's, at most */
  hd_cuda *cuda;
  cuda_share *share; /* of all GPUs of this process */
  hd_exec_cuda *next;
  int number;              /* of the run's GPUs */
  int segments;            /* recorded so far */
  char *fetch;             /* of all threads */
  hd_cuda_bytes parts;     /* of `memory` */
  cu_pointer memory;       /* of the GPU: everything below except the host's memory */
  cu_pointer data, labels; /* resident samples; 0: samples are fetched */
  void *host;

  float *weights[2], *state[2][HD_MAX_STATES];
  char *arena, *batch_memory;
  float *losses, *sums, *gathered, *grad;
  /* With several GPUs: this one's partial sums; those of all GPUs, and the batch's losses. */
  float *partial_sums, *all_partial_sums, *all_losses;
  double *squares;
  float *constants;
  hd_cuda_chunk *chunk;
  hd_cuda_use *use;
  int32_t *bad;
  hd_cuda_state *flags;
  hd_cuda_result *results, *host_results; /* behind them, per parameter, bad and host_bad */
  int32_t *host_bad;
  float *host_scores, *host_losses; /* evaluation */
  cuda_inlet inlet[HD_CUDA_INLETS];
  int inlets, input_calls; /* in use; hd__exec_cuda_input_calls */
  int64_t inlet_bytes;     /* that are copied for a step */
  cuda_native native;

  cu_event ready, taken; /* this GPU's partial sums are complete; it has copied those of the other GPUs */
  cu_event received;     /* the results requested last are in host_results */
  bool uploaded;         /* the GPU has the store's last whole version: */
  uint64_t version;      /* this one */
  hd_step step[HD_CUDA_RESULTS];
  int64_t launched, requested, reported; /* steps: queued; with results requested; reported */
  int32_t bad_param;
  struct hd_cuda_timing *timing; /* for a profile; NULL: there is none */
};

/* Takes memory. The second fills the constant tables, after the libraries' calls have been chosen. */
hd_status hd__exec_cuda_memory(hd_exec_cuda *exec, hd_ctx *ctx);
hd_status hd__exec_cuda_tables(hd_exec_cuda *exec, hd_ctx *ctx);

/* Whether an operation has a block kernel for such a shape; launches one for a batch of at most `rows` samples in
 * `shards` shards. */
bool hd__exec_cuda_has_blocks(const hd_cuda *cuda, hd_op op, const hd_geom *g, int64_t rows, int64_t shards);
hd_status hd__exec_cuda_launch(hd_cuda *cuda, hd_ctx *ctx, hd_op op, int64_t rows, int64_t shards,
                               const hd_cuda_call *call);

/* Makes NVIDIA's libraries prepare the calls of a step that is to be recorded, and notes the calls that they refuse. */
hd_status hd__exec_cuda_warm_up(hd_exec_cuda *exec, hd_ctx *ctx);

/* Launches a step that reads inlet `inlet`, and buffer inlet % 2 of the weights. The second records the steps of all
 * inlets. */
hd_status hd__exec_cuda_lower(hd_exec_cuda *exec, hd_ctx *ctx, int inlet);
hd_status hd__exec_cuda_record(hd_exec_cuda *exec, hd_ctx *ctx);

/* --arithmetic native: chooses the calls that the libraries compute; whether a call is one of them; launches its parts,
 * with the places of `call`. */
hd_status hd__exec_cuda_native_plan(hd_exec_cuda *exec, hd_ctx *ctx);
bool hd__exec_cuda_native_takes(const hd_exec_cuda *exec, const hd_plan_call *planned);
hd_status hd__exec_cuda_native_launch(const hd_exec_cuda *exec, hd_ctx *ctx, const hd_plan_call *planned,
                                      const hd_cuda_call *call, int inlet);

/* Queues copies between the host and the GPU, which must be the current one, on a stream or on the compute stream. The
 * last one waits for the compute stream. */
hd_status hd__exec_cuda_upload_on(cu_stream stream, const hd_exec_cuda *exec, hd_ctx *ctx, void *to, const void *from,
                                  int64_t bytes);
hd_status hd__exec_cuda_upload(const hd_exec_cuda *exec, hd_ctx *ctx, void *to, const void *from, int64_t bytes);
hd_status hd__exec_cuda_clear(const hd_exec_cuda *exec, hd_ctx *ctx, void *memory, int64_t bytes);
hd_status hd__exec_cuda_download(const hd_exec_cuda *exec, hd_ctx *ctx, void *to, const void *from, int64_t bytes);
hd_status hd__exec_cuda_wait(const hd_exec_cuda *exec, hd_ctx *ctx);

/* Uploads the store to all GPUs from `exec` on: both buffers. For evaluation: uploads the last whole version of the
 * weights to buffer 0 of one GPU. */
hd_status hd__exec_cuda_upload_store(hd_exec_cuda *exec, hd_ctx *ctx);
hd_status hd__exec_cuda_upload_weights(const hd_exec_cuda *exec, hd_ctx *ctx);

/* Copies the last whole version to the store: from this GPU; once per host, collective over its ranks. */
hd_status hd__exec_cuda_download_store(hd_exec_cuda *exec, hd_ctx *ctx);
hd_status hd__exec_cuda_fill_store(hd_exec_cuda *exec, hd_ctx *ctx);

/* With NCCL, collective over all ranks: fails unless all GPUs have the same weights. */
hd_status hd__exec_cuda_compare_weights(const hd_exec_cuda *exec, hd_ctx *ctx);

/* Samples [first, first + rows) of a step. */
typedef struct cuda_step_rows {
  const hd_step *step;
  int64_t first, rows;
} cuda_step_rows;

/* Fetches them into the inlet's host memory. */
hd_status hd__exec_cuda_fetch(uint32_t *flags, hd_exec_cuda *exec, hd_ctx *ctx, hd_exec_caller *caller,
                              const cuda_step_rows *from, const cuda_inlet *inlet);

/* Describes the samples [first, first + rows) of the step, `samples` of the batch. */
void hd__exec_cuda_describe(hd_cuda_step *to, const hd_step *step, int64_t first, int64_t rows, int64_t samples,
                            const hd_reduction *reduction);

/* Copies an inlet to the GPU and launches the first segment of the step that reads it; launches a later segment; marks
 * the end of the queued step, the last reader of the inlet. */
hd_status hd__exec_cuda_launch_step(hd_exec_cuda *exec, hd_ctx *ctx, const cuda_inlet *inlet);
hd_status hd__exec_cuda_launch_segment(const hd_exec_cuda *exec, hd_ctx *ctx, const cuda_inlet *inlet, int segment);
hd_status hd__exec_cuda_mark_used(const hd_exec_cuda *exec, hd_ctx *ctx, const cuda_inlet *inlet);

/* Functions of the table hd__gpu_executor. The trace's tracks are the host's, copies' and computing's. */
hd_status hd__exec_cuda_evaluate(void *self, hd_ctx *ctx, hd_exec_caller *caller, int64_t samples,
                                 const hd_exec_outcome *out, uint32_t *flags);
hd_status hd__exec_cuda_trace(void *self, hd_ctx *ctx, hd_trace *trace);
hd_trace_size hd__exec_cuda_trace_size(const void *self, int64_t slices);

/* Timing for a profile, see gpu_trace.c: a region begins; copies of the next step begin or end; that step is launched
 * kernel by kernel; the times of the finished step `number` are written. Without a profile they do nothing. */
typedef struct hd_cuda_timing hd_cuda_timing;
hd_status hd__exec_cuda_time_region(hd_exec_cuda *exec, hd_ctx *ctx);
hd_status hd__exec_cuda_time_copies(hd_exec_cuda *exec, hd_ctx *ctx, bool begin);
hd_status hd__exec_cuda_time_step(hd_exec_cuda *exec, hd_ctx *ctx, int inlet);
void hd__exec_cuda_write_times(hd_exec_cuda *exec, int64_t number);
hd_track *hd__exec_cuda_host_track(const hd_exec_cuda *exec); /* NULL without a profile */
void hd__exec_cuda_trace_end(hd_exec_cuda *exec);

/* Whether call `call` of the plan, or with their number the update, finds the step's samples at a place: they are in
 * the inlet unless samples are resident, and later values may be where the plan has them. */
bool hd__exec_cuda_is_input(const hd_exec_cuda *exec, const hd_place *place, int call);

/* Calls from the first on before which none has written where the plan has its input; one more: none does. */
int hd__exec_cuda_input_calls(const hd_plan *plan);

/* Queues the copy of all results to the host. Whether the step of result `at` was finite; the first parameter whose
 * update was not, -1: none. */
hd_status hd__exec_cuda_queue_results(const hd_exec_cuda *exec, hd_ctx *ctx);
bool hd__exec_cuda_is_whole(const hd_exec_cuda *exec, int at);
int32_t hd__exec_cuda_bad_param(const hd_exec_cuda *exec, int at);

/* Whether a use's gradient already is the batch's sum before the reduction. */
bool hd__exec_cuda_is_sum(const hd_exec_cuda *exec, const hd_plan_use *use);

/* A place of the batch's first sample, in memory that all inlets share. */
void *hd__exec_cuda_at(const hd_exec_cuda *exec, const hd_place *place);
