/* How internal code reports failure: one call that stores the message and returns the code, one early-return macro.
 *
 * What a function releases is declared HD_OWNED or HD_RELEASED (alloc.h), so that HD_TRY may return at any place. */
#pragma once

#include "base/tools_api.h"
#include "heddle/status.h"

#define HD_MESSAGE_BYTES 1024

struct hd_ctx {
  char message[HD_MESSAGE_BYTES];
  int threads;                        /* set by hd_set_num_threads; 0: not set */
  struct hd_custom_op *custom_op[32]; /* operations of the caller's program, copied */
  int custom_op_count;
  void *service; /* state of an upper layer (the threads of tensors), ended with the context */
  void (*end_service)(void *service);
  void *custom_data; /* data sets of the caller's program, ended after that */
  void (*end_custom_data)(void *custom_data);
  struct hd_custom_transforms *custom_transforms; /* transforms of the caller's program */
  void (*on_wait)(void *user, const char *text);  /* or NULL */
  void *wait_user;
};

/* Stores the formatted message in ctx (ctx may be NULL: the message is lost, the code is not) and returns `code`. */
#define hd__fail hd_ctx_fail

/* The next step of a function that releases resources at its end: `expr` unless an earlier step failed. */
#define HD_THEN(status, expr)                                                                                          \
  do {                                                                                                                 \
    if ((status) == HD_OK)                                                                                             \
      (status) = (expr);                                                                                               \
  } while (0)

/* HD_OK if `memory` was allocated, else HD_E_NOMEM with the formatted message, which is not evaluated before. */
#define HD_ALLOCATED(memory, ctx, ...) ((memory) ? HD_OK : hd__fail(ctx, HD_E_NOMEM, __VA_ARGS__))

/* The status of a function that has created *out: after a failure *out is destroyed, and NULL. */
#define HD_CREATED(status, out, destroy) ((status) == HD_OK ? HD_OK : (destroy(*(out)), *(out) = NULL, (status)))

/* Puts "prefix: " (a file or layer) before the stored message; returns `code`. */
hd_status hd__fail_in(hd_ctx *ctx, hd_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Tells the caller what is waited for, if the context has a function for that; see hd_ctx_on_wait. */
void hd__tell_wait(const hd_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define HD_TRY(expr)                                                                                                   \
  do {                                                                                                                 \
    hd_status hd_try_status_ = (expr);                                                                                 \
    if (hd_try_status_ != HD_OK)                                                                                       \
      return hd_try_status_;                                                                                           \
  } while (0)
