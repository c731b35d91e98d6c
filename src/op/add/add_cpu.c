/* add by groups of sixteen: dx = f(dy, other) with the sum for f. */
#include "kernel/cpu/each16.h"

G16 g16 add16(const hd_geom *g, g16 a, g16 b) { return g16_add(a, b); }

static void add(const hd_call *call) { g16_each_dx(call, add16); }

void HD_SYM(add_fill)(hd_kernels *table) { table->run[HD_OP_add] = add; }
