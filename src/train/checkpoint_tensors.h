/* What a checkpoint's files hold, by name: weights, what batch norms count, optimizer states, counters; and the digest.
 *
 *   model.safetensors   NAME of each parameter, in file order; LAYER.num_batches_tracked beside running statistics
 *   state.safetensors   the counters as scalars; NAME.STATE of each parameter that is trained
 *
 * Names are PyTorch's. A description points into memory of the caller's; only the names are its own. */
#ifndef HD_TRAIN_CHECKPOINT_TENSORS_H
#define HD_TRAIN_CHECKPOINT_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/safetensors.h"
#include "exec/store.h"
#include "sys/file.h"

/* What a resumed run must know beside the tensors. */
typedef struct hd_counters {
  int64_t step;          /* done */
  double epoch_loss_sum; /* of the epoch under way */
  double epoch_divisor;  /* what their mean divides by */
  double best_score;     /* of the checkpoint that `best` names, more is better, -infinity for none */
  int64_t stale_epochs;  /* since the epoch with the lowest loss, for --patience */
  double best_loss;      /* that loss, infinite before the first */
} hd_counters;

enum { HD_COUNTERS = 6, HD_CHECKSUM_BYTES = 17 };

typedef struct hd_counter {
  const char *name;
  hd_st_type type;
  size_t offset; /* in hd_counters */
} hd_counter;

extern const hd_counter hd__counter_table[HD_COUNTERS];

/* The name of an optimizer's state: "exp_avg", "momentum_buffer". */
const char *hd__tensors_state_name(hd_op update, int state);

/* Adds `what` under a name that it takes over; a name of NULL is out of memory. */
hd_status hd__tensors_add(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_st_tensor *what, char *name);

/* Adds the weights in `ordered` (file order, entries at their offsets), further names of theirs, and to running
 * statistics the number of batches that they have seen, which PyTorch keeps beside them: at most 2 per entry. */
hd_status hd__tensors_add_weights(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                  const float *ordered, const int64_t *batches);

/* Adds one optimizer state; what is not trained has none. */
hd_status hd__tensors_add_state(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                const float *ordered, const char *suffix);

void hd__tensors_free_names(hd_st_tensor *tensor, int count);

/* From home order to file order, all of a version's weights or of one state. */
void hd__tensors_order(float *ordered, const float *home, const hd_directory *d, bool state);

/* Where the weights (0) and the states (from 1 up) of a saved version start, in floats. */
int64_t hd__tensors_part(const hd_directory *d, int part);

/* Is it the name of what a batch norm counts? */
bool hd__tensors_counts_batches(const char *name);

/* A file's checksum as run.json has it. */
void hd__checksum_text(char text[HD_CHECKSUM_BYTES], const hd_mapping *file);

/* The digest of the last whole version. */
hd_status hd__checkpoint_digest(char hex[65], hd_ctx *ctx, const hd_store *store);

#endif
