/* Converts a picture to ink, scales the ink to the box, and places it; see image_file.h.
 *
 * Scaling takes the mean over a window of one output pixel, and of at least one input pixel: shrinking thus averages
 * areas, and enlarging interpolates linearly. Columns are scaled first, then rows, each sum from left to right and from
 * top to bottom. */
#include "data/images/image_file.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum { LEAST_CONTRAST = 16, BOX = 20, FIELD = 28 };

/* One channel of bytes: grey first, ink after. */
typedef struct plane {
  int width, height;
  uint8_t *at;
} plane;

typedef struct rectangle {
  int x, y, width, height;
} rectangle;

/* Brightness over paper of the given grey, by the weights of BT.601. */
static void to_grey(plane *to, const hd_picture *picture, int paper) {
  for (size_t i = 0; i < (size_t)to->width * (size_t)to->height; i++) {
    const uint8_t *p = picture->rgba + 4 * i;
    int grey = (299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000;
    to->at[i] = (uint8_t)((grey * p[3] + paper * (255 - p[3]) + 127) / 255);
  }
}

/* The lowest and highest byte. */
static void extremes(const plane *p, int *low, int *high) {
  *low = *high = p->at[0];
  for (size_t i = 1; i < (size_t)p->width * (size_t)p->height; i++) {
    *low = p->at[i] < *low ? p->at[i] : *low;
    *high = p->at[i] > *high ? p->at[i] : *high;
  }
}

/* The median of the outermost pixels. */
static int border_grey(const plane *p) {
  int64_t count[256] = {0}, all = 0, seen = 0;
  for (int y = 0; y < p->height; y++) {
    int step = y == 0 || y == p->height - 1 || p->width == 1 ? 1 : p->width - 1;
    for (int x = 0; x < p->width; x += step, all++)
      count[p->at[(size_t)y * (size_t)p->width + (size_t)x]]++;
  }
  int grey = 0;
  for (seen = count[0]; 2 * seen < all; seen += count[grey])
    grey++;
  return grey;
}

/* Grey becomes ink: its distance from the paper, towards the farther extreme. Returns the most ink of a pixel. */
static int to_ink(plane *p) {
  int low, high, paper = border_grey(p);
  extremes(p, &low, &high);
  int dark = paper - low > high - paper, most = dark ? paper - low : high - paper;
  for (size_t i = 0; i < (size_t)p->width * (size_t)p->height; i++) {
    int ink = dark ? paper - p->at[i] : p->at[i] - paper;
    p->at[i] = (uint8_t)(ink < 0 ? 0 : ink);
  }
  return most;
}

/* A picture without scaling, made light on dark. */
static void keep_size(uint8_t *out, const plane *p) {
  int low, high, paper = border_grey(p);
  extremes(p, &low, &high);
  int dark = paper - low > high - paper;
  for (size_t i = 0; i < (size_t)p->width * (size_t)p->height; i++)
    out[i] = dark ? (uint8_t)(255 - p->at[i]) : p->at[i];
}

/* The bounds of clear ink. */
static rectangle find_ink(const plane *p, int threshold) {
  int left = p->width, right = -1, top = p->height, bottom = -1;
  for (int y = 0; y < p->height; y++)
    for (int x = 0; x < p->width; x++) {
      if (p->at[(size_t)y * (size_t)p->width + (size_t)x] <= threshold)
        continue;
      left = x < left ? x : left;
      right = x > right ? x : right;
      top = y < top ? y : top;
      bottom = y;
    }
  return (rectangle){left, top, right - left + 1, bottom - top + 1};
}

/* The mean of line[0], line[step], ... between the positions `from` and `to`; it is zero beyond its ends. */
static double mean_between(const double *line, int count, int step, double from, double to) {
  double sum = 0;
  int first = from < 0 ? 0 : (int)from;
  for (int i = first; i < count && i < to; i++) {
    double begin = i > from ? i : from, end = i + 1 < to ? i + 1 : to;
    sum = fma(line[(size_t)i * (size_t)step], end - begin, sum);
  }
  return sum / (to - from);
}

/* Scales a line of `count` to `wanted` values. */
static void scale_line(double *to, int to_step, int wanted, const double *line, int step, int count) {
  double scale = (double)count / wanted, half = scale > 1 ? scale / 2 : 0.5;
  for (int i = 0; i < wanted; i++) {
    double middle = (i + 0.5) * scale;
    to[(size_t)i * (size_t)to_step] = mean_between(line, count, step, middle - half, middle + half);
  }
}

/* The ink inside `from`, scaled to a size, height and width, at `to`. `narrow` has room for from.height rows of that
 * width, `line` for a row of `from`. */
static void scale_ink(double *to, const int size[2], const plane *p, rectangle from, double *narrow, double *line) {
  const int height = size[0], width = size[1];
  for (int y = 0; y < from.height; y++) {
    const uint8_t *row = p->at + (size_t)(from.y + y) * (size_t)p->width + from.x;
    for (int x = 0; x < from.width; x++)
      line[x] = row[x];
    scale_line(narrow + (size_t)y * (size_t)width, 1, width, line, 1, from.width);
  }
  for (int x = 0; x < width; x++)
    scale_line(to + x, width, height, narrow + x, width, from.height);
}

/* The start of a box whose centre of mass is in the middle of a side, limited to the side. */
static int place(double mass_at, int box, int side) {
  int begin = (int)floor(side / 2.0 - mass_at + 0.5);
  return begin < 0 ? 0 : begin > side - box ? side - box : begin;
}

/* Puts the box into the field, its ink scaled to the full range. */
static void put_box(uint8_t *out, const int size[2], const double *box, const int box_size[2]) {
  const int height = size[0], width = size[1], box_height = box_size[0], box_width = box_size[1];
  double mass = 0, across = 0, down = 0, most = 0;
  for (int y = 0; y < box_height; y++)
    for (int x = 0; x < box_width; x++) {
      double ink = box[(size_t)y * (size_t)box_width + (size_t)x];
      mass += ink;
      across = fma(x + 0.5, ink, across);
      down = fma(y + 0.5, ink, down);
      most = ink > most ? ink : most;
    }
  int left = place(across / mass, box_width, width), top = place(down / mass, box_height, height);
  memset(out, 0, (size_t)height * (size_t)width);
  for (int y = 0; y < box_height; y++)
    for (int x = 0; x < box_width; x++)
      out[(size_t)(top + y) * (size_t)width + (size_t)(left + x)] =
          (uint8_t)floor(box[(size_t)y * (size_t)box_width + (size_t)x] * 255 / most + 0.5);
}

static int rounded_side(double side) { return side < 1 ? 1 : (int)floor(side + 0.5); }

static hd_status fit_ink(uint8_t *out, hd_ctx *ctx, const char *path, const plane *p, int most, const int size[2]) {
  rectangle ink = find_ink(p, most / 8);
  double down = (double)size[0] * BOX / FIELD / ink.height, across = (double)size[1] * BOX / FIELD / ink.width;
  double scale = down < across ? down : across;
  const int box_size[2] = {rounded_side(ink.height * scale), rounded_side(ink.width * scale)};
  size_t narrow = (size_t)ink.height * (size_t)box_size[1], box = (size_t)box_size[0] * (size_t)box_size[1];
  HD_OWNED double *room = hd__malloc((narrow + box + (size_t)ink.width) * sizeof *room);
  HD_TRY(HD_ALLOCATED(room, ctx, "%s: out of memory for a picture", path));
  scale_ink(room + narrow, box_size, p, ink, room, room + narrow + box);
  put_box(out, size, room + narrow, box_size);
  return HD_OK;
}

hd_status hd__fit_picture(uint8_t *out, hd_ctx *ctx, const char *path, const hd_picture *picture, int height,
                          int width) {
  int low = 0, high = 0;
  HD_OWNED uint8_t *bytes = hd__malloc((size_t)picture->width * (size_t)picture->height);
  plane p = {.width = picture->width, .height = picture->height, .at = bytes};
  HD_TRY(HD_ALLOCATED(bytes, ctx, "%s: out of memory for a picture", path));
  /* A second try on black: white ink may be on a transparent background. */
  for (int paper = 255; paper >= 0 && high - low < LEAST_CONTRAST; paper -= 255) {
    to_grey(&p, picture, paper);
    extremes(&p, &low, &high);
  }
  if (high - low < LEAST_CONTRAST)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected a drawing on the picture, found one even grey; draw with more contrast", path);
  if (p.height != height || p.width != width)
    return fit_ink(out, ctx, path, &p, to_ink(&p), (const int[]){height, width});
  keep_size(out, &p);
  return HD_OK;
}
