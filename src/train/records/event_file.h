/* Event files for TensorBoard: scalars by step, and pictures.
 *
 * A file is a sequence of records: the length of the data (u64), CRC-32C of these 8 bytes, the data, CRC-32C of the
 * data, each CRC masked. Data is an Event of TensorFlow's event.proto, in the encoding of protocol buffers. Numbers are
 * little-endian. */
#pragma once

#include <stdint.h>

#include "base/status.h"

typedef struct hd_event_file hd_event_file;

/* Makes a new file in a folder, which is made too. step: from which the run goes on; TensorBoard then drops later steps
 * of earlier files. */
hd_status hd__events_open(hd_event_file **out, hd_ctx *ctx, const char *folder, int64_t step);

/* Adds a value, nothing if it is NAN or `events` is NULL; written at once, so that TensorBoard sees it. A failure is
 * kept until hd__events_check. */
void hd__events_scalar(hd_event_file *events, int64_t step, const char *tag, double value);

/* Adds a PNG file. */
void hd__events_picture(hd_event_file *events, int64_t step, const char *tag, const char *png);

/* Fails if something could not be written. */
hd_status hd__events_check(const hd_event_file *events, hd_ctx *ctx);
void hd__events_close(hd_event_file *events); /* NULL allowed */
