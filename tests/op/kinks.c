/* See kinks.h. A fused operation is run once more without what is fused, to see what the ReLU and the pool look at. */
#include "op/kinks.h"

#include <math.h>
#include <stdlib.h>

#include "op/op.h"

/* The two largest values of a window. */
typedef struct top_two {
  double best, second;
} top_two;

static const top_two NOTHING_YET = {-HUGE_VAL, -HUGE_VAL};

static void look_at(top_two *top, double value) {
  if (value > top->best) {
    top->second = top->best;
    top->best = value;
  } else if (value > top->second) {
    top->second = value;
  }
}

/* Below zero only the way back to zero counts. Equal zeros are what a ReLU left: they stay zeros together. */
static double distance_of(top_two top, int relu) {
  if (relu && top.best < 0)
    return -top.best;
  double gap = top.best == 0 && top.second == 0 ? HUGE_VAL : top.best - top.second;
  return relu ? fmin(gap, top.best) : gap;
}

/* The call without a fused pool and ReLU; the result has `elems` doubles a row and is the caller's. */
static double *run_bare(hd_op op, const hd_call *call, const hd_geom *bare, int64_t elems) {
  double *out = calloc((size_t)(call->rows * elems), sizeof *out);
  if (!out)
    abort();
  hd_call again = *call;
  again.g = bare;
  again.out[0] = out;
  again.out[1] = NULL;
  again.out_stride[0] = elems;
  hd__kernels_reference_f64()->run[op](&again);
  return out;
}

static double fused_window(const hd_geom *g, const double *y, int64_t element) {
  int64_t co = element % g->co, wx = element / g->co % g->wp, wy = element / g->co / g->wp;
  top_two top = NOTHING_YET;
  for (int p = 0; p < g->conv.pool * g->conv.pool; p++)
    look_at(&top,
            y[((wy * g->conv.pool + p / g->conv.pool) * g->wo + wx * g->conv.pool + p % g->conv.pool) * g->co + co]);
  return distance_of(top, g->relu);
}

/* A fused pool or ReLU. */
static double of_fused(hd_op op, const hd_call *call) {
  const hd_geom *g = call->g;
  if (g->conv.pool == 1 && !g->relu)
    return HUGE_VAL;
  hd_geom bare = *g;
  bare.conv.pool = 1;
  bare.relu = 0;
  bare.hp = g->ho;
  bare.wp = g->wo;
  int64_t elems = (int64_t)g->ho * g->wo * g->co;
  double *y = run_bare(op, call, &bare, elems), nearest = HUGE_VAL;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < (int64_t)g->hp * g->wp * g->co; i++)
      nearest = fmin(nearest, fused_window(g, y + n * elems, i));
  free(y);
  return nearest;
}

/* An elementwise operation may have its corner at 0, and elsewhere only where its rule says so. Values at a corner are
 * what other such operations, or sums of zeros, left, and stay. */
static double of_corners(const hd_op_rule *rule, const hd_call *call) {
  double nearest = HUGE_VAL, corner[HD_OP_CORNERS] = {0};
  const int corners = rule->corners ? rule->corners(corner, call->g) : 1;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < (int64_t)call->g->ci * call->g->hi * call->g->wi; i++)
      for (int k = 0; k < corners; k++) {
        double away = ((const double *)call->in[0])[n * call->in_stride[0] + i] - corner[k];
        nearest = away == 0 ? nearest : fmin(nearest, fabs(away));
      }
  return nearest;
}

static double pool_window(const hd_geom *g, const double *x, int64_t element) {
  int64_t c = element % g->ci, ox = element / g->ci % g->wo, oy = element / g->ci / g->wo;
  top_two top = NOTHING_YET;
  for (int p = 0; p < g->window.kh * g->window.kw; p++) {
    int64_t row = oy * g->window.sh + p / g->window.kw - g->window.ph,
            column = ox * g->window.sw + p % g->window.kw - g->window.pw;
    if (row >= 0 && row < g->hi && column >= 0 && column < g->wi)
      look_at(&top, x[(row * g->wi + column) * g->ci + c]);
  }
  return distance_of(top, 0);
}

static double of_pool(const hd_call *call) {
  const hd_geom *g = call->g;
  double nearest = HUGE_VAL;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < (int64_t)g->ho * g->wo * g->ci; i++)
      nearest = fmin(nearest, pool_window(g, (const double *)call->in[0] + n * call->in_stride[0], i));
  return nearest;
}

/* A maximum of any elements of a sample: the smallest difference of two. Equal ones stay equal: they are what a ReLU
 * left. */
static double of_any_maximum(const hd_call *call) {
  double nearest = HUGE_VAL;
  const int64_t elems = (int64_t)call->g->ci * call->g->hi * call->g->wi;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems; i++)
      for (int64_t k = 0; k < i; k++) {
        const double *x = (const double *)call->in[0] + n * call->in_stride[0], gap = fabs(x[i] - x[k]);
        nearest = gap == 0 ? nearest : fmin(nearest, gap);
      }
  return nearest;
}

/* A quotient bends much near a divisor of 0: a tenth of the smallest one. */
static double of_divisor(const hd_call *call) {
  hd_geom part;
  double nearest = HUGE_VAL;
  part = *call->g;
  hd__op_info(HD_OP_div)->rule->part(&part, call->g, 1);
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < (int64_t)part.ci * part.hi * part.wi; i++)
      nearest = fmin(nearest, fabs(((const double *)call->in[1])[n * call->in_stride[1] + i]) / 10);
  return nearest;
}

/* How near y - target comes to a corner at -corner, 0 or corner. */
static double of_difference(const hd_call *call, double corner) {
  double nearest = HUGE_VAL;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < call->g->ci; i++) {
      double y = ((const double *)call->in[0])[n * call->in_stride[0] + i];
      double target = ((const double *)call->in[1])[n * call->in_stride[1] + i];
      nearest = fmin(nearest, fabs(fabs(y - target) - corner));
    }
  return nearest;
}

/* The same for the heads of a weighted sum. */
static double of_heads(const hd_call *call) {
  double nearest = HUGE_VAL;
  for (const hd_loss_head *h = call->g->weighted_sum.head; h < call->g->weighted_sum.head + call->g->weighted_sum.heads;
       h++) {
    hd_geom g = {.ci = h->count};
    hd_call of = *call;
    of.g = &g;
    of.in[0] = (const double *)call->in[0] + h->first;
    of.in[1] = (const double *)call->in[1] + h->target;
    if (h->loss != HD_HEAD_CROSS_ENTROPY)
      nearest = fmin(nearest, fmin(of_difference(&of, 0), of_difference(&of, (double)h->setting)));
  }
  return nearest;
}

double kink_distance(hd_op op, const hd_call *call) {
  const hd_op_rule *rule = hd__op_info(op)->rule;
  if (hd__op_info(op)->role != HD_ROLE_FORWARD)
    return HUGE_VAL;
  if (op == HD_OP_div)
    return of_divisor(call);
  if (rule->maximum)
    return of_any_maximum(call);
  if (rule->elementwise || rule->corners)
    return of_corners(rule, call);
  if (rule->dx.in[1] == HD_ARG_OUT1) /* the maximum of a window */
    return of_pool(call);
  if (rule->several)
    return of_heads(call);
  if (rule->loss && !rule->labels)
    return fmin(of_difference(call, 0), of_difference(call, (double)call->g->huber.delta));
  return rule->macs ? of_fused(op, call) : HUGE_VAL;
}
