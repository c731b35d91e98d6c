/* Linear layers by a BLAS: see native.h. Gradients of weights are formed in the reduction by heddle's kernels, which
 * sum few samples a shard and are never slower. */
#include "kernel/native/native.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { TABLES = 16, ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* The numbers of rows of a shard and of weights of a layer from which on the library's product is faster than heddle's
 * kernel; measured, see docs/performance.md. For other core types the library was not faster in any measurement. */
typedef struct bound {
  const char *core;
  int64_t rows, forward_weights, dx_weights;
} bound;

static const bound bounds[] = {{"SkylakeX", 256, 1 << 20, 1 << 22},
                               {"Cooperlake", 256, 1 << 20, 1 << 22},
                               {"SapphireRapids", 256, 1 << 20, 1 << 22}};

/* A table that was made, and what for. */
typedef struct made {
  const hd_kernels *of;
  bool wins; /* for shards of that size some products are the library's */
  hd_kernels table;
} made;

static struct {
  pthread_mutex_t lock;
  hd_sgemm_fn *sgemm;
  const bound *bound; /* NULL: never */
  made table[TABLES];
  int count;
} native = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int forward_wins(const hd_geom *g) { return (int64_t)g->ci * g->co >= native.bound->forward_weights; }
static int dx_wins(const hd_geom *g) { return (int64_t)g->ci * g->co >= native.bound->dx_weights; }

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

static void take(hd_kernels *table, hd_op op, hd_run_fn *run, int (*wins)(const hd_geom *g)) {
  table->run[op] = run;
  table->supports[op] = wins;
  table->per_shard[op] = 1;
}

static void fill(made *m) {
  m->table = *m->of;
  m->table.others = m->of;
  memset(m->table.run_outputs, 0, sizeof m->table.run_outputs);
  if (!m->wins)
    return;
  take(&m->table, HD_OP_linear, linear, forward_wins);
  take(&m->table, HD_OP_linear_dx, linear_dx, dx_wins);
}

static const hd_kernels *find(const hd_kernels *table, bool wins) {
  for (int i = 0; i < native.count; i++)
    if (native.table[i].of == table && native.table[i].wins == wins)
      return &native.table[i].table;
  if (native.count == TABLES)
    return table;
  made *m = &native.table[native.count++];
  *m = (made){.of = table, .wins = wins};
  fill(m);
  return &m->table;
}

const hd_kernels *hd__kernels_native(const hd_kernels *table, hd_sgemm_fn *sgemm, const char *core, int64_t rows) {
  pthread_mutex_lock(&native.lock);
  if (native.count == 0) {
    native.sgemm = sgemm;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
      if (!strcmp(bounds[i].core, core))
        native.bound = &bounds[i];
  }
  const hd_kernels *found = find(table, native.bound && rows >= native.bound->rows);
  pthread_mutex_unlock(&native.lock);
  return found;
}
