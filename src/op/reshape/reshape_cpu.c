/* reshape and its gradient: both sides are walked in PyTorch's order without a division for each element; where whole
 * channels change places, as in a shuffle of channels, a table of channels serves all pixels. */
#include "kernel/cpu/cpu_fill.h"
#include "op/reshape/reshape.h"

/* An image in memory, pixels outside and channels inside, and an element of it. */
typedef struct side {
  int64_t pixels, channels;
  int64_t at, pixel; /* the element, and its pixel */
} side;

/* So many elements further in PyTorch's order. */
typedef struct jump {
  int64_t elems, pixels;
} jump;

static jump jump_of(const side *s, int64_t count) {
  const int64_t pixels = count % s->pixels;
  return (jump){pixels * s->channels + count / s->pixels, pixels};
}

static inline void move(side *s, const jump *by) {
  s->at += by->elems;
  s->pixel += by->pixels;
  if (s->pixel < s->pixels)
    return;
  s->pixel -= s->pixels;
  s->at += 1 - s->pixels * s->channels;
}

/* The settings, where parts that do not change places are one. */
typedef struct order {
  int64_t outer, a, b, inner;
} order;

static order order_of(const hd_geom *g) {
  const int64_t a = g->reshape.swap[0], b = g->reshape.swap[1], elems = elems_of(g);
  if (a == 1 || b == 1)
    return (order){1, 1, 1, elems};
  return (order){elems / (a * b * g->reshape.inner), a, b, g->reshape.inner};
}

/* `gradient`, a constant where this is inlined: from the output's places to the input's. */
static inline void walk(const hd_geom *g, float *to, const float *from, int gradient) {
  const order o = order_of(g);
  side in = {.pixels = pixels_of(g), .channels = g->ci}, out = {.pixels = (int64_t)g->ho * g->wo, .channels = g->co};
  const jump one = jump_of(&in, 1), next = jump_of(&out, 1);
  const jump part = jump_of(&in, o.inner), line = jump_of(&in, o.b * o.inner), all = jump_of(&in, o.a * o.b * o.inner);
  for (int64_t i = 0; i < o.outer; i++, move(&in, &all)) {
    side first = in;
    for (int64_t r = 0; r < o.b; r++, move(&first, &part)) {
      side at = first;
      for (int64_t q = 0; q < o.a; q++, move(&at, &line)) {
        side s = at;
        for (int64_t t = o.inner; t > 0; t--, move(&s, &one), move(&out, &next))
          to[gradient ? s.at : out.at] = from[gradient ? out.at : s.at];
      }
    }
  }
}

/* Whole channels, all pixels of each. */
static int moves_channels(const hd_geom *g) { return g->co == g->ci && order_of(g).inner % pixels_of(g) == 0; }

/* The input's channel of each channel of the output. */
static int32_t *channels_of(const hd_call *call) {
  int32_t *table = call->scratch;
  const int64_t pixels = pixels_of(call->g);
  for (int32_t c = 0; c < call->g->co; c++)
    table[c] = (int32_t)(reshape_source(call->g, c * pixels) / pixels);
  return table;
}

/* `gradient`, a constant where this is inlined: in is dy, out is dx. */
static inline void run_rows(const hd_call *call, int gradient) {
  const hd_geom *g = call->g;
  const int32_t *table = moves_channels(g) ? channels_of(call) : NULL;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *from = in_row(call, 0, n);
    float *to = out_row(call, 0, n);
    if (!table)
      walk(g, to, from, gradient);
    for (int64_t p = 0; p < pixels_of(g) && table; p++, from += g->ci, to += g->ci)
      for (int32_t c = 0; c < g->ci; c++)
        to[gradient ? table[c] : c] = from[gradient ? c : table[c]];
  }
}

static void reshape(const hd_call *call) { run_rows(call, 0); }

static void reshape_dx(const hd_call *call) { run_rows(call, 1); }

static int64_t scratch_bytes(const hd_geom *g) { return g->co * (int64_t)sizeof(int32_t); }

void HD_SYM(reshape_fill)(hd_kernels *table) {
  table->run[HD_OP_reshape] = reshape;
  table->run[HD_OP_reshape_dx] = reshape_dx;
  table->scratch_bytes[HD_OP_reshape] = scratch_bytes;
  table->scratch_bytes[HD_OP_reshape_dx] = scratch_bytes;
}
