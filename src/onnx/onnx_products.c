/* Products of two computed values of an ONNX file: heddle has those of an attention; see onnx_layers.h.
 *
 *     softmax(A B' * 1 / sqrt(d) [+ mask]) V
 *
 * Exporters write the axes of the scores A B' in many orders, with heads beside the batch or axes of their own. So the
 * scores are a view of a layer that is not there, heads x rows of A x rows of B, which what moves elements changes as
 * it does any view; factors, a mask and the softmax make other scores of them. The product with V makes the layers. Any
 * other use is refused. A and B may be queries and keys, or keys and queries: the softmax is over the keys. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_layers.h"

void hd__onnx_free_scores(hd_onnx_reader *r) {
  while (r->scores) {
    hd_onnx_scores *next = r->scores->next;
    hd__free(r->scores);
    r->scores = next;
  }
}

/* Other scores, a copy of `from` unless that is NULL. */
static hd_status new_scores(hd_onnx_scores **out, hd_onnx_reader *r, const hd_onnx_scores *from) {
  HD_TRY(HD_NEW(*out, 1, r->ctx, "%s: out of memory while reading", r->path));
  if (from)
    **out = *from;
  (*out)->next = r->scores;
  r->scores = *out;
  return HD_OK;
}

/* Whether an axis is `size` elements that lie `step` apart. */
static bool lies(const hd_onnx_view *v, int axis, int64_t size, int64_t step) {
  bool does = hd__onnx_side(v, axis) == size;
  for (int i = 0; i < v->atoms; i++)
    does = does && (v->atom[i].axis != axis || (v->atom[i].size == size && v->atom[i].step == step));
  return does;
}

/* A tensor as batch x heads x rows x channels, its axes before the last two being of heads. */
static void as_heads(hd_onnx_view *v) {
  int to[HD_ONNX_RANK];
  for (int i = 0; i < v->rank; i++)
    to[i] = i < v->rank - 2 ? 1 : i - v->rank + 4;
  hd__onnx_rename_axes(v, to, 4);
  v->batch = 0;
}

static bool same_heads(const hd_onnx_view *a, const hd_onnx_view *b) {
  bool same = a->rank == b->rank && a->rank > 2 && a->batch == 0 && b->batch == 0;
  for (int i = 0; i < a->rank - 2 && same; i++)
    same = hd__onnx_side(a, i) == hd__onnx_side(b, i);
  return same;
}

static void exchange_last(hd_onnx_view *v) {
  int to[HD_ONNX_RANK];
  for (int i = 0; i < v->rank; i++)
    to[i] = i == v->rank - 1 ? i - 1 : i == v->rank - 2 ? i + 1 : i;
  hd__onnx_rename_axes(v, to, v->rank);
}

/* The view of scores: heads x rows of a x rows of b. */
static hd_status put_scores(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *a,
                            const hd_onnx_view *b) {
  hd_onnx_scores *s;
  HD_TRY(new_scores(&s, r, NULL));
  *s = (hd_onnx_scores){.next = s->next, .node = node, .a = *a, .b = *b, .heads = 1, .factor = 1};
  exchange_last(&s->b);
  s->rows[0] = hd__onnx_side(a, a->rank - 2);
  s->rows[1] = hd__onnx_side(b, b->rank - 1);
  for (int i = 0; i < a->rank - 2; i++)
    s->heads *= hd__onnx_side(a, i);
  as_heads(&s->a);
  as_heads(&s->b);
  *out = (hd_onnx_view){.c = s->heads, .h = s->rows[0], .w = s->rows[1], .rank = a->rank, .scores = s};
  if (s->rows[0] > HD_ONNX_MOST_SIDE / s->heads || s->rows[1] > HD_ONNX_MOST_SIDE / (s->heads * s->rows[0]))
    return hd__onnx_refuse_scores(r, s);
  int64_t step = s->heads * s->rows[0] * s->rows[1];
  for (int i = 0; i < out->rank; i++) {
    const int64_t side = i == out->rank - 1 ? s->rows[1] : hd__onnx_side(a, i);
    step /= side;
    if (side > 1)
      out->atom[out->atoms++] = (hd_onnx_atom){i, side, step};
  }
  return HD_OK;
}

/* Scores of b and a. */
static hd_status exchange(hd_onnx_view *v, hd_onnx_reader *r) {
  const hd_onnx_scores *from = v->scores;
  hd_onnx_scores *s;
  HD_TRY(new_scores(&s, r, from));
  s->a = from->b;
  s->b = from->a;
  s->rows[0] = from->rows[1];
  s->rows[1] = from->rows[0];
  for (int i = 0; i < v->atoms; i++)
    if (v->atom[i].step < from->rows[0] * from->rows[1])
      v->atom[i].step =
          v->atom[i].step >= from->rows[1] ? v->atom[i].step / from->rows[1] : v->atom[i].step * from->rows[0];
  v->h = s->rows[0];
  v->w = s->rows[1];
  v->scores = s;
  return HD_OK;
}

hd_status hd__onnx_change_scores(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, char op,
                                 const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  hd_onnx_scores *s;
  double number;
  if (v->scores->softmax || v->scores->masked || (int)t->n_dims > v->rank)
    return hd__onnx_refuse_scores(r, v->scores);
  if (op != 'A') {
    if (!hd__onnx_scalar(&number, r, name))
      return hd__onnx_refuse_scores(r, v->scores);
    HD_TRY(new_scores(&s, r, v->scores));
    s->factor = op == 'M' ? s->factor * number : s->factor / number;
    v->scores = s;
    return HD_OK;
  }
  const hd_onnx_mask kind = hd__onnx_mask_of(r, name, true, true);
  const int64_t *rows = v->scores->rows;
  if (kind == HD_ONNX_CAUSAL && lies(v, v->rank - 2, rows[1], 1) && lies(v, v->rank - 1, rows[0], rows[1]))
    HD_TRY(exchange(v, r));
  rows = v->scores->rows;
  const bool fits = lies(v, v->rank - 2, rows[0], rows[1]) && lies(v, v->rank - 1, rows[1], 1);
  if (kind == HD_ONNX_OTHER_MASK || (kind == HD_ONNX_CAUSAL && !fits) ||
      t->dims[t->n_dims - 1] != hd__onnx_side(v, v->rank - 1) ||
      t->dims[t->n_dims - 1] != hd__onnx_side(v, v->rank - 2))
    return hd__onnx_refuse(r, node, "expected a causal mask or none, found another one; leave it out");
  HD_TRY(new_scores(&s, r, v->scores));
  s->masked = s->causal = kind == HD_ONNX_CAUSAL;
  v->scores = s;
  return HD_OK;
}

hd_status hd__onnx_softmax_of_scores(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int64_t of,
                                     bool later) {
  const int axis = hd__onnx_axis(v, of);
  bool good = axis >= 0 && axis != v->batch && !v->scores->softmax;
  for (int i = axis + 1; i < v->rank && later; i++)
    good = good && hd__onnx_side(v, i) == 1 && i != v->batch;
  const int64_t *rows = v->scores->rows;
  if (good && !v->scores->masked && !lies(v, axis, rows[1], 1) && lies(v, axis, rows[0], rows[1]))
    HD_TRY(exchange(v, r));
  if (!good || !lies(v, axis, v->scores->rows[1], 1))
    return hd__onnx_refuse(r, node, "expected a softmax over the keys of an attention, found another axis; use that");
  hd_onnx_scores *s;
  HD_TRY(new_scores(&s, r, v->scores));
  s->softmax = true;
  v->scores = s;
  return HD_OK;
}

/* What an attention gives, its axes those of its weights but for the last. */
static hd_status attend(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *weights,
                        const hd_onnx_view *values) {
  const hd_onnx_scores *s = weights->scores;
  const int rank = weights->rank;
  const int64_t places = s->rows[0], width = hd__onnx_side(&s->a, 3);
  int64_t side[HD_ONNX_RANK];
  if (places != s->rows[1] || !hd__onnx_in_order(weights) || !lies(weights, rank - 2, places, places) ||
      !lies(weights, rank - 1, places, 1) || !same_heads(weights, values) ||
      hd__onnx_side(values, rank - 2) != places || hd__onnx_side(values, rank - 1) != width)
    return hd__onnx_refuse(r, node,
                           "expected queries, keys and values of one shape, batch x heads x places x channels, "
                           "found others; heddle has self-attention");
  hd_onnx_view part[] = {s->a, s->b, *values};
  as_heads(&part[2]);
  const double by = s->factor * sqrt((double)width); /* the layer divides by sqrt(d) */
  if (fabs(by) > HD_ONNX_MOST_FACTOR)
    return hd__onnx_refuse_scores(r, s);
  if (fabs(by - 1) > 1e-5)
    HD_TRY(hd__onnx_put_scale(&part[0], r, node, by));
  HD_TRY(hd__onnx_put_attention(out, part, r, node, s->heads, s->causal));
  for (int i = 0; i < rank; i++)
    side[i] = i == rank - 1 ? width : hd__onnx_side(weights, i);
  return hd__onnx_reshape(out, r, node, side, rank);
}

hd_status hd__onnx_multiply(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_view *a,
                            hd_onnx_view *b) {
  if (b->scores || (a->scores && !a->scores->softmax))
    return hd__onnx_refuse_scores(r, b->scores ? b->scores : a->scores);
  if (a->scores)
    return attend(out, r, node, a, b);
  if (!same_heads(a, b) || hd__onnx_side(a, a->rank - 1) != hd__onnx_side(b, b->rank - 2))
    return hd__onnx_refuse(r, node,
                           "expected a constant matrix as weight, found another value; heddle has no products of two "
                           "computed values but in attention, softmax(Q K' / sqrt(d)) V");
  return put_scores(out, r, node, a, b);
}

hd_status hd__onnx_read_product(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  hd_onnx_view a, b;
  HD_TRY(hd__onnx_merged_view(&a, r, hd__onnx_input(node, 0)));
  HD_TRY(hd__onnx_merged_view(&b, r, hd__onnx_input(node, 1)));
  return hd__onnx_multiply(out, r, node, &a, &b);
}

#endif
