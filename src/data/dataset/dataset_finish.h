/* What follows once a format has filled a data set, the same for every format. */
#pragma once

#include "data/dataset/dataset.h"

/* All of it: the requested fold and classes, limits of every data set, unreadable samples and the cache, statistics,
 * rows normalised by columns, notes. */
hd_status hd__dataset_finish(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request);

/* ---- Its parts ---- */

/* HD_E_FORMAT for a name of a class that is no UTF-8, or that two classes have; those of a text are its tokens. */
hd_status hd__dataset_check_names(const hd_dataset *data, hd_ctx *ctx);

/* Changes labels, or masks, to the numbers that their classes have in a run, by name; owned[s] is memory that the
 * caller frees, after a failure too, or NULL: labels are unchanged. Labels without names are unchanged. HD_E_FORMAT for
 * a class that the run does not have. */
hd_status hd__dataset_match_classes(int32_t *owned[2], hd_dataset *data, hd_ctx *ctx, const char *path,
                                    const hd_class_names *names, int ignored);

/* Adds notes on classes without training samples and, if the set was divided, with fewer than two to test. */
hd_status hd__dataset_note_classes(hd_dataset *data, hd_ctx *ctx, const char *name);
