/* cross_entropy: a loss, of scores of classes and a label, or a probability for each class. One number per sample; the
 * caller computes the mean over the batch, whose divisor depends on all targets (train/session/loss_score.h). */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("weight", WEIGHTS, bias, .low = 0, .high = 1e6, .help = "a number for each class"),
    HD_SETTING("ignore_index", INT, ignore_index, .low = INT32_MIN, .high = INT32_MAX, .default_value = -100,
               .help = "samples with this label do not count"),
    HD_SETTING("label_smoothing", REAL, label_smoothing, .low = 0, .high = 1,
               .help = "the share of the target that all classes have alike"),
    HD_SETTINGS_END};

const hd_op_rule hd__rule_cross_entropy = {
    .loss = true,
    .labels = true,
    .shapes = hd__shapes_loss,
    .dx = {HD_OP_cross_entropy_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}}, /* scores, target, weights */
    .flops = {4, 7},
    .torch = "nn.CrossEntropyLoss",
    .settings = settings,
    HD_SAMPLES(hd__samples_loss),
};
