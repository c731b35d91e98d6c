/* What custom and custom_dx call. */
#pragma once

struct hd_custom_op;

typedef struct hd_custom_geom {
  const struct hd_custom_op *op; /* of the caller's program */
} hd_custom_geom;
