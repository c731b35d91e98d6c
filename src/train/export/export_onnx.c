/* A checkpoint's network for src/onnx: the graph as written, weights in file order, and its normalisation. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "onnx/onnx.h"
#include "train/checkpoint/checkpoint.h"
#include "train/export/exported.h"

HD_RELEASER(release_graph, hd_graph, hd__graph_destroy)

/* Of the record, as JSON; NULL: none. */
typedef struct record_texts {
  char *class_names, *features;
} record_texts;

static hd_status write_values(FILE *to, hd_ctx *ctx, const hd_exported *network, const hd_graph *graph,
                              hd_values values, const record_texts *texts) {
  const hd_directory *d = network->trained->store->directory;
  float shift[HD_DATA_MAX_CHANNELS];
  const hd_features *f = &network->trained->features;
  const char *elements = network->bytes ? HD_ONNX_BYTES : HD_ONNX_FLOATS;
  const bool columns = hd__trained_reads_columns(network->trained);
  HD_OWNED const float **param = NULL;
  HD_OWNED double *mean = NULL;
  HD_TRY(HD_NEW(param, graph->param_count, ctx, "out of memory for an ONNX file"));
  HD_TRY(HD_NEW(mean, 2 * f->count + 1, ctx, "out of memory for an ONNX file"));
  for (int32_t i = 0; i < f->count; i++) {
    mean[i] = f->feature[i].mean;
    mean[f->count + i] = f->feature[i].std;
  }
  for (int p = 0; p < graph->param_count; p++)
    param[p] = hd__tensors_entry(values, hd__directory_find(d, graph->values[graph->params[p].value].name));
  const int channels = network->normalise.shift ? hd__shape_image(&graph->values[graph->input].shape).dim[0] : 0;
  for (int c = 0; c < channels; c++)
    shift[c] = network->normalise.shift[c] + network->normalise.left;
  return hd__onnx_write(to, ctx,
                        &(hd_onnx_network){.name = network->trained->network.name,
                                           .graph = graph,
                                           .param = param,
                                           .scale = network->normalise.scale,
                                           .shift = shift,
                                           .mean = columns ? mean : NULL,
                                           .std = mean + f->count,
                                           .target_mean = network->trained->targets.mean,
                                           .target_std = network->trained->targets.std,
                                           .class_names = texts->class_names,
                                           .features = texts->features,
                                           .transforms = *network->transforms ? network->transforms : NULL,
                                           .elements = network->normalise.scale ? elements : NULL});
}

/* The value of a key of `data` in run.json, as JSON; NULL: none. The caller frees it. */
static char *text_of(const hd_exported *network, const char *key) {
  const json_t *is = json_object_get(json_object_get(network->trained->record, "data"), key);
  return is ? hd__json_dump(is, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
}

hd_status hd__export_onnx(FILE *to, hd_ctx *ctx, const hd_exported *network) {
  const hd_store *store = network->trained->store;
  HD_RELEASED(release_graph) hd_graph *graph = NULL;
  HD_OWNED float *file = NULL;
  HD_TRY(hd__network_graph(&graph, ctx, &network->trained->network));
  HD_TRY(HD_NEW_RAW(file, store->directory->param_elems, ctx, "out of memory for an ONNX file"));
  const float *memory = store->weights[hd__store_buffer(store)];
  const record_texts texts = {text_of(network, "class_names"), text_of(network, "features")};
  const hd_status status =
      write_values(to, ctx, network, graph, hd__tensors_order(file, memory, store->directory, false, NULL), &texts);
  free(texts.class_names);
  free(texts.features);
  return status;
}
