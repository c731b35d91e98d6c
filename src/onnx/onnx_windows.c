/* Windows over images and signals in an ONNX file, and the layers that pool them; see onnx_layers.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "onnx/onnx_layers.h"

/* One number for each side of an attribute; `at` 1: those behind the first ones. */
hd_status hd__onnx_sides(int64_t out[2], hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_window *w,
                         const char *name, int64_t fallback, int at, int groups) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, name);
  out[0] = w->sides == 1 && !strcmp(name, "pads") ? 0 : w->sides == 1 ? 1 : fallback;
  out[1] = fallback;
  if (w->sides == 1 && !strcmp(name, "output_padding"))
    out[0] = 0;
  if (!a || a->n_ints == 0)
    return HD_OK;
  if (a->n_ints != (size_t)(w->sides * groups))
    return hd__onnx_refuse(r, node, "expected %d numbers as '%s', found %zu; use layers for images or signals",
                           w->sides * groups, name, a->n_ints);
  for (int i = 0; i < w->sides; i++)
    out[i + 2 - w->sides] = a->ints[i + at * w->sides];
  return HD_OK;
}

/* Padding that makes the output as large as the input divided by the stride. */
static void pad_same(hd_onnx_window *w, const hd_onnx_view *v, bool upper) {
  const int64_t side[2] = {v->h, v->w};
  for (int i = 0; i < 2; i++) {
    const int64_t stride = w->stride[i] > 0 ? w->stride[i] : 1, out = (side[i] + stride - 1) / stride;
    const int64_t all = (out - 1) * stride + w->dilation[i] * (w->kernel[i] - 1) + 1 - side[i];
    w->begin[i] = all < 0 ? 0 : upper ? all / 2 : all - all / 2;
    w->end[i] = all < 0 ? 0 : all - w->begin[i];
  }
}

/* `kernel`: of the weight, or NULL. */
hd_status hd__onnx_read_window(hd_onnx_window *w, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_view *v,
                               const int64_t *kernel) {
  w->sides = v->rank - 2;
  if (w->sides < 1 || w->sides > 2 || v->batch != 0)
    return hd__onnx_refuse(r, node,
                           "expected batch x channels x height x width, or batch x channels x length, found %d "
                           "dimensions; heddle has images and signals",
                           v->rank);
  HD_TRY(hd__onnx_sides(w->kernel, r, node, w, "kernel_shape", 0, 0, 1));
  HD_TRY(hd__onnx_sides(w->stride, r, node, w, "strides", 1, 0, 1));
  HD_TRY(hd__onnx_sides(w->dilation, r, node, w, "dilations", 1, 0, 1));
  HD_TRY(hd__onnx_sides(w->begin, r, node, w, "pads", 0, 0, 2));
  HD_TRY(hd__onnx_sides(w->end, r, node, w, "pads", 0, 1, 2));
  for (int i = 0; i < 2 && kernel; i++)
    w->kernel[i] = w->kernel[i] && i >= 2 - w->sides && w->kernel[i] != kernel[i] ? -1 : kernel[i];
  for (int i = 0; i < 2; i++)
    if (w->kernel[i] < 1 || w->kernel[i] > 1024 || w->stride[i] < 1 || w->stride[i] > 1024 || w->dilation[i] < 1 ||
        w->dilation[i] > 1024 || w->begin[i] < 0 || w->begin[i] > 1024 || w->end[i] < 0 || w->end[i] > 1024)
      return hd__onnx_refuse(r, node,
                             "expected a kernel, strides and dilations from 1 to 1024 and pads from 0 to 1024, "
                             "found others; export it again");
  if (hd__onnx_text(node, "auto_pad", "SAME_UPPER") || hd__onnx_text(node, "auto_pad", "SAME_LOWER"))
    pad_same(w, v, hd__onnx_text(node, "auto_pad", "SAME_UPPER"));
  if (hd__onnx_text(node, "auto_pad", "VALID"))
    w->begin[0] = w->begin[1] = w->end[0] = w->end[1] = 0;
  return HD_OK;
}

bool hd__onnx_is_even(const hd_onnx_window *w) { return w->begin[0] == w->end[0] && w->begin[1] == w->end[1]; }

/* Zeros around the image, so that the window needs none. */
hd_status hd__onnx_put_pad(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, hd_onnx_window *w,
                           const char *mode) {
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, v->c, v->h + w->begin[0] + w->end[0], v->w + w->begin[1] + w->end[1]);
  HD_TRY(hd__onnx_put(v, r, node, NULL,
                      "op: pad, from: \"%s\", padding: " HD_ONNX_PAIR ", end: " HD_ONNX_PAIR ", mode: %s", from,
                      HD_ONNX_OF(w->begin), HD_ONNX_OF(w->end), mode));
  for (int i = 0; i < 2; i++)
    w->begin[i] = w->end[i] = 0;
  return HD_OK;
}

int64_t hd__onnx_output_side(const hd_onnx_window *w, int i, int64_t side) {
  const int64_t room = side + w->begin[i] + w->end[i] - w->dilation[i] * (w->kernel[i] - 1) - 1;
  return room < 0 ? 0 : room / w->stride[i] + 1;
}

/* ---- Pools ---- */

/* A last window reaches beyond the padding, as PyTorch's ceil_mode has it. */
static int64_t ceiled_side(const hd_onnx_window *w, int i, int64_t side) {
  const int64_t room = side + 2 * w->begin[i] - w->kernel[i];
  const int64_t last = room < 0 ? 0 : (room + w->stride[i] - 1) / w->stride[i];
  return last - (last * w->stride[i] >= side + w->begin[i]) + 1;
}

static hd_status put_pool(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_window *w,
                          bool ceils, const char *extra) {
  const bool mean = !strcmp(node->op_type, "AveragePool");
  const int64_t before[2] = {v->h, v->w};
  int64_t side[2];
  char from[HD_ONNX_NAME_BYTES];
  hd_onnx_window even = *w;
  for (int i = 0; i < 2; i++) {
    even.end[i] = even.begin[i];
    side[i] = ceils ? ceiled_side(w, i, before[i]) : hd__onnx_output_side(&even, i, before[i]);
    if (side[i] < 1)
      return hd__onnx_refuse(r, node, "expected an input as large as the window, found %lld x %lld; use a smaller one",
                             (long long)v->h, (long long)v->w);
  }
  memcpy(from, v->layer, sizeof from);
  hd__onnx_whole(v, "", v->rank, false, v->c, side[0], side[1]);
  return hd__onnx_put(v, r, node, NULL,
                      "op: %s, from: \"%s\", kernel: " HD_ONNX_PAIR ", stride: " HD_ONNX_PAIR ", padding: " HD_ONNX_PAIR
                      "%s%s",
                      mean ? "avg_pool2d" : "max_pool2d", from, HD_ONNX_OF(w->kernel), HD_ONNX_OF(w->stride),
                      HD_ONNX_OF(w->begin), extra, ceils ? ", ceil_mode: true" : "");
}

/* A pool with more padding at the beginning, whose first windows are left out, as are those behind the last. */
static hd_status put_wide_pool(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const hd_onnx_window *w,
                               const char *extra) {
  const int64_t before[2] = {v->h, v->w};
  hd_onnx_window wide = *w;
  int64_t first[2];
  for (int i = 0; i < 2; i++) {
    const int64_t missing = w->end[i] - w->begin[i];
    first[i] = missing > 0 ? (missing + w->stride[i] - 1) / w->stride[i] : 0;
    wide.begin[i] = wide.end[i] = w->begin[i] + first[i] * w->stride[i];
  }
  HD_TRY(put_pool(v, r, node, &wide, false, extra));
  for (int i = 2 - w->sides; i < 2; i++)
    HD_TRY(hd__onnx_cut(v, r, node, i + w->sides, first[i], first[i] + hd__onnx_output_side(w, i, before[i])));
  return HD_OK;
}

hd_status hd__onnx_read_pool(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, int k) {
  const bool mean = !strcmp(node->op_type, "AveragePool"), counts = hd__onnx_int(node, "count_include_pad", 0) != 0;
  bool ceils = hd__onnx_int(node, "ceil_mode", 0) != 0;
  hd_onnx_window w;
  HD_TRY(hd__onnx_view_of(v, r, node, 0));
  if (v->rank > 2)
    HD_TRY(hd__onnx_settle(v, r, node));
  HD_TRY(hd__onnx_read_window(&w, r, node, v, NULL));
  if (w.dilation[0] != 1 || w.dilation[1] != 1)
    return hd__onnx_refuse(r, node, "expected a pool without dilation, found one; leave it out");
  const char *extra = !mean ? "" : counts ? ", count_include_pad: true" : ", count_include_pad: false";
  const bool thick = 2 * w.begin[0] > w.kernel[0] || 2 * w.begin[1] > w.kernel[1];
  if (thick && !mean && !ceils && w.begin[0] < w.kernel[0] && w.begin[1] < w.kernel[1] && w.end[0] < w.kernel[0] &&
      w.end[1] < w.kernel[1]) { /* all windows have pixels, and those at the edge are in each that is padded */
    HD_TRY(hd__onnx_put_pad(v, r, node, &w, "replicate"));
    return put_pool(v, r, node, &w, false, extra);
  }
  if (hd__onnx_is_even(&w) && !(thick && mean && counts && !ceils))
    return put_pool(v, r, node, &w, ceils, extra);
  if (mean && counts && !ceils) {
    HD_TRY(hd__onnx_put_pad(v, r, node, &w, "zero"));
    return put_pool(v, r, node, &w, false, extra);
  }
  /* Padding does not count: the windows alone matter, of which there are more or fewer. */
  const int64_t side[2] = {v->h, v->w};
  bool floor_fits = !ceils, ceil_fits = !ceils;
  for (int i = 0; i < 2; i++) {
    hd_onnx_window even = w;
    even.end[i] = even.begin[i];
    floor_fits = floor_fits && hd__onnx_output_side(&w, i, side[i]) == hd__onnx_output_side(&even, i, side[i]);
    ceil_fits = ceil_fits && hd__onnx_output_side(&w, i, side[i]) == ceiled_side(&w, i, side[i]);
  }
  if (!ceils && !(mean && counts) && !floor_fits && !ceil_fits)
    return put_wide_pool(v, r, node, &w, extra);
  if ((mean && counts) || (!floor_fits && !ceil_fits))
    return hd__onnx_refuse(r, node,
                           "expected equal padding at both ends, or one more row and column at the end, found "
                           "others; pad both ends equally");
  return put_pool(v, r, node, &w, !floor_fits, extra);
}

#endif
