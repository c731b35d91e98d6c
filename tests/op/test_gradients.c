/* Every operation's gradient against central differences, in double, through the double reference table.
 *
 * An operation y = f(x, ...) is tested through L = sum of r * y with random r: its gradient kernels, called with dy
 * = r as its gradient rule calls them, must give dL / dx for every element of every input, and along random
 * directions of all inputs at once. A loss takes no dy: there L is the mean its divisor makes. Inputs are drawn
 * again until no ReLU and no maximum is so near its kink that a difference could cross it. The step is a power of
 * two; along a line most operations are linear or quadratic, so that central differences are exact but for rounding,
 * and the others bend too little for the step to show.
 *
 * The list of operations is ops.def: one that is neither differentiated here nor called as the gradient of another
 * one fails the test. The gradient rules and whole networks are seen in test_network_gradients. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "op/op.h"
#include "op/kernel_case.h"
#include "op/kinks.h"
#include "tap.h"

static const double STEP = 0x1p-19;
static const double TOLERANCE = 1e-6; /* relative to the larger of both values */
static const double ROUNDING = 2e-8;  /* what the difference of two rounded values may be off, relative to them */
enum { DIRECTIONS = 3, MAX_DRAWS = 200, RANDOM_SHAPES = 14, MOST = 150 };

static bool called[HD_OP_COUNT];

/* One call in double: kernel_case describes the arguments, the buffers are guarded, padding is NaN. */
typedef struct problem {
  kernel_case c;
  guarded in[HD_MAX_IN], out[HD_MAX_OUT];
} problem;

static int64_t slots(const problem *p, const arg *a) { return a->rows ? p->c.rows : 1; }

static guarded buffer_for(const problem *p, const arg *a) {
  size_t bytes = a->kind == ARG_FLOATS ? sizeof(double) : a->kind == ARG_LABELS ? sizeof(int32_t) : 1;
  guarded memory = guarded_create((size_t)(slots(p, a) * a->stride) * bytes, 0);
  if (a->kind == ARG_FLOATS)
    for (int64_t i = 0; i < slots(p, a) * a->stride; i++)
      ((double *)memory.data)[i] = NAN;
  return memory;
}

/* The case's random floats as doubles; labels and positions as they are. */
static void take_draw(problem *p, int i) {
  const arg *a = &p->c.in[i];
  if (a->kind != ARG_FLOATS) {
    memcpy(p->in[i].data, p->c.input[i].data, p->in[i].bytes);
    return;
  }
  for (int64_t s = 0; s < slots(p, a); s++)
    for (int64_t k = 0; k < a->elems; k++)
      ((double *)p->in[i].data)[s * a->stride + k] = ((const float *)p->c.input[i].data)[s * a->stride + k];
}

/* Whether the third argument may be absent: a bias, or a loss's weights. */
static bool is_optional(hd_op op) {
  const hd_op_rule *rule = hd__op_info(op)->rule;
  return hd__op_info(op)->role == HD_ROLE_FORWARD && (hd__op_weights(rule) || rule->macs);
}

static void problem_create(problem *p, hd_op op, const hd_geom *g, int64_t rows, bool bias, uint32_t seed) {
  *p = (problem){0};
  kernel_case_create(&p->c, op, g, rows, FILL_PLAIN, false, seed);
  p->c.divisor = 1 + 0.75f * (float)(seed % 3);
  if (!bias && is_optional(op))
    p->c.in[2].kind = ARG_NONE;
  for (int i = 0; i < HD_MAX_IN; i++)
    if (p->c.in[i].kind != ARG_NONE) {
      p->in[i] = buffer_for(p, &p->c.in[i]);
      take_draw(p, i);
    }
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (p->c.out[i].kind != ARG_NONE)
      p->out[i] = buffer_for(p, &p->c.out[i]);
}

static void problem_destroy(problem *p) {
  for (int i = 0; i < HD_MAX_IN; i++)
    guarded_destroy(&p->in[i]);
  for (int i = 0; i < HD_MAX_OUT; i++)
    guarded_destroy(&p->out[i]);
  kernel_case_destroy(&p->c);
}

static hd_call call_of(const problem *p) {
  hd_call call = {.g = &p->c.g, .rows = p->c.rows, .divisor = p->c.divisor, .batch_rows = p->c.rows, .draw = p->c.draw};
  for (int i = 0; i < HD_MAX_IN; i++) {
    call.in[i] = p->in[i].data;
    call.in_stride[i] = p->c.in[i].stride;
  }
  for (int i = 0; i < HD_MAX_OUT; i++) {
    call.out[i] = p->out[i].data;
    call.out_stride[i] = p->c.out[i].stride;
  }
  return call;
}

/* Mean and variance of the batch, in[3] and in[4], are functions of x. */
static void take_statistics(const problem *p, hd_call *call) {
  hd_op statistics = 0;
  while (hd__op_info(statistics)->class != HD_CLASS_STATS)
    statistics++;
  hd_call stats = *call;
  double *var = (double *)(void *)p->in[4].data;
  stats.out[0] = p->in[3].data;
  stats.out[1] = p->in[4].data;
  called[statistics] = true;
  hd__kernels_reference_f64()->run[statistics](&stats);
  for (int c = 0; c < p->c.g.ci; c++)
    var[c] /= (double)(p->c.rows * p->c.g.hi * p->c.g.wi);
}

static void problem_run(const problem *p) {
  hd_call call = call_of(p);
  if (hd__op_info(p->c.op)->rule->dx.in[3] == HD_ARG_IN3 && hd__op_info(p->c.op)->role == HD_ROLE_FORWARD)
    take_statistics(p, &call);
  const hd_kernels *table = hd__kernels_reference_f64();
  int64_t scratch_bytes = hd_scratch_bytes(table, p->c.op, &p->c.g);
  guarded scratch = guarded_create((size_t)scratch_bytes, 0);
  call.scratch = scratch.data;
  called[p->c.op] = true;
  table->run[p->c.op](&call);
  if (!guarded_is_intact(&scratch))
    bail_out("%s wrote beside its scratch", hd__op_info(p->c.op)->name);
  guarded_destroy(&scratch);
  for (int i = 0; i < HD_MAX_IN; i++)
    if (!guarded_is_intact(&p->in[i]))
      bail_out("%s wrote beside an input", hd__op_info(p->c.op)->name);
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (!guarded_is_intact(&p->out[i]))
      bail_out("%s wrote beside an output", hd__op_info(p->c.op)->name);
}

/* Takes a gradient kernel's arguments from the forward call; their sizes must be what that kernel reads. */
static void pass_on(guarded *to, const guarded *from, hd_op op) {
  if (to->bytes != from->bytes)
    bail_out("%s: an argument of %zu bytes where %zu are read", hd__op_info(op)->name, from->bytes, to->bytes);
  memcpy(to->data, from->data, from->bytes);
}

/* Runs a gradient kernel over arguments from the forward call. Its outputs go to to[0], to[1] (NULL: not computed). */
static void run_gradient(guarded *to0, guarded *to1, hd_op op, const problem *p, const hd_geom *g,
                         const guarded *const from[]) {
  problem b;
  problem_create(&b, op, g, p->c.rows, true, 1);
  b.c.divisor = p->c.divisor;
  b.c.draw = p->c.draw;
  if (b.c.in[2].kind != ARG_NONE && !from[2]->base) { /* absent */
    guarded_destroy(&b.in[2]);
    b.c.in[2].kind = ARG_NONE;
  }
  for (int i = 0; i < HD_MAX_IN; i++)
    if (b.c.in[i].kind != ARG_NONE)
      pass_on(&b.in[i], from[i], op);
  if (!to1) {
    guarded_destroy(&b.out[1]);
    b.c.out[1].kind = ARG_NONE;
  }
  problem_run(&b);
  guarded *to[HD_MAX_OUT] = {to0, to1};
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (to[i]) {
      *to[i] = b.out[i];
      b.out[i] = (guarded){0};
    }
  problem_destroy(&b);
}

static guarded copy_of(const guarded *from) {
  guarded copy = guarded_create(from->bytes, 0);
  memcpy(copy.data, from->data, from->bytes);
  return copy;
}

/* dy behind a fused ReLU, as the layer in front of it sees it. */
static guarded masked(const problem *p, const guarded *dy) {
  if (!p->c.g.relu)
    return copy_of(dy);
  hd_geom g = {.ci = p->c.g.co,
               .hi = p->c.g.hp,
               .wi = p->c.g.wp,
               .co = p->c.g.co,
               .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1},
               .conv = {.pool = 1}};
  hd__geom_finish(&g);
  guarded result;
  run_gradient(&result, NULL, HD_OP_relu_dx, p, &g, (const guarded *[]){dy, &p->out[0], NULL});
  return result;
}

/* The gradients of the inputs, by the kernels that the rule names. */
static void backward(guarded grad[], const problem *p, const guarded *dy) {
  const hd_op_rule *rule = hd__op_info(p->c.op)->rule;
  guarded d = masked(p, dy), dx1 = {0};
  const guarded *from[] =
      {[HD_ARG_DY] = &d, [HD_ARG_DW] = &grad[1], [HD_ARG_DB] = &grad[2], [HD_ARG_DX] = &grad[0], [HD_ARG_DX1] = &dx1},
                *dw[HD_MAX_IN], *dx[HD_MAX_IN];
  for (int i = 0; i < HD_MAX_IN; i++)
    from[HD_ARG_X + i] = &p->in[i];
  for (int i = 0; i < HD_MAX_OUT; i++)
    from[HD_ARG_Y + i] = &p->out[i];
  for (int i = 0; i < HD_MAX_IN; i++) {
    dw[i] = from[rule->dw.in[i]];
    dx[i] = from[rule->dx.in[i]];
  }
  const bool dx_first = rule->dw.in[1] >= HD_ARG_DX;
  if (dx_first)
    run_gradient(&grad[0], rule->dx1 ? &dx1 : NULL, rule->dx.op, p, &p->c.g, dx);
  if (rule->dw.in[0])
    run_gradient(&grad[1], p->in[2].base ? &grad[2] : NULL, rule->dw.op, p, &p->c.g, dw);
  guarded_destroy(&dx1);
  if (dx_first) {
    guarded_destroy(&d);
    return;
  }
  if (!rule->dx.in[0] && rule->dx_kind != HD_DX_SAME) { /* it reads samples alone */
    guarded_destroy(&d);
    return;
  }
  const bool each = rule->dx_kind == HD_DX_EACH || rule->dx_kind == HD_DX_SAME;
  for (int i = 0; i == 0 || (each && i < HD_MAX_IN && p->in[i].base); i++) {
    hd_geom g = p->c.g;
    if (rule->part)
      rule->part(&g, &p->c.g, i);
    if (rule->dx_kind == HD_DX_SAME)
      grad[i] = copy_of(dy);
    else
      run_gradient(&grad[i], NULL, rule->dx.op, p, &g, dx);
  }
  guarded_destroy(&d);
}

/* Whether values have to be far from each other and from zero: what looks at them compares. */
static bool inputs_are_levels(hd_op op) {
  const hd_op_rule *rule = hd__op_info(op)->rule;
  return rule->elementwise || rule->maximum || rule->dx.in[1] == HD_ARG_OUT1 ||
         (rule->dw.in[0] && !rule->macs && !rule->numbers);
}

/* Whether an operation has a gradient of its own; the others are called for another one's. */
static bool is_differentiable(hd_op op) {
  const hd_op_info *info = hd__op_info(op);
  return info->rule && info->role == HD_ROLE_FORWARD &&
         (info->rule->dx.in[0] || info->rule->dw.in[0] || info->rule->dx_kind == HD_DX_SAME);
}

/* The values 1, -2, 3, -4 ... over their number, in random order. */
static void fill_levels(const problem *p, random_stream *random) {
  const arg *a = &p->c.in[0];
  double *x = (double *)p->in[0].data;
  int64_t count = slots(p, a) * a->elems;
  for (int64_t i = 0; i < count; i++) {
    int64_t other = random_below(random, (uint32_t)i + 1);
    int64_t here = i / a->elems * a->stride + i % a->elems, there = other / a->elems * a->stride + other % a->elems;
    x[here] = x[there];
    x[there] = (double)(i + 1) / (double)count * (i % 2 ? -1 : 1);
  }
}

/* How far pre-activations can move while each input element moves by one: the longest sum's share of both factors. */
static double reach(const hd_geom *g) { return 2.0 * g->ci * g->window.kh * g->window.kw + 2; }

static bool is_clear_of_kinks(const problem *p) {
  hd_call call = call_of(p);
  return kink_distance(p->c.op, &call) > 4 * STEP * reach(&p->c.g);
}

/* Draws until nothing lies near a kink; returns whether a draw did. */
static bool draw_problem(problem *p, hd_op op, const hd_geom *g, int64_t rows, bool bias, uint32_t seed) {
  for (uint32_t draw = 0; draw < MAX_DRAWS; draw++) {
    random_stream random = {.seed = seed + 1000 * draw, .drawn = 500};
    problem_create(p, op, g, rows, bias, seed + 1000 * draw);
    if (inputs_are_levels(op))
      fill_levels(p, &random);
    if (is_clear_of_kinks(p))
      return true;
    problem_destroy(p);
  }
  return false;
}

/* r, in the output's slots. */
static guarded draw_weights(const problem *p, random_stream *random) {
  const arg *a = &p->c.out[0];
  guarded r = buffer_for(p, a);
  for (int64_t s = 0; s < slots(p, a); s++)
    for (int64_t i = 0; i < a->elems; i++)
      ((double *)r.data)[s * a->stride + i] =
          hd__op_info(p->c.op)->rule->loss ? 1 / (double)p->c.divisor : random_float(random);
  return r;
}

/* Sum of left * right over an argument's elements, padding left out. */
static double dot(const problem *p, const arg *a, const guarded *left, const guarded *right) {
  double sum = 0;
  for (int64_t s = 0; s < slots(p, a); s++)
    for (int64_t i = s * a->stride; i < s * a->stride + a->elems; i++)
      sum += ((const double *)left->data)[i] * ((const double *)right->data)[i];
  return sum;
}

/* (L(x + STEP * d) - L(x - STEP * d)) / (2 * STEP), the difference taken element by element before the sum. `move` sets
 * the inputs to the point at t. */
static double difference(const problem *p, const guarded *r, void (*move)(const void *what, double t),
                         const void *what) {
  guarded ahead;
  move(what, STEP);
  problem_run(p);
  ahead = copy_of(&p->out[0]);
  move(what, -STEP);
  problem_run(p);
  double *y = (double *)ahead.data;
  for (size_t i = 0; i < ahead.bytes / sizeof *y; i++)
    y[i] -= ((const double *)p->out[0].data)[i];
  double slope = dot(p, &p->c.out[0], r, &ahead) / (2 * STEP);
  move(what, 0);
  guarded_destroy(&ahead);
  return slope;
}

typedef struct element_move {
  double *at, was;
} element_move;

static void move_element(const void *what, double t) {
  const element_move *m = what;
  *m->at = m->was + t;
}

typedef struct line_move {
  const problem *p;
  const guarded *was, *direction;
  const guarded *grad;
} line_move;

static void move_line(const void *what, double t) {
  const line_move *m = what;
  for (int i = 0; i < HD_MAX_IN; i++)
    if (m->grad[i].base)
      for (size_t k = 0; k < m->was[i].bytes / sizeof(double); k++)
        ((double *)m->p->in[i].data)[k] =
            ((const double *)m->was[i].data)[k] + t * ((const double *)m->direction[i].data)[k];
}

static bool agrees(double found, double expected, double size, double *worst) {
  double larger = fmax(fabs(found), fabs(expected)), off = fabs(found - expected);
  double allowed = TOLERANCE * larger + ROUNDING * fmax(size, larger);
  *worst = fmax(*worst, off / allowed);
  return off <= allowed; /* false for a NaN */
}

typedef struct verdict {
  int checked, wrong;
  double worst;
  double size; /* of the values whose differences are taken, at least 1 */
} verdict;

/* The largest output, at least 1. */
static double size_of(const problem *p) {
  const arg *a = &p->c.out[0];
  double size = 1;
  for (int64_t s = 0; s < slots(p, a); s++)
    for (int64_t i = 0; i < a->elems; i++)
      size = fmax(size, fabs(((const double *)p->out[0].data)[s * a->stride + i]));
  return size;
}

static void say(const problem *p, const char *what, int input, int64_t element, double found, double expected) {
  const hd_geom *g = &p->c.g;
  const hd_window_geom *w = &g->window;
  diag("%s of input %d at %lld: kernels %.12g, differences %.12g", what, input, (long long)element, found, expected);
  diag("  %d rows, in %dx%dx%d, out %dx%dx%d, window %dx%d, stride %dx%d, padding %dx%d, pool %d, relu %d",
       (int)p->c.rows, g->ci, g->hi, g->wi, g->co, g->ho, g->wo, w->kh, w->kw, w->sh, w->sw, w->ph, w->pw, g->conv.pool,
       g->relu);
}

static void judge(verdict *v, const problem *p, const char *what, int input, int64_t element, double found,
                  double expected) {
  v->checked++;
  if (agrees(found, expected, v->size, &v->worst))
    return;
  if (v->wrong++ < 3)
    say(p, what, input, element, found, expected);
}

/* Some elements of large arguments, but for `make check-long`; a direction sees all of them. */
static int64_t element_stride(int64_t elems) {
  return check_depth() > 2 ? 1 : elems / (check_depth() > 1 ? 200 : 40) | 1;
}

static void check_elements(verdict *v, const problem *p, const guarded *r, const guarded grad[]) {
  for (int i = 0; i < HD_MAX_IN; i++) {
    const arg *a = &p->c.in[i];
    const int64_t elems = grad[i].base ? slots(p, a) * a->elems : 0;
    for (int64_t k = 0; k < elems; k += element_stride(elems)) {
      int64_t at = k / a->elems * a->stride + k % a->elems;
      double *x = (double *)p->in[i].data + at;
      element_move move = {x, *x};
      judge(v, p, "gradient", i, at, ((const double *)grad[i].data)[at], difference(p, r, move_element, &move));
    }
  }
}

static void check_directions(verdict *v, const problem *p, const guarded *r, const guarded grad[],
                             random_stream *random) {
  guarded was[HD_MAX_IN] = {0}, direction[HD_MAX_IN] = {0};
  for (int d = 0; d < DIRECTIONS; d++) {
    double slope = 0;
    for (int i = 0; i < HD_MAX_IN; i++) {
      if (!grad[i].base)
        continue;
      was[i] = copy_of(&p->in[i]);
      direction[i] = copy_of(&p->in[i]);
      for (size_t k = 0; k < direction[i].bytes / sizeof(double); k++)
        ((double *)direction[i].data)[k] = random_float(random);
      slope += dot(p, &p->c.in[i], &grad[i], &direction[i]);
    }
    line_move move = {p, was, direction, grad};
    judge(v, p, "slope along a direction", -1, d, slope, difference(p, r, move_line, &move));
    for (int i = 0; i < HD_MAX_IN; i++) {
      guarded_destroy(&was[i]);
      guarded_destroy(&direction[i]);
    }
  }
}

static bool check_shape(verdict *v, hd_op op, const hd_geom *g, int64_t rows, bool bias, uint32_t seed) {
  problem p;
  if (!draw_problem(&p, op, g, rows, bias, seed))
    return false;
  random_stream random = {.seed = seed, .drawn = 10000};
  guarded r = draw_weights(&p, &random), grad[HD_MAX_IN] = {0};
  problem_run(&p);
  v->size = size_of(&p);
  backward(grad, &p, &r);
  check_elements(v, &p, &r, grad);
  check_directions(v, &p, &r, grad, &random);
  for (int i = 0; i < HD_MAX_IN; i++)
    guarded_destroy(&grad[i]);
  guarded_destroy(&r);
  problem_destroy(&p);
  return true;
}

/* The samples of the operation, then random shapes; one, two or three rows; with and without what may be absent. A
 * random shape may have no draw clear of kinks, as where a ReLU sees padding alone. */
static void check_op(hd_op op) {
  random_stream random = {.seed = 500 + (uint32_t)op};
  verdict v = {0};
  hd_geom g;
  for (int i = 0; hd__op_sample(&g, op, i); i++)
    if (!check_shape(&v, op, &g, 1 + i % 2, i % 3 != 1, (uint32_t)i))
      bail_out("%s: sample %d has no draw clear of kinks", hd__op_info(op)->name, i);
  int shapes = 0;
  for (uint32_t i = 0; shapes < RANDOM_SHAPES && i < 4 * RANDOM_SHAPES; i++) {
    random_geom(&g, op, MOST, &random);
    shapes += check_shape(&v, op, &g, 1 + i % 3, true, 100 + i) && check_shape(&v, op, &g, 1, false, 200 + i);
  }
  ok(v.wrong == 0 && shapes == RANDOM_SHAPES, "%s: the gradient equals central differences", hd__op_info(op)->name);
  diag("%d of %d differ; the worst is %.2g of what is allowed", v.wrong, v.checked, v.worst);
}

/* usage: test_gradients [OPERATION] */
int main(int argc, char **argv) {
  hd_geom g;
  for (hd_op op = 0; op < HD_OP_COUNT; op++)
    if (is_differentiable(op) && hd__op_sample(&g, op, 0) /* else the custom operation */ &&
        (argc < 2 || !strcmp(hd__op_info(op)->name, argv[1])))
      check_op(op);
  for (hd_op op = 0; op < HD_OP_COUNT && argc < 2; op++)
    if (hd__op_sample(&g, op, 0) && op != HD_OP_weigh) /* which test_network_gradients tests */
      ok(called[op], "%s is tested, as differentiated or as the gradient of another operation", hd__op_info(op)->name);
  return done_testing();
}
