/* batches [DATA [WORKERS]]: loader workers deliver samples, which are classified by the nearest mean of a class. */
#include <heddle/experimental.h>
#include <stdio.h>

enum { CLASSES = 100, MOST = 3 * 32 * 32 };
static double mean[CLASSES][MOST], count[CLASSES];

static void learn(const float *x, int label, int elems) {
  count[label]++;
  for (int i = 0; i < elems; i++)
    mean[label][i] += (x[i] - mean[label][i]) / count[label];
}

static int nearest(const float *x, int elems) {
  double least = 1e300;
  int best = 0;
  for (int c = 0; c < CLASSES; c++) {
    double distance = count[c] > 0 ? 0 : 1e300;
    for (int i = 0; i < elems; i++)
      distance += (x[i] - mean[c][i]) * (x[i] - mean[c][i]);
    best = distance < least ? c : best;
    least = distance < least ? distance : least;
  }
  return best;
}

static hd_status pass(long long *right, hd_ctx *ctx, const hd_config *config, hd_loader_part part) {
  hd_loader *loader;
  const hd_batch *b;
  hd_status status = hd_loader_create(&loader, ctx, config, part, NULL);
  const hd_loader_shape of = status == HD_OK ? *hd_loader_shape_of(loader) : (hd_loader_shape){0};
  const int elems = of.channels * of.height * of.width, fits = of.classes > 0 && of.classes <= CLASSES && elems <= MOST;
  status = status == HD_OK && !fits ? HD_E_UNSUPPORTED : status;
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
    fprintf(stderr, "batches: %s\n", *hd_ctx_message(ctx) ? hd_ctx_message(ctx) : "expected fewer classes or pixels");
  else
    printf("%lld test samples are nearest to the mean of their class\n", right);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return failed;
}
