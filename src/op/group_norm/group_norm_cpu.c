/* group_norm by groups of sixteen: for its sums the elements of a group of channels are copied end to end, so that the
 * 16 chains are the lanes; elements are computed with channels in the lanes, with the moments of each channel's group. */
#include <string.h>

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

enum { LANES = 16 };

static int64_t up16(int64_t count) { return (count + LANES - 1) / LANES * LANES; }
static int64_t group_elems(const hd_geom *g) { return (int64_t)g->hi * g->wi * (g->ci / g->groups); }

/* Scratch: two groups, and four numbers for each channel. */
typedef struct norm {
  const hd_geom *g;
  int64_t count; /* elements of a group */
  float *x, *h, *mean, *r, *a, *b;
} norm;

static int64_t scratch_bytes(const hd_geom *g) {
  return (2 * up16(group_elems(g)) + 4 * up16(g->ci)) * (int64_t)sizeof(float);
}

static norm norm_of(const hd_call *call) {
  norm s = {.g = call->g, .count = group_elems(call->g), .x = call->scratch};
  s.h = s.x + up16(s.count);
  s.mean = s.h + up16(s.count);
  s.r = s.mean + up16(s.g->ci);
  s.a = s.r + up16(s.g->ci);
  s.b = s.a + up16(s.g->ci);
  return s;
}

static const float *row_of(const hd_call *call, int slot, int64_t n) {
  return (const float *)call->in[slot] + n * call->in_stride[slot];
}

/* The elements of a group, end to end. */
static void gather(float *to, const norm *s, const float *sample, int group) {
  const int channels = s->g->ci / s->g->groups;
  for (int64_t p = 0; p < (int64_t)s->g->hi * s->g->wi; p++)
    memcpy(to + p * channels, sample + p * s->g->ci + group * channels, (size_t)channels * sizeof *to);
}

/* Sets a number of each channel of a group. */
static void set(const norm *s, float *of_channel, int group, float value) {
  const int channels = s->g->ci / s->g->groups;
  for (int c = group * channels; c < (group + 1) * channels; c++)
    of_channel[c] = value;
}

G16 g16 take(g16 chains, g16 next, int64_t left) {
  return left >= LANES ? next : g16_choose(g16_first((int)left), next, chains);
}

/* Mean and rate of one group, whose elements stay in s->x. */
static void find_moments(const norm *s, const float *sample, int group) {
  gather(s->x, s, sample, group);
  g16 sum = g16_zero(), square = g16_zero(), all = g16_all((float)s->count);
  for (int64_t i = 0; i < s->count; i += LANES)
    sum = take(sum, g16_add(sum, g16_load_some(s->x + i, s->count - i)), s->count - i);
  const g16 mean = g16_div(g16_all(g16_tree(sum)), all);
  for (int64_t i = 0; i < s->count; i += LANES) {
    g16 d = g16_sub(g16_load_some(s->x + i, s->count - i), mean);
    square = take(square, g16_fma(d, d, square), s->count - i);
  }
  const g16 var = g16_div(g16_all(g16_tree(square)), all);
  float lane[LANES];
  g16_store(lane, mean);
  set(s, s->mean, group, lane[0]);
  g16_store(lane, g16_div(g16_all(1), g16_sqrt(g16_add(var, g16_all(s->g->eps)))));
  set(s, s->r, group, lane[0]);
}

/* The normalised elements of channels from c on. */
G16 g16 normalised(const norm *s, const float *x, int c, int left) {
  return g16_mul(g16_sub(g16_load_some(x, left), g16_load(s->mean + c)), g16_load(s->r + c));
}

static void group_norm(const hd_call *call) {
  const norm s = norm_of(call);
  const float *w = call->in[1], *b = call->in[2];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = row_of(call, 0, n);
    float *y = (float *)call->out[0] + n * call->out_stride[0];
    for (int group = 0; group < s.g->groups; group++)
      find_moments(&s, x, group);
    for (int64_t p = 0; p < (int64_t)s.g->hi * s.g->wi; p++, x += s.g->ci, y += s.g->ci)
      for (int c = 0; c < s.g->ci; c += LANES) {
        const int left = s.g->ci - c;
        const g16 weight = g16_load_some(w + c, left), bias = g16_load_some(b + c, left);
        g16_store_some(y + c, g16_fma(normalised(&s, x + c, c, left), weight, bias), left);
      }
  }
}

static void group_norm_dw(const hd_call *call) {
  const norm s = norm_of(call);
  float *dw = call->out[0], *db = call->out[1];
  memset(s.a, 0, 2 * (size_t)up16(s.g->ci) * sizeof *s.a);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = row_of(call, 0, n), *dy = row_of(call, 1, n);
    for (int group = 0; group < s.g->groups; group++)
      find_moments(&s, x, group);
    for (int64_t p = 0; p < (int64_t)s.g->hi * s.g->wi; p++, x += s.g->ci, dy += s.g->ci)
      for (int c = 0; c < s.g->ci; c += LANES) {
        const g16 d = g16_load_some(dy + c, s.g->ci - c);
        g16_store(s.a + c, g16_fma(d, normalised(&s, x + c, c, s.g->ci - c), g16_load(s.a + c)));
        g16_store(s.b + c, g16_add(g16_load(s.b + c), d));
      }
  }
  if (dw)
    memcpy(dw, s.a, (size_t)s.g->ci * sizeof *dw);
  if (db)
    memcpy(db, s.b, (size_t)s.g->ci * sizeof *db);
}

/* The means of h and of h * xhat over a group; s->x has its elements. */
static void find_means(const norm *s, const float *dy, const float *w, int group) {
  const int channels = s->g->ci / s->g->groups;
  const g16 mean = g16_all(s->mean[group * channels]), r = g16_all(s->r[group * channels]);
  gather(s->h, s, dy, group);
  for (int64_t i = 0; i < s->count; i++)
    s->h[i] = s->h[i] * w[group * channels + i % channels];
  g16 sum = g16_zero(), dot = g16_zero();
  for (int64_t i = 0; i < s->count; i += LANES) {
    const int64_t left = s->count - i;
    const g16 h = g16_load_some(s->h + i, left), xhat = g16_mul(g16_sub(g16_load_some(s->x + i, left), mean), r);
    sum = take(sum, g16_add(sum, h), left);
    dot = take(dot, g16_fma(h, xhat, dot), left);
  }
  set(s, s->a, group, g16_tree(sum) / (float)s->count);
  set(s, s->b, group, g16_tree(dot) / (float)s->count);
}

static void group_norm_dx(const hd_call *call) {
  const norm s = norm_of(call);
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = row_of(call, 0, n), *x = row_of(call, 2, n);
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    for (int group = 0; group < s.g->groups; group++) {
      find_moments(&s, x, group);
      find_means(&s, dy, w, group);
    }
    for (int64_t p = 0; p < (int64_t)s.g->hi * s.g->wi; p++, x += s.g->ci, dy += s.g->ci, dx += s.g->ci)
      for (int c = 0; c < s.g->ci; c += LANES) {
        const int left = s.g->ci - c;
        const g16 h = g16_mul(g16_load_some(dy + c, left), g16_load_some(w + c, left));
        const g16 back = g16_fma(normalised(&s, x + c, c, left), g16_load(s.b + c), g16_load(s.a + c));
        g16_store_some(dx + c, g16_mul(g16_load(s.r + c), g16_sub(h, back)), left);
      }
  }
}

void HD_SYM(group_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_group_norm] = group_norm;
  table->run[HD_OP_group_norm_dx] = group_norm_dx;
  table->run[HD_OP_group_norm_dw] = group_norm_dw;
  for (hd_op op = HD_OP_group_norm; op <= HD_OP_group_norm_dw; op++)
    table->scratch_bytes[op] = scratch_bytes;
}
