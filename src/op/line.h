/* What mean and max go along: the channels of a pixel, or the pixels of a channel. */
#pragma once

#include "kernel/unit.h"

HD_BOTH int64_t line_count(const hd_geom *g) { return g->line.channels ? op_pixels(g) : g->ci; }
HD_BOTH int64_t line_length(const hd_geom *g) { return g->line.channels ? g->ci : op_pixels(g); }
HD_BOTH int64_t line_step(const hd_geom *g) { return g->line.channels ? 1 : g->ci; }
HD_BOTH int64_t line_first(const hd_geom *g, int64_t line) { return g->line.channels ? line * g->ci : line; }
