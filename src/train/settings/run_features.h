/* Features of a table (data/tables/features.h) as they stand in run.json:
 *
 *     {"columns": 3, "label": "price", "of": [{"column": "area", "place": 0, "mean": 71.5, "std": 12.25, "fill": 71.5},
 *      {"column": "area", "place": 0, "empty": true, ...}, {"column": "town", "place": 1, "category": "Ulm", ...}]}
 *
 * Several columns of labels are "targets": [{"column": "kind", "classes": ["cat", "dog"]}, {"column": "size"}]. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "data/tables/features.h"

json_t *hd__features_json(const hd_features *features); /* NULL without memory */

/* Reads them; false: they do not have this form, or there is no memory. The caller releases them, also after a
 * failure. */
bool hd__features_read(hd_features *out, const json_t *from);
