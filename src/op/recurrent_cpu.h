/* What the vector kernels of recurrent layers share. A thread's samples go through the places together: the states of
 * all of them are multiplied with the weight at once, by the product of matrices, whose chains along the channels are
 * those of recurrent.h.
 *
 * The packed weight is transposed, in panels of PANEL gates that are contiguous. The products of a place are written
 * where its gates are kept, and the gradient's where that of the place before will be; the gradient of the weight alone
 * has scratch. */
#pragma once

#include "op/conv2d/conv2d_cpu.h"
#include "op/sigmoid/sigmoid_cpu.h"

enum { PANEL = 16 * GEMM_GROUPS };

static int64_t packed_elems(const hd_geom *g) { return (int64_t)(g->ci + PANEL - 1) / PANEL * PANEL * g->co; }

/* Gates j0 to j1 - 1. */
static void pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  for (int32_t j = j0; j < j1; j++)
    for (int32_t k = 0; k < g->co; k++)
      packed[(int64_t)(j / PANEL) * PANEL * g->co + (int64_t)k * PANEL + j % PANEL] = w[(int64_t)j * g->co + k];
}

/* The products of the states before place t, into the gates that are kept of it, `kept` numbers a place. */
static void multiply(const hd_call *call, int t, int kept) {
  const hd_geom *g = call->g;
  for (int j = 0; j < g->ci; j += PANEL)
    HD_SYM(gemm)
  (&(hd_gemm){.m = call->rows,
              .n = least(PANEL, g->ci - j),
              .k = g->co,
              .a = (const float *)call->out[0] + (int64_t)(t - 1) * g->co,
              .a_row = call->out_stride[0],
              .a_step = 1,
              .b = call->packed + (int64_t)j * g->co,
              .b_step = PANEL,
              .b_column = 1,
              .c = (float *)call->out[1] + (int64_t)t * kept + j,
              .c_row = call->out_stride[1]});
}

/* What the gradient of the shares of place t + 1, in output k, gives to that of the state of place t: into dx of place
 * t, behind the first channels. */
static void multiply_back(const hd_call *call, int t, int k) {
  const hd_geom *g = call->g;
  HD_SYM(gemm)
  (&(hd_gemm){.m = call->rows,
              .n = g->co,
              .k = g->ci,
              .a = (const float *)call->out[k] + (int64_t)(t + 1) * g->ci,
              .a_row = call->out_stride[k],
              .a_step = 1,
              .b = call->in[1],
              .b_step = g->co,
              .b_column = 1,
              .c = (float *)call->out[0] + (int64_t)t * g->ci + g->co,
              .c_row = call->out_stride[0]});
}

/* Sixteen channels of a sample's place. */
typedef struct channels {
  int k, left, width;
  int first, last;   /* whether it is the first place, the last */
  const float *bias; /* NULL: none */
} channels;

/* The share of the state in a gate. */
G16 g16 share_of(const channels *c, const float *products, int gate) {
  const int at = gate * c->width + c->k;
  const g16 product = c->first ? g16_zero() : g16_load_some(products + at, c->left);
  return c->bias ? g16_add(product, g16_load_some(c->bias + at, c->left)) : product;
}

G16 g16 load_gate(const channels *c, const float *gates, int gate) {
  return g16_load_some(gates + gate * c->width + c->k, c->left);
}
G16 void store_gate(const channels *c, float *gates, int gate, g16 value) {
  g16_store_some(gates + gate * c->width + c->k, value, c->left);
}

G16 channels channels_at(const hd_call *call, int t, int k) {
  const hd_geom *g = call->g;
  return (channels){
      .k = k, .left = g->co - k, .width = g->co, .first = t == 0, .last = t == g->wi - 1, .bias = call->in[2]};
}

/* The linear layer of all states but the last, whose outputs are the shares of all places but the first. */
static hd_geom product_geom(const hd_geom *g, int places) {
  return (hd_geom){.ci = g->co,
                   .hi = 1,
                   .wi = places,
                   .co = g->ci,
                   .ho = 1,
                   .wo = places,
                   .hp = 1,
                   .wp = places,
                   .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1, .dilation = {1, 1}},
                   .conv = {.groups = 1, .pool = 1},
                   .norm = {.groups = 1}};
}

static int64_t scratch_dw(const hd_geom *g) {
  const hd_geom product = product_geom(g, g->wi - 1);
  return g->wi > 1 ? HD_SYM(conv_direct_dw_scratch)(&product) : 0;
}

static void weight_gradient(const hd_call *whole) {
  const hd_geom *g = whole->g;
  const hd_geom product = product_geom(g, g->wi - 1);
  hd_call call = *whole;
  call.g = &product;
  call.in[1] = (const float *)whole->in[1] + g->ci;
  if (g->wi > 1)
    HD_SYM(conv_direct_dw)(&call, 1);
  else
    memset(whole->out[0], 0, (size_t)g->ci * (size_t)g->co * sizeof(float));
}

static void recurrent_dw(const hd_call *whole) {
  const hd_geom all = product_geom(whole->g, whole->g->wi);
  hd_call call = *whole;
  call.g = &all;
  if (call.out[0])
    weight_gradient(whole);
  if (call.out[1])
    HD_SYM(conv_bias_sums)(&call);
}

/* The kernels of a layer that keeps `kept` numbers for each channel of a place, from NAME_channels and
 * NAME_channels_back, which compute sixteen channels of a place; the gradient of the shares is output `shares`. */
#define RECURRENT16(name, kept, shares)                                                                                \
  static void name(const hd_call *call) {                                                                              \
    const hd_geom *g = call->g;                                                                                        \
    for (int t = g->recurrent.first; t < g->wi; t++) {                                                                 \
      if (t > 0)                                                                                                       \
        multiply(call, t, (kept)*g->co);                                                                               \
      for (int64_t n = 0; n < call->rows; n++)                                                                         \
        for (int k = 0; k < g->co; k += 16)                                                                            \
          name##_channels(channels_at(call, t, k), in_row(call, 0, n) + (int64_t)(t - g->recurrent.first) * g->ci,     \
                          out_row(call, 0, n) + (int64_t)t * g->co, out_row(call, 1, n) + (int64_t)t * (kept)*g->co);  \
    }                                                                                                                  \
  }                                                                                                                    \
  static void name##_dx(const hd_call *call) {                                                                         \
    const hd_geom *g = call->g;                                                                                        \
    for (int t = g->wi - 1; t >= 0; t--) {                                                                             \
      if (t < g->wi - 1)                                                                                               \
        multiply_back(call, t, shares);                                                                                \
      for (int64_t n = 0; n < call->rows; n++)                                                                         \
        for (int k = 0; k < g->co; k += 16)                                                                            \
          name##_channels_back(call, n, t, channels_at(call, t, k));                                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  void HD_SYM(name##_fill)(hd_kernels * table) {                                                                       \
    table->run[HD_OP_##name] = name;                                                                                   \
    table->packed_elems[HD_OP_##name] = packed_elems;                                                                  \
    table->pack[HD_OP_##name] = pack;                                                                                  \
    table->run[HD_OP_##name##_dx] = name##_dx;                                                                         \
    table->run[HD_OP_##name##_dw] = recurrent_dw;                                                                      \
    table->scratch_bytes[HD_OP_##name##_dw] = scratch_dw;                                                              \
  }
