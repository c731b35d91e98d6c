/* Opening data for a network: see session_data.h. */
#include <string.h>

#include "data/dataset/format.h"
#include "data/formats/formats.h"
#include "train/run/session_data.h"

/* Whole numbers of a table are classes, but hardly prices: more classes than rows are asked about. */
static hd_status check_classes(hd_ctx *ctx, const hd_dataset *data, const hd_config *config) {
  const hd_split *train = hd__dataset_train(data);
  const int64_t rows = train->count + hd__dataset_test(data)->count;
  if (!data->format->table || train->class_names || train->classes <= rows || hd__settings(config)->loss >= 0 ||
      data->first_rules)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "%s: the labels of %lld rows are whole numbers up to %d; give --loss mse if they are numbers to "
                  "predict, or --loss cross_entropy if they are classes",
                  data->name, (long long)rows, train->classes - 1);
}

/* A class that an ONNX file and the data name alike has one number, that of its score: else training would begin with
 * the weights of another class. */
static hd_status check_class_names(hd_ctx *ctx, const hd_dataset *data, const hd_config *config, const hd_network *n) {
  const hd_split *train = hd__dataset_train(data);
  const char *name = n->classes.text;
  if (*hd__settings(config)->head || hd__settings(config)->fresh || !train->class_names)
    return HD_OK;
  for (int32_t score = 0; score < n->classes.count; score++, name += strlen(name) + 1)
    for (int32_t c = 0; c < train->classes; c++)
      if (c != score && !strcmp(train->class_names[c], name))
        return hd__fail(ctx, HD_E_USAGE,
                        "%s: expected '%.100s' as the class %d of %s, whose score that is, found it as class %d, since "
                        "the data have other classes; add samples of the missing ones, or begin with a new last layer, "
                        "--head auto",
                        n->source, name, (int)score, data->name, (int)c);
  return HD_OK;
}

hd_status hd__session_data(hd_dataset **out, hd_ctx *ctx, hd_config *config, const hd_network *network) {
  hd_dataset_request request = hd__network_request(network, config);
  /* A network that normalises its input by itself reads rows as they are; a map for each element is done here. */
  request.rows = network->reads_rows && (!network->input.maps || network->input.elems > 0);
  request.mean = network->input.mean;
  request.std = network->input.std;
  request.columns = network->input.elems;
  HD_TRY(hd__dataset_open(out, ctx, &request));
  hd_status status = hd__config_check_used(config, ctx, *out);
  HD_THEN(status, check_classes(ctx, *out, config));
  HD_THEN(status, check_class_names(ctx, *out, config, network));
  HD_THEN(status,
          hd__config_settle(config, ctx, HD_OPT_NORMALIZE, hd_choice_name(HD_OPT_NORMALIZE, (int)(*out)->normalize)));
  return HD_CREATED(status, out, hd__dataset_close);
}
