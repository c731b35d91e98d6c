/* The functions of each kind of transform: hd__read_NAME, hd__fit_NAME and hd__apply_NAME (transform_step.h). */
#pragma once

#include "data/transforms/transform_run.h"
#include "data/transforms/transform_step.h"

#define HD_TRANSFORM_ROW(name)                                                                                         \
  hd_status hd__read_##name(hd_transform_step *step, hd_ctx *ctx);                                                     \
  hd_status hd__fit_##name(hd_transform_step *step, hd_transform_fit *fit);                                            \
  void hd__apply_##name(const hd_transform_step *step, hd_transform_run *run);
HD_TRANSFORM_ROW(to_float)
HD_TRANSFORM_ROW(normalise)
HD_TRANSFORM_ROW(resize)
HD_TRANSFORM_ROW(pad)
HD_TRANSFORM_ROW(random_crop)
HD_TRANSFORM_ROW(random_resized_crop)
HD_TRANSFORM_ROW(centre_crop)
HD_TRANSFORM_ROW(horizontal_flip)
HD_TRANSFORM_ROW(vertical_flip)
HD_TRANSFORM_ROW(rotation)
HD_TRANSFORM_ROW(affine)
HD_TRANSFORM_ROW(elastic)
HD_TRANSFORM_ROW(erase)
HD_TRANSFORM_ROW(colour_jitter)
HD_TRANSFORM_ROW(one_hot)
HD_TRANSFORM_ROW(mixup)
#undef HD_TRANSFORM_ROW

typedef struct hd_rectangle {
  int32_t top, left, height, width;
} hd_rectangle;

/* A random rectangle inside the image, by the step's scale (of the area) and ratio (height to width, or the other
 * way round), drawn from blocks 1 to 10; false if none of ten attempts fits. */
bool hd__drawn_box(hd_rectangle *out, const hd_transform_step *step, const hd_transform_run *run, bool ratio_is_width);

/* ---- Reading a list of transforms ---- */

/* Checks a sequence and its number of entries. */
hd_status hd__transforms_check(hd_ctx *ctx, const hd_yaml_node *list);

/* Reads an entry of a list: finds its row, checks its parameters. hd__step_free is called for it either way. */
hd_status hd__step_read(hd_transform_step *step, hd_ctx *ctx, const hd_yaml_node *entry);
void hd__step_free(hd_transform_step *step);
