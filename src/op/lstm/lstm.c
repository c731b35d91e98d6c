/* lstm: long short-term memory, PyTorch's. A layer of a model file becomes two nodes (graph/graph_add.c): this one
 * reads what the gates get of the input already. The gradient reads what the gates and cells were. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_RECURRENT_SETTINGS, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) { return hd__shapes_recurrent(s, 4, 1); }

static const hd_geom samples[] = {{.ci = 4, .hi = 1, .wi = 3, .co = 1},
                                  {.ci = 20, .hi = 1, .wi = 1, .co = 5},
                                  {.ci = 64, .hi = 1, .wi = 4, .co = 16},
                                  {.ci = 76, .hi = 1, .wi = 6, .co = 19},
                                  {.ci = 132, .hi = 1, .wi = 2, .co = 33}};

const hd_op_rule hd__rule_lstm = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.LSTM",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_lstm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_OUT1}},
    .dw = {HD_OP_lstm_dw, {HD_ARG_Y, HD_ARG_DX}},
    .places = HD_PLACES_STATE,
    .gates = 4,
    .macs = hd__macs_recurrent,
    .flops_of = hd__flops_recurrent,
    HD_SAMPLES(samples),
};
