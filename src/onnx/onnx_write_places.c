/* Layers of networks that read tokens, as nodes of ONNX: batch x places x channels; see onnx_writer.h. */
#ifdef HD_HAVE_ONNX

#include <math.h>

#include "base/alloc.h"
#include "onnx/onnx_writer.h"
#include "op/attention/attention.h"
#include "op/rotary/rotary.h"

void hd__onnx_write_pointwise(hd_onnx_writer *w, const hd_node *node) {
  const char *x = hd__onnx_in(w, node, 0), *weight = hd__onnx_in(w, node, 1);
  if (w->net->graph->values[node->in[1]].shape.rank > 2)
    weight = hd__onnx_step_reshape(w, weight, (int64_t[]){node->geom.co, node->geom.ci}, 2);
  weight = hd__onnx_step_transpose(w, weight, NULL, 0);
  if (node->in[2] >= 0)
    hd__onnx_finish(w, "Add", NULL, hd__onnx_step(w, "MatMul", x, weight), hd__onnx_in(w, node, 2));
  else
    hd__onnx_finish(w, "MatMul", NULL, x, weight);
}

void hd__onnx_write_embedding(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd__onnx_finish(w, op, NULL, hd__onnx_in(w, node, 1), hd__onnx_in(w, node, 0));
}

/* Elements from `first` to `end` - 1 along the last axis. */
static const char *cut(hd_onnx_writer *w, const char *x, int64_t first, int64_t end) {
  const int64_t axis = -1;
  const char *name = hd__onnx_new_name(w);
  return hd__onnx_write_node(w, "Slice", name, name, NULL, x, hd__onnx_write_numbers(w, &first, 1),
                             hd__onnx_write_numbers(w, &end, 1), hd__onnx_write_numbers(w, &axis, 1), (char *)NULL);
}

static const char *join(hd_onnx_writer *w, const char *name, const char *out, const char *a, const char *b) {
  hd_onnx_attributes axis = {.count = 0};
  hd__onnx_set_int(&axis, "axis", -1);
  return hd__onnx_write_node(w, "Concat", name, out, &axis, a, b, (char *)NULL);
}

/* cos or sin of the angle of each pair of channels, twice, for each place: places x 1 x channels of a head. */
static const char *angles(hd_onnx_writer *w, const hd_geom *g, bool sine) {
  const int64_t places = g->wi, half = rotary_width(g) / 2;
  HD_OWNED float *value = hd__malloc((size_t)(places * half) * 2 * sizeof *value);
  const char *name = hd__onnx_new_name(w);
  w->failed |= !value;
  for (int64_t i = 0; i < places * half && value; i++) {
    float c, s;
    rotary_cos_sin(&c, &s, (double)(i / half) * rotary_frequency(g, (int)(i % half)));
    float *at = value + i / half * 2 * half + i % half;
    at[0] = at[half] = sine ? s : c;
  }
  if (value)
    hd__onnx_write_tensor(w, name, HD_ONNX_FLOAT, value, (int64_t[]){places, 1, 2 * half}, 3);
  return name;
}

/* Of queries and keys x * cos + (-x2, x1) * sin, x1 and x2 being the halves of a head; then the values. */
void hd__onnx_write_rotary(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const int64_t heads = rotary_heads(g), width = rotary_width(g), turned = heads * width;
  const char *x = hd__onnx_in(w, node, 0), *head = hd__onnx_new_name(w);
  const int64_t shape[] = {0, 0, heads, width}, flat[] = {0, 0, turned};
  hd__onnx_write_node(w, "Reshape", head, head, NULL, cut(w, x, 0, turned), hd__onnx_write_numbers(w, shape, 4),
                      (char *)NULL);
  const char *minus = hd__onnx_step(w, "Neg", cut(w, head, width / 2, width), NULL), *swapped = hd__onnx_new_name(w);
  join(w, swapped, swapped, minus, cut(w, head, 0, width / 2));
  const char *y = hd__onnx_step(w, "Add", hd__onnx_step(w, "Mul", head, angles(w, g, false)),
                                hd__onnx_step(w, "Mul", swapped, angles(w, g, true)));
  join(w, w->layer, w->out, hd__onnx_step(w, "Reshape", y, hd__onnx_write_numbers(w, flat, 3)),
       cut(w, x, turned, g->ci));
}

/* 0 where a place sees another, else minus infinity. */
static const char *causal_mask(hd_onnx_writer *w, int64_t places) {
  static const char name[] = "/causal_mask"; /* no layer's */
  HD_OWNED float *value = w->masked ? NULL : hd__malloc((size_t)(places * places) * sizeof *value);
  w->failed |= !w->masked && !value;
  for (int64_t i = 0; i < places * places && value; i++)
    value[i] = i % places <= i / places ? 0 : -INFINITY;
  if (value)
    hd__onnx_write_tensor(w, name, HD_ONNX_FLOAT, value, (int64_t[]){places, places}, 2);
  w->masked = true;
  return name;
}

/* A part of the channels as heads x places x channels, or with the last two exchanged; where heads share keys, as key
 * heads x heads that share one x places x channels. */
static const char *heads_of(hd_onnx_writer *w, const hd_geom *g, const char *part, int64_t sharing, bool turned) {
  static const int64_t perm[2][2][5] = {{{0, 2, 1, 3}, {0, 2, 3, 1}}, {{0, 2, 3, 1, 4}, {0, 2, 3, 4, 1}}};
  const bool shared = attention_sharing(g) > 1;
  const int64_t width = attention_width(g), rank = shared ? 5 : 4;
  const int64_t shape[] = {0, 0, attention_key_heads(g), shared ? sharing : width, width};
  return hd__onnx_step_transpose(w, hd__onnx_step(w, "Reshape", part, hd__onnx_write_numbers(w, shape, rank)),
                                 perm[shared][turned], (size_t)rank);
}

void hd__onnx_write_attention(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const int64_t first = attention_key(g, 0), second = attention_value(g, 0), flat[] = {0, 0, g->co};
  const int64_t sharing = attention_sharing(g), back[] = {0, 2, 1, 3}, back_shared[] = {0, 3, 1, 2, 4};
  const char *x = hd__onnx_in(w, node, 0);
  const char *q = heads_of(w, g, cut(w, x, 0, first), sharing, false);
  const char *k = heads_of(w, g, cut(w, x, first, second), 1, true);
  const char *v = heads_of(w, g, cut(w, x, second, g->ci), 1, false);
  const char *score = hd__onnx_step(w, "Mul", hd__onnx_step(w, "MatMul", q, k),
                                    hd__onnx_write_number(w, 1 / sqrtf((float)attention_width(g))));
  const char *weight = hd__onnx_new_name(w);
  hd_onnx_attributes last = {.count = 0};
  hd__onnx_set_int(&last, "axis", -1);
  if (g->attention.causal)
    score = hd__onnx_step(w, "Add", score, causal_mask(w, g->wi));
  hd__onnx_write_node(w, "Softmax", weight, weight, &last, score, (char *)NULL);
  const char *y = hd__onnx_new_name(w);
  hd__onnx_write_node(w, "MatMul", w->layer, y, NULL, weight, v, (char *)NULL);
  y = sharing > 1 ? hd__onnx_step_transpose(w, y, back_shared, 5) : hd__onnx_step_transpose(w, y, back, 4);
  hd__onnx_write_node(w, op, hd__onnx_new_name(w), w->out, NULL, y, hd__onnx_write_numbers(w, flat, 3), (char *)NULL);
}

#endif
