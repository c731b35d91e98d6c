/* What a graph's first nodes do to its input; see onnx_reader.h.
 *
 * Products, quotients, sums and differences of the input with constants are one map, x * scale + shift of each channel,
 * where each constant is one number or one of each channel. Such a map is the normalisation of the network and none of
 * its layers. Everything else between the input and the first layer is a layer like others, or refused. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "onnx/onnx_reader.h"

/* A constant's number for each channel; false: it has others, or would add dimensions. */
static bool read_constant(double out[HD_ONNX_CHANNELS], const hd_onnx_reader *r, const char *name) {
  enum { CHANNELS_FROM_END = 3 };
  const int32_t channels = r->out->input.channels;
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  float number[HD_ONNX_CHANNELS];
  double one;
  if (t && t->n_dims > r->input_rank)
    return false;
  if (hd__onnx_scalar(&one, r, name)) {
    for (int c = 0; c < channels; c++)
      out[c] = one;
    return true;
  }
  if (!t || r->input_rank != 4 || t->n_dims < CHANNELS_FROM_END || t->dims[t->n_dims - CHANNELS_FROM_END] != channels ||
      !hd__onnx_floats(number, t, channels))
    return false;
  for (int c = 0; c < channels; c++)
    out[c] = (double)number[c];
  return true;
}

/* The map behind one more operator with a constant; false: there is none. */
static bool add_operator(hd_onnx_map *map, const char *op, const double constant[HD_ONNX_CHANNELS], bool constant_first,
                         int32_t channels) {
  for (int c = 0; c < channels; c++) {
    const double k = constant[c];
    const bool is_sub = !strcmp(op, "Sub"), is_div = !strcmp(op, "Div");
    if (is_div && constant_first)
      return false;
    if (is_div || !strcmp(op, "Mul")) {
      map->scale[c] = is_div ? map->scale[c] / k : map->scale[c] * k;
      map->shift[c] = is_div ? map->shift[c] / k : map->shift[c] * k;
      continue;
    }
    if (is_sub && constant_first)
      map->scale[c] = -map->scale[c];
    map->shift[c] = is_sub && constant_first ? k - map->shift[c] : is_sub ? map->shift[c] - k : map->shift[c] + k;
  }
  return true;
}

static const hd_onnx_map *map_of(hd_onnx_reader *r, const char *name);

static bool read_map(hd_onnx_map *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  static const char *const ops[] = {"Mul", "Add", "Sub", "Div"};
  double constant[HD_ONNX_CHANNELS];
  int op = 0;
  while (op < 4 && !hd__onnx_producer(r, node->output[0], ops[op]))
    op++;
  if (op == 4 || node->n_input != 2 || r->out->input.channels == 0)
    return false;
  const bool first = hd__onnx_tensor(r, node->input[0]) != NULL || !map_of(r, node->input[0]);
  const hd_onnx_map *before = map_of(r, node->input[first]);
  if (!before || !read_constant(constant, r, node->input[!first]))
    return false;
  *out = *before;
  return add_operator(out, ops[op], constant, first, r->out->input.channels);
}

/* A value's map, NULL if it has none. Each node is looked at once; a circle has none. */
static const hd_onnx_map *map_of(hd_onnx_reader *r, const char *name) {
  hd_onnx_map *map = &r->map[r->graph->n_node];
  if (strcmp(hd__onnx_resolve(r, name), r->input)) {
    const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
    if (!node)
      return NULL;
    map = &r->map[hd__onnx_index(r, node)];
    if (map->state == HD_ONNX_MAP_UNKNOWN) {
      hd_onnx_map found = {.state = HD_ONNX_NO_MAP};
      map->state = HD_ONNX_NO_MAP;
      if (read_map(&found, r, node)) {
        *map = found;
        map->state = HD_ONNX_MAP;
      }
    }
  }
  return map->state == HD_ONNX_MAP ? map : NULL;
}

bool hd__onnx_is_input(hd_onnx_reader *r, const char *name) { return map_of(r, name) != NULL; }

static bool is_same(const hd_onnx_map *a, const hd_onnx_map *b, int32_t channels) {
  bool same = true;
  for (int c = 0; c < channels; c++)
    same = same && a->scale[c] == b->scale[c] && a->shift[c] == b->shift[c];
  return same;
}

hd_status hd__onnx_take_input(hd_onnx_reader *r, const char *name) {
  const hd_onnx_map *map = map_of(r, name);
  const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
  hd_onnx_input *in = &r->out->input;
  for (int c = 0; c < in->channels; c++)
    if (!(map->scale[c] > 0) || !isfinite(map->scale[c]) || !isfinite(map->shift[c]))
      return hd__onnx_refuse(r, node,
                             "expected x * a + b with a above 0 as the input's normalisation, found %g * x + %g; leave "
                             "it out and change the samples",
                             map->scale[c], map->shift[c]);
  if (r->taken && !is_same(map, r->taken, in->channels))
    return hd__onnx_refuse(r, node ? node : r->taken_node,
                           "expected one normalisation of the input, which all layers read, found layers that read it "
                           "with another or with none; normalise it once");
  r->taken = map;
  r->taken_node = node ? node : r->taken_node;
  in->maps = in->bytes;
  for (int c = 0; c < in->channels; c++) {
    in->scale[c] = map->scale[c];
    in->shift[c] = map->shift[c];
    in->maps = in->maps || map->scale[c] != 1 || map->shift[c] != 0;
  }
  return HD_OK;
}

#endif
