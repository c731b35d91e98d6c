/* Certificates: what a run claims, in one JSON object.
 *
 *   certificate          1, the version of this list
 *   arithmetic_version, model_yaml
 *   settings             those that define the result, as in run.json, and where its data and initial weights were
 *   data                 train_samples, test_samples; sha256: of the samples and of the labels of both splits
 *   init_sha256          of the initial weights, with --init
 *   steps                of the run
 *   chain                [{"step", "sha256"}], every 1/MARKS of the steps and at the last one: SHA-256 of the entry
 *                        before (its 64 digits) and of the losses from there to the step, as losses.bin has them
 *   weights_sha256       at the end
 *   result               train_loss, val_loss, val_accuracy, test_loss, test_accuracy, wrong
 *
 * Everything in it is compared, except the names of files, which say where a model, data and first weights were. Other
 * entries are refused (certificate_schema.h), and a file must be byte for byte as it is written here. */
#pragma once

#include <jansson.h>

#include "data/dataset/dataset.h"
#include "platform/file.h"
#include "train/checkpoint/losses.h"
#include "train/settings/config.h"

enum { HD_CERTIFICATE_VERSION = 1, HD_CERTIFICATE_MARKS = 64 };

/* A chain of digests over losses. */
typedef struct hd_loss_chain {
  hd_sha256 *sha;
  char entry[HD_SHA256_HEX_BYTES]; /* the last one; "" before the first */
} hd_loss_chain;

hd_status hd__chain_add(hd_loss_chain *chain, hd_ctx *ctx, const double *sum, int64_t steps);

/* Completes an entry. */
hd_status hd__chain_mark(hd_loss_chain *chain, hd_ctx *ctx);
void hd__chain_fini(hd_loss_chain *chain);

enum { HD_CHANGED_BYTES = 1024 };

/* The certificate of a run, from its files; the caller owns it. Losses other than those with which the run ended are an
 * error, which is in `changed`, too ("" for none); enough of them make a certificate of what the file has, if
 * `changed` is not NULL. `layout`: its data, if it names some, are read in the place of those that the run names; NULL:
 * the run's. */
hd_status hd__certificate_make(json_t **out, hd_ctx *ctx, const char *run, const hd_config *layout,
                               char changed[HD_CHANGED_BYTES]);

/* Reads a certificate's file, which must be as heddle certify writes it; the caller owns it. */
hd_status hd__certificate_read(json_t **out, hd_ctx *ctx, const char *path);

/* SHA-256 of the samples and of the labels of both splits, in the order of hd_statistics: samples one after the
 * other in planes, labels as 32-bit numbers, targets as floats. Skipped samples are left out. */
hd_status hd__data_sha256(char hex[HD_DATA_PARTS][HD_SHA256_HEX_BYTES], hd_ctx *ctx, const hd_dataset *data);

/* Opens the data of a record, or the data that the configuration names instead. */
hd_status hd__certificate_data(hd_dataset **out, hd_ctx *ctx, const json_t *record, const hd_config *config);

/* Calls `take` with each line of the run's history, and with its type, "" for a line without one. */
typedef void hd_history_fn(void *to, json_t *line, const char *type);
hd_status hd__history_lines(hd_ctx *ctx, const char *run, hd_history_fn *take, void *to);

/* The last start and the last end in a run's history.jsonl; *end is NULL for a run that was killed since its last
 * start, or still runs. The caller owns them. */
hd_status hd__history_read(json_t **start, json_t **end, hd_ctx *ctx, const char *run);

/* Whether the run was resumed, in its folder or from another one: to a later end, or with another rhythm of lines and
 * evaluations. */
hd_status hd__history_resumed(bool *resumed, hd_ctx *ctx, const char *run);
