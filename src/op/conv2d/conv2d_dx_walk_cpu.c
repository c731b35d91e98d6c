/* The gradient of a convolution's input by walks over the gradient with the kernel reversed, for each group of channels
 * and phase of the stride; pixels whose windows use the same taps (fewer at the edges) share a walk. A transposed
 * convolution is the same with a bias and without + 0 at the end.
 *
 * Order of the sum of an input element: bias or +0; the output's pixels row-major, for each pixel channels ascending:
 * acc = fma(dy, w, acc), finally acc + 0 if wanted. Pixels outside of the gradient take no part. */
#include "op/conv2d/conv2d_cpu.h"

static int64_t phase_elems(const hd_geom *g, const conv_phase *y, const conv_phase *x) {
  return (int64_t)up16(g->ci) * y->taps * x->taps * g->co;
}

/* Of one group without a pool. */
static int64_t group_packed_elems(const hd_geom *g) {
  int64_t elems = 0;
  for (int i = 0; i < g->window.sh * g->window.sw; i++) {
    conv_phase y, x;
    phases_of(&y, &x, g, i);
    elems += phase_elems(g, &y, &x);
  }
  return elems;
}

/* One group of a call: its geometry, and its number. */
typedef struct dx_part {
  const hd_call *call;
  hd_geom g;
  int group;
  const float *bias; /* the group's, or NULL */
  int plus_zero;
} dx_part;

/* The group's channels of an input pixel of row n in dx. */
static float *dx_at(const dx_part *p, int64_t n, int y, int x) {
  return (float *)p->call->out[0] + n * p->call->out_stride[0] + ((int64_t)y * p->g.wi + x) * p->call->g->ci +
         p->group * p->g.ci;
}

/* Pixels i0 .. i1-1 of a phase along one axis, whose windows all have taps t0 .. t1-1 inside the gradient. */
typedef struct dx_span {
  int i0, i1, t0, t1;
} dx_span;

static void meet_taps(dx_span *s, const conv_phase *phase, int i, int image) {
  const int first = phase->start + i, before = -first, inside = image - first, up = phase->step - 1;
  s->t0 = before > 0 ? (before + up) / phase->step : 0;
  s->t1 = most(s->t0, inside > 0 ? least(phase->taps, (inside + up) / phase->step) : 0);
}

static dx_span span_from(const conv_phase *phase, int i, int image) {
  dx_span s = {.i0 = i, .i1 = i + 1}, next;
  meet_taps(&s, phase, i, image);
  for (; s.i1 < phase->count; s.i1++) {
    meet_taps(&next, phase, s.i1, image);
    if (next.t0 != s.t0 || next.t1 != s.t1)
      break;
  }
  return s;
}

/* Rows n .. n + rows - 1 of a phase, and its weights. */
typedef struct dx_phase {
  conv_phase y, x;
  const float *w;
  conv_images images;
  int64_t n, rows;
} dx_phase;

static void fill_pixel(const dx_part *part, float *pixel) {
  for (int c = 0, left = part->g.ci; left > 0; c += 16, left -= 16)
    g16_store_some(pixel + c, part->bias ? g16_load_some(part->bias + c, left) : g16_zero(), left);
}

/* Whether the stride steps over pixels: all are filled first then, in the order of memory. */
static int has_gaps(const hd_geom *g) { return g->window.kh < g->window.sh || g->window.kw < g->window.sw; }

static void fill_image(const dx_part *part, int64_t n) {
  for (int i = 0; i < part->g.hi * part->g.wi; i++)
    fill_pixel(part, dx_at(part, n, 0, i));
}

/* No tap of the kernel reaches these pixels. */
static void fill_spans(const dx_part *part, const dx_phase *p, const dx_span *v, const dx_span *h) {
  const hd_geom *g = &part->g;
  for (int64_t r = p->n; r < p->n + p->rows; r++)
    for (int y = v->i0; y < v->i1; y++)
      for (int x = h->i0; x < h->i1; x++)
        fill_pixel(part, dx_at(part, r, p->y.first + y * g->window.sh, p->x.first + x * g->window.sw));
}

static void walk_spans(const dx_part *part, const dx_phase *p, const dx_span *v, const dx_span *h) {
  const hd_geom *g = &part->g;
  const int64_t line = (int64_t)g->wp * g->co, pixel = part->call->g->ci, across = h->t1 - h->t0;
  const int64_t first_y = p->y.start + v->i0 + v->t0 * p->y.step, first_x = p->x.start + h->i0 + h->t0 * p->x.step;
  const int apart = p->x.step > 1;
  conv_walk walk = {.x = p->images.first + first_y * line + first_x * g->co,
                    .x_stride = p->images.stride,
                    .x_step_y = line,
                    .x_step_x = g->co,
                    .x_line = p->y.step * line,
                    .x_tap = (int64_t)p->x.step * g->co,
                    .taps_y = v->t1 - v->t0,
                    .runs = apart ? (int)across : 1,
                    .run = (apart ? 1 : (int)across) * g->co,
                    .w = p->w,
                    .w_taps = (int64_t)p->y.taps * p->x.taps * g->co,
                    .w_first = ((int64_t)v->t0 * p->x.taps + h->t0) * g->co,
                    .w_skip = (p->x.taps - across) * g->co,
                    .bias = part->bias,
                    .channels = g->ci,
                    .y = dx_at(part, p->n, p->y.first + v->i0 * g->window.sh, p->x.first + h->i0 * g->window.sw),
                    .y_stride = part->call->out_stride[0],
                    .y_step_y = (int64_t)g->window.sh * g->wi * pixel,
                    .y_step_x = g->window.sw * pixel,
                    .height = v->i1 - v->i0,
                    .width = h->i1 - h->i0,
                    .rows = p->rows,
                    .pool = 1,
                    .plus_zero = part->plus_zero};
  HD_SYM(conv_walk)(&walk);
}

static void walk_phase(const dx_part *part, const dx_phase *p) {
  for (int i = 0; i < p->y.count;) {
    const dx_span v = span_from(&p->y, i, part->g.hp);
    for (int j = 0; j < p->x.count;) {
      const dx_span h = span_from(&p->x, j, part->g.wp);
      if (v.t0 < v.t1 && h.t0 < h.t1)
        walk_spans(part, p, &v, &h);
      else if (!has_gaps(&part->g))
        fill_spans(part, p, &v, &h);
      j = h.i1;
    }
    i = v.i1;
  }
}

/* dy of one group, without a border: a copy only where other groups' channels lie between its pixels. */
static conv_frame group_frame(const hd_geom *g, int64_t pixel) {
  return (conv_frame){
      .height = g->hp, .width = g->wp, .image_height = g->hp, .image_width = g->wp, .channels = g->co, .pixel = pixel};
}

static void run_group(const dx_part *part) {
  const hd_call *call = part->call;
  const hd_geom *g = &part->g;
  conv_frame frame = group_frame(g, call->g->co);
  int64_t group = frame_rows(&frame);
  for (int64_t n = 0; n < call->rows; n += group) {
    int64_t rows = call->rows - n < group ? call->rows - n : group;
    const float *dy = in_row(call, 0, n) + part->group * g->co;
    dx_phase phase = {.w = call->packed + part->group * group_packed_elems(g),
                      .images =
                          frame_images(call->scratch, &frame, !frame_is_image(&frame), dy, call->in_stride[0], rows),
                      .n = n,
                      .rows = rows};
    for (int64_t r = n; r < n + rows && has_gaps(g); r++)
      fill_image(part, r);
    for (int i = 0; i < g->window.sh * g->window.sw; i++) {
      phases_of(&phase.y, &phase.x, g, i);
      walk_phase(part, &phase);
      phase.w += phase_elems(g, &phase.y, &phase.x);
    }
  }
}

void HD_SYM(conv_dx_walk)(const hd_call *call, const float *bias, int plus_zero) {
  dx_part part = {.call = call, .g = group_geom(call->g), .plus_zero = plus_zero};
  for (; part.group < call->g->conv.groups; part.group++) {
    part.bias = bias ? bias + part.group * part.g.ci : NULL;
    run_group(&part);
  }
}

int64_t HD_SYM(conv_dx_walk_scratch)(const hd_geom *g) {
  hd_geom part = group_geom(g);
  conv_frame frame = group_frame(&part, g->co);
  return frame_is_image(&frame) ? 0 : whole_bytes(frame_rows(&frame) * frame_slot(&frame));
}

int64_t HD_SYM(conv_dx_walk_packed)(const hd_geom *g) {
  hd_geom part = group_geom(g);
  return g->conv.groups * group_packed_elems(&part);
}

/* The weights w of output channel co of a group, for one phase. Tap t of a walk's window is the pair (y, x) and,
 * inside, the channel. */
static void pack_phase(const hd_geom *g, const conv_phase *y, const conv_phase *x, float *packed, const float *w,
                       int co) {
  const int taps = y->taps * x->taps;
  for (int t = 0; t < taps; t++) {
    const int ky = y->last - t / x->taps * g->window.sh, kx = x->last - t % x->taps * g->window.sw;
    walk_pack_tap(packed, g->ci, taps * g->co, t * g->co + co, w + (ky * g->window.kw + kx) * g->ci);
  }
}

void HD_SYM(conv_dx_walk_pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1) {
  const hd_geom part = group_geom(g);
  const int64_t taps = (int64_t)part.window.kh * part.window.kw * part.ci, elems = group_packed_elems(&part);
  for (int i = 0; i < part.window.sh * part.window.sw; i++) {
    conv_phase y, x;
    phases_of(&y, &x, &part, i);
    for (int32_t j = j0; j < j1; j++)
      pack_phase(&part, &y, &x, packed + j / part.co * elems, w + j * taps, j % part.co);
    packed += phase_elems(&part, &y, &x);
  }
}
