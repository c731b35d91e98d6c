/* The chunk phases: the owner of a chunk reduces its gradient over all shards and writes the new weights once.
 *
 * Work goes tile by tile: a deferred gradient is formed, a direct one reduced from the partial sums of all threads,
 * sums of earlier micro-batches are added, and the optimizer's update reads the tile while it is in cache. A tile of
 * a deferred gradient has whole rows where they fit and fills the second-level cache, since the update waits
 * for the third-level cache and long runs of memory are prefetched; a tile of a direct gradient stays in the
 * first-level cache. Neighbouring chunks of one parameter are handled as one run of rows; that changes no sum.
 *
 * With several hosts each host first computes its partial sums over its shards. After the exchange the partial sums
 * of all hosts are reduced as those of threads are. */
#include <math.h>
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"

/* Rows of one parameter that a thread owns. */
typedef struct run {
  int param;
  int32_t j0, j1;
  int32_t packed; /* rows before this one have their packed copies, from j0 on */
  int64_t columns;
} run;

/* A tile of a parameter's gradient: rows x columns, `ld` apart in the thread's memory; `elem` is the first one's
 * place in the parameter, its rows are `elem_ld` apart there. Deferred: rows j0 .. j1-1 and columns k0 .. k1-1;
 * whole rows are one row of the tile. A convolution's columns are channels there, and its rows have a row for each tap.
 * again: the tile before had the same columns. kept: the update leaves the new weights in the thread's tile as well,
 * and packed copies are made from there. */
typedef struct tile {
  int64_t ld, rows, columns;
  int64_t elem, elem_ld;
  int32_t j0, j1, k0, k1;
  bool again, kept;
} tile;

static int next_run(const thread_at *at, int32_t chunk, run *out) {
  const hd_plan *plan = at->exec->plan;
  if (chunk >= at->thread->chunk_hi)
    return 0;
  const hd_chunk *first = &plan->chunks[chunk];
  *out =
      (run){.param = first->param, .j0 = first->j0, .packed = first->j0, .columns = plan->params[first->param].columns};
  int32_t end = chunk;
  while (end < at->thread->chunk_hi && plan->chunks[end].param == first->param)
    out->j1 = plan->chunks[end++].j1;
  return end - chunk;
}

void hd__exec_note_not_finite(const thread_at *at, int param) {
  at->thread->flags |= HD_FLAG_NOT_FINITE;
  int32_t *bad = &at->exec->result.bad_param[at->index];
  if (*bad < 0 || param < *bad)
    *bad = param;
}

/* The group is no longer trained. */
static void keep_version(const hd_update *u) {
  memcpy(u->w1, u->w, (size_t)u->count * sizeof *u->w);
  for (int s = 0; s < HD_MAX_STATES; s++)
    if (u->s[s])
      memcpy(u->s1[s], u->s[s], (size_t)u->count * sizeof *u->w);
}

static bool has_packed_copies(const hd_plan *plan, int param) {
  for (int i = 0; i < plan->packed_count; i++)
    if (plan->packed[i].param == param)
      return true;
  return false;
}

/* What of a parameter's new version leaves the caches before it is read: weights stay if packed copies are made of
 * them, unless they are kept elsewhere for that, or if a later phase reads them. */
static hd_streams streams(const hd_exec_cpu *exec, int param, bool kept) {
  if (!exec->streams)
    return HD_STREAM_NONE;
  const bool read = exec->plan->params[param].is_matrix || (!kept && has_packed_copies(exec->plan, param));
  return read ? HD_STREAM_STATES : HD_STREAM_ALL;
}

/* A gradient, the factor that clips it, and where the new weights are written as well, or NULL. */
typedef struct gradient {
  const float *g;
  float scale;
  float *kept;
} gradient;

static void update_elems(const thread_at *at, int param, const gradient *of, int64_t elem, int64_t count) {
  const hd_store *store = at->exec->store;
  hd_hyper hyper = at->step->hyper[at->exec->plan->params[param].group];
  hyper.grad_scale = of->scale;
  int from = at->buffer, to = 1 - at->buffer;
  hd_update update = {.g = of->g,
                      .w = store->weights[from] + elem,
                      .w1 = store->weights[to] + elem,
                      .count = count,
                      .hyper = &hyper,
                      .streams = streams(at->exec, param, of->kept != NULL),
                      .kept = of->kept};
  const hd_plan_group *group = &at->exec->plan->update.groups[at->exec->plan->params[param].group];
  for (int s = 0; s < group->states; s++)
    if (group->kept >> s & 1) {
      update.s[s] = store->state[from][s] + elem;
      update.s1[s] = store->state[to][s] + elem;
    }
  if (hyper.idle)
    keep_version(&update);
  else if (at->exec->plan->kernels->update[group->update](&update))
    hd__exec_note_not_finite(at, param);
  if (hyper.idle || !at->exec->plan->params[param].is_matrix)
    hd__exec_average(at, elem, count);
}

static void add_row(float *restrict sum, const float *restrict earlier, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    sum[i] = earlier[i] + sum[i];
}

static void copy_row(float *restrict to, const float *restrict from, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    to[i] = from[i];
}

/* Adds the sums of earlier micro-batches to a use's tile at `g`; before the last one, pushes the sum on their stack. */
static void add_earlier_micro_batches(const thread_at *at, const hd_plan_use *use, float *g, const tile *t) {
  const hd_exec_cpu *exec = at->exec;
  int64_t all = exec->plan->size.grad_elems;
  for (int64_t r = 0; r < t->rows; r++) {
    float *row = g + r * t->ld, *stack = exec->micro_batch_sum + use->offset + t->elem + r * t->elem_ld;
    for (int m = 0; m < at->layout->merges; m++)
      add_row(row, stack + (at->layout->level + at->layout->merges - 1 - m) * all, t->columns);
    if (!at->last)
      copy_row(stack + at->layout->level * all, row, t->columns);
  }
}

/* Passes a tile of the finished gradient to the gradient buffer or to the update. */
static void finish_tile(const thread_at *at, hd_phase_kind kind, int param, const tile *t) {
  for (int64_t r = 0; r < t->rows; r++) {
    float *g = at->thread->tile + r * t->ld;
    int64_t elem = at->exec->plan->params[param].offset + t->elem + r * t->elem_ld;
    if (kind == HD_PHASE_REDUCE_NORM)
      copy_row(at->exec->norm.grad + elem, g, t->columns);
    else
      update_elems(at, param, &(gradient){g, 1, t->kept ? g : NULL}, elem, t->columns);
  }
}

/* g: the tile, its rows `ld` apart. */
static void form_tile(const thread_at *at, const hd_plan_use *use, const hd_reduction *reduction, float *g, int64_t ld,
                      const tile *t) {
  hd_form form = {.g = use->geom,
                  .x = hd__place_at(&use->x, at->thread->origin),
                  .dy = hd__place_at(&use->dy, at->thread->origin),
                  .x_stride = use->x.stride,
                  .dy_stride = use->dy.stride,
                  .reduction = reduction,
                  .output = use->output,
                  .j0 = t->j0,
                  .j1 = t->j1,
                  .k0 = t->k0,
                  .k1 = t->k1,
                  .out = g,
                  .out_ld = ld,
                  .scratch = at->thread->scratch,
                  .again = t->again};
  use->form(&form);
}

static void sum_tile(const thread_at *at, const hd_plan_use *use, const hd_reduction *reduction, float *g,
                     const tile *t) {
  const hd_exec_cpu *exec = at->exec;
  const float *term[HD_MAX_SHARDS];
  for (int32_t i = 0; i < reduction->count; i++) {
    const int32_t p = reduction->step[i].term;
    term[p] = at->layout->stage[use->stage].sum[p] + use->direct + t->elem;
  }
  exec->plan->kernels->reduce(g, term, reduction, t->columns);
}

/* Reduces the partial sums of all hosts. */
static void reduce_hosts(const thread_at *at, float *sum, int64_t first, int64_t count) {
  const hd_exec_cpu *exec = at->exec;
  const hd_reduction *reduction = &at->layout->hosts->sums.reduction;
  const float *term[HD_MAX_SHARDS];
  for (int32_t p = 0; p < reduction->count; p++)
    term[p] = exec->hosts.sum + p * exec->plan->size.grad_elems + first;
  exec->plan->kernels->reduce(sum, term, reduction, count);
}

void hd__exec_sum_owned(const thread_at *at, int64_t first, int64_t count) {
  reduce_hosts(at, at->exec->hosts.owned_sum + first, first, count);
}

/* With owners the sum is already there; else each host reduces. */
static void load_or_reduce_hosts(const thread_at *at, const hd_plan_use *use, float *g, const tile *t) {
  if (at->exec->hosts.has_owners)
    copy_row(g, at->exec->hosts.owned_sum + use->offset + t->elem, t->columns);
  else
    reduce_hosts(at, g, use->offset + t->elem, t->columns);
}

/* A tile of each of this host's partial sums. */
static void sum_host_tile(const thread_at *at, int param, const tile *t) {
  const hd_exec_cpu *exec = at->exec;
  const hd_plan_param *way = &exec->plan->params[param];
  const host_layout *hosts = at->layout->hosts;
  const int32_t first = hosts->sums.first[exec->exchange.host],
                sums = hosts->sums.first[exec->exchange.host + 1] - first;
  for (int u = 0; u < way->uses; u++)
    for (int32_t c = 0; c < sums; c++) {
      const hd_plan_use *use = &exec->plan->update.uses[way->first_use + u];
      float *sum = exec->hosts.sum + (first + c) * exec->plan->size.grad_elems + use->offset + t->elem;
      if (way->deferred)
        form_tile(at, use, &hosts->shards[c], sum, t->elem_ld, t);
      else
        sum_tile(at, use, &at->layout->stage[use->stage].host_sums[c], sum, t);
    }
}

/* Each use's gradient is summed over all samples; then the uses are added, the last node's first. */
static void reduce_tile(const thread_at *at, hd_phase_kind kind, int param, const tile *t) {
  const hd_plan_param *way = &at->exec->plan->params[param];
  if (at->sums_host) {
    sum_host_tile(at, param, t);
    return;
  }
  for (int u = 0; u < way->uses && hd__exec_trains(at, param); u++) {
    const hd_plan_use *use = &at->exec->plan->update.uses[way->first_use + u];
    float *g = u == 0 ? at->thread->tile : at->thread->other_tile;
    if (at->layout->hosts)
      load_or_reduce_hosts(at, use, g, t);
    else if (way->deferred)
      form_tile(at, use, &at->layout->shards, g, t->ld, t);
    else
      sum_tile(at, use, &at->layout->stage[use->stage].sums.reduction, g, t);
    add_earlier_micro_batches(at, use, g, t);
    for (int64_t r = 0; u > 0 && r < t->rows; r++)
      add_row(at->thread->tile + r * t->ld, g + r * t->ld, t->columns);
  }
  if (at->last)
    finish_tile(at, kind, param, t);
}

/* The most columns of a rectangle that all uses of a parameter can form, and that a tile can hold. */
static int32_t widest_rectangle(const hd_plan *plan, const hd_plan_param *param, int32_t taps) {
  int32_t widest = TILE_ELEMS / taps / 16 * 16;
  widest = widest < TILE_COLUMNS ? widest : TILE_COLUMNS;
  for (int u = 0; u < param->uses; u++) {
    const int32_t limit = plan->kernels->form_columns[plan->update.uses[param->first_use + u].op];
    widest = limit && limit < widest ? limit : widest;
  }
  return widest;
}

/* Packed copies of some rows of a parameter; w: its first element. */
static void pack_rows_of(const thread_at *at, int param, const float *w, int32_t j0, int32_t j1) {
  const hd_plan *plan = at->exec->plan;
  for (const hd_plan_packed *copy = plan->packed; copy < plan->packed + plan->packed_count; copy++)
    if (copy->param == param)
      copy->pack(&copy->geom, w, at->exec->store->packed + copy->offset, j0, j1);
}

/* The same from one of the two buffers of weights. */
static void pack_rows(const thread_at *at, int param, int buffer, int32_t j0, int32_t j1) {
  pack_rows_of(at, param, at->exec->store->weights[buffer] + at->exec->plan->params[param].offset, j0, j1);
}

void hd__exec_pack_new(const thread_at *at, int param, int32_t j0, int32_t j1) {
  pack_rows(at, param, 1 - at->buffer, j0, j1);
}

/* Whether a parameter is packed once it is updated. The new weights of a matrix are written by a later phase, unless
 * its group is no longer trained: then they are the old ones, or lookahead's slow ones. */
static bool is_packed_now(const thread_at *at, int param) {
  const hd_plan_param *way = &at->exec->plan->params[param];
  return !way->is_matrix || at->step->hyper[way->group].idle;
}

/* Rows before j1 are updated: packs them, whole blocks of copies at a time. */
static void pack_updated(const thread_at *at, run *r, int64_t j1) {
  const int32_t end = j1 < r->j1 ? (int32_t)(j1 / PACK_ROWS * PACK_ROWS) : r->j1;
  if (end <= r->packed || !is_packed_now(at, r->param))
    return;
  pack_rows(at, r->param, 1 - at->buffer, r->packed, end);
  r->packed = end;
}

/* The tile has the new weights of whole rows. */
static void pack_tile(const thread_at *at, const run *r, const tile *t) {
  pack_rows_of(at, r->param, at->thread->tile - t->j0 * r->columns, t->j0, t->j1);
}

/* How the deferred gradient of a run is divided into tiles: parts of `width` columns, so many rows at a time; where the
 * weights are packed from a tile, it ends with a whole block of the copies. */
typedef struct tiling {
  int32_t taps, columns, parts, width, rows;
  bool packs;
} tiling;

/* Rows of a tile are a multiple of these, so that the kernels' blocks are whole. */
static int32_t block_rows(const hd_plan *plan, const hd_plan_param *param) {
  int32_t rows = TILE_ROWS;
  for (int u = 0; u < param->uses; u++) {
    const int32_t wanted = plan->kernels->form_rows[plan->update.uses[param->first_use + u].op];
    rows = wanted > rows ? wanted : rows;
  }
  return rows;
}

static tiling tiling_of(const hd_plan *plan, const run *r) {
  const hd_plan_param *way = &plan->params[r->param];
  const hd_plan_use *use = &plan->update.uses[way->first_use];
  tiling t = {.taps = hd_form_taps(use->geom, use->output)};
  t.columns = (int32_t)r->columns / t.taps;
  const int32_t widest = widest_rectangle(plan, way, t.taps), block = block_rows(plan, way);
  t.parts = (t.columns + widest - 1) / widest;
  t.width = ((t.columns + t.parts - 1) / t.parts + 15) / 16 * 16;
  const int32_t fitting = TILE_ELEMS / t.width / t.taps;
  const int32_t most = fitting > block ? fitting / block * block : fitting;
  const int32_t tiles = (r->j1 - r->j0 + most - 1) / most, even = (r->j1 - r->j0 + tiles - 1) / tiles;
  t.rows = even > block ? (even + block - 1) / block * block : even;
  return t;
}

static tile tile_at(const tiling *of, const run *r, int32_t j, int32_t k) {
  const int32_t whole = (j + of->rows) / PACK_ROWS * PACK_ROWS, end = of->packs && whole > j ? whole : j + of->rows;
  tile t = {.j0 = j,
            .j1 = end < r->j1 ? end : r->j1,
            .k0 = k,
            .k1 = k + of->width < of->columns ? k + of->width : of->columns,
            .elem = (int64_t)j * of->taps * of->columns + k,
            .ld = of->parts > 1 ? of->width : of->columns,
            .elem_ld = of->columns};
  const int32_t rows = (t.j1 - t.j0) * of->taps;
  t.rows = of->parts > 1 ? rows : 1;
  t.columns = (int64_t)(of->parts > 1 ? 1 : rows) * (t.k1 - t.k0);
  return t;
}

static void reduce_deferred(const thread_at *at, hd_phase_kind kind, run *r) {
  const bool updates = at->last && kind == HD_PHASE_REDUCE_UPDATE;
  const hd_plan_param *way = &at->exec->plan->params[r->param];
  tiling of = tiling_of(at->exec->plan, r);
  of.packs = updates && at->exec->streams && of.parts == 1 && of.rows >= PACK_ROWS &&
             has_packed_copies(at->exec->plan, r->param) && !way->is_matrix && !at->step->hyper[way->group].idle;
  for (int32_t k = 0; k < of.columns; k += of.width)
    for (int32_t j = r->j0, end; j < r->j1; j = end) {
      tile t = tile_at(&of, r, j, k);
      end = t.j1;
      t.again = j > r->j0 && way->uses == 1 && !at->sums_host;
      t.kept = of.packs;
      reduce_tile(at, kind, r->param, &t);
      if (of.packs)
        pack_tile(at, r, &t);
      else if (updates && t.k1 == of.columns)
        pack_updated(at, r, t.j1);
    }
}

static void reduce_direct(const thread_at *at, hd_phase_kind kind, run *r) {
  const bool updates = at->last && kind == HD_PHASE_REDUCE_UPDATE;
  for (int64_t e = r->j0 * r->columns, end = r->j1 * r->columns; e < end; e += REDUCE_ELEMS) {
    tile t = {.rows = 1, .columns = e + REDUCE_ELEMS < end ? REDUCE_ELEMS : end - e, .elem = e};
    reduce_tile(at, kind, r->param, &t);
    if (updates)
      pack_updated(at, r, (e + t.columns) / r->columns);
  }
}

void hd__exec_pack(const thread_at *at) {
  run r;
  for (int32_t c = at->thread->chunk_lo, taken; (taken = next_run(at, c, &r)) > 0; c += taken)
    pack_rows(at, r.param, at->buffer, r.j0, r.j1);
}

static void sum_squares_of_chunks(const thread_at *at) {
  const hd_plan *plan = at->exec->plan;
  for (int32_t c = at->thread->chunk_lo; c < at->thread->chunk_hi; c++) {
    const hd_chunk *chunk = &plan->chunks[c];
    const hd_plan_param *param = &plan->params[chunk->param];
    at->exec->norm.of_chunk[c] = 0;
    if (param->is_running || !hd__exec_trains(at, chunk->param))
      continue;
    const float *g = at->exec->norm.grad + param->offset + chunk->j0 * param->columns;
    at->exec->norm.of_chunk[c] = plan->kernels->sum_squares(g, (chunk->j1 - chunk->j0) * param->columns);
  }
}

/* A thread's share of a weight's outputs, in whole chunks of rows. It is not what the thread updates, which may be all
 * of one weight and nothing of another; of a weight that is most of a network it is nearly the same. */
static void take_outputs(call_rows *rows, const thread_at *at, const hd_plan_param *weight) {
  const hd_exec_cpu *exec = at->exec;
  const hd_chunk *chunk = exec->plan->chunks + weight->first_chunk;
  int begin, end;
  hd__exec_threads_of_stage(&begin, &end, exec, exec->exchange.host, 0);
  const int32_t *speed = exec->division.speed ? exec->division.speed + begin : NULL;
  const int64_t lo = hd__tree_share(weight->chunks, speed, end - begin, at->index - begin),
                hi = hd__tree_share(weight->chunks, speed, end - begin, at->index - begin + 1);
  rows->j0 = lo < hi ? chunk[lo].j0 : 0;
  rows->j1 = lo < hi ? chunk[hi - 1].j1 : 0;
}

/* A thread's share of the outputs, for this host's samples of the micro-batch. */
void hd__exec_outputs(const thread_at *at, const hd_phase *phase) {
  const hd_plan *plan = at->exec->plan;
  const hd_plan_call *call = &plan->calls[phase->call0];
  const int64_t row0 = hd__exec_first_row(at, at->exec->exchange.host),
                row1 = hd__exec_first_row(at, at->exec->exchange.host + 1);
  hd__exec_gather(at, phase - 1);
  if (row0 == row1 || !hd__exec_needs(at, call))
    return;
  call_rows rows = hd__exec_rows(at, row1 - row0, row0, at->layout->first + row0);
  take_outputs(&rows, at, &plan->params[plan->graph->values[plan->graph->nodes[call->node].in[1]].param]);
  if (rows.j0 == rows.j1)
    return;
  hd__exec_call(at, call, &rows);
  hd__trace_leaf(at->thread->track, HD_SLICE_CALL, call->node);
}

void hd__exec_whole(const thread_at *at, const hd_phase *phase) {
  const hd_plan_call *call = &at->exec->plan->calls[phase->call0];
  const int64_t row0 = hd__exec_first_row(at, at->exec->exchange.host),
                row1 = hd__exec_first_row(at, at->exec->exchange.host + 1);
  hd__exec_gather(at, phase - 1);
  if (at->index != at->exec->exchange.first || row0 == row1)
    return;
  const call_rows rows = hd__exec_rows(at, row1 - row0, row0, at->layout->first + row0);
  hd__exec_call(at, call, &rows);
  hd__trace_leaf(at->thread->track, HD_SLICE_CALL, call->node);
}

void hd__exec_reduce(const thread_at *at, hd_phase_kind kind) {
  if (at->layout->shards.count == 0)
    return; /* a micro-batch without samples adds nothing */
  if (at->exec->plan->gathers)
    hd__exec_gather(at, &at->exec->plan->phases[at->exec->plan->segments - 1]);
  bool updates = at->last && kind == HD_PHASE_REDUCE_UPDATE;
  run r;
  for (int32_t c = at->thread->chunk_lo, taken; (taken = next_run(at, c, &r)) > 0; c += taken) {
    if (at->exec->plan->params[r.param].is_running) {
      if (updates)
        hd__exec_running(at, r.param, r.j0, r.j1);
      continue;
    }
    if (at->exec->plan->params[r.param].deferred && !at->layout->hosts)
      reduce_deferred(at, kind, &r);
    else
      reduce_direct(at, kind, &r);
    hd__trace_leaf(at->thread->track, updates ? HD_SLICE_REDUCE_UPDATE : HD_SLICE_REDUCE, r.param);
  }
  if (at->last && kind == HD_PHASE_REDUCE_NORM) {
    sum_squares_of_chunks(at);
    hd__trace_leaf(at->thread->track, HD_SLICE_NORM, 0);
  }
}

void hd__exec_sum_host(const thread_at *at) {
  thread_at here = *at;
  run r;
  here.sums_host = true;
  for (int32_t c = at->thread->chunk_lo, taken; (taken = next_run(at, c, &r)) > 0; c += taken) {
    if (at->exec->plan->params[r.param].is_running || !hd__exec_trains(at, r.param))
      continue;
    if (at->exec->plan->params[r.param].deferred)
      reduce_deferred(&here, HD_PHASE_REDUCE_NORM, &r);
    else
      reduce_direct(&here, HD_PHASE_REDUCE_NORM, &r);
    hd__trace_leaf(at->thread->track, HD_SLICE_REDUCE, r.param);
  }
}

double hd__exec_sum_pairs(double *sum, int count) {
  for (; count > 1; count = (count + 1) / 2)
    for (int i = 0; i < count / 2 + count % 2; i++)
      sum[i] = 2 * i + 1 < count ? sum[2 * i] + sum[2 * i + 1] : sum[2 * i];
  return sum[0];
}

/* The factor by which clipping multiplies gradients, from all chunks' sums of squares; NaN if their sum is not
 * finite. */
static float clip_factor(const thread_at *at) {
  double *norms = at->thread->norms;
  for (int i = 0; i < at->exec->plan->chunk_count; i++)
    norms[i] = at->exec->norm.of_chunk[i];
  const double sum = hd__exec_sum_pairs(norms, at->exec->plan->chunk_count);
  const double factor = at->exec->settings.clip_norm / (sqrt(sum) + 1e-6);
  return isfinite(sum) ? (float)(factor < 1 ? factor : 1) : NAN;
}

void hd__exec_update(const thread_at *at) {
  float scale = clip_factor(at);
  if (!isfinite(scale)) {
    at->thread->flags |=
        HD_FLAG_NOT_FINITE; /* some gradient is NaN or infinite: the update of its chunk names it below */
    scale = 1;
  }
  run r;
  for (int32_t c = at->thread->chunk_lo, taken; (taken = next_run(at, c, &r)) > 0; c += taken) {
    int64_t first = at->exec->plan->params[r.param].offset + r.j0 * r.columns;
    if (at->exec->plan->params[r.param].is_running) {
      hd__exec_running(at, r.param, r.j0, r.j1);
      continue;
    }
    const gradient clipped = {at->exec->norm.grad + first, scale, NULL};
    update_elems(at, r.param, &clipped, first, (r.j1 - r.j0) * r.columns);
    pack_updated(at, &r, r.j1);
    hd__trace_leaf(at->thread->track, HD_SLICE_UPDATE, r.param);
  }
}
