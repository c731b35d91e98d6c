/* One call of an operation: its geometry, where its inputs and outputs are, and its other arguments. The headers of
 * operations (unit.h) know nothing else of heddle. */
#pragma once

#include <stdint.h>

#include "base/host_device.h"
#include "op/op_geoms.h"

enum { HD_MAX_IN = 7, HD_MAX_OUT = 3 };

/* The shape and the settings of an operation, one struct for all of them: it is an argument of GPU kernels, by value.
 * Flat values have h = w = 1 and their length in ci or co. Besides what every operation has, it holds an op/NAME_geom.h
 * of each family and an op/NAME/NAME_geom.h of each operation that has settings of its own, as a member NAME; those of
 * other operations are 0, or what the header says. */
typedef struct hd_geom {
  int32_t ci, hi, wi; /* input channels, height, width */
  int32_t co, ho, wo; /* output before any fused pool: channels, height, width */
  int32_t hp, wp;     /* height and width behind it (ho / pool, wo / pool, rest dropped) */
  int32_t relu;       /* 1 if a ReLU is fused after it (conv2d: after the pool; linear: after the bias) */

#define HD_GEOM_MEMBER(name) hd_##name##_geom name;
  HD_GEOMS(HD_GEOM_MEMBER)
#undef HD_GEOM_MEMBER
} hd_geom;

HD_BOTH int hd_geom_is_dilated(const hd_geom *g) { return g->window.dilation[0] > 1 || g->window.dilation[1] > 1; }

/* The keys of a call's random numbers, see base/philox.h. Row r is the sample at `position + r` of the epoch. */
typedef struct hd_draw {
  uint64_t seed;
  uint32_t epoch, position, node;
} hd_draw;

/* One call of an operation for `rows` neighbouring samples (SHARD, REDUCE and STATS: the rows of exactly one shard,
 * never 0).
 *
 * op                 in[0]         in[1]      in[2]   in[3]    out[0]      out[1]
 * conv2d             x             w*         b|NULL           y           argmax u8|NULL (pool > 1)
 * conv2d_dx          dy            w*         argmax|NULL      dx
 * conv2d_dw          x             dy         argmax|NULL      dw*|NULL    db*|NULL
 * conv_transpose2d   x             w*         b|NULL           y
 * conv_transpose2d_dx
 *                    dy            w*                          dx
 * conv_transpose2d_dw
 *                    x             dy                          dw*|NULL    db*|NULL
 * max_pool2d         x                                         y           argmax u8|NULL
 * max_pool2d_dx      dy            argmax                      dx
 * avg_pool2d, global_avg_pool2d
 *                    x                                         y
 * avg_pool2d_dx      dy                                        dx          also that of the global one
 * linear             x             w*         b*|NULL          y
 * linear_dx          dy            w*                          dx
 * linear_dw          x             dy                          dw*|NULL    db*|NULL
 * shifted_linear     x             w*         b*|NULL          y
 * shifted_linear_dw  x             dy                          dw*|NULL    db*|NULL
 * relu               x                                         y           in place too
 * relu_dx            dy            y                           dx = y > 0 ? dy : 0, in place too (dx over dy)
 * elementwise        x                                         y           in place too
 * their gradients    dy            x or y                      dx          in place too (dx over dy)
 * dropout            x                                         y           in place too
 * dropout_dx         dy                                        dx          in place too
 * flatten            x (h,w,c)                                 y (c,h,w order, the order that PyTorch flattens in)
 * flatten_dx         dy                                        dx
 * add                a             b                           y           in place too (y over a)
 * mul, sub, div      a             b                           y
 * mul_dx, div_dx     dy            a          b                dx of one input
 * sub_dx             dy                                        dx of one input
 * concat             x0            x1         x2      ...      y
 * concat_dx          dy                                        dx of one input
 * slice, upsample, pad, mean, adaptive_avg_pool2d
 *                    x                                         y
 * their gradients    dy                                        dx
 * max, adaptive_max_pool2d
 *                    x                                         y
 * their gradients    dy            x                           dx
 * rms_norm           x             w*                          y           its gradients as those of layer_norm
 * layer_norm         x             w*         b*               y
 * layer_norm_dx      dy            w*         x                dx
 * layer_norm_dw      x             dy                          dw*|NULL    db*|NULL
 * prelu              x             w*                          y
 * prelu_dx           dy            w*         x                dx
 * prelu_dw           x             dy                          dw*
 * softmax            x                                         y           in place too, log_softmax too
 * softmax_dx         dy            y                           dx          in place too (dx over dy)
 * embedding          x             w*                          y
 * embedding_dw       x             dy                          dw*
 * position           x             w*                          y           in place too
 * position_dx        dy                                        dx          in place too (dx over dy)
 * position_dw        dy                                        dw*
 * rotary             x                                         y           in place too
 * rotary_dx          dy                                        dx          in place too (dx over dy)
 * attention          x                                         y
 * attention_dx       dy            x          y                dx
 * lstm, gru          x             w*         b*|NULL          y           kept
 * lstm_dx            dy            w*         kept             dx
 * gru_dx             dy            w*         kept    y        dx          that of the state's shares
 * lstm_dw, gru_dw    y             d shares                    dw*|NULL    db*|NULL
 * batch_stats        x                                             mean*       m2*
 * batch_norm         x             w*         b*      mean*    y           in[4]: var*
 * batch_norm_dx      dy            w*         x       mean*    dx          in[4], in[5], in[6]: var*, dw*, db*
 * batch_norm_dw      x             dy         mean*   var*     dw*|NULL    db*|NULL
 * shard_norm         x             w*         b*               y           mean+; out[2]: var+
 * shard_norm_dx      dy            w*         x       mean+    dx          in[4]: var+
 * custom             x             x2|NULL                     y
 * custom_dx          dy            y          x       x2|NULL  dx          dx2|NULL
 * cross_entropy      logits        labels i32 weight*|NULL     loss (1 float a row)
 * cross_entropy_dx   logits        labels i32 weight*|NULL     dlogits
 * mse, l1, huber     y             target                      loss (1 float a row): a sum over the outputs
 * mse_dx, ..         y             target                      dy
 * bce_with_logits    logits        target     pos_weight*|NULL loss (1 float a row): a sum over the outputs
 * bce_with_logits_dx logits        target     pos_weight*|NULL dlogits
 * weighted_sum       y             target                      loss (1 float a row): the heads' losses, weighed
 * weighted_sum_dx    y             target                      dy
 * weigh              x             target                      y           in place too; w follows the target
 *
 * A star marks parameters, their gradients and statistics: one array, no rows. What batch_norm and its gradients read
 * is of the whole batch: var is m2 / (batch_rows * pixels), dw and db are sums over all shards. A plus marks what is
 * of the shard: one array, in the slot of its first row; batch_norm_dw may read such too. argmax holds, per pooled
 * output element, the position inside its window (row-major, 0 .. kh*kw-1 or pool*pool-1) that gave the maximum;
 * windows have at most 256 positions. */
typedef struct hd_call {
  const hd_geom *g;
  int64_t rows;
  const void *in[HD_MAX_IN];
  void *out[HD_MAX_OUT];
  int64_t in_stride[HD_MAX_IN]; /* elements from one row's slot to the next */
  int64_t out_stride[HD_MAX_OUT];
  const float *packed; /* the packed copy of w, if packed_elems() is not 0 */
  void *scratch;       /* 64-byte aligned, scratch_bytes(g) long, of this thread alone */
  float divisor;       /* gradients of losses: the divisor of the mean over the batch */
  int64_t batch_rows;  /* batch_norm_dx: samples in the whole batch */
  hd_draw draw;        /* dropout */

  /* Sums of kernels in hd_kernels.merges: the shard's is added to those of shards before it, which lie in `merges`
   * slots, `slot` elements apart; `out` points into the first, where the result is written:
   * sum = slot[merges - 1] + sum, ..., sum = slot[0] + sum. The slot after them is the shard's own, to work in. */
  int32_t merges;
  int64_t slot;
} hd_call;

/* The scalars of one update, computed once a step in double and rounded to float. An optimizer has those that its rule
 * sets (optimizer/optimizer.h), beside the ones of all. */
typedef struct hd_hyper {
  int32_t op;         /* the update: a hd_op */
  float grad_scale;   /* clipping; 1 without */
  float lr;           /* of the step */
  float weight_decay; /* for chains that add it to the gradient, */
  float decay_keep;   /* and for those that multiply the weight: 1 - lr * weight_decay */
  int32_t idle;       /* 1: the group is not trained any more: all stays as it is */

  float momentum;
  int32_t nesterov;
  float beta2, one_minus_beta1, one_minus_beta2, eps;
  float step_size;  /* lr / (1 - beta1^t) */
  float sqrt_bias2; /* sqrt(1 - beta2^t) */
  int32_t normalize_weight;
  float alpha, one_minus_alpha;
  int32_t centered;
  float gradient_step; /* as step_size, of what the gradient adds by itself */
} hd_hyper;

enum { HD_MAX_STATES = 3 }; /* that an optimizer keeps of an element */

/* What of version t+1 is written past the caches, as it would not stay there until it is read. */
typedef enum hd_streams { HD_STREAM_NONE, HD_STREAM_STATES, HD_STREAM_ALL } hd_streams;

/* One optimizer step for `count` elements. Reads version t, writes version t+1; out may not alias in. The states are
 * those of the optimizer's rule; one that is not kept is NULL. The chains are those of optimizer/NAME/NAME.h.
 *
 * Returns 1 if any g, w1 or element of s1 is not finite, else 0. Any alignment and count. */
typedef struct hd_update {
  const float *g, *w, *s[HD_MAX_STATES];
  float *w1, *s1[HD_MAX_STATES];
  int64_t count;
  const hd_hyper *hyper;
  hd_streams streams;
  float *kept; /* where w1 is written as well, to stay in the caches; may be g; NULL: nowhere */
} hd_update;
