/* rotary: rotary position embedding, between the linear layer that makes queries, keys and values and the attention
 * that reads them: pairs of channels of queries and keys are turned by angles that grow with the place, so that a score
 * depends on how far apart two places are. Pairs are those of Llama in Hugging Face's transformers. */
#include "base/hdmath.h"
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("heads", INT, heads, HD_TO_GEOM(attention.heads), .low = 1, .high = 65536, .required = true,
               .help = "heads of queries, as of the attention behind it"),
    HD_SETTING("key_heads", INT, key_heads, HD_TO_GEOM(attention.key_heads), .low = 1, .high = 65536,
               .help = "heads of keys and values, a divisor of heads (default: as many)"),
    HD_SETTING("base", REAL, base, .low = 1, .high = 1e9, .default_value = 10000,
               .help = "the angles of a head's pairs fall from 1 to nearly 1 / base for each place"),
    HD_SETTINGS_END};

enum { MOST_PLACES = 1 << 20 };

static hd_status shapes(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0];
  const int32_t heads = s->attrs->heads, key_heads = s->attrs->key_heads ? s->attrs->key_heads : heads;
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 3 || (int64_t)x->dim[1] * x->dim[2] > MOST_PLACES)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': rotary expects channels for each of at most %d places, found %s; put it between a "
                    "linear layer and attention",
                    s->layer, MOST_PLACES, hd__shape_text(text, sizeof text, x));
  if (heads < 1 || heads % key_heads != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': rotary expects key_heads that divide its %d heads, found %d; use a divisor", s->layer,
                    heads, key_heads);
  if (x->dim[0] % (2 * (heads + 2 * key_heads)) != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': rotary expects queries, keys and values of %d + %d + %d heads with an even number of "
                    "channels each, found %d channels, which are no multiple of %d; give the layer before it such a "
                    "number of outputs",
                    s->layer, heads, key_heads, key_heads, x->dim[0], 2 * (heads + 2 * key_heads));
  const double width = (double)x->dim[0] / (heads + 2 * key_heads);
  const double ratio = hd__exp(-2 / width * hd__log((double)s->attrs->base));
  hd__shapes_same(s);
  s->geom.attention.heads = heads;
  s->geom.attention.key_heads = s->attrs->key_heads;
  s->geom.rotary.ratio = (float)ratio;
  s->geom.rotary.rest = (float)(ratio - (double)s->geom.rotary.ratio);
  return HD_OK;
}

static const hd_geom samples[] = {
    {.ci = 6, .hi = 1, .wi = 5, .attention = {.heads = 1, .key_heads = 1}, .rotary = {.ratio = 0.25f}},
    {.ci = 24, .hi = 1, .wi = 7, .attention = {.heads = 2}, .rotary = {.ratio = 0.01f, .rest = 1e-10f}},
    {.ci = 128, .hi = 1, .wi = 3, .attention = {.heads = 2, .key_heads = 1}, .rotary = {.ratio = 0.5f}},
    {.ci = 102, .hi = 2, .wi = 3, .attention = {.heads = 1, .key_heads = 1}, .rotary = {.ratio = 0.75f}},
    {.ci = 40, .hi = 1, .wi = 2000, .attention = {.heads = 2, .key_heads = 1}, .rotary = {.ratio = 0.9f}}};

const hd_op_rule hd__rule_rotary = {
    .fewest = 1,
    .most = 1,
    .torch = "apply_rotary_pos_emb",
    .settings = settings,
    .shapes = shapes,
    .places = HD_PLACES_NUMBERED,
    .in_place = true,
    .dx = {HD_OP_rotary_dx, {HD_ARG_DY}},
    .flops = {3, 3},
    HD_SAMPLES(samples),
};
