/* Settings of a run: one table of options for the command line, YAML files and C.
 *
 * A configuration starts with every default. hd_config_set takes a value as text, under the option's long name, `_`
 * for `-` accepted, and checks it at once. No function here opens data or starts a thread.
 *
 * Thread safety: a configuration may be used by one thread at a time. */
#ifndef HEDDLE_CONFIG_H
#define HEDDLE_CONFIG_H

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
  const char *fallback; /* default as text, "" for none */
  double min, max;      /* INT, REAL, PAIR: bounds, both included */
  const char *choices;  /* CHOICE: "a|b|c", else NULL */
  const char *arg;      /* the value's name in help, NULL for a flag */
  const char *help;
} hd_option;

/* The index-th option, NULL past the last. */
HD_API const hd_option *hd_option_at(int index);

typedef struct hd_config hd_config;

/* Creates a configuration of defaults; the caller owns it and ends it with hd_config_destroy (NULL allowed). */
HD_API hd_status hd_config_create(hd_config **out, hd_ctx *ctx);
HD_API void hd_config_destroy(hd_config *config);

/* Sets one option. HD_E_USAGE names the option, what was expected and what was found. */
HD_API hd_status hd_config_set(hd_config *config, hd_ctx *ctx, const char *name, const char *value);

/* Sets every option that a YAML mapping gives. Options already set by hd_config_set keep their value: the command
 * line takes precedence. HD_E_FORMAT names file and line; HD_E_IO if the file cannot be read. */
HD_API hd_status hd_config_load(hd_config *config, hd_ctx *ctx, const char *path);

/* The value as text, "" if there is none, NULL for an unknown name. Owned by the configuration, valid until
 * it changes. */
HD_API const char *hd_config_get(const hd_config *config, const char *name);

/* The placement that the options threads, cpus and placement request. Its list of CPUs is owned by the
 * configuration, valid until that changes. */
HD_API hd_placement_request hd_config_placement(const hd_config *config);

#ifdef __cplusplus
}
#endif
#endif
