/* Checkpoints: finding and reading a version of the weights and the optimizer on disk. saver.h writes them.
 *
 *     RUN/run.json   RUN/metrics.jsonl   RUN/last -> step-500   RUN/best
 *     RUN/step-500/{model,state}.safetensors, run.json
 *
 * A checkpoint's run.json holds the checksums of the two other files, so that a bit flipped on the disk is detected. */
#pragma once

#include <jansson.h>

#include "train/checkpoint/checkpoint_tensors.h"

/* The folder that holds model.safetensors: `path` itself or path/last, links followed. */
hd_status hd__checkpoint_find(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *path);

/* Reads a checkpoint's run.json; the caller owns it. */
hd_status hd__checkpoint_record(json_t **out, hd_ctx *ctx, const char *folder);

/* Loads weights from a safetensors file, which must hold exactly the store's parameters, into the last whole version;
 * the caller packs them. `record` is the record of the checkpoint that holds this model.safetensors: the file must have
 * the checksum stated there. NULL for a file outside of a checkpoint. */
hd_status hd__checkpoint_load_weights(hd_store *store, hd_ctx *ctx, const char *path, const json_t *record);

/* Loads counters and optimizer states from folder/state.safetensors, which must have the record's checksum. The step
 * counted becomes the store's version; weights are loaded afterwards, into that version. */
hd_status hd__checkpoint_load_state(hd_store *store, hd_counters *counters, hd_ctx *ctx, hd_op update,
                                    const char *folder, const json_t *record);

/* Whether a tensor may be stored in model.safetensors: floats, or a batch norm's count of batches. */
bool hd__checkpoint_holds(const hd_st_tensor *tensor);
