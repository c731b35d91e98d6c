/* Winograd's tiles: sizes, and the points that their transforms are made of.
 *
 * A transform along an axis takes polynomials at 0, a, -a, b, -b and infinity. With a = 5/8 and b = 3/2 all constants
 * of the transforms of patches and tiles are exact, and errors are half as large as with 1 and 2; after Barabasz,
 * Anderson, Soodhalter and Gregg, "Error analysis and improving the accuracy of Winograd convolution for deep neural
 * networks", 2020. */
#pragma once

/* A line of a patch has 6 values. A tile has up to 4 x 4 outputs, in lines of 4, a kernel up to 5 x 5 taps. */
enum { WINOGRAD_LINE = 6, WINOGRAD_PLACES = 36, WINOGRAD_SIDE = 4, WINOGRAD_OUTPUTS = 16, WINOGRAD_TAPS = 25 };

#define WINOGRAD_A 0.625
#define WINOGRAD_B 1.5
#define WINOGRAD_A2 (WINOGRAD_A * WINOGRAD_A)
#define WINOGRAD_B2 (WINOGRAD_B * WINOGRAD_B)
#define WINOGRAD_A3 (WINOGRAD_A2 * WINOGRAD_A)
#define WINOGRAD_B3 (WINOGRAD_B2 * WINOGRAD_B)
#define WINOGRAD_A4 (WINOGRAD_A2 * WINOGRAD_A2)
#define WINOGRAD_B4 (WINOGRAD_B2 * WINOGRAD_B2)
#define WINOGRAD_SUM (WINOGRAD_A2 + WINOGRAD_B2)
#define WINOGRAD_PRODUCT (WINOGRAD_A2 * WINOGRAD_B2)
/* One by the product of a point's differences from the others: at 0, at a and -a, at b and -b. */
#define WINOGRAD_N0 (1 / WINOGRAD_PRODUCT)
#define WINOGRAD_NA (1 / (2 * WINOGRAD_A2 * (WINOGRAD_A2 - WINOGRAD_B2)))
#define WINOGRAD_NB (1 / (2 * WINOGRAD_B2 * (WINOGRAD_B2 - WINOGRAD_A2)))
