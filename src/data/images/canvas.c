/* Filling, writing and saving; samples as small pictures; see canvas.h. */
#include "data/images/canvas.h"

#include <string.h>

#include "base/alloc.h"
#include "base/embed.h"
#include "data/images/image_file.h"
#include "data/split/skipped_samples.h"

static const hd_color background = {24, 26, 31};

/* Whether a pixel of a character has ink, as data/font.pbm draws it. */
static bool is_ink(char c, int row, int column) {
  enum { FIRST = ' ', OTHER = 127 - FIRST, ACROSS = 16, LINE = ACROSS * HD_GLYPH_STEP + 1, LINES = 48 };
  const unsigned char *pixel = hd__embed_font->bytes + hd__embed_font->length - LINES * LINE;
  const int cell = c >= FIRST && c < OTHER + FIRST ? c - FIRST : OTHER;
  return pixel[(cell / ACROSS * (HD_GLYPH_ROWS + 1) + row) * LINE + cell % ACROSS * HD_GLYPH_STEP + column] == '1';
}

/* Clipped to the canvas. */
static void fill(hd_canvas *s, int x, int y, int width, int height, hd_color c) {
  for (int row = y; row < y + height; row++)
    for (int col = x; col < x + width; col++)
      if (row >= 0 && row < s->height && col >= 0 && col < s->width)
        memcpy(s->rgb + ((size_t)row * (size_t)s->width + (size_t)col) * 3, &c, 3);
}

hd_status hd__canvas_init(hd_canvas *out, hd_ctx *ctx, const char *path, int width, int height) {
  *out = (hd_canvas){.width = width, .height = height, .rgb = hd__malloc((size_t)width * (size_t)height * 3)};
  HD_TRY(HD_ALLOCATED(out->rgb, ctx, "%s: out of memory for a picture", path));
  fill(out, 0, 0, width, height, background);
  return HD_OK;
}

void hd__canvas_fini(hd_canvas *canvas) {
  hd__free(canvas->rgb);
  *canvas = (hd_canvas){0};
}

/* Continuation bytes of UTF-8. */
static int continues(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

int hd__canvas_text(hd_canvas *s, int x, int y, int scale, hd_color c, const char *text) {
  for (; *text; text++) {
    if (continues(*text))
      continue;
    for (int row = 0; row < HD_GLYPH_ROWS; row++)
      for (int col = 0; col < HD_GLYPH_COLUMNS; col++)
        if (is_ink(*text, row, col))
          fill(s, x + col * scale, y + row * scale, scale, scale, c);
    x += HD_GLYPH_STEP * scale;
  }
  return x;
}

int hd__canvas_text_width(int scale, const char *text) {
  int characters = 0;
  for (; *text; text++)
    characters += !continues(*text);
  return characters * HD_GLYPH_STEP * scale;
}

hd_status hd__canvas_write(const hd_canvas *canvas, hd_ctx *ctx, const char *path) {
  return hd__png_write(ctx, path, canvas->rgb, canvas->height, canvas->width);
}

/* ---- Samples in squares ---- */

hd_status hd__thumbnails_init(hd_thumbnails *out, hd_ctx *ctx, const hd_split *split) {
  *out = (hd_thumbnails){.split = split, .elems = hd__malloc_aligned((size_t)hd__split_most_bytes(split))};
  return HD_ALLOCATED(out->elems, ctx, "out of memory for a picture of samples");
}

void hd__thumbnails_fini(hd_thumbnails *t) {
  hd__free(t->elems);
  *t = (hd_thumbnails){0};
}

hd_status hd__thumbnails_fit(hd_thumbnails *t, hd_ctx *ctx, int64_t sample) {
  int size[2];
  if (t->split->elem != HD_ELEM_F32)
    return HD_OK;
  HD_TRY(hd__skips_get(t->elems, size, ctx, t->split, &sample));
  const float *x = t->elems;
  for (int64_t i = 0; i < (int64_t)t->split->channels * size[0] * size[1]; i++) {
    t->low = !t->fitted || x[i] < t->low ? x[i] : t->low;
    t->high = !t->fitted || x[i] > t->high ? x[i] : t->high;
    t->fitted = true;
  }
  return HD_OK;
}

static int level(const hd_thumbnails *t, int64_t at) {
  if (t->split->elem == HD_ELEM_U8)
    return ((const uint8_t *)t->elems)[at];
  const double range = (double)t->high - (double)t->low;
  return range > 0 ? (int)(255 * (((double)((const float *)t->elems)[at] - (double)t->low) / range) + 0.5) : 0;
}

/* A picture's rows and columns, and those of its drawing. */
typedef struct frame {
  int height, width, rows, columns;
} frame;

/* Pictures keep their proportions, small ones are enlarged by whole factors. Rows of numbers are drawn as stripes,
 * or as a small picture if their count fits one. */
static frame frame_of(const hd_split *split, const int size[2], int most) {
  enum { LEAST_SIDE = 8 };
  frame f = {.height = size[0], .width = size[1]};
  int side = 1;
  while (split->flat && side * side < f.width)
    side++;
  if (side >= LEAST_SIDE && side * side == f.width)
    f.height = f.width = side;
  const int largest = f.height > f.width ? f.height : f.width, grow = most / largest;
  f.rows = grow ? f.height * grow : f.height * most / largest;
  f.columns = grow ? f.width * grow : f.width * most / largest;
  if (split->flat && f.height == 1)
    f.rows = most / 2;
  f.rows = f.rows ? f.rows : 1;
  f.columns = f.columns ? f.columns : 1;
  return f;
}

/* The pixels [span[0], span[1]) of `from` that output pixel i of `to` stands for, at least one. */
static void find_span(int64_t span[2], int i, int to, int from) {
  span[0] = (int64_t)i * from / to;
  span[1] = (int64_t)(i + 1) * from / to;
  span[1] = span[1] > span[0] ? span[1] : span[0] + 1;
}

static uint8_t mean_level(const hd_thumbnails *t, const frame *f, int channel, const int64_t y[2], const int64_t x[2]) {
  const int64_t plane = (int64_t)f->height * f->width * channel;
  int64_t sum = 0;
  for (int64_t row = y[0]; row < y[1]; row++)
    for (int64_t col = x[0]; col < x[1]; col++)
      sum += level(t, plane + row * f->width + col);
  return (uint8_t)(sum / ((y[1] - y[0]) * (x[1] - x[0])));
}

hd_status hd__thumbnail_draw(hd_canvas *on, int left, int top, int side, const hd_thumbnails *t, hd_ctx *ctx,
                             int64_t sample) {
  const bool colors = t->split->channels >= 3;
  int64_t y[2], x[2];
  int size[2];
  HD_TRY(hd__skips_get(t->elems, size, ctx, t->split, &sample));
  const frame f = frame_of(t->split, size, side);
  left += (side - f.columns) / 2;
  top += (side - f.rows) / 2;
  for (int row = 0; row < f.rows; row++)
    for (int col = 0; col < f.columns; col++) {
      find_span(y, row, f.rows, f.height);
      find_span(x, col, f.columns, f.width);
      const uint8_t r = mean_level(t, &f, 0, y, x);
      const hd_color c = {r, colors ? mean_level(t, &f, 1, y, x) : r, colors ? mean_level(t, &f, 2, y, x) : r};
      fill(on, left + col, top + row, 1, 1, c);
    }
  return HD_OK;
}
