/* The tuner's experiment as files: an HTML page and a CSV table. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "heddle/tools.h"

/* One self-contained HTML page: charts as SVG, for screens of any width and for paper, light and dark. */
void tune_write_page(FILE *to, const hd_tune *tune);

/* A header line, then one line per setting. */
void tune_write_csv(FILE *to, const hd_tune *tune);

/* "physical", or "cpus" for the configuration's list of CPUs. */
const char *tune_placement(const hd_tune_setting *setting);

/* "physical, compact": a setting's placement, and the policies that give the same CPUs. Returns `text`. */
const char *tune_places(char *text, size_t bytes, const hd_tune_setting *setting, const char *between);

/* The results of the scaling laws, one sentence each without its full stop. */
enum { TUNE_LAW_BYTES = 160 };
const char *tune_amdahl(char text[TUNE_LAW_BYTES], const hd_tune *tune);
const char *tune_limit(char text[TUNE_LAW_BYTES], const hd_tune *tune);

/* The properties in which the settings differ. */
typedef struct tune_facts {
  bool threads_vary, workers_vary, places_vary;
  bool has_workers, has_same; /* some setting has loader workers, has policies that give the same CPUs */
  bool same_everywhere;       /* all have the same equal policies, which are then printed once */
} tune_facts;

tune_facts tune_look(const hd_tune *tune);
