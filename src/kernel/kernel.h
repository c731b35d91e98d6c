/* The table of a device's kernels: filled by the reference, overridden where a device has faster ones.
 *
 * One rule holds for every kernel: an output element is ONE fixed chain of operations with explicit FMA that depends on
 * the element's inputs alone, never on the number of rows, the tile, the vector width or the thread. The chains are
 * listed in docs/determinism.md and repeated above each reference kernel. Any two tables give the same bits, except
 * those of --arithmetic native (kernel/native/native.h), whose sums are a library's.
 *
 * Memory. A value holds one slot per sample ("row"). Images are stored height, width, channel (channel fastest), flat
 * values as they are. Base pointers are 64-byte aligned; a slot of floats is padded to a multiple of 16 elements (a
 * slot of bytes to 64), the padding may be read and written, its content is undefined. Parameters and their gradients
 * are dense in memory order: a convolution's weight [co][kh][kw][ci / groups], a transposed one's [ci][kh][kw][co /
 * groups], a linear layer's [out][in] with `in` in the memory order of its input, a bias [co]; only their end is
 * padded, to 16 elements. Inputs and outputs never overlap, except where call.h says "in place".
 *
 * A kernel depends on no graph, plan, thread or model. It allocates nothing and cannot fail. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "base/reduction.h"
#include "kernel/array.h"
#include "kernel/call.h"
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

typedef void hd_run_fn(const hd_call *call);

/* Outputs j0 .. j1-1 of every row alone; writes nothing else, not even padding. */
typedef void hd_run_outputs_fn(const hd_call *call, int32_t j0, int32_t j1);

/* Forms a rectangle of a parameter's gradient directly from stored activations, over all shards of a micro-batch:
 * every element is, per step of the reduction, the chain over rows row0 .. row1-1 that the REDUCE kernel would
 * compute, pushed and merged on a stack in registers. out[(j - j0) * out_ld + (k - k0)] for rows j and columns
 * k, k0 a multiple of 16; output 1 is the bias: out[j - j0]. x and dy point at row 0 of the micro-batch. Of a
 * convolution columns are input channels, and a row has a row of the rectangle for each tap of the kernel:
 * out[((j - j0) * taps + tap) * out_ld + (k - k0)]. */
typedef struct hd_form {
  const hd_geom *g;
  const float *x, *dy;
  int64_t x_stride, dy_stride;
  const hd_reduction *reduction; /* count >= 1; `term` is not used */
  int32_t output;                /* 0 weight, 1 bias */
  int32_t j0, j1, k0, k1;
  float *out;
  int64_t out_ld;
  void *scratch; /* of this thread alone, see form_scratch_bytes */
  int32_t again; /* 1: the call before, with this scratch, was for other rows and all else the same */
} hd_form;

typedef void hd_form_fn(const hd_form *form);

/* The most columns of a convolution's rectangle; the most elements of any, so that a kernel of more than a sixteenth as
 * many taps forms none. */
enum { HD_FORM_CHANNELS = 128, HD_FORM_ELEMS = 50176 };

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

/* Of each channel, over a range of samples: the mean and the sum of squared deviations. */
typedef struct hd_stats {
  float *mean, *m2;
} hd_stats;

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
  int (*forms[HD_OP_COUNT])(const hd_geom *g); /* whether that is worth it, see hd_form_for; NULL: always */
  int32_t form_columns[HD_OP_COUNT];           /* the most columns of a rectangle; 0: any number */
  int32_t
      form_rows[HD_OP_COUNT]; /* rows of a rectangle are a multiple of these if that is possible; 0: of any number */
  int64_t (*form_scratch_bytes[HD_OP_COUNT])(const hd_geom *g, int64_t rows); /* for at most this many samples */
  hd_run_outputs_fn *run_outputs[HD_OP_COUNT]; /* ROWS operations whose output j needs row j of in[1] and in[2]
                                                  alone, else NULL */

  int (*merges[HD_OP_COUNT])(const hd_geom *g); /* REDUCE operations that add sums, see hd_call.merges; NULL: none */

  /* Of ROWS operations in tables of --arithmetic native: the order of sums may depend on the number of rows, so that a
   * call must be exactly one shard. */
  int per_shard[HD_OP_COUNT];

  /* Bytes of thread-local scratch that a call needs for any number of rows; NULL for none. */
  int64_t (*scratch_bytes[HD_OP_COUNT])(const hd_geom *g);

  /* Packed copies of in[1]: elements (0 or NULL: no copy), and the packing of rows j0 .. j1-1 (output
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
  void (*merge_stats)(hd_stats left, hd_stats right, int64_t count, hd_chan factors);

  /* A running average of weights: out[i] = fma(share, x[i] - average[i], average[i]). */
  void (*average)(float *out, const float *average, const float *x, float share, int64_t count);

  /* Sum of squares: 16 interleaved chains of double FMA (element i goes to chain i mod 16, from zero), then the fixed
   * tree t[i] = s[i] + s[i + 8], then + 4, + 2, + 1. */
  double (*sum_squares)(const float *x, int64_t count);

  /* out[i * channels + c] = fma((float)pixels[c * plane + i], scale[c], shift[c]) for i < plane: bytes in planes to
   * floats with channels fastest. */
  void (*gather_u8)(float *out, const uint8_t *pixels, int64_t plane, int32_t channels, const float *scale,
                    const float *shift);

  /* The same for floats instead of (float)pixels. */
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

/* The table whose slots compute this geometry: `table`, or its fallback. */
static inline const hd_kernels *hd_kernels_for(const hd_kernels *table, hd_op op, const hd_geom *g) {
  while (table->supports[op] && !table->supports[op](g))
    table = table->others;
  return table;
}

/* What forms the gradient of this geometry; NULL: shard sums are reduced. */
static inline hd_form_fn *hd_form_for(const hd_kernels *table, hd_op op, const hd_geom *g) {
  table = hd_kernels_for(table, op, g);
  return !table->forms[op] || table->forms[op](g) ? table->form[op] : NULL;
}

/* Rows of a formed rectangle for each row of the parameter. */
static inline int32_t hd_form_taps(const hd_geom *g, int32_t output) {
  return output == 0 ? g->window.kh * g->window.kw : 1;
}

static inline int64_t hd_form_scratch_bytes(const hd_kernels *table, hd_op op, const hd_geom *g, int64_t rows) {
  table = hd_kernels_for(table, op, g);
  return table->form_scratch_bytes[op] ? table->form_scratch_bytes[op](g, rows) : 0;
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

/* The table of plans for a GPU; it runs nothing. shard_rows: the most samples of a shard, if one GPU has all of
 * them. */
const hd_kernels *hd__kernels_cuda(int64_t shard_rows);

/* The best table of this CPU, or the one that `isa` names ("scalar", "avx2", "avx512", "neon", "reference"; NULL or ""
 * is the best). NULL if the named one is unknown or cannot run here; *why is the reason then (static text). */
HD_TOOLS_API const hd_kernels *hd__kernels_select(const char *isa, const char **why);

/* `table` with the kernels of --precision bf16 (kernel/bf16.h). Every table has one, and all give the same bits.
 * AVX-512 has two: the one with AMX is used if the CPU has AMX, unless `isa` (HEDDLE_ISA; NULL or "": the best) names
 * AVX-512 itself. */
const hd_kernels *hd__kernels_bf16(const hd_kernels *table, const char *isa);

/* Whether this CPU and system have AMX, and this build kernels for it. */
int hd__has_amx(void);
