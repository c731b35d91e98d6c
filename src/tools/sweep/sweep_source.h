/* What the runs of a sweep read: the descriptions of their models, their first weights, and their data. Files
 * may change while a sweep runs, and before it is continued; the runs of one sweep have the same. */
#pragma once

#include "tools/sweep/sweep_state.h"
#include "train/run/session.h"

/* Whether an option says what a run reads, or how: its samples, and the model that is made for them. */
bool hd__sweep_is_source(hd_option_id option);

/* Keeps what the session of a run has read, for all runs that read the same. */
hd_status hd__sweep_keep_source(hd_sweep *sweep, hd_ctx *ctx, int64_t run, const hd_session *session);

/* The settings of a run, with the description of its model as the sweep has read it, if it has. */
hd_status hd__sweep_config(hd_config **out, hd_ctx *ctx, const hd_sweep *sweep, int64_t run);

/* Checks that the run in a folder is this run: the same model, data, settings and arithmetic. A folder without a record
 * of a run passes. */
hd_status hd__sweep_check_run(const hd_sweep *sweep, hd_ctx *ctx, int64_t run, const char *folder);

/* Entries of sweep.json: the descriptions of models that are files, {FILE: TEXT}, and the hashes of the files of
 * --init. */
enum { HD_SWEEP_SOURCES = 2 };
extern const char *const hd__sweep_sources[HD_SWEEP_SOURCES];

/* Those entries, where they are not empty; the caller owns them. Another text than the one of `kept`, earlier such
 * entries, is refused. */
hd_status hd__sweep_read_sources(json_t **out, hd_ctx *ctx, const hd_sweep *sweep, const json_t *kept);
