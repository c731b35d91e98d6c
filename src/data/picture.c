/* Drawing the sheet of mistakes: images in a grid, the label in green and the guess in red below. */
#include "data/picture.h"

#include <stdio.h>
#include <string.h>

#include "data/canvas.h"

enum { COLUMNS = 8, CELL_PIXELS = 84, CAPTION = 26, GAP = 10, TITLE = 34 };

static const hd_color green = {98, 201, 125}, red = {240, 104, 96};

static void draw_image(hd_canvas *s, int x, int y, const uint8_t *image, int height, int width) {
  for (int row = 0; row < CELL_PIXELS; row++)
    for (int col = 0; col < CELL_PIXELS; col++) {
      uint8_t v = image[row * height / CELL_PIXELS * width + col * width / CELL_PIXELS];
      hd__canvas_fill(s, x + col, y + row, 1, 1, (hd_color){v, v, v});
    }
}

static void draw_cell(hd_canvas *s, int index, const hd_mistake *m, int height, int width) {
  int x = GAP + index % COLUMNS * (CELL_PIXELS + GAP), y = TITLE + index / COLUMNS * (CELL_PIXELS + CAPTION + GAP);
  char text[32];
  draw_image(s, x, y, m->image, height, width);
  snprintf(text, sizeof text, "%d", m->label);
  int at = hd__canvas_text(s, x, y + CELL_PIXELS + 6, 2, green, text);
  at = hd__canvas_text(s, at, y + CELL_PIXELS + 6, 2, hd_grey, ">");
  snprintf(text, sizeof text, "%d", m->guess);
  hd__canvas_text(s, at, y + CELL_PIXELS + 6, 2, red, text);
  int percent = (int)(m->confidence * 100 + 0.5f);
  snprintf(text, sizeof text, "%d%%", percent);
  hd__canvas_text(s, x + CELL_PIXELS - (int)strlen(text) * HD_GLYPH_STEP, y + CELL_PIXELS + 10, 1, hd_grey, text);
}

hd_status hd__picture_mistakes(hd_ctx *ctx, const char *path, const hd_mistake *mistake, int count, int64_t wrong,
                               int64_t total, int height, int width) {
  const int rows = (count + COLUMNS - 1) / COLUMNS;
  char title[96];
  hd_canvas s;
  HD_TRY(hd__canvas_init(&s, ctx, path, GAP + COLUMNS * (CELL_PIXELS + GAP),
                         TITLE + rows * (CELL_PIXELS + CAPTION + GAP)));
  snprintf(title, sizeof title, "%lld of %lld wrong: the most confident", (long long)wrong, (long long)total);
  hd__canvas_text(&s, GAP, 10, 2, hd_white, title);
  for (int i = 0; i < count; i++)
    draw_cell(&s, i, &mistake[i], height, width);
  hd_status status = hd__canvas_write(&s, ctx, path);
  hd__canvas_fini(&s);
  return status;
}
