/* group_norm by groups of sixteen: for its sums the elements of a group of channels are copied end to end, so that the
 * 16 chains are the lanes; elements are computed with channels in the lanes, with the moments of each channel's
 * group. */
#include <string.h>

#include "op/norm_cpu.h"

enum { LANES = 16 };

static int64_t up16(int64_t count) { return (count + LANES - 1) / LANES * LANES; }
static int64_t group_elems(const hd_geom *g) { return pixels_of(g) * (g->ci / g->norm.groups); }

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

/* The elements of a group, end to end. */
static void gather(float *to, const norm *s, const float *sample, int group) {
  const int channels = s->g->ci / s->g->norm.groups;
  for (int64_t p = 0; p < pixels_of(s->g); p++)
    memcpy(to + p * channels, sample + p * s->g->ci + group * channels, (size_t)channels * sizeof *to);
}

/* Sets a number of each channel of a group. */
static void set(const norm *s, float *of_channel, int group, float value) {
  const int channels = s->g->ci / s->g->norm.groups;
  for (int c = group * channels; c < (group + 1) * channels; c++)
    of_channel[c] = value;
}

/* Mean and rate of one group, whose elements stay in s->x. */
static void find_moments(const norm *s, const float *sample, int group) {
  gather(s->x, s, sample, group);
  const moments m = moments_of(s->x, s->count, s->g->norm.eps);
  float lane[LANES];
  g16_store(lane, m.mean);
  set(s, s->mean, group, lane[0]);
  g16_store(lane, m.r);
  set(s, s->r, group, lane[0]);
}

/* Of sixteen channels from c on. */
G16 moments moments_at(const norm *s, int c) { return (moments){g16_load(s->mean + c), g16_load(s->r + c)}; }

static void group_norm(const hd_call *call) {
  const norm s = norm_of(call);
  const float *w = call->in[1], *b = call->in[2];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    for (int group = 0; group < s.g->norm.groups; group++)
      find_moments(&s, x, group);
    for (int64_t p = 0; p < pixels_of(s.g); p++, x += s.g->ci, y += s.g->ci)
      for (int c = 0; c < s.g->ci; c += LANES) {
        const int left = s.g->ci - c;
        const g16 weight = g16_load_some(w + c, left), bias = g16_load_some(b + c, left);
        g16_store_some(y + c, g16_fma(normalised(moments_at(&s, c), g16_load_some(x + c, left)), weight, bias), left);
      }
  }
}

static void group_norm_dw(const hd_call *call) {
  const norm s = norm_of(call);
  float *dw = call->out[0], *db = call->out[1];
  memset(s.a, 0, 2 * (size_t)up16(s.g->ci) * sizeof *s.a);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n), *dy = in_row(call, 1, n);
    for (int group = 0; group < s.g->norm.groups; group++)
      find_moments(&s, x, group);
    for (int64_t p = 0; p < pixels_of(s.g); p++, x += s.g->ci, dy += s.g->ci)
      for (int c = 0; c < s.g->ci; c += LANES) {
        const g16 d = g16_load_some(dy + c, s.g->ci - c);
        g16_store(s.a + c,
                  g16_fma(d, normalised(moments_at(&s, c), g16_load_some(x + c, s.g->ci - c)), g16_load(s.a + c)));
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
  const int channels = s->g->ci / s->g->norm.groups;
  const moments m = {g16_all(s->mean[group * channels]), g16_all(s->r[group * channels])};
  gather(s->h, s, dy, group);
  for (int64_t i = 0; i < s->count; i++)
    s->h[i] = s->h[i] * w[group * channels + i % channels];
  const norm_sums sums = norm_sums_of(m, s->h, NULL, s->x, s->count);
  set(s, s->a, group, sums.h / (float)s->count);
  set(s, s->b, group, sums.dot / (float)s->count);
}

static void group_norm_dx(const hd_call *call) {
  const norm s = norm_of(call);
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n), *x = in_row(call, 2, n);
    float *dx = out_row(call, 0, n);
    for (int group = 0; group < s.g->norm.groups; group++) {
      find_moments(&s, x, group);
      find_means(&s, dy, w, group);
    }
    for (int64_t p = 0; p < pixels_of(s.g); p++, x += s.g->ci, dy += s.g->ci, dx += s.g->ci)
      for (int c = 0; c < s.g->ci; c += LANES) {
        const int left = s.g->ci - c;
        const g16 h = norm16_h(dy + c, w + c, left), a = g16_load(s.a + c), b = g16_load(s.b + c);
        g16_store_some(dx + c, norm16_slope(moments_at(&s, c), h, g16_load_some(x + c, left), a, b), left);
      }
  }
}

void HD_SYM(group_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_group_norm] = group_norm;
  table->run[HD_OP_instance_norm] = group_norm;
  table->run[HD_OP_group_norm_dx] = group_norm_dx;
  table->run[HD_OP_group_norm_dw] = group_norm_dw;
  table->scratch_bytes[HD_OP_instance_norm] = scratch_bytes;
  for (hd_op op = HD_OP_group_norm; op <= HD_OP_group_norm_dw; op++)
    table->scratch_bytes[op] = scratch_bytes;
}
