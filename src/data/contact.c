/* Choosing samples, fitting them into cells, and captions; see contact.h. */
#include "data/contact.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "data/canvas.h"
#include "data/skip.h"

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
  const hd_dataset *split;
  shown *rows;
  int count;
  float low, high; /* of the floats that are shown */
  void *elems;     /* of one sample */
} contact;

/* A name cut to so many characters. */
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
  const hd_dataset *d = s->split;
  int64_t *all = hd__calloc(2 * (size_t)d->classes, sizeof *all), *seen = all + d->classes;
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a contact sheet");
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
  hd__free(all);
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
  const hd_dataset *d = s->split;
  place *at = hd__malloc((size_t)d->count * sizeof *at);
  int64_t all = 0, room = (int64_t)s->count * COLUMNS;
  if (!at)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a contact sheet");
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
  hd__free(at);
  return HD_OK;
}

/* The range that becomes black to white. */
static hd_status find_range(contact *s, hd_ctx *ctx) {
  int size[2];
  bool any = false;
  for (int r = 0; r < s->count && s->split->elem == HD_ELEM_F32; r++)
    for (int c = 0; c < s->rows[r].columns; c++) {
      HD_TRY(hd__skips_get(s->elems, size, ctx, s->split, &s->rows[r].sample[c]));
      const float *x = s->elems;
      for (int64_t i = 0; i < (int64_t)s->split->channels * size[0] * size[1]; i++) {
        s->low = !any || x[i] < s->low ? x[i] : s->low;
        s->high = !any || x[i] > s->high ? x[i] : s->high;
        any = true;
      }
    }
  return HD_OK;
}

static int level(const contact *s, int64_t at) {
  if (s->split->elem == HD_ELEM_U8)
    return ((const uint8_t *)s->elems)[at];
  const double range = (double)s->high - (double)s->low;
  return range > 0 ? (int)(255 * (((double)((const float *)s->elems)[at] - (double)s->low) / range) + 0.5) : 0;
}

/* A picture's own rows and columns, and those it is drawn in. */
typedef struct frame {
  int height, width, rows, columns;
} frame;

/* Pictures keep their proportions, small ones grow by whole factors. Rows of numbers are stripes, unless they are as
 * many as a small picture has pixels. */
static frame frame_of(const hd_dataset *split, const int size[2]) {
  enum { LEAST_SIDE = 8 };
  frame f = {.height = size[0], .width = size[1]};
  int side = 1;
  while (split->flat && side * side < f.width)
    side++;
  if (side >= LEAST_SIDE && side * side == f.width)
    f.height = f.width = side;
  const int largest = f.height > f.width ? f.height : f.width, grow = CELL / largest;
  f.rows = grow ? f.height * grow : f.height * CELL / largest;
  f.columns = grow ? f.width * grow : f.width * CELL / largest;
  if (split->flat && f.height == 1)
    f.rows = CELL / 2;
  f.rows = f.rows ? f.rows : 1;
  f.columns = f.columns ? f.columns : 1;
  return f;
}

/* The pixels [span[0], span[1]) of `from` that output pixel i of `to` stands for: all that it covers, at least one. */
static void find_span(int64_t span[2], int i, int to, int from) {
  span[0] = (int64_t)i * from / to;
  span[1] = (int64_t)(i + 1) * from / to;
  span[1] = span[1] > span[0] ? span[1] : span[0] + 1;
}

static uint8_t mean_level(const contact *s, const frame *f, int channel, const int64_t y[2], const int64_t x[2]) {
  const int64_t plane = (int64_t)f->height * f->width * channel;
  int64_t sum = 0;
  for (int64_t row = y[0]; row < y[1]; row++)
    for (int64_t col = x[0]; col < x[1]; col++)
      sum += level(s, plane + row * f->width + col);
  return (uint8_t)(sum / ((y[1] - y[0]) * (x[1] - x[0])));
}

static hd_status draw_sample(hd_canvas *on, int left, int top, const contact *s, hd_ctx *ctx, int64_t sample) {
  const bool colors = s->split->channels >= 3;
  int64_t y[2], x[2];
  int size[2];
  HD_TRY(hd__skips_get(s->elems, size, ctx, s->split, &sample));
  const frame f = frame_of(s->split, size);
  left += (CELL - f.columns) / 2;
  top += (CELL - f.rows) / 2;
  for (int row = 0; row < f.rows; row++)
    for (int col = 0; col < f.columns; col++) {
      find_span(y, row, f.rows, f.height);
      find_span(x, col, f.columns, f.width);
      const uint8_t r = mean_level(s, &f, 0, y, x);
      const hd_color c = {r, colors ? mean_level(s, &f, 1, y, x) : r, colors ? mean_level(s, &f, 2, y, x) : r};
      hd__canvas_fill(on, left + col, top + row, 1, 1, c);
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
      HD_TRY(draw_sample(on, pictures + c * (CELL + GAP), top, s, ctx, line->sample[c]));
  }
  return HD_OK;
}

static hd_status make_sheet(contact *s, hd_ctx *ctx, const char *path, const char *title) {
  HD_TRY(s->split->labels ? choose_by_class(s, ctx) : choose_by_target(s, ctx));
  HD_TRY(find_range(s, ctx));
  const int wide = 2 * MARGIN + caption_width(s) + COLUMNS * (CELL + GAP) - GAP;
  const int titled = 2 * MARGIN + hd__canvas_text_width(TEXT, title);
  hd_canvas on;
  HD_TRY(hd__canvas_init(&on, ctx, path, wide > titled ? wide : titled,
                         2 * MARGIN + TITLE + s->count * (CELL + GAP) - GAP));
  hd_status status = draw(&on, s, ctx, title);
  if (status == HD_OK)
    status = hd__canvas_write(&on, ctx, path);
  hd__canvas_fini(&on);
  return status;
}

hd_status hd__contact_sheet(hd_ctx *ctx, const char *path, const char *title, const hd_dataset *split) {
  contact s = {.split = split};
  s.count = !split->labels ? TARGET_ROWS : split->classes < MOST_ROWS ? split->classes : MOST_ROWS;
  s.rows = hd__calloc((size_t)s.count, sizeof *s.rows);
  s.elems = hd__malloc_aligned((size_t)hd__dataset_most_bytes(split));
  hd_status status = s.rows && s.elems ? make_sheet(&s, ctx, path, title)
                                       : hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for a contact sheet", path);
  hd__free(s.rows);
  hd__free(s.elems);
  return status;
}
