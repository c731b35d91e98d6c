/* The machine's current state: use of each CPU, memory, temperature, power, GPUs, and running heddle jobs.
 *
 *     hd_monitor *monitor;
 *     const hd_look *look;
 *     hd_monitor_create(&monitor, ctx);
 *     sleep(1);
 *     hd_monitor_look(&look, monitor, ctx);
 *     for (int i = 0; i < look->jobs; i++)
 *       printf("%d: %s, %.0f samples/s\n", look->job[i].pid, look->job[i].model, look->job[i].samples_per_s);
 *     hd_monitor_destroy(monitor);
 *
 * Values that cannot be read, because the machine lacks them or this user may not, are NAN, -1 or "", as stated
 * below; a look fails only when memory runs out. System files, and jobs in /proc, are read below HEDDLE_SYSROOT, if
 * it is set. GPUs are read through NVIDIA's NVML, which is loaded at run time: HEDDLE_NVML names the library, by
 * default libnvidia-ml.so.1.
 *
 * Thread safety: a monitor may be used by one thread at a time; several monitors may be used at once. */
#ifndef HEDDLE_MONITOR_H
#define HEDDLE_MONITOR_H

#include <stdint.h>

#include "heddle/status.h"
#include "heddle/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_GPU_MOST_PROCESSES = 64, HD_LOOK_TEXT_BYTES = 128, HD_LOOK_PATH_BYTES = 1024 };

typedef struct hd_gpu_process {
  int32_t pid;
  int64_t memory_bytes; /* -1: unknown */
  char name[32];        /* "" if it has ended or is hidden */
} hd_gpu_process;

typedef struct hd_gpu {
  int32_t index; /* as nvidia-smi counts */
  int32_t cuda;  /* N of --device cuda:N; -1: unusable, or hidden by CUDA_VISIBLE_DEVICES */
  char name[HD_LOOK_TEXT_BYTES], uuid[HD_LOOK_TEXT_BYTES];
  char trouble[HD_LOOK_TEXT_BYTES]; /* the driver's error if it cannot be read: "GPU is lost"; else "" */
  double use;                       /* recent, 0 to 1 */
  int64_t memory_bytes, memory_used_bytes;
  double temperature_c, power_w, power_limit_w;
  int32_t processes; /* -1: unknown */
  hd_gpu_process process[HD_GPU_MOST_PROCESSES];
} hd_gpu;

typedef enum hd_job_state {
  HD_JOB_READY, /* between two calls of its program */
  HD_JOB_TRAINING,
  HD_JOB_EVALUATING,
  HD_JOB_SAVING
} hd_job_state;

/* "ready", "training", "evaluating" or "saving". Static storage. */
HD_API const char *hd_job_state_name(hd_job_state state);

/* One process of a job. */
typedef struct hd_job_rank {
  int32_t rank, pid;
  uint64_t start; /* ticks since boot: with pid a unique name of a process */
  hd_job_state state;
  int64_t step, epoch;        /* steps done; its epoch, from 0 */
  double loss, samples_per_s; /* of that step; recent, while training: the whole run's, as each rank sees it */
  int32_t threads;
  int32_t *cpu; /* of each thread; -1: not bound */
} hd_job_rank;

/* A running job, in any process. Its data comes from that process: it is checked to be well-formed, not to be true.
 * Texts are UTF-8 without control characters. */
typedef struct hd_job {
  int32_t pid; /* of its first rank */
  uint64_t start;
  char model[HD_LOOK_TEXT_BYTES], isa[16], device[16];
  char data[HD_LOOK_PATH_BYTES];    /* as it was named to the run */
  char out[HD_LOOK_PATH_BYTES];     /* the run's folder */
  char command[HD_LOOK_PATH_BYTES]; /* of that process; "" if hidden */
  hd_job_state state;
  int64_t step, steps, epoch, epochs, batch; /* steps: the run's last */
  double loss, samples_per_s;                /* samples_per_s: of the run, as its first rank sees it */
  double elapsed_s, left_s;                  /* since its start; to its last step, evaluations not counted */
  int32_t threads;                           /* of all ranks */
  int32_t ranks;
  hd_job_rank *rank;
} hd_job;

typedef struct hd_look {
  const hd_topology *machine;
  const char *isa;   /* of the kernels that a run would use here */
  const double *use; /* of machine->cpu[i], 0 to 1, since the look before */
  double use_all;    /* the mean */
  int64_t memory_bytes, memory_used_bytes, swap_bytes, swap_used_bytes;
  double temperature_c; /* of the hottest processor */
  double power_w;       /* of all processors, since the look before */
  double load[3];       /* average numbers of waiting threads over 1, 5 and 15 minutes */
  int32_t gpus;
  const hd_gpu *gpu;
  const char *cuda_note; /* one line: how many GPUs --device cuda can use, or why none */
  const char *gpu_note;  /* one line: why there is none, "" if there is one */
  int32_t jobs;
  const hd_job *job; /* the oldest first */
} hd_look;

typedef struct hd_monitor hd_monitor;

/* Counts as a look: CPU use in the first one is measured from here. HD_E_SYSTEM where hwloc finds no CPU. */
HD_API hd_status hd_monitor_create(hd_monitor **out, hd_ctx *ctx);
HD_API void hd_monitor_destroy(hd_monitor *monitor);

/* Owned by the monitor, valid until its next look. */
HD_API hd_status hd_monitor_look(const hd_look **out, hd_monitor *monitor, hd_ctx *ctx);

/* Sends a signal to all ranks of a job: SIGTERM makes it save and end, SIGKILL ends it at once. Never signals a
 * later process that reuses the pid. HD_E_SYSTEM if the job has ended, or belongs to another user. */
HD_API hd_status hd_job_signal(hd_ctx *ctx, const hd_job *job, int number);

#ifdef __cplusplus
}
#endif
#endif
