/* Writing event files: see event_file.h. */
#include "train/records/event_file.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "platform/file.h"

struct hd_event_file {
  FILE *to;
  int failed; /* errno */
  char path[HD_PATH_BYTES];
  uint32_t crc[256];
};

/* Fields of the messages, with their wire types: 0 a number of variable length, 1 eight bytes, 2 a length and bytes, 5
 * four bytes. */
enum {
  EVENT_TIME = 1 << 3 | 1,
  EVENT_STEP = 2 << 3,
  EVENT_VERSION = 3 << 3 | 2,
  EVENT_SUMMARY = 5 << 3 | 2,
  EVENT_SESSION = 7 << 3 | 2,
  SESSION_STATUS = 1 << 3,
  SESSION_START = 1,
  SUMMARY_VALUE = 1 << 3 | 2,
  VALUE_TAG = 1 << 3 | 2,
  VALUE_NUMBER = 2 << 3 | 5,
  VALUE_PICTURE = 4 << 3 | 2,
  PICTURE_HEIGHT = 1 << 3,
  PICTURE_WIDTH = 2 << 3,
  PICTURE_CHANNELS = 3 << 3,
  PICTURE_BYTES = 4 << 3 | 2
};

/* ---- Messages ---- */

/* A message that grows; each is the last field of the one around it. */
typedef struct message {
  unsigned char *bytes;
  size_t length, room;
  bool is_cut; /* there was no memory for all of it */
} message;

static void add(message *m, const void *bytes, size_t length) {
  if (m->length + length > m->room) {
    const size_t room = 2 * (m->length + length);
    unsigned char *more = hd__realloc(m->bytes, room);
    m->is_cut |= !more;
    if (!more)
      return;
    m->bytes = more;
    m->room = room;
  }
  memcpy(m->bytes + m->length, bytes, length);
  m->length += length;
}

static void add_varint(message *m, uint64_t value) {
  for (; value >= 128; value >>= 7)
    add(m, &(unsigned char){(unsigned char)(value | 128)}, 1);
  add(m, &(unsigned char){(unsigned char)value}, 1);
}

static void add_number(message *m, int field, uint64_t value) {
  add_varint(m, (uint64_t)field);
  add_varint(m, value);
}

static void add_bytes(message *m, int field, const void *bytes, size_t length) {
  add_number(m, field, length);
  add(m, bytes, length);
}

/* Puts a field's number and the length in front of the message, and releases it. */
static void add_message(message *m, int field, message *inner) {
  add_bytes(m, field, inner->bytes, inner->length);
  m->is_cut |= inner->is_cut;
  hd__free(inner->bytes);
}

static message begin_event(int64_t step) {
  struct timespec now;
  message m = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  const double time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  add_varint(&m, EVENT_TIME);
  add(&m, &time_s, sizeof time_s);
  add_number(&m, EVENT_STEP, (uint64_t)step);
  return m;
}

/* ---- Records ---- */

static void make_table(uint32_t crc[256]) {
  for (uint32_t i = 0; i < 256; i++) {
    crc[i] = i;
    for (int bit = 0; bit < 8; bit++)
      crc[i] = crc[i] >> 1 ^ (crc[i] & 1 ? 0x82f63b78u : 0); /* Castagnoli's polynomial */
  }
}

static uint32_t masked_crc(const hd_event_file *events, const void *bytes, size_t length) {
  const unsigned char *at = bytes;
  uint32_t crc = ~0u;
  for (size_t i = 0; i < length; i++)
    crc = crc >> 8 ^ events->crc[(crc ^ at[i]) & 255];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Writes an event and releases it. */
static void end_event(hd_event_file *events, message *m) {
  if (m->is_cut) {
    events->failed = events->failed ? events->failed : ENOMEM;
    hd__free(m->bytes);
    return;
  }
  const uint64_t length = m->length;
  const uint32_t of_length = masked_crc(events, &length, sizeof length), of_data = masked_crc(events, m->bytes, length);
  fwrite(&length, sizeof length, 1, events->to);
  fwrite(&of_length, sizeof of_length, 1, events->to);
  fwrite(m->bytes, 1, length, events->to);
  fwrite(&of_data, sizeof of_data, 1, events->to);
  if (fflush(events->to) != 0 && !events->failed)
    events->failed = errno;
  hd__free(m->bytes);
}

static void add_value(hd_event_file *events, int64_t step, message *value) {
  message summary = {0}, event = begin_event(step);
  add_message(&summary, SUMMARY_VALUE, value);
  add_message(&event, EVENT_SUMMARY, &summary);
  end_event(events, &event);
}

/* ---- Files ---- */

static hd_status open_file(hd_event_file *events, hd_ctx *ctx, const char *folder) {
  char host[65] = "", name[160];
  gethostname(host, sizeof host - 1);
  HD_TRY(hd__file_make_folder(ctx, folder));
  snprintf(name, sizeof name, "events.out.tfevents.%lld.%s.%d", (long long)time(NULL), host, (int)getpid());
  HD_TRY(hd__file_join(events->path, ctx, folder, name));
  events->to = fopen(events->path, "wxe");
  if (!events->to)
    return hd__fail(ctx, HD_E_IO, "%s: cannot create a new file: %s; choose another --tensorboard", events->path,
                    strerror(errno));
  return HD_OK;
}

static void begin_file(hd_event_file *events, int64_t step) {
  static const char version[] = "brain.Event:2";
  message event = begin_event(0), session = {0};
  add_bytes(&event, EVENT_VERSION, version, strlen(version));
  end_event(events, &event);
  if (step == 0)
    return;
  event = begin_event(step + 1);
  add_number(&session, SESSION_STATUS, SESSION_START);
  add_message(&event, EVENT_SESSION, &session);
  end_event(events, &event);
}

hd_status hd__events_open(hd_event_file **out, hd_ctx *ctx, const char *folder, int64_t step) {
  hd_event_file *events = *out = hd__calloc(1, sizeof *events);
  HD_TRY(HD_ALLOCATED(events, ctx, "out of memory for TensorBoard's file"));
  make_table(events->crc);
  hd_status status = open_file(events, ctx, folder);
  if (status == HD_OK) {
    begin_file(events, step);
    status = hd__events_check(events, ctx);
  }
  return HD_CREATED(status, out, hd__events_close);
}

void hd__events_scalar(hd_event_file *events, int64_t step, const char *tag, double number) {
  const float single = (float)number;
  message value = {0};
  if (!events || isnan(number))
    return;
  add_bytes(&value, VALUE_TAG, tag, strlen(tag));
  add_varint(&value, VALUE_NUMBER);
  add(&value, &single, sizeof single);
  add_value(events, step, &value);
}

/* A number of a PNG's header, which is big-endian. */
static uint32_t of_header(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void hd__events_picture(hd_event_file *events, int64_t step, const char *tag, const char *png) {
  enum { WIDTH = 16, HEIGHT = 20, HEADER = 33, COLOURS = 3 };
  HD_MAPPED file = {0};
  hd_ctx quiet = {0};
  message picture = {0}, value = {0};
  if (!events || hd__file_map(&file, &quiet, png) != HD_OK || file.length < HEADER)
    return;
  add_number(&picture, PICTURE_HEIGHT, of_header(file.bytes + HEIGHT));
  add_number(&picture, PICTURE_WIDTH, of_header(file.bytes + WIDTH));
  add_number(&picture, PICTURE_CHANNELS, COLOURS);
  add_bytes(&picture, PICTURE_BYTES, file.bytes, file.length);
  add_bytes(&value, VALUE_TAG, tag, strlen(tag));
  add_message(&value, VALUE_PICTURE, &picture);
  add_value(events, step, &value);
}

hd_status hd__events_check(const hd_event_file *events, hd_ctx *ctx) {
  if (!events || !events->failed)
    return HD_OK;
  return hd__fail(ctx, HD_E_IO, "%s: cannot write it: %s; free some space, or choose another --tensorboard",
                  events->path, strerror(events->failed));
}

void hd__events_close(hd_event_file *events) {
  if (!events)
    return;
  if (events->to)
    fclose(events->to);
  hd__free(events);
}
