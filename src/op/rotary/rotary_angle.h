/* cos and sin of an angle from 0 to 2^20, rounded from double: the same in every table. angle = q pi/2 + r with pi/2 in
 * three parts, whose products with q are exact but for the last; Taylor's series of r to r^11 and r^10. Without
 * branches, so that compilers make vectors of a loop over it. */
#pragma once

#include "base/host_device.h"

HD_BOTH void rotary_cos_sin(float *cosine, float *sine, double angle) {
  const double rounder = 6755399441055744.0; /* 1.5 * 2^52 */
  const double q = (angle * 0.6366197723675814 + rounder) - rounder;
  const double r = ((angle - q * 1.5707963267341256) - q * 6.077100506303966e-11) - q * 2.0222662487959506e-21;
  const double z = r * r, s9 = 1.0 / 362880 + z * (-1.0 / 39916800), s5 = 1.0 / 120 + z * (-1.0 / 5040 + z * s9);
  const double c8 = 1.0 / 40320 + z * (-1.0 / 3628800), c4 = 1.0 / 24 + z * (-1.0 / 720 + z * c8);
  const double s = r + r * z * (-1.0 / 6 + z * s5), c = 1 + z * (-0.5 + z * c4);
  const int quarter = (int)q & 3;
  const double of_cos = quarter & 1 ? s : c, of_sin = quarter & 1 ? c : s;
  *cosine = (float)((quarter + 1) & 2 ? -of_cos : of_cos);
  *sine = (float)(quarter & 2 ? -of_sin : of_sin);
}
