/* Layers that move the elements of a tensor; see onnx_reader.h.
 *
 * A tensor that is transposed, reshaped, squeezed or repeated is another view of the same layer (onnx_view.c). Only
 * where a layer needs another order, its elements are moved, by layers `reshape`: nearly always a file moves them back
 * before that. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_reader.h"

enum { MOST_IMAGE = 16384, MOST_FACTOR = 1024 }; /* of an upsample */

/* ---- Moving elements ---- */

/* A layer that has moved the same elements to the same places; *v becomes its view. */
static bool find_move(hd_onnx_view *v, const hd_onnx_reader *r, const hd_onnx_view *to) {
  for (int i = 0; i < r->moves; i++)
    if (!strcmp(r->move[i].from.layer, v->layer) && hd__onnx_same_places(&r->move[i].from, v) &&
        hd__onnx_same_places(&r->move[i].to, to)) {
      memcpy(v->layer, r->move[i].to.layer, sizeof v->layer);
      v->flat = to->flat;
      v->c = to->c, v->h = to->h, v->w = to->w;
      memcpy(v->atom, to->atom, sizeof v->atom);
      return true;
    }
  return false;
}

static void keep_move(hd_onnx_reader *r, const hd_onnx_view *from, const hd_onnx_view *to) {
  if (r->moves < HD_ONNX_LAYERS)
    r->move[r->moves++] = (hd_onnx_move){*from, *to};
}

static int64_t product(const hd_onnx_view *v, const int *list, int from, int to) {
  int64_t size = 1;
  for (int i = from; i < to; i++)
    size *= v->atom[list[i]].size;
  return size;
}

/* The atoms in the order in which they lie in the layer; false: some elements of it are not in the tensor, or often. */
static bool list_places(int *list, const hd_onnx_view *v) {
  int64_t step = v->c * v->h * v->w;
  for (int i = 0; i < v->atoms; i++) {
    int largest = -1;
    for (int k = 0; k < v->atoms; k++)
      if (v->atom[k].step > 0 && v->atom[k].step < step && (largest < 0 || v->atom[k].step > v->atom[largest].step))
        largest = k;
    if (largest < 0 || v->atom[largest].step * v->atom[largest].size != step)
      return false;
    step = v->atom[largest].step;
    list[i] = largest;
  }
  return step == 1;
}

/* What a layer that moves elements is called after: the operator that moved them, or NODE.KIND. */
static const char *called_after(char text[HD_ONNX_NAME_BYTES], const HdOnnx__Node **node, const hd_onnx_view *v,
                                const char *kind) {
  const bool known = v->source != NULL;
  *node = known ? v->source : *node;
  snprintf(text, HD_ONNX_NAME_BYTES, "%.40s.%s.weight", (*node)->name ? (*node)->name : "", kind);
  return known || !(*node)->name || !*(*node)->name ? NULL : text;
}

static hd_status put_reshape(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const int64_t swap[2],
                             int64_t inner, const int64_t shape[3]) {
  char from[HD_ONNX_NAME_BYTES], text[HD_ONNX_NAME_BYTES], parts[96] = "";
  const char *name = called_after(text, &node, v, "order");
  memcpy(from, v->layer, sizeof from);
  if (swap[0] > 1 && swap[1] > 1)
    snprintf(parts, sizeof parts, ", swap: [%lld, %lld], inner: %lld", (long long)swap[0], (long long)swap[1],
             (long long)inner);
  v->flat = false;
  v->c = shape[0], v->h = shape[1], v->w = shape[2];
  return hd__onnx_put(v, r, node, name, "op: reshape, from: \"%s\", out: %lld, size: [%lld, %lld]%s", from,
                      (long long)shape[0], (long long)shape[1], (long long)shape[2], parts);
}

static hd_status refuse_places(hd_onnx_reader *r, const HdOnnx__Node *node) {
  return hd__onnx_refuse(r, node,
                         "expected each element of a layer once, found a tensor that leaves out or repeats some; write "
                         "the operator so that it spreads its values itself");
}

/* Brings atoms into an order, as an image of this shape. */
static hd_status move(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const int *order,
                      const int64_t shape[3]) {
  static const int64_t none[2] = {1, 1};
  const hd_onnx_view before = *v;
  hd_onnx_view after = *v;
  int now[HD_ONNX_ATOMS];
  int64_t step = 1;
  bool moved = false;
  for (int i = v->atoms - 1; i >= 0; step *= v->atom[order[i--]].size)
    after.atom[order[i]].step = step;
  after.flat = false;
  after.c = shape[0], after.h = shape[1], after.w = shape[2];
  if (hd__onnx_same_places(v, &after) || find_move(v, r, &after))
    return HD_OK;
  if (!list_places(now, v) || shape[0] * shape[1] * shape[2] != v->c * v->h * v->w)
    return refuse_places(r, node);
  for (int i = 0; i < v->atoms; i++) {
    int j = i, run = 1;
    if (now[i] == order[i])
      continue;
    while (now[j] != order[i])
      j++;
    while (j + run < v->atoms && now[j + run] == order[i + run])
      run++;
    const int64_t swap[] = {product(v, now, i, j), product(v, now, j, j + run)};
    HD_TRY(put_reshape(v, r, node, swap, product(v, now, j + run, v->atoms), shape));
    int kept[HD_ONNX_ATOMS];
    memcpy(kept, now + i, (size_t)(j - i) * sizeof *now);
    memmove(now + i, now + j, (size_t)run * sizeof *now);
    memcpy(now + i + run, kept, (size_t)(j - i) * sizeof *now);
    moved = true;
  }
  if (!moved)
    HD_TRY(put_reshape(v, r, node, none, 1, shape));
  memcpy(after.layer, v->layer, sizeof after.layer);
  keep_move(r, &before, &after);
  *v = after;
  return HD_OK;
}

/* ---- Repeated elements ---- */

/* Whether no atom of an image reaches from one of its rows into the next one. */
static bool has_rows(const hd_onnx_view *v) {
  bool has = true;
  for (int i = 0; i < v->atoms; i++)
    has = has && (v->atom[i].step >= v->w || v->atom[i].step * v->atom[i].size <= v->w);
  return has;
}

/* Whether a repeated atom stands behind one that counts rows of the image, along the same axis. */
static bool repeats_rows(const hd_onnx_view *v, int repeated) {
  int i = repeated - 1;
  while (i >= 0 && v->atom[i].axis == v->atom[repeated].axis && v->atom[i].step == 0)
    i--;
  return i >= 0 && v->atom[i].axis == v->atom[repeated].axis && v->atom[i].step >= v->w &&
         v->atom[i].step < hd__onnx_pixels(v);
}

/* The places in an image whose pixels are there by[0] times down and by[1] across: row h and column w are then rows
 * h * by[0] + i and columns w * by[1] + j, and the repeated atoms are i and j. */
static void repeat_places(hd_onnx_view *v, int64_t by[2]) {
  const hd_onnx_view before = *v;
  const bool rows = has_rows(v);
  bool down[HD_ONNX_ATOMS];
  by[0] = by[1] = 1;
  for (int i = v->atoms - 1; i >= 0; i--) {
    down[i] = rows && repeats_rows(&before, i);
    if (before.atom[i].step > 0)
      continue;
    int64_t *times = &by[!down[i]];
    v->atom[i].step = *times;
    *times = *times > HD_ONNX_MOST_SIDE / v->atom[i].size ? HD_ONNX_MOST_SIDE : *times * v->atom[i].size;
  }
  for (int i = 0; i < v->atoms; i++) {
    if (before.atom[i].step > 0)
      v->atom[i].step *= by[1] * (before.atom[i].step >= v->w ? by[0] : 1);
    else if (down[i])
      v->atom[i].step *= v->w * by[1];
  }
  v->h *= by[0];
  v->w *= by[1];
}

/* Makes elements that a tensor repeats: the nearest pixels of a larger image. */
static hd_status put_repeats(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  hd_onnx_view image = *v;
  int now[HD_ONNX_ATOMS], n = 0;
  int64_t by[2];
  hd__onnx_strip(&image);
  if (image.flat)
    HD_TRY(move(&image, r, node, (const int[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                (const int64_t[]){hd__onnx_sample(&image), 1, 1}));
  if (!list_places(now, &image))
    return refuse_places(r, node);
  hd_onnx_view before = image;
  before.atoms = v->atoms;
  for (int i = 0; i < v->atoms; i++)
    before.atom[i] = v->atom[i].step > 0 ? image.atom[n++] : v->atom[i];
  hd_onnx_view after = before;
  repeat_places(&after, by);
  *v = before;
  if (find_move(v, r, &after))
    return HD_OK;
  if (after.h > MOST_IMAGE || after.w > MOST_IMAGE || by[0] > MOST_FACTOR || by[1] > MOST_FACTOR)
    return hd__onnx_refuse(r, node, "expected elements that are there at most %d times, found others; repeat them less",
                           MOST_FACTOR);
  HD_TRY(hd__onnx_put(&after, r, node, NULL, "op: upsample, from: \"%s\", scale_factor: [%lld, %lld]", before.layer,
                      (long long)by[0], (long long)by[1]));
  keep_move(r, &before, &after);
  *v = after;
  return HD_OK;
}

/* Atoms of axes in the mask, then the others, each in the order of the axes. */
static void order_first(int *order, const hd_onnx_view *v, uint32_t axes) {
  int n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < v->atoms; i++)
      if (hd__onnx_in_mask(axes, v->atom[i].axis) == !pass)
        order[n++] = i;
}

/* Height and width for some axes: two of these, or all as one row. */
static void sides_of(int64_t out[2], const hd_onnx_view *v, uint32_t axes) {
  int64_t side[HD_ONNX_RANK];
  int n = 0;
  out[0] = out[1] = 1;
  for (int axis = 0; axis < v->rank; axis++)
    if (hd__onnx_in_mask(axes, axis) && (axis != v->batch || hd__onnx_side(v, axis) > 1) && n < HD_ONNX_RANK)
      out[1] *= side[n++] = hd__onnx_side(v, axis);
  if (n == 2) {
    out[0] = side[0];
    out[1] = side[1];
  }
}

static int64_t product_of(const hd_onnx_view *v, uint32_t axes) {
  int64_t size = 1;
  for (int i = 0; i < v->atoms; i++)
    size *= hd__onnx_in_mask(axes, v->atom[i].axis) ? v->atom[i].size : 1;
  return size;
}

/* Whether atoms are the channels in the order of the axes, and the others pixels. */
static bool are_channels(const hd_onnx_view *v, uint32_t axes) {
  const int64_t pixels = hd__onnx_pixels(v);
  int64_t step = pixels;
  if (v->flat)
    return false;
  for (int i = v->atoms - 1; i >= 0; i--) {
    const hd_onnx_atom *a = &v->atom[i];
    if (!hd__onnx_in_mask(axes, a->axis) ? a->step >= pixels || a->step == 0 : a->step != step)
      return false;
    step *= hd__onnx_in_mask(axes, a->axis) ? a->size : 1;
  }
  return step == v->c * pixels;
}

hd_status hd__onnx_to_channels(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, uint32_t axes,
                               bool settled) {
  int order[HD_ONNX_ATOMS];
  int64_t shape[3];
  if (hd__onnx_repeats(v))
    HD_TRY(put_repeats(v, r, node));
  hd__onnx_merge(v);
  if (are_channels(v, axes) && !settled)
    return HD_OK;
  order_first(order, v, axes);
  shape[0] = product_of(v, axes);
  sides_of(shape + 1, v, ~axes);
  return move(v, r, node, order, shape);
}

hd_status hd__onnx_to_pixels(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, uint32_t axes) {
  int order[HD_ONNX_ATOMS];
  int64_t shape[3], pixels = 1;
  if (hd__onnx_repeats(v))
    HD_TRY(put_repeats(v, r, node));
  bool are = !v->flat;
  for (int i = 0; i < v->atoms; i++)
    if (hd__onnx_in_mask(axes, v->atom[i].axis)) {
      are = are && v->atom[i].step > 0 && v->atom[i].step * v->atom[i].size <= hd__onnx_pixels(v);
      pixels *= v->atom[i].size;
    }
  if (are && pixels == hd__onnx_pixels(v))
    return HD_OK;
  hd__onnx_merge(v);
  order_first(order, v, ~axes);
  shape[0] = product_of(v, ~axes);
  sides_of(shape + 1, v, axes);
  return move(v, r, node, order, shape);
}

static hd_status to_image(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const int64_t shape[3]) {
  int order[HD_ONNX_ATOMS];
  if (hd__onnx_repeats(v))
    HD_TRY(put_repeats(v, r, node));
  order_first(order, v, 0);
  return move(v, r, node, order, shape);
}

hd_status hd__onnx_flatten(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, bool any_order) {
  if (hd__onnx_repeats(v))
    HD_TRY(put_repeats(v, r, node));
  if (!any_order && !hd__onnx_in_order(v)) {
    const int64_t first = v->atoms > 0 ? v->atom[0].size : 1;
    HD_TRY(to_image(v, r, node, (int64_t[]){first, 1, hd__onnx_sample(v) / first}));
  }
  if (v->flat)
    return HD_OK;
  const hd_onnx_view before = *v;
  hd_onnx_view after = *v;
  after.flat = true;
  after.c = v->c * v->h * v->w;
  after.h = after.w = 1;
  if (find_move(v, r, &after))
    return HD_OK;
  char text[HD_ONNX_NAME_BYTES];
  const char *name = called_after(text, &node, v, "flat");
  HD_TRY(hd__onnx_put(&after, r, node, name, "op: flatten, from: \"%s\"", before.layer));
  keep_move(r, &before, &after);
  *v = after;
  return HD_OK;
}

hd_status hd__onnx_settle(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  hd__onnx_merge(v);
  if (v->rank <= 2)
    return hd__onnx_flatten(v, r, node, false);
  const uint32_t first = v->batch == 0 ? 2 : 1;
  return hd__onnx_to_channels(v, r, node, first, true);
}

hd_status hd__onnx_image(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  if (v->rank > 2)
    return hd__onnx_settle(v, r, node);
  hd__onnx_merge(v);
  return to_image(v, r, node, (int64_t[]){hd__onnx_sample(v), 1, 1});
}

/* ---- Other axes ---- */

hd_status hd__onnx_reshape(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const int64_t *side,
                           int rank) {
  hd_onnx_view out;
  hd__onnx_merge(v);
  if (!hd__onnx_divide(&out, v, side, rank)) {
    const int64_t first = v->atoms > 0 ? v->atom[0].size : 1;
    HD_TRY(to_image(v, r, node, (int64_t[]){first, 1, hd__onnx_sample(v) / first}));
    v->atom[0] = (hd_onnx_atom){0, hd__onnx_sample(v), 1};
    v->atoms = v->atom[0].size > 1;
    if (!hd__onnx_divide(&out, v, side, rank))
      return hd__onnx_refuse(r, node, "expected a shape of the tensor's elements, found another one; export it again");
  }
  *v = out;
  v->source = node;
  return HD_OK;
}

hd_status hd__onnx_cut(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int axis, int64_t start,
                       int64_t end) {
  const int64_t side = hd__onnx_side(v, axis);
  char from[HD_ONNX_NAME_BYTES];
  if (axis == v->batch || start < 0 || start >= end || end > side)
    return hd__onnx_refuse(r, node,
                           "expected elements from start to end of an axis behind the batch of %lld, found %lld to "
                           "%lld; take others",
                           (long long)side, (long long)start, (long long)end);
  if (end - start == side)
    return HD_OK;
  hd__onnx_merge(v);
  int at = 0, found = 0;
  for (int i = 0; i < v->atoms; i++)
    if (v->atom[i].axis == axis) {
      at = i;
      found++;
    }
  const int64_t step = v->atom[at].step, pixels = hd__onnx_pixels(v);
  if (v->flat || found != 1 || step * side != v->c * pixels || step % pixels != 0) {
    HD_TRY(hd__onnx_to_channels(v, r, node, 1u << axis, false));
    hd__onnx_merge(v);
    for (at = 0; v->atom[at].axis != axis;)
      at++;
  }
  const int64_t each = v->c / side;
  memcpy(from, v->layer, sizeof from);
  v->c = (end - start) * each;
  v->atom[at].size = end - start;
  if (end - start == 1)
    memmove(v->atom + at, v->atom + at + 1, (size_t)(--v->atoms - at) * sizeof *v->atom);
  return hd__onnx_put(v, r, node, NULL, "op: slice, from: \"%s\", start: %lld, end: %lld", from,
                      (long long)(start * each), (long long)(end * each));
}

/* ---- Two values ---- */

/* Whether an operator can spread the small value to the large one as both are. */
static bool spreads(const hd_onnx_view *large, const hd_onnx_view *small) {
  const int64_t pixels = hd__onnx_pixels(large);
  int n = 0;
  if (large->flat || small->flat)
    return false;
  const bool by_channels = small->h == 1 && small->w == 1 && small->c == large->c && large->c > 1;
  const bool by_pixels = small->c == 1 && small->h == large->h && small->w == large->w && large->c > 1;
  if (small->c == 1 && small->h == 1 && small->w == 1)
    return small->atoms == 0;
  if (!by_channels && !by_pixels)
    return false;
  for (int i = 0; i < large->atoms; i++) {
    const hd_onnx_atom *a = &large->atom[i], *b = &small->atom[n];
    if ((a->step >= pixels) != by_channels)
      continue;
    if (n == small->atoms || a->axis != b->axis || a->size != b->size ||
        a->step != b->step * (by_channels ? pixels : 1))
      return false;
    n++;
  }
  return n == small->atoms;
}

static hd_status refuse_pair(hd_onnx_reader *r, const HdOnnx__Node *node) {
  return hd__onnx_refuse(
      r, node,
      "expected two values of one shape, or one with a single element along some axes, found others; "
      "make the shapes equal");
}

/* Whether an axis has repeated elements beside others, as a Tile's. */
static bool repeats_partly(const hd_onnx_view *v) {
  hd_onnx_view once = *v;
  const uint32_t repeated = hd__onnx_strip(&once);
  bool partly = false;
  for (int i = 0; i < once.atoms; i++)
    partly = partly || hd__onnx_in_mask(repeated, once.atom[i].axis);
  return partly;
}

/* Leaves out what one value repeats and the other has: the operator repeats it. What only one of them has is made. */
static hd_status strip_both(hd_onnx_view *a, hd_onnx_view *b, hd_onnx_reader *r, const HdOnnx__Node *node) {
  if (repeats_partly(a))
    HD_TRY(put_repeats(a, r, node));
  if (repeats_partly(b))
    HD_TRY(put_repeats(b, r, node));
  hd_onnx_view before[] = {*a, *b};
  const uint32_t repeated = hd__onnx_strip(a), others = hd__onnx_strip(b);
  bool good = !(repeated & others);
  for (int axis = 0; axis < a->rank && good; axis++)
    if (hd__onnx_in_mask(repeated | others, axis))
      good = hd__onnx_side(&before[0], axis) == hd__onnx_side(&before[1], axis);
  if (good)
    return HD_OK;
  *a = before[0];
  *b = before[1];
  if (hd__onnx_repeats(a))
    HD_TRY(put_repeats(a, r, node));
  return hd__onnx_repeats(b) ? put_repeats(b, r, node) : HD_OK;
}

hd_status hd__onnx_pair(hd_onnx_view *out, hd_onnx_view *a, hd_onnx_view *b, hd_onnx_reader *r,
                        const HdOnnx__Node *node) {
  if (a->rank != b->rank || a->batch != b->batch)
    return refuse_pair(r, node);
  HD_TRY(strip_both(a, b, r, node));
  hd__onnx_merge(a);
  hd__onnx_merge(b);
  uint32_t a_alone = 0, b_alone = 0, both = 0;
  for (int axis = 0; axis < a->rank; axis++) {
    const int64_t sa = hd__onnx_side(a, axis), sb = hd__onnx_side(b, axis);
    if (sa != sb && sa != 1 && sb != 1)
      return refuse_pair(r, node);
    *(sa == sb ? &both : sb == 1 ? &a_alone : &b_alone) |= 1u << axis;
  }
  if (a_alone && b_alone)
    return refuse_pair(r, node);
  hd_onnx_view *large = b_alone ? b : a, *small = b_alone ? a : b;
  if (!a_alone && !b_alone) {
    if (!hd__onnx_same_places(a, b)) {
      HD_TRY(hd__onnx_settle(a, r, node));
      HD_TRY(hd__onnx_settle(b, r, node));
    }
  } else if (!spreads(large, small)) {
    HD_TRY(to_image(small, r, node, (int64_t[]){hd__onnx_sample(small), 1, 1}));
    if (small->atoms == 0 && large->flat)
      HD_TRY(to_image(large, r, node, (int64_t[]){hd__onnx_sample(large), 1, 1}));
    else if (small->atoms > 0)
      HD_TRY(hd__onnx_to_channels(large, r, node, both, false));
    if (!spreads(large, small))
      return refuse_pair(r, node);
  }
  *out = *large;
  return HD_OK;
}

/* ---- Elements ---- */

hd_status hd__onnx_put_position(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *name,
                                const float *number) {
  HD_OWNED float *weight = NULL;
  HD_OWNED int64_t *place = NULL;
  char from[HD_ONNX_NAME_BYTES];
  if (hd__onnx_repeats(v))
    HD_TRY(put_repeats(v, r, node));
  const int64_t elems = hd__onnx_sample(v), pixels = v->h * v->w;
  const hd_shape shape = {2, {(int32_t)pixels, (int32_t)v->c}};
  HD_TRY(HD_NEW_RAW(weight, elems, r->ctx, "%s: out of memory while reading", r->path));
  HD_TRY(HD_NEW_RAW(place, elems, r->ctx, "%s: out of memory while reading", r->path));
  hd__onnx_places(place, v);
  for (int64_t i = 0; i < elems; i++)
    weight[place[i] % pixels * v->c + place[i] / pixels] = number[i];
  memcpy(from, v->layer, sizeof from);
  HD_TRY(hd__onnx_put(v, r, node, name, "op: position, from: \"%s\"", from));
  return hd__onnx_add_weight(r, v->layer, "weight", &shape, weight);
}

#endif
