/* Attention, which ONNX files spell out; see onnx_reader.h.
 *
 *     Softmax(Q K' * 1 / sqrt(d) [+ mask]) V
 *
 * The factor may be at Q, at K or at the product, in parts. A mask that leaves places themselves and those before them
 * makes it causal; a constant one of zeros makes nothing. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_layers.h"

enum { MOST_STEPS = 32 };

/* Constants: their product, and the most dimensions that one has, which the value that they are applied to gets. */
typedef struct numbers {
  double factor;
  int rank;
} numbers;

static bool take_number(double *number, int *rank, hd_onnx_reader *r, const char *name) {
  if (!hd__onnx_number(number, r, name))
    return false;
  hd__onnx_fold_late(r, name);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  *rank = t && (int)t->n_dims > *rank ? (int)t->n_dims : *rank;
  return true;
}

/* A factor that stands before a value, and the value. */
static const char *unscaled(numbers *n, hd_onnx_reader *r, const char *name) {
  double number;
  for (int steps = 0; steps < MOST_STEPS; steps++) {
    const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
    const bool mul = node && hd__onnx_is(node, "Mul"), div = node && hd__onnx_is(node, "Div");
    if (mul && take_number(&number, &n->rank, r, hd__onnx_input(node, 0))) {
      n->factor *= number;
      name = hd__onnx_input(node, 1);
    } else if ((mul || div) && take_number(&number, &n->rank, r, hd__onnx_input(node, 1))) {
      n->factor = mul ? n->factor * number : n->factor / number;
      name = hd__onnx_input(node, 0);
    } else {
      return name;
    }
  }
  return name;
}

/* The softmax below nodes that change none of its numbers: dropout, and a guard against NaN. */
static const HdOnnx__Node *softmax_of(const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
  if (node && hd__onnx_is(node, "Dropout") && !hd__onnx_drops(r, node))
    node = hd__onnx_producer(r, hd__onnx_input(node, 0), NULL);
  if (node && hd__onnx_is(node, "Where")) {
    const HdOnnx__Node *nan = hd__onnx_producer(r, hd__onnx_input(node, 0), "IsNaN");
    node = hd__onnx_producer(r, hd__onnx_input(node, 2), NULL);
    node = nan && node == hd__onnx_producer(r, hd__onnx_input(nan, 0), NULL) ? node : NULL;
  }
  return node && hd__onnx_is(node, "Softmax") ? node : NULL;
}

static bool is_low(int *rank, hd_onnx_reader *r, const char *name) {
  double number;
  return take_number(&number, rank, r, name) && number <= -1e4;
}

/* The dimensions of a constant, at least `rank`. */
static int rank_of(const hd_onnx_reader *r, const char *name, int rank) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  return t && (int)t->n_dims > rank ? (int)t->n_dims : rank;
}

/* The scores below a mask. */
static const char *unmasked(hd_onnx_mask *kind, int *rank, hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
  *kind = HD_ONNX_NO_MASK;
  for (size_t i = 0; node && (hd__onnx_is(node, "Add") || hd__onnx_is(node, "Where")) && i < node->n_input; i++)
    hd__onnx_fold_late(r, node->input[i]);
  if (node && hd__onnx_is(node, "Add"))
    for (size_t i = 0; i < 2; i++)
      if (hd__onnx_tensor(r, hd__onnx_input(node, i))) {
        *kind = hd__onnx_mask_of(r, hd__onnx_input(node, i), true, true);
        *rank = rank_of(r, hd__onnx_input(node, i), *rank);
        return hd__onnx_input(node, !i);
      }
  if (node && hd__onnx_is(node, "Where"))
    for (size_t i = 1; i < 3; i++)
      if (is_low(rank, r, hd__onnx_input(node, i))) {
        *kind = hd__onnx_mask_of(r, hd__onnx_input(node, 0), false, i == 2);
        *rank = rank_of(r, hd__onnx_input(node, 0), *rank);
        return hd__onnx_input(node, 3 - i);
      }
  return name;
}

typedef struct attention {
  const char *q, *k, *v; /* k with its last two axes exchanged */
  int64_t axis;          /* of the softmax */
  numbers by;            /* the factor of the scores, and the dimensions of all constants */
  hd_onnx_mask mask;
} attention;

static bool find(attention *a, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Node *softmax = softmax_of(r, hd__onnx_input(node, 0)), *scores;
  *a = (attention){.v = hd__onnx_input(node, 1), .by = {1, 0}};
  if (!softmax)
    return false;
  a->axis = hd__onnx_int(softmax, "axis", r->opset < HD_ONNX_SOFTMAX_OF_ONE_AXIS ? 1 : -1);
  const char *name = unmasked(&a->mask, &a->by.rank, r, unscaled(&a->by, r, hd__onnx_input(softmax, 0)));
  scores = hd__onnx_producer(r, unscaled(&a->by, r, name), "MatMul");
  if (!scores)
    return false;
  a->q = unscaled(&a->by, r, hd__onnx_input(scores, 0));
  a->k = unscaled(&a->by, r, hd__onnx_input(scores, 1));
  const HdOnnx__Node *turned = hd__onnx_producer(r, a->k, "Transpose");
  if (turned) /* a factor before the transposition */
    unscaled(&a->by, r, hd__onnx_input(turned, 0));
  return true;
}

/* The view of keys, where a factor before their transposition is left out. */
static hd_status keys_of(hd_onnx_view *out, hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *turned = hd__onnx_producer(r, name, "Transpose");
  numbers ignored = {1, 0};
  const char *inner = turned ? unscaled(&ignored, r, hd__onnx_input(turned, 0)) : NULL;
  if (!inner || !strcmp(inner, hd__onnx_input(turned, 0)))
    return hd__onnx_view(out, r, name);
  const HdOnnx__Attribute *perm = hd__onnx_attribute(turned, "perm");
  int to[HD_ONNX_RANK] = {0};
  HD_TRY(hd__onnx_view(out, r, inner));
  for (int i = 0; i < out->rank; i++) {
    if (!perm || perm->n_ints != (size_t)out->rank || perm->ints[i] < 0 || perm->ints[i] >= out->rank)
      return hd__onnx_refuse(r, turned, "expected each axis once, found others; export it again");
    to[perm->ints[i]] = i;
  }
  hd__onnx_rename_axes(out, to, out->rank);
  return HD_OK;
}

/* Whether the elements of an axis lie alike in two images. */
static bool same_places_of(const hd_onnx_view *a, const hd_onnx_view *b, int axis) {
  int i = 0, k = 0;
  if (a->h != b->h || a->w != b->w)
    return false;
  for (;; i++, k++) {
    while (i < a->atoms && a->atom[i].axis != axis)
      i++;
    while (k < b->atoms && b->atom[k].axis != axis)
      k++;
    if (i == a->atoms || k == b->atoms)
      return i == a->atoms && k == b->atoms;
    if (a->atom[i].size != b->atom[k].size || a->atom[i].step != b->atom[k].step)
      return false;
  }
}

hd_status hd__onnx_put_attention(hd_onnx_view *out, hd_onnx_view part[3], hd_onnx_reader *r, const HdOnnx__Node *node,
                                 int64_t heads, bool causal) {
  const int rank = part[0].rank;
  const uint32_t channels = 1u << (rank - 1) | (rank == 4 ? 2u : 0u);
  char joined[HD_ONNX_NAME_BYTES];
  bool same = true;
  for (int i = 0; i < 3; i++) {
    HD_TRY(hd__onnx_to_channels(&part[i], r, node, channels, false));
    same = same && same_places_of(&part[0], &part[i], rank - 2);
  }
  for (int i = 0; i < 3; i++) { /* else all in the order of the places */
    if (!same) {
      HD_TRY(hd__onnx_to_channels(&part[i], r, node, channels, true));
      HD_TRY(hd__onnx_to_channels(&part[i], r, node, channels, false)); /* joins what now lies as one */
    }
    if (!same_places_of(&part[0], &part[i], rank - 2))
      return hd__onnx_refuse(r, node,
                             "expected queries, keys and values of the same places, found others; use one "
                             "linear layer for all");
  }
  *out = part[0];
  out->c *= 3;
  HD_TRY(hd__onnx_put(out, r, node, NULL, "op: concat, from: [\"%s\", \"%s\", \"%s\"]", part[0].layer, part[1].layer,
                      part[2].layer));
  memcpy(joined, out->layer, sizeof joined);
  out->c /= 3;
  return hd__onnx_put(out, r, node, NULL, "op: attention, from: \"%s\", heads: %lld, causal: %s", joined,
                      (long long)heads, causal ? "true" : "false");
}

hd_status hd__onnx_read_attention(bool *is, hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  attention a;
  hd_onnx_view part[3];
  *is = find(&a, r, node);
  if (!*is)
    return HD_OK;
  if (a.mask == HD_ONNX_OTHER_MASK)
    return hd__onnx_refuse(r, node, "expected a causal mask or none, found another one; leave it out");
  const hd_onnx_attention product = {a.q, a.k, a.v, a.by.factor, a.mask == HD_ONNX_CAUSAL, a.by.rank, a.axis};
  bool is_joint;
  HD_TRY(hd__onnx_read_joint_attention(&is_joint, out, r, node, &product));
  if (is_joint)
    return HD_OK;
  HD_TRY(hd__onnx_merged_view(&part[0], r, a.q));
  *is = hd__onnx_side(&part[0], part[0].batch) <= 1 && /* else heads are beside the batch */
        hd__onnx_axis(&part[0], a.axis) == part[0].rank - 1;
  if (!*is)
    return HD_OK;
  HD_TRY(hd__onnx_view(&part[0], r, a.q));
  HD_TRY(keys_of(&part[1], r, a.k));
  HD_TRY(hd__onnx_view(&part[2], r, a.v));
  const int rank = part[0].rank, place = rank - 2, last = rank - 1;
  const int64_t heads = rank == 4 ? hd__onnx_side(&part[0], 1) : 1, width = hd__onnx_side(&part[0], last),
                places = hd__onnx_side(&part[0], place);
  bool good = rank == 3 || rank == 4;
  int swap[HD_ONNX_RANK];
  for (int i = 0; i < rank; i++)
    swap[i] = i == place ? last : i == last ? place : i;
  if (good && part[1].rank == rank)
    hd__onnx_rename_axes(&part[1], swap, rank);
  for (int i = 0; i < 3 && good; i++)
    good = part[i].rank == rank && part[i].batch == 0 && hd__onnx_side(&part[i], place) == places &&
           hd__onnx_side(&part[i], last) == width && (rank == 3 || hd__onnx_side(&part[i], 1) == heads);
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected queries, keys and values of one shape, batch x heads x places x channels, "
                           "found others; heddle has self-attention");
  if (a.by.rank > rank)
    return hd__onnx_refuse(r, node,
                           "expected a mask and factors of at most %d dimensions, as the scores have, found %d; "
                           "leave those of one element out",
                           rank, a.by.rank);
  *is = fabs(a.by.factor * sqrt((double)width) - 1) <= 1e-5; /* else the queries are scaled */
  if (!*is)
    return HD_OK;
  return hd__onnx_put_attention(out, part, r, node, heads, a.mask == HD_ONNX_CAUSAL);
}

#endif
