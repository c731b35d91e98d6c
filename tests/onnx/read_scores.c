/* read_scores MODEL.onnx SAMPLES COUNT: reads an ONNX file and writes the scores that its network gives COUNT samples
 * to standard output: raw floats in the order of files, in SAMPLES and in what is written, one sample after the other.
 * The input's normalisation, which is none of the network's layers, is applied first. HD_VERBOSE: the model file goes
 * to standard error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/model.h"
#include "onnx/onnx.h"
#include "train/checkpoint/checkpoint.h"
#include "train/placement/run_plan.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

typedef struct samples {
  float *x;
  int64_t elems, channels, pixels;
} samples;

/* Memory has the channels of a pixel side by side. */
static hd_status fetch(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to) {
  const samples *s = self;
  for (int64_t row = 0; row < rows; row++) {
    const float *from = s->x + (first + row) * s->elems;
    float *x = to->x + row * to->x_stride;
    for (int64_t i = 0; i < s->elems; i++)
      x[i] = from[i % s->channels * s->pixels + i / s->channels];
    memset((char *)to->target + row * to->target_stride * 4, 0,
           sizeof(float) * (size_t)(to->outputs > 0 ? to->outputs : 1));
  }
  return HD_OK;
}

static void normalise(samples *s, const hd_onnx_input *in, int64_t count) {
  for (int64_t i = 0; i < count * s->elems && in->maps; i++) {
    const int64_t elem = i % s->elems, c = elem / s->pixels;
    s->x[i] = in->elems ? (float)(((double)s->x[i] - in->mean[elem]) / in->std[elem])
                        : (float)((double)s->x[i] * in->scale[c] + in->shift[c]);
  }
}

static hd_status read_samples(samples *s, hd_ctx *ctx, const char *path, int64_t count) {
  FILE *file = fopen(path, "re");
  s->x = malloc(sizeof(float) * (size_t)(count * s->elems));
  if (!file || !s->x || fread(s->x, sizeof(float), (size_t)(count * s->elems), file) != (size_t)(count * s->elems))
    return hd__fail(ctx, HD_E_IO, "%s: expected %lld samples of %lld numbers", path, (long long)count,
                    (long long)s->elems);
  fclose(file);
  return HD_OK;
}

/* Scores of places lie side by side in memory, those of a class in files. */
static void write_scores(const float *score, int64_t count, const hd_shape *shape) {
  const int64_t elems = hd__shape_elems(shape), channels = shape->dim[0], pixels = elems / channels;
  for (int64_t n = 0; n < count; n++)
    for (int64_t i = 0; i < elems; i++)
      fwrite(&score[n * elems + i % pixels * channels + i / pixels], sizeof *score, 1, stdout);
}

static hd_status run(hd_ctx *ctx, const char *path, const char *from, int64_t count) {
  hd_onnx_model model;
  const hd_kernels *kernels;
  hd_graph *graph;
  hd_plan *plan;
  hd_store *store;
  hd_threads *threads;
  hd_exec *exec;
  hd_config *config;
  hd_run_device device;
  int64_t arithmetic;
  samples s = {0};
  HD_TRY(hd__onnx_read(&model, ctx, path));
  if (getenv("HD_VERBOSE"))
    fputs(model.text, stderr);
  HD_TRY(hd_config_create(&config, ctx));
  HD_TRY(hd__model_parse(&graph, NULL, ctx, model.text, strlen(model.text), path));
  const hd_shape in = graph->values[graph->input].shape;
  s.elems = hd__shape_elems(&in);
  s.channels = in.rank == 3 ? in.dim[0] : s.elems;
  s.pixels = s.elems / s.channels;
  HD_TRY(hd__planned_kernels(&kernels, ctx));
  HD_TRY(hd__device_open_named(&device, ctx, config, "cpu"));
  const hd_placement_request request = hd__config_placement(config);
  HD_TRY(hd__threads_open(&threads, ctx, &request));
  const hd_plan_settings settings = {.train = false};
  HD_TRY(hd__plan_create(&plan, ctx, graph, hd__device_kernels(&device, kernels, config, false), &settings));
  HD_TRY(hd__store_create(&store, ctx, NULL, plan));
  const hd_exec_settings exec_settings = hd__planned_evaluation(plan, &device);
  HD_TRY(hd__exec_create(&exec, ctx, plan, store, threads, &exec_settings));
  HD_TRY(hd__checkpoint_load_weights(store, &arithmetic, ctx, path, NULL, NULL));
  hd__store_pack(store, plan, NULL);
  HD_TRY(read_samples(&s, ctx, from, count));
  normalise(&s, &model.input, count);
  const hd_shape shape = plan->graph->values[plan->graph->logits].shape;
  const int64_t scores = hd__shape_elems(&shape);
  const hd_exec_outcome out = {.loss = calloc((size_t)count, sizeof(float)),
                               .guess = calloc((size_t)count, sizeof(int32_t)),
                               .score = calloc((size_t)(count * scores), sizeof(float))};
  const hd_step_source source = {.self = &s, .fetch = fetch};
  HD_TRY(hd__exec_evaluate(exec, ctx, &source, count, &out));
  write_scores(out.score, count, &shape);
  return HD_OK;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  if (argc < 4 || hd_ctx_create(&ctx) != HD_OK)
    return 2;
  const hd_status status = run(ctx, argv[1], argv[2], atoll(argv[3]));
  if (status != HD_OK)
    fprintf(stderr, "%s\n", hd_ctx_message(ctx));
  return status == HD_OK ? 0 : 1;
}
