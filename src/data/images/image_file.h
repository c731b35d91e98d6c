/* Picture files as samples: PNG or JPEG, detected by their first bytes, as planes of bytes.
 *
 * Transparency and the camera's orientation are ignored; 16-bit channels are scaled to 8. */
#ifndef HD_DATA_IMAGES_IMAGE_FILE_H
#define HD_DATA_IMAGES_IMAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/images/png.h"

typedef struct hd_photo_head {
  int size[2]; /* height, width */
  bool grey;
} hd_photo_head;

/* Reads the header; the rest may still be damaged. */
hd_status hd__photo_head(hd_photo_head *out, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length);

/* Fills 1 or 3 planes. HD_E_FORMAT if the picture has not this size. */
hd_status hd__photo_read(uint8_t *planes, int channels, const int size[2], hd_ctx *ctx, const char *path,
                         const uint8_t *bytes, size_t length);

/* A whole file as a picture of its size; without transparency if it is a JPEG. */
hd_status hd__photo_picture(hd_picture *out, hd_ctx *ctx, const char *path);

#endif
