/* The runs of a sweep: what varies, and its value in each run.
 *
 * Runs are numbered from 0 in one fixed order: draws change slowest, then the keys as they were given, the last one
 * fastest. A value is a function of the grid, the seed of the draws and the run's number, and of nothing else. */
#pragma once

#include "base/yaml_bind.h"
#include "heddle/config.h"

enum { HD_SWEEP_MOST_RUNS = 100000, HD_SWEEP_MOST_KEYS = 32, HD_SWEEP_VALUE_BYTES = 4096 };

/* A key: a list of values; or, with `draw`, the text "log(a,b)" or "uniform(a,b)" as its one value. */
typedef struct hd_axis {
  hd_option_id option;
  int64_t count;
  char **value;
  bool draw, log;
  double low, high;
} hd_axis;

typedef struct hd_grid {
  hd_axis axis[HD_SWEEP_MOST_KEYS];
  int axes;
  int64_t runs;
  uint64_t seed;
} hd_grid;

/* Adds a key with its values as text, "0.1,0.01", "0..9" or "log(1e-4,1e-1)", or as a YAML node. */
hd_status hd__grid_add(hd_grid *grid, hd_ctx *ctx, const char *key, const char *text);
hd_status hd__grid_add_node(hd_grid *grid, hd_ctx *ctx, const hd_yaml_node *node);

/* Adds one value to the last key. */
hd_status hd__grid_extend(hd_grid *grid, hd_ctx *ctx, const char *value);

/* Counts the runs; draws: 0 if none were given. */
hd_status hd__grid_complete(hd_grid *grid, hd_ctx *ctx, int64_t draws, uint64_t seed);
void hd__grid_fini(hd_grid *grid);

/* The value of a key in a run. */
const char *hd__grid_value(char text[HD_SWEEP_VALUE_BYTES], const hd_grid *grid, int64_t run, int axis);

/* The first run that has the same values as this one of the keys for which `keeps` is true; with the same draw, or with
 * the first one. */
int64_t hd__grid_first(const hd_grid *grid, int64_t run, bool (*keeps)(hd_option_id option), bool same_draw);

/* The settings of a run: those that are fixed, and the values of the keys. */
hd_status hd__grid_config(hd_config **out, hd_ctx *ctx, const hd_grid *grid, const hd_config *fixed, int64_t run);
