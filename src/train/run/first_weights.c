/* Drawing and computing first weights: see first_weights.h. */
#include "train/run/first_weights.h"

#include <math.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "base/philox.h"

/* Uniform in (-bound, bound), symmetric: the draw's 2^24 values lie at odd multiples of half a step. */
static float draw(uint64_t seed, const hd_param *param, int64_t element, double bound) {
  uint32_t word[4];
  hd__rng_block(word, seed, HD_RNG_INIT, 0, (uint32_t)param->slot, (uint32_t)param->written, (uint32_t)(element / 4));
  double unit = ((double)(word[element % 4] >> 8) + 0.5) * 0x1p-24;
  return (float)((2 * unit - 1) * bound);
}

/* Normally distributed, two elements from two words. */
static float draw_normal(uint64_t seed, const hd_param *param, int64_t element) {
  uint32_t word[4];
  float two[2];
  hd__rng_block(word, seed, HD_RNG_INIT, 0, (uint32_t)param->slot, (uint32_t)param->written, (uint32_t)(element / 4));
  hd__two_normals(two, word[element / 2 % 2 * 2], word[element / 2 % 2 * 2 + 1]);
  return two[element % 2] * param->std;
}

/* The convolution to which the weight belongs. */
static const hd_node *conv_of(const hd_graph *graph, const hd_param *param) {
  const hd_node *node = graph->nodes;
  while (node->op != HD_OP_conv2d || node->in[1] != param->value)
    node++;
  return node;
}

/* torch.nn.init.dirac_ for the first filters of each group, as many as it has inputs: filter d has a 1 in the middle of
 * input d, and zeros. True if the element is of such a filter. */
static bool dirac(float *out, const hd_param *param, int32_t groups, int64_t element) {
  const int64_t pixels = (int64_t)param->h * param->w, filter = element / (param->c * pixels) % (param->rows / groups);
  const int64_t channel = element / pixels % param->c, middle = (int64_t)(param->h / 2) * param->w + param->w / 2;
  *out = channel == filter && element % pixels == middle;
  return filter < param->c;
}

/* Element i of a parameter, in file order, which is drawn from (seed, node as written, parameter of the node, i)
 * where it is drawn: uniformly in +-1/sqrt(fan_in), the bound of PyTorch's kaiming_uniform_(a=sqrt(5)) for weights,
 * and its rule for biases. `whitening`: the weight, for HD_INIT_WHITEN. */
static float first_value(const hd_graph *graph, const hd_param *param, uint64_t seed, const float *whitening,
                         int64_t element) {
  float value;
  switch (param->init) {
  case HD_INIT_ZERO: return 0;
  case HD_INIT_ONE: return 1;
  case HD_INIT_QUARTER: return 0.25f;
  case HD_INIT_WHITEN: return whitening[element];
  case HD_INIT_DIRAC:
    if (dirac(&value, param, conv_of(graph, param)->geom.conv.groups, element))
      return value;
    break;
  case HD_INIT_NORMAL: return draw_normal(seed, param, element);
  case HD_INIT_UNIFORM: break;
  }
  return draw(seed, param, element, 1 / sqrt((double)param->fan_in));
}

hd_status hd__first_weights(hd_store *store, hd_ctx *ctx, const hd_plan *plan, uint64_t seed,
                            const hd_first_samples *samples, const bool *here) {
  for (int p = 0; p < plan->param_count; p++) {
    if (here && !here[plan->params[p].stage])
      continue;
    const hd_param *param = &plan->graph->params[p];
    float *w = store->weights[hd__store_buffer(store)] + plan->params[p].offset;
    const int64_t columns = hd__param_columns(param);
    HD_OWNED float *whitening = NULL;
    if (param->init == HD_INIT_WHITEN)
      HD_TRY(hd__whiten(&whitening, ctx, conv_of(plan->graph, param), samples));
    for (int64_t row = 0; row < param->rows; row++)
      for (int64_t k = 0; k < columns; k++)
        w[row * columns + k] = first_value(plan->graph, param, seed, whitening, hd__param_file_index(param, row, k));
  }
  hd__store_pack(store, plan, here);
  return HD_OK;
}
