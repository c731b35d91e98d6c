/* `digits`, the built-in data set: synthetic handwriting, drawn on demand without files.
 *
 * 60,000 training and 10,000 test images of 28x28 pixels, white ink on black, the digit in a box of about 20x20 around
 * its centre of mass. Each sample is a variant of its digit (data/digits.strokes) with random slant, rotation,
 * proportions, size, place, smooth distortion, offsets of points, and thickness and pressure of the pen. Sample i of
 * a split depends on the split and on i alone, so any thread may draw any range; the bits are the same on every
 * machine.
 *
 * The set has no seed: it is fixed, like one from a file. */
#pragma once

#include <stdint.h>

enum { HD_DIGITS_SIDE = 28, HD_DIGITS_TRAIN = 60000, HD_DIGITS_TEST = 10000 };

/* Draws samples [first, first + count) of split 0 (training) or 1 (test): count * 28 * 28 bytes and count labels.
 * Thread-safe. Samples beyond the split's size can be drawn too and belong to no split. */
void hd__digits_render(uint8_t *images, uint8_t *labels, int split, int64_t first, int64_t count);
