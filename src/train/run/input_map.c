/* The normalisation of a network and of its data: see input_map.h. */
#include "train/run/input_map.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text_buffer.h"
#include "data/feed/feed_options.h"

enum {
  BYTE_RANGE = 255,
  SHOWN = 4,
  CHANNELS = HD_ONNX_CHANNELS,
  LIST_BYTES = 64 + 2 * CHANNELS * (HD_NUMBER_BYTES + 2)
};

/* The network's normalisation of samples, (x - mean) / std; `range`: x is a byte of a picture divided by it. */
typedef struct own_map {
  int32_t channels;
  double mean[CHANNELS], std[CHANNELS];
  int range;
} own_map;

static own_map read_map(const hd_onnx_input *in) {
  own_map map = {.channels = in->channels, .range = 1};
  for (int c = 0; c < in->channels; c++) {
    map.std[c] = 1 / in->scale[c];
    map.mean[c] = 0 - in->shift[c] / in->scale[c]; /* no -0 */
  }
  return map;
}

/* "0.1307", or "[0.4914, 0.4822, 0.4465]" */
static void add_numbers(hd_line *l, const double *number, int32_t count, double divisor) {
  char text[HD_NUMBER_BYTES];
  for (int32_t c = 0; c < count; c++) {
    hd__format_float(text, (float)(number[c] / divisor));
    hd__line_add(l, "%s%s", c ? ", " : count > 1 ? "[" : "", text);
  }
  hd__line_add(l, count > 1 ? "]" : "");
}

/* The transforms that normalise a byte divided by 255, or a float, as the map does; `range` is the x of the map. */
static const char *write_list(char text[LIST_BYTES], const own_map *map, int range) {
  const double divisor = range == BYTE_RANGE ? BYTE_RANGE : 1;
  hd_line l = {.text = text, .bytes = LIST_BYTES};
  hd__line_add(&l, "[to_float, {normalise: {mean: ");
  add_numbers(&l, map->mean, map->channels, divisor);
  hd__line_add(&l, ", std: ");
  add_numbers(&l, map->std, map->channels, divisor);
  hd__line_add(&l, "}}]");
  return text;
}

static bool is_near(double found, double wanted) {
  static const double TOLERANCE = 1e-5; /* rounding of constants that were multiplied into each other in float32 */
  const double size = fabs(wanted);
  return fabs(found - wanted) <= TOLERANCE * (size > 1 ? size : 1);
}

/* Whether the last pass over samples is the map, of bytes divided by map->range or of floats. */
static bool is_same(const hd_affine *data, const own_map *map, int range) {
  bool same = true;
  for (int c = 0; c < map->channels; c++)
    same = same && is_near((double)data->scale[c] * map->std[c] * range, 1) &&
           is_near((double)data->shift[c] + (double)data->left, -map->mean[c] / map->std[c]);
  return same;
}

/* Whether samples are normalised as the map does it: through a list, or without one by the statistics. Nothing but
 * to_float and normalise is looked at, and no sample is read. */
static hd_status compare(bool *same, hd_ctx *ctx, const hd_onnx_input *in, const hd_dataset *data,
                         const hd_kernels *kernels, const hd_transform_lists *lists) {
  static const uint8_t no_pixel;
  static const int32_t no_label;
  const own_map map = read_map(in);
  const hd_split sample = {.elem = hd__dataset_train(data)->elem,
                           .images = &no_pixel,
                           .labels = &no_label,
                           .count = 1,
                           .channels = map.channels,
                           .height = 1,
                           .width = 1,
                           .classes = 1};
  HD_FEED_OWNED feed = {0};
  hd_affine affine;
  HD_TRY(hd__feed_init(&feed, ctx, &sample, kernels, data->statistics.mean, data->statistics.std));
  HD_TRY(hd__feed_set_transforms(&feed, ctx, lists, HD_PIPELINE_FITTED, 0));
  hd__feed_affine(&affine, &feed);
  *same = is_same(&affine, &map, 1);
  *same = *same || (sample.elem == HD_ELEM_U8 && !in->bytes && is_same(&affine, &map, BYTE_RANGE));
  return HD_OK;
}

/* The x of the map where samples are bytes: divided by 255, as PyTorch's ToTensor makes them, if mean and deviation are
 * those of numbers from 0 to 1, which dark bytes have, too. 0: it cannot be told. */
static int range_of(const hd_onnx_input *in, const own_map *map) {
  bool small = true;
  for (int c = 0; c < map->channels; c++)
    small = small && map->mean[c] >= 0 && map->mean[c] <= 1 && map->std[c] <= 1;
  return in->bytes || (in->may_be_bytes && !small) ? BYTE_RANGE : small && !in->may_be_bytes ? 1 : 0;
}

/* The data's own normalisation, or the network's in its place. */
static hd_status choose(hd_line *note, hd_ctx *ctx, hd_config *config, const hd_network *network,
                        const hd_dataset *data, const hd_kernels *kernels) {
  static const hd_transform_lists none = {.train = "", .eval = "", .train_origin = "", .eval_origin = ""};
  const bool bytes = hd__dataset_train(data)->elem == HD_ELEM_U8;
  const own_map map = read_map(&network->input);
  char list[LIST_BYTES], other[LIST_BYTES];
  bool same;
  HD_TRY(compare(&same, ctx, &network->input, data, kernels, &none));
  if (same) {
    hd__line_add(note, "which is that of the data");
    return HD_OK;
  }
  const int range = bytes ? range_of(&network->input, &map) : 1;
  if (range == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "--model %s: expected mean and std of pixels from 0 to 1 in its first nodes, found others; if its "
                    "pixels are from 0 to 255 give --transforms '%s', else '%s'",
                    network->source, write_list(list, &map, BYTE_RANGE), write_list(other, &map, 1));
  write_list(list, &map, range);
  if (map.channels > SHOWN)
    hd__line_add(note, "so the data are normalised by the same numbers");
  else
    hd__line_add(note, "so the data get --transforms '%s'", list);
  return hd__config_suggest(config, ctx, HD_OPT_TRANSFORMS, list);
}

static hd_status check_list(hd_ctx *ctx, const hd_network *network, const hd_dataset *data, const hd_kernels *kernels,
                            const hd_transform_lists *lists, const char *option) {
  const own_map map = read_map(&network->input);
  char list[LIST_BYTES];
  bool same;
  HD_TRY(compare(&same, ctx, &network->input, data, kernels, lists));
  if (same)
    return HD_OK;
  const int range = hd__dataset_train(data)->elem == HD_ELEM_U8 ? range_of(&network->input, &map) : 1;
  return hd__fail(ctx, HD_E_USAGE,
                  "%s: expected the normalisation of the first nodes of %s, found a different one; give it as in '%s'",
                  option, network->source, write_list(list, &map, range));
}

/* The data have been opened with the statistics of a network that normalises its rows. */
static hd_status adopt_row(hd_line *note, hd_ctx *ctx, const hd_network *network, const hd_dataset *data) {
  const hd_features *f = hd__dataset_features(data);
  if (!f || !f->given)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--model %s: expected rows that are normalised by columns, as its first nodes do it, found %s; leave "
        "--normalize and --transforms out, or use --init",
        network->source, hd_choice_name(HD_OPT_NORMALIZE, (int)data->normalize));
  hd__line_add(
      note, "%s normalises each of its %d inputs by itself, so its means and standard deviations are used for the data",
      network->source, f->count);
  return HD_OK;
}

/* The beginning of the note; the numbers of many channels would fill a page. */
static void describe(hd_line *note, const own_map *map, const char *source) {
  if (map->channels > SHOWN) {
    hd__line_add(note, "%s normalises each of its %d channels, ", source, map->channels);
    return;
  }
  hd__line_add(note, "%s normalises its input, (x - ", source);
  add_numbers(note, map->mean, map->channels, 1);
  hd__line_add(note, ") / ");
  add_numbers(note, map->std, map->channels, 1);
  hd__line_add(note, ", ");
}

hd_status hd__input_map_adopt(char *note, size_t bytes, hd_ctx *ctx, hd_config *config, const hd_network *network,
                              const hd_dataset *data, const hd_kernels *kernels) {
  const hd_onnx_input *in = &network->input;
  const own_map map = read_map(in);
  hd_line l = {.text = note, .bytes = bytes};
  *note = 0;
  if (in->maps && in->mean)
    return adopt_row(&l, ctx, network, data);
  if (!in->maps || in->channels != hd__dataset_train(data)->channels)
    return HD_OK;
  describe(&l, &map, network->source);
  if (!hd__config_given(config, HD_OPT_TRANSFORMS) && !hd__config_given(config, HD_OPT_EVAL_TRANSFORMS))
    return choose(&l, ctx, config, network, data, kernels);
  hd_transform_lists train = hd__transform_lists(config), eval = train;
  train.eval = train.eval_origin = "";
  HD_TRY(check_list(ctx, network, data, kernels, &train, "--transforms"));
  HD_TRY(check_list(ctx, network, data, kernels, &eval, *eval.eval ? "--eval-transforms" : "--transforms"));
  hd__line_add(&l, "which is that of --transforms");
  return HD_OK;
}

/* The samples' shape that the network states; rank 0: it leaves it to the data. */
static hd_status stated_input(hd_shape *out, hd_ctx *ctx, const hd_network *network) {
  hd_graph *graph;
  *out = (hd_shape){.rank = 0};
  if (network->asks_input)
    return HD_OK;
  HD_TRY(hd__network_graph(&graph, ctx, network));
  *out = graph->values[graph->input].shape;
  hd__graph_destroy(graph);
  return HD_OK;
}

hd_status hd__input_size_adopt(char *note, size_t bytes, hd_ctx *ctx, hd_config *config, const hd_network *network,
                               const hd_dataset *data) {
  const hd_split *seen = hd__dataset_train(data);
  const char *list = hd__settings(config)->transforms;
  char text[LIST_BYTES + 64];
  hd_shape input;
  hd_line l = {.text = note, .bytes = bytes, .length = strlen(note)};
  HD_TRY(stated_input(&input, ctx, network));
  const bool picture = input.rank == 3 && seen->channels == input.dim[0] && !seen->flat && seen->elem == HD_ELEM_U8;
  if (!picture || (!seen->mixed && seen->height == input.dim[1] && seen->width == input.dim[2]))
    return HD_OK;
  snprintf(text, sizeof text, "[{resize: [%d, %d]}, %s", input.dim[1], input.dim[2],
           *list ? list + 1 : "to_float, normalise]");
  hd__line_add(&l, "%spictures are resized to %dx%d, the input of %s", *note ? "; " : "", input.dim[2], input.dim[1],
               network->source);
  return hd__config_settle(config, ctx, HD_OPT_TRANSFORMS, text);
}
