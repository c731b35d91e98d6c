/* Drawing the sheet of mistakes: images in a grid, the label in green and the guess in red below. */
#include "data/images/contact_sheet.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/images/canvas.h"

enum { COLUMNS = 8, CELL_PIXELS = 84, CAPTION = 26, GAP = 10, TITLE = 34 };

static const hd_color green = {98, 201, 125}, red = {240, 104, 96};

static hd_status draw_cell(hd_canvas *s, int index, const hd_mistake *m, const hd_thumbnails *images, hd_ctx *ctx) {
  int x = GAP + index % COLUMNS * (CELL_PIXELS + GAP), y = TITLE + index / COLUMNS * (CELL_PIXELS + CAPTION + GAP);
  char text[32];
  HD_TRY(hd__thumbnail_draw(s, x, y, CELL_PIXELS, images, ctx, m->index));
  snprintf(text, sizeof text, "%d", m->label);
  int at = hd__canvas_text(s, x, y + CELL_PIXELS + 6, 2, green, text);
  at = hd__canvas_text(s, at, y + CELL_PIXELS + 6, 2, hd_grey, ">");
  snprintf(text, sizeof text, "%d", m->guess);
  hd__canvas_text(s, at, y + CELL_PIXELS + 6, 2, red, text);
  int percent = (int)(m->confidence * 100 + 0.5f);
  snprintf(text, sizeof text, "%d%%", percent);
  hd__canvas_text(s, x + CELL_PIXELS - (int)strlen(text) * HD_GLYPH_STEP, y + CELL_PIXELS + 10, 1, hd_grey, text);
  return HD_OK;
}

hd_status hd__picture_mistakes(hd_ctx *ctx, const char *path, const hd_mistake *mistake, int count, int64_t wrong,
                               int64_t total, const hd_dataset *split) {
  const int rows = (count + COLUMNS - 1) / COLUMNS;
  HD_RELEASED(hd__thumbnails_fini) hd_thumbnails images = {0};
  HD_RELEASED(hd__canvas_fini) hd_canvas s = {0};
  char title[96];
  HD_TRY(hd__canvas_init(&s, ctx, path, GAP + COLUMNS * (CELL_PIXELS + GAP),
                         TITLE + rows * (CELL_PIXELS + CAPTION + GAP)));
  snprintf(title, sizeof title, "%lld of %lld wrong: the most confident", (long long)wrong, (long long)total);
  hd__canvas_text(&s, GAP, 10, 2, hd_white, title);
  HD_TRY(hd__thumbnails_init(&images, ctx, split));
  for (int i = 0; i < count; i++)
    HD_TRY(hd__thumbnails_fit(&images, ctx, mistake[i].index));
  for (int i = 0; i < count; i++)
    HD_TRY(draw_cell(&s, i, &mistake[i], &images, ctx));
  return hd__canvas_write(&s, ctx, path);
}
