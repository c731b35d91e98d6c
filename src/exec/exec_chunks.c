/* The chunk phases: the owner of a chunk folds its gradient over all shards and writes the new weights once.
 *
 * Work goes tile by tile, small enough to stay in the first-level cache: a deferred gradient is formed, a direct one
 * folded from all lanes' covers, sums of earlier batch parts are added, and the optimizer's update reads the tile while
 * it is hot. Neighbouring chunks of one parameter are handled as one run of rows; that changes no sum. */
#include <math.h>

#include "exec/exec_state.h"

/* Rows of one parameter that a lane owns. */
typedef struct run {
  int param;
  int32_t j0, j1;
  int64_t columns;
} run;

/* A tile of folded gradient: rows x columns at `g`, `ld` apart; `elem` is the first one's place in all parameters. */
typedef struct tile {
  float *g;
  int64_t ld, rows, columns;
  int64_t elem, elem_ld;
} tile;

static int next_run(const lane_at *at, int32_t chunk, run *out) {
  const hd_plan *plan = at->exec->plan;
  if (chunk >= at->lane->chunk_hi)
    return 0;
  const hd_chunk *first = &plan->chunks[chunk];
  *out =
      (run){.param = first->param, .j0 = first->j0, .columns = hd__param_columns(&plan->graph->params[first->param])};
  int32_t end = chunk;
  while (end < at->lane->chunk_hi && plan->chunks[end].param == first->param)
    out->j1 = plan->chunks[end++].j1;
  return end - chunk;
}

static void note_not_finite(const lane_at *at, int param) {
  at->lane->flags |= HD_FLAG_NOT_FINITE;
  if (at->lane->bad_param < 0 || param < at->lane->bad_param)
    at->lane->bad_param = param;
}

static void update_elems(const lane_at *at, int param, const float *g, int64_t elem, int64_t count, float grad_scale) {
  const hd_store *store = at->exec->store;
  hd_hyper hyper = at->step->hyper[at->exec->plan->params[param].group];
  hyper.grad_scale = grad_scale;
  int from = at->half, to = 1 - at->half;
  hd_update update = {
      .g = g, .w = store->weights[from] + elem, .w1 = store->weights[to] + elem, .count = count, .hyper = &hyper};
  if (store->directory->states > 0) {
    update.m = store->state[from][0] + elem;
    update.m1 = store->state[to][0] + elem;
  }
  if (store->directory->states > 1) {
    update.v = store->state[from][1] + elem;
    update.v1 = store->state[to][1] + elem;
  }
  if (at->exec->plan->kernels->update[at->exec->settings.update](&update))
    note_not_finite(at, param);
}

static void add_row(float *restrict sum, const float *restrict earlier, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    sum[i] = earlier[i] + sum[i];
}

static void copy_row(float *restrict to, const float *restrict from, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    to[i] = from[i];
}

/* Adds earlier parts' sums, then hands the tile on: to the stack of part sums, to the gradient buffer, or to the
 * update. */
static void finish_tile(const lane_at *at, hd_phase_kind kind, int param, const tile *t) {
  const hd_exec *exec = at->exec;
  int64_t all = exec->plan->trained_elems;
  for (int64_t r = 0; r < t->rows; r++) {
    float *g = t->g + r * t->ld;
    int64_t elem = t->elem + r * t->elem_ld;
    for (int m = 0; m < at->layout->merges; m++)
      add_row(g, exec->part_sum + (at->layout->level + at->layout->merges - 1 - m) * all + elem, t->columns);
    if (!at->last)
      copy_row(exec->part_sum + at->layout->level * all + elem, g, t->columns);
    else if (kind == HD_PHASE_FOLD_NORM)
      copy_row(exec->grad + elem, g, t->columns);
    else
      update_elems(at, param, g, elem, t->columns, 1);
  }
}

static void fold_deferred(const lane_at *at, hd_phase_kind kind, const run *r) {
  const hd_plan *plan = at->exec->plan;
  const hd_plan_param *way = &plan->params[r->param];
  const hd_node *node = &plan->graph->nodes[way->form_node];
  call_rows part = {.rows = 0};
  hd_form form = {.g = &node->geom,
                  .x = hd__exec_rows_at(at, node->in[0], &part),
                  .dy = hd__exec_rows_at(at, node->in[1], &part),
                  .x_stride = plan->place[node->in[0]].stride,
                  .dy_stride = plan->place[node->in[1]].stride,
                  .fold = &at->layout->shards,
                  .output = way->form_output,
                  .out = at->lane->tile,
                  .out_ld = TILE_COLUMNS};
  int32_t rows = r->columns == 1 ? TILE_ELEMS : TILE_ROWS;
  if (r->columns == 1)
    form.out_ld = 1;
  for (int32_t k = 0; k < r->columns; k += TILE_COLUMNS)
    for (int32_t j = r->j0; j < r->j1; j += rows) {
      form.j0 = j;
      form.j1 = j + rows < r->j1 ? j + rows : r->j1;
      form.k0 = k;
      form.k1 = k + TILE_COLUMNS < r->columns ? k + TILE_COLUMNS : (int32_t)r->columns;
      plan->kernels->form[node->op](&form);
      tile t = {.g = form.out, .ld = form.out_ld, .rows = form.j1 - form.j0, .columns = form.k1 - form.k0};
      t.elem = way->offset + j * r->columns + k;
      t.elem_ld = r->columns;
      if (r->columns == 1) /* a column of biases lies in a row */
        t = (tile){.g = form.out, .rows = 1, .columns = form.j1 - form.j0, .elem = way->offset + j};
      finish_tile(at, kind, r->param, &t);
    }
}

static void fold_direct(const lane_at *at, hd_phase_kind kind, const run *r) {
  const hd_exec *exec = at->exec;
  const hd_plan_param *way = &exec->plan->params[r->param];
  const hd_fold *fold = &at->layout->covers;
  const float *piece[HD_MAX_SHARDS];
  for (int64_t e = r->j0 * r->columns, end = r->j1 * r->columns; e < end; e += TILE_ELEMS) {
    int64_t count = e + TILE_ELEMS < end ? TILE_ELEMS : end - e;
    for (int32_t p = 0; p < fold->count; p++)
      piece[p] = exec->lane[at->layout->piece_lane[p]].cover + at->layout->piece_slot[p] * exec->plan->direct_elems +
                 way->direct + e;
    exec->plan->kernels->fold(at->lane->tile, piece, fold, count);
    tile t = {.g = at->lane->tile, .rows = 1, .columns = count, .elem = way->offset + e};
    finish_tile(at, kind, r->param, &t);
  }
}

static void refresh_packed(const lane_at *at, const run *r) {
  const hd_plan *plan = at->exec->plan;
  int to = 1 - at->half;
  for (int i = 0; i < plan->packed_count; i++) {
    const hd_plan_packed *packed = &plan->packed[i];
    if (packed->param == r->param)
      plan->kernels->pack[packed->op](&packed->geom, at->exec->store->weights[to] + plan->params[r->param].offset,
                                      at->exec->store->packed[to] + packed->offset, r->j0, r->j1);
  }
}

static void sum_squares_of_chunks(const lane_at *at) {
  const hd_plan *plan = at->exec->plan;
  for (int32_t c = at->lane->chunk_lo; c < at->lane->chunk_hi; c++) {
    const hd_chunk *chunk = &plan->chunks[c];
    int64_t columns = hd__param_columns(&plan->graph->params[chunk->param]);
    at->exec->chunk_norm[c] = 0;
    if (plan->graph->params[chunk->param].running)
      continue;
    const float *g = at->exec->grad + plan->params[chunk->param].offset + chunk->j0 * columns;
    at->exec->chunk_norm[c] = plan->kernels->sum_squares(g, (chunk->j1 - chunk->j0) * columns);
  }
}

void hd__exec_fold(const lane_at *at, hd_phase_kind kind) {
  if (at->layout->shards.count == 0)
    return; /* a part of the batch without samples passes the others through */
  if (at->exec->plan->gathers)
    hd__exec_gather(at, &at->exec->plan->phases[at->exec->plan->segments - 1]);
  run r;
  for (int32_t c = at->lane->chunk_lo, taken; (taken = next_run(at, c, &r)) > 0; c += taken) {
    if (at->exec->plan->graph->params[r.param].running) {
      if (at->last && kind == HD_PHASE_FOLD_UPDATE)
        hd__exec_running(at, r.param, r.j0, r.j1);
      continue;
    }
    if (at->exec->plan->params[r.param].deferred)
      fold_deferred(at, kind, &r);
    else
      fold_direct(at, kind, &r);
    if (at->last && kind == HD_PHASE_FOLD_UPDATE)
      refresh_packed(at, &r);
  }
  if (at->last && kind == HD_PHASE_FOLD_NORM)
    sum_squares_of_chunks(at);
}

float hd__exec_clip_factor(const lane_at *at) {
  double *sum = at->lane->norms;
  int count = at->exec->plan->chunk_count;
  for (int i = 0; i < count; i++)
    sum[i] = at->exec->chunk_norm[i];
  for (; count > 1; count = (count + 1) / 2)
    for (int i = 0; i < count / 2 + count % 2; i++)
      sum[i] = 2 * i + 1 < count ? sum[2 * i] + sum[2 * i + 1] : sum[2 * i];
  double factor = at->exec->settings.clip_norm / (sqrt(sum[0]) + 1e-6);
  return isfinite(sum[0]) ? (float)(factor < 1 ? factor : 1) : NAN;
}

void hd__exec_update(const lane_at *at) {
  float scale = hd__exec_clip_factor(at);
  if (!isfinite(scale)) {
    at->lane->flags |= HD_FLAG_NOT_FINITE; /* some gradient is NaN or infinite: the owner of its chunk names it below */
    scale = 1;
  }
  run r;
  for (int32_t c = at->lane->chunk_lo, taken; (taken = next_run(at, c, &r)) > 0; c += taken) {
    int64_t first = at->exec->plan->params[r.param].offset + r.j0 * r.columns;
    if (at->exec->plan->graph->params[r.param].running) {
      hd__exec_running(at, r.param, r.j0, r.j1);
      continue;
    }
    update_elems(at, r.param, at->exec->grad + first, first, (r.j1 - r.j0) * r.columns, scale);
    refresh_packed(at, &r);
  }
}
