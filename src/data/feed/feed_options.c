/* Feeds from options: see feed_options.h. */
#include "data/feed/feed_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "platform/file.h"

hd_transform_lists hd__transform_lists(const hd_config *config) {
  return (hd_transform_lists){.train = hd__settings(config)->transforms,
                              .eval = hd__settings(config)->eval_transforms,
                              .train_origin = hd__config_origin(config, HD_OPT_TRANSFORMS),
                              .eval_origin = hd__config_origin(config, HD_OPT_EVAL_TRANSFORMS)};
}

/* Sets the places of entries for messages: "FILE:LINE,LINE,..." as written; else their places in the list. */
static void place_entries(hd_yaml *list, const char *option, const char *origin, char source[HD_PATH_BYTES]) {
  const char *lines = strrchr(origin, ':');
  const int count = hd__yaml_root(list)->count;
  snprintf(source, HD_PATH_BYTES, "%.*s", lines ? (int)(lines - origin) : HD_PATH_BYTES - 1, lines ? origin : option);
  for (int i = 0; i < count; i++) {
    char *end = NULL;
    const long line = lines ? strtol(lines + 1, &end, 10) : i + 1;
    hd__yaml_place(list, i, source, (int)line);
    lines = end;
  }
}

/* For masks, which go through the transforms with their samples. */
static hd_status make_mask_room(hd_feed *feed, hd_ctx *ctx) {
  HD_TRY(hd__pipeline_check_masks(ctx, feed->pipeline));
  feed->mask_room = hd__malloc_aligned((size_t)hd__feed_scratch_bytes(feed));
  return HD_ALLOCATED(feed->mask_room, ctx, "out of memory for transforms of masks");
}

hd_status hd__feed_set_transforms(hd_feed *feed, hd_ctx *ctx, const hd_transform_lists *lists, hd_pipeline_mode mode,
                                  uint64_t seed) {
  const hd_split *split = feed->split;
  const int32_t classes = split->classes > lists->classes ? split->classes : lists->classes;
  const hd_pipeline_input input = {.channels = split->channels,
                                   .height = split->height,
                                   .width = split->width,
                                   .bytes = split->elem == HD_ELEM_U8,
                                   .classes = split->outputs ? 0 : classes,
                                   .outputs = split->outputs,
                                   .mean = feed->mean,
                                   .std = feed->std};
  const bool has_eval_list = mode != HD_PIPELINE_TRAINING && *lists->eval;
  const char *text = has_eval_list ? lists->eval : lists->train;
  char source[HD_PATH_BYTES];
  HD_YAML_OWNED *list = NULL;
  if (!*text)
    return HD_OK;
  if (split->window)
    return hd__fail(ctx, HD_E_USAGE, "--transforms expects pictures or rows of numbers, found a text; leave it out");
  HD_TRY(hd__yaml_parse(&list, ctx, text, strlen(text), "transforms"));
  place_entries(list, has_eval_list ? "--eval-transforms" : "--transforms",
                has_eval_list ? lists->eval_origin : lists->train_origin, source);
  feed->seed = seed;
  HD_TRY(hd__pipeline_create(&feed->pipeline, ctx, hd__yaml_root(list), &input, mode, feed->kernels));
  return split->masks ? make_mask_room(feed, ctx) : HD_OK;
}

/* one_hot makes probabilities of labels, in which a loss finds none that it might ignore. */
static hd_status check_ignored(hd_ctx *ctx, const hd_feed *feed, int ignored, const char *data_name) {
  const int32_t *labels = ignored >= 0 && hd__feed_makes_targets(feed) ? feed->split->labels : NULL;
  for (int64_t i = 0; labels && i < feed->split->count; i++)
    if (labels[i] == ignored)
      return hd__fail(ctx, HD_E_USAGE,
                      "--transforms expects labels that count for one_hot, found %d, which the loss ignores, at index "
                      "%lld of %s; leave one_hot out, or these samples",
                      ignored, (long long)i, data_name);
  return HD_OK;
}

hd_status hd__feed_check(hd_ctx *ctx, const hd_feed *feed, const hd_network *network, const hd_graph *graph,
                         const char *data_name) {
  char name[HD_PATH_BYTES];
  const hd_split seen = hd__feed_seen(feed);
  const bool transformed = feed->pipeline != NULL;
  snprintf(name, sizeof name, "%s%s", data_name, transformed ? " through its transforms" : "");
  HD_TRY(check_ignored(ctx, feed, network->target.ignored, data_name));
  return hd__network_check(ctx, network, graph, &seen, name, transformed);
}

bool hd__feed_makes_targets(const hd_feed *feed) {
  return feed->pipeline && feed->split->labels && hd_pipeline_shape_of(feed->pipeline)->targets > 0;
}

bool hd__transform_lists_make_numbers(const hd_transform_lists *lists) {
  return strstr(*lists->eval ? lists->eval : lists->train, "one_hot") != NULL; /* names and numbers only */
}

/* Weights: one over the number of samples of the class; 0 for a label outside of the classes. */
static hd_status balance(hd_sampler **out, hd_ctx *ctx, const hd_feed *feed, const char *data_name) {
  const hd_split *split = feed->split;
  if (!split->labels)
    return hd__fail(ctx, HD_E_USAGE, "--sampler balanced expects class labels, found %s in %s; use another sampler",
                    split->masks ? "a class of each pixel" : "float targets", data_name);
  HD_OWNED double *weight = hd__malloc((size_t)feed->count * sizeof *weight);
  HD_OWNED int64_t *count = hd__calloc((size_t)split->classes, sizeof *count);
  HD_TRY(HD_ALLOCATED(weight, ctx, "out of memory for %lld weights", (long long)feed->count));
  HD_TRY(HD_ALLOCATED(count, ctx, "out of memory for the counts of %d classes", split->classes));
  for (int64_t i = 0; i < feed->count; i++) {
    const int32_t label = split->labels[hd__feed_sample(feed, 0, i)];
    if (label < split->classes)
      count[label]++;
  }
  for (int64_t i = 0; i < feed->count; i++) {
    const int32_t label = split->labels[hd__feed_sample(feed, 0, i)];
    weight[i] = label < split->classes ? 1 / (double)count[label] : 0;
  }
  return hd_sampler_weighted(out, ctx, weight, feed->count, feed->count);
}

hd_status hd__feed_set_order(hd_feed *feed, hd_ctx *ctx, const hd_config *config, const char *data_name) {
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
