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

/* Scores of classes, or those of each pixel of an image, the places of a text among them, even if that has one. */
static hd_status shapes(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0];
  if (x->rank != 3 || ((int64_t)x->dim[1] * x->dim[2] == 1 && !s->attrs->pointwise))
    return hd__shapes_loss(s);
  s->geom = hd__geom_of_shape(x);
  s->y = (hd_shape){.rank = 0};
  return HD_OK;
}

static const hd_geom samples[] = {
    {.ci = 1, .cross_entropy = {.ignore_index = -100}},
    {.ci = 2, .cross_entropy = {.ignore_index = -100}},
    {.ci = 10, .cross_entropy = {.ignore_index = -100}},
    {.ci = 16, .cross_entropy = {.ignore_index = -100, .label_smoothing = 0.1f}},
    {.ci = 17, .cross_entropy = {.ignore_index = -100}},
    {.ci = 40, .cross_entropy = {.ignore_index = 3, .label_smoothing = 0.3f}},
    {.ci = 4, .cross_entropy = {.ignore_index = 2}},
    {.ci = 5, .cross_entropy = {.label_smoothing = 1}},
    {.ci = 33, .cross_entropy = {.ignore_index = 7}},
    {.ci = 1, .cross_entropy = {.label_smoothing = 0.1f}},
    {.ci = 12, .cross_entropy = {.ignore_index = -100, .label_smoothing = 0.5f}},
    {.ci = 250, .cross_entropy = {.ignore_index = -100}},
    {.ci = 5, .hi = 1, .wi = 3, .cross_entropy = {.ignore_index = -100}},
    {.ci = 33, .hi = 1, .wi = 4, .cross_entropy = {.ignore_index = 7}},
    {.ci = 9, .hi = 1, .wi = 5, .cross_entropy = {.ignore_index = 2, .label_smoothing = 0.2f}}};

const hd_op_rule hd__rule_cross_entropy = {
    .loss = true,
    .shapes = shapes,
    .dx = {HD_OP_cross_entropy_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}},
    .labels = true,
    .flops = {4, 7},
    .settings = settings,
    .torch = "nn.CrossEntropyLoss",
    HD_SAMPLES(samples),
};
