/* Transforms of targets: one_hot converts a label to numbers, mixup mixes two samples and their targets. */
#include <math.h>

#include "base/hdmath.h"
#include "data/transforms/transform_step.h"

/* ---- one_hot ---- */

hd_status hd__fit_one_hot(hd_transform_step *step, hd_transform_fit *fit) {
  if (fit->targets)
    return hd__yaml_fail(fit->ctx, step->where, "expected class labels for %s, found float targets; leave it out",
                         step->row->name);
  if (!step->classes)
    step->classes = fit->classes;
  if (step->classes < fit->classes)
    return hd__yaml_fail(fit->ctx, step->where,
                         "expected at least %d classes for %s, as many as there are, found %d; "
                         "give more, or none for all",
                         fit->classes, step->row->name, step->classes);
  fit->targets = step->classes;
  step->off = (float)(step->fill / step->classes);
  step->on = (float)(1 - step->fill + step->fill / step->classes);
  return HD_OK;
}

void hd__apply_one_hot(const hd_transform_step *step, hd_transform_run *run) {
  for (int32_t i = 0; i < step->classes; i++)
    run->target[i] = i == run->label ? step->on : step->off;
}

/* ---- mixup ---- */

enum { ATTEMPTS = 32 };

hd_status hd__fit_mixup(hd_transform_step *step, hd_transform_fit *fit) {
  if (fit->mixes)
    return hd__yaml_fail(fit->ctx, step->where, "expected %s once, found it again; leave one out", step->row->name);
  if (!fit->targets)
    return hd__yaml_fail(fit->ctx, step->where,
                         "expected float targets for %s, found class labels; put one_hot before it", step->row->name);
  fit->mixes = true;
  fit->shape.bytes = false;
  return HD_OK;
}

/* The logarithm of a number drawn from the gamma distribution, after Marsaglia and Tsang (2000): with d = a - 1/3 the
 * cube of a shifted normal number, accepted or drawn again; where a < 1, that of a + 1 times u^(1/a). Blocks from
 * `block` on: one for u, then one an attempt. */
static double log_gamma_drawn(double a, const hd_transform_step *step, const hd_transform_run *run, uint32_t block) {
  static const double TURN = 6.28318530717958647693;
  uint32_t word[4];
  hd__run_draw(word, run, step, block);
  const double less = a < 1 ? hd__log(((double)(word[0] >> 8) + 0.5) * 0x1p-24) / a : 0;
  const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (uint32_t i = 1; i <= ATTEMPTS; i++) {
    hd__run_draw(word, run, step, block + i);
    const double radius = sqrt(-2 * hd__log(((double)(word[0] >> 8) + 0.5) * 0x1p-24));
    const double x = radius * hd__cos(TURN * ((double)(word[1] >> 8) * 0x1p-24)), cube = 1 + c * x;
    if (cube <= 0)
      continue;
    const double v = cube * cube * cube, u = ((double)(word[2] >> 8) + 0.5) * 0x1p-24;
    if (hd__log(u) < x * x / 2 + d - d * v + d * hd__log(v))
      return hd__log(d * v) + less;
  }
  return hd__log(d) + less;
}

/* fma(share, x - partner, partner) for pixels and targets, with share drawn from Beta(alpha, alpha). */
void hd__apply_mixup(const hd_transform_step *step, hd_transform_run *run) {
  uint32_t word[4];
  hd__run_draw(word, run, step, 0);
  if (!run->partner || !hd__drawn_chance(word[0], step->p))
    return;
  const double sample_log = log_gamma_drawn(step->alpha, step, run, 1);
  const double partner_log = log_gamma_drawn(step->alpha, step, run, ATTEMPTS + 2);
  const float share = (float)(1 / (1 + hd__exp(partner_log - sample_log)));
  float *x = hd__run_floats(run);
  run->kernels->image.blend(x, run->partner, x, share, run->image.plane * run->image.channels);
  run->kernels->image.blend(run->target, run->partner_target, run->target, share, run->targets);
}
