/* Sixteen floats in four NEON registers; a mask is four registers of all-ones lanes. See group16.h. */
#pragma once

#include <arm_neon.h>

typedef struct g16 {
  float32x4_t q[4];
} g16;

typedef struct g16_mask {
  uint32x4_t q[4];
} g16_mask;

/* A group or mask whose quarters are the expression, which may use i. */
#define G16_QUARTERS(type, expression)                                                                                 \
  type out;                                                                                                            \
  _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) out.q[i] = (expression);                                         \
  return out

G16 g16 g16_all(float x) { G16_QUARTERS(g16, vdupq_n_f32(x)); }
G16 g16 g16_zero(void) { return g16_all(0); }
G16 g16 g16_load(const float *x) { G16_QUARTERS(g16, vld1q_f32(x + 4 * i)); }
G16 g16 g16_held(g16 value) { return value; }
G16 void g16_store(float *x, g16 value) {
  for (int i = 0; i < 4; i++)
    vst1q_f32(x + 4 * i, value.q[i]);
}
G16 void g16_stream(float *x, g16 value) { g16_store(x, value); }
G16 void g16_end_streams(void) {}

static const uint32_t g16_lane_number[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

G16 g16_mask g16_first(int count) {
  G16_QUARTERS(g16_mask, vcltq_u32(vld1q_u32(g16_lane_number + 4 * i), vdupq_n_u32((uint32_t)count)));
}

/* NEON has no masked memory access: tails go lane by lane. */
G16 g16 g16_load_mask(const float *x, g16_mask mask) {
  uint32_t chosen[16];
  float out[16];
  for (int i = 0; i < 4; i++)
    vst1q_u32(chosen + 4 * i, mask.q[i]);
  for (int i = 0; i < 16; i++)
    out[i] = chosen[i] ? x[i] : 0;
  return g16_load(out);
}

G16 void g16_store_first(float *x, g16 value, int count) {
  float from[16];
  g16_store(from, value);
  for (int i = 0; i < count; i++)
    x[i] = from[i];
}

G16 g16 g16_add(g16 a, g16 b) { G16_QUARTERS(g16, vaddq_f32(a.q[i], b.q[i])); }
G16 g16 g16_sub(g16 a, g16 b) { G16_QUARTERS(g16, vsubq_f32(a.q[i], b.q[i])); }
G16 g16 g16_mul(g16 a, g16 b) { G16_QUARTERS(g16, vmulq_f32(a.q[i], b.q[i])); }
G16 g16 g16_div(g16 a, g16 b) { G16_QUARTERS(g16, vdivq_f32(a.q[i], b.q[i])); }
G16 g16 g16_sqrt(g16 a) { G16_QUARTERS(g16, vsqrtq_f32(a.q[i])); }
G16 g16 g16_fma(g16 a, g16 b, g16 c) { G16_QUARTERS(g16, vfmaq_f32(c.q[i], a.q[i], b.q[i])); }
G16 g16 g16_min(g16 a, g16 b) { G16_QUARTERS(g16, vminq_f32(a.q[i], b.q[i])); }
G16 g16 g16_abs(g16 a) { G16_QUARTERS(g16, vabsq_f32(a.q[i])); }
G16 g16 g16_with_sign(g16 a, g16 x) { G16_QUARTERS(g16, vbslq_f32(vdupq_n_u32(0x80000000u), x.q[i], a.q[i])); }

G16 g16_mask g16_less(g16 a, g16 b) { G16_QUARTERS(g16_mask, vcltq_f32(a.q[i], b.q[i])); }
G16 g16_mask g16_at_least(g16 a, g16 b) { G16_QUARTERS(g16_mask, vcgeq_f32(a.q[i], b.q[i])); }
G16 g16_mask g16_nan(g16 a) { G16_QUARTERS(g16_mask, vmvnq_u32(vceqq_f32(a.q[i], a.q[i]))); }
/* Bit i: lane i is not zero. */
G16 uint32_t g16_nonzero(g16 a) {
  static const uint32_t weight[4] = {1, 2, 4, 8};
  uint32_t bits = 0;
  for (int i = 0; i < 4; i++)
    bits |= vaddvq_u32(vbicq_u32(vld1q_u32(weight), vceqzq_f32(a.q[i]))) << (4 * i);
  return bits;
}

/* Some lanes of a group, given as bits; see group16.h. */
typedef uint32_t g16_picks;
G16 g16_picks g16_picks_of(uint32_t bits) { return bits; }
G16 void g16_store_picked(float *to, g16 value, const g16_picks *p) {
  float lane[16];
  g16_store(lane, value);
  for (uint32_t left = *p; left; left &= left - 1)
    *to++ = lane[__builtin_ctz(left)];
}
G16 g16 g16_load_picked(const float *from, g16 rest, const g16_picks *p) {
  float lane[16];
  g16_store(lane, rest);
  for (uint32_t left = *p; left; left &= left - 1)
    lane[__builtin_ctz(left)] = *from++;
  return g16_load(lane);
}

G16 float32x4_t g16_bf16_quarter(float32x4_t x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t tie = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t near = vaddq_u32(bits, vaddq_u32(tie, vdupq_n_u32(0x7fff)));
  const uint32x4_t tiny = vceqzq_u32(vandq_u32(bits, vdupq_n_u32(0x7f800000)));
  uint32x4_t y = vbslq_u32(vceqq_f32(x, x), near, vorrq_u32(bits, vdupq_n_u32(0x00400000)));
  y = vbslq_u32(tiny, vandq_u32(bits, vdupq_n_u32(0x80000000u)), y);
  return vreinterpretq_f32_u32(vandq_u32(y, vdupq_n_u32(0xffff0000u)));
}
/* Rounded to bfloat16, see bf16_of() in kernel/bf16.h. */
G16 g16 g16_bf16(g16 x) { G16_QUARTERS(g16, g16_bf16_quarter(x.q[i])); }

/* Lane j of group i becomes lane i of group j: squares of four lanes, transposed and exchanged. */
G16 void g16_transpose(g16 r[16]) {
  g16 out[16];
  for (int i = 0; i < 16; i += 4)
    for (int q = 0; q < 4; q++) {
      const float32x4x2_t even = vtrnq_f32(r[i].q[q], r[i + 1].q[q]), odd = vtrnq_f32(r[i + 2].q[q], r[i + 3].q[q]);
      out[4 * q].q[i / 4] = vcombine_f32(vget_low_f32(even.val[0]), vget_low_f32(odd.val[0]));
      out[4 * q + 1].q[i / 4] = vcombine_f32(vget_low_f32(even.val[1]), vget_low_f32(odd.val[1]));
      out[4 * q + 2].q[i / 4] = vcombine_f32(vget_high_f32(even.val[0]), vget_high_f32(odd.val[0]));
      out[4 * q + 3].q[i / 4] = vcombine_f32(vget_high_f32(even.val[1]), vget_high_f32(odd.val[1]));
    }
  memcpy(r, out, sizeof out);
}

G16 g16_mask g16_or(g16_mask a, g16_mask b) { G16_QUARTERS(g16_mask, vorrq_u32(a.q[i], b.q[i])); }
G16 g16 g16_choose(g16_mask mask, g16 yes, g16 no) { G16_QUARTERS(g16, vbslq_f32(mask.q[i], yes.q[i], no.q[i])); }

/* Lanes 0 .. 7 of a and 8 .. 15 of b; the lower half twice; the upper half, moved down. */
G16 g16 g16_halves(g16 a, g16 b) { return (g16){{a.q[0], a.q[1], b.q[2], b.q[3]}}; }
G16 g16 g16_low_twice(g16 x) { return (g16){{x.q[0], x.q[1], x.q[0], x.q[1]}}; }
G16 g16 g16_high(g16 x) { return (g16){{x.q[2], x.q[3], x.q[2], x.q[3]}}; }

/* x < 0 ? 0 : x */
G16 g16 g16_relu(g16 x) { return g16_choose(g16_less(x, g16_zero()), g16_zero(), x); }

/* p times 2^n, n in the low bits of `shifted`. */
G16 g16 g16_scale_2n(g16 p, g16 shifted) {
  G16_QUARTERS(g16, vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p.q[i]),
                                                    vshlq_n_u32(vreinterpretq_u32_f32(shifted.q[i]), 23))));
}

/* Lanes whose exponent is all ones become all ones in `seen`. */
G16 g16 g16_note_not_finite(g16 seen, g16 x) {
  const uint32x4_t exponent = vdupq_n_u32(0x7f800000);
  G16_QUARTERS(
      g16, vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(seen.q[i]),
                                           vceqq_u32(vandq_u32(vreinterpretq_u32_f32(x.q[i]), exponent), exponent))));
}

G16 int g16_any_noted(g16 seen) {
  uint32x4_t any = vreinterpretq_u32_f32(seen.q[0]);
  for (int i = 1; i < 4; i++)
    any = vorrq_u32(any, vreinterpretq_u32_f32(seen.q[i]));
  return vmaxvq_u32(any) != 0;
}

G16 g16 g16_from_u8(const uint8_t *x) {
  uint8x16_t bytes = vld1q_u8(x);
  uint16x8_t lo = vmovl_u8(vget_low_u8(bytes)), hi = vmovl_u8(vget_high_u8(bytes));
  return (g16){{vcvtq_f32_u32(vmovl_u16(vget_low_u16(lo))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(lo))),
                vcvtq_f32_u32(vmovl_u16(vget_low_u16(hi))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(hi)))}};
}

G16 float32x2_t g16_tree_pair(g16 s) {
  float32x4_t t4 = vaddq_f32(vaddq_f32(s.q[0], s.q[2]), vaddq_f32(s.q[1], s.q[3]));
  return vadd_f32(vget_low_f32(t4), vget_high_f32(t4));
}

G16 float g16_tree(g16 s) {
  float32x2_t t2 = g16_tree_pair(s);
  return vget_lane_f32(t2, 0) + vget_lane_f32(t2, 1);
}

/* The trees of four groups, in out[0 .. 3]. */
G16 void g16_tree4(float *out, g16 a, g16 b, g16 c, g16 d) {
  vst1_f32(out, vpadd_f32(g16_tree_pair(a), g16_tree_pair(b)));
  vst1_f32(out + 2, vpadd_f32(g16_tree_pair(c), g16_tree_pair(d)));
}

/* The largest lane; NaN if there is one. */
G16 float g16_largest(g16 x) { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.q[0], x.q[1]), vmaxq_f32(x.q[2], x.q[3]))); }

/* Sixteen doubles. */
typedef struct d16 {
  float64x2_t d[8];
} d16;

G16 d16 d16_zero(void) {
  d16 out;
  for (int i = 0; i < 8; i++)
    out.d[i] = vdupq_n_f64(0);
  return out;
}

/* acc + x * x in each lane, fused; x = 0 outside of the mask, which changes no sum of squares. */
G16 d16 d16_add_square(d16 acc, g16 x) {
  for (int i = 0; i < 4; i++) {
    float64x2_t lo = vcvt_f64_f32(vget_low_f32(x.q[i])), hi = vcvt_high_f64_f32(x.q[i]);
    acc.d[2 * i] = vfmaq_f64(acc.d[2 * i], lo, lo);
    acc.d[2 * i + 1] = vfmaq_f64(acc.d[2 * i + 1], hi, hi);
  }
  return acc;
}

G16 void d16_store(double *out, d16 x) {
  for (int i = 0; i < 8; i++)
    vst1q_f64(out + 2 * i, x.d[i]);
}

#undef G16_QUARTERS
