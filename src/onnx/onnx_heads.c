/* Queries, keys and values of one layer, and what ONNX files spell out of them; see onnx_reader.h.
 *
 *     q, k, v = x[:, :, :a], x[:, :, a:b], x[:, :, b:], each batch x places x heads x channels, transposed
 *     x = concat(turned(x[:, :, :b]), x[:, :, b:]),  turned(h) = h * cos + (-h2, h1) * sin
 *
 * The first is what heddle's attention reads, without any slice; the second is its rotary. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "base/number.h"
#include "onnx/onnx_layers.h"
#include "op/rotary/rotary_angle.h"

enum { MOST_TURNS = 4 };

/* Neighbouring elements of a value along its last axis. */
typedef struct part {
  const char *whole;
  int64_t first, end; /* end: INT64_MAX for all that follow */
} part;

static bool is_last(int64_t axis, int rank) { return axis == -1 || axis == rank - 1; }

static bool find_slice(part *out, hd_onnx_reader *r, const char *name, int rank) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Slice");
  int64_t start[8], end[8], axis[8], step[8] = {1};
  if (!node || hd__onnx_list(start, r, node, "starts", 1) != 1 || hd__onnx_list(end, r, node, "ends", 2) != 1 ||
      hd__onnx_list(axis, r, node, "axes", 3) != 1 || !is_last(axis[0], rank) || start[0] < 0 || end[0] <= start[0])
    return false;
  if (*hd__onnx_input(node, 4) && (hd__onnx_ints(step, r, hd__onnx_input(node, 4)) != 1 || step[0] != 1))
    return false;
  *out = (part){hd__onnx_resolve(r, hd__onnx_input(node, 0)), start[0], end[0]};
  return true;
}

static bool find_split(part *out, hd_onnx_reader *r, const char *name, int rank) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Split");
  const hd_onnx_value *value = hd__onnx_find(r, name);
  int64_t size[8], first = 0;
  const int count = node ? hd__onnx_list(size, r, node, "split", 1) : 0;
  if (!node || !value || value->output >= count || !is_last(hd__onnx_int(node, "axis", 0), rank))
    return false;
  for (int i = 0; i <= value->output; i++) {
    if (size[i] < 0 || size[i] > HD_ONNX_MOST_SIDE)
      return false;
    first += i < value->output ? size[i] : 0;
  }
  *out = (part){hd__onnx_resolve(r, hd__onnx_input(node, 0)), first, first + size[value->output]};
  return size[value->output] > 0;
}

static bool find_part(part *out, hd_onnx_reader *r, const char *name, int rank) {
  return find_slice(out, r, name, rank) || find_split(out, r, name, rank);
}

/* ---- Attention ---- */

/* A part as key heads x heads that share one (with rank 5) x places x channels; `turned`: the last two exchanged. */
typedef struct heads {
  part of;
  int rank;
  int64_t heads, sharing, width;
  int64_t places; /* as many as there must be, or places of several samples become one; 0: any number */
} heads;

static bool find_heads(heads *out, hd_onnx_reader *r, const char *name, bool turned) {
  static const int64_t wanted[2][2][5] = {{{0, 2, 1, 3}, {0, 2, 3, 1}}, {{0, 2, 3, 1, 4}, {0, 2, 3, 4, 1}}};
  int64_t perm[5] = {0, 1, 2, 3, 4}, side[8];
  const HdOnnx__Node *node = hd__onnx_producer(r, name, "Transpose");
  for (int turns = 0; node && turns < MOST_TURNS; turns++) {
    const HdOnnx__Attribute *by = hd__onnx_attribute(node, "perm");
    if (!by || by->n_ints < 4 || by->n_ints > 5)
      return false;
    for (size_t i = 0; i < by->n_ints; i++) {
      if (perm[i] < 0 || perm[i] >= (int64_t)by->n_ints)
        return false;
      perm[i] = by->ints[perm[i]];
    }
    name = hd__onnx_input(node, 0);
    node = hd__onnx_producer(r, name, "Transpose");
  }
  const HdOnnx__Node *reshape = hd__onnx_producer(r, name, "Reshape");
  out->rank = reshape ? hd__onnx_list(side, r, reshape, "shape", 1) : 0;
  if ((out->rank != 4 && out->rank != 5) || side[2] < 1 || side[out->rank - 2] < 1 || side[out->rank - 1] < 1 ||
      memcmp(perm, wanted[out->rank == 5][turned], (size_t)out->rank * sizeof *perm) != 0)
    return false;
  if (!hd__onnx_keeps_batch(r, side[0]) && (side[0] != -1 || side[1] < 0))
    return false;
  out->places = side[0] == -1 ? side[1] : 0;
  out->heads = side[2];
  out->sharing = out->rank == 5 ? side[3] : 1;
  out->width = side[out->rank - 1];
  return find_part(&out->of, r, hd__onnx_input(reshape, 0), 3) &&
         (out->of.end == INT64_MAX || out->of.end - out->of.first == out->heads * out->sharing * out->width);
}

/* Whether they are the channels of one value, one after the other. */
static bool fits(const heads *q, const heads *k, const heads *v) {
  return q->rank == k->rank && q->rank == v->rank && q->width == k->width && q->width == v->width &&
         q->heads == k->heads && q->heads == v->heads && k->sharing == 1 && v->sharing == 1 &&
         !strcmp(q->of.whole, k->of.whole) && !strcmp(q->of.whole, v->of.whole) && q->of.first == 0 &&
         k->of.first == q->of.end && v->of.first == k->of.end;
}

static bool has_places(const heads *h, const hd_onnx_view *of) {
  return h->places == 0 || h->places == hd__onnx_side(of, 1);
}

/* The output: batch x heads x places x channels. */
static void view_output(hd_onnx_view *out, const heads *q, int64_t places) {
  const int64_t size[] = {q->heads, q->sharing, places, q->width};
  const int64_t step[] = {q->sharing * q->width * places, q->width * places, 1, places};
  out->rank = q->rank;
  out->batch = 0;
  out->flat = false;
  out->c = q->heads * q->sharing * q->width;
  out->atoms = 0;
  for (int i = 0; i < 4; i++)
    if (size[i] > 1)
      out->atom[out->atoms++] = (hd_onnx_atom){q->rank == 5 || i == 0 ? i + 1 : i, size[i], step[i]};
}

hd_status hd__onnx_read_joint_attention(bool *found, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node,
                                        const hd_onnx_attention *a) {
  heads q, k, v;
  char from[HD_ONNX_NAME_BYTES];
  *found = find_heads(&q, r, a->q, false) && find_heads(&k, r, a->k, true) && find_heads(&v, r, a->v, false) &&
           fits(&q, &k, &v) && is_last(a->axis, q.rank) && fabs(a->factor * sqrt((double)q.width) - 1) <= 1e-5;
  if (!*found)
    return HD_OK;
  HD_TRY(hd__onnx_view(out, r, q.of.whole));
  const int64_t channels = q.heads * (q.sharing + 2) * q.width;
  *found = out->rank == 3 && out->batch == 0 && hd__onnx_side(out, 2) == channels && a->rank <= q.rank &&
           has_places(&q, out) && has_places(&k, out) && has_places(&v, out);
  if (!*found)
    return HD_OK;
  HD_TRY(hd__onnx_to_channels(out, r, node, 1u << 2, true));
  memcpy(from, out->layer, sizeof from);
  view_output(out, &q, out->h * out->w);
  return hd__onnx_put(out, r, node, NULL, "op: attention, from: \"%s\", heads: %lld, key_heads: %lld, causal: %s", from,
                      (long long)(q.heads * q.sharing), (long long)q.heads, a->causal ? "true" : "false");
}

/* ---- Rotary ---- */

/* What Concat(Reshape(Add(Mul(h, cos), Mul(Concat(Neg(h2), h1), sin))), values) is of. */
typedef struct turn {
  part of, values;
  const char *head, *cosine, *sine;
  int64_t heads, width;
} turn;

/* The constant operand of a product, and the other one. */
static const char *beside(const char **constant, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *mul = hd__onnx_producer(r, name, "Mul");
  const int which = mul && hd__onnx_tensor(r, hd__onnx_input(mul, 0)) ? 0 : 1;
  *constant = mul ? hd__onnx_input(mul, (size_t)which) : "";
  return mul && hd__onnx_tensor(r, *constant) ? hd__onnx_resolve(r, hd__onnx_input(mul, (size_t)!which)) : NULL;
}

/* Whether a value is (-h2, h1) of the halves of h. */
static bool swaps_halves(hd_onnx_reader *r, const char *name, const char *h, int64_t width) {
  const HdOnnx__Node *join = hd__onnx_producer(r, name, "Concat");
  const HdOnnx__Node *minus = join && join->n_input == 2 ? hd__onnx_producer(r, join->input[0], "Neg") : NULL;
  part low, high;
  return minus && is_last(hd__onnx_int(join, "axis", 0), 4) && find_slice(&high, r, hd__onnx_input(minus, 0), 4) &&
         find_slice(&low, r, join->input[1], 4) && !strcmp(low.whole, h) && !strcmp(high.whole, h) && low.first == 0 &&
         2 * low.end == width && high.first == low.end && high.end >= width;
}

static bool find_turn(turn *t, hd_onnx_reader *r, const HdOnnx__Node *node) {
  int64_t side[8];
  const HdOnnx__Node *flat = node->n_input == 2 ? hd__onnx_producer(r, node->input[0], "Reshape") : NULL;
  const HdOnnx__Node *sum = flat ? hd__onnx_producer(r, hd__onnx_input(flat, 0), "Add") : NULL;
  if (!sum || !is_last(hd__onnx_int(node, "axis", 0), 3) || hd__onnx_list(side, r, flat, "shape", 1) != 3)
    return false;
  const char *swapped = beside(&t->sine, r, hd__onnx_input(sum, 1));
  t->head = beside(&t->cosine, r, hd__onnx_input(sum, 0));
  const HdOnnx__Node *head = t->head ? hd__onnx_producer(r, t->head, "Reshape") : NULL;
  if (!swapped || !head || hd__onnx_list(side, r, head, "shape", 1) != 4 || side[2] < 1 || side[3] < 2)
    return false;
  t->heads = side[2];
  t->width = side[3];
  return swaps_halves(r, swapped, t->head, t->width) && find_part(&t->of, r, hd__onnx_input(head, 0), 3) &&
         find_part(&t->values, r, node->input[1], 3) && !strcmp(t->of.whole, t->values.whole) && t->of.first == 0 &&
         t->of.end == t->heads * t->width && t->values.first == t->of.end;
}

/* Whether a constant has a number for each place and channel, and the same for all heads and samples: it spreads over
 * batch x places x heads x width. */
static bool is_of_places(const hd_onnx_reader *r, const char *name, int64_t places, int64_t width) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  const int64_t wanted[4] = {width, 1, places, 1};
  const size_t rank = t ? t->n_dims : 0;
  bool good = rank <= 4;
  for (size_t i = 0; i < 4 && good; i++)
    good = (i < rank ? t->dims[rank - 1 - i] : 1) == wanted[i];
  return good;
}

/* cos and sin of the angles for a base, as the layer has them: the largest difference, which grows with the place. */
static bool has_base(const float *cosine, const float *sine, int64_t places, int64_t width, double base) {
  const double ratio = hd__exp(-2 / (double)width * hd__log((double)(float)base));
  for (int64_t place = 0; place < places; place++) {
    double frequency = 1;
    for (int64_t i = 0; i < width; i++) {
      float c, s;
      const int64_t at = place * width + i;
      const float tolerance = 2e-6f + 2e-7f * (float)place;
      frequency = i == 0 || i == width / 2 ? 1 : frequency * ratio;
      rotary_cos_sin(&c, &s, (double)place * frequency);
      if (!(fabsf(cosine[at] - c) <= tolerance && fabsf(sine[at] - s) <= tolerance))
        return false;
    }
  }
  return true;
}

/* The base of the angles: that of the second pair at the second place, with as few digits as it takes; 0: none. */
static double find_base(const float *cosine, const float *sine, int64_t places, int64_t width) {
  const bool known = places > 1 && width > 2;
  const double angle = known ? atan2((double)sine[width + 1], (double)cosine[width + 1]) : 1;
  const double base = known ? pow(angle, -(double)width / 2) : 10000;
  for (int digits = 1; digits <= 9; digits++) {
    char text[32];
    double rounded;
    snprintf(text, sizeof text, "%.*e", digits - 1, base);
    if (hd__parse_double(&rounded, text) && rounded >= 1 && rounded <= 1e9 &&
        has_base(cosine, sine, places, width, rounded))
      return rounded;
  }
  return 0;
}

hd_status hd__onnx_read_rotary(bool *found, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  turn t;
  const HdOnnx__Tensor *tensor;
  float *cosine, *sine;
  char from[HD_ONNX_NAME_BYTES], number[HD_NUMBER_BYTES];
  *found = find_turn(&t, r, node);
  if (!*found)
    return HD_OK;
  HD_TRY(hd__onnx_view(out, r, t.of.whole));
  const int64_t values = out->rank == 3 && out->batch == 0 ? hd__onnx_side(out, 2) - t.of.end : 0;
  const int64_t key_heads = values / t.width, queries = t.heads - key_heads,
                places = values ? hd__onnx_side(out, 1) : 0;
  if (values < t.width || values % t.width || queries < 1 || queries % key_heads)
    return hd__onnx_refuse(r, node,
                           "expected queries, keys and values of some heads behind a rotary, found %lld of %lld "
                           "turned; turn queries and keys alone",
                           (long long)t.heads, (long long)(values / t.width));
  if (!is_of_places(r, t.cosine, places, t.width) || !is_of_places(r, t.sine, places, t.width))
    return hd__onnx_refuse(r, node,
                           "expected angles of %lld places x 1 x %lld channels, the same for all heads, found another "
                           "shape; use rotary embeddings as Llama has them",
                           (long long)places, (long long)t.width);
  HD_TRY(hd__onnx_read_floats(&cosine, &tensor, r, node, t.cosine, places * t.width));
  HD_OWNED float *own_cosine = cosine;
  HD_TRY(hd__onnx_read_floats(&sine, &tensor, r, node, t.sine, places * t.width));
  HD_OWNED float *own_sine = sine;
  const double base = find_base(own_cosine, own_sine, places, t.width);
  if (base == 0)
    return hd__onnx_refuse(r, node,
                           "expected angles of a place that fall by powers of one base, found others; use "
                           "rotary embeddings as Llama has them");
  HD_TRY(hd__onnx_to_channels(out, r, node, 1u << 2, true));
  memcpy(from, out->layer, sizeof from);
  hd__format_float(number, (float)base);
  return hd__onnx_put(out, r, node, NULL, "op: rotary, from: \"%s\", heads: %lld, key_heads: %lld, base: %s", from,
                      (long long)queries, (long long)key_heads, number);
}

#endif
