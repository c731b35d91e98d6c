/* The gradient of a convolution's weight behind a pool, for few input channels: the patch of a whole window (all its
 * positions) is one group of 4 x 4 floats, output channels lie in vector lanes, and each lane picks the float that its
 * tap has at the position where its maximum was taken. So a window costs one multiply-add a tap, not one a position.
 *
 * Order: per weight, over samples ascending, windows row-major: acc = fma(dy, x, acc), at last acc + 0. */
#include "kernel/cpu/cpu_conv.h"

enum { SIDE = 4, MOST_TAPS = 9 };

/* Picking is one instruction with AVX-512 alone. */
int HD_SYM(conv_dw_is_picked)(const hd_geom *g) {
  return HD_ISA_IS(avx512) && g->pool > 1 && g->sh == 1 && g->sw == 1 && g->kh * g->kw * g->ci <= MOST_TAPS &&
         g->pool + g->kh - 1 <= SIDE && (g->pool + g->kw - 1) * g->ci <= SIDE;
}

#if HD_ISA_IS(avx512)

/* A block of output channels over all windows of the call. */
typedef struct pick_block {
  const hd_call *call;
  const conv_frame *frame;
  int64_t dy_pixel;
  int c, channels; /* the first one, and how many there are from it on */
} pick_block;

/* The window's patch of 2 .. 4 lines, four lanes apart. */
static inline __m512 take_patch(const float *x, int64_t line, int lines) {
  __m512 patch = _mm512_castps128_ps512(_mm_loadu_ps(x));
  patch = _mm512_insertf32x4(patch, _mm_loadu_ps(x + line), 1);
  patch = lines > 2 ? _mm512_insertf32x4(patch, _mm_loadu_ps(x + 2 * line), 2) : patch;
  return lines > 3 ? _mm512_insertf32x4(patch, _mm_loadu_ps(x + 3 * line), 3) : patch;
}

/* One sample's windows; groups is a constant where this is inlined. */
G16 void add_sample(g16 (*acc)[2], const pick_block *b, const float *x, const float *dy, const uint8_t *argmax,
                    const __m512i *tap, __m512i places, int groups) {
  const hd_geom *g = b->call->g;
  int64_t line = (int64_t)b->frame->width * g->ci;
  for (int wy = 0; wy < g->hp; wy++, x += g->pool * line)
    for (int wx = 0; wx < g->wp; wx++, dy += b->dy_pixel, argmax += g->co) {
      __m512 patch = take_patch(x + (int64_t)wx * g->pool * g->ci, line, g->pool + g->kh - 1);
      UNROLL_FOR (q, groups) {
        int left = b->channels - 16 * q;
        __mmask16 some = (__mmask16)bits_first(least(16, left));
        __m512i position = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, argmax + 16 * q));
        __m512i place = _mm512_permutexvar_epi32(position, places);
        g16 by = g16_load_some(dy + 16 * q, left);
        UNROLL_FOR (t, MOST_TAPS)
          acc[t][q] = g16_fma(by, _mm512_permutexvar_ps(_mm512_add_epi32(place, tap[t]), patch), acc[t][q]);
      }
    }
}

static void store_taps(const pick_block *b, g16 (*acc)[2], int groups) {
  const hd_geom *g = b->call->g;
  int taps = g->kh * g->kw * g->ci;
  float lanes[16];
  for (int t = 0; t < taps; t++)
    for (int q = 0; q < groups; q++) {
      g16_store(lanes, g16_add(acc[t][q], g16_zero()));
      for (int l = 0; l < least(16, b->channels - 16 * q); l++)
        ((float *)b->call->out[0])[(int64_t)(b->c + 16 * q + l) * taps + t] = lanes[l];
    }
}

/* Frames one sample at a time in scratch; groups is a constant where this is inlined. */
G16 void run_block(const pick_block *b, int groups) {
  const hd_call *call = b->call;
  const hd_geom *g = call->g;
  g16 acc[MOST_TAPS][2];
  __m512i tap[MOST_TAPS];
  int32_t place[16] = {0};
  for (int p = 0; p < g->pool * g->pool; p++)
    place[p] = p / g->pool * SIDE + p % g->pool * g->ci;
  UNROLL_FOR (t, MOST_TAPS) {
    int row = g->kw * g->ci;
    tap[t] = _mm512_set1_epi32(t / row * SIDE + t % row);
    UNROLL_FOR (q, groups)
      acc[t][q] = g16_zero();
  }
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = (const float *)call->in[0] + n * call->in_stride[0];
    HD_SYM(conv_frame_fill)(call->scratch, b->frame, x);
    add_sample(acc, b, call->scratch, (const float *)call->in[1] + n * call->in_stride[1] + b->c,
               (const uint8_t *)call->in[2] + n * call->in_stride[2] + b->c, tap, _mm512_loadu_si512(place), groups);
  }
  store_taps(b, acc, groups);
}

void HD_SYM(conv_dw_pick)(const hd_call *call, int64_t dy_pixel, int64_t pixel) {
  conv_frame frame = input_frame(call->g, pixel);
  pick_block block = {.call = call, .frame = &frame, .dy_pixel = dy_pixel};
  for (; block.c < call->g->co; block.c += 32) {
    pick_block b = block;
    b.channels = call->g->co - b.c;
    if (b.channels > 16)
      run_block(&b, 2);
    else
      run_block(&b, 1);
  }
}

#else

void HD_SYM(conv_dw_pick)(const hd_call *call, int64_t dy_pixel, int64_t pixel) {
  (void)call, (void)dy_pixel, (void)pixel;
}

#endif
