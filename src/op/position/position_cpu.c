/* Learned positions and their gradients: groups along the elements of a sample. */
#include "kernel/cpu/group16.h"

static void add(float *to, const float *a, const float *b, int64_t count) {
  for (int64_t i = 0; i < count; i += 16)
    g16_store_some(to + i, g16_add(g16_load_some(a + i, count - i), g16_load_some(b + i, count - i)), count - i);
}

static void position(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    add(out_row(call, 0, n), in_row(call, 0, n), call->in[1], elems_of(call->g));
}

static void position_dx(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    if (out_row(call, 0, n) != in_row(call, 0, n))
      memcpy(out_row(call, 0, n), in_row(call, 0, n), (size_t)elems_of(call->g) * sizeof(float));
}

static void position_dw(const hd_call *call) {
  float *dw = call->out[0];
  memset(dw, 0, (size_t)elems_of(call->g) * sizeof *dw);
  for (int64_t n = 0; n < call->rows; n++)
    add(dw, dw, in_row(call, 0, n), elems_of(call->g));
}

void HD_SYM(position_fill)(hd_kernels *table) {
  table->run[HD_OP_position] = position;
  table->run[HD_OP_position_dx] = position_dx;
  table->run[HD_OP_position_dw] = position_dw;
}
