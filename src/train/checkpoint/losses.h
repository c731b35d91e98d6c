/* losses.bin: the loss of each step of a run, the sum over its batch before the update, 8 bytes a step (a double,
 * little-endian). Equal runs have equal files, however they were laid out, interrupted and resumed.
 *
 * The file is mapped and a step's loss is stored before the step counts, so that it is there for every step that can be
 * saved, whatever ends the process. It may be longer than the run: what follows the last saved step is written again. A
 * run that was resumed without the file of its earlier steps has NAN in their places. */
#pragma once

#include <stdint.h>

#include "base/digest.h"
#include "platform/file.h"

typedef struct hd_losses {
  int fd;
  double *sum;  /* NULL: none are kept */
  int64_t room; /* steps */
  char path[HD_PATH_BYTES];
} hd_losses;

/* Opens the file of a run that has `steps` steps, which are taken from the file in `from`: the same folder, or the one
 * that the run was in before. */
hd_status hd__losses_open(hd_losses *out, hd_ctx *ctx, const char *run, const char *from, int64_t steps);

/* Makes room on the disk for so many steps. */
hd_status hd__losses_reserve(hd_losses *losses, hd_ctx *ctx, int64_t steps);

/* Stores the loss of a step, counted from 0, for which there is room. */
static inline void hd__losses_note(hd_losses *losses, int64_t step, double sum) {
  if (losses->sum)
    losses->sum[step] = sum;
}

/* Cuts the file to so many steps and closes it; nothing where none is open. */
void hd__losses_close(hd_losses *losses, int64_t steps);

/* Brings the losses of a run to the disk and writes SHA-256 of the first `steps` ones; "" if the file is absent, or has
 * not all of them. */
hd_status hd__losses_digest(char hex[HD_SHA256_HEX_BYTES], hd_ctx *ctx, const char *run, int64_t steps);

/* The losses of a run, of a number of steps that follows from the file's length; an empty mapping for an absent
 * file. */
hd_status hd__losses_map(hd_mapping *out, hd_ctx *ctx, const char *run);
