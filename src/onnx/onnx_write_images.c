/* Layers that resize, pad or pool images, as nodes of ONNX; see onnx_writer.h. */
#ifdef HD_HAVE_ONNX

#include "base/alloc.h"
#include "onnx/onnx_writer.h"
#include "op/adaptive.h"

/* Whether a side grows by a factor that a float has. */
static bool has_factor(int32_t out, int32_t in) { return (double)((float)out / (float)in) * (double)in == (double)out; }

/* Nearest pixels along a side by their numbers: with a rounded factor a Resize misses some by one. Returns the name of
 * the output, which is `out` unless that is NULL. */
static const char *write_nearest(hd_onnx_writer *w, const hd_node *node, const char *x, int side, const char *out) {
  const hd_geom *g = &node->geom;
  const int64_t pixels = side ? g->wo : g->ho, from = side ? g->wi : g->hi;
  int64_t *pixel = hd__malloc((size_t)pixels * sizeof *pixel);
  const char *name = out ? out : hd__onnx_new_name(w);
  hd_onnx_attributes axis = {.count = 0};
  w->failed |= !pixel;
  for (int64_t i = 0; i < pixels && pixel; i++)
    pixel[i] = i * from / pixels;
  const char *which = pixel ? hd__onnx_write_numbers(w, pixel, pixels) : NULL;
  hd__free(pixel);
  hd__onnx_set_int(&axis, "axis", 2 + side);
  return hd__onnx_write_node(w, "Gather", out ? w->layer : name, name, &axis, x, which, (char *)NULL);
}

static void write_nearest_sides(hd_onnx_writer *w, const hd_node *node) {
  const char *x = hd__onnx_in(w, node, 0);
  const bool down = node->geom.ho != node->geom.hi, across = node->geom.wo != node->geom.wi;
  if (down)
    x = write_nearest(w, node, x, 0, across ? NULL : w->out);
  if (across)
    write_nearest(w, node, x, 1, w->out);
}

/* The sizes of all axes of a resized image, whatever the batch is. */
static const char *sizes_of(hd_onnx_writer *w, const hd_node *node, const char *x) {
  const char *shape = hd__onnx_step(w, "Shape", x, NULL), *batch = hd__onnx_new_name(w), *sizes = hd__onnx_new_name(w);
  hd_onnx_attributes axis = {.count = 0};
  hd__onnx_write_node(w, "Slice", batch, batch, NULL, shape, hd__onnx_write_numbers(w, (int64_t[]){0}, 1),
                      hd__onnx_write_numbers(w, (int64_t[]){2}, 1), (char *)NULL);
  hd__onnx_set_int(&axis, "axis", 0);
  return hd__onnx_write_node(w, "Concat", sizes, sizes, &axis, batch,
                             hd__onnx_write_numbers(w, (int64_t[]){node->geom.ho, node->geom.wo}, 2), (char *)NULL);
}

void hd__onnx_write_upsample(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const bool factors = has_factor(g->ho, g->hi) && has_factor(g->wo, g->wi);
  const float scale[] = {1, 1, (float)g->ho / (float)g->hi, (float)g->wo / (float)g->wi};
  const char *x = hd__onnx_in(w, node, 0), *name = NULL;
  hd_onnx_attributes a = {.count = 0};
  if (!factors && !g->upsample.bilinear) {
    write_nearest_sides(w, node);
    return;
  }
  if (factors)
    hd__onnx_write_tensor(w, name = hd__onnx_new_name(w), HD_ONNX_FLOAT, scale, (int64_t[]){4}, 1);
  else
    name = sizes_of(w, node, x);
  hd__onnx_set_text(&a, "mode", g->upsample.bilinear ? "linear" : "nearest");
  hd__onnx_set_text(&a, "coordinate_transformation_mode",
                    !g->upsample.bilinear       ? "asymmetric"
                    : g->upsample.align_corners ? "align_corners"
                                                : "half_pixel");
  if (!g->upsample.bilinear)
    hd__onnx_set_text(&a, "nearest_mode", "floor");
  if (factors)
    hd__onnx_write_node(w, op, w->layer, w->out, &a, x, "", name, (char *)NULL);
  else
    hd__onnx_write_node(w, op, w->layer, w->out, &a, x, "", "", name, (char *)NULL);
}

void hd__onnx_write_pad(hd_onnx_writer *w, const hd_node *node, const char *op) {
  static const char *const modes[] = {"constant", "reflect", "edge"};
  const hd_geom *g = &node->geom;
  const int32_t *before = g->pad.before;
  const int64_t pads[] = {0, 0, before[0], before[1], 0, 0, g->ho - g->hi - before[0], g->wo - g->wi - before[1]};
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_text(&a, "mode", modes[g->pad.mode]);
  hd__onnx_finish(w, op, &a, hd__onnx_in(w, node, 0), hd__onnx_write_numbers(w, pads, 8));
}

void hd__onnx_write_line(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "keepdims", 1);
  hd__onnx_set_ints(&a, "axes", node->geom.line.channels ? (const int64_t[]){1} : (const int64_t[]){2, 3},
                    node->geom.line.channels ? 1 : 2);
  hd__onnx_finish(w, op, &a, hd__onnx_in(w, node, 0), NULL);
}

/* The maximum of each window along an axis: the elements of all windows, the last one again where a window is short, as
 * an axis of their own. Returns the name of the output, which is `out` unless that is NULL. */
static const char *write_maxima(hd_onnx_writer *w, const hd_node *node, const char *x, int side, const char *out) {
  const hd_geom *g = &node->geom;
  const int32_t windows = side ? g->wo : g->ho, elems = side ? g->wi : g->hi, most = elems / windows + 2;
  int64_t *from = hd__malloc((size_t)windows * (size_t)most * sizeof *from);
  const char *of = hd__onnx_new_name(w), *all = hd__onnx_new_name(w), *name = out ? out : hd__onnx_new_name(w);
  hd_onnx_attributes axis = {.count = 0}, over = {.count = 0};
  w->failed |= !from;
  for (int i = 0; i < windows && from; i++)
    for (int k = 0; k < most; k++) {
      const int first = adaptive_first(g, side, i), end = adaptive_end(g, side, i);
      from[i * most + k] = first + k < end ? first + k : end - 1;
    }
  if (from)
    hd__onnx_write_tensor(w, of, HD_ONNX_INT64, from, (int64_t[]){windows, most}, 2);
  hd__free(from);
  hd__onnx_set_int(&axis, "axis", 2 + side);
  hd__onnx_set_int(&over, "keepdims", 0);
  hd__onnx_set_ints(&over, "axes", (const int64_t[]){3 + side}, 1);
  hd__onnx_write_node(w, "Gather", all, all, &axis, x, of, (char *)NULL);
  return hd__onnx_write_node(w, "ReduceMax", out ? w->layer : name, name, &over, all, (char *)NULL);
}

/* The share of each element along a side in the mean of each window: windows x rows, or columns x windows. */
static const char *window_shares(hd_onnx_writer *w, const hd_geom *g, int side) {
  const int32_t windows = side ? g->wo : g->ho, elems = side ? g->wi : g->hi;
  float *share = hd__calloc((size_t)windows * (size_t)elems, sizeof *share);
  const char *name = hd__onnx_new_name(w);
  w->failed |= !share;
  for (int i = 0; i < windows && share; i++) {
    const int first = adaptive_first(g, side, i), end = adaptive_end(g, side, i);
    for (int k = first; k < end; k++)
      share[side ? k * windows + i : i * elems + k] = 1 / (float)(end - first);
  }
  if (share)
    hd__onnx_write_tensor(w, name, HD_ONNX_FLOAT, share,
                          side ? (int64_t[]){elems, windows} : (int64_t[]){windows, elems}, 2);
  hd__free(share);
  return name;
}

/* Windows that divide the image are a pool's; others overlap, or differ by one: these have a matrix for each side, or
 * an index. */
void hd__onnx_write_adaptive(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  hd_onnx_attributes a = {.count = 0};
  if ((g->hi % g->ho || g->wi % g->wo) && node->op == HD_OP_adaptive_max_pool2d) {
    write_maxima(w, node, write_maxima(w, node, hd__onnx_in(w, node, 0), 0, NULL), 1, w->out);
    return;
  }
  if (g->hi % g->ho || g->wi % g->wo) {
    const char *rows = hd__onnx_step(w, "MatMul", window_shares(w, g, 0), hd__onnx_in(w, node, 0));
    hd__onnx_finish(w, "MatMul", NULL, rows, window_shares(w, g, 1));
    return;
  }
  hd__onnx_set_sides(&a, "kernel_shape", g->hi / g->ho, g->wi / g->wo, false);
  hd__onnx_set_sides(&a, "strides", g->hi / g->ho, g->wi / g->wo, false);
  hd__onnx_finish(w, op, &a, hd__onnx_in(w, node, 0), NULL);
}

#endif
