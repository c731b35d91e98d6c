/* Checkpoints: finding and reading a version of the weights and the optimizer on disk. saver.h writes them.
 *
 *     RUN/run.json   RUN/metrics.jsonl   RUN/last -> step-500   RUN/best
 *     RUN/step-500/{model,state}.safetensors, run.json
 *
 * A checkpoint's run.json holds the checksums of the two other files, so that a bit flipped on the disk is detected.
 *
 *   model.safetensors   NAME of each parameter, in file order; LAYER.num_batches_tracked beside running statistics
 *   state.safetensors   the counters as scalars; NAME.STATE of each trained parameter; with --lookahead the slow
 *                       weights, NAME.slow; with --ema the trained weights, NAME.trained (model.safetensors then has
 *                       their average)
 *
 * Names are PyTorch's. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/safetensors.h"
#include "base/tools_api.h"
#include "exec/weight_store.h"
#include "platform/file.h"

/* What a resumed run needs besides the tensors. */
typedef struct hd_counters {
  int64_t step;            /* completed */
  double epoch_loss_sum;   /* of the current epoch */
  double epoch_divisor;    /* the divisor of their mean */
  double best_score;       /* of the checkpoint that `best` names, more is better, -infinity for none */
  int64_t stale_epochs;    /* since the epoch with the lowest loss, for --patience */
  double best_loss;        /* the lowest loss, infinite before the first */
  double step_loss;        /* of the step, before its update; NAN before the first */
  int64_t owes_evaluation; /* 1: the step's evaluation is still due */
  int64_t arithmetic;      /* the version of the arithmetic of the last step */
} hd_counters;

/* Fails for a run's folder in which nothing was saved, and says how to start it again. */
hd_status hd__checkpoint_check_begun(hd_ctx *ctx, const char *run);

/* The folder that holds model.safetensors: `path` itself or path/last, links followed. */
hd_status hd__checkpoint_find(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *path);

/* Reads a checkpoint's run.json; the caller owns it. */
HD_TOOLS_API hd_status hd__checkpoint_record(json_t **out, hd_ctx *ctx, const char *folder);

/* The version of the arithmetic that a record states. Whether files of that version store some elements in another
 * order, which is converted when they are loaded. */
HD_TOOLS_API int64_t hd__checkpoint_arithmetic(const json_t *record);
bool hd__checkpoint_converts(const hd_directory *directory, int64_t arithmetic);
#define HD_CHECKPOINT_CONVERTED                                                                                        \
  "version %lld of the arithmetic wrote it: the parameters of batch norms after a flattened image were put into "      \
  "PyTorch's order"

/* Steps and epochs of the runs that this one goes on from (hd_session_go_on); 0: it began. */
hd_status hd__checkpoint_note_earlier(json_t *record, hd_ctx *ctx, int64_t steps, int64_t epochs);
void hd__checkpoint_earlier(int64_t *steps, int64_t *epochs, const json_t *record);

/* Loads weights from a safetensors file or, without a record, an ONNX file, which must hold exactly the store's
 * parameters, into the last whole version; the caller packs them. `record` is the record of the checkpoint that
 * holds this model.safetensors: the file must have the checksum stated there. NULL: the file is given by itself; if
 * it lies in a checkpoint, that one's version of the arithmetic says how to read it. *arithmetic: the version that
 * wrote the file. `but`: a layer whose parameters stay as they are, whether or not the file has some; NULL: none. */
hd_status hd__checkpoint_load_weights(hd_store *store, int64_t *arithmetic, hd_ctx *ctx, const char *path,
                                      const json_t *record, const char *but);

/* Loads counters and optimizer states from folder/state.safetensors, which must have the record's checksum. The step
 * counted becomes the store's version; weights are loaded afterwards, into that version. */
hd_status hd__checkpoint_load_state(hd_store *store, hd_counters *counters, hd_ctx *ctx, const char *folder,
                                    const json_t *record);

/* Whether the files of a checkpoint have the checksums in its record; a record without any states none. */
hd_status hd__checkpoint_check_files(hd_ctx *ctx, const char *folder);

/* Whether a tensor may be stored in model.safetensors: floats, or a batch norm's count of batches. */
bool hd__checkpoint_holds(const hd_st_tensor *tensor);

/* ---- The tensors of the files: a description points into the caller's memory, and owns only the names ---- */

enum { HD_COUNTERS = 9, HD_CHECKSUM_BYTES = 17 };

typedef struct hd_counter {
  const char *name;
  hd_st_type type;
  size_t offset;      /* in hd_counters */
  bool may_be_absent; /* checkpoints of earlier versions lack it: it then keeps its initial value */
} hd_counter;

extern const hd_counter hd__counter_table[HD_COUNTERS];

/* The name of an optimizer's state: "exp_avg", "momentum_buffer". */
const char *hd__tensors_state_suffix(hd_op update, int state);

/* Instead of a state's number: the weights; what --ema and --lookahead keep beside them. */
enum { HD_WEIGHTS = -1, HD_TRAINED = -2, HD_SLOW = -3 };
enum { HD_TENSOR_NAME_BYTES = HD_NAME_BYTES + 32 };

/* HD_TRAINED or HD_SLOW. */
int hd__tensors_beside_weights(const hd_directory *d);

/* The name of a parameter's state in files: "conv1.weight.exp_avg"; with HD_WEIGHTS that of the parameter. */
void hd__tensors_state_name(char name[HD_TENSOR_NAME_BYTES], const hd_store_entry *entry, int state);

/* Adds `what` and takes over `name`; a name of NULL means out of memory. */
hd_status hd__tensors_add(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_st_tensor *what, char *name);

/* Weights, or one state, entries at their offsets: in memory order and, where the two orders differ, in file order. */
typedef struct hd_values {
  const float *memory, *file;
  const hd_st_source *const *source; /* of each entry, NULL for one that is here; NULL: all are */
} hd_values;

/* Adds weights, their aliases, and for running statistics the number of batches seen, which PyTorch keeps beside them:
 * at most 2 per entry. */
hd_status hd__tensors_add_weights(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d,
                                  hd_values values, const int64_t *batches);

/* Adds one optimizer state of the parameters that have it, or what is kept beside the weights. */
hd_status hd__tensors_add_state(hd_st_tensor *tensor, int *count, hd_ctx *ctx, const hd_directory *d, hd_values values,
                                int state);

void hd__tensors_free_names(hd_st_tensor *tensor, int count);

/* Converts from memory order to file order: all weights of a version, or one state. `file` has room for all entries;
 * only those of this host whose two orders differ are written. */
hd_values hd__tensors_order(float *file, const float *memory, const hd_directory *d, bool state,
                            const hd_st_source *const *source);

/* An entry in file order. */
const float *hd__tensors_entry(hd_values values, const hd_store_entry *entry);

/* Where the weights (0) and the states (from 1 up) of a saved version start, in floats. */
int64_t hd__tensors_offset(const hd_directory *d, int part);

/* A file's XXH3 as run.json stores it. */
void hd__checksum_text(char text[HD_CHECKSUM_BYTES], uint64_t sum);

/* The digest of the last whole version, with the number of batches that batch norms have seen. */
hd_status hd__checkpoint_digest(char hex[65], hd_ctx *ctx, const hd_store *store, int64_t batches);
