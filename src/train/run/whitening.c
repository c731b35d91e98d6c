/* Second moments of patches, summed in groups of samples, and the filters made from them: see whitening.h.
 *
 *     samples    number floor(i * count / n), i < n: evenly spaced in the order of the file
 *     a group    GROUP samples: each element a chain in double from +0, samples ascending, patches row by row: acc =
 *                acc + a * b; the product of two floats is exact in double
 *     the sum    a chain of the groups in order, from +0; divided by the number of patches
 *
 * One thread sums a group, so no sum depends on the number of threads. A patch has its elements in file order: channel,
 * row, column. */
#include "train/run/whitening.h"

#include <math.h>

#include "base/alloc.h"
#include "base/symmetric_eigen.h"
#include "platform/fpmode.h"

enum { GROUP = 32, PAIR = 4 /* columns that are summed together */ };

typedef struct whitening {
  const hd_geom *g;
  const hd_first_samples *from;
  int64_t samples;       /* that are used */
  int size, columns;     /* numbers of a patch; in whole PAIRs */
  int64_t sample_elems;  /* floats */
  int64_t round_samples; /* those in memory, a group for each thread */
  float *pixels;         /* round_samples, as images lie in memory */
  double *sums;          /* a matrix for each thread */
  double *patch;         /* a patch for each thread */
  double *total;
} whitening;

static void whitening_fini(whitening *w) {
  hd__free(w->pixels);
  hd__free(w->sums);
  hd__free(w->patch);
  hd__free(w->total);
}

/* Reads samples first .. first + round_samples - 1 of those that are used. */
static hd_status read_round(whitening *w, hd_ctx *ctx, int64_t first) {
  const hd_feed *seen = w->from->seen;
  const int32_t outputs = hd__feed_seen(seen).outputs;
  HD_OWNED void *scratch = hd__malloc_aligned((size_t)hd__feed_scratch_bytes(seen) + 1);
  HD_OWNED float *target = hd__malloc(((size_t)outputs + 1) * sizeof *target);
  HD_TRY(HD_ALLOCATED(scratch && target, ctx, "out of memory for the samples of first weights"));
  w->round_samples = w->samples - first < w->round_samples ? w->samples - first : w->round_samples;
  for (int64_t i = 0; i < w->round_samples; i++) {
    const int64_t place = (first + i) * w->from->count / w->samples;
    const hd_slots to = {.x = w->pixels + i * w->sample_elems,
                         .x_stride = w->sample_elems,
                         .target = outputs > 0 ? target : NULL, /* else labels, of which a mask has many */
                         .target_stride = outputs + 1,
                         .outputs = outputs,
                         .scratch = scratch};
    HD_TRY(hd__feed_read(seen, ctx, 0, w->from->members ? w->from->members[place] : place, 1, &to));
  }
  return HD_OK;
}

static void take_patch(double *patch, const whitening *w, const float *image, int y, int x) {
  const hd_geom *g = w->g;
  for (int c = 0; c < g->ci; c++)
    for (int ky = 0; ky < g->window.kh; ky++)
      for (int kx = 0; kx < g->window.kw; kx++)
        *patch++ = (double)
            image[((int64_t)(y + ky * g->window.dilation[0]) * g->wi + x + kx * g->window.dilation[1]) * g->ci + c];
}

/* Adds the products of a patch's numbers to the columns from the diagonal on. */
static void add_patch(double *sums, const double *patch, int size, int columns) {
  for (int i = 0; i < size; i++, sums += columns) {
    const double a = patch[i];
    for (int j = i / PAIR * PAIR; j < columns; j += PAIR)
      for (int k = 0; k < PAIR; k++)
        sums[j + k] = sums[j + k] + a * patch[j + k];
  }
}

/* Rows and columns of patches in an image. */
static int rows_of(const hd_geom *g) { return g->hi - g->window.dilation[0] * (g->window.kh - 1); }
static int columns_of(const hd_geom *g) { return g->wi - g->window.dilation[1] * (g->window.kw - 1); }

/* The thread's group of the round. */
static void add_group(void *self, int thread) {
  const whitening *w = self;
  const int64_t matrix = (int64_t)w->size * w->columns, first = (int64_t)thread * GROUP;
  double *const sums = w->sums + thread * matrix, *const patch = w->patch + (int64_t)thread * w->columns;
  for (int64_t i = 0; i < matrix; i++)
    sums[i] = 0;
  for (int64_t i = first; i < first + GROUP && i < w->round_samples; i++)
    for (int y = 0; y < rows_of(w->g); y++)
      for (int x = 0; x < columns_of(w->g); x++) {
        take_patch(patch, w, w->pixels + i * w->sample_elems, y, x);
        add_patch(sums, patch, w->size, w->columns);
      }
}

static hd_status make_room(whitening *w, hd_ctx *ctx, int threads) {
  const size_t matrix = (size_t)w->size * (size_t)w->columns;
  w->round_samples = (int64_t)threads * GROUP;
  w->pixels = hd__malloc((size_t)(w->round_samples * w->sample_elems) * sizeof *w->pixels);
  w->sums = hd__malloc((size_t)threads * matrix * sizeof *w->sums);
  w->patch = hd__calloc((size_t)threads * (size_t)w->columns, sizeof *w->patch);
  w->total = hd__calloc(matrix, sizeof *w->total);
  return HD_ALLOCATED(w->pixels && w->sums && w->patch && w->total, ctx,
                      "out of memory for the patches of %lld samples", (long long)w->round_samples);
}

/* total: the mean product of each two numbers of a patch. */
static hd_status add_all(whitening *w, hd_ctx *ctx) {
  const int64_t matrix = (int64_t)w->size * w->columns;
  for (int64_t first = 0; first < w->samples; first += w->round_samples) {
    HD_TRY(read_round(w, ctx, first));
    HD_TRY(hd__threads_run(w->from->threads, ctx, add_group, w));
    for (int64_t group = 0; group * GROUP < w->round_samples; group++)
      for (int64_t i = 0; i < matrix; i++)
        w->total[i] = w->total[i] + w->sums[group * matrix + i];
  }
  const double patches = (double)w->samples * rows_of(w->g) * columns_of(w->g);
  for (int64_t i = 0; i < matrix; i++)
    w->total[i] = w->total[i] / patches;
  return HD_OK;
}

static hd_status make_filters(float *weight, hd_ctx *ctx, const whitening *w, double eps) {
  const int n = w->size;
  const size_t square = (size_t)n * (size_t)n;
  HD_OWNED double *matrix = hd__malloc((2 * square + (size_t)n) * sizeof *matrix);
  HD_TRY(HD_ALLOCATED(matrix, ctx, "out of memory for the eigenvectors of patches of %d numbers", n));
  double *const vectors = matrix + square, *const values = vectors + square;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      matrix[i * n + j] = i < j ? w->total[i * w->columns + j] : w->total[j * w->columns + i];
  hd__symmetric_eigen(values, vectors, matrix, n);
  for (int i = 0; i < w->g->co; i++) {
    const int from = i % n;
    const double length = sqrt((values[from] > 0 ? values[from] : 0) + eps);
    for (int k = 0; k < n; k++)
      weight[i * n + k] = (float)((i < n ? vectors[from * n + k] : -vectors[from * n + k]) / length);
  }
  return HD_OK;
}

hd_status hd__whiten(float **weight, hd_ctx *ctx, const hd_node *conv, const hd_first_samples *samples) {
  const hd_geom *g = &conv->geom;
  const int64_t wanted = conv->attrs.init_samples;
  HD_RELEASED(whitening_fini)
  whitening w = {.g = g,
                 .from = samples,
                 .samples = wanted < samples->count ? wanted : samples->count,
                 .size = g->ci * g->window.kh * g->window.kw,
                 .sample_elems = (int64_t)g->ci * g->hi * g->wi};
  w.columns = (w.size + PAIR - 1) / PAIR * PAIR;
  HD_TRY(make_room(&w, ctx, hd__threads_count(samples->threads)));
  HD_TRY(HD_NEW_RAW(*weight, (int64_t)g->co * w.size, ctx, "out of memory for the weight of %s", conv->name));
  const uint64_t mode = hd__fpmode_enter();
  hd_status status = add_all(&w, ctx);
  HD_THEN(status, make_filters(*weight, ctx, &w, (double)conv->attrs.init_eps));
  hd__fpmode_leave(mode);
  return status;
}
