/* Norms as nodes of ONNX; see onnx_writer.h. */
#ifdef HD_HAVE_ONNX

#include "base/alloc.h"
#include "onnx/onnx_writer.h"

void hd__onnx_write_batch_norm(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_float(&a, "epsilon", node->geom.norm.eps);
  hd__onnx_set_float(&a, "momentum", 1 - node->attrs.momentum);
  hd__onnx_write_node(w, op, w->layer, w->out, &a, hd__onnx_in(w, node, 0), hd__onnx_in(w, node, 1),
                      hd__onnx_in(w, node, 2), hd__onnx_in(w, node, 3), hd__onnx_in(w, node, 4), (char *)NULL);
}

void hd__onnx_write_layer_norm(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_float(&a, "epsilon", node->geom.norm.eps);
  hd__onnx_set_int(&a, "axis", 1);
  hd__onnx_write_node(w, op, w->layer, w->out, &a, hd__onnx_in(w, node, 0), hd__onnx_in(w, node, 1),
                      hd__onnx_in(w, node, 2), (char *)NULL);
}

void hd__onnx_write_instance_norm(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_float(&a, "epsilon", node->geom.norm.eps);
  hd__onnx_write_node(w, op, w->layer, w->out, &a, hd__onnx_in(w, node, 0), hd__onnx_in(w, node, 1),
                      hd__onnx_in(w, node, 2), (char *)NULL);
}

/* Channels last, and back. */
void hd__onnx_write_layer_norm2d(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const bool is_image = !w->places && w->net->graph->values[node->in[0]].shape.rank == 3;
  hd_onnx_attributes a = {.count = 0}, last = {.count = 0}, back = {.count = 0};
  hd__onnx_set_float(&a, "epsilon", node->geom.norm.eps);
  hd__onnx_set_int(&a, "axis", -1);
  hd__onnx_set_ints(&last, "perm", (const int64_t[]){0, 2, 3, 1}, 4);
  hd__onnx_set_ints(&back, "perm", (const int64_t[]){0, 3, 1, 2}, 4);
  const char *x = hd__onnx_in(w, node, 0), *turned = hd__onnx_new_name(w), *normal = hd__onnx_new_name(w);
  if (is_image)
    x = hd__onnx_write_node(w, "Transpose", turned, turned, &last, x, (char *)NULL);
  hd__onnx_write_node(w, op, is_image ? normal : w->layer, is_image ? normal : w->out, &a, x, hd__onnx_in(w, node, 1),
                      hd__onnx_in(w, node, 2), (char *)NULL);
  if (is_image)
    hd__onnx_finish(w, "Transpose", &back, normal, NULL);
}

/* x / sqrt(mean of x * x + eps) * weight */
void hd__onnx_write_rms_norm(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const char *x = hd__onnx_in(w, node, 0), *mean = hd__onnx_new_name(w);
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "keepdims", 1);
  hd__onnx_set_ints(&a, "axes", (const int64_t[]){hd__onnx_channel_axis(w, node)}, 1);
  hd__onnx_write_node(w, "ReduceMean", mean, mean, &a, hd__onnx_step(w, "Mul", x, x), (char *)NULL);
  const char *root =
      hd__onnx_step(w, "Sqrt", hd__onnx_step(w, "Add", mean, hd__onnx_write_number(w, node->geom.norm.eps)), NULL);
  hd__onnx_finish(w, op, NULL, hd__onnx_step(w, "Div", x, root), hd__onnx_in(w, node, 1));
}

/* A norm of each group, seen as one channel; then weight and bias of the channels. */
void hd__onnx_write_group_norm(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const size_t rank = 1 + (size_t)w->net->graph->values[node->in[0]].shape.rank;
  float *one = hd__malloc((size_t)g->norm.groups * 2 * sizeof *one);
  hd_onnx_attributes a = {.count = 0};
  w->failed |= !one;
  if (!one)
    return;
  for (int i = 0; i < 2 * g->norm.groups; i++)
    one[i] = (float)(i < g->norm.groups);
  const char *weight = hd__onnx_new_name(w), *bias = hd__onnx_new_name(w), *normal = hd__onnx_new_name(w);
  hd__onnx_write_tensor(w, weight, HD_ONNX_FLOAT, one, (int64_t[]){g->norm.groups}, 1);
  hd__onnx_write_tensor(w, bias, HD_ONNX_FLOAT, one + g->norm.groups, (int64_t[]){g->norm.groups}, 1);
  hd__free(one);
  hd__onnx_set_float(&a, "epsilon", g->norm.eps);
  hd__onnx_write_node(w, "InstanceNormalization", normal, normal, &a,
                      hd__onnx_step_reshape(w, hd__onnx_in(w, node, 0), (int64_t[]){0, g->norm.groups, -1}, 3), weight,
                      bias, (char *)NULL);
  const char *back = hd__onnx_step_reshape(w, normal, (int64_t[]){0, g->ci, g->hi, g->wi}, rank);
  hd__onnx_finish(w, op, NULL, hd__onnx_step(w, "Mul", back, hd__onnx_in(w, node, 1)), hd__onnx_in(w, node, 2));
}

#endif
