/* The gradient of a convolution's input, in one of two ways, as the graph says:
 *
 *   behind a pool   most pixels of the output have a gradient of zero; at each pixel the list of channels that have
 *                   one, then the patch of the input in registers while those channels' weights go by.
 *   without         for each phase of the stride one walk over the framed gradient, with the kernel turned around.
 *
 * Order: per input element, over the output's pixels row-major, inside over channels ascending: acc = fma(dy, w, acc),
 * at last acc + 0. */
#include "kernel/cpu/cpu_conv.h"

/* Weights whose rows are whole groups are read where they are. */
static int has_whole_groups(const hd_geom *g) { return g->kw * g->ci % 16 == 0; }

/* The channels with a gradient at position p of a window. */
static int list_channels(conv_live *list, const hd_geom *g, const float *dy, const uint8_t *argmax, int p,
                         const float *w, int64_t w_stride) {
  int found = 0;
  for (int c = 0; c < g->co; c += 64) {
    int count = least(64, g->co - c);
    uint64_t bits = bits_equal(argmax + c, count, p) & bits_nonzero(dy + c, count);
    while (bits) {
      int co = c + bits_take(&bits);
      list[found++] = (conv_live){w + co * w_stride, dy[co]};
    }
  }
  return found;
}

static void add_image(const hd_call *call, float *frame, int64_t line, conv_live *list, int64_t n) {
  const hd_geom *g = call->g;
  const float *w = has_whole_groups(g) ? call->in[1] : call->packed,
              *dy = (const float *)call->in[0] + n * call->in_stride[0];
  const uint8_t *argmax = (const uint8_t *)call->in[2] + n * call->in_stride[2];
  int64_t w_line = up16(g->kw * g->ci), w_stride = g->kh * w_line;
  for (int oy = 0; oy < g->hp * g->pool; oy++)
    for (int ox = 0; ox < g->wp * g->pool; ox++) {
      int64_t window = ((int64_t)(oy / g->pool) * g->wp + ox / g->pool) * g->co;
      int p = oy % g->pool * g->pool + ox % g->pool;
      int count = list_channels(list, g, dy + window, argmax + window, p, w, w_stride);
      if (count)
        HD_SYM(conv_add_live)
      (frame + oy * g->sh * line + (int64_t)ox * g->sw * g->ci, line, list, count, w_line, g->kh, (int)w_line / 16);
    }
}

static void behind_pool(const hd_call *call) {
  const hd_geom *g = call->g;
  conv_frame f = input_frame(g);
  int64_t line = (int64_t)f.width * g->ci, slot = frame_slot(&f), image_line = (int64_t)g->wi * g->ci;
  float *frame = call->scratch;
  conv_live *list = (conv_live *)(void *)(frame + slot);
  for (int64_t n = 0; n < call->rows; n++) {
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    memset(frame, 0, (size_t)slot * sizeof *frame);
    add_image(call, frame, line, list, n);
    for (int y = 0; y < g->hi; y++)
      HD_SYM(conv_finish_sums)(dx + y * image_line, frame + (y + g->ph) * line + (int64_t)g->pw * g->ci, image_line);
  }
}

/* Along one axis, the input's pixels i = first, first + stride, ... whose windows meet the kernel at the same taps: */
typedef struct conv_phase {
  int taps; /* how many of the kernel's positions: tap t is the kernel's last - t * stride */
  int last;
  int first, count;
  int start; /* the output's pixel under the first tap of the first one's window, may be negative */
} conv_phase;

static conv_phase phase_of(int phase, int image, int kernel, int stride, int padding) {
  conv_phase p = {.taps = phase < kernel ? (kernel - 1 - phase) / stride + 1 : 0};
  p.first = ((phase - padding) % stride + stride) % stride;
  p.count = p.first < image ? (image - 1 - p.first) / stride + 1 : 0;
  p.last = phase + (p.taps - 1) * stride;
  p.start = (p.first + padding - phase) / stride - (p.taps - 1);
  return p;
}

/* The gradient framed so that every phase's windows lie inside. */
static conv_frame gradient_frame(const hd_geom *g) {
  int top = (g->kh - 1) / g->sh, left = (g->kw - 1) / g->sw;
  return (conv_frame){.height = top + most(g->hp, (g->hi - 1 + g->ph) / g->sh + 1),
                      .width = left + most(g->wp, (g->wi - 1 + g->pw) / g->sw + 1),
                      .top = top,
                      .left = left,
                      .image_height = g->hp,
                      .image_width = g->wp,
                      .channels = g->co};
}

static int64_t phase_elems(const hd_geom *g, const conv_phase *y, const conv_phase *x) {
  return (int64_t)up16(g->ci) * y->taps * x->taps * g->co;
}

/* No tap of the kernel meets these pixels. */
static void clear_pixels(const hd_call *call, const conv_phase *py, const conv_phase *px, int64_t n, int64_t rows) {
  const hd_geom *g = call->g;
  for (int64_t r = n; r < n + rows; r++)
    for (int y = 0; y < py->count; y++)
      for (int x = 0; x < px->count; x++)
        memset((float *)call->out[0] + r * call->out_stride[0] +
                   ((int64_t)(py->first + y * g->sh) * g->wi + px->first + x * g->sw) * g->ci,
               0, (size_t)g->ci * sizeof(float));
}

static void walk_phase(const hd_call *call, const conv_frame *frame, const conv_images *images, const conv_phase *y,
                       const conv_phase *x, const float *w, int64_t n, int64_t rows) {
  const hd_geom *g = call->g;
  int64_t line = (int64_t)frame->width * g->co;
  conv_walk walk = {.x = images->first + (y->start + frame->top) * line + (int64_t)(x->start + frame->left) * g->co,
                    .x_stride = images->stride,
                    .x_step_y = line,
                    .x_step_x = g->co,
                    .x_line = line,
                    .taps_y = y->taps,
                    .run = x->taps * g->co,
                    .w = w,
                    .channels = g->ci,
                    .y = (float *)call->out[0] + n * call->out_stride[0] +
                         ((int64_t)y->first * g->wi + x->first) * g->ci,
                    .y_stride = call->out_stride[0],
                    .y_step_y = (int64_t)g->sh * g->wi * g->ci,
                    .y_step_x = (int64_t)g->sw * g->ci,
                    .height = y->count,
                    .width = x->count,
                    .rows = rows,
                    .pool = 1,
                    .plus_zero = 1};
  HD_SYM(conv_walk)(&walk);
}

static void without_pool(const hd_call *call) {
  const hd_geom *g = call->g;
  conv_frame frame = gradient_frame(g);
  int64_t group = frame_rows(&frame), slot = frame_slot(&frame);
  for (int64_t n = 0; n < call->rows; n += group) {
    int64_t rows = call->rows - n < group ? call->rows - n : group;
    const float *dy = (const float *)call->in[0] + n * call->in_stride[0], *w = call->packed;
    conv_images images = {dy, call->in_stride[0]};
    if (!frame_is_image(&frame)) {
      images = (conv_images){call->scratch, slot};
      for (int64_t r = 0; r < rows; r++)
        HD_SYM(conv_frame_fill)((float *)call->scratch + r * slot, &frame, dy + r * call->in_stride[0]);
    }
    for (int i = 0; i < g->sh * g->sw; i++) {
      conv_phase y = phase_of(i / g->sw, g->hi, g->kh, g->sh, g->ph),
                 x = phase_of(i % g->sw, g->wi, g->kw, g->sw, g->pw);
      if (!y.taps || !x.taps)
        clear_pixels(call, &y, &x, n, rows);
      else if (y.count && x.count)
        walk_phase(call, &frame, &images, &y, &x, w, n, rows);
      w += phase_elems(g, &y, &x);
    }
  }
}

static void conv2d_dx(const hd_call *call) {
  if (call->in[2])
    behind_pool(call);
  else
    without_pool(call);
}

static int64_t scratch_bytes(const hd_geom *g) {
  conv_frame frame = g->pool > 1 ? input_frame(g) : gradient_frame(g);
  if (g->pool > 1)
    return whole_bytes(frame_slot(&frame)) + g->co * (int64_t)sizeof(conv_live);
  return frame_is_image(&frame) ? 0 : whole_bytes(frame_rows(&frame) * frame_slot(&frame));
}

static int64_t packed_elems(const hd_geom *g) {
  int64_t elems = 0;
  if (g->pool > 1)
    return has_whole_groups(g) ? 0 : (int64_t)g->co * g->kh * up16(g->kw * g->ci);
  for (int i = 0; i < g->sh * g->sw; i++) {
    conv_phase y = phase_of(i / g->sw, g->hi, g->kh, g->sh, g->ph), x = phase_of(i % g->sw, g->wi, g->kw, g->sw, g->pw);
    elems += phase_elems(g, &y, &x);
  }
  return elems;
}

/* One channel of one phase: tap t of a walk's window is the pair (y, x) and, inside, the channel. */
static void pack_phase(const hd_geom *g, const conv_phase *y, const conv_phase *x, const float *w, float *packed,
                       int co) {
  int taps = y->taps * x->taps * g->co;
  for (int c = 0; c < g->ci; c++) {
    int64_t first = walk_weight_at(g->ci, taps, c, 0), step = walk_weight_at(g->ci, taps, c, 1) - first;
    for (int t = 0; t < y->taps * x->taps; t++) {
      int ky = y->last - t / x->taps * g->sh, kx = x->last - t % x->taps * g->sw;
      packed[first + ((int64_t)t * g->co + co) * step] = w[(((int64_t)co * g->kh + ky) * g->kw + kx) * g->ci + c];
    }
  }
}

static void pack(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  int64_t run = (int64_t)g->kw * g->ci;
  if (g->pool > 1) {
    for (int64_t line = (int64_t)j0 * g->kh; line < (int64_t)j1 * g->kh; line++)
      memcpy(packed + line * up16((int)run), w + line * run, (size_t)run * sizeof *w);
    return;
  }
  for (int i = 0; i < g->sh * g->sw; i++) {
    conv_phase y = phase_of(i / g->sw, g->hi, g->kh, g->sh, g->ph), x = phase_of(i % g->sw, g->wi, g->kw, g->sw, g->pw);
    for (int32_t co = j0; co < j1; co++)
      pack_phase(g, &y, &x, w, packed, co);
    packed += phase_elems(g, &y, &x);
  }
}

void HD_SYM(conv_dx_fill)(hd_kernels *table) {
  table->run[HD_OP_conv2d_dx] = conv2d_dx;
  table->scratch_bytes[HD_OP_conv2d_dx] = scratch_bytes;
  table->packed_elems[HD_OP_conv2d_dx] = packed_elems;
  table->pack[HD_OP_conv2d_dx] = pack;
}
