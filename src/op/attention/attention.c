/* attention: scaled dot-product attention of several heads over the places of a sample, causal unless the layer says
 * otherwise. Its input has queries, keys and values, from one linear layer; the gradient computes the weights again, so
 * that none are kept. */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("heads", INT, heads, HD_TO_GEOM(attention.heads), .low = 1, .high = 65536, .required = true,
               .help = "heads of queries"),
    HD_SETTING("key_heads", INT, key_heads, HD_TO_GEOM(attention.key_heads), .low = 1, .high = 65536,
               .help = "heads of keys and values, a divisor of heads (default: as many)"),
    HD_SETTING("causal", FLAG, causal, HD_TO_GEOM(attention.causal), .high = 1, .default_value = 1,
               .help = "whether a place reads itself and those before it alone"),
    HD_SETTING("dropout", REAL, p, HD_TO_GEOM(attention.dropout), .low = 0, .high = 1,
               .help = "the probability that a weight becomes zero in training"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0];
  const int32_t heads = s->attrs->heads, key_heads = s->attrs->key_heads ? s->attrs->key_heads : heads;
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': attention expects channels for each place, found %s; put it behind an embedding and a "
                    "linear layer",
                    s->layer, hd__shape_text(text, sizeof text, x));
  if (heads < 1 || heads % key_heads != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': attention expects key_heads that divide its %d heads, found %d; use a divisor",
                    s->layer, heads, key_heads);
  if (x->dim[0] % (heads + 2 * key_heads) != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': attention expects queries, keys and values of %d + %d + %d heads, found %d channels, "
                    "which are no multiple of %d; give the layer before it such a number of outputs",
                    s->layer, heads, key_heads, key_heads, x->dim[0], heads + 2 * key_heads);
  s->y = *x;
  s->y.dim[0] = x->dim[0] / (heads + 2 * key_heads) * heads;
  s->geom = hd__geom_of_shape(&s->y);
  s->geom.ci = x->dim[0];
  s->geom.attention.heads = heads;
  s->geom.attention.key_heads = s->attrs->key_heads;
  s->geom.attention.causal = s->attrs->causal;
  s->geom.attention.dropout = s->attrs->p;
  const int64_t places = (int64_t)s->geom.hi * s->geom.wi, draws = (places + 3) / 4; /* of four numbers, for a query */
  if (s->attrs->p > 0 && places * draws > (int64_t)UINT32_MAX / heads)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': attention expects dropout in at most %u draws of a sample, found %d heads of %lld "
                    "places, which would share theirs; leave the dropout out, or use fewer heads or places",
                    s->layer, UINT32_MAX, heads, (long long)places);
  return HD_OK;
}

/* A pair of places and a head: the score and the share of the value, multiply-adds over the channels of a head, and
 * scale, maximum, difference, exponential and sum; in dx five such products. */
static int64_t flops(const hd_geom *g, hd_op_role role) {
  const int64_t places = (int64_t)g->hi * g->wi;
  const int64_t pairs = g->attention.causal ? places * (places + 1) / 2 : places * places;
  const int64_t width = g->co / g->attention.heads;
  return pairs * g->attention.heads * (role == HD_ROLE_FORWARD ? 4 * width + 5 : 10 * width + 8);
}

static const hd_geom samples[] = {
    {.ci = 6, .hi = 1, .wi = 5, .co = 2, .attention = {.heads = 1, .key_heads = 1, .causal = 1}},
    {.ci = 12, .hi = 1, .wi = 7, .co = 4, .attention = {.heads = 2, .key_heads = 2}},
    {.ci = 96, .hi = 1, .wi = 19, .co = 32, .attention = {.heads = 2, .key_heads = 2, .causal = 1}},
    {.ci = 102, .hi = 1, .wi = 3, .co = 34, .attention = {.heads = 2, .key_heads = 2, .causal = 1}},
    {.ci = 40, .hi = 1, .wi = 33, .co = 20, .attention = {.heads = 4, .key_heads = 2, .causal = 1}},
    {.ci = 24, .hi = 2, .wi = 9, .co = 16, .attention = {.heads = 4, .key_heads = 1}},
    {.ci = 12, .hi = 1, .wi = 21, .co = 4, .attention = {.heads = 2, .key_heads = 2, .causal = 1, .dropout = 0.3f}},
    {.ci = 68, .hi = 3, .wi = 5, .co = 34, .attention = {.heads = 2, .key_heads = 1, .dropout = 0.5f}}};

const hd_op_rule hd__rule_attention = {
    .fewest = 1,
    .most = 1,
    .torch = "F.scaled_dot_product_attention",
    .settings = settings,
    .shapes = shapes,
    .places = HD_PLACES_PAST,
    .dx = {HD_OP_attention_dx, {HD_ARG_DY, HD_ARG_X, HD_ARG_Y}},
    .flops_of = flops,
    HD_SAMPLES(samples),
};
