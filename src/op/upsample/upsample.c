/* upsample: an image of another size: the nearest pixels, or bilinear between them, as PyTorch's Upsample. */
#include <limits.h>

#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("size", SIDES, size, .low = 1, .high = 16384, .help = "height and width of the output"),
    HD_SETTING("scale_factor", SIDES, factor_of, .low = 1, .high = 1024, .help = "or by how much they grow"),
    HD_SETTING("mode", CHOICE, mode, HD_TO_GEOM(upsample.bilinear), .choices = {"nearest", "bilinear"},
               .help = "the nearest pixel, or between four"),
    HD_SETTING("align_corners", FLAG, align_corners, HD_TO_GEOM(upsample.align_corners), .high = 1,
               .help = "bilinear: whether the corner pixels of both images are the same points"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_attrs *a = s->attrs;
  char text[HD_SHAPE_TEXT_BYTES];
  if (s->x[0].rank != 3)
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': upsample expects an image (channels x height x width), found %s; put it before flatten", s->layer,
        hd__shape_text(text, sizeof text, &s->x[0]));
  if ((a->size[0] > 0) == (a->factor_of[0] > 0))
    return hd__fail(s->ctx, HD_E_SHAPE, "layer '%s': upsample expects either size or scale_factor, found %s; give one",
                    s->layer, a->size[0] ? "both" : "neither");
  enum { MOST_SIDE = 16384 };
  if (a->align_corners && !a->mode)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': upsample expects align_corners beside mode: bilinear, found it "
                    "beside nearest; add the mode, or leave it out",
                    s->layer);
  int32_t out[2];
  for (int i = 0; i < 2; i++) {
    const int64_t side = a->size[i] ? a->size[i] : (int64_t)a->factor_of[i] * s->x[0].dim[1 + i];
    if (side > MOST_SIDE)
      return hd__fail(s->ctx, HD_E_SHAPE,
                      "layer '%s': upsample expects sides of at most %d, found %lld; make it smaller", s->layer,
                      MOST_SIDE, (long long)side);
    out[i] = (int32_t)side;
  }
  return hd__shapes_sides(s, out);
}

static const hd_geom samples[] = {
    {.ci = 1, .sides = {{1, 3}}},
    {.ci = 3, .hi = 4, .wi = 5, .sides = {{8, 10}}},
    {.ci = 17, .hi = 3, .wi = 3, .sides = {{6, 6}}, .upsample = {.bilinear = 1}},
    {.ci = 4, .hi = 4, .wi = 3, .sides = {{7, 9}}, .upsample = {.bilinear = 1, .align_corners = 1}},
    {.ci = 20, .hi = 5, .wi = 4, .sides = {{3, 2}}, .upsample = {.bilinear = 1}},
    {.ci = 2, .hi = 5, .wi = 2, .sides = {{1, 5}}, .upsample = {.bilinear = 1, .align_corners = 1}}};

static int64_t flops(const hd_geom *g, hd_op_role role) {
  return g->upsample.bilinear ? (int64_t)g->co * g->ho * g->wo * 8 : 0;
}

const hd_op_rule hd__rule_upsample = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Upsample",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_upsample_dx, {HD_ARG_DY}},
    .flops_of = flops,
    HD_SAMPLES(samples),
};
