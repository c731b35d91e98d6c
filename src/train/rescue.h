/* What it takes to save a run without its session: in memory that the ranks' parent shares, beside the weights.
 *
 * A step's closing meeting makes a version count; what is counted with it was written before, to the place of the
 * version's parity. So whenever the ranks end, even all at once, their parent finds the last whole version with its
 * counters, and saves it as the session would have. */
#ifndef HD_TRAIN_RESCUE_H
#define HD_TRAIN_RESCUE_H

#include <jansson.h>
#include <stdbool.h>

#include "comm/world.h"
#include "train/checkpoint_tensors.h"

typedef struct hd_rescue hd_rescue;

/* All ranks of a world; what rank 0 gives is taken: the run's folder, which exists, how many checkpoints to keep, and
 * the run's record. *out is NULL in a world alone, which every call below allows. */
hd_status hd__rescue_open(hd_rescue **out, hd_ctx *ctx, hd_world *world, const char *run, int keep, hd_op update,
                          const json_t *record);
void hd__rescue_close(hd_rescue *rescue);

/* All ranks: what version counters->step, which is about to count, or does already, will be saved with. */
void hd__rescue_note(hd_rescue *rescue, const hd_counters *counters);

/* When the ranks have ended, or by the one that looks after what they leave: saves the last whole version into the run,
 * unless it is there; *step is which, `run` the folder, and *wrote (may be NULL) whether it was not there. HD_E_USAGE if
 * the ranks shared no run yet: then there is nothing to save. */
hd_status hd__rescue_save(int64_t *step, char run[HD_PATH_BYTES], bool *wrote, hd_ctx *ctx, hd_world *world);

#endif
