/* The normalisation by a graph's first nodes; see onnx_reader.h.
 *
 * Products, quotients, sums and differences of the input with constants are one map, x * scale + shift of each channel,
 * where each constant is one number or one of each channel. Of a row it is (x - mean) / std of each element, where each
 * constant is one number or one of each element, in float or double. Such a map is the normalisation of the network and
 * none of its layers. Everything else between the input and the first layer is a layer like others, or refused. */
#ifdef HD_HAVE_ONNX

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_reader.h"

enum { MOST_OPERATORS = 16 };

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
  const size_t from_end = r->channel_axis == 3 ? 1 : CHANNELS_FROM_END;
  if (!t || r->input_rank != 4 || t->n_dims < from_end || t->dims[t->n_dims - from_end] != channels ||
      !hd__onnx_floats(number, t, channels))
    return false;
  for (int c = 0; c < channels; c++)
    out[c] = (double)number[c];
  return true;
}

/* The map after one more operator with a constant; false: there is none. */
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

/* ---- Rows ---- */

/* A constant's number for each element of a row; false: it has others, or would add dimensions. */
static bool read_elements(double *out, const hd_onnx_reader *r, const char *name) {
  const HdOnnx__Tensor *t = hd__onnx_tensor(r, name);
  double one;
  if (t && t->n_dims > r->input_rank)
    return false;
  bool is_one = hd__onnx_scalar(&one, r, name);
  is_one = is_one || (t && hd__onnx_reals(&one, t, 1));
  for (int64_t i = 0; i < r->row && is_one; i++)
    out[i] = one;
  return is_one || (t && t->n_dims > 0 && t->dims[t->n_dims - 1] == r->row && hd__onnx_reals(out, t, r->row));
}

/* The map of channels as one of elements. */
static void begin_row(hd_onnx_map *out, const hd_onnx_map *before, int64_t elems) {
  for (int64_t i = 0; i < elems; i++) {
    out->mean[i] = before->mean ? before->mean[i] : 0 - before->shift[0] / before->scale[0];
    out->std[i] = before->mean ? before->std[i] : 1 / before->scale[0];
  }
}

/* (x - mean) / std after one more operator. */
static bool add_to_row(hd_onnx_map *map, const char *op, const double *constant, bool constant_first, int64_t elems) {
  const bool is_sub = !strcmp(op, "Sub"), is_div = !strcmp(op, "Div");
  for (int64_t i = 0; i < elems; i++) {
    const double k = constant[i];
    if (is_div || !strcmp(op, "Mul"))
      map->std[i] = is_div ? map->std[i] * k : map->std[i] / k;
    else if (is_sub)
      map->mean[i] += k * map->std[i];
    else
      map->mean[i] -= k * map->std[i];
    if (is_sub && constant_first)
      map->std[i] = -map->std[i];
  }
  return !(is_div && constant_first);
}

/* Room for a map of rows, which begins as `before`. */
static bool make_row(hd_onnx_map *out, hd_onnx_reader *r, const hd_onnx_map *before) {
  if (r->row == 0 || ++r->row_maps > HD_ONNX_ROW_MAPS)
    return false;
  out->mean = hd__malloc(2 * (size_t)r->row * sizeof *out->mean);
  if (!out->mean)
    return false;
  out->std = out->mean + r->row;
  begin_row(out, before, r->row);
  return true;
}

static bool read_row_map(hd_onnx_map *out, hd_onnx_reader *r, const hd_onnx_map *before, const char *op,
                         const char *constant, bool constant_first) {
  HD_OWNED double *number = r->row > 0 ? hd__malloc((size_t)r->row * sizeof *number) : NULL;
  return number && read_elements(number, r, constant) && make_row(out, r, before) &&
         add_to_row(out, op, number, constant_first, r->row);
}

/* A number for each element of a row, or one for all. */
static bool read_attribute(double *out, const hd_onnx_reader *r, const HdOnnx__Node *node, const char *name) {
  const HdOnnx__Attribute *a = hd__onnx_attribute(node, name);
  if (!a || (a->n_floats != 1 && a->n_floats != (size_t)r->row))
    return false;
  for (int64_t i = 0; i < r->row; i++)
    out[i] = (double)a->floats[a->n_floats == 1 ? 0 : i];
  return true;
}

/* (x - offset) * scale */
static bool read_scaler(hd_onnx_map *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const hd_onnx_map *before = map_of(r, hd__onnx_input(node, 0));
  HD_OWNED double *number = r->row > 0 ? hd__malloc((size_t)r->row * sizeof *number) : NULL;
  return before && number && make_row(out, r, before) && read_attribute(number, r, node, "offset") &&
         add_to_row(out, "Sub", number, false, r->row) && read_attribute(number, r, node, "scale") &&
         add_to_row(out, "Mul", number, false, r->row);
}

/* ---- Maps ---- */

/* Whether a node converts the input to doubles, for exact maps of rows. */
static bool makes_doubles(const hd_onnx_reader *r, const HdOnnx__Node *node) {
  enum { TYPE_DOUBLE = 11 };
  return r->row > 0 && hd__onnx_is(node, "Cast") && hd__onnx_int(node, "to", 0) == TYPE_DOUBLE;
}

/* The map of doubles is that of the input: rows alone have them. */
static bool pass_on(hd_onnx_map *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  const hd_onnx_map *before = map_of(r, hd__onnx_input(node, 0));
  if (!before || before->mean)
    return false;
  *out = *before;
  return true;
}

static bool read_map(hd_onnx_map *out, hd_onnx_reader *r, const HdOnnx__Node *node) {
  static const char *const ops[] = {"Mul", "Add", "Sub", "Div"};
  double constant[HD_ONNX_CHANNELS];
  int op = 0;
  if (makes_doubles(r, node))
    return pass_on(out, r, node);
  if (hd__onnx_is_scaler(node))
    return read_scaler(out, r, node);
  while (op < 4 && !hd__onnx_producer(r, node->output[0], ops[op]))
    op++;
  if (op == 4 || node->n_input != 2 || r->out->input.channels == 0)
    return false;
  const bool first = hd__onnx_tensor(r, node->input[0]) != NULL || !map_of(r, node->input[0]);
  const hd_onnx_map *before = map_of(r, node->input[first]);
  if (!before)
    return false;
  if (before->mean || !read_constant(constant, r, node->input[!first]))
    return read_row_map(out, r, before, ops[op], node->input[!first], first);
  *out = *before;
  return add_operator(out, ops[op], constant, first, r->out->input.channels);
}

/* A value's map, NULL if it has none. A node is visited once, below at most so many others; a cycle has none. */
static const hd_onnx_map *map_of(hd_onnx_reader *r, const char *name) {
  hd_onnx_map *map = &r->map[r->graph->n_node];
  if (strcmp(hd__onnx_resolve(r, name), r->input)) {
    const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
    if (!node)
      return NULL;
    map = &r->map[hd__onnx_index(r, node)];
    if (map->state == HD_ONNX_MAP_UNKNOWN && r->map_depth < MOST_OPERATORS) {
      hd_onnx_map found = {.state = HD_ONNX_NO_MAP};
      map->state = HD_ONNX_NO_MAP;
      r->map_depth++;
      const bool is = read_map(&found, r, node);
      r->map_depth--;
      if (is) {
        *map = found;
        map->state = HD_ONNX_MAP;
      } else {
        hd__free(found.mean);
      }
    }
  }
  return map->state == HD_ONNX_MAP ? map : NULL;
}

bool hd__onnx_is_input(hd_onnx_reader *r, const char *name) { return map_of(r, name) != NULL; }

static bool is_same_row(const hd_onnx_map *a, const hd_onnx_map *b, int64_t elems) {
  bool same = a->mean && b->mean;
  for (int64_t i = 0; i < elems && same; i++)
    same = a->mean[i] == b->mean[i] && a->std[i] == b->std[i];
  return same;
}

static bool is_same(const hd_onnx_map *a, const hd_onnx_map *b, int32_t channels) {
  bool same = true;
  for (int c = 0; c < channels; c++)
    same = same && a->scale[c] == b->scale[c] && a->shift[c] == b->shift[c];
  return same;
}

/* The map of a row becomes the network's. */
static hd_status take_row(hd_onnx_reader *r, const hd_onnx_map *map, const HdOnnx__Node *node) {
  hd_onnx_input *in = &r->out->input;
  for (int64_t i = 0; i < r->row; i++)
    if (!(map->std[i] > 0) || !isnormal(map->std[i]) || !(fabs(map->mean[i]) < 1e300))
      return hd__onnx_refuse(r, node,
                             "expected (x - mean) / std with a std above 0 as the normalisation of each element, found "
                             "mean %g and std %g for element %lld; leave it out and change the samples",
                             map->mean[i], map->std[i], (long long)i);
  if (in->mean)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(in->mean, 2 * r->row, r->ctx, "%s: out of memory while reading", r->path));
  memcpy(in->mean, map->mean, 2 * (size_t)r->row * sizeof *in->mean);
  in->std = in->mean + r->row;
  in->elems = r->row;
  in->maps = true;
  return HD_OK;
}

hd_status hd__onnx_take_input(hd_onnx_reader *r, const char *name) {
  const hd_onnx_map *map = map_of(r, name);
  const HdOnnx__Node *node = hd__onnx_producer(r, name, NULL);
  hd_onnx_input *in = &r->out->input;
  for (int c = 0; c < in->channels && !map->mean; c++)
    if (!(map->scale[c] > 0) || !isfinite(map->scale[c]) || !isfinite(map->shift[c]))
      return hd__onnx_refuse(r, node,
                             "expected x * a + b with a above 0 as the input's normalisation, found %g * x + %g; leave "
                             "it out and change the samples",
                             map->scale[c], map->shift[c]);
  const bool rows = map->mean || (r->taken && r->taken->mean);
  if (r->taken && !(rows ? is_same_row(map, r->taken, r->row) : is_same(map, r->taken, in->channels)))
    return hd__onnx_refuse(r, node ? node : r->taken_node,
                           "expected one normalisation of the input, which all layers read, found layers that read it "
                           "normalised differently or not at all; normalise it once");
  r->taken = map;
  r->taken_node = node ? node : r->taken_node;
  if (map->mean)
    return take_row(r, map, node);
  in->maps = in->bytes;
  for (int c = 0; c < in->channels; c++) {
    in->scale[c] = map->scale[c];
    in->shift[c] = map->shift[c];
    in->maps = in->maps || map->scale[c] != 1 || map->shift[c] != 0;
  }
  return HD_OK;
}

#endif
