/* avg_pool2d and global_avg_pool2d with channels in vector lanes; padding adds nothing to a mean. */
#include "op/avg_pool2d/avg_pool2d.h"
#include "op/window_cpu.h"

static void avg_pool2d(const hd_call *call) { windows16_mean(call, window16_at, avg_pool2d_divisor); }
static void avg_pool2d_dx(const hd_call *call) { windows16_share(call, window16_at, avg_pool2d_divisor); }

void HD_SYM(avg_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_avg_pool2d] = avg_pool2d;
  table->run[HD_OP_avg_pool2d_dx] = avg_pool2d_dx;
  table->run[HD_OP_global_avg_pool2d] = avg_pool2d;
}
