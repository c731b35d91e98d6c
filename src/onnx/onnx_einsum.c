/* Einsum of an ONNX file: a linear layer over some axes, or a product of an attention; see onnx_layers.h.
 *
 *     bpc,chw->bphw    with a constant: the axes of both that the result lacks are the inputs, its others the outputs
 *     bqhc,bkhc->bhqk  of two computed values: the axes of all three are the batch and heads
 *
 * An axis of one value alone that the result lacks, which would be summed, and one that a value has twice are refused.
 */
#ifdef HD_HAVE_ONNX

#include <ctype.h>
#include <string.h>

#include "onnx/onnx_layers.h"

enum { MOST_LETTERS = HD_ONNX_RANK };

typedef char letter_list[MOST_LETTERS + 1];

/* The letters of both values, in[], and of the result, without blanks. */
typedef struct equation {
  letter_list in[2], out;
} equation;

static bool has(const char *letters, char c) { return c && strchr(letters, c); }

/* Adds a letter once; false: it is none, is there already, or is one too many. */
static bool add(char *to, char c) {
  const size_t n = strlen(to);
  if (!isalpha((unsigned char)c) || n == MOST_LETTERS || has(to, c))
    return false;
  to[n] = c;
  to[n + 1] = 0;
  return true;
}

/* Without "->" the result has the letters that stand once, sorted. */
static bool list_result(equation *e) {
  bool good = true;
  for (int c = 'A'; c <= 'z'; c++)
    if (has(e->in[0], (char)c) != has(e->in[1], (char)c))
      good = good && add(e->out, (char)c);
  return good;
}

static bool parse(equation *e, const HdOnnx__Node *node) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, "equation");
  char *to = e->in[0];
  *e = (equation){0};
  for (size_t i = 0; a && i < a->s.len; i++) {
    const char c = (char)a->s.data[i];
    if (c == ' ')
      continue;
    if (c == ',' && to == e->in[0])
      to = e->in[1];
    else if (c == '-' && to == e->in[1] && i + 1 < a->s.len && a->s.data[i + 1] == '>')
      to = e->out, i++;
    else if (!add(to, c))
      return false;
  }
  if (to == e->in[1] && !list_result(e))
    return false;
  bool good = to != e->in[0] && *e->in[1];
  for (const char *c = e->out; *c; c++)
    good = good && (has(e->in[0], *c) || has(e->in[1], *c));
  for (int i = 0; i < 2; i++)
    for (const char *c = e->in[i]; *c; c++)
      good = good && (has(e->out, *c) || has(e->in[!i], *c)); /* else it would be summed */
  return good;
}

/* Appends the letters of `from` that are, or are not, in both other lists. */
static void choose(char *to, const char *from, const char *a, bool in_a, const char *b, bool in_b) {
  size_t n = strlen(to);
  for (; *from; from++)
    if (has(a, *from) == in_a && has(b, *from) == in_b)
      to[n++] = *from;
  to[n] = 0;
}

/* The letters of three lists, one after the other. */
static void join(letter_list to, const char *a, const char *b, const char *c) {
  const char *const lists[] = {a, b, c};
  *to = 0;
  for (int i = 0; i < 3; i++)
    for (const char *at = lists[i]; *at; at++)
      add(to, *at);
}

/* Brings the axes of letters `now` into the order of `order`, which has the same ones. */
static void arrange(hd_onnx_view *v, const char *now, const char *order) {
  int to[HD_ONNX_RANK];
  for (int i = 0; now[i]; i++)
    to[i] = (int)(strchr(order, now[i]) - order);
  hd__onnx_rename_axes(v, to, v->rank);
}

/* Makes `count` neighbouring axes from `first` one, whose sides are kept in side[]; not the batch's. */
static void merge_axes(hd_onnx_view *v, int64_t *side, int first, int count) {
  int to[HD_ONNX_RANK];
  for (int i = 0; i < v->rank; i++)
    to[i] = i < first ? i : i < first + count ? first : i - count + 1;
  for (int i = 0; i < count; i++)
    side[i] = hd__onnx_side(v, first + i);
  hd__onnx_rename_axes(v, to, v->rank - count + 1);
}

/* Makes the axis `first` so many of these sides. */
static hd_status part_axis(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const int64_t *sides,
                           int first, int count) {
  int64_t side[HD_ONNX_RANK];
  const int rank = v->rank + count - 1;
  for (int i = 0; i < rank; i++)
    side[i] = i < first ? hd__onnx_side(v, i) : i < first + count ? sides[i - first] : hd__onnx_side(v, i - count + 1);
  return hd__onnx_reshape(v, r, node, side, rank);
}

static hd_status refuse(hd_onnx_reader *r, const HdOnnx__Node *node) {
  return hd__onnx_refuse(r, node,
                         "expected a linear layer over some axes, or the product of an attention's values, found "
                         "another equation; use MatMul");
}

/* The axes of all letters are there, the batch's first in `order`. */
static bool begins_with_batch(const hd_onnx_view *v, const char *letters, const char *order) {
  return v->rank == (int)strlen(letters) && letters[v->batch] == *order;
}

/* ---- A linear layer ---- */

/* The sizes of a weight's letters; false: it has others than it should. */
static bool sides_of(int64_t *product, int64_t *side, const HdOnnx__Tensor *t, const char *letters, const char *some) {
  *product = 1;
  for (int i = 0; some[i]; i++) {
    side[i] = t->dims[strchr(letters, some[i]) - letters];
    if (side[i] < 1 || *product > HD_ONNX_MOST_SIDE / side[i])
      return false;
    *product *= side[i];
  }
  return true;
}

static hd_status read_linear(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const equation *e, int x) {
  const char *name = hd__onnx_input(node, (size_t)!x), *of_x = e->in[x], *of_w = e->in[!x];
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  letter_list kept = "", inputs = "", outputs = "", order = "", by_rows = "", by_columns = "", result = "";
  int64_t of_inputs[HD_ONNX_RANK], of_outputs[HD_ONNX_RANK], ignored[HD_ONNX_RANK];
  hd_onnx_product p = {.x = hd__onnx_input(node, (size_t)x), .weight = name, .bias = "", .alpha = 1, .beta = 1};
  choose(kept, of_x, of_w, false, e->out, true);
  choose(inputs, of_w, of_x, true, e->out, false);
  choose(outputs, of_w, of_x, false, e->out, true);
  join(by_rows, inputs, outputs, "");
  join(by_columns, outputs, inputs, "");
  p.by_outputs = strcmp(of_w, by_rows) != 0;
  HD_TRY(hd__onnx_view(v, r, p.x));
  if (t->n_dims != strlen(of_w) || !*inputs || !*outputs || !*kept || (p.by_outputs && strcmp(of_w, by_columns) != 0) ||
      !begins_with_batch(v, of_x, kept) || v->batch != 0 || strlen(kept) + strlen(inputs) > MOST_LETTERS ||
      strlen(kept) + strlen(outputs) > MOST_LETTERS || !sides_of(&p.inputs, of_inputs, t, of_w, inputs) ||
      !sides_of(&p.outputs, of_outputs, t, of_w, outputs))
    return refuse(r, node);
  join(order, kept, inputs, "");
  join(result, kept, outputs, "");
  for (int i = 0; inputs[i]; i++)
    if (hd__onnx_side(v, (int)(strchr(of_x, inputs[i]) - of_x)) != of_inputs[i])
      return refuse(r, node);
  arrange(v, of_x, order);
  merge_axes(v, ignored, (int)strlen(kept), (int)strlen(inputs));
  HD_TRY(hd__onnx_put_product(v, r, node, p));
  HD_TRY(part_axis(v, r, node, of_outputs, (int)strlen(kept), (int)strlen(outputs)));
  arrange(v, result, e->out);
  return HD_OK;
}

/* ---- Two computed values ---- */

static hd_status read_product(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, const equation *e,
                              int first) {
  const char *of_a = e->in[first], *of_b = e->in[!first];
  letter_list heads = "", inner = "", rows = "", columns = "", order = "", result = "";
  int64_t of_rows[HD_ONNX_RANK], of_columns[HD_ONNX_RANK], ignored[HD_ONNX_RANK];
  hd_onnx_view a, b;
  choose(heads, of_a, of_b, true, e->out, true);
  choose(inner, of_a, of_b, true, e->out, false);
  choose(rows, of_a, of_b, false, e->out, true);
  choose(columns, of_b, of_a, false, e->out, true);
  HD_TRY(hd__onnx_merged_view(&a, r, hd__onnx_input(node, (size_t)first)));
  HD_TRY(hd__onnx_merged_view(&b, r, hd__onnx_input(node, (size_t)!first)));
  if (!*heads || !*inner || !*rows || !*columns || !begins_with_batch(&a, of_a, heads) ||
      !begins_with_batch(&b, of_b, heads))
    return refuse(r, node);
  const int lead = (int)strlen(heads);
  join(order, heads, rows, inner);
  arrange(&a, of_a, order);
  merge_axes(&a, ignored, lead + (int)strlen(rows), (int)strlen(inner));
  merge_axes(&a, of_rows, lead, (int)strlen(rows));
  join(order, heads, inner, columns);
  arrange(&b, of_b, order);
  for (int i = 0; inner[i]; i++)
    if (hd__onnx_side(&b, lead + i) != ignored[i])
      return refuse(r, node);
  merge_axes(&b, of_columns, lead + (int)strlen(inner), (int)strlen(columns));
  merge_axes(&b, ignored, lead, (int)strlen(inner));
  HD_TRY(hd__onnx_multiply(out, r, node, &a, &b));
  HD_TRY(part_axis(out, r, node, of_columns, lead + 1, (int)strlen(columns)));
  HD_TRY(part_axis(out, r, node, of_rows, lead, (int)strlen(rows)));
  join(result, heads, rows, columns);
  arrange(out, result, e->out);
  return HD_OK;
}

/* Weights of an attention come first. */
static hd_status read_two(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, const equation *e) {
  hd_onnx_view second;
  HD_TRY(hd__onnx_merged_view(&second, r, hd__onnx_input(node, 1)));
  return read_product(out, r, node, e, second.scores != NULL);
}

hd_status hd__onnx_read_einsum(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  equation e;
  if (node->n_input != 2 || !parse(&e, node))
    return refuse(r, node);
  for (int i = 0; i < 2; i++)
    if (hd__onnx_tensor(r, hd__onnx_input(node, (size_t)i)))
      return read_linear(out, r, node, &e, !i);
  return read_two(out, r, node, &e);
}

#endif
