/* A sweep as a page. */
#pragma once

#include <stdio.h>

#include "heddle/tools.h"

/* One self-contained HTML page: a line for each run across an axis for each key, and the tables. */
void sweep_write_page(FILE *to, const void *sweep); /* hd_sweep */

/* "run-0001" for run 0; in a static buffer that the next call reuses. */
const char *sweep_name(int64_t run);
