/* pad: an image with more pixels at its edges: zeros, or those of the image again, as PyTorch's ZeroPad2d,
 * ReflectionPad2d and ReplicationPad2d. */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("padding", SIDES, padding, .low = 0, .high = 1024, .required = true,
               .help = "pixels above and to the left"),
    HD_SETTING("end", SIDES, end, .low = -1, .high = 1024, .default_value = -1,
               .help = "pixels below and to the right; -1: as `padding`"),
    HD_SETTING("mode", CHOICE, mode, HD_TO_GEOM(pad.mode), .choices = {"zero", "reflect", "replicate"},
               .help = "zeros, the image mirrored at its edge pixels, or its edge pixels"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_attrs *a = s->attrs;
  char text[HD_SHAPE_TEXT_BYTES];
  int32_t out[2];
  if (s->x[0].rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': pad expects an image (channels x height x width), found %s; put it before flatten",
                    s->layer, hd__shape_text(text, sizeof text, &s->x[0]));
  for (int i = 0; i < 2; i++) {
    const int32_t before = a->padding[i], after = a->end[i] < 0 ? before : a->end[i], side = s->x[0].dim[1 + i];
    out[i] = before + side + after;
    if (a->mode == HD_PAD_REFLECT && (before >= side || after >= side))
      return hd__fail(s->ctx, HD_E_SHAPE,
                      "layer '%s': pad with mode reflect expects fewer pixels than the image's %d, found %d; pad less",
                      s->layer, side, before >= side ? before : after);
  }
  HD_TRY(hd__shapes_sides(s, out));
  s->geom.pad = (hd_pad_geom){.before = {a->padding[0], a->padding[1]}, .mode = a->mode};
  return HD_OK;
}

static const hd_geom samples[] = {{.ci = 1, .sides = {{3, 4}}, .pad = {{1, 1}, HD_PAD_ZERO}},
                                  {.ci = 3, .hi = 4, .wi = 5, .sides = {{6, 7}}, .pad = {{1, 2}, HD_PAD_REFLECT}},
                                  {.ci = 17, .hi = 3, .wi = 3, .sides = {{7, 6}}, .pad = {{2, 0}, HD_PAD_REPLICATE}},
                                  {.ci = 20, .hi = 3, .wi = 4, .sides = {{3, 6}}, .pad = {{0, 1}, HD_PAD_ZERO}},
                                  {.ci = 2, .hi = 6, .wi = 6, .sides = {{10, 9}}, .pad = {{3, 1}, HD_PAD_REFLECT}}};

const hd_op_rule hd__rule_pad = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_pad_dx, {HD_ARG_DY}},
    HD_SAMPLES(samples),
};
