/* Growing arrays of nodes, values, parameters and aliases, and their sizes. */
#include "graph/graph.h"

#include <limits.h>
#include <string.h>

#include "base/alloc.h"

/* Makes room for another element; false when out of memory. */
static bool grow(void **array, int *room, int count, size_t element_bytes) {
  if (count < *room)
    return true;
  int wanted = *room ? 2 * *room : 16;
  void *bigger = hd__realloc(*array, (size_t)wanted * element_bytes);
  if (!bigger)
    return false;
  *array = bigger;
  *room = wanted;
  return true;
}

static hd_status no_memory(hd_ctx *ctx) { return hd__fail(ctx, HD_E_NOMEM, "out of memory while building the graph"); }

hd_status hd__graph_create(hd_graph **out, hd_ctx *ctx, const hd_shape *input) {
  hd_graph *graph = hd__calloc(1, sizeof *graph);
  *out = graph;
  if (!graph)
    return no_memory(ctx);
  graph->logits = graph->loss = -1;
  hd_status status =
      hd__graph_new_value(&graph->input, graph, ctx, "input", &(hd_value_type){HD_VALUE_INPUT, HD_F32, *input});
  if (status == HD_OK)
    status =
        hd__graph_new_value(&graph->label, graph, ctx, "label", &(hd_value_type){HD_VALUE_LABEL, HD_I32, {.rank = 0}});
  if (status != HD_OK) {
    hd__graph_destroy(graph);
    *out = NULL;
  }
  return status;
}

void hd__graph_destroy(hd_graph *graph) {
  if (!graph)
    return;
  for (int i = 0; i < graph->node_count; i++)
    hd__free(graph->nodes[i].name);
  for (int i = 0; i < graph->value_count; i++) {
    hd__free(graph->values[i].name);
    hd__free(graph->values[i].constant);
  }
  for (int i = 0; i < graph->alias_count; i++)
    hd__free(graph->aliases[i].name);
  hd__free(graph->aliases);
  hd__free(graph->nodes);
  hd__free(graph->values);
  hd__free(graph->params);
  hd__free(graph);
}

/* Takes ownership of the name, also on failure; NULL: out of memory. */
static hd_status add_value(int *out, hd_graph *graph, hd_ctx *ctx, char *name, const hd_value_type *type) {
  char text[HD_SHAPE_TEXT_BYTES];
  hd_status status = HD_OK;
  *out = -1;
  if (!name || !grow((void **)&graph->values, &graph->value_room, graph->value_count, sizeof *graph->values))
    status = no_memory(ctx);
  else if (hd__shape_elems(&type->shape) > INT_MAX / 8)
    status = hd__fail(ctx, HD_E_SHAPE, "'%s': expected at most %d elements, found %s; make it smaller", name,
                      INT_MAX / 8, hd__shape_text(text, sizeof text, &type->shape));
  if (status != HD_OK) {
    hd__free(name);
    return status;
  }
  graph->values[graph->value_count] = (hd_value){
      .name = name, .kind = type->kind, .dtype = type->dtype, .shape = type->shape, .producer = -1, .param = -1};
  *out = graph->value_count++;
  return HD_OK;
}

/* "NODE" or "NODE.SUFFIX", NULL when out of memory. */
static char *name_of(const hd_node *node, const char *suffix) {
  return suffix ? hd__printf_alloc("%s.%s", node->name, suffix) : hd__strdup(node->name);
}

hd_status hd__graph_new_value(int *out, hd_graph *graph, hd_ctx *ctx, const char *name, const hd_value_type *type) {
  return add_value(out, graph, ctx, hd__strdup(name), type);
}

hd_status hd__graph_new_node(hd_node **out, hd_graph *graph, hd_ctx *ctx, hd_op op, const char *name, int written) {
  *out = NULL;
  if (!grow((void **)&graph->nodes, &graph->node_room, graph->node_count, sizeof *graph->nodes))
    return no_memory(ctx);
  char *copy = hd__strdup(name);
  if (!copy)
    return no_memory(ctx);
  hd_node *node = &graph->nodes[graph->node_count++];
  *node = (hd_node){.op = op, .name = copy, .written = written};
  for (int i = 0; i < HD_MAX_IN; i++)
    node->in[i] = -1;
  for (int i = 0; i < HD_MAX_OUT; i++)
    node->out[i] = -1;
  *out = node;
  return HD_OK;
}

hd_status hd__graph_new_param(int *out, hd_graph *graph, hd_ctx *ctx, const hd_node *node, int slot,
                              const hd_op_param *like) {
  *out = -1;
  if (!grow((void **)&graph->params, &graph->param_room, graph->param_count, sizeof *graph->params))
    return no_memory(ctx);
  HD_TRY(
      add_value(out, graph, ctx, name_of(node, like->suffix), &(hd_value_type){HD_VALUE_PARAM, HD_F32, like->shape}));
  graph->values[*out].param = graph->param_count;
  graph->params[graph->param_count++] = (hd_param){.value = *out,
                                                   .written = node->written,
                                                   .slot = slot,
                                                   .rows = like->in_memory.dim[0],
                                                   .c = like->in_memory.dim[1],
                                                   .h = like->in_memory.dim[2],
                                                   .w = like->in_memory.dim[3],
                                                   .fan_in = like->fan_in,
                                                   .std = like->std,
                                                   .init = like->init,
                                                   .running = like->running,
                                                   .momentum = node->attrs.momentum,
                                                   .op = node->attrs.pointwise ? HD_OP_linear : node->op,
                                                   .statistic = -1};
  hd__update_settings_clear(&graph->params[graph->param_count - 1].update);
  return HD_OK;
}

hd_status hd__graph_output(hd_graph *graph, hd_ctx *ctx, hd_node *node, int slot, const char *suffix,
                           const hd_value_type *type) {
  return add_value(&node->out[slot], graph, ctx, name_of(node, suffix), type);
}

hd_status hd__graph_new_alias(hd_graph *graph, hd_ctx *ctx, const hd_node *node, const char *suffix, int param) {
  if (!grow((void **)&graph->aliases, &graph->alias_room, graph->alias_count, sizeof *graph->aliases))
    return no_memory(ctx);
  char *name = name_of(node, suffix);
  if (!name)
    return no_memory(ctx);
  graph->aliases[graph->alias_count++] = (hd_alias){.name = name, .param = param};
  return HD_OK;
}

/* Updates the producers of values after nodes have moved. */
static void find_producers(hd_graph *graph) {
  for (int i = 0; i < graph->value_count; i++)
    graph->values[i].producer = -1;
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_OUT; k++)
      if (graph->nodes[i].out[k] >= 0)
        graph->values[graph->nodes[i].out[k]].producer = i;
}

hd_status hd__graph_insert_node(hd_node **out, hd_graph *graph, hd_ctx *ctx, int index, hd_op op, const hd_node *of) {
  HD_TRY(hd__graph_new_node(out, graph, ctx, op, of->name, of->written));
  hd_node node = **out;
  memmove(&graph->nodes[index + 1], &graph->nodes[index], (size_t)(graph->node_count - 1 - index) * sizeof node);
  graph->nodes[index] = node;
  *out = &graph->nodes[index];
  find_producers(graph);
  return HD_OK;
}

void hd__graph_remove_node(hd_graph *graph, int index) {
  hd__free(graph->nodes[index].name);
  graph->node_count--;
  memmove(&graph->nodes[index], &graph->nodes[index + 1], (size_t)(graph->node_count - index) * sizeof *graph->nodes);
  find_producers(graph);
}

int hd__graph_reads(const hd_graph *graph, int value, int *reader) {
  int reads = 0, last = -1;
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++)
      if (graph->nodes[i].in[k] == value) {
        reads++;
        last = i;
      }
  if (reader)
    *reader = last;
  return reads;
}

int hd__dtype_bytes(hd_dtype dtype) { return dtype == HD_U8 ? 1 : 4; }

enum { LINE_BYTES = 64, SETS_BYTES = 1024 };

/* Rows that lie a multiple of 1 KB apart would share few sets of a first-level cache: a linear layer reads some columns
 * of many rows. */
int64_t hd__value_stride(const hd_value *value) {
  const int64_t unit = LINE_BYTES / hd__dtype_bytes(value->dtype);
  const int64_t padded = (hd__shape_elems(&value->shape) + unit - 1) / unit * unit;
  return value->shape.rank == 0 ? 1 : padded % (SETS_BYTES / hd__dtype_bytes(value->dtype)) ? padded : padded + unit;
}

int64_t hd__param_columns(const hd_param *param) { return (int64_t)param->c * param->h * param->w; }

int64_t hd__param_elems(const hd_param *param) { return param->rows * hd__param_columns(param); }

bool hd__param_trains(const hd_param *param) { return !param->frozen && !param->running; }

bool hd__param_ever_trains(const hd_param *param) { return (!param->frozen || param->later) && !param->running; }

bool hd__graph_has_stored_statistics(const hd_graph *graph, const hd_node *norm) {
  return graph->params[graph->values[norm->in[3]].param].frozen;
}

int64_t hd__param_file_index(const hd_param *param, int64_t row, int64_t column) {
  int64_t channel = column % param->c, pixel = column / param->c;
  return (row * param->c + channel) * param->h * param->w + pixel;
}
