/* JSON as text, for everything that heddle writes: as jansson's dump functions, with numbers in their shortest form,
 * whichever version of jansson there is. A real number keeps a point or an exponent, and so stays one. */
#pragma once

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "base/tools_api.h"

/* `flags` are those of json_dumps. The caller frees the text with free; NULL: out of memory, or invalid UTF-8. */
HD_TOOLS_API char *hd__json_dump(const json_t *value, size_t flags);

/* As heddle wrote it up to 0.2.0: real numbers have 17 digits. */
char *hd__json_dump_long(const json_t *value, size_t flags);

/* 0, or -1 if there is no text or it could not be written. */
int hd__json_write(FILE *to, const json_t *value, size_t flags);

/* A number that was computed as a float, in the text of a float. */
json_t *hd__json_of_float(float value);

/* A square matrix of counts as a list of its rows. */
json_t *hd__json_matrix(const int64_t *count, int32_t side);
