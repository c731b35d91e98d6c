/* Rotary positions and their gradient: cos and sin of all places and pairs once for each call, then groups along the
 * pairs of a head. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"
#include "op/rotary/rotary_angle.h"

static int key_heads_of(const hd_geom *g) {
  return g->attention.key_heads ? g->attention.key_heads : g->attention.heads;
}
static int heads_of(const hd_geom *g) { return g->attention.heads + key_heads_of(g); } /* that are turned */
static int pairs_of(const hd_geom *g) { return g->ci / (heads_of(g) + key_heads_of(g)) / 2; }
static int64_t padded_pairs(const hd_geom *g) { return (pairs_of(g) + 15) / 16 * 16; }

/* Of each place the cosines of its pairs, then the sines. */
static int64_t scratch_bytes(const hd_geom *g) {
  return (2 * pixels_of(g) * (int64_t)sizeof(float) + (int64_t)sizeof(double)) * padded_pairs(g);
}

/* Sixteen pairs of a place. */
static void cos_sin(float *restrict cosine, float *restrict sine, const double *restrict frequency, double place) {
  for (int k = 0; k < 16; k++)
    rotary_cos_sin(cosine + k, sine + k, place * frequency[k]);
}

static void fill_table(float *table, const hd_geom *g) {
  const int pairs = pairs_of(g);
  const int64_t padded = padded_pairs(g);
  double *frequency = (double *)(table + 2 * pixels_of(g) * padded);
  const double ratio = (double)g->rotary.ratio + (double)g->rotary.rest;
  frequency[0] = 1;
  for (int k = 1; k < padded; k++)
    frequency[k] = k < pairs ? frequency[k - 1] * ratio : 0;
  for (int64_t place = 0; place < pixels_of(g); place++)
    for (int k = 0; k < padded; k += 16)
      cos_sin(table + 2 * place * padded + k, table + (2 * place + 1) * padded + k, frequency + k,
              (double)(g->attention.first + place));
}

/* The heads of a place; y may be x. */
static void turn(float *y, const float *x, const float *cosine, const float *sine, const hd_geom *g, int back) {
  const int pairs = pairs_of(g), heads = heads_of(g);
  for (int k = 0; k < pairs; k += 16) {
    const g16 c = g16_load(cosine + k), forth = g16_load(sine + k), turned = g16_mul(forth, g16_all(-1));
    const g16 s = back ? turned : forth, minus = back ? forth : turned;
    for (int head = 0; head < heads; head++) {
      const int at = 2 * head * pairs + k, left = pairs - k;
      const g16 a = g16_load_some(x + at, left), b = g16_load_some(x + at + pairs, left);
      g16_store_some(y + at, g16_fma(b, minus, g16_mul(a, c)), left);
      g16_store_some(y + at + pairs, g16_fma(a, s, g16_mul(b, c)), left);
    }
  }
  const int values = 2 * heads * pairs;
  if (y != x)
    memcpy(y + values, x + values, (size_t)(g->ci - values) * sizeof *y);
}

static void run(const hd_call *call, int back) {
  const hd_geom *g = call->g;
  const int64_t padded = padded_pairs(g);
  float *table = call->scratch;
  fill_table(table, g);
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t place = 0; place < pixels_of(g); place++)
      turn(out_row(call, 0, n) + place * g->ci, in_row(call, 0, n) + place * g->ci, table + 2 * place * padded,
           table + (2 * place + 1) * padded, g, back);
}

static void rotary(const hd_call *call) { run(call, 0); }
static void rotary_dx(const hd_call *call) { run(call, 1); }

void HD_SYM(rotary_fill)(hd_kernels *table) {
  table->run[HD_OP_rotary] = rotary;
  table->run[HD_OP_rotary_dx] = rotary_dx;
  table->scratch_bytes[HD_OP_rotary] = scratch_bytes;
  table->scratch_bytes[HD_OP_rotary_dx] = scratch_bytes;
}
