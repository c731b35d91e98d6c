/* Remote procedure calls between the ranks of a group: a rank calls a function of another rank by its name.
 *
 *     static hd_status twice(hd_rpc_request *r) {
 *       for (int64_t i = 0; i < r->input.size[0]; i++)
 *         ((float *)r->input.data)[i] *= 2;
 *       r->output = r->input; // the elements in place
 *       return HD_OK;
 *     }
 *     static const hd_rpc_function functions[] = {{"twice", twice, NULL, HD_F32}};
 *
 *     hd_rpc *rpc;
 *     float x[3] = {1, 2, 3};
 *     hd_rpc_array data = {.data = x, .dtype = HD_F32, .ndim = 1, .size = {3}};
 *     hd_rpc_open(&rpc, group, ctx, functions, 1, NULL);                 // all ranks
 *     hd_rpc_call(&data, rpc, ctx, 1, "twice", &data);                   // rank 1 doubles x
 *     hd_rpc_close(rpc, ctx);                                            // all ranks; serves until the last is here
 *     hd_rpc_destroy(rpc);
 *
 * Each rank has a service thread, which runs the functions of this rank one at a time, in the order in which calls
 * arrive, while the program does something else. So functions need no lock against each other, only against the
 * program's threads, unless these call their rank's functions too: a rank may call itself. A function may not call:
 * a call from within one is refused. So no set of calls can wait in a circle.
 *
 * Memory does not grow: a rank has HD_RPC_CALLS calls under way at most, each in a slot with room for `most_bytes` in
 * and out. Ranks of one host share this memory, and a call is two copies; ranks of other hosts are called over MPI.
 *
 * Errors come back as they are returned, with the message "'NAME' of rank R: ...". When a rank is lost, all calls under
 * way and all later ones fail with HD_E_PEER and a line that names it, in less than a second.
 *
 * Thread safety: any number of threads may call at a time, each with a context of its own. hd_rpc_open, close and
 * destroy come from one thread, while no other uses the calls. */
#ifndef HEDDLE_RPC_H
#define HEDDLE_RPC_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/dtype.h"
#include "heddle/group.h"
#include "heddle/status.h"
#include "heddle/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Calls under way of a rank; bytes of a name, with the end of text; functions of a rank; dimensions of an array. */
enum { HD_RPC_CALLS = 64, HD_RPC_NAME_BYTES = 40, HD_RPC_FUNCTIONS = 64, HD_RPC_MAX_DIMS = HD_TENSOR_MAX_DIMS };

typedef struct hd_rpc hd_rpc;
typedef struct hd_rpc_future hd_rpc_future;

/* What goes into a call or comes out of one: elements of any type of groups, row-major. Bytes are HD_U8 with one
 * dimension. ndim 0 is a single number. */
typedef struct hd_rpc_array {
  void *data;
  hd_dtype dtype;
  int32_t ndim; /* 0 .. HD_RPC_MAX_DIMS */
  int64_t size[HD_RPC_MAX_DIMS];
} hd_rpc_array;

/* A call as the function sees it; valid until it returns. */
typedef struct hd_rpc_request {
  hd_rpc_array input;  /* of the function's type; its memory may be written */
  hd_rpc_array output; /* no elements yet, and room for most_bytes: write there, and set type and sizes, or let `data`
                          point to other elements, which are copied when the function returns */
  int32_t caller;      /* the calling rank */
  void *self;          /* the function's */
  hd_ctx *ctx;         /* for messages, and for calls that need a context */
} hd_rpc_request;

/* A function that other ranks can call. A failure returns hd_ctx_fail(request->ctx, status, "..."). It may not use the
 * group that the calls were opened for, nor wait for a thread that calls. */
typedef struct hd_rpc_function {
  const char *name; /* up to HD_RPC_NAME_BYTES - 1 bytes; copied */
  hd_status (*run)(hd_rpc_request *request);
  void *self;
  hd_dtype input;
} hd_rpc_function;

/* NULL, or fields of 0, are the defaults. */
typedef struct hd_rpc_settings {
  size_t struct_bytes; /* sizeof(hd_rpc_settings) */
  int64_t most_bytes;  /* of an array, the same on all ranks; 0: 1 MiB */
  double timeout_s;    /* of hd_rpc_call; 0: as the group */
} hd_rpc_settings;

/* A collective call: when it returns, the functions of all ranks can be called. Each rank passes its functions, other
 * ranks may have others or none. HD_E_USAGE: a name is not valid or there twice, or ranks differ in most_bytes;
 * HD_E_UNSUPPORTED: the group is one of GPUs. If it fails in one rank, it fails in all. Messages of the group and its
 * collectives are independent of it. */
HD_API hd_status hd_rpc_open(hd_rpc **out, hd_group *group, hd_ctx *ctx, const hd_rpc_function *functions, int count,
                             const hd_rpc_settings *settings);

/* Waits for the calls of this rank that are under way, and then, serving calls, until all ranks have closed: a rank
 * that only serves calls hd_rpc_open and hd_rpc_close. Later calls get HD_E_USAGE. */
HD_API hd_status hd_rpc_close(hd_rpc *rpc, hd_ctx *ctx);

/* Before the group is destroyed. A rank that destroys what it has not closed, because it failed, counts as a lost
 * rank. NULL is allowed. */
HD_API void hd_rpc_destroy(hd_rpc *rpc);

/* Calls function `name` of a rank and waits for the result. `input` NULL: no elements. *output says where the result
 * goes, its type, and by its sizes for how many elements there is room; its sizes are then those of the result. It may
 * use the memory of the input. `output` NULL: the result is dropped. Waits while HD_RPC_CALLS calls are under way.
 *
 * HD_E_USAGE: rank, name, type or sizes are not valid; the rank has no such function; its type is another one; the call
 * is from within a function or after hd_rpc_close. HD_E_SHAPE: more than most_bytes, or than there is room for.
 * HD_E_TIMEOUT: the call is given up; a function that has begun runs to its end. HD_E_PEER: a rank is lost. All other
 * codes are those of the function. */
HD_API hd_status hd_rpc_call(hd_rpc_array *output, hd_rpc *rpc, hd_ctx *ctx, int32_t rank, const char *name,
                             const hd_rpc_array *input);

/* Begins a call and returns at once; the input is copied. The caller waits for each future once. Fails with HD_E_USAGE
 * when HD_RPC_CALLS calls are under way: those that have ended count until they were waited for. */
HD_API hd_status hd_rpc_start(hd_rpc_future **out, hd_rpc *rpc, hd_ctx *ctx, int32_t rank, const char *name,
                              const hd_rpc_array *input);

/* Waits for the end of a call and frees the future, in any case. Arguments and status are those of hd_rpc_call; a
 * negative timeout waits for ever. */
HD_API hd_status hd_rpc_wait(hd_rpc_array *output, hd_rpc_future *future, hd_ctx *ctx, double timeout_s);
HD_API int hd_rpc_is_done(hd_rpc_future *future); /* then waiting takes no time */

/* The elements of a contiguous tensor on the CPU, for a call; they remain the tensor's. A result becomes a tensor by
 * hd_tensor_from. HD_E_USAGE: the tensor is NULL, not contiguous, or on a GPU. */
HD_API hd_status hd_rpc_tensor(hd_rpc_array *out, hd_ctx *ctx, const hd_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
