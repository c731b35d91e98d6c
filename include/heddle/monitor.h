/* What the machine does just now: how busy each CPU is, memory, temperature, power, GPUs, and the heddle jobs that run.
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
 * Whatever cannot be read, since the machine has it not or this user may not, is NAN, -1 or "", as said below; only
 * memory can run out. Files of the system, and jobs in its proc, are looked for below HEDDLE_SYSROOT, if that is set.
 * GPUs are asked through NVIDIA's NVML, which is loaded while the program runs: HEDDLE_NVML names the library,
 * libnvidia-ml.so.1 without it.
 *
 * Thread safety: a monitor is used by one thread at a time; several may look at once. */
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
  char name[32];        /* "" if it has ended or is hidden from us */
} hd_gpu_process;

typedef struct hd_gpu {
  int32_t index; /* as nvidia-smi counts */
  int32_t cuda;  /* N of --device cuda:N; -1: it cannot be used so, or CUDA_VISIBLE_DEVICES hides it */
  char name[HD_LOOK_TEXT_BYTES], uuid[HD_LOOK_TEXT_BYTES];
  char trouble[HD_LOOK_TEXT_BYTES]; /* in the driver's words, why it cannot be asked: "GPU is lost"; "": it can */
  double use;                       /* of the last moments, 0 to 1 */
  int64_t memory_bytes, memory_used_bytes;
  double temperature_c, power_w, power_limit_w;
  int32_t processes; /* -1: unknown */
  hd_gpu_process process[HD_GPU_MOST_PROCESSES];
} hd_gpu;

/* One process of a job. Texts of state: "ready" (between two calls of its program), "training", "evaluating",
 * "saving". */
typedef struct hd_job_rank {
  int32_t rank, pid;
  uint64_t start; /* ticks since boot: with pid it names a process for ever */
  const char *state;
  int64_t step, epoch;        /* done, from 1; that it belongs to, from 0 */
  double loss, samples_per_s; /* of that step; lately, while it trained */
  int32_t lanes;
  int32_t *cpu; /* of each lane; -1: not bound */
} hd_job_rank;

/* A run that goes on just now, in what process whatever. What it says of itself is checked to be well-formed; that it
 * is true only its own user knows. Texts are UTF-8 without control characters. */
typedef struct hd_job {
  int32_t pid; /* of its first rank */
  uint64_t start;
  char model[HD_LOOK_TEXT_BYTES], isa[16], device[16];
  char data[HD_LOOK_PATH_BYTES];    /* as it was named to the run */
  char out[HD_LOOK_PATH_BYTES];     /* the run's folder */
  char command[HD_LOOK_PATH_BYTES]; /* of that process; "" if it is hidden from us */
  const char *state;
  int64_t step, steps, epoch, epochs, batch; /* steps: where it is heading */
  double loss, samples_per_s;                /* samples_per_s: of all ranks */
  double elapsed_s, left_s;                  /* since its start; to its last step, evaluations not counted */
  int32_t lanes;                             /* of all ranks */
  int32_t ranks;
  hd_job_rank *rank;
} hd_job;

typedef struct hd_look {
  const hd_topology *machine;
  const char *isa;   /* of the kernels that a run would take here */
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

/* Counts as the look before the first one. HD_E_SYSTEM where hwloc finds no CPU. */
HD_API hd_status hd_monitor_create(hd_monitor **out, hd_ctx *ctx);
HD_API void hd_monitor_destroy(hd_monitor *monitor);

/* Owned by the monitor, valid until its next look. */
HD_API hd_status hd_monitor_look(const hd_look **out, hd_monitor *monitor, hd_ctx *ctx);

/* Sends a signal to all ranks of a job: SIGTERM makes it save and end, SIGKILL ends it at once. Never reaches a process
 * that took the number of one that has ended. HD_E_SYSTEM if the job has ended, or is another user's. */
HD_API hd_status hd_job_signal(hd_ctx *ctx, const hd_job *job, int number);

#ifdef __cplusplus
}
#endif
#endif
