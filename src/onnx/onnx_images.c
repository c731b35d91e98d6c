/* Images of an ONNX file that are resized or padded; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "onnx/onnx_layers.h"

/* The factors, or the sizes, of all axes; 0: they are not given so. */
static int of_axes(double out[4], hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v, bool scales) {
  const HdOnnx__Attribute *given = hd__onnx_attribute(node, "scales"), *axes = hd__onnx_attribute(node, "axes");
  const bool old = !strcmp(node->op_type, "Upsample") || node->n_input == 2;
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, hd__onnx_input(node, old ? 1 : 2));
  const int count = axes ? (int)axes->n_ints : v->rank;
  float scale[4];
  int64_t size[8];
  if (count > 4 || v->rank > 4)
    return 0;
  for (int i = 0; i < v->rank; i++)
    out[i] = scales ? 1 : i == v->batch ? 1 : (double)hd__onnx_side(v, i);
  if (scales && given && given->n_floats == (size_t)count)
    memcpy(scale, given->floats, (size_t)count * sizeof *scale);
  else if (scales && !(t && hd__onnx_elems(t) == count && hd__onnx_floats(scale, t, count)))
    return 0;
  if (!scales && (old || !*hd__onnx_input(node, 3) || hd__onnx_ints(size, r, hd__onnx_input(node, 3)) != count))
    return 0;
  for (int i = 0; i < count; i++) {
    const int a = axes ? hd__onnx_axis(v, axes->ints[i]) : i;
    if (a < 0 || a == v->batch)
      continue;
    out[a] = scales ? (double)scale[i] : (double)size[i];
  }
  return v->rank;
}

/* The sides of a resized image; 0: they are others, or pixels lie elsewhere than in an image of that size. */
static void resized(int64_t out[2], bool *whole, const hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const int64_t side[2] = {v->h, v->w};
  const bool keeps = hd__onnx_text(node, "keep_aspect_ratio_policy", "not_larger") ||
                     hd__onnx_text(node, "keep_aspect_ratio_policy", "not_smaller");
  double of[4];
  const bool scales = of_axes(of, r, node, v, true) > 0;
  out[0] = out[1] = 0;
  *whole = true;
  if (!scales && (keeps || !of_axes(of, r, node, v, false)))
    return;
  if (of[1] != (scales ? 1 : (double)v->c))
    return;
  for (int i = 4 - v->rank; i < 2; i++) {
    const double exact = scales ? of[v->rank - 2 + i] * (double)side[i] : of[v->rank - 2 + i];
    out[i] = exact > 0 && exact < 16385 && exact == floor(exact) ? (int64_t)exact : 0;
    *whole = *whole && out[i] % side[i] == 0;
  }
  if (v->rank == 3)
    out[0] = 1;
}

hd_status hd__onnx_read_resize(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const char *coordinates = "coordinate_transformation_mode";
  const bool old = !strcmp(node->op_type, "Upsample") || node->n_input == 2;
  const bool nearest = hd__onnx_text(node, "mode", "nearest") || !hd__onnx_attribute(node, "mode");
  const bool linear = hd__onnx_text(node, "mode", "linear") || hd__onnx_text(node, "mode", "bilinear");
  const bool aligned = hd__onnx_text(node, coordinates, "align_corners");
  const bool plain = old || hd__onnx_text(node, coordinates, "asymmetric");
  const bool half =
      !old && (hd__onnx_text(node, coordinates, "half_pixel") ||
               hd__onnx_text(node, coordinates, "pytorch_half_pixel") || !hd__onnx_attribute(node, coordinates));
  const bool floors = old || hd__onnx_text(node, "nearest_mode", "floor");
  const bool rounds = !hd__onnx_attribute(node, "nearest_mode") ||
                      hd__onnx_text(node, "nearest_mode", "round_prefer_floor") ||
                      hd__onnx_text(node, "nearest_mode", "round_prefer_ceil");
  int64_t side[2] = {0};
  bool whole = false;
  char from[HD_ONNX_NAME_BYTES];
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  if ((v->rank == 3 || v->rank == 4) && v->batch == 0) {
    HD_TRY(hd__onnx_settle(v, r, node));
    resized(side, &whole, v, r, node);
  }
  const bool tf = whole && floors && hd__onnx_text(node, coordinates, "tf_half_pixel_for_nn");
  const bool point = hd__onnx_text(node, coordinates, "pytorch_half_pixel") && /* then its first pixel */
                     ((side[0] == 1 && v->h > 1) || (side[1] == 1 && v->w > 1));
  const bool same = nearest ? (plain && floors) || (whole && half && rounds) || tf : linear && (aligned || half);
  if (side[0] < 1 || side[1] < 1 || !same || point || hd__onnx_int(node, "antialias", 0) ||
      hd__onnx_int(node, "exclude_outside", 0))
    return hd__onnx_refuse(
        r, node,
        "expected constant factors or sizes of height and width that give whole sides; mode nearest (asymmetric, "
        "floor, "
        "or whole factors) or linear (half_pixel or align_corners), found others; resize as PyTorch's Upsample");
  memcpy(from, v->layer, sizeof from);
  const int64_t before[2] = {v->h, v->w};
  const bool factors = whole && side[0] % before[0] == 0 && side[1] % before[1] == 0;
  hd__onnx_whole(v, "", v->rank, false, v->c, side[0], side[1]);
  for (int i = 0; i < 2 && factors; i++)
    side[i] /= before[i];
  return hd__onnx_put(v, r, node, NULL, "op: upsample, from: \"%s\", %s: " HD_ONNX_PAIR ", mode: %s%s", from,
                      factors ? "scale_factor" : "size", HD_ONNX_OF(side), nearest ? "nearest" : "bilinear",
                      !nearest && aligned ? ", align_corners: true" : "");
}

hd_status hd__onnx_read_pad(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  static const char *const modes[][2] = {{"constant", "zero"}, {"reflect", "reflect"}, {"edge", "replicate"}};
  const char *mode = hd__onnx_attribute(node, "mode") ? NULL : "zero";
  int64_t p[8], axis[8];
  hd_onnx_window w = {.sides = 2};
  double value = (double)hd__onnx_float(node, "value", 0);
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  const int count = hd__onnx_list(p, r, node, hd__onnx_attribute(node, "paddings") ? "paddings" : "pads", 1);
  const int axes = *hd__onnx_input(node, 3) ? hd__onnx_ints(axis, r, hd__onnx_input(node, 3)) : 0;
  for (int i = 0; i < 3; i++)
    mode = hd__onnx_text(node, "mode", modes[i][0]) ? modes[i][1] : mode;
  if (*hd__onnx_input(node, 2) && !hd__onnx_scalar(&value, r, hd__onnx_input(node, 2)))
    value = (double)NAN;
  bool good = mode && v->batch == 0 && v->rank > 2 && v->rank < 5 && value == 0 && count > 0 &&
              (*hd__onnx_input(node, 3) ? count == 2 * axes : count == 2 * v->rank);
  for (int i = 0; good && i < count / 2; i++) {
    const int a = axes ? hd__onnx_axis(v, axis[i]) : i, at = a + 4 - v->rank - 2;
    const int64_t before = p[i], after = p[i + count / 2];
    good = before <= 1024 && before >= -HD_ONNX_MOST_SIDE && after <= 1024 && after >= -HD_ONNX_MOST_SIDE && a >= 0 &&
           (a > 1 || (before == 0 && after == 0));
    if (!good || a < 2)
      continue;
    const int64_t side = hd__onnx_side(v, a), start = before < 0 ? -before : 0, end = after < 0 ? -after : 0;
    if (start || end)
      HD_TRY(hd__onnx_cut(v, r, node, a, start, side - end));
    w.begin[at] = before < 0 ? 0 : before;
    w.end[at] = after < 0 ? 0 : after;
  }
  if (!good)
    return hd__onnx_refuse(r, node,
                           "expected constant pads of height and width, of at most 1024, with zeros, reflect or edge, "
                           "found others; pad images alone");
  if (!w.begin[0] && !w.begin[1] && !w.end[0] && !w.end[1])
    return HD_OK;
  HD_TRY(hd__onnx_settle(v, r, node));
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, v->c, v->h + w.begin[0] + w.end[0], v->w + w.begin[1] + w.end[1]);
  return hd__onnx_put(v, r, node, NULL,
                      "op: pad, from: \"%s\", padding: " HD_ONNX_PAIR ", end: " HD_ONNX_PAIR ", mode: %s", from,
                      HD_ONNX_OF(w.begin), HD_ONNX_OF(w.end), mode);
}

#endif
