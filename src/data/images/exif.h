/* The orientation that EXIF states: how a stored picture is turned to be upright.
 *
 *     1 as stored        2 mirrored         3 turned by 180°   4 upside down, mirrored
 *     5 transposed       6 turned by 90°    7 transposed over the other diagonal   8 turned by 270°, clockwise
 *
 * A file without a readable orientation has 1. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a TIFF structure, which PNG has in its chunk eXIf; and of a JPEG file, which has it in a segment APP1. */
int hd__exif_orientation(const uint8_t *tiff, size_t length);
int hd__exif_of_jpeg(const uint8_t *bytes, size_t length);

/* Whether rows become columns. */
static inline bool hd__exif_transposes(int orientation) { return orientation >= 5; }

/* Turns a picture of stored height and width, whose elements have `bytes` bytes each. */
void hd__exif_turn(uint8_t *to, const uint8_t *from, const int stored[2], size_t bytes, int orientation);
