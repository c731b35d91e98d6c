/* instance_norm: a group norm whose groups are the channels. */
#pragma once

#include "op/group_norm/group_norm.h"

/* y: as `group_norm`, each channel being a group */
HD_BOTH int64_t instance_norm_count(const hd_geom *g) { return group_norm_count(g); }
HD_BOTH void instance_norm_at(const op_call *c, int64_t n, int64_t group) { group_norm_at(c, n, group); }

/* dw, db: as `group_norm` */
/* dx: as `group_norm` */
