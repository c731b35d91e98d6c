/* The shape rule of recurrent layers and their costs: see recurrent.h. */
#include <limits.h>

#include "op/op.h"

hd_status hd__shapes_recurrent(hd_op_shapes *s, int gates, int more) {
  const hd_shape *x = &s->x[0];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 3 || x->dim[1] != 1 || x->dim[0] % gates != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects %d gates for each channel of a line of places, found %s", s->layer, s->op,
                    gates, hd__shape_text(text, sizeof text, x));
  const int32_t width = x->dim[0] / gates;
  if ((int64_t)width * x->dim[0] > INT_MAX / 8)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': expected at most %d weights, found %d x %d; use a smaller hidden_size", s->layer,
                    INT_MAX / 8, x->dim[0], width);
  s->geom = hd__geom_of_shape(x);
  s->geom.co = width;
  hd__shapes_param(s, "weight", &(hd_shape){2, {x->dim[0], width}}, &(hd_shape){4, {x->dim[0], width, 1, 1}});
  if (s->attrs->bias)
    hd__shapes_param(s, "bias", &(hd_shape){1, {x->dim[0]}}, &(hd_shape){4, {x->dim[0], 1, 1, 1}});
  for (int i = 0; i < s->params; i++)
    s->param[i].fan_in = width;
  s->y = (hd_shape){3, {width, 1, x->dim[2]}};
  s->kept = (hd_shape){3, {x->dim[0] + more * width, 1, x->dim[2]}};
  return HD_OK;
}

/* The first place has no product. */
int64_t hd__macs_recurrent(const hd_geom *g) { return (int64_t)g->ci * g->co * (g->wi - 1); }

/* Of a gate an activation and two sums, of a channel of the state a handful. */
int64_t hd__flops_recurrent(const hd_geom *g, hd_op_role role) {
  const int64_t each = (int64_t)(g->ci + g->co) * g->wi;
  return 2 * hd__macs_recurrent(g) + (role == HD_ROLE_DW ? 0 : 5 * each);
}
