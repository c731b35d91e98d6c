/* A picture being drawn: 8-bit RGB in memory, light on dark, with text in a small bitmap font; written as PNG. */
#pragma once

#include <stdint.h>

#include "base/status.h"
#include "data/split/split.h"

typedef struct hd_color {
  uint8_t r, g, b;
} hd_color;

static const hd_color hd_grey = {150, 154, 163}, hd_white = {235, 236, 240};

/* Cells of text, at scale 1. */
enum { HD_GLYPH_ROWS = 7, HD_GLYPH_COLUMNS = 5, HD_GLYPH_STEP = HD_GLYPH_COLUMNS + 1 };

typedef struct hd_canvas {
  int width, height;
  uint8_t *rgb;
} hd_canvas;

/* Dark all over. `path` is for messages. */
hd_status hd__canvas_init(hd_canvas *out, hd_ctx *ctx, const char *path, int width, int height);
void hd__canvas_fini(hd_canvas *canvas);

/* Draws text with its upper left corner at (x, y), each pixel `scale` wide; returns the x of the next character.
 * Characters beyond ASCII are rectangles. */
int hd__canvas_text(hd_canvas *canvas, int x, int y, int scale, hd_color color, const char *text);

/* Width of a text in pixels. */
int hd__canvas_text_width(int scale, const char *text);

/* Writes a PNG file atomically. */
hd_status hd__canvas_write(const hd_canvas *canvas, hd_ctx *ctx, const char *path);

/* Samples of a split as small pictures on a canvas: grey, or in the colours of their first three channels. */

typedef struct hd_thumbnails {
  const hd_split *split;
  void *elems;     /* of one sample */
  float low, high; /* of floats: the values of black and white */
  bool fitted;
} hd_thumbnails;

hd_status hd__thumbnails_init(hd_thumbnails *out, hd_ctx *ctx, const hd_split *split);
void hd__thumbnails_fini(hd_thumbnails *thumbnails); /* one of zeros allowed */

/* Extends the range of floats to include a sample's. Required before a sample is drawn. */
hd_status hd__thumbnails_fit(hd_thumbnails *thumbnails, hd_ctx *ctx, int64_t sample);

/* Draws a sample into the middle of a square with its upper left corner at (left, top). */
hd_status hd__thumbnail_draw(hd_canvas *on, int left, int top, int side, const hd_thumbnails *thumbnails, hd_ctx *ctx,
                             int64_t sample);
