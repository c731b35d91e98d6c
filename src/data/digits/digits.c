/* Draws one sample from a description of a digit. The steps, in this order:
 *
 *   points    random offsets of points and of strokes, then a smooth distortion of the whole square and an affine map
 *             (proportions, slant, rotation)
 *   curve     Catmull-Rom curves through the points, cut into short segments; ends are shortened at random
 *   page      scaled so that the longer side fills the box, the centre of mass of the line in the middle of the page,
 *             with random changes of size and place
 *   ink       thickness and pressure along each stroke, drawn by the pen
 *
 * Random numbers are Philox words of (split, sample), used 16 bits at a time in a fixed order, so samples are
 * independent. Only + - * / and sqrt on floats, in the order written: the images have the same bits everywhere. */
#include "data/digits/digits.h"

#include <assert.h>
#include <math.h>

#include "base/hdmath.h"
#include "base/philox.h"
#include "data/digits/pen.h"
#include "data/digits/strokes.h"

static const uint64_t DATA_SET = 0x6865646400000001; /* changing it changes the data set */

/* Ranges of the random deviations. A "spread" is the largest deviation of a triangular distribution around 0. Chosen
 * so that a linear classifier stays below 93 % and a small convolutional one passes 98 %, while people can read
 * every class. */
static const float POINT_SPREAD = 0.045f;                     /* of the square */
static const float STROKE_SPREAD = 0.06f;                     /* a stroke out of place */
static const float WARP_SPREAD = 0.24f;                       /* the corners of the distortion */
static const float ASPECT_SPREAD = 0.38f;                     /* width against height */
static const float SLANT_SPREAD = 0.45f;                      /* x per y */
static const float SLANT_MEAN = 0.10f;                        /* most handwriting leans to the right */
static const float ROTATION_SPREAD = 0.45f;                   /* radians */
static const float END_LENGTH = 0.35f;                        /* of a stroke's last segment that may be missing */
static const float SIZE_LEAST = 0.80f, SIZE_MOST = 1.05f;     /* of the box */
static const float PLACE_SPREAD = 2.3f;                       /* pixels */
static const float RADIUS_LEAST = 0.75f, RADIUS_MOST = 1.75f; /* pixels */
static const float PRESSURE_SPREAD = 0.35f;                   /* of the radius */
static const float WHITE_LEAST = 215, WHITE_MOST = 255;
static const float BOX = 20, PAGE = HD_DIGITS_SIDE; /* pixels */
static const float SEGMENT = 0.12f;                 /* of the square: approximate length of a curve's segments */

enum { MAX_SEGMENTS = 6, MAX_VERTICES = HD_WAY_MAX_STROKES * ((HD_STROKE_MAX_POINTS - 1) * MAX_SEGMENTS + 1) };

typedef struct point {
  float x, y;
} point;

/* Straight segments: stroke i runs through vertices first[i] to first[i + 1] - 1. */
typedef struct trace {
  int strokes, first[HD_WAY_MAX_STROKES + 1];
  point vertex[MAX_VERTICES];
} trace;

/* The stream of random numbers of one sample. */
typedef struct dice {
  uint32_t split, sample, block, left, word[4];
} dice;

static uint32_t roll(dice *d) { /* 16 bits */
  if (!d->left) {
    hd__rng_block(d->word, DATA_SET, HD_RNG_DIGITS, d->split, d->sample, 0, d->block++);
    d->left = 8;
  }
  d->left--;
  return d->left & 1 ? d->word[d->left / 2] >> 16 : d->word[d->left / 2] & 0xffff;
}

static float between(dice *d, float least, float most) { return least + (most - least) * ((float)roll(d) * 0x1p-16f); }

/* Triangular on (-reach, reach). */
static float around_zero(dice *d, float reach) {
  float sum = (float)(roll(d) + roll(d)) * 0x1p-16f;
  return (sum - 1) * reach;
}

static point point_around_zero(dice *d, float reach) {
  point p;
  p.x = around_zero(d, reach);
  p.y = around_zero(d, reach);
  return p;
}

/* A smooth map of the square: quadratic Bezier displacement over 3 by 3 random vectors, then an affine map about the
 * centre. */
typedef struct distortion {
  point by[3][3]; /* row, column */
  float xx, xy, yx, yy;
} distortion;

static void roll_distortion(distortion *out, dice *d) {
  for (int i = 0; i < 9; i++)
    out->by[i / 3][i % 3] = point_around_zero(d, WARP_SPREAD);
  float width = 1 + around_zero(d, ASPECT_SPREAD), slant = SLANT_MEAN + around_zero(d, SLANT_SPREAD);
  double angle = around_zero(d, ROTATION_SPREAD);
  float c = (float)hd__cos(angle), s = (float)hd__sin(angle);
  out->xx = c * width;
  out->xy = -(c * slant) - s;
  out->yx = s * width;
  out->yy = c - s * slant;
}

static point distort(const distortion *by, point p) {
  float x = p.x, y = p.y, u = 1 - x, v = 1 - y;
  float column[3] = {u * u, 2 * (x * u), x * x}, row[3] = {v * v, 2 * (y * v), y * y};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      float weight = row[i] * column[j];
      p.x += weight * by->by[i][j].x;
      p.y += weight * by->by[i][j].y;
    }
  x = p.x - 0.5f;
  y = p.y - 0.5f;
  return (point){by->xx * x + by->xy * y, by->yx * x + by->yy * y};
}

/* The point at t of the Catmull-Rom curve from b to c, whose neighbours are a and d. */
static point curve_at(point a, point b, point c, point d, float t) {
  float half = 0.5f * t;
  point p;
  p.x = b.x + half * ((c.x - a.x) + t * ((2 * a.x - 5 * b.x + (4 * c.x - d.x)) + t * (3 * (b.x - c.x) + (d.x - a.x))));
  p.y = b.y + half * ((c.y - a.y) + t * ((2 * a.y - 5 * b.y + (4 * c.y - d.y)) + t * (3 * (b.y - c.y) + (d.y - a.y))));
  return p;
}

static point beyond(point last, point before) { return (point){2 * last.x - before.x, 2 * last.y - before.y}; }

static float distance(point a, point b) {
  float dx = b.x - a.x, dy = b.y - a.y;
  return sqrtf(dx * dx + dy * dy);
}

/* Adds one stroke to the path: its points are perturbed and distorted, then the curve is cut into segments. */
static void add_stroke(trace *out, dice *d, const hd_stroke *stroke, const distortion *by) {
  point p[HD_STROKE_MAX_POINTS], place = point_around_zero(d, STROKE_SPREAD);
  int last = stroke->count - 1, at = out->first[out->strokes];
  float missing = between(d, 0, 1), start = missing * missing * END_LENGTH;
  missing = between(d, 0, 1);
  float end = 1 - missing * missing * END_LENGTH;
  for (int i = 0; i <= last; i++) {
    point shake = point_around_zero(d, POINT_SPREAD);
    p[i] = distort(by, (point){stroke->point[i].x + place.x + shake.x, stroke->point[i].y + place.y + shake.y});
  }
  for (int i = 0; i < last; i++) {
    point before = stroke->point[i].corner ? beyond(p[i], p[i + 1]) : p[i - 1];
    point after = stroke->point[i + 1].corner ? beyond(p[i + 1], p[i]) : p[i + 2];
    float from = i == 0 ? start : 0, to = i == last - 1 ? end : 1;
    float wanted = distance(p[i], p[i + 1]) / SEGMENT;
    int segments = wanted < MAX_SEGMENTS - 1 ? 1 + (int)wanted : MAX_SEGMENTS;
    float step = (to - from) / (float)segments;
    for (int j = i > 0; j <= segments; j++)
      out->vertex[at++] = curve_at(before, p[i], p[i + 1], after, from + step * (float)j);
  }
  out->first[++out->strokes] = at;
}

static float smaller(float a, float b) { return a < b ? a : b; }

static float larger(float a, float b) { return a > b ? a : b; }

/* The bounds of the path, and the centre of mass of its line. */
typedef struct extent {
  point least, most, middle;
} extent;

static void measure(extent *out, const trace *path) {
  float total = 0, sum_x = 0, sum_y = 0;
  out->least = (point){1e9f, 1e9f};
  out->most = (point){-1e9f, -1e9f};
  for (int s = 0; s < path->strokes; s++)
    for (int i = path->first[s]; i < path->first[s + 1]; i++) {
      point p = path->vertex[i];
      out->least.x = smaller(out->least.x, p.x);
      out->least.y = smaller(out->least.y, p.y);
      out->most.x = larger(out->most.x, p.x);
      out->most.y = larger(out->most.y, p.y);
      if (i == path->first[s])
        continue;
      point q = path->vertex[i - 1];
      float length = distance(q, p);
      total += length;
      sum_x += length * (p.x + q.x);
      sum_y += length * (p.y + q.y);
    }
  out->middle.x = total > 0 ? 0.5f * sum_x / total : out->least.x;
  out->middle.y = total > 0 ? 0.5f * sum_y / total : out->least.y;
}

/* The offset that moves `middle` to `target`, limited so that the ink stays on the page. */
static float place_on_page(float target, float middle, float least, float most, float margin) {
  float offset = target - middle;
  if (offset + least < margin)
    offset = margin - least;
  if (offset + most > PAGE - margin)
    offset = PAGE - margin - most;
  return offset;
}

/* Maps the plane of the strokes to pixels. */
static void fit_on_page(trace *path, dice *d, float radius) {
  extent e;
  measure(&e, path);
  float longer = larger(larger(e.most.x - e.least.x, e.most.y - e.least.y), 0.1f);
  float scale = (BOX - 2 * radius) * between(d, SIZE_LEAST, SIZE_MOST) / longer;
  point place = point_around_zero(d, PLACE_SPREAD);
  float x = place_on_page(PAGE / 2 + place.x, scale * e.middle.x, scale * e.least.x, scale * e.most.x, radius);
  float y = place_on_page(PAGE / 2 + place.y, scale * e.middle.y, scale * e.least.y, scale * e.most.y, radius);
  for (int i = 0; i < path->first[path->strokes]; i++)
    path->vertex[i] = (point){scale * path->vertex[i].x + x, scale * path->vertex[i].y + y};
}

/* One stroke in ink: the radius follows a quadratic curve over the stroke. */
static void ink_stroke(hd_canvas *canvas, dice *d, const point *vertex, int count, float radius) {
  float pressure[3];
  for (int i = 0; i < 3; i++)
    pressure[i] = radius * (1 + around_zero(d, PRESSURE_SPREAD));
  for (int i = 1; i < count; i++) {
    float t = ((float)i - 0.5f) / (float)(count - 1), u = 1 - t;
    float here = u * u * pressure[0] + (2 * (t * u) * pressure[1] + t * t * pressure[2]);
    hd__pen_line(canvas, vertex[i - 1].x, vertex[i - 1].y, vertex[i].x, vertex[i].y, here);
  }
}

static const hd_way *choose_way(dice *d, int label) {
  int at = (int)(roll(d) * (uint32_t)hd__strokes.digit[label].weight >> 16);
  const hd_way *way = hd__strokes.digit[label].way;
  for (; at >= way->weight; way++)
    at -= way->weight;
  return way;
}

static void render_one(uint8_t *image, uint8_t *label, int split, int64_t sample) {
  dice d = {.split = (uint32_t)split, .sample = (uint32_t)sample};
  distortion by;
  trace path;
  hd_canvas canvas;
  *label = (uint8_t)(roll(&d) * HD_DIGITS >> 16);
  const hd_way *way = choose_way(&d, *label);
  float radius = between(&d, RADIUS_LEAST, RADIUS_MOST), white = between(&d, WHITE_LEAST, WHITE_MOST);
  roll_distortion(&by, &d);
  path.strokes = path.first[0] = 0;
  for (int i = 0; i < way->count; i++)
    add_stroke(&path, &d, &way->stroke[i], &by);
  fit_on_page(&path, &d, radius);
  hd__pen_clear(&canvas);
  for (int i = 0; i < path.strokes; i++)
    ink_stroke(&canvas, &d, path.vertex + path.first[i], path.first[i + 1] - path.first[i], radius);
  hd__pen_finish(image, &canvas, white);
}

void hd__digits_render(uint8_t *images, uint8_t *labels, int split, int64_t first, int64_t count) {
  assert(split >= 0 && first >= 0 && count >= 0 && first + count <= UINT32_MAX);
  for (int64_t i = 0; i < count; i++)
    render_one(images + i * HD_DIGITS_SIDE * HD_DIGITS_SIDE, labels + i, split, first + i);
}
