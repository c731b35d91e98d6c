/* The table of a device's kernels: filled by the reference, overridden where a device has faster ones.
 *
 * One rule holds for every kernel: an output element is ONE fixed chain of operations with explicit FMA that depends on
 * the element's inputs alone, never on the number of rows, the tile, the vector width or the thread. The chains are
 * listed in docs/determinism.md and repeated above each reference kernel. Any two tables give the same bits.
 *
 * Memory. A value holds one slot per sample ("row"). Images are stored height, width, channel (channel fastest), flat
 * values as they are. Base pointers are 64-byte aligned; a slot of floats is padded to a multiple of 16 elements (a
 * slot of bytes to 64), the padding may be read and written, its content is undefined. Parameters and their gradients
 * are dense in home order: a convolution's weight [co][kh][kw][ci / groups], a transposed one's [ci][kh][kw][co /
 * groups], a linear layer's [out][in] with `in` in the memory order of its input, a bias [co]; only their end is
 * padded, to 16 elements. Inputs and outputs never overlap, except where HD_INPLACE is noted.
 *
 * A kernel depends on no graph, plan, thread or model. It allocates nothing and cannot fail. */
#pragma once

#include <stdint.h>

#include "base/tools_api.h"
#include "base/host_device.h"
#include "base/reduction.h"
#include "kernel/array.h"
#include "kernel/image.h"

typedef enum hd_op {
#define OP(name, class) HD_OP_##name,
#include "kernel/ops.def"
#undef OP
  HD_OP_COUNT
} hd_op;

typedef enum hd_op_class {
  HD_CLASS_ROWS,
  HD_CLASS_SHARD,
  HD_CLASS_REDUCE,
  HD_CLASS_STATS,
  HD_CLASS_UPDATE
} hd_op_class;

enum { HD_MAX_IN = 7, HD_MAX_OUT = 3 };

/* The shape and the attributes of an operation, one struct for all of them: it is an argument of GPU kernels, by value.
 * Flat values have h = w = 1 and their length in ci or co. */
typedef struct hd_geom {
  int32_t ci, hi, wi;        /* input channels, height, width */
  int32_t co, ho, wo;        /* output before any fused pool: channels, height, width */
  int32_t kh, kw;            /* window of a convolution or of a pooling operation (not fused) */
  int32_t sh, sw;            /* its strides */
  int32_t ph, pw;            /* its zero padding, each side (pooling: -inf) */
  int32_t dilation[2];       /* convolutions: pixels from one of its taps to the next, down and across; else 1 */
  int32_t transposed;        /* 1: conv_transpose2d, whose windows lie over the output */
  int32_t output_padding[2]; /* conv_transpose2d: rows and columns that its output has besides those of windows */
  int32_t groups;            /* conv2d: each group of co / groups outputs reads ci / groups inputs; 1 for none */
  int32_t pool;              /* conv2d: side and stride of the max pool fused behind it; 1 for none, as with groups */
  int32_t hp, wp;            /* conv2d: height and width after that pool (ho / pool, wo / pool, rest dropped) */
  int32_t part[HD_MAX_IN];   /* concat: channels of each input, 0 behind the last */
  int32_t first;             /* concat_dx: the first of its channels in the output */
  int32_t relu;              /* 1 if a ReLU is fused behind (conv2d: behind the pool; linear: behind the bias) */

  /* As in hd_attrs, for the operations that have them. */
  float negative_slope, p, eps;
  float shift; /* shifted_linear: added to each input */
  int32_t approximate, count_include_pad;
  const struct hd_custom_op *custom_op; /* custom, custom_dx: the operation of the caller's program */

  /* Of a loss, as in hd_attrs. */
  int32_t ignore_index;
  int32_t soft_labels; /* cross_entropy: the target holds a probability per class */
  float label_smoothing, delta;
} hd_geom;

HD_BOTH int hd_geom_is_dilated(const hd_geom *g) { return g->dilation[0] > 1 || g->dilation[1] > 1; }

/* Whether a convolution is computed by Winograd's tiles of 4 x 4 outputs, which take 36 products where 144 are summed:
 * a rule of the operation, so every device follows it. Narrow ones would spend more on the transforms than they save,
 * and tiles of few outputs more products. Its gradients are by tiles too, except behind a pool: there most of dy is
 * zero. */
enum { HD_WINOGRAD_CHANNELS = 16 };

HD_BOTH int hd_geom_is_winograd(const hd_geom *g) {
  const int height = g->hp * g->pool, width = g->wp * g->pool, tiles = ((height + 3) / 4) * ((width + 3) / 4);
  return g->kh == 3 && g->kw == 3 && g->sh == 1 && g->sw == 1 && g->groups == 1 && g->pool <= 2 &&
         g->ci >= HD_WINOGRAD_CHANNELS && g->co >= HD_WINOGRAD_CHANNELS && !hd_geom_is_dilated(g) &&
         36 * tiles < 9 * height * width;
}

/* The keys of a call's random numbers, see base/philox.h. Row r is the sample at `position + r` of the epoch. */
typedef struct hd_draw {
  uint64_t seed;
  uint32_t epoch, position, node;
} hd_draw;

/* One call of an operation for `rows` neighbouring samples (SHARD, REDUCE and STATS: the rows of exactly one shard,
 * never 0).
 *
 * op                 in[0]         in[1]      in[2]   in[3]    out[0]      out[1]
 * conv2d             x             w*         b|NULL           y           argmax u8|NULL (pool > 1)
 * conv2d_dx          dy            w*         argmax|NULL      dx
 * conv2d_dw          x             dy         argmax|NULL      dw*|NULL    db*|NULL
 * conv_transpose2d   x             w*         b|NULL           y
 * conv_transpose2d_dx
 *                    dy            w*                          dx
 * conv_transpose2d_dw
 *                    x             dy                          dw*|NULL    db*|NULL
 * max_pool2d         x                                         y           argmax u8|NULL
 * max_pool2d_dx      dy            argmax                      dx
 * avg_pool2d, global_avg_pool2d
 *                    x                                         y
 * avg_pool2d_dx      dy                                        dx          also that of the global one
 * linear             x             w*         b*|NULL          y
 * linear_dx          dy            w*                          dx
 * linear_dw          x             dy                          dw*|NULL    db*|NULL
 * shifted_linear     x             w*         b*|NULL          y
 * shifted_linear_dw  x             dy                          dw*|NULL    db*|NULL
 * relu               x                                         y           HD_INPLACE allowed
 * relu_dx            dy            y                           dx = y > 0 ? dy : 0, HD_INPLACE allowed (dx over dy)
 * elementwise        x                                         y           HD_INPLACE allowed
 * their gradients    dy            x or y                      dx          HD_INPLACE allowed (dx over dy)
 * dropout            x                                         y           HD_INPLACE allowed
 * dropout_dx         dy                                        dx          HD_INPLACE allowed
 * flatten            x (h,w,c)                                 y (c,h,w order, the order that PyTorch flattens in)
 * flatten_dx         dy                                        dx
 * add                a             b                           y           HD_INPLACE allowed (y over a)
 * concat             x0            x1         x2      ...      y
 * concat_dx          dy                                        dx of one input
 * layer_norm         x             w*         b*               y
 * layer_norm_dx      dy            w*         x                dx
 * layer_norm_dw      x             dy                          dw*|NULL    db*|NULL
 * softmax            x                                         y           HD_INPLACE allowed
 * softmax_dx         dy            y                           dx          HD_INPLACE allowed (dx over dy)
 * batch_stats        x                                             mean*       m2*
 * batch_norm         x             w*         b*      mean*    y           in[4]: var*
 * batch_norm_dx      dy            w*         x       mean*    dx          in[4], in[5], in[6]: var*, dw*, db*
 * batch_norm_dw      x             dy         mean*   var*     dw*|NULL    db*|NULL
 * shard_norm         x             w*         b*               y           mean+; out[2]: var+
 * shard_norm_dx      dy            w*         x       mean+    dx          in[4]: var+
 * custom             x             x2|NULL                     y
 * custom_dx          dy            y          x       x2|NULL  dx          dx2|NULL
 * cross_entropy      logits        labels i32 weight*|NULL     loss (1 float a row)
 * cross_entropy_dx   logits        labels i32 weight*|NULL     dlogits
 * mse, l1, huber     y             target                      loss (1 float a row): a sum over the outputs
 * mse_dx, ..         y             target                      dy
 * bce_with_logits    logits        target     pos_weight*|NULL loss (1 float a row): a sum over the outputs
 * bce_with_logits_dx logits        target     pos_weight*|NULL dlogits
 *
 * A star marks parameters, their gradients and statistics: one array, no rows. What batch_norm and its gradients read
 * is of the whole batch: var is m2 / (batch_rows * pixels), dw and db are sums over all shards. A plus marks what is
 * of the shard: one array, in the slot of its first row; batch_norm_dw may read such too. argmax holds, per pooled
 * output element, the position inside its window (row-major, 0 .. kh*kw-1 or pool*pool-1) that gave the maximum;
 * windows have at most 256 positions. */
typedef struct hd_call {
  const hd_geom *g;
  int64_t rows;
  const void *in[HD_MAX_IN];
  void *out[HD_MAX_OUT];
  int64_t in_stride[HD_MAX_IN]; /* elements from one row's slot to the next */
  int64_t out_stride[HD_MAX_OUT];
  const float *packed; /* the packed copy of w, if packed_elems() is not 0 */
  void *scratch;       /* 64-byte aligned, scratch_bytes(g) long, of this thread alone */
  float divisor;       /* gradients of losses: the divisor of the mean over the batch */
  int64_t batch_rows;  /* batch_norm_dx: samples in the whole batch */
  hd_draw draw;        /* dropout */
} hd_call;

typedef void hd_run_fn(const hd_call *call);

/* Outputs j0 .. j1-1 of every row alone; writes nothing else, not even padding. */
typedef void hd_run_outputs_fn(const hd_call *call, int32_t j0, int32_t j1);

/* Forms a rectangle of a parameter's gradient directly from stored activations, over all shards of a micro-batch:
 * every element is, per step of the reduction, the chain over rows row0 .. row1-1 that the REDUCE kernel would
 * compute, pushed and merged on a stack in registers. out[(j - j0) * out_ld + (k - k0)] for home rows j and columns
 * k, k0 a multiple of 16; output 1 is the bias: out[j - j0]. x and dy point at row 0 of the micro-batch. */
typedef struct hd_form {
  const hd_geom *g;
  const float *x, *dy;
  int64_t x_stride, dy_stride;
  const hd_reduction *reduction; /* count >= 1; `term` is not used */
  int32_t output;                /* 0 weight, 1 bias */
  int32_t j0, j1, k0, k1;
  float *out;
  int64_t out_ld;
} hd_form;

typedef void hd_form_fn(const hd_form *form);

/* A product of matrices: c[i][j] = a chain from +0, p ascending: acc = fma(a[i][p], b[p][j], acc). Rows of c are
 * contiguous; a and b have any strides: element (i, p) of a at a[i * a_row + p * a_step], (p, j) of b at b[p *
 * b_step + j * b_column]. Any alignment; memory after the last element and between two rows of c is not accessed. */
typedef struct hd_gemm {
  int64_t m, n, k;
  const float *a, *b;
  int64_t a_row, a_step, b_step, b_column;
  float *c;
  int64_t c_row;
} hd_gemm;

/* The scalars of one update, computed once a step in double and rounded to float. */
typedef struct hd_hyper {
  float grad_scale; /* clipping; 1 without */
  float lr;
  float weight_decay; /* sgd, adam: added to the gradient */
  float decay_keep;   /* adamw: 1 - lr * weight_decay */
  float momentum;     /* sgd */
  int32_t nesterov;   /* sgd */
  float beta2, one_minus_beta1, one_minus_beta2, eps;
  float step_size;  /* lr / (1 - beta1^t) */
  float sqrt_bias2; /* sqrt(1 - beta2^t) */
} hd_hyper;

/* One optimizer step for `count` elements. Reads version t, writes version t+1; out may not alias in.
 *
 * The chains are those of op/sgd/sgd.h, adam.h and adamw.h; sgd without momentum has no state, m is NULL then.
 *
 * Returns 1 if any g, w1, m1 or v1 is not finite, else 0. Any alignment and count. */
typedef struct hd_update {
  const float *g, *w, *m, *v;
  float *w1, *m1, *v1;
  int64_t count;
  const hd_hyper *hyper;
} hd_update;

typedef int hd_update_fn(const hd_update *update);

typedef struct hd_kernels {
  const char *name; /* "reference", "scalar", "avx2", "avx512", "neon" */
  const char *isa;  /* what --json reports */

  /* Whether the table's own kernels compute a geometry; NULL: any. `others` computes the rest, see hd_kernels_for. */
  int (*supports[HD_OP_COUNT])(const hd_geom *g);
  const struct hd_kernels *others;

  hd_run_fn *run[HD_OP_COUNT];       /* all classes but UPDATE */
  hd_update_fn *update[HD_OP_COUNT]; /* UPDATE */
  hd_form_fn *form[HD_OP_COUNT]; /* REDUCE operations whose gradient can be formed inside the reduction, else NULL */
  hd_run_outputs_fn *run_outputs[HD_OP_COUNT]; /* ROWS operations whose output j needs home row j of in[1] and in[2]
                                                  alone, else NULL */

  /* In tables of --arithmetic native, else NULL: a kernel for ROWS operations whose order may depend on the number of
   * rows, so that a call must be exactly one shard; and whether it is the faster one for shards of so many rows. */
  hd_run_fn *shard_run[HD_OP_COUNT];
  int (*shard_wins[HD_OP_COUNT])(const hd_geom *g, int64_t rows);

  /* Bytes of thread-local scratch that a call needs for any number of rows; NULL for none. */
  int64_t (*scratch_bytes[HD_OP_COUNT])(const hd_geom *g);

  /* Packed copies of in[1]: elements (0 or NULL: no copy), and the packing of home rows j0 .. j1-1 (output
   * channels), called by the thread that wrote them; threads may pack different rows at the same time.
   * Elements of no row (padding) are zero when the copy is created and are never written. */
  int64_t (*packed_elems[HD_OP_COUNT])(const hd_geom *g);
  void (*pack[HD_OP_COUNT])(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);

  void (*gemm)(const hd_gemm *gemm);

  /* out[i] = the reduction of term[p][i], p from the steps. out may be one of the terms only if there is one step. */
  void (*reduce)(float *out, const float *const *term, const hd_reduction *reduction, int64_t count);

  /* Statistics of two neighbouring ranges of samples become those of both, by Chan's formula, per channel:
   * d = mean_right - mean; mean = fma(d, share, mean); m2 = fma(d * d, both, m2 + m2_right)
   * with share = n_right / (n + n_right) and both = n * n_right / (n + n_right), rounded once from double. */
  void (*merge_stats)(float *mean, float *m2, const float *mean_right, const float *m2_right, int64_t count,
                      float share, float both);

  /* Sum of squares: 16 interleaved chains of double FMA (element i goes to chain i mod 16, from zero), then the fixed
   * tree t[i] = s[i] + s[i + 8], then + 4, + 2, + 1. */
  double (*sum_squares)(const float *x, int64_t count);

  /* out[i * channels + c] = fma((float)pixels[c * plane + i], scale[c], shift[c]) for i < plane: bytes in planes to
   * floats with channels fastest. */
  void (*gather_u8)(float *out, const uint8_t *pixels, int64_t plane, int32_t channels, const float *scale,
                    const float *shift);

  /* The same of floats, in place of (float)pixels. */
  void (*gather_f32)(float *out, const float *pixels, int64_t plane, int32_t channels, const float *scale,
                     const float *shift);

  hd_array_kernels array; /* for eager tensors */
  hd_image_kernels image; /* for transforms */

  /* The limits of the instruction set, for measurements. `chains` makes `rounds` rounds of FMA in as many
   * independent chains as hide their latency, all in registers; it adds something of every chain to *sink and returns
   * the floating-point operations. `triad`: a[i] = fma(c[i], scale, b[i]), arrays aligned to 64 bytes. */
  int64_t (*chains)(float *sink, int64_t rounds);
  void (*triad)(float *a, const float *b, const float *c, float scale, int64_t count);
} hd_kernels;

/* The table whose slots compute this geometry: `table`, or what it falls back to. */
static inline const hd_kernels *hd_kernels_for(const hd_kernels *table, hd_op op, const hd_geom *g) {
  while (table->supports[op] && !table->supports[op](g))
    table = table->others;
  return table;
}

static inline int64_t hd_scratch_bytes(const hd_kernels *table, hd_op op, const hd_geom *g) {
  table = hd_kernels_for(table, op, g);
  return table->scratch_bytes[op] ? table->scratch_bytes[op](g) : 0;
}

static inline int64_t hd_packed_elems(const hd_kernels *table, hd_op op, const hd_geom *g) {
  table = hd_kernels_for(table, op, g);
  return table->packed_elems[op] ? table->packed_elems[op](g) : 0;
}

/* The complete reference table: scalar loops that state the chains. Immutable, static. */
const hd_kernels *hd__kernels_reference(void);

/* The same source compiled with double for float: the operations' run[] only, for gradient checks. Every float of a
 * value, parameter or gradient is a double there; labels and argmax keep their types. */
const hd_kernels *hd__kernels_reference_f64(void);

/* The table of an instruction set, or NULL if this build or this CPU lacks it. */
const hd_kernels *hd__kernels_of(const char *isa);

/* The table of plans for a GPU; its slots are empty. */
const hd_kernels *hd__kernels_cuda(void);

/* The best table of this CPU, or the one that `isa` names ("scalar", "avx2", "avx512", "neon", "reference"; NULL or ""
 * is the best). NULL if the named one is unknown or cannot run here; *why is the reason then (static text). */
HD_TOOLS_API const hd_kernels *hd__kernels_select(const char *isa, const char **why);

/* `table` with the products of --precision bf16: there is one for the reference and one for "avx512" on CPUs with
 * AVX512_BF16, and they give the same bits. NULL if there is none; *why is the reason then. */
const hd_kernels *hd__kernels_bf16(const hd_kernels *table, const char **why);
