/* Drawing initial values of parameters. */
#include "train/session/initial_weights.h"

#include <math.h>

#include "base/philox.h"
#include "graph/graph.h"

/* Uniform in (-bound, bound), symmetric: the draw's 2^24 values lie at odd multiples of half a step. */
static float draw(uint64_t seed, const hd_param *param, int64_t element, double bound) {
  uint32_t word[4];
  hd__rng_block(word, seed, HD_RNG_INIT, 0, (uint32_t)param->slot, (uint32_t)param->written, (uint32_t)(element / 4));
  double unit = ((double)(word[element % 4] >> 8) + 0.5) * 0x1p-24;
  return (float)((2 * unit - 1) * bound);
}

void hd__init_params(hd_store *store, const hd_plan *plan, uint64_t seed) {
  for (int p = 0; p < plan->param_count; p++) {
    const hd_param *param = &plan->graph->params[p];
    double bound = 1 / sqrt((double)param->fan_in);
    float *w = store->weights[hd__store_buffer(store)] + plan->params[p].offset;
    int64_t columns = hd__param_columns(param);
    for (int64_t row = 0; row < param->rows; row++)
      for (int64_t k = 0; k < columns; k++)
        w[row * columns + k] = param->init == HD_INIT_UNIFORM
                                   ? draw(seed, param, hd__param_file_index(param, row, k), bound)
                                   : (float)(param->init == HD_INIT_ONE);
  }
  hd__store_pack(store, plan);
}
