/* The device that computes a run: opening the one that --device names, and what is above it needs to know of it. Here
 * alone devices are told apart. */
#pragma once

#include "exec/exchange/local_group.h"
#include "exec/executor.h"
#include "heddle/device.h"
#include "train/settings/config.h"

/* An open device; all 0: none. A copy is the same device. */
typedef struct hd_run_device {
  const hd_executor *executor; /* what it can do */
  void *own;                   /* its settings in hd_exec_settings */
  hd_device name;              /* for the caller; of several the first */
  int count;                   /* of devices in this process */
  const char *kind;            /* "cpu", "cuda" */
  const char *isa;             /* NULL: that of the threads' kernels */
  const char *library;         /* of --arithmetic native that computes; "": none */
  bool may_shift;              /* its plans may add a shift that is the same for all samples */
  /* The kernels of a plan for the shards of such a batch, 0 for an evaluation; NULL: those of the threads. */
  const hd_kernels *(*kernels)(const hd_kernels *of_threads, int64_t batch, int32_t shards);
  void (*close)(void *own); /* NULL: nothing to do */
} hd_run_device;

/* This process's threads. */
hd_run_device hd__device_threads(const hd_config *config);

/* Opens what --device names; `auto` starts on the threads. Of several GPUs each rank of a host takes one, in the order
 * of the list; without a list, in the driver's order. `text` gets the GPUs of all ranks of the host, "cuda:0,1".
 * HD_E_UNSUPPORTED if the run has a setting that the device does not support, or there are too few GPUs. */
hd_status hd__device_open(hd_run_device *out, char *text, size_t bytes, hd_ctx *ctx, const hd_config *config,
                          const hd_local_group *local);

/* The same for a device given as text, or for that of the settings if it is NULL. */
hd_status hd__device_open_named(hd_run_device *out, hd_ctx *ctx, const hd_config *config, const char *device);

void hd__device_close(hd_run_device *device);

/* The kernels of this process's threads in a run on the device, and of a plan of the run. */
hd_status hd__device_thread_kernels(const hd_kernels **out, hd_ctx *ctx, const hd_config *config,
                                    const hd_run_device *device);
const hd_kernels *hd__device_kernels(const hd_run_device *device, const hd_kernels *of_threads, const hd_config *config,
                                     bool train);

/* The number of devices that are idle while the threads compute, and the first one's name. */
int hd__device_idle(char *name); /* HD_LOOK_TEXT_BYTES */
