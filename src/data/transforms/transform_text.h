/* A list of transforms as text. */
#ifndef HD_DATA_TRANSFORMS_TRANSFORM_TEXT_H
#define HD_DATA_TRANSFORMS_TRANSFORM_TEXT_H

#include <stdbool.h>

#include "base/yaml_bind.h"

/* Checks a list as far as possible without samples, and writes it as one line in canonical form. `evaluation`:
 * refuses random transforms. */
hd_status hd__transforms_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *list, bool evaluation);

#endif
