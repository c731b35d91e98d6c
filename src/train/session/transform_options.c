/* Lists of transforms from options to feeds: see transform_options.h. */
#include "train/session/transform_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/file.h"

hd_augment hd__augment_of(const hd_config *config) {
  return (hd_augment){.train = hd__settings(config)->transforms,
                      .eval = hd__settings(config)->eval_transforms,
                      .train_origin = hd__config_origin(config, HD_OPT_TRANSFORMS),
                      .eval_origin = hd__config_origin(config, HD_OPT_EVAL_TRANSFORMS)};
}

/* Sets where messages say that entries stand: "FILE:LINE,LINE,..." as written; else their places in the list. */
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

hd_status hd__augment_feed(hd_feed *feed, hd_ctx *ctx, const hd_augment *lists, hd_pipeline_mode mode,
                           const double *mean, const double *std, uint64_t seed) {
  const bool has_eval_list = mode != HD_PIPELINE_TRAINING && *lists->eval;
  const char *text = has_eval_list ? lists->eval : lists->train;
  char source[HD_PATH_BYTES];
  hd_yaml *list;
  if (!*text)
    return HD_OK;
  HD_TRY(hd__yaml_parse(&list, ctx, text, strlen(text), "transforms"));
  place_entries(list, has_eval_list ? "--eval-transforms" : "--transforms",
                has_eval_list ? lists->eval_origin : lists->train_origin, source);
  hd_status status = hd__feed_transform(feed, ctx, hd__yaml_root(list), mode, mean, std, seed);
  hd__yaml_destroy(list);
  return status;
}

hd_status hd__augment_check(hd_ctx *ctx, const hd_feed *feed, const hd_network *network, const hd_graph *graph,
                            const char *data_name) {
  char name[HD_PATH_BYTES];
  const hd_dataset seen = hd__feed_seen(feed);
  const bool transformed = feed->pipeline != NULL;
  snprintf(name, sizeof name, "%s%s", data_name, transformed ? " through its transforms" : "");
  return hd__network_check(ctx, network, graph, &seen, name, transformed);
}

bool hd__augment_of_classes(const hd_feed *feed) {
  return feed->pipeline && feed->data->labels && hd_pipeline_shape_of(feed->pipeline)->targets > 0;
}

bool hd__augment_makes_numbers(const hd_augment *lists) {
  return strstr(*lists->eval ? lists->eval : lists->train, "one_hot") != NULL; /* names and numbers only */
}
