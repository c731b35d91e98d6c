/* Groups: every collective over every type, operation and size against plain loops, with 1 to 7 ranks; work in the
 * background, sub-groups, messages, buffers that are shared; calls that differ, timeouts, and ranks that leave.
 *
 * Ranks are threads here, see rank_scene.h. */
#include "scratch.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "comm/mailbox.h"
#include "comm/rank_sums.h"
#include "heddle/ddp.h"
#include "rank_scene.h"
#include "tap.h"

/* ---- what comes and goes ---- */

/* A thousand sub-groups with a buffer each, of all ranks or of some: the file is as long as after the first ones, give
 * or take what a fast rank takes before a slow one has given back, and no page is left in it. */
static void come_and_go(member *m) {
  enum { GROUPS = 1000, FIRST = 4, PAGE_BLOCKS = 8, PIECES = 4 };
  struct stat before = {0}, after = {0};
  int64_t longest = 0;
  for (int i = 0; i < GROUPS; i++) {
    const int32_t ranks[] = {i % 3, (i + 1) % 3, (i + 2) % 3};
    hd_group *some;
    void *memory;
    float x[3000] = {1};
    m->wrong += hd_group_new(&some, m->group, &m->ctx, ranks, i % 2 ? 3 : 2) != HD_OK;
    if (some) {
      m->wrong += hd_group_alloc(&memory, some, &m->ctx, 100000 + 1000 * (size_t)(i % 7)) != HD_OK;
      ((char *)memory)[99999] = 1;
      m->wrong += hd_group_all_reduce(x, some, &m->ctx, x, 3000, HD_F32, HD_REDUCE_SUM) != HD_OK;
      longest = some->memory.bytes > (size_t)longest ? (int64_t)some->memory.bytes : longest;
      hd_group_free(some, memory);
      hd_group_destroy(some);
    }
    if (i != FIRST && i != GROUPS - 1)
      continue;
    m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
    fstat(hd__local_group_fd(m->local), i == FIRST ? &before : &after);
    m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
  }
  m->wrong += after.st_size > before.st_size + PIECES * 2 * longest;
  m->wrong += after.st_blocks > before.st_blocks + 2 * PIECES * PAGE_BLOCKS;
  if (m->wrong)
    diag("file of %lld bytes and %lld blocks, then %lld and %lld", (long long)before.st_size,
         (long long)before.st_blocks, (long long)after.st_size, (long long)after.st_blocks);
}

/* ---- against plain loops ---- */

static const int64_t counts[] = {0, 1, 2, 3, 17, 64, 1000, 4097, 100003, 300001};

static double number(int rank, int64_t i, hd_dtype dtype) {
  const int64_t mix = (i * 7919 + rank * 104729 + 13) % 1009;
  return dtype == HD_U8                       ? (double)(mix % 23)
         : dtype == HD_F32 || dtype == HD_F64 ? (double)mix / 7 - 60
                                              : (double)(mix - 500);
}

static void set(void *x, int64_t i, hd_dtype dtype, double value) {
  switch (dtype) {
  case HD_F32: ((float *)x)[i] = (float)value; break;
  case HD_F64: ((double *)x)[i] = value; break;
  case HD_I32: ((int32_t *)x)[i] = (int32_t)value; break;
  case HD_I64: ((int64_t *)x)[i] = (int64_t)value; break;
  case HD_U8: ((uint8_t *)x)[i] = (uint8_t)value; break;
  }
}

static double get(const void *x, int64_t i, hd_dtype dtype) {
  switch (dtype) {
  case HD_F32: return ((const float *)x)[i];
  case HD_F64: return ((const double *)x)[i];
  case HD_I32: return ((const int32_t *)x)[i];
  case HD_I64: return (double)((const int64_t *)x)[i];
  case HD_U8: return ((const uint8_t *)x)[i];
  }
  return NAN;
}

static double reduce_two(double a, double b, hd_reduce_op op) {
  return op == HD_REDUCE_PROD ? a * b : op == HD_REDUCE_MIN ? fmin(a, b) : op == HD_REDUCE_MAX ? fmax(a, b) : a + b;
}

/* What one element comes to: one rank after the other, rounded to the type each time. */
static void expect(void *out, int64_t i, int ranks, int64_t at, hd_dtype dtype, hd_reduce_op op) {
  if (dtype == HD_F32) {
    float sum = (float)number(0, at, dtype);
    for (int r = 1; r < ranks; r++)
      sum = (float)reduce_two(sum, (float)number(r, at, dtype), op);
    ((float *)out)[i] = op == HD_REDUCE_AVG ? sum / (float)ranks : sum;
    return;
  }
  if (dtype == HD_F64) {
    double sum = number(0, at, dtype);
    for (int r = 1; r < ranks; r++)
      sum = reduce_two(sum, number(r, at, dtype), op);
    ((double *)out)[i] = op == HD_REDUCE_AVG ? sum / ranks : sum;
    return;
  }
  int64_t whole = (int64_t)number(0, at, dtype);
  for (int r = 1; r < ranks; r++) {
    const int64_t x = (int64_t)number(r, at, dtype);
    whole = op == HD_REDUCE_PROD  ? (int64_t)((uint64_t)whole * (uint64_t)x)
            : op == HD_REDUCE_MIN ? (x < whole ? x : whole)
            : op == HD_REDUCE_MAX ? (x > whole ? x : whole)
                                  : whole + x;
  }
  if (dtype == HD_I64)
    ((int64_t *)out)[i] = op == HD_REDUCE_AVG ? whole / ranks : whole;
  if (dtype == HD_I32)
    ((int32_t *)out)[i] = op == HD_REDUCE_AVG ? (int32_t)whole / ranks : (int32_t)(uint32_t)(uint64_t)whole;
  if (dtype == HD_U8)
    ((uint8_t *)out)[i] = op == HD_REDUCE_AVG ? (uint8_t)((uint8_t)whole / ranks) : (uint8_t)whole;
}

typedef struct buffers {
  char *input, *output, *want;
} buffers;

static buffers make_buffers(const member *m, int64_t count, hd_dtype dtype) {
  const size_t bytes = ((size_t)count * (size_t)m->ranks + 1) * hd__dtype_size(dtype);
  buffers b = {malloc(bytes), malloc(bytes), malloc(bytes)};
  for (int64_t i = 0; i < count * m->ranks; i++)
    set(b.input, i, dtype, number(m->rank, i, dtype));
  memset(b.output, 0xa5, bytes);
  memset(b.want, 0xa5, bytes);
  return b;
}

static void free_buffers(buffers b) {
  free(b.input);
  free(b.output);
  free(b.want);
}

static void check(member *m, hd_status status, const buffers *b, int64_t elems, int64_t count, hd_dtype dtype,
                  const char *what) {
  if (status == HD_OK && memcmp(b->output, b->want, (size_t)(elems + 1) * hd__dtype_size(dtype)) == 0)
    return;
  if (m->wrong++ == 0) {
    int64_t at = 0;
    while (at < elems && get(b->output, at, dtype) == get(b->want, at, dtype))
      at++;
    diag("%s of %lld %s, rank %d of %d: status %d %s; element %lld is %g, expected %g", what, (long long)count,
         hd__dtype_name(dtype), m->rank, m->ranks, (int)status, status ? m->ctx.message : "", (long long)at,
         get(b->output, at, dtype), get(b->want, at, dtype));
  }
}

/* A buffer has room for one element more than `elems` where it matters: it must stay as it was. */
static void try_reductions(member *m, int64_t count, hd_dtype dtype, hd_reduce_op op) {
  const int root = (int)(count % m->ranks);
  buffers b = make_buffers(m, count, dtype);
  for (int64_t i = 0; i < count; i++)
    expect(b.want, i, m->ranks, i, dtype, op);
  hd_status status = hd_group_all_reduce(b.output, m->group, &m->ctx, b.input, count, dtype, op);
  check(m, status, &b, count, count, dtype, "all_reduce");
  memcpy(b.output, b.input, (size_t)count * hd__dtype_size(dtype));
  status = hd_group_all_reduce(b.output, m->group, &m->ctx, b.output, count, dtype, op);
  check(m, status, &b, count, count, dtype, "all_reduce in place");
  memset(b.output, 0xa5, (size_t)count * hd__dtype_size(dtype));
  if (m->rank != root)
    memset(b.want, 0xa5, (size_t)count * hd__dtype_size(dtype));
  status = hd_group_reduce(m->rank == root ? b.output : NULL, m->group, &m->ctx, b.input, count, dtype, op, root);
  check(m, status, &b, count, count, dtype, "reduce");
  for (int64_t i = 0; i < count; i++)
    expect(b.want, i, m->ranks, m->rank * count + i, dtype, op);
  status = hd_group_reduce_scatter(b.output, m->group, &m->ctx, b.input, count, dtype, op);
  check(m, status, &b, count, count, dtype, "reduce_scatter");
  free_buffers(b);
}

static void try_copies(member *m, int64_t count, hd_dtype dtype) {
  const int n = m->ranks, root = (int)((count + 1) % n);
  const size_t size = hd__dtype_size(dtype);
  buffers b = make_buffers(m, count, dtype);
  for (int64_t i = 0; i < count; i++)
    set(b.want, i, dtype, number(root, i, dtype));
  if (m->rank == root)
    memcpy(b.output, b.input, (size_t)count * size);
  hd_status status = hd_group_broadcast(b.output, m->group, &m->ctx, count, dtype, root);
  check(m, status, &b, count, count, dtype, "broadcast");
  for (int64_t i = 0; i < count; i++)
    set(b.want, i, dtype, number(root, m->rank * count + i, dtype));
  status = hd_group_scatter(b.output, m->group, &m->ctx, m->rank == root ? b.input : NULL, count, dtype, root);
  check(m, status, &b, count, count, dtype, "scatter");
  for (int64_t i = 0; i < count * n; i++)
    set(b.want, i, dtype, number((int)(count ? i / count : 0), i % (count ? count : 1), dtype));
  status = hd_group_all_gather(b.output, m->group, &m->ctx, b.input, count, dtype);
  check(m, status, &b, count * n, count, dtype, "all_gather");
  memset(b.output, 0xa5, (size_t)(count * n) * size);
  if (m->rank != root)
    memset(b.want, 0xa5, (size_t)(count * n) * size);
  status = hd_group_gather(b.output, m->group, &m->ctx, b.input, count, dtype, root);
  check(m, status, &b, count * n, count, dtype, "gather");
  for (int64_t i = 0; i < count * n; i++)
    set(b.want, i, dtype, number((int)(i / (count ? count : 1)), m->rank * count + i % (count ? count : 1), dtype));
  status = hd_group_all_to_all(b.output, m->group, &m->ctx, b.input, count, dtype);
  check(m, status, &b, count * n, count, dtype, "all_to_all");
  free_buffers(b);
}

static void try_everything(member *m) {
  for (int d = 0; d < HD_GROUP_DTYPE_COUNT; d++)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
      if (counts[c] > 5000 && d != HD_F32 && d != HD_U8)
        continue;
      for (int op = 0; op < HD_REDUCE_OP_COUNT; op++)
        if (counts[c] < 5000 || op <= HD_REDUCE_AVG)
          try_reductions(m, counts[c], (hd_dtype)d, (hd_reduce_op)op);
      try_copies(m, counts[c], (hd_dtype)d);
      m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
    }
}

/* ---- special numbers ---- */

static void try_nan(member *m) {
  float x[3] = {m->rank == 0 ? NAN : 1, m->rank == m->ranks - 1 ? NAN : 1, 1e-40f}, y[3];
  const hd_reduce_op ops[] = {HD_REDUCE_MIN, HD_REDUCE_MAX, HD_REDUCE_SUM};
  for (int i = 0; i < 3; i++) {
    m->wrong += hd_group_all_reduce(y, m->group, &m->ctx, x, 3, HD_F32, ops[i]) != HD_OK;
    m->wrong += y[0] == y[0] || y[1] == y[1];
  }
  m->wrong += m->ranks > 1 && y[2] != 0;
  int32_t big = INT32_MAX, sum;
  m->wrong += hd_group_all_reduce(&sum, m->group, &m->ctx, &big, 1, HD_I32, HD_REDUCE_SUM) != HD_OK;
  m->wrong += sum != (int32_t)((uint32_t)INT32_MAX * (uint32_t)m->ranks);
}

/* ---- shared buffers ---- */

static void try_buffers(member *m) {
  enum { COUNT = 70001 };
  float *shared, want[4];
  if (hd_group_alloc((void **)&shared, m->group, &m->ctx, COUNT * sizeof *shared) != HD_OK) {
    m->wrong++;
    return;
  }
  for (int mixed = 0; mixed < 3; mixed++) { /* all there; some of the ranks, with parts and whole */
    const int64_t count = mixed == 1 ? 1000 : COUNT;
    float *own = malloc(COUNT * sizeof *own), *x = mixed && m->rank % 2 ? own : shared;
    for (int64_t i = 0; i < count; i++)
      x[i] = (float)number(m->rank, i, HD_F32);
    m->wrong += hd_group_all_reduce(x, m->group, &m->ctx, x, count, HD_F32, HD_REDUCE_SUM) != HD_OK;
    for (int64_t i = 0; i < count; i++) {
      expect(want, 0, m->ranks, i, HD_F32, HD_REDUCE_SUM);
      m->wrong += x[i] != want[0];
    }
    /* somewhere in the middle, too */
    m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
    for (int64_t i = 0; i < 101; i++)
      x[i + 33] = (float)number(m->rank, i, HD_F32);
    m->wrong += hd_group_all_reduce(x + 33, m->group, &m->ctx, x + 33, 101, HD_F32, HD_REDUCE_MAX) != HD_OK;
    expect(want, 0, m->ranks, 100, HD_F32, HD_REDUCE_MAX);
    m->wrong += x[133] != want[0];
    free(own);
  }
  shared[COUNT - 1] = 7;
  const pid_t child = fork(); /* its copy is not the group's */
  if (child == 0) {
    hd_group_free(m->group, shared);
    _exit(0);
  }
  m->wrong += child < 0 || waitpid(child, NULL, 0) != child || shared[COUNT - 1] != 7;
  hd_group_free(m->group, shared);
  for (int i = 0; i < HD_GROUP_BUFFERS + 3; i++) { /* entries are used again */
    m->wrong += hd_group_alloc((void **)&shared, m->group, &m->ctx, 8) != HD_OK;
    hd_group_free(m->group, shared);
  }
}

/* More than a number of 16 bits counts, and then one that is used. */
static void try_many_buffers(member *m) {
  enum { TIMES = UINT16_MAX + 3 };
  float *shared;
  for (int i = 0; i < TIMES && m->wrong == 0; i++) {
    m->wrong += hd_group_alloc((void **)&shared, m->group, &m->ctx, sizeof *shared) != HD_OK;
    if (i < TIMES - 1)
      hd_group_free(m->group, shared);
  }
  if (m->wrong)
    return;
  *shared = (float)(1 + m->rank);
  m->wrong += hd_group_all_reduce(shared, m->group, &m->ctx, shared, 1, HD_F32, HD_REDUCE_SUM) != HD_OK || *shared != 1;
  hd_group_free(m->group, shared);
}

/* ---- in the background ---- */

static void try_work(member *m) {
  enum { CALLS = 40, COUNT = 5000 };
  static float x[MOST_RANKS][CALLS][COUNT];
  hd_work *work[CALLS];
  float want[1];
  for (int c = 0; c < CALLS; c++) {
    for (int i = 0; i < COUNT; i++)
      x[m->rank][c][i] = (float)number(m->rank, i + c, HD_F32);
    const hd_group_call call = {.struct_bytes = sizeof call,
                                .kind = HD_GROUP_ALL_REDUCE,
                                .output = x[m->rank][c],
                                .input = x[m->rank][c],
                                .count = COUNT,
                                .dtype = HD_F32,
                                .op = HD_REDUCE_SUM};
    m->wrong += hd_group_start(&work[c], m->group, &m->ctx, &call) != HD_OK;
  }
  while (!hd_work_is_done(work[CALLS / 2])) /* it ends: with HD_E_TIMEOUT, if with nothing else */
    sched_yield();
  int32_t last = m->rank, all[MOST_RANKS];
  m->wrong += hd_group_all_gather(all, m->group, &m->ctx, &last, 1, HD_I32) != HD_OK; /* behind them */
  m->wrong += all[m->ranks - 1] != m->ranks - 1;
  for (int c = 0; c < CALLS; c++) {
    m->wrong += !hd_work_is_done(work[c]);
    m->wrong += hd_work_wait(work[c], &m->ctx) != HD_OK;
    for (int i = 0; i < COUNT; i++) {
      expect(want, 0, m->ranks, i + c, HD_F32, HD_REDUCE_SUM);
      m->wrong += x[m->rank][c][i] != want[0];
    }
  }
}

/* ---- messages ---- */

static void try_messages(member *m) {
  const int next = (m->rank + 1) % m->ranks, before = (m->rank + m->ranks - 1) % m->ranks;
  const int64_t sizes[] = {0, 1, 5, 8192, 100001};
  for (int k = 0; k < 5 && m->ranks > 1; k++) {
    const int64_t n = sizes[k];
    double *out = malloc((size_t)(n + 1) * sizeof *out), *in = calloc((size_t)n + 1, sizeof *in);
    for (int64_t i = 0; i < n; i++)
      out[i] = number(m->rank, i, HD_F64);
    /* All send and receive at once: a large one needs both sides, so the receive is started first. */
    hd_work *work;
    const hd_group_call call = {.struct_bytes = sizeof call,
                                .kind = HD_GROUP_RECV,
                                .output = in,
                                .count = n,
                                .dtype = HD_F64,
                                .peer = before,
                                .timeout_s = WAIT_S};
    m->wrong += hd_group_start(&work, m->group, &m->ctx, &call) != HD_OK;
    m->wrong += hd_group_send(m->group, &m->ctx, out, n, HD_F64, next) != HD_OK;
    m->wrong += hd_work_wait(work, &m->ctx) != HD_OK;
    for (int64_t i = 0; i < n; i++)
      m->wrong += in[i] != number(before, i, HD_F64);
    free(out);
    free(in);
  }
}

/* Rank 0 receives from all, in another order; the messages of each sender stay in order. */
static void try_many_messages(member *m) {
  enum { EACH = 20 };
  hd_work *work[MOST_RANKS * EACH];
  int32_t got[MOST_RANKS][EACH];
  int works = 0;
  if (m->rank == 0) {
    for (int r = m->ranks - 1; r > 0; r--)
      for (int i = 0; i < EACH; i++) {
        const hd_group_call call = {.struct_bytes = sizeof call,
                                    .kind = HD_GROUP_RECV,
                                    .output = &got[r][i],
                                    .count = 1,
                                    .dtype = HD_I32,
                                    .peer = r,
                                    .timeout_s = WAIT_S};
        m->wrong += hd_group_start(&work[works++], m->group, &m->ctx, &call) != HD_OK;
      }
    for (int w = 0; w < works; w++)
      m->wrong += hd_work_wait(work[w], &m->ctx) != HD_OK;
    for (int r = 1; r < m->ranks; r++)
      for (int i = 0; i < EACH; i++)
        m->wrong += got[r][i] != 1000 * r + i;
  } else {
    for (int32_t i = 0; i < EACH; i++) {
      const int32_t x = 1000 * m->rank + i;
      m->wrong += hd_group_send(m->group, &m->ctx, &x, 1, HD_I32, 0) != HD_OK;
    }
  }
}

/* ---- sub-groups ---- */

static void try_groups(member *m) {
  int32_t odd[MOST_RANKS], reversed[MOST_RANKS], odds = 0;
  hd_group *some, *all;
  for (int r = 0; r < m->ranks; r++) {
    reversed[r] = m->ranks - 1 - r;
    if (r % 2)
      odd[odds++] = r;
  }
  if (odds) {
    m->wrong += hd_group_new(&some, m->group, &m->ctx, odd, odds) != HD_OK;
    m->wrong += (some != NULL) != (m->rank % 2 == 1);
    int32_t one = 1, sum = 0;
    if (some) {
      m->wrong += hd_group_all_reduce(&sum, some, &m->ctx, &one, 1, HD_I32, HD_REDUCE_SUM) != HD_OK;
      m->wrong += sum != odds || hd_group_size(some) != odds || hd_group_rank(some) != m->rank / 2;
    }
    hd_group_destroy(some);
  }
  m->wrong += hd_group_new(&all, m->group, &m->ctx, reversed, m->ranks) != HD_OK;
  int32_t local = m->rank, ranks[MOST_RANKS];
  m->wrong += hd_group_all_gather(ranks, all, &m->ctx, &local, 1, HD_I32) != HD_OK;
  for (int r = 0; r < m->ranks; r++)
    m->wrong += ranks[r] != reversed[r];
  hd_group *inner; /* of the group, by its numbers */
  m->wrong += hd_group_new(&inner, all, &m->ctx, (int32_t[]){0}, 1) != HD_OK;
  m->wrong += (inner != NULL) != (m->rank == m->ranks - 1);
  hd_group_destroy(inner);
  hd_group_destroy(all);
}

/* A new group is made behind the collectives that were started, within the parent's own timeout; a child makes none. */
static void try_new_behind_work(member *m) {
  enum { COUNT = 1 << 20 };
  float *x = malloc(COUNT * sizeof *x), want[1];
  int32_t list[MOST_RANKS];
  hd_group *made = NULL, *none = NULL;
  hd_work *work;
  for (int i = 0; i < COUNT; i++)
    x[i] = (float)number(m->rank, i, HD_F32);
  for (int r = 0; r < m->ranks; r++)
    list[r] = r;
  const hd_group_call call = {.struct_bytes = sizeof call,
                              .kind = HD_GROUP_ALL_REDUCE,
                              .output = x,
                              .input = x,
                              .count = COUNT,
                              .dtype = HD_F32,
                              .timeout_s = 2 * WAIT_S};
  m->wrong += hd_group_start(&work, m->group, &m->ctx, &call) != HD_OK;
  m->wrong += hd_group_new(&made, m->group, &m->ctx, list, m->ranks) != HD_OK || !made || !hd_work_is_done(work);
  m->wrong += m->group->call_timeout_s != WAIT_S;
  m->wrong += hd_work_wait(work, &m->ctx) != HD_OK;
  for (int i = 0; i < COUNT; i += 1009) {
    expect(want, 0, m->ranks, i, HD_F32, HD_REDUCE_SUM);
    m->wrong += x[i] != want[0];
  }
  free(x);
  const pid_t child = fork();
  int end = 1;
  if (child == 0)
    _exit(hd_group_new(&none, m->group, NULL, list, m->ranks) != HD_E_USAGE);
  m->wrong += child < 0 || waitpid(child, &end, 0) != child || end != 0;
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
  hd_group_destroy(made);
}

/* ---- what is refused ---- */

static void keep(member *m, hd_status status) {
  m->status = status;
  snprintf(m->text, sizeof m->text, "%s", m->ctx.message);
}

/* One rank has freed what the others still add in. */
static void freed_buffer(member *m) {
  float *first, *second;
  if (hd_group_alloc((void **)&first, m->group, &m->ctx, 4000) != HD_OK ||
      hd_group_alloc((void **)&second, m->group, &m->ctx, 4000) != HD_OK)
    return;
  if (m->rank == 1)
    hd_group_free(m->group, first);
  float *of_rank = m->rank == 1 ? second : first;
  keep(m, hd_group_all_reduce(of_rank, m->group, &m->ctx, of_rank, 1000, HD_F32, HD_REDUCE_SUM));
}

static void other_count(member *m) {
  float x[8] = {0};
  keep(m, hd_group_all_reduce(x, m->group, &m->ctx, x, m->rank == 1 ? 5 : 4, HD_F32, HD_REDUCE_SUM));
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK; /* the group stays usable */
}

static void other_kind(member *m) {
  double x[4] = {0};
  keep(m, m->rank == 1 ? hd_group_barrier(m->group, &m->ctx) : hd_group_broadcast(x, m->group, &m->ctx, 4, HD_F64, 0));
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
}

static void other_type(member *m) {
  double x[4] = {0};
  keep(m, hd_group_all_reduce(x, m->group, &m->ctx, x, 4, m->rank == 1 ? HD_I32 : HD_F32, HD_REDUCE_SUM));
}

static void other_op(member *m) {
  float x[4] = {0};
  keep(m, hd_group_all_reduce(x, m->group, &m->ctx, x, 4, HD_F32, m->rank == 1 ? HD_REDUCE_MAX : HD_REDUCE_SUM));
}

static void other_root(member *m) {
  float x[4] = {0};
  keep(m, hd_group_broadcast(x, m->group, &m->ctx, 4, HD_F32, m->rank == 1));
}

static void bad_call(member *m) {
  float x[4] = {0};
  keep(m, hd_group_all_reduce(x, m->group, &m->ctx, x, m->rank == 1 ? -1 : 4, HD_F32, HD_REDUCE_SUM));
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
}

static void bad_list(member *m) {
  hd_group *g;
  const int32_t list[2] = {0, m->rank == 1 ? 0 : 1};
  keep(m, hd_group_new(&g, m->group, &m->ctx, list, 2));
  m->wrong += g != NULL || hd_group_barrier(m->group, &m->ctx) != HD_OK;
}

static void other_list(member *m) {
  hd_group *g;
  const int32_t list[1] = {m->rank == 1};
  keep(m, hd_group_new(&g, m->group, &m->ctx, list, 1));
  m->wrong += g != NULL || hd_group_barrier(m->group, &m->ctx) != HD_OK;
}

/* A fragment whose sender states too great a length is not copied beyond the receiver's buffer. */
static void long_fragment(member *m) {
  int32_t x[4] = {1, 2, 3, 4};
  if (m->rank == 1) {
    const uint32_t whole[4] = {4, 0, HD_I32, sizeof x}; /* count, type and length of the one fragment */
    hd_group_send(m->group, &m->ctx, x, 4, HD_I32, 0);
    size_t ignored;
    char *head = memmem(m->group->mailboxes, hd__mailboxes_bytes(&ignored, m->ranks), whole, sizeof whole);
    if (head)
      ((uint32_t *)(void *)head)[3] = 1 << 28;
  }
  hd_group_barrier(m->group, &m->ctx);
  if (m->rank == 0)
    keep(m, hd_group_recv(x, m->group, &m->ctx, 4, HD_I32, 1));
  else
    keep(m, hd_group_barrier(m->group, &m->ctx));
}

static void other_message(member *m) {
  int32_t x[8] = {0};
  if (m->rank == 1)
    hd_group_send(m->group, &m->ctx, x, 5, HD_I32, 0);
  else if (m->rank == 0)
    keep(m, hd_group_recv(x, m->group, &m->ctx, 4, HD_I32, 1));
  if (m->rank > 0) /* rank 0 never comes */
    keep(m, hd_group_barrier(m->group, &m->ctx));
}

static atomic_int slow_ones; /* until all others are done */

/* Rank 0 takes all blocks; then the others get its message, why there is no group and no buffer. */
static void no_block_left(member *m) {
  static const int32_t all[] = {0, 1, 2};
  static int32_t taken;
  hd_group *made;
  void *memory;
  while (m->rank == 0 && hd__local_group_allocate(&taken, m->local, NULL, 4 << 20, 1) == HD_OK) {
  }
  m->wrong += hd_group_new(&made, m->group, &m->ctx, all, 3) != HD_E_USAGE || made;
  keep(m, hd_group_alloc(&memory, m->group, &m->ctx, 100));
  if (m->rank == 0)
    hd__local_group_release(m->local, taken);
  m->wrong += hd_group_new(&made, m->group, &m->ctx, all, 3) != HD_OK;
  hd_group_destroy(made);
}

/* A session takes all ranks, in their order. */
static void session_of_another_group(member *m) {
  static const int32_t reversed[] = {2, 1, 0}, last[] = {2};
  hd_group *turned, *alone;
  hd_session *session;
  hd_config *config;
  m->wrong += hd_config_create(&config, &m->ctx) != HD_OK;
  m->wrong += hd_group_new(&turned, m->group, &m->ctx, reversed, 3) != HD_OK;
  m->wrong += hd_group_new(&alone, m->group, &m->ctx, last, 1) != HD_OK;
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
  keep(m, hd_ddp(&session, &m->ctx, config, alone ? alone : turned));
  m->wrong += session != NULL;
  hd_config_destroy(config);
  hd_group_destroy(alone);
  hd_group_destroy(turned);
}

/* The rank that ends the group is lost before it has said why, while this one waits for that. */
static _Thread_local hd_local_group *lost_at_yield;

int sched_yield(void) {
  hd_local_group *local = lost_at_yield;
  lost_at_yield = NULL;
  if (local)
    hd__local_group_give_up(local, "lost");
  return (int)syscall(SYS_sched_yield);
}

static void lost_while_ending(member *m) {
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
  if (m->rank == 0) {
    atomic_store(&m->group->end->state, HD_GROUP_ENDING);
    lost_at_yield = m->local;
  }
  while (m->status == HD_OK && m->rank > 0)
    keep(m, hd_group_barrier(m->group, &m->ctx));
  if (m->rank == 0)
    keep(m, hd__group_check(m->group, &m->ctx));
}

static void too_late(member *m) {
  if (m->rank == 1) {
    while (atomic_load(&slow_ones) < m->ranks - 1)
      usleep(1000);
    keep(m, hd_group_barrier(m->group, &m->ctx));
    return;
  }
  const hd_group_call call = {.struct_bytes = sizeof call, .kind = HD_GROUP_BARRIER, .timeout_s = 0.1};
  keep(m, hd_group_run(m->group, &m->ctx, &call));
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_E_TIMEOUT;
  atomic_fetch_add(&slow_ones, 1);
}

static void no_message(member *m) {
  int32_t x;
  const hd_group_call call = {.struct_bytes = sizeof call,
                              .kind = HD_GROUP_RECV,
                              .output = &x,
                              .count = 1,
                              .dtype = HD_I32,
                              .peer = 1,
                              .timeout_s = 0.1};
  if (m->rank == 0)
    keep(m, hd_group_run(m->group, &m->ctx, &call));
  else
    keep(m, hd_group_barrier(m->group, &m->ctx));
}

static void leaves(member *m) {
  if (m->rank != 1) {
    keep(m, hd_group_barrier(m->group, &m->ctx));
    return;
  }
  keep(m, HD_E_PEER);
  snprintf(m->text, sizeof m->text, "rank 1 has left");
}

/* Every rank got `status`, and all but those of `apart` have a message with `text`. */
static void refused(const char *name, scene_fn *fn, hd_status status, const char *text, int apart) {
  member all[3];
  int wrong = with_ranks(all, 3, fn), others = 0;
  for (int r = 0; r < 3; r++) {
    others += all[r].status != status || (r != apart && !strstr(all[r].text, text));
    others += strchr(all[r].text, '\n') != NULL;
  }
  if (!ok(wrong == 0 && others == 0, "%s: %s", name, all[0].text))
    for (int r = 0; r < 3; r++)
      diag("rank %d: %d wrong, status %d: %s", r, all[r].wrong, (int)all[r].status, all[r].text);
}

int main(void) {
  static const struct {
    const char *name;
    scene_fn *fn;
  } scenes[] = {{"every collective, type, operation and size", try_everything},
                {"NaN, underflow, overflow", try_nan},
                {"buffers that are shared", try_buffers},
                {"work in the background", try_work},
                {"messages in a ring", try_messages},
                {"many messages at once", try_many_messages},
                {"groups of some ranks", try_groups},
                {"a group that is made behind work in the background", try_new_behind_work}};
  static const int ranks[] = {1, 2, 3, 4, 7};
  member all[MOST_RANKS];
  for (size_t s = 0; s < sizeof scenes / sizeof *scenes; s++)
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks; r++)
      is_int(with_ranks(all, ranks[r], scenes[s].fn), 0, "%s, %d ranks", scenes[s].name, ranks[r]);
  is_int(with_ranks(all, 3, come_and_go), 0, "a thousand groups with buffers leave no memory behind");
  is_int(with_ranks(all, 1, try_many_buffers), 0, "buffers without end, one after the other: %s", all[0].ctx.message);
  refused("a buffer that a rank has freed", freed_buffer, HD_E_USAGE, "was already freed by rank 1", -1);
  refused("another count", other_count, HD_E_USAGE,
          "rank 0 calls all_reduce of 4 float32 by sum and rank 1 calls all_reduce of 5 float32 by sum", -1);
  refused("another collective", other_kind, HD_E_USAGE,
          "rank 0 calls broadcast of 4 float64 with root 0 and rank 1 calls barrier", -1);
  refused("another type", other_type, HD_E_USAGE, "rank 1 calls all_reduce of 4 int32 by sum", -1);
  refused("another operation", other_op, HD_E_USAGE, "rank 1 calls all_reduce of 4 float32 by max", -1);
  refused("another root", other_root, HD_E_USAGE, "rank 1 calls broadcast of 4 float32 with root 1", -1);
  refused("a call that cannot be made", bad_call, HD_E_USAGE, "rank 1 calls something with invalid arguments", 1);
  refused("a list that is wrong", bad_list, HD_E_USAGE, "rank 1 calls something with invalid arguments", 1);
  refused("another list", other_list, HD_E_USAGE, "rank 1 asks for a different one than rank 0", -1);
  refused("a fragment of another length", long_fragment, HD_E_USAGE, "a message of 4 int32 from rank 1 to rank 0", -1);
  refused("another message", other_message, HD_E_USAGE,
          "a message of 4 int32 from rank 1 to rank 0, found one of 5 int32", -1);
  refused("more blocks than there are", no_block_left, HD_E_USAGE,
          "expected at most 4096 blocks of memory that ranks share at a time, found more; destroy", -1);
  refused("a session of another group", session_of_another_group, HD_E_USAGE,
          "hd_ddp expects the group of all ranks, which hd_group_init made, found one of hd_group_new", -1);
  refused("a rank that is lost while it ends the group", lost_while_ending, HD_E_PEER, "gave up: lost", -1);
  refused("a rank that is late", too_late, HD_E_TIMEOUT, "rank 1 did not", -1);
  refused("a message that is never sent", no_message, HD_E_TIMEOUT, "expected rank 1 to send within 0.1 s", -1);
  refused("a rank that leaves", leaves, HD_E_PEER, "has left", -1);
  return done_testing();
}
