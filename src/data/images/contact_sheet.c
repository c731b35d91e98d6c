/* Choosing samples, and captions; and sheets of mistakes; see contact_sheet.h. */
#include "data/images/contact_sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/images/canvas.h"
#include "data/split/skipped_samples.h"

enum {
  COLUMNS = 12,
  TARGET_ROWS = 8,
  MOST_ROWS = 128,
  CELL = 64,
  GAP = 6,
  MARGIN = 12,
  TITLE = 36,
  TEXT = 2,           /* scale */
  MOST_CAPTION = 20,  /* characters */
  CAPTION_BYTES = 96, /* of UTF-8 */
};

typedef struct shown {
  char caption[CAPTION_BYTES];
  char count[32];
  int64_t sample[COLUMNS];
  int columns;
} shown;

typedef struct contact {
  const hd_split *split;
  shown *rows;
  int count;
  hd_thumbnails thumbnails;
} contact;

/* A name truncated to MOST_CAPTION characters. */
static void put_caption(shown *r, const char *name) {
  int at = 0, characters = 0;
  for (; name[at] && at < CAPTION_BYTES - 1; at++) {
    characters += ((unsigned char)name[at] & 0xc0) != 0x80;
    if (characters > MOST_CAPTION)
      break;
  }
  snprintf(r->caption, sizeof r->caption, "%.*s", at, name);
}

/* The column of the `seen`-th of `all` samples in a row of evenly spaced ones; -1 for most. */
static int column_of(int64_t seen, int64_t all) {
  if (all <= COLUMNS)
    return (int)seen;
  const int64_t column = (seen * COLUMNS + all - 1) / all;
  return column < COLUMNS && column * all / COLUMNS == seen ? (int)column : -1;
}

/* Rows of classes. */
static hd_status choose_by_class(contact *s, hd_ctx *ctx) {
  const hd_split *d = s->split;
  HD_OWNED int64_t *all = hd__calloc(2 * (size_t)d->classes, sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for a contact sheet"));
  int64_t *seen = all + d->classes;
  for (int64_t i = 0; i < d->count; i++)
    all[d->labels[i]] += !hd__skips_has(d, i);
  for (int64_t i = 0; i < d->count; i++) {
    const int32_t c = d->labels[i];
    if (c >= s->count || hd__skips_has(d, i))
      continue;
    const int column = column_of(seen[c]++, all[c]);
    if (column < 0)
      continue;
    s->rows[c].sample[column] = i;
    s->rows[c].columns = column + 1;
  }
  for (int c = 0; c < s->count; c++) {
    char number[16];
    snprintf(number, sizeof number, "%d", c);
    put_caption(&s->rows[c], d->class_names ? d->class_names[c] : number);
    snprintf(s->rows[c].count, sizeof s->rows[c].count, "%lld", (long long)all[c]);
  }
  return HD_OK;
}

typedef struct place {
  float target;
  int64_t sample;
} place;

static int by_target(const void *a, const void *b) {
  const place *x = a, *y = b;
  return x->target < y->target ? -1 : x->target > y->target ? 1 : (x->sample > y->sample) - (x->sample < y->sample);
}

/* Rows of targets. */
static hd_status choose_by_target(contact *s, hd_ctx *ctx) {
  const hd_split *d = s->split;
  HD_OWNED place *at = hd__malloc((size_t)d->count * sizeof *at);
  int64_t all = 0, room = (int64_t)s->count * COLUMNS;
  HD_TRY(HD_ALLOCATED(at, ctx, "out of memory for a contact sheet"));
  for (int64_t i = 0; i < d->count; i++)
    if (!hd__skips_has(d, i))
      at[all++] = (place){d->targets[i * d->outputs], i};
  qsort(at, (size_t)all, sizeof *at, by_target);
  room = all < room ? all : room;
  s->count = (int)((room + COLUMNS - 1) / COLUMNS);
  for (int64_t k = 0; k < room; k++) {
    shown *r = &s->rows[k / COLUMNS];
    const place *p = &at[k * all / room];
    if (r->columns == 0)
      snprintf(r->caption, sizeof r->caption, "%.4g", (double)p->target);
    snprintf(r->count, sizeof r->count, "to %.4g", (double)p->target);
    r->sample[r->columns++] = p->sample;
  }
  return HD_OK;
}

static int caption_width(const contact *s) {
  int most = 0;
  for (int r = 0; r < s->count; r++) {
    const int name = hd__canvas_text_width(TEXT, s->rows[r].caption),
              count = hd__canvas_text_width(1, s->rows[r].count);
    most = name > most ? name : most;
    most = count > most ? count : most;
  }
  return most + 2 * GAP;
}

static hd_status draw(hd_canvas *on, const contact *s, hd_ctx *ctx, const char *title) {
  const int pictures = MARGIN + caption_width(s);
  hd__canvas_text(on, MARGIN, MARGIN, TEXT, hd_white, title);
  for (int r = 0; r < s->count; r++) {
    const shown *line = &s->rows[r];
    const int top = MARGIN + TITLE + r * (CELL + GAP), middle = top + CELL / 2;
    hd__canvas_text(on, MARGIN, middle - HD_GLYPH_ROWS * TEXT, TEXT, hd_white, line->caption);
    hd__canvas_text(on, MARGIN, middle + HD_GLYPH_ROWS, 1, hd_grey, line->count);
    for (int c = 0; c < line->columns; c++)
      HD_TRY(hd__thumbnail_draw(on, pictures + c * (CELL + GAP), top, CELL, &s->thumbnails, ctx, line->sample[c]));
  }
  return HD_OK;
}

static void contact_fini(contact *s) {
  hd__free(s->rows);
  hd__thumbnails_fini(&s->thumbnails);
}

hd_status hd__contact_sheet(hd_ctx *ctx, const char *path, const char *title, const hd_split *split) {
  HD_RELEASED(contact_fini) contact s = {.split = split};
  HD_RELEASED(hd__canvas_fini) hd_canvas on = {0};
  s.count = !split->labels ? TARGET_ROWS : split->classes < MOST_ROWS ? split->classes : MOST_ROWS;
  HD_TRY(HD_NEW(s.rows, s.count, ctx, "%s: out of memory for a contact sheet", path));
  HD_TRY(hd__thumbnails_init(&s.thumbnails, ctx, split));
  HD_TRY(split->labels ? choose_by_class(&s, ctx) : choose_by_target(&s, ctx));
  for (int r = 0; r < s.count; r++)
    for (int c = 0; c < s.rows[r].columns; c++)
      HD_TRY(hd__thumbnails_fit(&s.thumbnails, ctx, s.rows[r].sample[c]));
  const int wide = 2 * MARGIN + caption_width(&s) + COLUMNS * (CELL + GAP) - GAP;
  const int titled = 2 * MARGIN + hd__canvas_text_width(TEXT, title);
  HD_TRY(hd__canvas_init(&on, ctx, path, wide > titled ? wide : titled,
                         2 * MARGIN + TITLE + s.count * (CELL + GAP) - GAP));
  HD_TRY(draw(&on, &s, ctx, title));
  return hd__canvas_write(&on, ctx, path);
}

/* ---- Mistakes: images in a grid, the label in green and the guess in red below ---- */

enum { ACROSS = 8, SIDE = 84, CAPTION_ROWS = 26, SPACE = 10, HEAD = 34 };

static const hd_color green = {98, 201, 125}, red = {240, 104, 96};

static hd_status draw_cell(hd_canvas *s, int index, const hd_mistake *m, const hd_thumbnails *images, hd_ctx *ctx) {
  int x = SPACE + index % ACROSS * (SIDE + SPACE), y = HEAD + index / ACROSS * (SIDE + CAPTION_ROWS + SPACE);
  char text[32];
  HD_TRY(hd__thumbnail_draw(s, x, y, SIDE, images, ctx, m->index));
  snprintf(text, sizeof text, "%d", m->label);
  int at = hd__canvas_text(s, x, y + SIDE + 6, 2, green, text);
  at = hd__canvas_text(s, at, y + SIDE + 6, 2, hd_grey, ">");
  snprintf(text, sizeof text, "%d", m->guess);
  hd__canvas_text(s, at, y + SIDE + 6, 2, red, text);
  int percent = (int)(m->confidence * 100 + 0.5f);
  snprintf(text, sizeof text, "%d%%", percent);
  hd__canvas_text(s, x + SIDE - (int)strlen(text) * HD_GLYPH_STEP, y + SIDE + 10, 1, hd_grey, text);
  return HD_OK;
}

hd_status hd__picture_mistakes(hd_ctx *ctx, const char *path, const hd_mistake *mistake, int count, int64_t wrong,
                               int64_t total, const hd_split *split) {
  const int rows = (count + ACROSS - 1) / ACROSS;
  HD_RELEASED(hd__thumbnails_fini) hd_thumbnails images = {0};
  HD_RELEASED(hd__canvas_fini) hd_canvas s = {0};
  char title[96];
  HD_TRY(hd__canvas_init(&s, ctx, path, SPACE + ACROSS * (SIDE + SPACE), HEAD + rows * (SIDE + CAPTION_ROWS + SPACE)));
  snprintf(title, sizeof title, "%lld of %lld wrong: the most confident", (long long)wrong, (long long)total);
  hd__canvas_text(&s, SPACE, 10, 2, hd_white, title);
  HD_TRY(hd__thumbnails_init(&images, ctx, split));
  for (int i = 0; i < count; i++)
    HD_TRY(hd__thumbnails_fit(&images, ctx, mistake[i].index));
  for (int i = 0; i < count; i++)
    HD_TRY(draw_cell(&s, i, &mistake[i], &images, ctx));
  return hd__canvas_write(&s, ctx, path);
}
