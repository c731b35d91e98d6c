/* Numbers in JSON: the shortest text that reads back as the same number, in every locale. */
#pragma once

#include <stdbool.h>

enum { HD_JSON_NUMBER_BYTES = 32 };

/* 0.1, 12345, 1e-7; "null" for NaN and infinities, which JSON has not. Powers of ten are written out from 1e-4 up to
 * 1e15. */
void hd__json_number(char text[HD_JSON_NUMBER_BYTES], double value);

/* The shortest text that reads back as the same float: 0.1, where its double would be 0.10000000149011612. */
void hd__json_float(char text[HD_JSON_NUMBER_BYTES], float value);
