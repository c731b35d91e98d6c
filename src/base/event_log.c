/* Writes events: see event_log.h. */
#include "base/event_log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text_buffer.h"

enum { LINE_BYTES = 512 };

static const char *const topics[] = {"plan", "exec", "data", "ranks", "save", NULL};

unsigned hd__log_topics;
static int this_rank;
static _Thread_local const char *thread_name = "main";
static _Thread_local int thread_number = -1;

static int topic_of(const char *name, size_t length) {
  for (int i = 0; topics[i]; i++)
    if (strlen(topics[i]) == length && !memcmp(topics[i], name, length))
      return i;
  return -1;
}

hd_status hd__log_start(hd_ctx *ctx) {
  const char *list = getenv("HEDDLE_LOG");
  unsigned on = 0;
  for (const char *at = list ? list : ""; *at;) {
    const size_t length = strcspn(at, ",");
    const int topic = topic_of(at, length);
    const bool alone = length == strlen(list);
    if (topic < 0)
      return hd__fail(ctx, HD_E_USAGE,
                      "HEDDLE_LOG expects a list of plan, exec, data, ranks and save, found '%.*s'%s%.60s%s; unset it, "
                      "or set HEDDLE_LOG=plan,exec for example",
                      (int)(length < 40 ? length : 40), at, alone ? "" : " in '", alone ? "" : list, alone ? "" : "'");
    on |= 1u << topic;
    at += length + (at[length] == ',');
  }
  __atomic_store_n(&hd__log_topics, on, __ATOMIC_RELAXED);
  return HD_OK;
}

void hd__log_rank(int rank) { this_rank = rank; }

void hd__log_thread(const char *name, int number) {
  thread_name = name;
  thread_number = number;
}

void hd__log_event(hd_log_topic topic, const char *fmt, ...) {
  char text[LINE_BYTES];
  hd_line line = {.text = text, .bytes = sizeof text - 1};
  struct timespec now;
  struct tm utc;
  va_list args;
  const int error = errno;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  hd__line_add(&line, "heddle: %02d:%02d:%02d.%06ld rank %d %s", utc.tm_hour, utc.tm_min, utc.tm_sec,
               now.tv_nsec / 1000, this_rank, thread_name);
  if (thread_number >= 0)
    hd__line_add(&line, " %d", thread_number);
  hd__line_add(&line, ": %s: ", topics[topic]);
  va_start(args, fmt);
  vsnprintf(text + line.length, line.bytes - line.length, fmt, args);
  va_end(args);
  size_t length = strlen(text);
  text[length++] = '\n';
  while (write(STDERR_FILENO, text, length) < 0 && errno == EINTR)
    ;
  errno = error;
}
