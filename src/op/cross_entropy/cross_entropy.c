/* cross_entropy: a loss, of scores of classes and a label, or a probability for each class. One number per sample; the
 * caller computes the mean over the batch, whose divisor depends on all targets (train/records/loss_score.h). */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("weight", WEIGHTS, bias, .low = 0, .high = 1e6, .help = "weights of the classes, a number per class"),
    HD_SETTING("ignore_index", INT, ignore_index, HD_TO_GEOM(cross_entropy.ignore_index), .low = INT32_MIN,
               .high = INT32_MAX, .default_value = -100, .help = "samples with this label are ignored"),
    HD_SETTING("label_smoothing", REAL, label_smoothing, HD_TO_GEOM(cross_entropy.label_smoothing), .low = 0, .high = 1,
               .help = "fraction of the target that is spread over all classes"),
    HD_SETTINGS_END};

const hd_op_rule hd__rule_cross_entropy = {
    HD_LOSS(cross_entropy), .labels = true, .flops = {4, 7}, .settings = settings, .torch = "nn.CrossEntropyLoss",
};
