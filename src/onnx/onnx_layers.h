/* Layers that are made of the operators of an ONNX file, by families:
 *
 *     onnx_activations.c    operators on each element
 *     onnx_arithmetic.c     a value and a constant, or two values
 *     onnx_convolutions.c   convolutions
 *     onnx_images.c         resizing and padding
 *     onnx_linear.c         products with a matrix
 *     onnx_lines.c          means, maxima, sums and softmax along axes
 *     onnx_norms.c          norms
 *     onnx_recurrent.c      recurrent layers
 *     onnx_weights.c        what several of them do with weights
 *     onnx_windows.c        windows, and pools of them
 *
 * Operators that move elements alone are in onnx_shapes.c, attention in onnx_attention.c and onnx_products.c. */
#pragma once

#include "onnx/onnx_reader.h"

/* A row of the table of operators: makes the view of output k of a node. */
typedef hd_status hd_onnx_form(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k);
hd_onnx_form hd__onnx_read_abs, hd__onnx_read_line_of, hd__onnx_read_reshape, hd__onnx_read_flatten,
    hd__onnx_read_transpose, hd__onnx_read_squeeze, hd__onnx_read_unsqueeze, hd__onnx_read_expand, hd__onnx_read_slice,
    hd__onnx_read_split, hd__onnx_read_gather, hd__onnx_read_concat, hd__onnx_read_depth, hd__onnx_read_batch_norm,
    hd__onnx_read_binary, hd__onnx_read_bound, hd__onnx_read_clip, hd__onnx_read_conv, hd__onnx_read_dropout,
    hd__onnx_read_gelu, hd__onnx_read_gemm, hd__onnx_read_group_norm, hd__onnx_read_hardsigmoid,
    hd__onnx_read_layer_norm, hd__onnx_read_line, hd__onnx_read_matmul, hd__onnx_read_pad, hd__onnx_read_plain,
    hd__onnx_read_pool, hd__onnx_read_power, hd__onnx_read_prelu, hd__onnx_read_recurrent, hd__onnx_read_resize,
    hd__onnx_read_selu, hd__onnx_read_einsum, hd__onnx_read_product, hd__onnx_read_slice_or_chomp, hd__onnx_read_slope,
    hd__onnx_read_softmax, hd__onnx_read_sum, hd__onnx_read_tile;

/* ---- Attention ---- */

/* A product of two computed values that ends an attention, as PyTorch writes it; `is`: whether it does. */
hd_status hd__onnx_read_attention(bool *is, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node);

/* Of queries, keys and values, batch x heads x places x channels, or without heads. */
hd_status hd__onnx_put_attention(hd_onnx_view *out, hd_onnx_view part[3], hd_onnx_reader *r, const HdOnnx__Node *node,
                                 int64_t heads, bool causal);

/* The product of two tensors along the last axis of one and the last but one of the other: scores of an attention, or
 * what it gives. */
hd_status hd__onnx_multiply(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_view *a,
                            hd_onnx_view *b);

/* Scores times, or divided by, a number, or with a mask added; their softmax. */
hd_status hd__onnx_change_scores(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, char op,
                                 const char *name);
hd_status hd__onnx_softmax_of_scores(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int64_t axis,
                                     bool later);

/* The view of input k of a node. */
hd_status hd__onnx_view_of(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, size_t k);

/* A layer of each element, "op: NAME, SETTING: NUMBER": it leaves them where they are. */
hd_status hd__onnx_put_plain(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *op);

/* x * factor, which is at most HD_ONNX_MOST_FACTOR. */
enum { HD_ONNX_MOST_FACTOR = 1000000 };
hd_status hd__onnx_put_scale(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, double factor);

/* |x| */
hd_status hd__onnx_put_abs(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node);

/* Whether a dropout drops elements, or perhaps does. */
static inline bool hd__onnx_drops(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  const char *trains = hd__onnx_input(node, 2);
  bool does = false;
  return *trains && (!hd__onnx_flag(&does, r, trains) || does);
}

/* ---- Weights ---- */

static inline hd_shape hd__onnx_vector(int64_t count) { return (hd_shape){1, {(int32_t)count}}; }

/* Adds the weight LAYER.SUFFIX, a constant of `count` numbers. */
hd_status hd__onnx_add_vector(hd_onnx_reader *r, const HdOnnx__Node *node, const char *layer, const char *suffix,
                              const char *name, int64_t count);

/* The layer that has these parameters already; NULL: there is none. One that has them from now on. */
const char *hd__onnx_find_owner(const hd_onnx_reader *r, const char *kind, const char *weight, const char *bias);
void hd__onnx_keep_owner(hd_onnx_reader *r, const char *layer, const char *kind, const char *weight, const char *bias);

/* The settings of a layer that has parameters, or shares an owner's. */
enum { HD_ONNX_PARAMETERS_BYTES = HD_ONNX_NAME_BYTES + 16 };
const char *hd__onnx_parameters(char text[HD_ONNX_PARAMETERS_BYTES], const char *owner, bool has_bias);

/* ---- Windows ---- */

#define HD_ONNX_PAIR "[%lld, %lld]"
#define HD_ONNX_OF(pair) (long long)(pair)[0], (long long)(pair)[1]

typedef struct hd_onnx_window {
  int64_t kernel[2], stride[2], dilation[2], begin[2], end[2];
  int sides; /* of an image, or 1 of a signal */
} hd_onnx_window;

/* The window of a node; `kernel`: of the weight, or NULL. */
hd_status hd__onnx_read_window(hd_onnx_window *w, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v,
                               const int64_t *kernel);

/* One number for each side of an attribute; `at` 1: those behind the first ones. */
hd_status hd__onnx_sides(int64_t out[2], hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_window *w,
                         const char *name, int64_t fallback, int at, int groups);

/* Whether both ends are padded alike; the outputs along side i. */
bool hd__onnx_is_even(const hd_onnx_window *w);
int64_t hd__onnx_output_side(const hd_onnx_window *w, int i, int64_t side);

/* Pixels around the image, "zero" or "replicate", so that the window needs none. */
hd_status hd__onnx_put_pad(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_window *w,
                           const char *mode);

/* A convolution; `bias`: of a node behind it, or NULL; `chomp`: how much of the padding at the end is left out. */
hd_status hd__onnx_convolve(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *bias,
                            int64_t chomp);

/* ---- Linear layers and norms ---- */

/* alpha * x * weight + beta * bias */
typedef struct hd_onnx_product {
  const char *x, *weight, *bias;
  bool by_outputs; /* the weight is a matrix of outputs x inputs */
  float alpha, beta;
  int64_t outputs, inputs; /* of a weight that has other dimensions than a matrix; 0: it is one */
} hd_onnx_product;

/* The same of a value whose view is known. */
hd_status hd__onnx_put_product(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_product p);
hd_status hd__onnx_put_linear(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_product p);

/* A layer norm, an RMS norm or a group norm that is spelled out. A weight of the normalised axes is the norm's, another
 * one a layer of its own. */
hd_status hd__onnx_put_spelled_norm(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node,
                                    const hd_onnx_expression *e);

/* ---- Arithmetic ---- */

/* The axes along which a constant has numbers; false: it does not fit the tensor. */
bool hd__onnx_axes_of_constant(uint32_t *axes, const hd_onnx_view *v, const HdOnnx__Tensor *t);

/* Whether a constant has a number for each element of some axes, and of no others; so has one that is left out. */
bool hd__onnx_lies_along(const hd_onnx_view *v, const hd_onnx_reader *r, const char *name, uint32_t axes);

/* x + number, x * number. */
hd_status hd__onnx_put_number(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool adds, double number);

/* x + c, x - c, x * c or x / c: 'A', 'S', 'M' or 'D'. */
hd_status hd__onnx_apply_constant(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, char op,
                                  const char *name);
