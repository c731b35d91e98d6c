/* Operators of an ONNX file that move elements, join them or take some, and compute nothing; see onnx_reader.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_layers.h"
#include "op/concat/concat_geom.h"

/* ---- Axes and shapes ---- */

/* The first axis of a shape: the batch, and perhaps more elements, 1 for none; 0: it is no such axis. A number is the
 * batch's only where the file states how many samples that has. */
static int64_t beside_batch(const hd_onnx_reader *r, int64_t first, int64_t elems, int64_t others) {
  const int64_t more = others > 0 && elems % others == 0 ? elems / others : 0;
  const bool is_batch = hd__onnx_keeps_batch(r, first) && more == 1;
  const bool merges = first == -1 || (more > 0 && hd__onnx_batches(first) == more) ||
                      (r->batch > 0 && more > 0 && first == r->batch * more);
  return is_batch || merges ? more : 0;
}

/* The elements along the axes from first to end - 1. */
static int64_t sides_between(const hd_onnx_view *v, int first, int end) {
  int64_t elems = 1;
  for (int i = first; i < end; i++)
    elems *= hd__onnx_side(v, i);
  return elems;
}

/* Of a tensor whose batch is not its first axis, and stays where it is: steps x batch x states. */
static hd_status reshape_around_batch(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  int64_t side[8], list[HD_ONNX_RANK] = {1}, elems[] = {1, 1};
  int to[HD_ONNX_RANK], back[HD_ONNX_RANK];
  const int rank = hd__onnx_list(side, r, node, "shape", 1), b = v->batch;
  bool good = rank > b && hd__onnx_side(v, b) == 1 &&
              (side[b] == 0 || side[b] == HD_ONNX_BATCH || (r->batch > 0 && side[b] == r->batch));
  for (int i = 0; i < rank && good; i++) {
    if (i == b)
      continue;
    list[i < b ? i + 1 : i] = side[i] == 0 && i < v->rank ? hd__onnx_side(v, i) : side[i];
    good = side[i] >= 0 && side[i] <= HD_ONNX_MOST_SIDE && elems[i > b] <= HD_ONNX_MOST_SIDE;
    elems[i > b] *= list[i < b ? i + 1 : i];
  }
  if (!good || elems[0] != sides_between(v, 0, b) || elems[1] != sides_between(v, b + 1, v->rank))
    return hd__onnx_refuse(r, node,
                           "expected a constant shape that leaves the batch as axis %d, found another; keep it", b);
  for (int i = 0; i < HD_ONNX_RANK; i++) {
    to[i] = i == b ? 0 : i < b ? i + 1 : i;
    back[i] = i == 0 ? b : i <= b ? i - 1 : i;
  }
  hd__onnx_rename_axes(v, to, v->rank);
  HD_TRY(hd__onnx_reshape(v, r, node, list, rank));
  hd__onnx_rename_axes(v, back, rank);
  return HD_OK;
}

hd_status hd__onnx_read_reshape(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int64_t side[HD_ONNX_RANK], known = 1;
  HD_TRY(hd__onnx_merged_view(out, r, hd__onnx_input(node, 0)));
  if (out->batch > 0)
    return reshape_around_batch(out, r, node);
  const int rank = hd__onnx_list(side, r, node, "shape", 1);
  const int64_t elems = hd__onnx_sample(out);
  int open = -1;
  const bool copies = !hd__onnx_int(node, "allowzero", 0);
  bool good = rank > 0 && out->batch == 0 && (side[0] != 0 || copies);
  for (int i = 1; i < rank && good; i++) {
    if (side[i] == 0 && copies && i < out->rank)
      side[i] = hd__onnx_side(out, i);
    good = side[i] == -1 ? open < 0 : side[i] > 0 && side[i] <= elems && known <= elems;
    known *= good && side[i] > 0 ? side[i] : 1;
    open = side[i] == -1 ? i : open;
  }
  if (good && open > 0) {
    const bool known_batch = r->batch > 0 && side[0] > 0 && side[0] % r->batch == 0;
    const int64_t times = known_batch ? side[0] / r->batch : hd__onnx_batches(side[0]), beside = times > 1 ? times : 1;
    good = side[0] != -1 && known <= elems / beside && elems % (known * beside) == 0;
    side[open] = good ? elems / (known * beside) : 0;
    known *= side[open];
  }
  side[0] = good ? beside_batch(r, side[0], elems, known) : 0;
  if (side[0] < 1)
    return hd__onnx_refuse(
        r, node,
        "expected a constant shape of the batch and the %lld elements of a sample, found another; keep "
        "the batch as first axis: x.flatten(1), or a size of -1 or 0",
        (long long)elems);
  return hd__onnx_reshape(out, r, node, side, rank);
}

hd_status hd__onnx_read_flatten(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_TRY(hd__onnx_view(out, r, hd__onnx_input(node, 0)));
  if (hd__onnx_axis(out, hd__onnx_int(node, "axis", 1)) != 1 || out->batch != 0)
    return hd__onnx_refuse(r, node, "expected axis 1, found %lld; flatten whole samples",
                           (long long)hd__onnx_int(node, "axis", 1));
  const int64_t side[] = {1, hd__onnx_sample(out)};
  return hd__onnx_reshape(out, r, node, side, 2);
}

hd_status hd__onnx_read_transpose(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const HdOnnx__Attribute *perm = hd__onnx_attribute(node, "perm");
  int to[HD_ONNX_RANK];
  uint32_t seen = 0;
  HD_TRY(hd__onnx_merged_view(out, r, hd__onnx_input(node, 0)));
  for (int i = 0; i < out->rank; i++) {
    const int64_t from = perm && perm->n_ints == (size_t)out->rank ? perm->ints[i] : perm ? -1 : out->rank - 1 - i;
    if (from < 0 || from >= out->rank || seen >> from & 1)
      return hd__onnx_refuse(r, node, "expected each of the %d axes once, found others; export it again", out->rank);
    seen |= 1u << from;
    to[from] = i;
  }
  hd__onnx_rename_axes(out, to, out->rank);
  out->source = node;
  return HD_OK;
}

/* A mask of the axes of a node, of a tensor of this rank; false: there are others, or none. */
static bool axes_of(uint32_t *mask, hd_onnx_reader *r, const HdOnnx__Node *node, int rank) {
  int64_t axis[8];
  const int count = hd__onnx_list(axis, r, node, "axes", 1);
  *mask = 0;
  for (int i = 0; i < count; i++) {
    axis[i] += axis[i] < 0 ? rank : 0;
    if (axis[i] < 0 || axis[i] >= rank)
      return false;
    *mask |= 1u << axis[i];
  }
  return count > 0;
}

hd_status hd__onnx_read_squeeze(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int to[HD_ONNX_RANK], rank = 0;
  uint32_t mask = 0;
  HD_TRY(hd__onnx_merged_view(out, r, hd__onnx_input(node, 0)));
  bool good = axes_of(&mask, r, node, out->rank);
  for (int i = 0; i < out->rank; i++)
    good = good && (!(mask >> i & 1) || (i != out->batch && hd__onnx_side(out, i) == 1));
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected constant axes of one element behind the batch, found others; name them: "
                           "x.squeeze(2)");
  for (int i = 0; i < out->rank; i++)
    to[i] = mask >> i & 1 ? -1 : rank++;
  hd__onnx_rename_axes(out, to, rank);
  out->source = node;
  return HD_OK;
}

hd_status hd__onnx_read_unsqueeze(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int64_t axis[8];
  int to[HD_ONNX_RANK], next = 0;
  uint32_t mask;
  HD_TRY(hd__onnx_merged_view(out, r, hd__onnx_input(node, 0)));
  const int count = hd__onnx_list(axis, r, node, "axes", 1), rank = out->rank + count;
  if (rank > HD_ONNX_RANK || !axes_of(&mask, r, node, rank) || __builtin_popcount(mask) != count)
    return hd__onnx_refuse(r, node, "expected constant axes of at most %d, found others; export it again",
                           HD_ONNX_RANK);
  for (int i = 0; i < rank; i++)
    if (!(mask >> i & 1))
      to[next++] = i;
  hd__onnx_rename_axes(out, to, rank);
  return HD_OK;
}

/* Whether a tensor of so many samples is expanded to the batch itself. */
static bool fits_batch(const hd_onnx_reader *r, int64_t side) {
  return side == HD_ONNX_BATCH || side == 1 || side == -1 || side == r->batch;
}

/* Whether a sample, with repeated elements, has no more than one may. */
static bool is_small(const hd_onnx_view *v) {
  int64_t elems = 1;
  for (int i = 0; i < v->atoms; i++) {
    if (v->atom[i].size > HD_ONNX_MOST_SIDE / elems)
      return false;
    elems *= v->atom[i].size;
  }
  return true;
}

/* Repeated elements: what reads them must spread them itself. */
hd_status hd__onnx_read_expand(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int64_t side[8];
  HD_TRY(hd__onnx_view(out, r, hd__onnx_input(node, 0)));
  const int count = hd__onnx_ints(side, r, hd__onnx_input(node, 1));
  bool good = count == out->rank && fits_batch(r, side[out->batch]);
  hd_onnx_view v = *out;
  int n = 0;
  out->atoms = 0;
  for (int axis = 0; axis < v.rank && good; axis++) {
    const int64_t own = hd__onnx_side(&v, axis);
    if (axis == v.batch)
      continue;
    const bool spreads = own == 1 && side[axis] > 1;
    good = side[axis] == own || side[axis] == 1 || side[axis] == -1 || spreads;
    good = good && out->atoms + v.atoms - n + spreads <= HD_ONNX_ATOMS;
    for (; n < v.atoms && v.atom[n].axis == axis && good; n++)
      out->atom[out->atoms++] = v.atom[n];
    if (good && spreads)
      out->atom[out->atoms++] = (hd_onnx_atom){axis, side[axis], 0};
  }
  if (!good || !is_small(out))
    return hd__onnx_refuse(r, node, "expected a constant shape of as many axes, found another; export it again");
  return HD_OK;
}

/* Whole copies of an axis, one after the other. */
hd_status hd__onnx_read_tile(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int64_t times[8];
  HD_TRY(hd__onnx_view(out, r, hd__onnx_input(node, 0)));
  bool good = hd__onnx_ints(times, r, hd__onnx_input(node, 1)) == out->rank && times[out->batch] == 1;
  const hd_onnx_view v = *out;
  int n = 0;
  out->atoms = 0;
  for (int axis = 0; axis < v.rank && good; axis++) {
    good = axis == v.batch || (times[axis] > 0 && times[axis] <= HD_ONNX_MOST_SIDE / hd__onnx_side(&v, axis) &&
                               out->atoms + v.atoms - n < HD_ONNX_ATOMS);
    if (good && times[axis] > 1)
      out->atom[out->atoms++] = (hd_onnx_atom){axis, times[axis], 0};
    for (; n < v.atoms && v.atom[n].axis == axis; n++)
      out->atom[out->atoms++] = v.atom[n];
  }
  if (!good || !is_small(out))
    return hd__onnx_refuse(r, node,
                           "expected constant repeats of the axes behind the batch, found others; repeat a sample's "
                           "elements");
  return HD_OK;
}

/* Blocks of pixels to channels, and back: DepthToSpace and SpaceToDepth. */
hd_status hd__onnx_read_depth(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool to_space = !strcmp(node->op_type, "DepthToSpace"), by_columns = hd__onnx_text(node, "mode", "CRD");
  const int64_t b = hd__onnx_int(node, "blocksize", 1);
  HD_TRY(hd__onnx_view(out, r, hd__onnx_input(node, 0)));
  const int64_t c = hd__onnx_side(out, 1), h = hd__onnx_side(out, 2), w = hd__onnx_side(out, 3);
  if (out->rank != 4 || out->batch != 0 || b < 1 || b > 1024 || (to_space ? c % (b * b) : h % b + w % b) != 0)
    return hd__onnx_refuse(r, node, "expected images whose sides the blocks divide, found others; use another size");
  if (to_space) {
    const int64_t rest = c / (b * b), dcr[] = {1, b, b, rest, h, w}, crd[] = {1, rest, b, b, h, w};
    HD_TRY(hd__onnx_reshape(out, r, node, by_columns ? crd : dcr, 6));
    hd__onnx_rename_axes(out, by_columns ? (const int[]){0, 1, 3, 5, 2, 4} : (const int[]){0, 3, 5, 1, 2, 4}, 6);
    return hd__onnx_reshape(out, r, node, (int64_t[]){1, rest, h * b, w * b}, 4);
  }
  HD_TRY(hd__onnx_reshape(out, r, node, (int64_t[]){1, c, h / b, b, w / b, b}, 6));
  hd__onnx_rename_axes(out, by_columns ? (const int[]){0, 1, 4, 2, 5, 3} : (const int[]){0, 3, 4, 1, 5, 2}, 6);
  return hd__onnx_reshape(out, r, node, (int64_t[]){1, c * b * b, h / b, w / b}, 4);
}

/* ---- Parts ---- */

hd_status hd__onnx_read_slice(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int64_t start[8], end[8], axis[8], step[8];
  const int count = hd__onnx_list(start, r, node, "starts", 1), ends = hd__onnx_list(end, r, node, "ends", 2);
  int axes = hd__onnx_list(axis, r, node, "axes", 3), steps = *hd__onnx_input(node, 4) ? -1 : 0;
  for (int i = 0; axes == 0 && i < count && !*hd__onnx_input(node, 3); i++)
    axis[i] = i;
  if (steps)
    steps = hd__onnx_ints(step, r, hd__onnx_input(node, 4));
  bool good = count > 0 && ends == count && (axes == count || (axes == 0 && !*hd__onnx_input(node, 3)));
  for (int i = 0; i < count && good; i++)
    good = steps == 0 || (steps == count && step[i] == 1);
  HD_TRY(hd__onnx_view(out, r, hd__onnx_input(node, 0)));
  for (int i = 0; i < count && good; i++) {
    const int a = hd__onnx_axis(out, axis[i]);
    const int64_t side = a < 0 ? 0 : hd__onnx_side(out, a);
    good = a >= 0;
    const bool whole_batch = end[i] > INT32_MAX - 1 || (r->batch > 0 && end[i] >= r->batch);
    if (!good || (a == out->batch && start[i] == 0 && whole_batch))
      continue;
    start[i] += start[i] < 0 ? side : 0;
    end[i] = end[i] < 0 ? end[i] + side : end[i] > side ? side : end[i];
    HD_TRY(hd__onnx_cut(out, r, node, a, start[i], end[i]));
  }
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected constant elements from start to end with step 1, found another slice; take "
                           "neighbouring elements");
  return HD_OK;
}

hd_status hd__onnx_read_split(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int64_t size[8], first = 0;
  HD_TRY(hd__onnx_merged_view(out, r, hd__onnx_input(node, 0)));
  if (out->scores)
    return hd__onnx_refuse_scores(r, out->scores);
  const int axis = hd__onnx_axis(out, hd__onnx_int(node, "axis", 0)), given = hd__onnx_list(size, r, node, "split", 1);
  const int64_t side = axis < 0 ? 0 : hd__onnx_side(out, axis), parts = (int64_t)node->n_output;
  bool good = axis >= 0 && axis != out->batch && parts > 0 && side > 0 && (!given || given > k);
  const int64_t equal = good ? (side + parts - 1) / parts : 0;
  for (int i = 0; i <= k && good && given; i++) {
    good = size[i] >= 0 && size[i] <= side;
    first += good && i < k ? size[i] : 0;
  }
  if (!given && (*hd__onnx_input(node, 1) || hd__onnx_attribute(node, "split")))
    good = false;
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected constant parts along an axis behind the batch, found others; split "
                           "channels");
  if (!given)
    first = equal * k;
  const int64_t end = given ? first + size[k] : first + equal > side ? side : first + equal;
  return hd__onnx_cut(out, r, node, axis, first, end);
}

/* Tokens, which a table turns into channels. */
static hd_status read_embedding(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const HdOnnx__Tensor *t;
  float *elems;
  HD_TRY(hd__onnx_view(out, r, hd__onnx_input(node, 1)));
  if (strcmp(out->layer, r->view_in.layer) != 0 || out->rank != 2 || out->batch != 0 || !hd__onnx_in_order(out))
    return hd__onnx_refuse(r, node,
                           "expected the input as tokens, batch x places, found other indices; heddle's "
                           "embedding is the first layer");
  HD_TRY(hd__onnx_read_floats(&elems, &t, r, node, hd__onnx_input(node, 0), -1));
  HD_OWNED float *owned = elems;
  if (t->n_dims != 2 || hd__onnx_int(node, "axis", 0) != 0)
    return hd__onnx_refuse(
        r, node, "expected a table of tokens x channels, found %zu dimensions and axis %lld; use an embedding",
        t->n_dims, (long long)hd__onnx_int(node, "axis", 0));
  const int64_t places = hd__onnx_sample(out), channels = t->dims[1];
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, out->layer, sizeof from);
  hd__onnx_whole(out, "", 3, false, channels, 1, places);
  HD_TRY(hd__onnx_put(out, r, node, hd__onnx_resolve(r, hd__onnx_input(node, 0)),
                      "op: embedding, from: \"%s\", tokens: %lld, out: %lld", from, (long long)t->dims[0],
                      (long long)channels));
  const hd_shape shape = {2, {(int32_t)t->dims[0], (int32_t)channels}};
  HD_TRY(hd__onnx_add_weight(r, out->layer, "weight", &shape, owned));
  hd__onnx_keep_owner(r, out->layer, "linear", hd__onnx_input(node, 0), ""); /* a head may have these weights too */
  hd__onnx_rename_axes(out, (const int[]){0, 2, 1}, 3);
  return HD_OK;
}

/* Indices of an axis that repeat each element, or are those of the nearest ones of `count`: i * side / count. */
static bool are_nearest(const HdOnnx__Tensor *t, int64_t side) {
  const int64_t count = t && t->n_dims == 1 && side > 0 ? hd__onnx_elems(t) : 0;
  bool are = count > 0 && count <= 16384;
  for (int64_t i = 0; i < count && are; i++) {
    int64_t index;
    are = hd__onnx_whole_number(&index, t, i) && index == i * side / count;
  }
  return are;
}

/* Each element of an axis several times; or pixels of a resized image, which heddle writes so. */
static hd_status read_nearest(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int axis, int64_t count) {
  const int64_t side = hd__onnx_side(v, axis);
  int at = 0;
  if (count == side)
    return HD_OK;
  if (count % side == 0 && v->atoms < HD_ONNX_ATOMS) {
    while (at < v->atoms && v->atom[at].axis <= axis)
      at++;
    memmove(v->atom + at + 1, v->atom + at, (size_t)(v->atoms++ - at) * sizeof *v->atom);
    v->atom[at] = (hd_onnx_atom){axis, count / side, 0};
    return is_small(v) ? HD_OK
                       : hd__onnx_refuse(r, node, "expected at most %d elements of a sample, found more; repeat fewer",
                                         HD_ONNX_MOST_SIDE);
  }
  if (v->rank < 3 || v->rank > 4 || v->batch != 0 || axis < 2)
    return hd__onnx_refuse(r, node,
                           "expected the nearest pixels of an image, found those of another axis; take x[:, i]");
  HD_TRY(hd__onnx_settle(v, r, node));
  const int64_t h = axis + 2 == v->rank ? count : v->h, w = axis + 1 == v->rank ? count : v->w;
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, v->c, h, w);
  return hd__onnx_put(v, r, node, NULL, "op: upsample, from: \"%s\", size: [%lld, %lld]", from, (long long)h,
                      (long long)w);
}

/* One element of an axis, which goes; some neighbours, or the nearest ones of more. */
hd_status hd__onnx_read_gather(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  int64_t index[8];
  int to[HD_ONNX_RANK], rank = 0;
  if (hd__onnx_tensor(r, hd__onnx_input(node, 0)) && !hd__onnx_tensor(r, hd__onnx_input(node, 1)))
    return read_embedding(out, r, node);
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(node, 1));
  const int count = t ? hd__onnx_ints(index, r, hd__onnx_input(node, 1)) : 0;
  HD_TRY(hd__onnx_merged_view(out, r, hd__onnx_input(node, 0)));
  if (out->scores)
    return hd__onnx_refuse_scores(r, out->scores);
  const int axis = hd__onnx_axis(out, hd__onnx_int(node, "axis", 0));
  bool good = axis >= 0 && count > 0 && t->n_dims < 2;
  for (int i = 0; i < count && good; i++) {
    index[i] += index[i] < 0 ? hd__onnx_side(out, axis) : 0;
    good = index[i] == index[0] + i;
  }
  if (!good && axis >= 0 && axis != out->batch && are_nearest(t, hd__onnx_side(out, axis)))
    return read_nearest(out, r, node, axis, hd__onnx_elems(t));
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected constant neighbouring elements of an axis behind the batch, or its nearest ones, "
                           "found others; take x[:, i]");
  HD_TRY(hd__onnx_cut(out, r, node, axis, index[0], index[0] + count));
  for (int i = 0; i < out->rank && t->n_dims == 0; i++)
    to[i] = i == axis ? -1 : rank++;
  if (t->n_dims == 0)
    hd__onnx_rename_axes(out, to, rank);
  return HD_OK;
}

/* ---- Joining ---- */

static bool same_pixels(const hd_onnx_view *a, const hd_onnx_view *b, int axis) {
  int i = 0, j = 0;
  if (a->flat != b->flat || a->h != b->h || a->w != b->w)
    return false;
  for (;; i++, j++) {
    while (i < a->atoms && a->atom[i].axis == axis)
      i++;
    while (j < b->atoms && b->atom[j].axis == axis)
      j++;
    if (i == a->atoms || j == b->atoms)
      return i == a->atoms && j == b->atoms;
    if (a->atom[i].axis != b->atom[j].axis || a->atom[i].size != b->atom[j].size || a->atom[i].step != b->atom[j].step)
      return false;
  }
}

/* Brings values to where a layer joins their channels. */
static hd_status align(hd_onnx_view *part, int count, hd_onnx_reader *r, const HdOnnx__Node *node, int axis) {
  bool same = true;
  for (int i = 0; i < count; i++) {
    if (part[i].rank != part->rank || part[i].batch != part->batch)
      return hd__onnx_refuse(r, node, "expected values of one rank, found %d and %d; reshape one", part->rank,
                             part[i].rank);
    if (part->rank == 2)
      HD_TRY(hd__onnx_flatten(&part[i], r, node, false));
    else
      HD_TRY(hd__onnx_to_channels(&part[i], r, node, 1u << axis, false));
    same = same && same_pixels(part, &part[i], axis);
  }
  for (int i = 0; i < count && !same && part->rank > 2; i++) {
    HD_TRY(hd__onnx_to_channels(&part[i], r, node, 1u << axis, true));
    if (!same_pixels(part, &part[i], axis))
      return hd__onnx_refuse(r, node, "expected values of one shape but for axis %d, found others; make them equal",
                             axis);
  }
  return HD_OK;
}

static hd_status join(hd_onnx_view *part, int count, hd_onnx_reader *r, const HdOnnx__Node *node, int axis) {
  char list[HD_CONCAT_INPUTS * (HD_ONNX_NAME_BYTES + 4)] = "";
  int64_t channels = 0;
  HD_TRY(align(part, count, r, node, axis));
  for (int i = 0; i < count; i++) {
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s\"%s\"", i ? ", " : "", part[i].layer);
    channels += hd__onnx_side(&part[i], axis);
  }
  HD_TRY(hd__onnx_set_channels(part, r, node, axis, channels));
  return hd__onnx_put(part, r, node, NULL, "op: concat, from: [%s]", list);
}

/* Room for `count` more places along an axis, which becomes a row of pixels. */
static hd_status put_places(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int axis, int64_t count,
                            bool first) {
  char from[HD_ONNX_NAME_BYTES];
  HD_TRY(hd__onnx_to_channels(v, r, node, ~(1u << axis), true));
  hd_onnx_view before = *v;
  memcpy(from, v->layer, sizeof from);
  v->atoms = 0;
  for (int a = 0; a < v->rank; a++) {
    for (int i = 0; i < before.atoms && a != axis; i++)
      if (before.atom[i].axis == a) {
        v->atom[v->atoms] = before.atom[i];
        v->atom[v->atoms++].step = before.atom[i].step / before.w * (before.w + count);
      }
    if (a == axis)
      v->atom[v->atoms++] = (hd_onnx_atom){axis, before.w + count, 1};
  }
  v->w += count;
  return hd__onnx_put(v, r, node, NULL, "op: pad, from: \"%s\", padding: [0, %lld], end: [0, %lld]", from,
                      (long long)(first ? count : 0), (long long)(first ? 0 : count));
}

/* The sizes of an Expand: PyTorch writes Where(sizes == -1, 1, sizes), and a size of 1 changes none. */
static const char *sizes_of_expand(const hd_onnx_reader *r, const HdOnnx__Node *expand) {
  const char *name = hd__onnx_input(expand, 1);
  const HdOnnx__Node *where = hd__onnx_producer(r, name, "Where");
  const bool keeps = where && hd__onnx_producer(r, hd__onnx_input(where, 0), "Equal") &&
                     hd__onnx_producer(r, hd__onnx_input(where, 1), "ConstantOfShape");
  return keeps ? hd__onnx_input(where, 2) : name;
}

/* The constant that a value repeats for each sample, or is; NULL: it is none. PyTorch expands a token to the batch. */
static const char *constant_of(hd_onnx_reader *r, const char *name) {
  const HdOnnx__Node *expand = hd__onnx_producer(r, name, "Expand");
  const HdOnnx__Tensor *t = expand ? hd__onnx_tensor(r, hd__onnx_input(expand, 0)) : NULL;
  int64_t side[8];
  if (hd__onnx_tensor(r, name))
    return name;
  const int count = t ? hd__onnx_ints(side, r, sizes_of_expand(r, expand)) : 0;
  bool same = count > 0 && (size_t)count == t->n_dims && t->dims[0] == 1 &&
              (side[0] == HD_ONNX_BATCH || side[0] == -1 || side[0] == r->batch);
  for (int i = 1; i < count && same; i++)
    same = side[i] == t->dims[i] || side[i] == 1 || side[i] == -1;
  return same ? hd__onnx_input(expand, 0) : NULL;
}

/* Checks that a constant may stand before or behind a value; its numbers, which the caller frees. */
static hd_status read_token(float **out, const HdOnnx__Tensor **t, hd_onnx_reader *r, const HdOnnx__Node *node,
                            const hd_onnx_view *v, size_t which) {
  const int axis = hd__onnx_axis(v, hd__onnx_int(node, "axis", 0));
  HD_TRY(hd__onnx_read_floats(out, t, r, node, constant_of(r, node->input[which]), -1));
  bool good = (int)(*t)->n_dims == v->rank && v->batch == 0 && v->atoms < HD_ONNX_ATOMS && (*t)->dims[0] == 1 &&
              (which == 0 || which + 1 == node->n_input);
  for (int i = 1; i < v->rank && good; i++)
    good = i == axis ? (*t)->dims[i] <= 1024 : (*t)->dims[i] == hd__onnx_side(v, i);
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected computed values, and at an end perhaps one constant for every sample, found "
                           "the constant '%.80s'; heddle joins layers",
                           node->input[which]);
  if (hd__onnx_sample(v) > HD_ONNX_MOST_SIDE / 8)
    return hd__onnx_refuse(r, node, "expected at most %d elements beside a constant, found more; use smaller samples",
                           HD_ONNX_MOST_SIDE / 8);
  return HD_OK;
}

/* A constant before or behind a value, such as a token of a class, is trained: learned positions add it to zeros, which
 * are those beside the value. Zeros around both bring them to their places, where they are added. */
static hd_status join_constant(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int axis, size_t which) {
  const bool first = which == 0;
  const int64_t before = hd__onnx_side(v, axis);
  const HdOnnx__Tensor *t;
  float *read = NULL;
  const hd_status status = read_token(&read, &t, r, node, v, which);
  HD_OWNED float *constant = read;
  HD_TRY(status);
  const int64_t more = t->dims[axis], start = first ? 0 : before;
  HD_TRY(put_places(v, r, node, axis, more, first));
  hd_onnx_view token = *v, value = *v;
  HD_TRY(hd__onnx_cut(&token, r, node, axis, start, start + more));
  HD_TRY(hd__onnx_put_position(&token, r, node, hd__onnx_resolve(r, constant_of(r, node->input[which])), constant));
  HD_TRY(put_places(&token, r, node, axis, before, !first));
  HD_TRY(hd__onnx_pair(v, &value, &token, r, node));
  return hd__onnx_put(v, r, node, NULL, "op: add, from: [\"%s\", \"%s\"]", value.layer, token.layer);
}

/* More than a layer may have are joined in steps. */
hd_status hd__onnx_read_concat(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  HD_OWNED hd_onnx_view *part = NULL;
  size_t constant = node->n_input;
  int count = 0, axis = 0;
  bool is_rotary;
  HD_TRY(hd__onnx_read_rotary(&is_rotary, out, r, node));
  if (is_rotary)
    return HD_OK;
  HD_TRY(HD_NEW(part, HD_CONCAT_INPUTS, r->ctx, "%s: out of memory while reading", r->path));
  for (size_t i = 0; i < node->n_input; i++) {
    if (constant == node->n_input && constant_of(r, node->input[i])) {
      constant = i;
      continue;
    }
    HD_TRY(hd__onnx_view(&part[count++], r, node->input[i]));
    axis = hd__onnx_axis(part, hd__onnx_int(node, "axis", 0));
    if (axis < 0 || axis == part->batch)
      return hd__onnx_refuse(r, node, "expected an axis behind the batch, found %lld; join channels",
                             (long long)hd__onnx_int(node, "axis", 0));
    if (count == HD_CONCAT_INPUTS) {
      HD_TRY(join(part, count, r, node, axis));
      count = 1;
    }
  }
  if (count == 0)
    return hd__onnx_refuse(r, node, "expected computed values, found none; export it again");
  if (count > 1)
    HD_TRY(join(part, count, r, node, axis));
  *out = *part;
  return constant < node->n_input ? join_constant(out, r, node, axis, constant) : HD_OK;
}

#endif
