/* Summaries: the graph as written, with the gradients that training would need, each node's cost added to the layer
 * that it came from; and the plan of a run, whose memory is computed and not allocated. What transforms need follows
 * from the data's shape, so the data is opened if there are transforms, and if the model leaves something to it. */
#include "heddle/custom_op.h"
#include "base/event_log.h"
#include "heddle/summary.h"

#include <string.h>

#include "base/alloc.h"
#include "base/rounding.h"
#include "graph/model.h"
#include "op/op.h"
#include "plan/passes.h"
#include "data/feed/feed_options.h"
#include "data/formats/formats.h"
#include "train/run/model_of_data.h"
#include "train/run/session_data.h"
#include "train/settings/model_source.h"
#include "train/placement/run_plan.h"

/* The summary and the objects that hold its texts and plans. */
typedef struct owner {
  hd_summary summary; /* first: a summary's address is its owner's */
  hd_config *config;
  hd_network network;
  hd_graph *graph;     /* with gradients, nothing fused: names of layers */
  int32_t (*edges)[2]; /* of the summary */
  hd_run_device device;
  const hd_kernels *kernels;
  int64_t train_fetch, eval_fetch; /* bytes that transforms need */
  bool unshiftable; /* no plan may add the shift of samples; without transforms it is assumed to be small */
} owner;

static hd_status parse(hd_graph **out, owner *o, hd_ctx *ctx, const int32_t input[3]) {
  const hd_network *n = &o->network;
  hd_shape shape = {3, {0}};
  for (int i = 0; input && i < 3; i++)
    shape.dim[i] = input[i];
  HD_TRY(input ? hd__model_parse_for(out, ctx, n->text, n->length, n->source, &shape)
               : hd__model_parse(out, NULL, ctx, n->text, n->length, n->source));
  if (n->target.of_classes)
    hd__graph_soften_labels(*out);
  hd_status status = hd__planned_rules(*out, ctx, hd__settings(o->config)->parameters);
  return HD_CREATED(status, out, hd__graph_destroy);
}

/* As a model file's input. */
static hd_status check_input(hd_ctx *ctx, const int32_t input[3]) {
  static const int32_t most[3] = {HD_MODEL_MAX_CHANNELS, HD_MODEL_MAX_SIDE, HD_MODEL_MAX_SIDE};
  bool good = true;
  for (int i = 0; i < 3 && input; i++)
    good = good && input[i] >= 1 && input[i] <= most[i];
  return good ? HD_OK
              : hd__fail(ctx, HD_E_USAGE,
                         "an input expects 1 to %d channels and sides of 1 to %d, found %dx%dx%d; write for example "
                         "1x28x28",
                         most[0], most[1], input[0], input[1], input[2]);
}

static void describe_layer(hd_summary_layer *layer, const hd_graph *graph, const hd_node *node) {
  const hd_shape *shape = &graph->values[node->out[0]].shape;
  *layer = (hd_summary_layer){.name = node->name, .op = hd__op_info(node->op)->name, .rank = shape->rank};
  if (node->attrs.custom_op)
    layer->op = node->attrs.custom_op->name;
  for (int i = 0; i < shape->rank; i++)
    layer->shape[i] = shape->dim[i];
  for (int p = 0; p < graph->param_count; p++)
    if (graph->params[p].written == node->written && !graph->params[p].running) {
      int64_t elems = hd__param_elems(&graph->params[p]);
      layer->params += elems;
      layer->trainable += hd__param_trains(&graph->params[p]) ? elems : 0;
    }
  layer->macs = hd__op_macs(node->op, &node->geom);
}

static void add_up(hd_summary *s) {
  for (int i = 0; i < s->layer_count; i++) {
    s->params += s->layers[i].params;
    s->trainable += s->layers[i].trainable;
    s->macs += s->layers[i].macs;
    s->flops_fwd += s->layers[i].flops_fwd;
    s->flops_bwd += s->layers[i].flops_bwd;
  }
}

/* Adds a node's cost to the layer that it came from; the loss belongs to none, and bias terms are left out
 * everywhere. */
static void count_flops(hd_summary *s, const hd_node *node, const int *layer_of, bool forward) {
  int layer = layer_of[node->written];
  if (layer < 0 || node->out[0] < 0)
    return;
  int64_t flops = hd__op_flops(node->op, &node->geom);
  s->layers[layer].flops_fwd += forward ? flops : 0;
  s->layers[layer].flops_bwd += forward ? 0 : flops;
}

/* Adds to the layers what training needs: statistics of batch norms, then gradients. */
static hd_status count_training(owner *o, hd_ctx *ctx, const int *layer_of) {
  HD_TRY(hd__pass_batch_statistics(o->graph, ctx));
  int forward = o->graph->node_count;
  HD_TRY(hd__pass_grad(o->graph, ctx));
  for (int i = 0; i < o->graph->node_count; i++)
    count_flops(&o->summary, &o->graph->nodes[i], layer_of, i < forward);
  return HD_OK;
}

/* The edges to a layer, which is described already, from layers before it. */
static void list_inputs(hd_summary *s, int32_t (*edges)[2], const hd_graph *graph, const hd_node *node,
                        const int *layer_of) {
  for (int i = 0; i < HD_MAX_IN; i++) {
    const int value = node->in[i];
    const int producer = value >= 0 ? graph->values[value].producer : -1;
    if (value == graph->input || producer >= 0) {
      edges[s->edge_count][0] = producer >= 0 ? layer_of[graph->nodes[producer].written] : -1;
      edges[s->edge_count++][1] = s->layer_count - 1;
    }
  }
}

/* Layers are the nodes as written, without the loss and the node that reorders an image's scores for it. */
static hd_status list_layers(owner *o, hd_ctx *ctx) {
  hd_summary *s = &o->summary;
  int written = o->graph->node_count, loss = o->graph->values[o->graph->loss].producer;
  s->layers = hd__calloc((size_t)written, sizeof *s->layers);
  HD_OWNED int *layer_of = hd__malloc((size_t)written * sizeof *layer_of);
  o->edges = hd__calloc((size_t)written * HD_MAX_IN, sizeof *o->edges);
  s->edges = (const int32_t(*)[2])o->edges;
  HD_TRY(HD_ALLOCATED(s->layers && layer_of && o->edges, ctx, "out of memory for the summary"));
  for (int i = 0; i < written; i++) {
    const hd_node *node = &o->graph->nodes[i];
    bool is_layer = i != loss && !node->attrs.move;
    layer_of[node->written] = is_layer ? s->layer_count : -1;
    if (!is_layer)
      continue;
    describe_layer(&s->layers[s->layer_count++], o->graph, node);
    list_inputs(s, o->edges, o->graph, node, layer_of);
  }
  HD_TRY(count_training(o, ctx, layer_of));
  add_up(s);
  return HD_OK;
}

static hd_status make_plan(hd_plan **out, owner *o, hd_ctx *ctx, const int32_t input[3], bool train) {
  hd_graph *graph;
  hd_plan_settings settings = hd__planned_passes(o->config, train);
  settings.may_shift &= !o->unshiftable;
  HD_TRY(parse(&graph, o, ctx, input));
  if (settings.stages.count == 0)
    settings.stages = graph->stages;
  return hd__plan_create(out, ctx, graph, hd__device_kernels(&o->device, o->kernels, o->config, train), &settings);
}

/* Raises *bytes to what a split's samples need for the transforms, and derives the kind of targets. */
static hd_status raise_fetch(int64_t *bytes, owner *o, hd_ctx *ctx, const hd_dataset *data, const hd_split *split,
                             hd_pipeline_mode mode) {
  const hd_transform_lists lists = hd__transform_lists(o->config);
  const double *mean = data->statistics.mean, *std = data->statistics.std;
  HD_FEED_OWNED feed = {0};
  HD_TRY(hd__feed_init(&feed, ctx, split, o->kernels, mean, std));
  HD_TRY(hd__feed_set_transforms(&feed, ctx, &lists, mode, 0));
  float shift;
  o->unshiftable |= !hd__feed_shift(&shift, &feed);
  const int64_t needed = hd__feed_scratch_bytes(&feed);
  *bytes = needed > *bytes ? needed : *bytes;
  if (mode == HD_PIPELINE_TRAINING)
    o->network.target.of_classes = hd__feed_makes_targets(&feed);
  return HD_OK;
}

HD_RELEASER(release_data, hd_dataset, hd__dataset_close)

static hd_status measure_fetch(owner *o, hd_ctx *ctx) {
  hd_dataset_request request = hd__network_request(&o->network, o->config);
  HD_RELEASED(release_data) hd_dataset *data = NULL;
  if (!*hd__settings(o->config)->transforms && !*hd__settings(o->config)->eval_transforms)
    return HD_OK;
  HD_TRY(hd__dataset_open(&data, ctx, &request));
  const hd_split *train = hd__dataset_train(data);
  HD_TRY(raise_fetch(&o->train_fetch, o, ctx, data, train, HD_PIPELINE_TRAINING));
  HD_TRY(raise_fetch(&o->eval_fetch, o, ctx, data, hd__dataset_test(data), HD_PIPELINE_EVALUATION));
  return hd__settings(o->config)->val_split > 0 || train->validation > 0
             ? raise_fetch(&o->eval_fetch, o, ctx, data, train, HD_PIPELINE_EVALUATION)
             : HD_OK;
}

static void describe_stage(hd_summary_stage *stage, const hd_plan *plan, int index, const hd_exec_memory *memory) {
  const hd_graph *graph = plan->graph;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    stage->flops += plan->nodes[i].stage == index ? hd__op_flops(node->op, &node->geom) : 0;
  }
  for (int p = 0; p < plan->param_count; p++) {
    const int64_t elems = plan->params[p].stage == index ? hd__param_elems(&graph->params[p]) : 0;
    const int states = plan->params[p].trained ? plan->update.groups[plan->params[p].group].states : 0;
    stage->params += plan->params[p].is_running ? 0 : elems;
    stage->weights_bytes += 2 * (1 + states) * elems * (int64_t)sizeof(float);
  }
  stage->threads = memory->stage_threads[index];
  stage->activations_bytes = memory->stage_arenas[index];
}

/* Layers have their number as written. */
static hd_status list_stages(hd_summary *s, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings) {
  hd_exec_memory memory;
  if (plan->pipeline.stages.count == 1)
    return HD_OK;
  HD_TRY(hd__exec_measure(&memory, ctx, plan, s->threads, settings));
  HD_TRY(HD_NEW(s->stages, plan->pipeline.stages.count, ctx, "out of memory for the summary"));
  s->stage_count = plan->pipeline.stages.count;
  for (int i = 0; i < s->stage_count; i++) {
    describe_stage(&s->stages[i], plan, i, &memory);
    const int end = i + 1 < s->stage_count ? plan->pipeline.stages.first[i + 1] : s->layer_count;
    s->stages[i].first = s->layers[plan->pipeline.stages.first[i]].name;
    s->stages[i].last = s->layers[end - 1].name;
  }
  return HD_OK;
}

HD_RELEASER(release_plan, hd_plan, hd__plan_destroy)

static hd_status print_plan(char **out, hd_ctx *ctx, const hd_plan *plan) {
  size_t bytes;
  FILE *to = open_memstream(out, &bytes);
  if (to)
    hd__plan_print(plan, to);
  return HD_ALLOCATED(to && fclose(to) == 0, ctx, "out of memory for the plan's text");
}

static hd_status plan_memory(owner *o, hd_ctx *ctx, const int32_t input[3]) {
  HD_RELEASED(release_plan) hd_plan *plan = NULL;
  HD_RELEASED(release_plan) hd_plan *eval_plan = NULL;
  HD_TRY(measure_fetch(o, ctx));
  HD_TRY(make_plan(&plan, o, ctx, input, true));
  HD_TRY(make_plan(&eval_plan, o, ctx, input, false));
  HD_TRY(print_plan(&o->summary.plan, ctx, plan));
  HD_TRY(print_plan(&o->summary.evaluation_plan, ctx, eval_plan));
  hd_planned planned = {.plan = plan,
                        .eval_plan = eval_plan,
                        .train = hd__planned_training(o->config, (int32_t)o->summary.shards, &o->device),
                        .eval = hd__planned_evaluation(eval_plan, &o->device),
                        .threads = o->summary.threads};
  HD_TRY(list_stages(&o->summary, ctx, plan, &planned.train));
  planned.train.fetch_bytes = o->train_fetch;
  planned.eval.fetch_bytes = o->eval_fetch;
  return hd__planned_memory(&o->summary.memory, ctx, &planned);
}

static void fill(owner *o, int32_t shards, int threads) {
  hd_summary *s = &o->summary;
  const hd_shape shape = hd__shape_image(&o->graph->values[o->graph->input].shape);
  s->model = o->network.name;
  s->optimizer = (hd_optimizer_choice)hd__settings(o->config)->optimizer;
  s->isa = o->kernels->isa;
  for (int i = 0; i < 3; i++)
    s->input[i] = shape.dim[i];
  s->batch = hd__settings(o->config)->batch;
  s->shards = shards;
  s->accumulate = hd__settings(o->config)->accumulate;
  s->threads = threads;
}

static hd_status fit_to_data(owner *o, hd_ctx *ctx) {
  HD_RELEASED(release_data) hd_dataset *data = NULL;
  const hd_transform_lists lists = hd__transform_lists(o->config);
  char note[80];
  hd_line line = {.text = note, .bytes = sizeof note};
  HD_FEED_OWNED feed = {0};
  HD_TRY(hd__session_data(&data, ctx, o->config, &o->network));
  const double *mean = data->statistics.mean, *std = data->statistics.std;
  HD_TRY(hd__feed_init(&feed, ctx, hd__dataset_train(data), o->kernels, mean, std));
  HD_TRY(hd__feed_set_transforms(&feed, ctx, &lists, HD_PIPELINE_TRAINING, 0));
  o->network.target.of_classes = hd__feed_makes_targets(&feed);
  return hd__network_fit(&o->network, &line, ctx, o->config, &feed, data->name);
}

/* What a text leaves to the data comes from those that are named; without any, or for an input, it has defaults. */
static hd_status fit_network(owner *o, hd_ctx *ctx, const int32_t input[3]) {
  hd_network *n = &o->network;
  const char *loss = hd_choice_name(HD_OPT_LOSS, hd__settings(o->config)->loss);
  if (!n->asks_input && !n->asks_classes && !*loss)
    return HD_OK;
  if (!input && hd__config_given(o->config, HD_OPT_DATA))
    return fit_to_data(o, ctx);
  const bool changes = *loss && strcmp(loss, hd__target_loss(&n->target)) != 0;
  hd_model_facts facts = hd__model_default_facts(&(hd_model_outline){.loss = n->target.loss}, changes ? loss : NULL);
  if (input)
    facts.input = hd__shape_sample(&(hd_shape){3, {input[0], input[1], input[2]}});
  return hd__network_resolve(n, ctx, &facts);
}

static hd_status summarize(owner *o, hd_ctx *ctx, const hd_config *config, const int32_t input[3]) {
  const hd_placement_request request = hd__config_placement(config);
  hd_placement *place;
  int32_t shards;
  HD_TRY(hd__log_start(ctx));
  HD_TRY(check_input(ctx, input));
  HD_TRY(hd__config_copy(&o->config, ctx, config));
  HD_TRY(hd__config_complete(o->config, ctx));
  HD_TRY(hd__network_find(&o->network, ctx, hd__settings(o->config)->model));
  o->device = hd__device_threads(o->config);
  HD_TRY(hd__device_thread_kernels(&o->kernels, ctx, o->config, &o->device));
  HD_TRY(hd__planned_shards(&shards, ctx, o->config));
  HD_TRY(fit_network(o, ctx, input));
  HD_TRY(parse(&o->graph, o, ctx, input));
  HD_TRY(hd__threads_place(&place, ctx, &request));
  fill(o, shards, place->threads);
  hd_placement_destroy(place);
  HD_TRY(list_layers(o, ctx));
  return plan_memory(o, ctx, input);
}

hd_status hd_summary_create(hd_summary **out, hd_ctx *ctx, const hd_config *config, const int32_t input[3]) {
  HD_ROUNDING_TO_NEAREST;
  *out = NULL;
  owner *o = hd__calloc(1, sizeof *o);
  HD_TRY(HD_ALLOCATED(o, ctx, "out of memory for the summary"));
  hd_status status = summarize(o, ctx, config, input);
  *out = &o->summary;
  return HD_CREATED(status, out, hd_summary_destroy);
}

void hd_summary_destroy(hd_summary *summary) {
  owner *o = (owner *)summary;
  if (!o)
    return;
  hd__graph_destroy(o->graph);
  hd__network_fini(&o->network);
  hd_config_destroy(o->config);
  hd__free(summary->layers);
  hd__free(summary->stages);
  free(summary->plan); /* of open_memstream */
  free(summary->evaluation_plan);
  hd__free(o->edges);
  hd__free(o);
}
