/* leaky_relu: y = x where x is positive, negative_slope * x elsewhere. */
#include "kernel/ref/ref_elementwise.h"

/* y = x < 0 ? slope * x : x, so a NaN gets through. */
static real forward(const hd_geom *g, real x) { return x < 0 ? (real)g->negative_slope * x : x; }

/* dx = y > 0 ? dy : slope * dy */
static real backward(const hd_geom *g, real dy, real y) { return y > 0 ? dy : (real)g->negative_slope * dy; }

void REF(leaky_relu)(const hd_call *call) { each(call, forward); }
void REF(leaky_relu_dx)(const hd_call *call) { each_dx(call, backward); }
