/* Reading a list of transforms. */
#ifndef HD_DATA_TRANSFORMS_TRANSFORM_LIST_H
#define HD_DATA_TRANSFORMS_TRANSFORM_LIST_H

#include "data/transforms/transform_step.h"

/* Checks a sequence and its number of entries. */
hd_status hd__transforms_check(hd_ctx *ctx, const hd_yaml_node *list);

/* Reads an entry of a list: finds its row, checks its parameters. hd__step_free is called for it either way. */
hd_status hd__step_read(hd_transform_step *step, hd_ctx *ctx, const hd_yaml_node *entry);
void hd__step_free(hd_transform_step *step);

#endif
