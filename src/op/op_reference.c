/* The reference kernels: every unit of every row, one after the other. Compiled for float and, with HD_REF_DOUBLE, for
 * double. */
#include "base/fma.h"
#ifdef HD_REF_DOUBLE
#define REAL_FMA hd__fma
#else
#define REAL_FMA hd__fmaf
#endif
#include "op/op_reference.h"
#include "op/op_headers.h"

#define OP_ROWS(name)                                                                                                  \
  static void run_##name(const hd_call *call) {                                                                        \
    for (int64_t n = 0; n < call->rows; n++)                                                                           \
      for (int64_t i = 0; i < name##_count(call->g); i++)                                                              \
        name##_at(call, n, i);                                                                                         \
  }
#define OP_SHARD(name)                                                                                                 \
  static void run_##name(const hd_call *call) {                                                                        \
    for (int64_t i = 0; i < name##_count(call->g); i++)                                                                \
      name##_at(call, 0, i);                                                                                           \
  }
#define OP_REDUCE OP_SHARD
#define OP_STATS OP_SHARD
#ifdef HD_REF_DOUBLE
#define OP_UPDATE(name)
#else
#define OP_UPDATE(name)                                                                                                \
  static int run_##name(const hd_update *u) {                                                                          \
    int bad = 0;                                                                                                       \
    for (int64_t e = 0; e < u->count; e++) {                                                                           \
      bad |= !name##_at(u, u->hyper, u->hyper->grad_scale, e, u->g[e]);                                                \
      if (u->kept)                                                                                                     \
        u->kept[e] = u->w1[e];                                                                                         \
    }                                                                                                                  \
    return bad;                                                                                                        \
  }
#endif
#define OP(name, class) OP_##class(name)
#include "kernel/ops.def"
#undef OP_ROWS
#undef OP_SHARD
#undef OP_UPDATE

#define OP_ROWS(name) table->run[HD_OP_##name] = run_##name;
#define OP_SHARD OP_ROWS
#define OP_UPDATE(name) FILL_UPDATE(name)
#define OP(name, class) OP_##class(name)

#ifdef HD_REF_DOUBLE
#define FILL_UPDATE(name)
void hd__op_fill_reference_f64(hd_kernels *table) {
#include "kernel/ops.def"
}
#else
#define FILL_UPDATE(name) table->update[HD_OP_##name] = run_##name;

void hd__op_fill_reference(hd_kernels *table) {
#include "kernel/ops.def"
}
#endif
