/* Picture files as samples: PNG or JPEG, detected by their first bytes, as planes of bytes.
 *
 * Pictures are turned as their EXIF orientation says, and transparent ones are laid on white, unless the rules ignore
 * it; 16-bit channels are scaled to 8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A picture's file in memory. */
typedef struct hd_picture_file {
  const char *path; /* for messages */
  const uint8_t *bytes;
  size_t length;
} hd_picture_file;

/* PNG files as pictures in memory: any size up to the limits below, every colour type, bit depth and interlacing.
 *
 * Input files are untrusted: what libpng refuses gives HD_E_FORMAT with one line, and pictures larger than the
 * limits are refused. Gamma and colour profiles are left alone. */

enum { HD_PNG_MAX_SIDE = 32768, HD_PNG_MAX_PIXELS = 1 << 26 };

typedef struct hd_picture {
  int width, height;
  uint8_t *rgba; /* height x width x 4, alpha not premultiplied; release with hd__picture_fini */
} hd_picture;

hd_status hd__png_parse(hd_picture *out, hd_ctx *ctx, const hd_picture_file *file);

void hd__picture_fini(hd_picture *picture);

/* The colours of a PNG's palette. */
typedef struct hd_palette {
  int count; /* 0: it has none, it is grey */
  uint8_t rgb[256][3];
} hd_palette;

/* A mask: fills height x width bytes with the pixels' numbers, those of a grey picture or the places in a palette.
 * HD_E_FORMAT for a picture of another size, of colours, or of 16 bits, which are no classes; and for a place that has
 * another colour in `known`, the palette of another mask. */
hd_status hd__png_mask(uint8_t *out, const int size[2], const hd_palette *known, hd_ctx *ctx,
                       const hd_picture_file *file);

/* None too for a file that hd__png_mask refuses. */
hd_status hd__png_palette(hd_palette *out, hd_ctx *ctx, const hd_picture_file *file);

/* Writes pixels of three bytes, red, green, blue, to a PNG file, atomically. */
hd_status hd__png_write(hd_ctx *ctx, const char *path, const uint8_t *rgb, int32_t height, int32_t width);

/* Writes a mask of numbers below `classes` to a PNG file, atomically: in grey, or as places in the palette, which gets
 * greys for the classes that it lacks. */
hd_status hd__png_write_mask(hd_ctx *ctx, const char *path, const uint8_t *mask, const int32_t size[2],
                             const hd_palette *palette, int32_t classes);

/* ---- Files of either kind ---- */

typedef struct hd_photo_rules {
  bool ignore_exif;  /* pictures are taken as they are stored */
  bool ignore_alpha; /* colours are taken as they are under transparency */
} hd_photo_rules;

typedef struct hd_photo_head {
  int size[2]; /* height, width, of the turned picture */
  bool grey;
  bool alpha;      /* it may be transparent somewhere */
  int orientation; /* how it is turned, 1 to 8 (exif.h) */
} hd_photo_head;

/* Reads the header; the rest may still be damaged. */
hd_status hd__photo_head(hd_photo_head *out, hd_ctx *ctx, const hd_picture_file *file, hd_photo_rules rules);

/* Fills 1 or 3 planes. HD_E_FORMAT if the picture has not this size. */
hd_status hd__photo_read(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const hd_picture_file *file,
                         hd_photo_rules rules);

/* A whole file as a picture of its size, with its transparency. */
hd_status hd__photo_picture(hd_picture *out, hd_ctx *ctx, const char *path, hd_photo_rules rules);

/* A colour of a pixel that is laid on white. */
static inline uint8_t hd__on_white(uint8_t color, uint8_t alpha) {
  return (uint8_t)((color * alpha + 255 * (255 - alpha) + 127) / 255);
}

/* JPEG files as planes of bytes, with libjpeg-turbo.
 *
 * Its exact integer transform gives the same bytes with every instruction set; another library may decode otherwise.
 * Input files are untrusted: damaged or truncated ones are refused, and so are pictures beyond the limits of PNG
 * or with more than 500 scans, which would take minutes. */

/* Reads the header: size gets height and width, *grey whether there is one channel. */
hd_status hd__jpeg_head(int size[2], bool *grey, hd_ctx *ctx, const hd_picture_file *file);

/* Fills 1 (brightness) or 3 planes of a size, which must be the header's. */
hd_status hd__jpeg_read(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const hd_picture_file *file);

/* Fits a picture to a model's input as the digits of MNIST were prepared: one drawing in light grey on black, scaled
 * with its proportions into a box of 20/28 of each side, its centre of mass in the middle.
 *
 * The paper is the median of the border; ink is the difference from it in one direction, lighter or darker, the one
 * in which the picture's extreme lies farther away. A picture of the input's size is not scaled: only its colours
 * are made light on dark. Every number is an integer or a chain of exact double operations, so the bytes are the
 * same on every machine. */

/* Fills height x width bytes. HD_E_FORMAT, naming `path`, if the picture is blank. */
hd_status hd__fit_picture(uint8_t *out, hd_ctx *ctx, const char *path, const hd_picture *picture, int height,
                          int width);
