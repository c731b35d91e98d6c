/* Weights of classes: see class_weights.h. */
#include "data/dataset/class_weights.h"

#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "data/split/sample_weights.h"

#define OPTION "--class-weight"

/* "cat=2": the class by its name or number, which may have a '=' itself. */
static hd_status read_entry(double *weight, hd_ctx *ctx, const hd_dataset *data, char *entry) {
  const hd_split *train = hd__dataset_train(data);
  char *equals = strrchr(entry, '=');
  double number;
  int found = -1;
  if (!equals)
    return hd__fail(
        ctx, HD_E_USAGE,
        OPTION " expects balanced, or weights of classes such as 'cat=2,dog=1', found '%s'; write CLASS=WEIGHT", entry);
  *equals = 0;
  for (int c = 0; c < train->classes && train->class_names; c++)
    if (!strcmp(train->class_names[c], entry))
      found = c;
  if (found < 0 && hd__parse_double(&number, entry) && number >= 0 && number < train->classes &&
      number == (double)(int)number)
    found = (int)number;
  if (found < 0)
    return hd__fail(ctx, HD_E_USAGE, OPTION " expects classes of %s, %d of them, found '%s'; see heddle data",
                    data->name, train->classes, entry);
  if (!hd__parse_double(&number, equals + 1) || !hd__weight_is_valid(number))
    return hd__fail(ctx, HD_E_USAGE, OPTION " expects " HD_WEIGHT_WORDS " for class '%s', found '%s'; give another",
                    entry, equals + 1);
  if (weight[found] >= 0)
    return hd__fail(ctx, HD_E_USAGE, OPTION " expects a weight for each class, found two for '%s'; leave one out",
                    entry);
  weight[found] = number;
  return HD_OK;
}

static hd_status read_list(double *weight, hd_ctx *ctx, const hd_dataset *data, const char *text) {
  const int classes = hd__dataset_train(data)->classes;
  HD_OWNED char *copy = hd__strdup(text);
  HD_TRY(HD_ALLOCATED(copy, ctx, "out of memory for weights of classes"));
  for (int c = 0; c < classes; c++)
    weight[c] = -1;
  for (char *entry = copy, *next; entry; entry = next) {
    next = strchr(entry, ',');
    if (next)
      *next++ = 0;
    HD_TRY(read_entry(weight, ctx, data, entry));
  }
  for (int c = 0; c < classes; c++)
    weight[c] = weight[c] < 0 ? 1 : weight[c];
  return HD_OK;
}

/* Whether a sample's label is a class, and not one above them that the loss ignores. */
static bool is_class(const hd_split *train, int64_t sample) { return train->labels[sample] < train->classes; }

/* samples / (classes that have some * samples of the class), as scikit-learn's compute_class_weight; those that a
 * validation set holds at the end do not count. */
static hd_status balance(double *weight, hd_ctx *ctx, const hd_split *train) {
  HD_OWNED int64_t *count = NULL;
  int there = 0;
  int64_t all = 0;
  HD_TRY(HD_NEW(count, train->classes, ctx, "out of memory for weights of classes"));
  for (int64_t i = 0; i < train->count - train->validation; i++)
    if (is_class(train, i))
      count[train->labels[i]]++;
  for (int c = 0; c < train->classes; c++) {
    there += count[c] > 0;
    all += count[c];
  }
  for (int c = 0; c < train->classes; c++)
    weight[c] = count[c] > 0 ? (double)all / ((double)there * (double)count[c]) : 1;
  return HD_OK;
}

static hd_status check(hd_ctx *ctx, const hd_dataset *data) {
  const hd_split *train = hd__dataset_train(data);
  if (!train->labels || train->classes < 2)
    return hd__fail(ctx, HD_E_USAGE, OPTION " expects a label for each sample, found none in %s; leave it out",
                    data->name);
  for (int64_t i = 0; i < train->count; i++)
    if (train->labels[i] < 0)
      return hd__fail(ctx, HD_E_UNSUPPORTED,
                      OPTION " expects labels that are known before training, found samples in %s that are read later; "
                             "give weights of samples",
                      data->name);
  return HD_OK;
}

hd_status hd__dataset_weigh_classes(hd_dataset *data, hd_ctx *ctx, const char *text) {
  hd_split *train = &data->split[0];
  if (!*text)
    return HD_OK;
  HD_TRY(check(ctx, data));
  HD_OWNED double *of_class = NULL;
  float *weights;
  HD_TRY(HD_NEW(of_class, train->classes, ctx, "out of memory for weights of classes"));
  HD_TRY(!strcmp(text, "balanced") ? balance(of_class, ctx, train) : read_list(of_class, ctx, data, text));
  HD_TRY(HD_NEW_RAW(weights, train->count + 1, ctx, "out of memory for the weights of %lld samples",
                    (long long)train->count));
  for (int64_t i = 0; i < train->count; i++)
    weights[i] = (float)(hd__split_weight(train, i) * (is_class(train, i) ? of_class[train->labels[i]] : 1));
  hd__free(data->memory[0].weights);
  train->weights = data->memory[0].weights = weights;
  return hd__weights_check(ctx, data->name, train, "training set");
}
