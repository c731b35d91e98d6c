/* Unreadable samples that a run skips.
 *
 * The next readable sample in the split's order, cyclically, is the stand-in of an unreadable one, with its label:
 * training continues as if one file were a copy of the other. Those of a validation set stand in for each other only.
 * Evaluation leaves unreadable samples out
 * (train/records/loss_score.h).
 *
 * Opening a set reads every sample, so that sizes, labels, statistics and checksums are those with the stand-ins. A
 * sample that fails only later is marked by the reading thread, and gets a stand-in too; stand-ins depend on the
 * samples alone, not on threads or the order of reading. Marks are never cleared. Processes that share the reading
 * share the marks. */
#pragma once

#include "data/split/split.h"

typedef struct hd_skips hd_skips;

/* Reads every sample of a split that is not in memory, and makes it skip unreadable ones: labels, targets, elements
 * and key become those with the stand-ins. Fails, with the first sample's message, if none can be read. */
hd_status hd__skips_find(hd_skips **out, hd_split *split, hd_ctx *ctx);
void hd__skips_destroy(hd_skips *skips); /* NULL allowed */

/* Marks in memory that several processes map, zeroed: a mark of one process is seen by all, and each sample counts
 * once. The required bytes, 0 if the split does not skip; and moving the marks there, before other threads read the
 * split. */
size_t hd__skips_bytes(const hd_split *split);
void hd__skips_share(const hd_split *split, void *memory);

/* The first `most` marked samples, in order; returns their number. And marks a sample that another process could not
 * read. */
int64_t hd__skips_list(int64_t *sample, const hd_split *split, int64_t most);
void hd__skips_mark(const hd_split *split, int64_t sample);

/* hd__split_get of *sample, or of its stand-in, which *sample is set to. */
hd_status hd__skips_get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t *sample);

/* Whether a sample is marked, and the number of marked ones. */
bool hd__skips_has(const hd_split *split, int64_t sample);
int64_t hd__skips_count(const hd_split *split);

/* All that could not be read: those, and the ones that are none of the samples. */
int64_t hd__skips_unread(const hd_split *split);
