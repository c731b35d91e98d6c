/* Fitting a picture to a model's input as the digits of MNIST were made: one drawing in light grey on black, scaled
 * with its proportions into a box of 20/28 of each side, its centre of mass in the middle.
 *
 * The paper is what most of the border is; ink is whatever differs from it in the one direction, lighter or darker, in
 * which the picture's extremes lie farther away. A picture that has the input's size already is taken as fitted: only
 * its colours are made light on dark. Every number is an integer or a chain of exact double operations, so that a
 * picture gives the same bytes on every machine. */
#ifndef HD_DATA_FIT_H
#define HD_DATA_FIT_H

#include "data/png.h"

/* Fills height x width bytes. HD_E_FORMAT, naming `path`, if nothing is drawn on the picture. */
hd_status hd__fit_picture(uint8_t *out, hd_ctx *ctx, const char *path, const hd_picture *picture, int height,
                          int width);

#endif
