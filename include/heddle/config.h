/* Settings of a run: one table of options for the command line, YAML files and C.
 *
 *     hd_config_set_int(config, ctx, HD_OPT_BATCH, 128);
 *     hd_config_set_int(config, ctx, HD_OPT_OPTIMIZER, HD_OPTIMIZER_SGD);
 *     hd_config_set_real(config, ctx, HD_OPT_LR, 0.1);
 *     hd_config_set_text(config, ctx, HD_OPT_DATA, "mnist");
 *     hd_config_set(config, ctx, "batch", "128");     // by name, as the command does
 *
 * A configuration starts with every default, and every value is checked when it is set. No function here opens data
 * or starts a thread.
 *
 * Thread safety: a configuration may be used by one thread at a time. */
#ifndef HEDDLE_CONFIG_H
#define HEDDLE_CONFIG_H

#include <stdint.h>

#include "heddle/options.h"
#include "heddle/status.h"
#include "heddle/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hd_option_kind {
  HD_OPTION_EXPERIMENT, /* defines the result */
  HD_OPTION_LAYOUT,     /* never changes the result */
  HD_OPTION_FILES       /* input and output */
} hd_option_kind;

typedef enum hd_option_type {
  HD_OPTION_INT,
  HD_OPTION_REAL,
  HD_OPTION_TEXT,
  HD_OPTION_FLAG, /* "true" or "false"; needs no value on a command line */
  HD_OPTION_CHOICE,
  HD_OPTION_PAIR /* "0.9,0.999" */
} hd_option_type;

/* One row of the table. Static storage. */
typedef struct hd_option {
  const char *name;
  hd_option_kind kind;
  hd_option_type type;
  const char *fallback;       /* default as text, "" for none; that of a chosen optimizer: hd_config_get */
  double min, max;            /* bounds, both included, of INT, REAL, PAIR (below max) and numbers of threads; else 0 */
  const char *const *choices; /* CHOICE: the text of each value, ends with NULL; else NULL */
  const char *arg;            /* the value's name in help, NULL for a flag */
  const char *help;
} hd_option;

/* The option with this number; NULL past the last. */
HD_API const hd_option *hd_option_at(int id);

/* The text of a value of a CHOICE: of HD_OPT_OPTIMIZER and HD_OPTIMIZER_SGD "sgd"; "" for any other value. Static
 * storage. */
HD_API const char *hd_choice_name(hd_option_id id, int value);

typedef struct hd_config hd_config;

/* Creates a configuration of defaults; the caller owns it and ends it with hd_config_destroy (NULL allowed). */
HD_API hd_status hd_config_create(hd_config **out, hd_ctx *ctx);
HD_API void hd_config_destroy(hd_config *config);

/* Sets one option: by its name, `_` for `-` accepted, and a text. HD_E_USAGE names the option, what was expected and
 * what was found; the option keeps its value. */
HD_API hd_status hd_config_set(hd_config *config, hd_ctx *ctx, const char *name, const char *value);

/* The same by number, with a value of the option's type: INT, CHOICE, FLAG (0 or 1), and a number of threads; REAL; and
 * any option as text, which is copied. HD_E_USAGE also for an option of another type. */
HD_API hd_status hd_config_set_int(hd_config *config, hd_ctx *ctx, hd_option_id id, int64_t value);
HD_API hd_status hd_config_set_real(hd_config *config, hd_ctx *ctx, hd_option_id id, double value);
HD_API hd_status hd_config_set_text(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value);

/* Sets every option that a YAML mapping gives. Options already set by hd_config_set keep their value: the command
 * line takes precedence. HD_E_FORMAT names file and line; HD_E_IO if the file cannot be read. */
HD_API hd_status hd_config_load(hd_config *config, hd_ctx *ctx, const char *path);

/* The value as text, "" if there is none, NULL for an unknown name. Owned by the configuration, valid until
 * it changes. */
HD_API const char *hd_config_get(const hd_config *config, const char *name);

/* The value: of INT, CHOICE, FLAG and a number of threads (0: auto); of REAL. Without one 0, of a choice -1; also for
 * an option of another type. */
HD_API int64_t hd_config_get_int(const hd_config *config, hd_option_id id);
HD_API double hd_config_get_real(const hd_config *config, hd_option_id id);

/* The CPUs that threads and workers take on a machine, by the options threads, cpus, placement and workers; a pure
 * function of these, of OMP_NUM_THREADS and of OMP_THREAD_LIMIT. The caller owns the placement and ends it with
 * hd_placement_destroy.
 *
 * HD_PLACEMENT_PHYSICAL: one thread per core, in the order of the machine; cores that are busy last. COMPACT: as close
 * as possible, all CPUs of a core before the next core. SPREAD: as far apart as possible, packages, NUMA nodes and L3
 * groups in turn. ALL: one thread per CPU. A core's further CPUs come after the first ones of all cores, except in
 * COMPACT; powerful kinds of cores come first, always.
 *
 * Threads are not bound to CPUs (-1) if there are more threads than usable CPUs, and with PHYSICAL if a quota is
 * tighter than the mask or idle cores are too few: the system balances better. Workers get cores without a thread
 * first, then the further CPUs of threads' cores, else -1. HD_E_USAGE for a malformed list of CPUs or one with CPUs
 * outside the mask, and, if it is used, for an OMP_NUM_THREADS that is no number of threads; HD_E_NOMEM. *out is NULL
 * then. */
HD_API hd_status hd_config_place(hd_placement **out, hd_ctx *ctx, const hd_config *config, const hd_topology *machine);

#ifdef __cplusplus
}
#endif
#endif
