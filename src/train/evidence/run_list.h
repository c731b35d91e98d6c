/* A list of runs with what their files say: see heddle/evidence.h. */
#pragma once

#include <jansson.h>

#include "heddle/evidence.h"

typedef struct hd_run_entry {
  char *folder;
  json_t *record, *start, *end; /* end: NULL for a run that was killed, or still runs */
  json_t *written;              /* "samples": the texts of --sample-every, by step */
  json_t *lines;                /* of metrics.jsonl; NULL before they are read */
  int64_t unreadable;           /* lines that are no objects */
} hd_run_entry;

struct hd_runs {
  hd_run_entry *run;
  int64_t count, room;
  json_t *damage; /* texts, one for each run that is left out */
  char text[16384], *last;                   /* of the last value, and where it begins */
  double *step, *value;                      /* of the last numbers */
  int64_t numbers, numbers_room, file_steps; /* file_steps: of these, those of losses.bin */
};

/* The value with a key, NULL for none: of the settings, the last end, the last start, the texts, the
 * record. */
json_t *hd__runs_find(const hd_run_entry *run, const char *key);

/* Reads the lines of metrics.jsonl, if there is one, once. */
hd_status hd__runs_read_lines(hd_run_entry *run, hd_ctx *ctx);
