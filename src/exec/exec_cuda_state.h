/* The insides of the executor on a GPU, shared by the files that plan its memory, record its steps and run them. */
#ifndef HD_EXEC_EXEC_CUDA_STATE_H
#define HD_EXEC_EXEC_CUDA_STATE_H

#include "cuda/native.h"
#include "exec/exec_cuda.h"
#include "exec/exec_cuda_share.h"
#include "kernel/cuda/cuda_names.h"

enum { HD_CUDA_RESULTS = 16 }; /* steps whose outcomes the GPU keeps until they are read back */

/* What NVIDIA's libraries compute, and with which memory: see exec_cuda_native.c. */
typedef struct cuda_native {
  bool *taken; /* per call of the plan; NULL: nothing is */
  int64_t bf16_bytes[3], dense_bytes, workspace_bytes;
  uint16_t *bf16[3]; /* x, w and y as such */
  float *dense;      /* a convolution's result of every position, before the max pool */
  char *workspace;
} cuda_native;

/* What a step is given, twice, by its parity: the host fills one while the GPU works on the other. */
typedef struct cuda_inlet {
  char *host_x, *host_target;    /* pinned; laid out as on the GPU */
  int32_t *host_sample, *sample; /* in their place, if the data set is on the GPU */
  hd_cuda_step *host_step, *host_whole;
  char *x, *target;
  hd_cuda_step *step, *whole; /* of this GPU's samples and shards; of the batch and all GPUs' covers: alone the same */
  cu_event copied, used;      /* the copy is done; the step that read it is */
  cu_graph_exec *recorded;    /* stretches: what lies between two crossings */
} cuda_inlet;

struct hd_exec_cuda {
  const hd_plan *plan;
  hd_store *store;
  hd_lanes *lanes;
  hd_exec_settings settings; /* batch and shards: as many of them as this GPU has, at most */
  hd_cuda *cuda;
  cuda_share *share; /* of all GPUs of this process */
  hd_exec_cuda *next;
  int number;              /* of the run's GPUs */
  int stretches;           /* that are recorded so far */
  char *fetch;             /* of all lanes */
  hd_cuda_bytes parts;     /* of `memory` */
  cu_pointer memory;       /* of the GPU: everything below that is not the host's */
  cu_pointer data, labels; /* the data set; 0: it is not there, and samples are fetched */
  void *host;

  float *weights[2], *state[2][HD_MAX_STATES];
  char *arena, *batch_memory;
  float *losses, *sums, *gathered, *grad;
  float *own, *covers, *all_losses; /* with several GPUs: this one's covers; those of all, and the batch's losses */
  double *squares;
  float *constants; /* by value: at constant[value] */
  int64_t *constant;
  hd_cuda_chunk *chunk;
  hd_cuda_use *use;
  int32_t *bad;
  hd_cuda_state *flags;
  hd_cuda_result *results, *host_results;
  float *host_scores, *host_losses; /* evaluation */
  cuda_inlet inlet[2];
  cuda_native native;

  cu_event ready, taken; /* this GPU's covers are there; it has copied the others' */
  cu_event answered;     /* what was asked is in host_results */
  bool uploaded;         /* the GPU has the store's last whole version, */
  uint64_t version;      /* which is this one */
  hd_step step[HD_CUDA_RESULTS];
  int64_t launched, asked, seen; /* steps: queued; whose results are on their way; that the driver has heard of */
  int32_t bad_param;
  struct hd_cuda_timing *timing; /* for a profile; NULL: there is none */
};

/* Takes memory; fills the tables that never change, when it is known what the libraries compute. */
hd_status hd__exec_cuda_memory(hd_exec_cuda *exec, hd_ctx *ctx);
hd_status hd__exec_cuda_tables(hd_exec_cuda *exec, hd_ctx *ctx);

/* Launches what does an operation for a batch of `rows` samples in `shards` shards, or for what of it there will be. */
hd_status hd__exec_cuda_launch(hd_cuda *cuda, hd_ctx *ctx, hd_op op, int64_t rows, int64_t shards,
                               const hd_cuda_call *call);

/* Lets NVIDIA's libraries prepare what a recorded step asks of them, and notes what they refuse. */
hd_status hd__exec_cuda_warm_up(hd_exec_cuda *exec, hd_ctx *ctx);

/* Floats of each cover that cross behind a phase; 0: the GPUs need not meet there. */
int64_t hd__exec_cuda_crossing(const hd_exec_cuda *exec, const hd_phase *phase);

/* Ends the stretch that is recorded, and begins the next one. */
hd_status hd__exec_cuda_cut(hd_exec_cuda *exec, hd_ctx *ctx, int half);

/* Records a step that reads half `half` of the weights and inlet `half`, or launches it. */
hd_status hd__exec_cuda_lower(hd_exec_cuda *exec, hd_ctx *ctx, int half);

/* --arithmetic native: chooses the calls that the libraries compute; whether a call is one of them; launches what it is
 * made of, where `call` says its places. */
hd_status hd__exec_cuda_native_plan(hd_exec_cuda *exec, hd_ctx *ctx);
bool hd__exec_cuda_native_takes(const hd_exec_cuda *exec, const hd_plan_call *planned);
hd_status hd__exec_cuda_native_launch(const hd_exec_cuda *exec, hd_ctx *ctx, const hd_plan_call *planned,
                                      const hd_cuda_call *call, int half);

/* Queues copies between the host and a GPU, which is the one in use. */
hd_status hd__exec_cuda_upload(const hd_exec_cuda *exec, hd_ctx *ctx, void *to, const void *from, int64_t bytes);
hd_status hd__exec_cuda_download(const hd_exec_cuda *exec, hd_ctx *ctx, void *to, const void *from, int64_t bytes);
hd_status hd__exec_cuda_wait(const hd_exec_cuda *exec, hd_ctx *ctx);

/* Timing for a profile, see exec_cuda_trace.c: a region begins; copies of the step to be launched begin or end; that
 * step is launched kernel by kernel; step `number` is done and written down. Without a profile they do nothing. */
typedef struct hd_cuda_timing hd_cuda_timing;
hd_status hd__exec_cuda_time_region(hd_exec_cuda *exec, hd_ctx *ctx);
hd_status hd__exec_cuda_time_copies(hd_exec_cuda *exec, hd_ctx *ctx, bool begin);
hd_status hd__exec_cuda_time_step(hd_exec_cuda *exec, hd_ctx *ctx, int half);
void hd__exec_cuda_write_times(hd_exec_cuda *exec, int64_t number);
hd_track *hd__exec_cuda_host_track(const hd_exec_cuda *exec); /* NULL without a profile */
void hd__exec_cuda_trace_end(hd_exec_cuda *exec);

/* Bytes of a batch's input and of its targets. */
int64_t hd__exec_cuda_x_bytes(const hd_exec_cuda *exec);
int64_t hd__exec_cuda_target_bytes(const hd_exec_cuda *exec);

/* Whether a use's gradient, when it is folded, is the sum of the batch already. */
bool hd__exec_cuda_is_sum(const hd_exec_cuda *exec, const hd_plan_use *use);

/* Where a value of the batch lies: its slot of row 0. */
void *hd__exec_cuda_rows(const hd_exec_cuda *exec, int value);

#endif
