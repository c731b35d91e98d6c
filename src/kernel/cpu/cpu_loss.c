/* Cross-entropy over softmax and its gradient: groups along the classes.
 *
 * The maximum may be taken in any order: only its value matters, and any NaN makes it NaN (that of two zeros does not
 * show in any result). The sum of exponentials is the 16 interleaved chains of a group, a short last group under a
 * mask, then the fixed tree. Few classes fit one group; the code has no special case for them. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

static float largest(const float *logits, int classes) {
  g16 best = g16_all(logits[0]);
  int i = 0;
  for (; i + 16 <= classes; i += 16)
    best = g16_take_over(best, g16_load(logits + i));
  if (i < classes) {
    g16_mask mask = g16_first(classes - i);
    best = g16_take_over(best, g16_choose(mask, g16_load_mask(logits + i, mask), best));
  }
  float lane[16], m;
  g16_store(lane, best);
  m = lane[0];
  for (int c = 1; c < 16; c++)
    if (lane[c] > m || lane[c] != lane[c])
      m = lane[c];
  return m;
}

static float sum_of_exp(const float *logits, int classes, float m) {
  g16 chains = g16_zero(), shift = g16_all(m);
  int i = 0;
  for (; i + 16 <= classes; i += 16)
    chains = g16_add(chains, g16_exp(g16_sub(g16_load(logits + i), shift)));
  if (i < classes) {
    g16_mask mask = g16_first(classes - i);
    g16 more = g16_add(chains, g16_exp(g16_sub(g16_load_mask(logits + i, mask), shift)));
    chains = g16_choose(mask, more, chains);
  }
  return g16_tree(chains);
}

static void cross_entropy(const hd_call *call) {
  const int classes = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *logits = (const float *)call->in[0] + n * call->in_stride[0];
    const int32_t label = ((const int32_t *)call->in[1])[n * call->in_stride[1]];
    const float m = largest(logits, classes);
    ((float *)call->out[0])[n * call->out_stride[0]] =
        hd__ref_logf(sum_of_exp(logits, classes, m)) - (logits[label] - m);
  }
}

static void cross_entropy_dx(const hd_call *call) {
  const int classes = call->g->ci;
  const g16 divisor = g16_all(call->divisor);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *logits = (const float *)call->in[0] + n * call->in_stride[0];
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    const int32_t label = ((const int32_t *)call->in[1])[n * call->in_stride[1]];
    const float m = largest(logits, classes), sum = sum_of_exp(logits, classes, m);
    for (int i = 0; i < classes; i += 16) {
      g16 share = g16_div(g16_exp(g16_sub(g16_load_some(logits + i, classes - i), g16_all(m))), g16_all(sum));
      g16_store_some(dx + i, g16_div(share, divisor), classes - i);
    }
    float hit = hd__ref_expf(logits[label] - m) / sum;
    dx[label] = (hit - 1) / call->divisor;
  }
}

void HD_SYM(loss_fill)(hd_kernels *table) {
  table->run[HD_OP_cross_entropy] = cross_entropy;
  table->run[HD_OP_cross_entropy_dx] = cross_entropy_dx;
}
