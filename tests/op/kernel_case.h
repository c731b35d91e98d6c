/* One kernel call as a test sees it: what each argument is, guarded memory for it, random contents.
 *
 * A case is made from an operation, a geometry, a number of rows and a seed; it owns its inputs. Outputs are made
 * afresh for each run. Every buffer is guarded; an input's padding is filled with NaN, so that a kernel that lets
 * padding into a sum is seen; outputs start as garbage, so that a kernel that leaves one out is seen. */
#ifndef HD_TEST_KERNEL_CASE_H
#define HD_TEST_KERNEL_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op/op.h"
#include "op/guarded.h"

/* A stream of random numbers. */
typedef struct random_stream {
  uint32_t seed, drawn;
  uint32_t block[4]; /* the four numbers among which the next one is */
} random_stream;

uint32_t random_below(random_stream *random, uint32_t bound);
float random_float(random_stream *random); /* (-1, 1) */

typedef enum arg_kind { ARG_NONE, ARG_FLOATS, ARG_BYTES, ARG_LABELS } arg_kind;

typedef struct arg {
  arg_kind kind;
  bool rows;      /* one slot a row; else one array */
  int64_t elems;  /* of a slot, or of the array */
  int64_t stride; /* of a slot, padding included */
} arg;

/* How inputs are filled. ZEROS: many zeros of both signs. SPECIAL: NaN and infinities too. */
typedef enum fill_kind { FILL_PLAIN, FILL_ZEROS, FILL_SPECIAL } fill_kind;

typedef struct kernel_case {
  hd_op op;
  hd_geom g;
  int64_t rows;
  float divisor;
  hd_draw draw;
  arg in[HD_MAX_IN], out[HD_MAX_OUT];
  guarded input[HD_MAX_IN];
} kernel_case;

/* Whether a sample of the operation's rule sets a field of the geometry, such as offsetof(hd_geom, co): what none sets
 * stays as it is in samples. */
bool kernel_case_uses(hd_op op, size_t field);

/* Of a flat value of `in` elements and one of `out`. */
hd_geom flat_geom(int32_t in, int32_t out);

/* Completes a geometry; returns whether the operation's rule takes it. */
bool kernel_case_takes(hd_op op, hd_geom *g);

/* A random shape: a sample of the operation's rule with other sides, channels and settings. `most`: elements of the
 * input and of the output; and 40 times as many operations. */
void random_geom(hd_geom *g, hd_op op, int64_t most, random_stream *random);

/* `drop`: leave out what may be absent (bias, argmax). */
void kernel_case_create(kernel_case *c, hd_op op, const hd_geom *g, int64_t rows, fill_kind fill, bool drop,
                        uint32_t seed);
void kernel_case_destroy(kernel_case *c);

/* The packed copy of the weight for a table, packed in two calls; empty if the table has none. */
guarded kernel_case_pack(const kernel_case *c, const hd_kernels *table);

/* The layer that an operation belongs to; of a kernel of its gradient also what that reads, else NULL. */
const hd_backward *kernel_case_backward(hd_op *layer, hd_op op);

/* What to call it in a message. */
void kernel_case_text(char *text, size_t size, const kernel_case *c, const hd_kernels *table);

typedef struct kernel_result {
  guarded output[HD_MAX_OUT];
} kernel_result;

/* Runs the case through a table: packs, gives scratch. Row-wise operations may be split: `cuts` neighbouring calls.
 * Returns NULL, or what went wrong (a canary or an input was written). */
const char *kernel_case_run(kernel_result *out, const kernel_case *c, const hd_kernels *table, int cuts);
/* Runs a case whose kernel merges (hd_kernels.merges), with random sums in the slots, and compares with `plain`, the
 * result of kernel_case_run, and additions. Returns NULL, or what went wrong. */
const char *kernel_case_merge(const kernel_case *c, const hd_kernels *table, const kernel_result *plain, int merges,
                              random_stream *random);
void kernel_result_destroy(kernel_result *result);

/* Whether two results agree bit for bit, padding excluded; any NaN equals any other. */
bool kernel_results_equal(const kernel_case *c, const kernel_result *a, const kernel_result *b);
bool floats_equal(const float *a, const float *b, int64_t count);

#endif
