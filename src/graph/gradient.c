/* Nodes and sums of gradients; see gradient.h. */
#include "graph/gradient.h"

#include <string.h>

#include "base/alloc.h"

int hd__grad_of(const hd_grad *grad, int value) { return grad->gradient[value]; }

bool hd__grad_wants(const hd_grad *grad, int value) { return grad->wanted[value]; }

hd_status hd__grad_node(hd_node **out, hd_grad *grad, hd_op op, const hd_node *of, const int *in, int count) {
  /* `of` points into the growing array: what is needed is copied first. */
  hd_node from = *of;
  char *name = hd__strdup(from.name);
  if (!name)
    return hd__fail(grad->ctx, HD_E_NOMEM, "out of memory while building gradients");
  hd_status status = hd__graph_new_node(out, grad->graph, grad->ctx, op, name, from.written);
  hd__free(name);
  HD_TRY(status);
  hd_node *node = *out;
  node->geom = from.geom;
  node->attrs = from.attrs;
  memcpy(node->in, in, (size_t)count * sizeof *in);
  HD_TRY(grad->info(op)->infer(grad->graph, grad->ctx, node));
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (node->out[i] >= 0)
      grad->graph->values[node->out[i]].producer = (int)(node - grad->graph->nodes);
  return HD_OK;
}

void hd__grad_note_param(hd_grad *grad, int value, int gradient) {
  grad->graph->values[gradient].param = grad->graph->values[value].param;
}

hd_status hd__grad_give(hd_grad *grad, int value, int gradient) {
  if (grad->gradient[value] < 0) {
    grad->gradient[value] = gradient;
    return HD_OK;
  }
  const hd_value *of = &grad->graph->values[value];
  hd_node sum = {.name = hd__printf_alloc("%s.sum", of->name), .written = grad->graph->nodes[of->producer].written};
  hd_node *node;
  if (!sum.name)
    return hd__fail(grad->ctx, HD_E_NOMEM, "out of memory while building gradients");
  hd_status status = hd__grad_node(&node, grad, HD_OP_add, &sum, (int[]){grad->gradient[value], gradient}, 2);
  hd__free(sum.name);
  HD_TRY(status);
  grad->gradient[value] = node->out[0];
  return HD_OK;
}

hd_status hd__grad_none(hd_grad *grad, const hd_node *node) {
  (void)grad;
  (void)node;
  return hd__fail(NULL, HD_E_UNSUPPORTED, "not differentiable");
}
