/* The transposed convolution by the kernels of the convolution that it is the transpose of, whose input is this one's
 * output: forward is the gradient of that one's input, the gradient of the input is that one's forward pass, and the
 * weights lie alike. The chains differ from a convolution's gradients in that none ends in + 0 and forward starts from
 * the bias. */
#include "op/conv2d/conv2d_cpu.h"

static hd_geom convolution_of(const hd_geom *g) {
  hd_geom of = *g;
  of.window.transposed = 0;
  of.ci = g->co, of.hi = g->ho, of.wi = g->wo;
  of.co = g->ci, of.ho = of.hp = g->hi, of.wo = of.wp = g->wi;
  return of;
}

static void conv_transpose2d(const hd_call *call) {
  const hd_geom of = convolution_of(call->g);
  hd_call dx = *call;
  dx.g = &of;
  dx.in[2] = NULL;
  HD_SYM(conv_dx_walk)(&dx, call->in[2], 0);
}

static void conv_transpose2d_dx(const hd_call *call) {
  const hd_geom of = convolution_of(call->g);
  hd_call forward = *call;
  forward.g = &of;
  HD_SYM(conv_direct)(&forward);
}

static void conv_transpose2d_dw(const hd_call *call) {
  const hd_geom of = convolution_of(call->g);
  hd_call dw = *call;
  dw.g = &of;
  dw.in[0] = call->in[1], dw.in[1] = call->in[0];
  dw.in_stride[0] = call->in_stride[1], dw.in_stride[1] = call->in_stride[0];
  if (call->out[0])
    HD_SYM(conv_direct_dw)(&dw, 0);
  if (call->out[1])
    HD_SYM(conv_bias_sums)(call);
}

#define OF_CONVOLUTION(name, of_convolution)                                                                           \
  static int64_t name(const hd_geom *g) {                                                                              \
    const hd_geom of = convolution_of(g);                                                                              \
    return HD_SYM(of_convolution)(&of);                                                                                \
  }
OF_CONVOLUTION(forward_scratch, conv_dx_walk_scratch)
OF_CONVOLUTION(forward_packed, conv_dx_walk_packed)
OF_CONVOLUTION(dx_scratch, conv_direct_scratch)
OF_CONVOLUTION(dx_packed, conv_direct_packed)
OF_CONVOLUTION(dw_scratch, conv_direct_dw_scratch)

/* Rows of the weight are input channels. */
static void forward_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const hd_geom of = convolution_of(g);
  HD_SYM(conv_dx_walk_pack)(&of, w, packed, j0, j1);
}

static void dx_pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const hd_geom of = convolution_of(g);
  HD_SYM(conv_direct_pack)(&of, w, packed, j0, j1);
}

void HD_SYM(conv_transpose2d_fill)(hd_kernels *table) {
  table->supports[HD_OP_conv_transpose2d] = takes_dilation_back;
  table->run[HD_OP_conv_transpose2d] = conv_transpose2d;
  table->scratch_bytes[HD_OP_conv_transpose2d] = forward_scratch;
  table->packed_elems[HD_OP_conv_transpose2d] = forward_packed;
  table->pack[HD_OP_conv_transpose2d] = forward_pack;
  table->supports[HD_OP_conv_transpose2d_dx] = takes_dilation;
  table->run[HD_OP_conv_transpose2d_dx] = conv_transpose2d_dx;
  table->scratch_bytes[HD_OP_conv_transpose2d_dx] = dx_scratch;
  table->packed_elems[HD_OP_conv_transpose2d_dx] = dx_packed;
  table->pack[HD_OP_conv_transpose2d_dx] = dx_pack;
  table->supports[HD_OP_conv_transpose2d_dw] = takes_dilation;
  table->run[HD_OP_conv_transpose2d_dw] = conv_transpose2d_dw;
  table->scratch_bytes[HD_OP_conv_transpose2d_dw] = dw_scratch;
}
