/* print_scores CHECKPOINT DATA [TTA]: writes the scores of a checkpoint for the test samples of a data set to standard
 * output, as raw floats, one sample after the other, for comparisons with other programs. */
#include <stdio.h>
#include <stdlib.h>

#include "data/feed/feed.h"
#include "train/inference/trained_model.h"

static hd_status print_all(hd_ctx *ctx, hd_trained *trained, hd_feed *feed) {
  const hd_graph *graph = trained->plan->graph;
  size_t samples = (size_t)feed->count, scores = (size_t)hd__shape_elems(&graph->values[graph->logits].shape);
  hd_exec_outcome out = {.loss = malloc(samples * sizeof(float)),
                         .guess = malloc(samples * sizeof(int32_t)),
                         .score = malloc(samples * scores * sizeof(float))};
  hd_status status = out.loss && out.guess && out.score ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory");
  if (status == HD_OK)
    status = hd__trained_evaluate(&out, ctx, trained, feed);
  if (status == HD_OK && fwrite(out.score, sizeof(float), samples * scores, stdout) != samples * scores)
    status = hd__fail(ctx, HD_E_IO, "cannot write the scores");
  free(out.loss);
  free(out.guess);
  free(out.score);
  return status;
}

static hd_status run(hd_ctx *ctx, hd_config *config, const char *checkpoint, const char *data_name, const char *tta) {
  hd_trained trained;
  hd_dataset *data;
  hd_feed feed = {0};
  HD_TRY(hd_config_set(config, ctx, "data", data_name));
  HD_TRY(hd_config_set(config, ctx, "tta", tta));
  HD_TRY(hd__trained_open(&trained, ctx, checkpoint, config));
  hd_evaluated part;
  hd_status status = hd__trained_data(&data, &part, ctx, &trained, config);
  if (status == HD_OK) {
    status = hd__trained_feed(&feed, ctx, &trained, hd__dataset_test(data), HD_PIPELINE_EVALUATION);
    if (status == HD_OK)
      status = print_all(ctx, &trained, &feed);
    hd__feed_fini(&feed);
    hd__dataset_close(data);
  }
  hd__trained_fini(&trained);
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config;
  if (argc < 3 || hd_ctx_create(&ctx) != HD_OK || hd_config_create(&config, ctx) != HD_OK)
    return 2;
  hd_status status = run(ctx, config, argv[1], argv[2], argc > 3 ? argv[3] : "none");
  if (status != HD_OK)
    fprintf(stderr, "print_scores: %s\n", hd_ctx_message(ctx));
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return status == HD_OK ? 0 : 1;
}
