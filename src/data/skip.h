/* Samples that cannot be read, where a run goes on without them.
 *
 * The next sample of the split's order that can be read, behind the last the first, stands for one that cannot, with
 * its label: training goes on as if the one file were a copy of the other. Evaluation leaves it out (train/target.h).
 *
 * Opening a set reads every sample, so that sizes, labels, statistics and checksums are those with the stand-ins. What
 * fails only later is found by whoever reads it, and has its stand-in too; either follows from the samples alone, not
 * from who reads them in which order. Marks are never taken back. Processes that share the reading share the marks. */
#ifndef HD_DATA_SKIP_H
#define HD_DATA_SKIP_H

#include "data/dataset.h"

typedef struct hd_skips hd_skips;

/* Reads every sample of a split that is not in memory, and makes it one that skips: labels, targets, elements and key
 * are from now on those with the stand-ins. Fails, with what the first sample said, if none can be read. */
hd_status hd__skips_find(hd_skips **out, hd_dataset *split, hd_ctx *ctx);
void hd__skips_destroy(hd_skips *skips); /* NULL allowed */

/* Marks in memory that several processes map, zeroed: what one of them finds, all know and count, each sample once. The
 * bytes that it takes, 0 where nothing is skipped; and moving there, before others read the split. */
size_t hd__skips_bytes(const hd_dataset *split);
void hd__skips_share(const hd_dataset *split, void *memory);

/* The first `most` samples with a mark, in order; returns how many. And marks one, which another process could not
 * read. */
int64_t hd__skips_list(int64_t *sample, const hd_dataset *split, int64_t most);
void hd__skips_mark(const hd_dataset *split, int64_t sample);

/* hd__dataset_get of *sample, or of what stands for it, which *sample then is. */
hd_status hd__skips_get(void *elems, int size[2], hd_ctx *ctx, const hd_dataset *split, int64_t *sample);

/* Whether a sample could not be read, and how many could not. */
bool hd__skips_has(const hd_dataset *split, int64_t sample);
int64_t hd__skips_count(const hd_dataset *split);

#endif
