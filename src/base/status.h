/* How internal code reports failure: one call that stores the message and returns the code, one early-return macro.
 *
 * A function that owns something to release uses a single `out:` label instead of HD_TRY. */
#ifndef HD_BASE_STATUS_H
#define HD_BASE_STATUS_H

#include "heddle/status.h"

#define HD_MESSAGE_BYTES 1024

struct hd_ctx {
  char message[HD_MESSAGE_BYTES];
  int threads;                        /* what hd_set_num_threads said; 0: nothing */
  const struct hd_own_op *own_op[32]; /* operations of the caller's own */
  int own_op_count;
  void *service; /* what an upper layer keeps here (the threads of tensors), ended with the context */
  void (*end_service)(void *service);
  void *own_data; /* data sets of the caller's own, ended after that */
  void (*end_own_data)(void *own_data);
};

/* Stores the formatted message in ctx (ctx may be NULL: the message is lost, the code is not) and returns `code`. */
hd_status hd__fail(hd_ctx *ctx, hd_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the stored message, for a caller that knows the file or the layer; returns `code`. */
hd_status hd__fail_in(hd_ctx *ctx, hd_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define HD_TRY(expr)                                                                                                   \
  do {                                                                                                                 \
    hd_status hd_try_status_ = (expr);                                                                                 \
    if (hd_try_status_ != HD_OK)                                                                                       \
      return hd_try_status_;                                                                                           \
  } while (0)

#endif
