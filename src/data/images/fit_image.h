/* Fits a picture to a model's input as the digits of MNIST were prepared: one drawing in light grey on black, scaled
 * with its proportions into a box of 20/28 of each side, its centre of mass in the middle.
 *
 * The paper is the median of the border; ink is the difference from it in one direction, lighter or darker, the one
 * in which the picture's extreme lies farther away. A picture of the input's size is not scaled: only its colours
 * are made light on dark. Every number is an integer or a chain of exact double operations, so the bytes are the
 * same on every machine. */
#pragma once

#include "data/images/image_file.h"

/* Fills height x width bytes. HD_E_FORMAT, naming `path`, if the picture is blank. */
hd_status hd__fit_picture(uint8_t *out, hd_ctx *ctx, const char *path, const hd_picture *picture, int height,
                          int width);
