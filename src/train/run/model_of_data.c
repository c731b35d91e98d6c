/* Fitting a network to its data: see model_of_data.h. */
#include "train/run/model_of_data.h"

#include <string.h>

#include "op/op.h"

/* Whether every target is 0 or 1. */
static bool are_bits(const hd_split *split) {
  const int64_t count = split->count * split->outputs;
  int64_t i = 0;
  while (split->targets && i < count && (split->targets[i] == 0 || split->targets[i] == 1))
    i++;
  return split->targets && i == count;
}

/* The loss that replaces the text's; NULL: none does. */
static hd_status choose_loss(const char **out, hd_ctx *ctx, const hd_network *network, const hd_config *config,
                             const hd_split *seen, const char *data_name) {
  const char *stated = hd__target_loss(&network->target);
  const char *asked = hd_choice_name(HD_OPT_LOSS, hd__settings(config)->loss);
  *out = NULL;
  if (*asked) {
    *out = strcmp(asked, stated) ? asked : NULL;
    return HD_OK;
  }
  if (network->has_loss || seen->outputs == 0 || network->target.of_classes)
    return HD_OK;
  if (are_bits(seen))
    return hd__fail(
        ctx, HD_E_USAGE,
        "%s: expected a loss for targets that are all zeros and ones, found none; give --loss bce_with_logits "
        "if they are true or false, --loss mse if they are numbers to predict, or, if they are two "
        "classes, %s",
        data_name,
        seen->flat && seen->outputs == 1 ? "--loss cross_entropy for a CSV file, else integers" : "integers as labels");
  *out = hd_choice_name(HD_OPT_LOSS, HD_LOSS_MSE);
  return HD_OK;
}

/* The number of outputs that the targets need. */
static int32_t outputs_of(const char *loss, const hd_split *seen) {
  const bool classifies = !strcmp(loss, hd__op_info(HD_OP_cross_entropy)->name);
  return seen->outputs > 0 ? seen->outputs : classifies ? seen->classes : 1;
}

/* Whether targets are few whole numbers, which may be meant as classes. */
static bool may_be_classes(const hd_split *seen) {
  bool whole = seen->targets && seen->outputs == 1 && seen->flat;
  for (int64_t i = 0; i < seen->count && whole; i++) {
    const float target = seen->targets[i];
    whole = target >= 0 && target < HD_MANY_CLASSES && target == (float)(int)target;
  }
  return whole;
}

/* Whether labels are whole numbers of a table that may be meant as numbers (they are classes unless --loss says
 * otherwise): the loss reads them as numbers, or there are many. */
static bool may_be_numbers(const hd_network *network, const hd_config *config, const hd_split *seen) {
  return seen->flat && seen->labels && !seen->class_names && hd__settings(config)->loss < 0 &&
         (hd__target_numbers(&network->target) || seen->classes > HD_MANY_CLASSES);
}

static void describe(hd_line *note, const hd_network *network, const char *was, const hd_config *config,
                     const hd_split *seen, const char *data_name) {
  const char *loss = hd__target_loss(&network->target), *name = data_name;
  const bool numbers = hd__target_numbers(&network->target), asked = hd__settings(config)->loss >= 0;
  const bool changed = strcmp(loss, was) != 0;
  if (changed && asked)
    hd__line_add(note, "the loss is %s, by --loss, in place of %s", loss, was);
  else if (changed)
    hd__line_add(note, "the loss is %s, since the targets of %s are numbers; %s", loss, name,
                 may_be_classes(seen) ? "for classes give --loss cross_entropy with a CSV file, else integers"
                                      : "--loss names another");
  if (may_be_numbers(network, config, seen))
    hd__line_add(note, "the labels of %s were read as %d classes%s", name, seen->classes,
                 numbers ? ", and are predicted as numbers; give them as floats if that is what they are"
                         : "; --loss mse reads them as numbers to predict");
}

hd_status hd__network_fit(hd_network *network, hd_line *note, hd_ctx *ctx, const hd_config *config,
                          const hd_feed *train, const char *data_name) {
  const hd_split seen = hd__feed_seen(train);
  const char *was = hd__target_loss(&network->target);
  hd_model_facts facts = {.input = {3, {seen.channels, seen.height, seen.width}}};
  HD_TRY(choose_loss(&facts.loss, ctx, network, config, &seen, data_name));
  facts.classes = outputs_of(facts.loss ? facts.loss : was, &seen);
  if (seen.flat)
    facts.input = (hd_shape){1, {seen.width}};
  if (network->asks_input && seen.mixed)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected samples of one size, found %s; resize them with a transform: "
                    "--transforms '[{resize: [64, 64]}, to_float, normalise]'",
                    data_name, seen.mixed);
  HD_TRY(hd__network_resolve(network, ctx, &facts));
  describe(note, network, was, config, &seen, data_name);
  return HD_OK;
}
