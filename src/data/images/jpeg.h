/* JPEG files as planes of bytes, with libjpeg-turbo.
 *
 * Its exact integer transform gives the same bytes with every instruction set; another library may decode otherwise.
 * Input files are untrusted: damaged or truncated ones are refused, and so are pictures beyond the limits of png.h
 * or with more than 500 scans, which would take minutes. */
#ifndef HD_DATA_IMAGES_JPEG_H
#define HD_DATA_IMAGES_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Reads the header: size gets height and width, *grey whether there is one channel. */
hd_status hd__jpeg_head(int size[2], bool *grey, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length);

/* Fills 1 (brightness) or 3 planes of a size, which must be the header's. */
hd_status hd__jpeg_read(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const char *path,
                        const uint8_t *bytes, size_t length);

#endif
