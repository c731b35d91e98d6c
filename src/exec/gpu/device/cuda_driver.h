/* The functions of NVIDIA's driver that heddle calls, loaded from libcuda.so.1 at run time; HEDDLE_CUDA_DRIVER names
 * another library, such as a test double. Only the functions in use are declared here, as NVIDIA documents them (CUDA
 * Driver API); the signature of a function with a version in its name never changes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef int cu_result, cu_device;
typedef unsigned long long cu_pointer;
typedef struct cu_uuid {
  unsigned char byte[16];
} cu_uuid;
typedef struct cu_context *cu_context;
typedef struct cu_module *cu_module;
typedef struct cu_function *cu_function;
typedef struct cu_stream *cu_stream;
typedef struct cu_event *cu_event;
typedef struct cu_graph *cu_graph;
typedef struct cu_graph_exec *cu_graph_exec;

enum {
  CU_DONE = 0,
  CU_OUT_OF_MEMORY = 2,
  CU_NO_DEVICE = 100,
  CU_NO_BINARY = 209,
  CU_MULTIPROCESSORS = 16,
  CU_CAPABILITY_MAJOR = 75,
  CU_CAPABILITY_MINOR = 76,
  CU_STREAM_NON_BLOCKING = 1,
  CU_PIN_FOR_ALL = 1,
  CU_EVENT_NO_TIMING = 2,
  CU_CAPTURE_THREAD = 1,
  CU_NOT_READY = 600
};

/* CALL(field, name in the library, parameters) */
#define HD_CUDA_CALLS(CALL)                                                                                            \
  CALL(init, "cuInit", (unsigned flags))                                                                               \
  CALL(version, "cuDriverGetVersion", (int *version))                                                                  \
  CALL(device_count, "cuDeviceGetCount", (int *count))                                                                 \
  CALL(device_get, "cuDeviceGet", (cu_device * device, int index))                                                     \
  CALL(device_name, "cuDeviceGetName", (char *name, int bytes, cu_device device))                                      \
  CALL(device_uuid, "cuDeviceGetUuid_v2", (cu_uuid * uuid, cu_device device))                                          \
  CALL(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, cu_device device))                        \
  CALL(context_retain, "cuDevicePrimaryCtxRetain", (cu_context * context, cu_device device))                           \
  CALL(context_release, "cuDevicePrimaryCtxRelease_v2", (cu_device device))                                            \
  CALL(context_use, "cuCtxSetCurrent", (cu_context context))                                                           \
  CALL(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                                \
  CALL(memory_take, "cuMemAlloc_v2", (cu_pointer * memory, size_t bytes))                                              \
  CALL(memory_free, "cuMemFree_v2", (cu_pointer memory))                                                               \
  CALL(memory_clear, "cuMemsetD8Async", (cu_pointer to, unsigned char value, size_t bytes, cu_stream stream))          \
  CALL(host_take, "cuMemHostAlloc", (void **memory, size_t bytes, unsigned flags))                                     \
  CALL(host_free, "cuMemFreeHost", (void *memory))                                                                     \
  CALL(upload, "cuMemcpyHtoDAsync_v2", (cu_pointer to, const void *from, size_t bytes, cu_stream stream))              \
  CALL(download, "cuMemcpyDtoHAsync_v2", (void *to, cu_pointer from, size_t bytes, cu_stream stream))                  \
  CALL(move, "cuMemcpyDtoDAsync_v2", (cu_pointer to, cu_pointer from, size_t bytes, cu_stream stream))                 \
  CALL(move_across, "cuMemcpyPeerAsync",                                                                               \
       (cu_pointer to, cu_context there, cu_pointer from, cu_context here, size_t bytes, cu_stream stream))            \
  CALL(can_reach, "cuDeviceCanAccessPeer", (int *can, cu_device device, cu_device other))                              \
  CALL(reach, "cuCtxEnablePeerAccess", (cu_context other, unsigned flags))                                             \
  CALL(pin, "cuMemHostRegister_v2", (void *memory, size_t bytes, unsigned flags))                                      \
  CALL(unpin, "cuMemHostUnregister", (void *memory))                                                                   \
  CALL(stream_create, "cuStreamCreate", (cu_stream * stream, unsigned flags))                                          \
  CALL(stream_destroy, "cuStreamDestroy_v2", (cu_stream stream))                                                       \
  CALL(stream_wait, "cuStreamSynchronize", (cu_stream stream))                                                         \
  CALL(stream_query, "cuStreamQuery", (cu_stream stream))                                                              \
  CALL(stream_after, "cuStreamWaitEvent", (cu_stream stream, cu_event event, unsigned flags))                          \
  CALL(event_create, "cuEventCreate", (cu_event * event, unsigned flags))                                              \
  CALL(event_destroy, "cuEventDestroy_v2", (cu_event event))                                                           \
  CALL(event_record, "cuEventRecord", (cu_event event, cu_stream stream))                                              \
  CALL(event_elapsed, "cuEventElapsedTime", (float *ms, cu_event begin, cu_event end))                                 \
  CALL(event_wait, "cuEventSynchronize", (cu_event event))                                                             \
  CALL(event_query, "cuEventQuery", (cu_event event))                                                                  \
  CALL(module_load, "cuModuleLoadData", (cu_module * module, const void *image))                                       \
  CALL(module_unload, "cuModuleUnload", (cu_module module))                                                            \
  CALL(module_function, "cuModuleGetFunction", (cu_function * function, cu_module module, const char *name))           \
  CALL(launch, "cuLaunchKernel",                                                                                       \
       (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,   \
        unsigned block_z, unsigned shared_bytes, cu_stream stream, void **arguments, void **extra))                    \
  CALL(capture_begin, "cuStreamBeginCapture_v2", (cu_stream stream, int mode))                                         \
  CALL(capture_end, "cuStreamEndCapture", (cu_stream stream, cu_graph * graph))                                        \
  CALL(graph_instantiate, "cuGraphInstantiateWithFlags",                                                               \
       (cu_graph_exec * exec, cu_graph graph, unsigned long long flags))                                               \
  CALL(graph_launch, "cuGraphLaunch", (cu_graph_exec exec, cu_stream stream))                                          \
  CALL(graph_exec_destroy, "cuGraphExecDestroy", (cu_graph_exec exec))                                                 \
  CALL(graph_destroy, "cuGraphDestroy", (cu_graph graph))                                                              \
  CALL(error_name, "cuGetErrorName", (cu_result error, const char **text))                                             \
  CALL(error_text, "cuGetErrorString", (cu_result error, const char **text))

typedef struct hd_cuda_driver {
#define CALL(field, name, parameters) cu_result(*field) parameters;
  HD_CUDA_CALLS(CALL)
#undef CALL
  void *library;
  char file[96]; /* the name of an error */
} hd_cuda_driver;

/* Loads and initialises the driver. HD_E_UNSUPPORTED names what is missing, and a remedy. */
hd_status hd__cuda_driver_open(hd_cuda_driver *driver, hd_ctx *ctx);

/* Whether a driver can be loaded. */
bool hd__cuda_driver_there(void);

/* "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected" */
enum { HD_CUDA_ERROR_BYTES = 200 };
const char *hd__cuda_driver_error(char text[HD_CUDA_ERROR_BYTES], const hd_cuda_driver *driver, cu_result error);
