/* embedding: numbers of a sample, which name rows of a weight, become these rows: T numbers become T places of `out`
 * channels, an image of height 1. It reads the model's input, since numbers have no gradient. */
#include <limits.h>

#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("tokens", INT, tokens, HD_TO_GEOM(embedding.tokens), .low = 1, .high = 1 << 20, .required = true,
               .help = "rows of the weight; samples are numbers from 0 to one less"),
    HD_SETTING("out", INT, out, .low = 1, .high = 1 << 20, .required = true, .help = "channels of the output"),
    HD_SETTING("std", REAL, init_std, .low = 0, .high = 1e6, .default_value = 1,
               .help = "standard deviation of the initial weights, which are normally distributed"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0];
  const hd_attrs *a = s->attrs;
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 1 && x->dim[0] != 1)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': embedding expects one number for each place, found %s; give samples of one channel",
                    s->layer, hd__shape_text(text, sizeof text, x));
  if (a->tokens < 1 || (int64_t)a->tokens * a->out > INT_MAX / 8)
    return hd__fail(s->ctx, HD_E_SHAPE, "layer '%s': expected at most %d weights, found %d x %d; use fewer channels",
                    s->layer, INT_MAX / 8, a->tokens, a->out);
  s->y = (hd_shape){3, {a->out, x->rank == 3 ? x->dim[1] : 1, x->dim[x->rank - 1]}};
  s->geom = hd__geom_of_shape(&s->y);
  s->geom.ci = 1;
  s->geom.co = a->out;
  s->geom.embedding.tokens = a->tokens;
  hd_op_param *weight =
      hd__shapes_param(s, "weight", &(hd_shape){2, {a->tokens, a->out}}, &(hd_shape){4, {a->tokens, a->out, 1, 1}});
  weight->init = HD_INIT_NORMAL;
  weight->std = a->init_std;
  return HD_OK;
}

static const hd_geom samples[] = {{.ci = 1, .hi = 1, .wi = 5, .co = 3, .embedding = {.tokens = 4}},
                                  {.ci = 1, .hi = 1, .wi = 1, .co = 16, .embedding = {.tokens = 1}},
                                  {.ci = 1, .hi = 1, .wi = 12, .co = 33, .embedding = {.tokens = 70}},
                                  {.ci = 1, .hi = 3, .wi = 4, .co = 17, .embedding = {.tokens = 9}}};

const hd_op_rule hd__rule_embedding = {
    .fewest = 1,
    .most = 1,
    .numbers = true,
    .torch = "nn.Embedding",
    .settings = settings,
    .shapes = shapes,
    .places = HD_PLACES_SAME,
    .dw = {HD_OP_embedding_dw, {HD_ARG_X, HD_ARG_DY}},
    HD_SAMPLES(samples),
};
