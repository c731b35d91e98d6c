/* Reference dropout. The mask is never stored: each use draws it again from the call's keys. */
#include "base/philox.h"
#include "kernel/ref/ref_real.h"

/* y = x * factor: 0 where the element's random number in [0, 1) lies below p, else 1 / (1 - p). Four neighbouring
 * elements share a block of random words. A NaN gets through. */
static void dropout(const hd_call *call) {
  const hd_geom *g = call->g;
  const hd_draw *draw = &call->draw;
  const real kept = 1 / (1 - (real)g->p);
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < (int64_t)g->ci * g->hi * g->wi; i++) {
      uint32_t word[4];
      hd__rng_block(word, draw->seed, HD_RNG_DROPOUT, draw->epoch, draw->position + (uint32_t)n, draw->node,
                    (uint32_t)(i / 4));
      real factor = hd__rng_uniform(word[i % 4]) < g->p ? 0 : kept;
      ((real *)call->out[0])[n * call->out_stride[0] + i] =
          ((const real *)call->in[0])[n * call->in_stride[0] + i] * factor;
    }
}

void REF(dropout_fill)(hd_kernels *table) {
  table->run[HD_OP_dropout] = dropout;
  table->run[HD_OP_dropout_dx] = dropout;
}
