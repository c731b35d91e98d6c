/* Linear layers by a BLAS: see native.h. Gradients of weights are formed in the reduction by heddle's kernels, which
 * sum few samples a shard and are never slower. */
#include "kernel/native/native.h"

#include <pthread.h>
#include <string.h>

enum { TABLES = 8, ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* The numbers of rows of a shard and of weights of a layer from which on the library's product is faster than heddle's
 * kernel; measured, see docs/performance.md. For other core types the library was not faster in any measurement. */
typedef struct bound {
  const char *core;
  int64_t forward_rows, forward_weights, dx_rows, dx_weights;
} bound;

static const bound bounds[] = {{"SkylakeX", 256, 1 << 20, 256, 1 << 22},
                               {"Cooperlake", 256, 1 << 20, 256, 1 << 22},
                               {"SapphireRapids", 256, 1 << 20, 256, 1 << 22}};

static struct {
  pthread_mutex_t lock;
  hd_sgemm_fn *sgemm;
  const bound *bound; /* NULL: never */
  const hd_kernels *of[TABLES];
  hd_kernels table[TABLES];
  int count;
} native = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int forward_wins(const hd_geom *g, int64_t rows) {
  return native.bound && rows >= native.bound->forward_rows && (int64_t)g->ci * g->co >= native.bound->forward_weights;
}

static int dx_wins(const hd_geom *g, int64_t rows) {
  return native.bound && rows >= native.bound->dx_rows && (int64_t)g->ci * g->co >= native.bound->dx_weights;
}

/* y = x * w^T by the library; then + bias and the ReLU. */
static void linear(const hd_call *call) {
  const hd_geom *g = call->g;
  const float *bias = call->in[2];
  native.sgemm(ROW_MAJOR, NO_TRANS, TRANS, (int)call->rows, g->co, g->ci, 1, call->in[0], (int)call->in_stride[0],
               call->in[1], g->ci, 0, call->out[0], (int)call->out_stride[0]);
  for (int64_t n = 0; n < call->rows; n++) {
    float *y = (float *)call->out[0] + n * call->out_stride[0];
    for (int j = 0; j < g->co; j++) {
      float sum = bias ? y[j] + bias[j] : y[j];
      y[j] = g->relu && sum < 0 ? 0 : sum;
    }
  }
}

/* dx = dy * w. */
static void linear_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  native.sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, (int)call->rows, g->ci, g->co, 1, call->in[0], (int)call->in_stride[0],
               call->in[1], g->ci, 0, call->out[0], (int)call->out_stride[0]);
}

static const hd_kernels *add(const hd_kernels *table) {
  hd_kernels *out = &native.table[native.count];
  native.of[native.count++] = table;
  *out = *table;
  out->shard_run[HD_OP_linear] = linear;
  out->shard_wins[HD_OP_linear] = forward_wins;
  out->shard_run[HD_OP_linear_dx] = linear_dx;
  out->shard_wins[HD_OP_linear_dx] = dx_wins;
  return out;
}

const hd_kernels *hd__kernels_native(const hd_kernels *table, hd_sgemm_fn *sgemm, const char *core) {
  const hd_kernels *found = NULL;
  pthread_mutex_lock(&native.lock);
  if (native.count == 0) {
    native.sgemm = sgemm;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
      if (!strcmp(bounds[i].core, core))
        native.bound = &bounds[i];
  }
  for (int i = 0; i < native.count; i++)
    if (native.of[i] == table)
      found = &native.table[i];
  if (!found)
    found = add(table);
  pthread_mutex_unlock(&native.lock);
  return found;
}
