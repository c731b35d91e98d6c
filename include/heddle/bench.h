/* Benchmarks: the machine's limits, and operations measured against them.
 *
 *     hd_bench_step_result *result;
 *     hd_bench_step(&result, ctx, config, 3);
 *     printf("%.0f samples/s, %.0f %% of the peak\n", result->samples_per_s,
 *            100e-9 * result->flops * result->samples_per_s / result->machine->all_peak_gflops);
 *     hd_bench_step_destroy(result);
 *
 * FLOPs come in two conventions. `flops` is what a dense library would compute, two for each multiply-add of the
 * whole map. `executed_flops` leaves out outputs that nothing reads (outside of every pool window), gradients that
 * are zero by construction (not passed by a max pool), products of gradients with padding, and the products that
 * Winograd's tiles save; it counts the tiles' products but not their transforms. A dense rate above the machine's peak
 * is therefore possible: work was left out.
 *
 * The bound of an operation is the roofline's: the longer of its executed FLOPs at the FMA peak of a thread, and its
 * bytes at the bandwidth that a thread has where that many bytes fit. Bytes are those that must move: each input read
 * once, each output written once, in every call; an output in its input's place counts once with it.
 *
 * Times are in seconds, rates in 1e9 per second. Measurements use the CPUs that the configuration selects. Thread
 * safety: run one measurement at a time on a machine; concurrent ones disturb each other. */
#ifndef HEDDLE_BENCH_H
#define HEDDLE_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/group.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_BENCH_MAX_LEVELS = 16, HD_BENCH_NAME_BYTES = 96 };

/* Bandwidth of a working set of `bytes` (a = b + s * c, three arrays). */
typedef struct hd_bench_level {
  hd_memory_level where; /* the smallest cache that holds it, or the main memory */
  int64_t bytes;
  double gbytes_per_s, all_gbytes_per_s; /* one thread alone; all threads at once, each with its own arrays */
} hd_bench_level;

/* The machine's limits with the requested threads, measured in a second. Peaks are of float32 FMA in registers. */
typedef struct hd_bench_machine {
  char cpu[128], isa[16];
  int32_t threads;
  double peak_gflops, all_peak_gflops; /* one thread alone; all threads at once */
  int32_t levels;
  hd_bench_level level[HD_BENCH_MAX_LEVELS]; /* ascending bytes; the last is main memory */
} hd_bench_machine;

/* One operation on one thread. */
typedef struct hd_bench_op {
  char name[HD_BENCH_NAME_BYTES]; /* of the node in the model, or the shape as it was given */
  const char *op;                 /* "conv2d_dx", ...: static storage */
  int64_t calls;                  /* a step */
  double s;                       /* of a step, or of a sample where there is none; so are the next three */
  double flops, executed_flops, bytes;
  double bytes_at_once; /* of one call */
  double least_s;       /* its bound */
  int32_t level;        /* the limit: an index into machine.level, -1 for FMA */
} hd_bench_op;

/* A model's training step. */
typedef struct hd_bench_step_result {
  const hd_bench_machine *machine; /* owned by the result */
  char model[64], data[64];
  int64_t batch; /* samples of a step: all of the data if they are fewer */
  int32_t threads;
  int32_t turns;
  double samples_per_s, low, high; /* of the threads: the median of the turns and its 95 % confidence interval */
  double best;                     /* the fastest turn, as the peak is the fastest burst */
  double flops, executed_flops;    /* of a sample */
  double thread_step_s;            /* a step of a whole batch on one thread */
  int32_t op_count;
  hd_bench_op *ops; /* on one thread, in the order of the plan, then reduction, update and other work */
  double cpu_share; /* of that thread's time, when it had a CPU and no other program did; NAN with loader workers */
  char isa[16];     /* of the kernels: in bfloat16 not the machine's */
} hd_bench_step_result;

/* Trains the configuration's model on its data for about `seconds` (0.1 to 3600), as hd_session_train does: samples
 * are gathered, losses summed, weights updated; nothing is saved or evaluated. Then repeats it on one thread and
 * times each operation within the step: rows add up to thread_step_s. All steps have whole batches. It takes longer
 * where a step does: at least 3 turns of a step or two are measured. HD_E_USAGE for a configuration with several
 * processes, stages or a GPU. The caller owns the result; NULL may be destroyed. */
HD_API hd_status hd_bench_step(hd_bench_step_result **out, hd_ctx *ctx, const hd_config *config, double seconds);
HD_API void hd_bench_step_destroy(hd_bench_step_result *result);

/* A single convolution, forward and both gradients. */
typedef struct hd_bench_conv_shape {
  int32_t channels, height, width; /* of the input */
  int32_t out, kernel[2], stride[2], padding[2], groups;
  int32_t pool; /* side of the max pool behind it; 1: none */
} hd_bench_conv_shape;

typedef struct hd_bench_conv_result {
  const hd_bench_machine *machine; /* owned by the result */
  int32_t op_count;
  hd_bench_op *ops; /* conv2d, conv2d_dx, conv2d_dw of each shape; times of a sample */
} hd_bench_conv_result;

/* Times the shapes, or with `count` 0 the convolutions of the configuration's model, for about `seconds` in all.
 * HD_E_SHAPE for a shape without outputs; HD_E_USAGE where a model has no convolutions. */
HD_API hd_status hd_bench_conv(hd_bench_conv_result **out, hd_ctx *ctx, const hd_config *config,
                               const hd_bench_conv_shape *shapes, int32_t count, double seconds);
HD_API void hd_bench_conv_destroy(hd_bench_conv_result *result);

/* C[m][n] = A[m][k] B[k][n] on one thread. */
typedef struct hd_bench_product {
  int32_t m, n, k;
  double gflops;          /* heddle's kernel, median over turns */
  double openblas_gflops; /* NAN where there is none */
} hd_bench_product;

typedef struct hd_bench_gemm_result {
  const hd_bench_machine *machine; /* owned by the result */
  char openblas[96];               /* "OpenBLAS 0.3.21 SkylakeX"; "" where there is none */
  int32_t count;
  hd_bench_product *products;
} hd_bench_gemm_result;

/* Times products in turns with OpenBLAS, which picks its kernels when it is first opened (OPENBLAS_CORETYPE), for about
 * `seconds` in all. `products`: m, n and k of each; with `count` 0 a list from 64 to 1024. */
HD_API hd_status hd_bench_gemm(hd_bench_gemm_result **out, hd_ctx *ctx, const hd_config *config,
                               const hd_bench_product *products, int32_t count, double seconds);
HD_API void hd_bench_gemm_destroy(hd_bench_gemm_result *result);

/* The cost of a barrier: heddle's (a step has two) and the OpenMP runtime's. */
typedef struct hd_bench_barrier_result {
  size_t struct_bytes; /* sizeof(hd_bench_barrier_result) */
  char cpu[128];
  int32_t threads, cpus, turns;
  double us, openmp_us; /* medians over turns, in microseconds */
  double us_low, us_high, openmp_us_low, openmp_us_high;
} hd_bench_barrier_result;

/* Measures both in turns, for about `seconds` in all, with the threads that threads, cpus and placement ask for. */
HD_API hd_status hd_bench_barrier(hd_bench_barrier_result *out, hd_ctx *ctx, const hd_config *config, double seconds);

/* A loader's throughput (heddle/loader.h): every sample is read, transformed, normalised and summed. */
typedef struct hd_bench_loader_result {
  size_t struct_bytes; /* sizeof(hd_bench_loader_result) */
  char cpu[128], data[128];
  int32_t workers, turns;
  int64_t batch, samples;          /* samples: of an epoch */
  double samples_per_s, low, high; /* the median of the turns and its 95 % confidence interval */
  double mean, std;                /* of all numbers of an epoch, as they were delivered */
  double start_s, stop_s;          /* opening the data and the workers; ending them, in the middle of an epoch */
} hd_bench_loader_result;

/* Loads the configuration's training samples for about `seconds`, after a first epoch. */
HD_API hd_status hd_bench_loader(hd_bench_loader_result *out, hd_ctx *ctx, const hd_config *config, double seconds);

/* Time of a float32 all-reduce over the ranks of a group, by size: after a barrier, the time of the slowest rank;
 * medians in microseconds. Buffers are private, with separate input and output, and already touched; the second time
 * is of in-place sums in memory from hd_group_alloc. */
enum { HD_BENCH_ALLREDUCE_SIZES = 9 };

typedef struct hd_bench_allreduce_size {
  int64_t bytes;
  double us, shared_us;
} hd_bench_allreduce_size;

typedef struct hd_bench_allreduce_result {
  size_t struct_bytes; /* sizeof(hd_bench_allreduce_result) */
  char cpu[128];
  int32_t ranks, cpus; /* cpus: number that a rank may use */
  hd_bench_allreduce_size size[HD_BENCH_ALLREDUCE_SIZES];
} hd_bench_allreduce_result;

/* A collective call: all ranks get a result. The calling threads are bound to a CPU each, if there are as many as
 * ranks. Fails if a sum is wrong. */
HD_API hd_status hd_bench_allreduce(hd_bench_allreduce_result *out, hd_ctx *ctx, hd_group *group);

/* Remote procedure calls (heddle/rpc.h) of rank 0: the time of a call of rank 1 that returns its bytes, by their
 * number, medians in microseconds; and calls a second without bytes, with 32 futures under way, of all other ranks
 * in turns. */
enum { HD_BENCH_RPC_SIZES = 5 };

typedef struct hd_bench_rpc_size {
  int64_t bytes;
  double us;
} hd_bench_rpc_size;

typedef struct hd_bench_rpc_result {
  size_t struct_bytes; /* sizeof(hd_bench_rpc_result) */
  char cpu[128];
  int32_t ranks, cpus; /* cpus: number that a rank may use */
  double calls_per_s;
  double slow_us; /* of calls without bytes: 99 % take no longer */
  hd_bench_rpc_size size[HD_BENCH_RPC_SIZES];
} hd_bench_rpc_result;

/* A collective call of two ranks or more; rank 0 gets the times. The calling threads are bound to a CPU each, if there
 * are as many as ranks. Fails if a byte that comes back is wrong. */
HD_API hd_status hd_bench_rpc(hd_bench_rpc_result *out, hd_ctx *ctx, hd_group *group);

#ifdef __cplusplus
}
#endif
#endif
