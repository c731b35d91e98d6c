/* Comparing the files of two runs that should be equal. `what` receives the first difference: expected, found. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"

/* Whether a run's record states other settings, another model or an unknown version of the arithmetic. of_run: it is
 * the run's own, not that of a checkpoint, after which the run's end may have been moved. */
bool hd__compare_records(char *what, size_t bytes, const json_t *certificate, const json_t *record, bool of_run);

typedef struct hd_file_pair {
  const char *claimed, *found;
  bool other_end; /* one of the runs may have been evaluated, as at an end, at a step at which the other was not:
                   * counters of evaluations may differ */
  bool same_data; /* the records state the same data, wherever they are */
} hd_file_pair;

/* Weights, optimizer states and counters of two checkpoints, and what their records state of the data. */
hd_status hd__compare_checkpoints(bool *differs, char *what, size_t bytes, hd_ctx *ctx, const hd_file_pair *pair);

/* Lines of metrics.jsonl, without what time measures. A run without the file claims nothing. Of a run that was resumed,
 * those that both have, since its rhythm may have changed. */
hd_status hd__compare_metrics(bool *differs, char *what, size_t bytes, hd_ctx *ctx, const char *claimed,
                              const char *found);

/* The last lines of history.jsonl, without what time measures, in the entries that both have. */
hd_status hd__compare_ends(bool *differs, char *what, size_t bytes, hd_ctx *ctx, const char *claimed,
                           const char *found);

/* Removes a run's folder, checkpoints included; for clean-up, silent. */
void hd__remove_run(const char *folder);
