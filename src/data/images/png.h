/* PNG files as pictures in memory: any size up to the limits below, every colour type, bit depth and interlacing.
 *
 * Input files are untrusted: what libpng refuses gives HD_E_FORMAT with one line, and pictures larger than the
 * limits are refused. Gamma and colour profiles are left alone. */
#ifndef HD_DATA_IMAGES_PNG_H
#define HD_DATA_IMAGES_PNG_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { HD_PNG_MAX_SIDE = 32768, HD_PNG_MAX_PIXELS = 1 << 26 };

typedef struct hd_picture {
  int width, height;
  uint8_t *rgba; /* height x width x 4, alpha not premultiplied; release with hd__picture_fini */
} hd_picture;

/* Reads a file's bytes; `path` is for messages. */
hd_status hd__png_parse(hd_picture *out, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length);

void hd__picture_fini(hd_picture *picture);

#endif
