/* The table of formats, and opening a data set by it. */
#pragma once

#include "data/dataset/format.h"

#define FORMAT(name) extern const hd_format hd__format_##name;
#include "data/formats/formats.def"

/* Opens both splits, by the first format of the table that accepts request->name. */
hd_status hd__dataset_open(hd_dataset **out, hd_ctx *ctx, const hd_dataset_request *request);

/* Whether hd__format_named has a set of this name. */
bool hd__dataset_is_published(const char *name);
