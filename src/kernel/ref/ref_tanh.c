/* tanh. */
#include "kernel/ref/ref_elementwise.h"

static real forward(const hd_geom *g, real x) { return REAL_TANH(x); }

/* dx = dy * (1 - y * y), the bracket one fma */
static real backward(const hd_geom *g, real dy, real y) { return dy * REAL_FMA(-y, y, 1); }

void REF(tanh)(const hd_call *call) { each(call, forward); }
void REF(tanh_dx)(const hd_call *call) { each_dx(call, backward); }
