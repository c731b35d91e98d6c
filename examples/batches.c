/* Batches for custom training code, batches [DATA [WORKERS]]: loader workers deliver samples, the program computes
 * the mean of each class, and classifies test samples by the nearest mean. */
#include <heddle/experimental.h>
#include <stdio.h>
#include <stdlib.h>

/* The mean of each class, and of how many samples it is. */
typedef struct means {
  int classes, elems; /* elems: of a sample */
  double *mean, *count;
} means;

static int make_room(means *m, const hd_loader_shape *shape) {
  if (m->mean || shape->classes < 1)
    return m->mean != NULL;
  m->classes = shape->classes;
  m->elems = shape->channels * shape->height * shape->width;
  m->mean = calloc((size_t)m->classes * (size_t)m->elems, sizeof *m->mean);
  m->count = calloc((size_t)m->classes, sizeof *m->count);
  return m->mean && m->count;
}

static void learn(means *m, const float *x, int label) {
  double *mean = m->mean + (size_t)label * (size_t)m->elems;
  m->count[label]++;
  for (int i = 0; i < m->elems; i++)
    mean[i] += (x[i] - mean[i]) / m->count[label];
}

static int nearest(const means *m, const float *x) {
  int best = 0;
  double least = -1;
  for (int c = 0; c < m->classes; c++) {
    const double *mean = m->mean + (size_t)c * (size_t)m->elems;
    double distance = 0;
    for (int i = 0; i < m->elems; i++)
      distance += (x[i] - mean[i]) * (x[i] - mean[i]);
    best = least < 0 || distance < least ? c : best;
    least = best == c ? distance : least;
  }
  return best;
}

static hd_status pass(means *m, long long *right, hd_ctx *ctx, const hd_config *config, hd_loader_part part) {
  hd_loader *loader;
  const hd_batch *b;
  hd_status status = hd_loader_create(&loader, ctx, config, part, NULL);
  if (status == HD_OK && !make_room(m, hd_loader_shape_of(loader))) {
    fprintf(stderr, "batches: expected samples with classes, and memory for a mean of each, found none\n");
    status = HD_E_USAGE;
  }
  while (status == HD_OK && (status = hd_loader_next(&b, loader, ctx)) == HD_OK && b->count > 0)
    for (int64_t i = 0; i < b->count; i++)
      if (part == HD_LOADER_TRAINING)
        learn(m, b->x + i * b->stride, b->label[i * b->stride]);
      else
        *right += nearest(m, b->x + i * b->stride) == b->label[i * b->stride];
  hd_loader_destroy(loader);
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_config *config = NULL;
  long long right = 0;
  means m = {0};
  int failed = hd_ctx_create(&ctx) || hd_config_create(&config, ctx) ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, argc > 1 ? argv[1] : "digits") ||
               hd_config_set_text(config, ctx, HD_OPT_WORKERS, argc > 2 ? argv[2] : "2") ||
               pass(&m, &right, ctx, config, HD_LOADER_TRAINING) || pass(&m, &right, ctx, config, HD_LOADER_TEST);
  if (failed)
    fprintf(stderr, "batches: %s\n", hd_ctx_message(ctx));
  else
    printf("%lld test samples are nearest to the mean of their class\n", right);
  free(m.mean);
  free(m.count);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return failed;
}
