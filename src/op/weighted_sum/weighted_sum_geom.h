/* The heads of a network that has several: which scores and targets are each one's, and its loss. */
#pragma once

#include <stdint.h>

enum { HD_LOSS_HEADS = 7 }; /* as many values as concat joins */

typedef enum hd_head_loss {
  HD_HEAD_CROSS_ENTROPY, /* its target is the number of a class; the others have one for each score */
  HD_HEAD_MSE,
  HD_HEAD_L1,
  HD_HEAD_HUBER,
  HD_HEAD_BCE_WITH_LOGITS
} hd_head_loss;

typedef struct hd_loss_head {
  int32_t loss;         /* hd_head_loss */
  int32_t first, count; /* its scores */
  int32_t target;       /* the first of its targets */
  float share;          /* its weight, of a loss on numbers divided by `count` */
  float setting;        /* cross_entropy: label_smoothing; huber: delta */
} hd_loss_head;

typedef struct hd_weighted_sum_geom {
  int32_t heads;
  hd_loss_head head[HD_LOSS_HEADS];
} hd_weighted_sum_geom;
