/* losses.bin: the loss of each step of a run, the sum over its batch before the update, 8 bytes a step (a double,
 * little-endian). Equal runs have equal files, however they were laid out, interrupted and resumed.
 *
 * The file is mapped, and a step's loss is stored before the step counts: every step that can be saved has its loss,
 * however the process ends. The file may be longer than the run; entries after the last saved step are written again.
 * If a run was resumed without the file of its earlier steps, these have NAN.
 *
 * divisors.bin: by what each of these sums is divided to be a mean, of the same form, where that does not follow from
 * the number of samples: with weights of samples or of classes, and where labels are ignored. */
#pragma once

#include <stdint.h>

#include "base/digest.h"
#include "platform/file.h"

typedef struct hd_losses {
  int fd;
  double *sum;  /* or divisor; NULL: none are kept */
  int64_t room; /* steps */
  char path[HD_PATH_BYTES];
} hd_losses;

/* Opens the file of a run that has `steps` steps, which are copied from the file in `from`: the same folder, or the
 * run's earlier one. */
hd_status hd__losses_open(hd_losses *out, hd_ctx *ctx, const char *run, const char *from, int64_t steps);

/* The same for the divisors; if they are not kept, a file that is no part of the run is removed. */
hd_status hd__divisors_open(hd_losses *out, hd_ctx *ctx, const char *run, const char *from, int64_t steps, bool kept);

/* Makes room on the disk for this many steps. */
hd_status hd__losses_reserve(hd_losses *losses, hd_ctx *ctx, int64_t steps);

/* Stores the loss of a step, counted from 0, for which there is room. */
static inline void hd__losses_note(hd_losses *losses, int64_t step, double sum) {
  if (losses->sum)
    losses->sum[step] = sum;
}

/* Cuts the file to this many steps and closes it; does nothing if none is open. */
void hd__losses_close(hd_losses *losses, int64_t steps);

/* Syncs the losses of a run to the disk and writes SHA-256 of the first `steps`; "" if the file is absent or
 * shorter. */
hd_status hd__losses_digest(char hex[HD_SHA256_HEX_BYTES], hd_ctx *ctx, const char *run, int64_t steps);

/* The losses of a run; their number follows from the file's length. An empty mapping for an absent file. */
hd_status hd__losses_map(hd_mapping *out, hd_ctx *ctx, const char *run);
hd_status hd__divisors_map(hd_mapping *out, hd_ctx *ctx, const char *run);
