/* Transforms of masks, which hold the class of each pixel: what moves pixels moves their classes, by the same random
 * numbers. Classes are not mixed: a resize or a warp takes the nearest pixel, and what lies outside of the picture has
 * no class. */
#include "data/split/split.h"
#include "data/transforms/transform_step.h"

/* What a kind does to a mask: nothing, since it changes colours alone; what it does to bytes; or that with the fill, or
 * the interpolation, of a mask. */
typedef enum effect { STAYS, MOVES, CROPS, RESIZES, WARPS } effect;

static const struct {
  hd_step_apply_fn *apply;
  effect effect;
  size_t warp; /* its place in the step */
} kinds[] = {
    {hd__apply_scaling, STAYS, 0},
    {hd__apply_erase, STAYS, 0},
    {hd__apply_cutout, STAYS, 0},
    {hd__apply_colour_jitter, STAYS, 0},
    {hd__apply_horizontal_flip, MOVES, 0},
    {hd__apply_alternating_flip, MOVES, 0},
    {hd__apply_vertical_flip, MOVES, 0},
    {hd__apply_pad, CROPS, 0},
    {hd__apply_random_crop, CROPS, 0},
    {hd__apply_centre_crop, CROPS, 0},
    {hd__apply_resize, RESIZES, 0},
    {hd__apply_random_resized_crop, RESIZES, 0},
    {hd__apply_rotation, WARPS, offsetof(hd_transform_step, is.rotation.warp)},
    {hd__apply_affine, WARPS, offsetof(hd_transform_step, is.affine.warp)},
    {hd__apply_elastic, WARPS, offsetof(hd_transform_step, is.elastic.warp)},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int kind_of(const hd_transform_step *step) {
  int i = 0;
  while (i < KINDS && kinds[i].apply != step->row->apply)
    i++;
  return i;
}

hd_status hd__mask_check(hd_ctx *ctx, const hd_transform_step *step) {
  if (kind_of(step) < KINDS)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "--transforms expects transforms that move pixels or change colours, since each pixel has a class, "
                  "found %s; leave it out",
                  step->row->name);
}

bool hd__mask_keeps_frame(const hd_transform_step *step) {
  const int kind = kind_of(step);
  return kind < KINDS && (kinds[kind].effect == STAYS || kinds[kind].apply == hd__apply_resize);
}

void hd__mask_apply(const hd_transform_step *step, hd_transform_run *run) {
  const int kind = kind_of(step);
  hd_transform_step changed;
  switch (kinds[kind].effect) {
  case STAYS: return;
  case MOVES: step->row->apply(step, run); return;
  case CROPS:
    changed = *step;
    changed.is.crop.fill = HD_NO_CLASS;
    break;
  case RESIZES:
    changed = *step;
    changed.is.resize.nearest = 1;
    break;
  case WARPS:
    changed = *step;
    *(hd_warp *)(void *)((char *)&changed + kinds[kind].warp) = (hd_warp){.nearest = 1, .fill = HD_NO_CLASS};
    break;
  }
  step->row->apply(&changed, run);
}
