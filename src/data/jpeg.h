/* JPEG files as planes of bytes, with libjpeg-turbo.
 *
 * Its exact integer transform gives the same bytes with every instruction set; another library may decode
 * otherwise. A file is a stranger's: what is damaged or cut short is refused, and so is a picture beyond the limits
 * of png.h or one of more than 500 scans, which would take minutes. */
#ifndef HD_DATA_JPEG_H
#define HD_DATA_JPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* What the header says: size gets height and width, *grey whether there is one channel. */
hd_status hd__jpeg_head(int size[2], bool *grey, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length);

/* Fills 1 (brightness) or 3 planes of the size that the header says. */
hd_status hd__jpeg_read(uint8_t *planes, int channels, hd_ctx *ctx, const char *path, const uint8_t *bytes,
                        size_t length);

#endif
