/* The order of a recurrent layer's gates, which ONNX has otherwise than PyTorch and heddle: input, output, forget, cell
 * in place of input, forget, cell, output; update, reset, new in place of reset, update, new. */
#pragma once

/* Which of heddle's gates is the k-th of ONNX, of four (lstm) or three (gru). */
static inline int hd__onnx_gate(int gates, int k) {
  static const int lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2};
  return gates == 4 ? lstm[k] : gru[k];
}
