/* Forward convolution: one walk over the framed images for each group of channels, weights packed in blocks of
 * channels.
 *
 * Wide 3 x 3 and 5 x 5 kernels are computed by Winograd's tiles instead, see winograd_cpu.c.
 *
 * Outputs that no window of the pool reads are never computed. The chain is that of the walk, see conv2d_walk_cpu.c. */
#include "op/conv2d/winograd_cpu.h"

/* Of one group. */
static int64_t group_packed_elems(const hd_geom *g) {
  return (int64_t)up16(g->co) * g->window.kh * g->window.kw * g->ci;
}

int64_t HD_SYM(conv_direct_packed)(const hd_geom *g) {
  hd_geom part = group_geom(g);
  return g->conv.groups * group_packed_elems(&part);
}

static int64_t packed_elems(const hd_geom *g) {
  if (is_depthwise(g))
    return HD_SYM(conv_depth_packed)(g);
  return hd_geom_is_winograd(g) ? HD_SYM(winograd_forward_packed)(g) : HD_SYM(conv_direct_packed)(g);
}

/* Rows n .. n + rows - 1 of a call, with their images. */
typedef struct walked_rows {
  int64_t n, rows;
  conv_images images;
} walked_rows;

/* One group's walk over them; g: the group's geometry. */
static conv_walk forward_walk(const hd_call *call, const hd_geom *g, int group, const conv_frame *frame,
                              const walked_rows *of) {
  int64_t line = (int64_t)frame->width * g->ci, pixel = call->g->co;
  const float *bias = call->in[2];
  return (conv_walk){.x = of->images.first,
                     .x_stride = of->images.stride,
                     .x_step_y = g->conv.pool * g->window.sh * line,
                     .x_step_x = (int64_t)g->conv.pool * g->window.sw * g->ci,
                     .x_line = g->window.dilation[0] * line,
                     .x_tap = (int64_t)g->window.dilation[1] * g->ci,
                     .taps_y = g->window.kh,
                     .runs = g->window.dilation[1] > 1 ? g->window.kw : 1,
                     .run = (g->window.dilation[1] > 1 ? 1 : g->window.kw) * g->ci,
                     .w = call->packed + group * group_packed_elems(g),
                     .w_taps = (int64_t)g->window.kh * g->window.kw * g->ci,
                     .bias = bias ? bias + group * g->co : NULL,
                     .channels = g->co,
                     .y = out_row(call, 0, of->n) + group * g->co,
                     .y_stride = call->out_stride[0],
                     .y_step_y = g->wp * pixel,
                     .y_step_x = pixel,
                     .argmax = call->out[1] ? (uint8_t *)call->out[1] + of->n * call->out_stride[1] : NULL,
                     .argmax_stride = call->out_stride[1],
                     .height = g->hp,
                     .width = g->wp,
                     .rows = of->rows,
                     .pool = g->conv.pool,
                     .relu = g->relu,
                     .at_step_y = g->window.sh * line,
                     .at_step_x = (int64_t)g->window.sw * g->ci};
}

static void run_group(const hd_call *call, const hd_geom *g, int group) {
  conv_frame frame = input_frame(g, call->g->ci);
  int64_t at_once = frame_rows(&frame);
  for (int64_t n = 0; n < call->rows; n += at_once) {
    int64_t rows = call->rows - n < at_once ? call->rows - n : at_once;
    const float *x = in_row(call, 0, n) + group * g->ci;
    const walked_rows of = {n, rows,
                            frame_images(call->scratch, &frame, !frame_is_image(&frame), x, call->in_stride[0], rows)};
    conv_walk walk = forward_walk(call, g, group, &frame, &of);
    HD_SYM(conv_walk)(&walk);
  }
}

void HD_SYM(conv_direct)(const hd_call *call) {
  hd_geom part = group_geom(call->g);
  for (int group = 0; group < call->g->conv.groups; group++)
    run_group(call, &part, group);
}

static void conv2d(const hd_call *call) {
  if (is_depthwise(call->g))
    HD_SYM(conv_depth_forward)(call);
  else if (hd_geom_is_winograd(call->g))
    HD_SYM(winograd_forward)(call);
  else
    HD_SYM(conv_direct)(call);
}

int64_t HD_SYM(conv_direct_scratch)(const hd_geom *g) {
  hd_geom part = group_geom(g);
  conv_frame frame = input_frame(&part, g->ci);
  return frame_is_image(&frame) ? 0 : whole_bytes(frame_rows(&frame) * frame_slot(&frame));
}

static int64_t scratch_bytes(const hd_geom *g) {
  if (is_depthwise(g))
    return HD_SYM(conv_depth_forward_scratch)(g);
  return hd_geom_is_winograd(g) ? HD_SYM(winograd_scratch)(g->ci, g->co) : HD_SYM(conv_direct_scratch)(g);
}

void HD_SYM(conv_direct_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  hd_geom part = group_geom(g);
  int taps = part.window.kh * part.window.kw * part.ci;
  for (int32_t j = j0, channels; j < j1; j += channels) {
    const int32_t c = j % part.co;
    float *to = packed + j / part.co * group_packed_elems(&part);
    channels = c % 16 == 0 && c + 16 <= part.co && j + 16 <= j1 ? 16 : 1;
    if (channels == 16)
      walk_pack_group(to, part.co, taps, c, w + (int64_t)j * taps);
    else
      walk_pack_channel(to, part.co, taps, c, w + (int64_t)j * taps);
  }
}

static void pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  if (is_depthwise(g))
    HD_SYM(conv_depth_forward_pack)(g, w, packed, j0, j1);
  else if (hd_geom_is_winograd(g))
    HD_SYM(winograd_forward_pack)(g, w, packed, j0, j1);
  else
    HD_SYM(conv_direct_pack)(g, w, packed, j0, j1);
}

void HD_SYM(conv_forward_fill)(hd_kernels *table) {
  table->supports[HD_OP_conv2d] = takes_dilation;
  table->run[HD_OP_conv2d] = conv2d;
  table->scratch_bytes[HD_OP_conv2d] = scratch_bytes;
  table->packed_elems[HD_OP_conv2d] = packed_elems;
  table->pack[HD_OP_conv2d] = pack;
}
