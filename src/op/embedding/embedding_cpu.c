/* Embedding and the gradient of its weight: groups along the channels of a row. */
#include "kernel/cpu/group16.h"

static int64_t row_of(const hd_geom *g, float x) {
  return x >= 0 && x < (float)g->embedding.tokens && x == (float)(int32_t)x ? (int32_t)x : -1;
}

static void copy_row(float *y, const float *w, int32_t channels) {
  for (int32_t i = 0; i < channels; i += 16)
    g16_store_some(y + i, w ? g16_load_some(w + i, channels - i) : g16_all(NAN), channels - i);
}

static void embedding(const hd_call *call) {
  const hd_geom *g = call->g;
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t place = 0; place < pixels_of(g); place++) {
      const int64_t row = row_of(g, in_row(call, 0, n)[place]);
      copy_row(out_row(call, 0, n) + place * g->co, row < 0 ? NULL : w + row * g->co, g->co);
    }
}

static void add_row(float *dw, const float *dy, int32_t channels) {
  for (int32_t i = 0; i < channels; i += 16)
    g16_store_some(dw + i, g16_add(g16_load_some(dw + i, channels - i), g16_load_some(dy + i, channels - i)),
                   channels - i);
}

static void embedding_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  float *dw = call->out[0];
  memset(dw, 0, (size_t)g->embedding.tokens * (size_t)g->co * sizeof *dw);
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t place = 0; place < pixels_of(g); place++) {
      const int64_t row = row_of(g, in_row(call, 0, n)[place]);
      if (row >= 0)
        add_row(dw + row * g->co, in_row(call, 1, n) + place * g->co, g->co);
    }
}

void HD_SYM(embedding_fill)(hd_kernels *table) {
  table->run[HD_OP_embedding] = embedding;
  table->run[HD_OP_embedding_dw] = embedding_dw;
}
