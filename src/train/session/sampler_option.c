/* Samplers from options; see sampler_option.h. */
#include "train/session/sampler_option.h"

#include "base/alloc.h"

/* Weights: one over the number of samples of the class; 0 for a label outside of the classes. */
static hd_status weigh(double *weight, hd_ctx *ctx, const hd_feed *feed) {
  const hd_dataset *data = feed->data;
  int64_t *count = hd__calloc((size_t)data->classes, sizeof *count);
  HD_TRY(HD_ALLOCATED(count, ctx, "out of memory for the counts of %d classes", data->classes));
  for (int64_t i = 0; i < feed->count; i++) {
    const int32_t label = data->labels[hd__feed_sample(feed, 0, i)];
    if (label < data->classes)
      count[label]++;
  }
  for (int64_t i = 0; i < feed->count; i++) {
    const int32_t label = data->labels[hd__feed_sample(feed, 0, i)];
    weight[i] = label < data->classes ? 1 / (double)count[label] : 0;
  }
  hd__free(count);
  return HD_OK;
}

static hd_status balance(hd_sampler **out, hd_ctx *ctx, const hd_feed *feed, const char *data_name) {
  if (!feed->data->labels)
    return hd__fail(ctx, HD_E_USAGE,
                    "--sampler balanced expects class labels, found float targets in %s; use another sampler",
                    data_name);
  double *weight = hd__malloc((size_t)feed->count * sizeof *weight);
  HD_TRY(HD_ALLOCATED(weight, ctx, "out of memory for %lld weights", (long long)feed->count));
  hd_status status = weigh(weight, ctx, feed);
  if (status == HD_OK)
    status = hd_sampler_weighted(out, ctx, weight, feed->count, feed->count);
  hd__free(weight);
  return status;
}

hd_status hd__order_feed(hd_feed *feed, hd_ctx *ctx, const hd_config *config, const char *data_name) {
  const hd_settings *is = hd__settings(config);
  hd_sampler *sampler;
  HD_TRY(hd__config_check_order(config, ctx));
  if (is->no_shuffle || is->sampler == HD_SAMPLER_SEQUENTIAL)
    return HD_OK; /* file order, the feed's default */
  if (is->sampler == HD_SAMPLER_BALANCED)
    HD_TRY(balance(&sampler, ctx, feed, data_name));
  else
    HD_TRY(hd_sampler_random(&sampler, ctx, feed->count));
  return hd__feed_sample_by(feed, ctx, sampler);
}
