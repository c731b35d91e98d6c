/* The checkpoints of a run: its folders step-N, each with model.safetensors, state.safetensors and run.json, and the
 * links `last` and `best` to two of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "platform/file.h"

/* Whether this is the name of a checkpoint, and its step; only the canonical name counts, not "step-07". */
bool hd__steps_parse(int64_t *step, const char *name);

/* Whether this is the name of a checkpoint in its run: step-N, or the name of a link. */
bool hd__steps_names(const char *name);

/* Whether a checkpoint has a file of this name. */
bool hd__steps_is_file(const char *name);

/* Whether a folder holds the files of a checkpoint and nothing else; false for a link to such a folder. */
bool hd__steps_is_whole(const char *path);

/* RUN/step-N. */
hd_status hd__steps_path(char path[HD_PATH_BYTES], hd_ctx *ctx, const char *run, int64_t step);

/* Whether RUN/step-N was saved: its record is there. */
bool hd__steps_has(const char *run, int64_t step);

/* The steps of a run's checkpoints, oldest first; the caller frees the list. NULL if there are none, and when out of
 * memory. */
int64_t *hd__steps_list(int *count, const char *run);

/* The step of a run's newest checkpoint, -1 for none. */
int64_t hd__steps_newest(const char *run);

/* Where a run continues from: its folder, its newest checkpoint where `last` is missing, or "" where it has none. */
HD_TOOLS_API hd_status hd__steps_resumed(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *run);

/* Makes RUN/LINK, "last" or "best", name step-N. */
hd_status hd__steps_link(hd_ctx *ctx, const char *run, const char *link, int64_t step);

/* The step that a link of the run names, -1 for none. */
int64_t hd__steps_linked(const char *run, const char *link);

/* Removes a checkpoint that could not be written; also by the names of its files, since without free descriptors no
 * folder can be listed. */
void hd__steps_remove(const char *folder);
