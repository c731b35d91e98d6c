/* Nodes and sums of gradients; see gradient.h. */
#include "graph/gradient.h"

#include <string.h>

#include "base/alloc.h"

/* Adds a node of the backward pass for `of`, with its name, number, geometry and settings; no outputs yet. */
static hd_status add_node(hd_node **out, hd_grad *grad, hd_op op, const hd_node *of) {
  HD_TRY(hd__graph_new_node(out, grad->graph, grad->ctx, op, of->name, of->written));
  (*out)->geom = of->geom;
  (*out)->attrs = of->attrs;
  return HD_OK;
}

/* Makes an output with the shape of `like`. */
static hd_status add_output(hd_grad *grad, hd_node *node, int slot, const char *suffix, hd_value_kind kind, int like) {
  const hd_shape shape = grad->graph->values[like].shape;
  HD_TRY(hd__graph_output(grad->graph, grad->ctx, node, slot, suffix, &(hd_value_type){kind, HD_F32, shape}));
  grad->graph->values[node->out[slot]].producer = (int)(node - grad->graph->nodes);
  return HD_OK;
}

/* Sets a gradient of `value`, or adds to the one that is there. */
static hd_status give(hd_grad *grad, int value, int gradient) {
  const int there = grad->gradient[value];
  grad->gradient[value] = gradient;
  if (there < 0)
    return HD_OK;
  const hd_value *of = &grad->graph->values[value];
  hd_node sum = {.name = hd__printf_alloc("%s.sum", of->name),
                 .written = grad->graph->nodes[of->producer].written,
                 .geom = hd__geom_of_shape(&grad->graph->values[there].shape)};
  hd_node *node;
  if (!sum.name)
    return hd__fail(grad->ctx, HD_E_NOMEM, "out of memory while building gradients");
  hd_status status = add_node(&node, grad, HD_OP_add, &sum);
  hd__free(sum.name);
  HD_TRY(status);
  node->in[0] = there;
  node->in[1] = gradient;
  HD_TRY(add_output(grad, node, 0, NULL, HD_VALUE_ROWS, there));
  grad->gradient[value] = node->out[0];
  return HD_OK;
}

/* The values that an argument of a kernel of the gradient may be. */
typedef struct backward_args {
  const hd_node *node;
  int dy, sum[4]; /* dw, db; dx and its second output */
} backward_args;

static int value_of(const backward_args *args, hd_arg arg) {
  if (arg == HD_ARG_NONE)
    return -1;
  if (arg == HD_ARG_DY)
    return args->dy;
  if (arg >= HD_ARG_DW)
    return args->sum[arg - HD_ARG_DW];
  return arg >= HD_ARG_Y ? args->node->out[arg - HD_ARG_Y] : args->node->in[arg - HD_ARG_X];
}

static hd_status add_backward(hd_node **out, hd_grad *grad, const hd_backward *backward, const backward_args *args) {
  HD_TRY(add_node(out, grad, backward->op, args->node));
  for (int i = 0; i < HD_MAX_IN; i++)
    (*out)->in[i] = value_of(args, backward->in[i]);
  return HD_OK;
}

/* The gradients of weight and bias, in[1] and in[2]. */
static hd_status add_dw(hd_grad *grad, const hd_backward *dw, backward_args *args) {
  static const char *const suffix[] = {"dw", "db"};
  hd_node *node;
  HD_TRY(add_backward(&node, grad, dw, args));
  for (int i = 0; i < 2; i++) {
    const int param = args->node->in[1 + i];
    if (param < 0)
      continue;
    HD_TRY(add_output(grad, node, i, suffix[i], HD_VALUE_PARAM_GRAD, param));
    args->sum[i] = node->out[i];
    grad->graph->values[node->out[i]].param = grad->graph->values[param].param;
  }
  return HD_OK;
}

/* The gradients of the inputs first to last - 1, by one node. */
static hd_status add_dx(hd_grad *grad, const hd_backward *dx, const backward_args *args, int first, int last) {
  static const char *const suffix[] = {"dx", "dx2"};
  hd_node *node;
  int out[HD_MAX_OUT];
  HD_TRY(add_backward(&node, grad, dx, args));
  node->view = args->node->view;
  for (int i = first; i < last; i++) {
    HD_TRY(add_output(grad, node, i - first, suffix[i - first], HD_VALUE_ROWS, args->node->in[i]));
    out[i - first] = node->out[i - first];
  }
  for (int i = first; i < last; i++)
    if (grad->wanted[args->node->in[i]])
      HD_TRY(give(grad, args->node->in[i], out[i - first]));
  return HD_OK;
}

/* The gradient of the input, and what the kernel of the parameters' gradient reads of it: both are computed even if one
 * of them alone is wanted. */
static hd_status add_dx_then_dw(hd_grad *grad, const hd_op_rule *rule, backward_args *args) {
  hd_node *node;
  const int x = args->node->in[0];
  HD_TRY(add_backward(&node, grad, &rule->dx, args));
  for (int i = 0; i < 1 + rule->dx1; i++) {
    HD_TRY(add_output(grad, node, i, i == 0 ? "dx" : "dx1", HD_VALUE_ROWS, x));
    args->sum[2 + i] = node->out[i];
  }
  if (grad->wanted[x])
    HD_TRY(give(grad, x, args->sum[2]));
  return add_dw(grad, &rule->dw, args);
}

/* With a fused ReLU the gradient passes where y > 0: adds a node for that mask, so that kernels read masked dy. */
static hd_status mask(hd_grad *grad, backward_args *args) {
  hd_node *node;
  const int y = args->node->out[0];
  HD_TRY(add_node(&node, grad, HD_OP_relu_dx, args->node));
  node->geom = hd__geom_of_shape(&grad->graph->values[y].shape);
  node->in[0] = args->dy;
  node->in[1] = y;
  HD_TRY(add_output(grad, node, 0, "mask", HD_VALUE_ROWS, y));
  args->dy = node->out[0];
  return HD_OK;
}

/* Zeros for each channel. */
static hd_status add_zeros(int *out, hd_grad *grad, const hd_node *node) {
  const hd_shape channels = {1, {node->geom.ci}};
  HD_TRY(hd__graph_new_value(out, grad->graph, grad->ctx, "zeros", &(hd_value_type){HD_VALUE_CONST, HD_F32, channels}));
  hd_value *value = &grad->graph->values[*out];
  value->constant = hd__calloc((size_t)hd__value_stride(value), sizeof *value->constant);
  return HD_ALLOCATED(value->constant, grad->ctx, "out of memory while building gradients");
}

/* Of a batch_norm whose statistics are numbers: dx = dy * weight / sqrt(var + eps), which is a batch_norm with mean and
 * bias 0. */
static hd_status add_dx_of_stored(hd_grad *grad, const hd_node *norm, int dy) {
  hd_node *node;
  int zeros;
  HD_TRY(add_zeros(&zeros, grad, norm));
  HD_TRY(add_node(&node, grad, HD_OP_batch_norm, norm));
  const int in[] = {dy, norm->in[1], zeros, zeros, norm->in[4]};
  memcpy(node->in, in, sizeof in);
  HD_TRY(add_output(grad, node, 0, "dx", HD_VALUE_ROWS, norm->in[0]));
  return give(grad, norm->in[0], node->out[0]);
}

/* Each input by a node of its own, with its part of the geometry; the same dy for each input; or one node. */
static hd_status add_dx_of_inputs(hd_grad *grad, const hd_op_rule *rule, const backward_args *args, int inputs) {
  const hd_node *node = args->node;
  hd_node part = *node;
  backward_args one = *args;
  one.node = &part;
  if (rule->dx_kind == HD_DX_ALL)
    return add_dx(grad, &rule->dx, args, 0, inputs);
  for (int i = 0; i < inputs; i++) {
    if (!grad->wanted[node->in[i]])
      continue;
    if (rule->part)
      rule->part(&part.geom, &node->geom, i);
    HD_TRY(rule->dx_kind == HD_DX_SAME ? give(grad, node->in[i], args->dy) : add_dx(grad, &rule->dx, &one, i, i + 1));
  }
  return HD_OK;
}

static bool trains(const hd_grad *grad, int param) {
  return hd__param_trains(&grad->graph->params[grad->graph->values[param].param]);
}

hd_status hd__grad_add(hd_grad *grad, const hd_node *node) {
  const hd_op_rule *rule = hd__op_info(node->op)->rule;
  backward_args args = {.node = node, .dy = grad->gradient[node->out[0]], .sum = {-1, -1, -1, -1}};
  int inputs = 1;
  bool wanted = grad->wanted[node->in[0]];
  while (rule->dx_kind != HD_DX_FIRST && inputs < HD_MAX_IN && node->in[inputs] >= 0)
    wanted |= grad->wanted[node->in[inputs++]];
  if (node->op == HD_OP_batch_norm && grad->graph->values[node->in[3]].kind == HD_VALUE_PARAM) {
    if (trains(grad, node->in[1]) || trains(grad, node->in[2]))
      HD_TRY(add_dw(grad, &rule->dw, &args));
    return wanted ? add_dx_of_stored(grad, node, args.dy) : HD_OK;
  }
  if (node->geom.relu)
    HD_TRY(mask(grad, &args));
  if (rule->dw.in[1] >= HD_ARG_DX)
    return add_dx_then_dw(grad, rule, &args);
  if (rule->dw.in[0])
    HD_TRY(add_dw(grad, &rule->dw, &args));
  return wanted ? add_dx_of_inputs(grad, rule, &args, inputs) : HD_OK;
}
