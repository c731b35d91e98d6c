/* gru: gated recurrent units, PyTorch's; made like lstm. The gradient of the state's shares differs from that of the
 * input's in one gate, so that dx writes both. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_RECURRENT_SETTINGS, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) { return hd__shapes_recurrent(s, 3, 1); }

static const hd_geom samples[] = {{.ci = 3, .hi = 1, .wi = 3, .co = 1},
                                  {.ci = 15, .hi = 1, .wi = 1, .co = 5},
                                  {.ci = 48, .hi = 1, .wi = 4, .co = 16},
                                  {.ci = 57, .hi = 1, .wi = 6, .co = 19},
                                  {.ci = 99, .hi = 1, .wi = 2, .co = 33}};

const hd_op_rule hd__rule_gru = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.GRU",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_gru_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_OUT1, HD_ARG_Y}},
    .dw = {HD_OP_gru_dw, {HD_ARG_Y, HD_ARG_DX1}},
    .dx1 = true,
    .places = HD_PLACES_STATE,
    .gates = 3,
    .macs = hd__macs_recurrent,
    .flops_of = hd__flops_recurrent,
    HD_SAMPLES(samples),
};
