/* --arithmetic native on a GPU: the choice of a plan's calls that NVIDIA's libraries compute, their memory and
 * launches.
 *
 * A product spans the whole batch. Rows beyond the step's samples are set to zero in dy, so that gradients of
 * weights are sums over the step; they are written to the slot of the first shard alone, and the other slots keep
 * their initial zeros. In float32 the libraries compute the calls large enough to repay a launch, in TF32 and
 * bfloat16 all calls, since that precision was requested. */
#include "base/alloc.h"
#include "exec/gpu/gpu_executor_state.h"
#include "op/conv2d/winograd_rule.h"

/* Multiply-adds of a call from which on the libraries' kernels are assumed to be faster in float32. A guess from the
 * cost of a launch, to be measured on a GPU. */
static const int64_t worth = 1 << 26;

/* ---- Choice ---- */

static bool is_linear(hd_op op) { return op == HD_OP_linear || op == HD_OP_linear_dx || op == HD_OP_linear_dw; }
static bool is_conv(hd_op op) { return op == HD_OP_conv2d || op == HD_OP_conv2d_dx || op == HD_OP_conv2d_dw; }
static bool is_weights(hd_op op) { return op == HD_OP_linear_dw || op == HD_OP_conv2d_dw; }

/* Products of heddle's kernels: gradients behind a pool visit one position of each window, and tiles of 36 products
 * stand for many outputs. */
static int64_t work_of(const hd_exec_cuda *x, const hd_plan_call *call) {
  const hd_geom *g = call->geom;
  const int64_t all = call->flops / 2 * x->settings.batch;
  if (!is_conv(call->op) || (call->op == HD_OP_conv2d && !hd_geom_is_winograd(g)))
    return all;
  const int side = hd_winograd_side(g);
  return hd_geom_is_winograd(g) && (call->op == HD_OP_conv2d || g->conv.pool == 1)
             ? all * HD_WINOGRAD_LINE * HD_WINOGRAD_LINE / (g->window.kh * g->window.kw * side * side)
             : all / (g->conv.pool * g->conv.pool);
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t in_elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }
static int64_t out_elems(const hd_geom *g) { return (int64_t)g->co * g->ho * g->wo; }
static int64_t weight_elems(const hd_geom *g) {
  return (int64_t)g->co * g->window.kh * g->window.kw * (g->ci / g->conv.groups);
}

/* The libraries' element counts are int. */
static bool is_countable(const hd_exec_cuda *x, const hd_geom *g) {
  return x->settings.batch * larger(in_elems(g), out_elems(g)) < INT32_MAX / 2;
}

/* x and y with their strides, or packed: both for bfloat16, and y if a pool makes it a separate buffer. */
static hd_cuda_conv conv_of(const hd_exec_cuda *x, const hd_plan_call *call) {
  const hd_geom *g = call->geom;
  const bool packed = x->cuda->precision == HD_CUDA_BF16;
  const hd_place *in = call->in, *out = call->out;
  const hd_place *image = call->op == HD_OP_conv2d_dx ? out : in;
  const hd_place *result = call->op == HD_OP_conv2d ? out : call->op == HD_OP_conv2d_dx ? in : in + 1;
  return (hd_cuda_conv){.g = g,
                        .precision = x->cuda->precision,
                        .rows = x->settings.batch,
                        .x_stride = packed ? in_elems(g) : image->stride,
                        .y_stride = packed || g->conv.pool > 1 ? out_elems(g) : result->stride};
}

static hd_cuda_conv_way way_of(hd_op op) {
  return op == HD_OP_conv2d ? HD_CUDA_CONV_FORWARD : op == HD_OP_conv2d_dx ? HD_CUDA_CONV_DATA : HD_CUDA_CONV_FILTER;
}

/* Calls that cuDNN refuses are left to heddle's kernels. */
static hd_status decide(bool *taken, hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *call) {
  const hd_geom *g = call->geom;
  int64_t bytes = 0;
  *taken = (is_linear(call->op) || is_conv(call->op)) && is_countable(x, g) &&
           (x->cuda->precision != HD_CUDA_F32 || work_of(x, call) >= worth);
  if (!*taken || is_linear(call->op))
    return HD_OK;
  hd_ctx why = {0};
  const hd_cuda_conv conv = conv_of(x, call);
  const hd_status status = hd__cuda_conv_bytes(&bytes, x->cuda->native, &why, &conv, way_of(call->op));
  *taken = status == HD_OK;
  if (bytes > x->native.workspace_bytes)
    x->native.workspace_bytes = bytes;
  return *taken || status == HD_E_UNSUPPORTED ? HD_OK : hd__fail(ctx, status, "%s", why.message);
}

/* ---- Memory ---- */

static int64_t elems_of(const hd_exec_cuda *x, const hd_plan_call *call, int what) {
  const hd_geom *g = call->geom;
  if (is_linear(call->op))
    return what == 0 ? x->settings.batch * g->ci : what == 1 ? (int64_t)g->ci * g->co : x->settings.batch * g->co;
  return what == 0 ? x->settings.batch * in_elems(g) : what == 1 ? weight_elems(g) : x->settings.batch * out_elems(g);
}

hd_status hd__exec_cuda_native_plan(hd_exec_cuda *x, hd_ctx *ctx) {
  cuda_native *n = &x->native;
  if (!x->plan->trains || !x->cuda->native)
    return HD_OK;
  HD_TRY(HD_NEW(n->taken, x->plan->call_count + 1, ctx, "out of memory for the GPU's libraries"));
  n->workspace_bytes = HD_CUDA_WORKSPACE_BYTES;
  for (int i = 0; i < x->plan->call_count; i++) {
    const hd_plan_call *call = &x->plan->calls[i];
    HD_TRY(decide(&n->taken[i], x, ctx, call));
    if (!n->taken[i])
      continue;
    for (int what = 0; what < 3 && x->cuda->precision == HD_CUDA_BF16; what++)
      n->bf16_bytes[what] = larger(n->bf16_bytes[what], elems_of(x, call, what) * (int64_t)sizeof(uint16_t));
    if (is_conv(call->op) && call->geom->conv.pool > 1)
      n->dense_bytes = larger(n->dense_bytes, elems_of(x, call, 2) * (int64_t)sizeof(float));
  }
  return HD_OK;
}

bool hd__exec_cuda_native_takes(const hd_exec_cuda *x, const hd_plan_call *call) {
  return x->native.taken && x->native.taken[call - x->plan->calls];
}

bool hd__exec_cuda_is_sum(const hd_exec_cuda *x, const hd_plan_use *use) {
  bool is_sum = x->share->nccl != NULL;
  for (int i = 0; i < x->plan->call_count && use->output == 0 && x->share->exchanges == 0; i++)
    is_sum = is_sum || (x->plan->calls[i].node == use->node && hd__exec_cuda_native_takes(x, &x->plan->calls[i]));
  return is_sum;
}

/* ---- Launches around a product ---- */

/* `c` without its step. */
static hd_status convert(const hd_exec_cuda *x, hd_ctx *ctx, int kernel, hd_cuda_convert c, int inlet) {
  c.step = x->inlet[inlet].gpu.step;
  return hd__cuda_launch(x->cuda, ctx, kernel, c.columns, c.rows, &c);
}

/* Rows of floats, `stride` apart. */
typedef struct float_rows {
  const void *at;
  int64_t rows, columns, stride;
} float_rows;

/* An operand for a library: rows of floats in place, or packed as bfloat16 in buffer `what`. */
typedef struct operand {
  void *at;
  int64_t stride;
} operand;

static hd_status take(operand *out, const hd_exec_cuda *x, hd_ctx *ctx, int what, float_rows from, int inlet) {
  *out = (operand){(void *)(uintptr_t)from.at, from.stride};
  if (x->cuda->precision != HD_CUDA_BF16)
    return HD_OK;
  *out = (operand){x->native.bf16[what], from.columns};
  return convert(x, ctx, HD_CUDA_narrow,
                 (hd_cuda_convert){
                     .from = from.at, .to = out->at, .rows = from.rows, .columns = from.columns, .stride = from.stride},
                 inlet);
}

/* Results of a library in bfloat16. */
static hd_status widen(const hd_exec_cuda *x, hd_ctx *ctx, int what, float_rows to, int inlet) {
  return convert(x, ctx, HD_CUDA_widen,
                 (hd_cuda_convert){.from = x->native.bf16[what],
                                   .to = (void *)(uintptr_t)to.at,
                                   .rows = to.rows,
                                   .columns = to.columns,
                                   .stride = to.stride},
                 inlet);
}

/* Sets rows beyond the step's samples to zero. */
static hd_status blank(const hd_exec_cuda *x, hd_ctx *ctx, float_rows at, int inlet) {
  return convert(
      x, ctx, HD_CUDA_blank,
      (hd_cuda_convert){.to = (void *)(uintptr_t)at.at, .rows = at.rows, .columns = at.columns, .stride = at.stride},
      inlet);
}

static hd_status finish(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, const float *product,
                        int64_t stride) {
  hd_cuda_call behind = *call;
  const hd_geom *g = &call->g;
  behind.in[0] = product;
  behind.in_stride[0] = stride;
  return hd__cuda_launch(x->cuda, ctx, HD_CUDA_finish, (int64_t)g->hp * g->wp * g->co, x->settings.batch, &behind);
}

/* ---- Linear layers ---- */

static hd_status multiply(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_product *p) {
  return hd__cuda_product(x->cuda->native, ctx, x->cuda->precision, p);
}

static hd_cuda_matrix as_is(const operand *of) { return (hd_cuda_matrix){of->at, of->stride, false}; }
static hd_cuda_matrix transposed(const operand *of) { return (hd_cuda_matrix){of->at, of->stride, true}; }

static hd_status linear(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, int inlet) {
  const hd_geom *g = &call->g;
  const int64_t rows = x->settings.batch;
  operand in, w;
  HD_TRY(take(&in, x, ctx, 0, (float_rows){call->in[0], rows, g->ci, call->in_stride[0]}, inlet));
  HD_TRY(take(&w, x, ctx, 1, (float_rows){call->in[1], g->co, g->ci, g->ci}, inlet));
  HD_TRY(multiply(
      x, ctx, &(hd_cuda_product){rows, g->co, g->ci, as_is(&in), transposed(&w), call->out[0], call->out_stride[0]}));
  return finish(x, ctx, call, call->out[0], call->out_stride[0]);
}

static hd_status linear_dx(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, int inlet) {
  const hd_geom *g = &call->g;
  const int64_t rows = x->settings.batch;
  operand dy, w;
  HD_TRY(take(&dy, x, ctx, 2, (float_rows){call->in[0], rows, g->co, call->in_stride[0]}, inlet));
  HD_TRY(take(&w, x, ctx, 1, (float_rows){call->in[1], g->co, g->ci, g->ci}, inlet));
  return multiply(x, ctx,
                  &(hd_cuda_product){rows, g->ci, g->co, as_is(&dy), as_is(&w), call->out[0], call->out_stride[0]});
}

static hd_status linear_dw(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, int inlet) {
  const hd_geom *g = &call->g;
  const int64_t rows = x->settings.batch;
  operand in, dy;
  HD_TRY(take(&in, x, ctx, 0, (float_rows){call->in[0], rows, g->ci, call->in_stride[0]}, inlet));
  HD_TRY(take(&dy, x, ctx, 2, (float_rows){call->in[1], rows, g->co, call->in_stride[1]}, inlet));
  return multiply(x, ctx, &(hd_cuda_product){g->co, g->ci, rows, transposed(&dy), as_is(&in), call->out[0], g->ci});
}

/* ---- Convolutions ---- */

static hd_status conv(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, const hd_cuda_conv *way,
                      int inlet) {
  const hd_geom *g = &call->g;
  const bool packed = x->cuda->precision == HD_CUDA_BF16, pooled = g->conv.pool > 1;
  float *product = pooled ? x->native.dense : call->out[0];
  const int64_t stride = pooled ? out_elems(g) : call->out_stride[0];
  operand in, w;
  HD_TRY(take(&in, x, ctx, 0, (float_rows){call->in[0], way->rows, in_elems(g), call->in_stride[0]}, inlet));
  HD_TRY(take(&w, x, ctx, 1, (float_rows){call->in[1], 1, weight_elems(g), weight_elems(g)}, inlet));
  HD_TRY(hd__cuda_conv_run(x->cuda->native, ctx, way, HD_CUDA_CONV_FORWARD,
                           (hd_cuda_conv_arrays){in.at, w.at, packed ? (void *)x->native.bf16[2] : product}));
  if (packed)
    HD_TRY(widen(x, ctx, 2, (float_rows){product, way->rows, out_elems(g), stride}, inlet));
  return finish(x, ctx, call, product, stride);
}

/* dy of every position: in place, or, with a pool, spread over its windows. */
static hd_status all_positions(operand *out, const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, int slot,
                               int inlet) {
  const hd_geom *g = &call->g;
  const void *at = call->in[slot];
  int64_t stride = call->in_stride[slot];
  if (g->conv.pool > 1) {
    hd_cuda_call spread = *call;
    spread.in[0] = at;
    spread.in_stride[0] = stride;
    spread.out[0] = x->native.dense;
    spread.out_stride[0] = stride = out_elems(g);
    at = x->native.dense;
    HD_TRY(hd__cuda_launch(x->cuda, ctx, HD_CUDA_spread, out_elems(g), x->settings.batch, &spread));
  }
  HD_TRY(blank(x, ctx, (float_rows){at, x->settings.batch, out_elems(g), stride}, inlet));
  return take(out, x, ctx, 2, (float_rows){at, x->settings.batch, out_elems(g), stride}, inlet);
}

static hd_status conv_dx(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, const hd_cuda_conv *way,
                         int inlet) {
  const hd_geom *g = &call->g;
  const bool packed = x->cuda->precision == HD_CUDA_BF16;
  operand dy, w;
  HD_TRY(all_positions(&dy, x, ctx, call, 0, inlet));
  HD_TRY(take(&w, x, ctx, 1, (float_rows){call->in[1], 1, weight_elems(g), weight_elems(g)}, inlet));
  HD_TRY(hd__cuda_conv_run(x->cuda->native, ctx, way, HD_CUDA_CONV_DATA,
                           (hd_cuda_conv_arrays){packed ? (void *)x->native.bf16[0] : call->out[0], w.at, dy.at}));
  return packed ? widen(x, ctx, 0, (float_rows){call->out[0], way->rows, in_elems(g), call->out_stride[0]}, inlet)
                : HD_OK;
}

static hd_status conv_dw(const hd_exec_cuda *x, hd_ctx *ctx, const hd_cuda_call *call, const hd_cuda_conv *way,
                         int inlet) {
  const hd_geom *g = &call->g;
  const bool packed = x->cuda->precision == HD_CUDA_BF16;
  operand in, dy;
  HD_TRY(all_positions(&dy, x, ctx, call, 1, inlet));
  HD_TRY(take(&in, x, ctx, 0, (float_rows){call->in[0], way->rows, in_elems(g), call->in_stride[0]}, inlet));
  HD_TRY(hd__cuda_conv_run(x->cuda->native, ctx, way, HD_CUDA_CONV_FILTER,
                           (hd_cuda_conv_arrays){in.at, packed ? (void *)x->native.bf16[1] : call->out[0], dy.at}));
  return packed ? widen(x, ctx, 1, (float_rows){call->out[0], 1, weight_elems(g), weight_elems(g)}, inlet) : HD_OK;
}

/* The bias by heddle's kernel, shard by shard; the weights, if trained, by the library. */
static hd_status weights(const hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *planned, const hd_cuda_call *call,
                         const hd_cuda_conv *way, int inlet) {
  hd_cuda_call bias = *call;
  bias.out[0] = NULL;
  if (call->out[1])
    HD_TRY(hd__exec_cuda_launch(x->cuda, ctx, planned->op, x->settings.batch, x->settings.shards, &bias));
  if (!call->out[0])
    return HD_OK;
  if (planned->op == HD_OP_conv2d_dw)
    return conv_dw(x, ctx, call, way, inlet);
  HD_TRY(blank(x, ctx, (float_rows){call->in[1], x->settings.batch, call->g.co, call->in_stride[1]}, inlet));
  return linear_dw(x, ctx, call, inlet);
}

hd_status hd__exec_cuda_native_launch(const hd_exec_cuda *x, hd_ctx *ctx, const hd_plan_call *planned,
                                      const hd_cuda_call *call, int inlet) {
  hd_cuda_conv way = {0};
  if (is_conv(planned->op))
    way = conv_of(x, planned);
  if (is_weights(planned->op))
    return weights(x, ctx, planned, call, &way, inlet);
  return planned->op == HD_OP_linear      ? linear(x, ctx, call, inlet)
         : planned->op == HD_OP_linear_dx ? linear_dx(x, ctx, call, inlet)
         : planned->op == HD_OP_conv2d    ? conv(x, ctx, call, &way, inlet)
                                          : conv_dx(x, ctx, call, &way, inlet);
}
