/* A pen on a small canvas: line segments of a round, anti-aliased nib, and the change to 8-bit grey.
 *
 * A pixel's ink is max over all segments of (R^2 - d^2) / (R^2 - r^2), cut to [0, 1], where d is the distance of the
 * pixel's centre from the segment, r = radius - PEN_EDGE and R = radius + PEN_EDGE: full inside, a soft edge about a
 * pixel wide, no square root. Pixels are independent of each other and max does not depend on order, so groups of
 * four lanes give the same bits as one pixel at a time would. Coordinates are pixels, (0, 0) is the upper left
 * corner of the canvas.
 *
 * It knows nothing of digits or of random numbers. */
#pragma once

#include <stdint.h>

enum { HD_CANVAS_SIDE = 28, HD_CANVAS_GROUPS = HD_CANVAS_SIDE / 4 };

typedef float hd_pen_group __attribute__((vector_size(16)));

typedef struct hd_canvas {
  hd_pen_group row[HD_CANVAS_SIDE][HD_CANVAS_GROUPS]; /* ink, not yet cut at 1 */
} hd_canvas;

void hd__pen_clear(hd_canvas *canvas);

/* Draws from (x0, y0) to (x1, y1), which may lie outside of the canvas. radius > 0. */
void hd__pen_line(hd_canvas *canvas, float x0, float y0, float x1, float y1, float radius);

/* Writes HD_CANVAS_SIDE^2 bytes, row after row; full ink becomes `white` (0 to 255). */
void hd__pen_finish(uint8_t *image, const hd_canvas *canvas, float white);
