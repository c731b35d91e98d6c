/* Batches for custom training code, batches [DATA [WORKERS]]: loader workers deliver samples, the program computes
 * the mean of each class, and classifies test samples by the nearest mean. */
#include <heddle/experimental.h>
#include <stdio.h>

enum { CLASSES = 10, MOST = 28 * 28 };

static double mean[CLASSES][MOST], count[CLASSES];

static void learn(const float *x, int label, int elems) {
  count[label]++;
  for (int i = 0; i < elems; i++)
    mean[label][i] += (x[i] - mean[label][i]) / count[label];
}

static int nearest(const float *x, int elems) {
  int best = 0;
  double least = -1;
  for (int c = 0; c < CLASSES; c++) {
    double distance = 0;
    for (int i = 0; i < elems; i++)
      distance += (x[i] - mean[c][i]) * (x[i] - mean[c][i]);
    best = least < 0 || distance < least ? c : best;
    least = best == c ? distance : least;
  }
  return best;
}

static hd_status pass(long long *right, hd_ctx *ctx, const hd_config *config, hd_loader_part part) {
  hd_loader *loader;
  const hd_batch *b;
  hd_status status = hd_loader_create(&loader, ctx, config, part, NULL);
  const int elems = status == HD_OK ? hd_loader_shape_of(loader)->height * hd_loader_shape_of(loader)->width : 0;
  while (status == HD_OK && (status = hd_loader_next(&b, loader, ctx)) == HD_OK && b->count > 0)
    for (int64_t i = 0; i < b->count; i++)
      if (part == HD_LOADER_TRAINING)
        learn(b->x + i * b->stride, b->label[i * b->stride], elems);
      else
        *right += nearest(b->x + i * b->stride, elems) == b->label[i * b->stride];
  hd_loader_destroy(loader);
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config = NULL;
  long long right = 0;
  int failed = hd_ctx_create(&ctx) || hd_config_create(&config, ctx) ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits") ||
               hd_config_set_text(config, ctx, HD_OPT_WORKERS, argc > 2 ? argv[2] : "2") ||
               pass(&right, ctx, config, HD_LOADER_TRAINING) || pass(&right, ctx, config, HD_LOADER_TEST);
  if (failed)
    fprintf(stderr, "batches: %s\n", hd_ctx_message(ctx));
  else
    printf("%lld test samples are nearest to the mean of their class\n", right);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return failed;
}
