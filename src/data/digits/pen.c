/* The pen's inner loop: for every row that a segment may touch, groups of four pixels. */
#include "data/digits/pen.h"

#include <string.h>

typedef int32_t mask __attribute__((vector_size(16)));
typedef uint8_t bytes4 __attribute__((vector_size(4)));
typedef hd_pen_group group;

static const float PEN_EDGE = 0.55f; /* half the width of the soft edge, at most */

static group spread(float x) { return (group){x, x, x, x}; }

/* Lane by lane: chosen where the mask is set, else other. */
static group choose(mask m, group chosen, group other) { return (group)((m & (mask)chosen) | (~m & (mask)other)); }

static group larger(group a, group b) { return choose(a > b, a, b); }

static group smaller(group a, group b) { return choose(a < b, a, b); }

/* floor(x) as an index, cut to [0, HD_CANVAS_SIDE - 1]. */
static int index_of(float x) {
  if (!(x > 0))
    return 0;
  return x < HD_CANVAS_SIDE - 1 ? (int)x : HD_CANVAS_SIDE - 1;
}

void hd__pen_clear(hd_canvas *canvas) { memset(canvas, 0, sizeof *canvas); }

void hd__pen_line(hd_canvas *canvas, float x0, float y0, float x1, float y1, float radius) {
  float dx = x1 - x0, dy = y1 - y0, length2 = dx * dx + dy * dy;
  float along = length2 > 0 ? 1 / length2 : 0;
  float edge = radius < PEN_EDGE ? radius : PEN_EDGE; /* the core of a very thin pen is a line */
  float reach = radius + edge, reach2 = reach * reach;
  float gain = 1 / (4 * radius * edge);
  float left = x0 < x1 ? x0 : x1, right = x0 < x1 ? x1 : x0, top = y0 < y1 ? y0 : y1, bottom = y0 < y1 ? y1 : y0;
  int first_row = index_of(top - reach), last_row = index_of(bottom + reach);
  int first_group = index_of(left - reach) / 4, last_group = index_of(right + reach) / 4;
  const group zero = spread(0), one = spread(1);
  const group centres = {0.5f, 1.5f, 2.5f, 3.5f};
  for (int g = first_group; g <= last_group; g++) {
    group px = centres + spread((float)(4 * g)) - spread(x0), px_dx = px * spread(dx);
    for (int row = first_row; row <= last_row; row++) {
      float py = (float)row + 0.5f - y0;
      group t = (px_dx + spread(py * dy)) * spread(along);
      t = smaller(larger(t, zero), one);
      group ex = px - t * spread(dx), ey = spread(py) - t * spread(dy);
      group ink = (spread(reach2) - (ex * ex + ey * ey)) * spread(gain);
      canvas->row[row][g] = larger(ink, canvas->row[row][g]);
    }
  }
}

void hd__pen_finish(uint8_t *image, const hd_canvas *canvas, float white) {
  for (int row = 0; row < HD_CANVAS_SIDE; row++)
    for (int g = 0; g < HD_CANVAS_GROUPS; g++) {
      group ink = smaller(canvas->row[row][g], spread(1)) * spread(white) + spread(0.5f);
      mask whole = __builtin_convertvector(ink, mask);
      bytes4 bytes = __builtin_convertvector(whole, bytes4);
      memcpy(image, &bytes, sizeof bytes);
      image += sizeof bytes;
    }
}
