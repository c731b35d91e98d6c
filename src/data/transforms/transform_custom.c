/* Transforms of the caller's program: rows of a table that belongs to the context; see heddle/transform.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "data/transforms/transform_step.h"

static hd_status fit(hd_transform_step *step, hd_transform_fit *to) {
  to->shape.bytes = false;
  return HD_OK;
}

static void apply(const hd_transform_step *step, hd_transform_run *run) {
  const hd_custom_transform *given = &((const hd_custom_row *)(const void *)step->row)->given;
  hd_custom_transform_call call = {.image = hd__run_floats(run),
                                   .channels = run->image.channels,
                                   .height = run->image.height,
                                   .width = run->image.width,
                                   .user = given->user};
  hd__run_draw(call.random, run, step, 0);
  given->apply(&call);
}

bool hd__transform_is_of_program(const hd_transform *row) { return row->apply == apply; }

static bool is_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return name && *name && strlen(name) <= HD_TRANSFORM_MAX_NAME && strspn(name, letters) == strlen(name);
}

static hd_status check(hd_ctx *ctx, const hd_custom_transform *t) {
  if (!is_name(t->name) || hd__transform_find(ctx, t->name))
    return hd__fail(
        ctx, HD_E_USAGE,
        "expected a new name of 1 to %d letters, digits and '_' for a transform, found '%s'; choose another",
        HD_TRANSFORM_MAX_NAME, t->name ? t->name : "");
  if (!t->apply)
    return hd__fail(ctx, HD_E_USAGE, "transform '%s': expected a function to apply, found none; set it", t->name);
  if (ctx->custom_transforms && ctx->custom_transforms->count == HD_CUSTOM_TRANSFORMS)
    return hd__fail(ctx, HD_E_USAGE,
                    "transform '%s': expected at most %d transforms in a context, found more; use another context",
                    t->name, HD_CUSTOM_TRANSFORMS);
  return HD_OK;
}

hd_status hd_transform_add(hd_ctx *ctx, const hd_custom_transform *transform) {
  hd_custom_transform t;
  HD_TRY(hd__struct_read(&t, ctx, transform, sizeof t, "hd_custom_transform"));
  HD_TRY(check(ctx, &t));
  if (!ctx->custom_transforms)
    HD_TRY(HD_NEW(ctx->custom_transforms, 1, ctx, "transform '%s': out of memory", t.name));
  hd_custom_row *row = &ctx->custom_transforms->row[ctx->custom_transforms->count++];
  memcpy(row->name, t.name, strlen(t.name) + 1);
  row->given = t;
  row->row = (hd_transform){.name = row->name,
                            .kind = t.random ? HD_TRANSFORM_RANDOM : HD_TRANSFORM_FIXED,
                            .touch = HD_TOUCH_COMPUTES,
                            .fit = fit,
                            .apply = apply};
  return HD_OK;
}
