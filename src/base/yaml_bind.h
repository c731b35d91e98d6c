/* YAML text as a tree whose nodes store their line, and typed getters that report `SOURCE:LINE: expected, found,
 * remedy`.
 *
 * A subset for settings and model files: one document, scalars, sequences, mappings with scalar keys. Anchors,
 * aliases, tags and duplicate keys are refused, depth, keys and size are limited. The tree owns its texts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"

typedef enum hd_yaml_kind { HD_YAML_SCALAR, HD_YAML_SEQUENCE, HD_YAML_MAPPING } hd_yaml_kind;

typedef struct hd_yaml_node {
  hd_yaml_kind kind;
  int line;           /* counted from 1 */
  size_t at, end;     /* its characters in the text, from 0; of a list in lines, up to the last entry's */
  size_t key_at;      /* in a mapping: where its key begins */
  const char *source; /* the document's name, for messages */
  char *key;          /* in a mapping: this entry's key */
  char *text;         /* scalar */
  int count;          /* sequence, mapping: entries */
  struct hd_yaml_node *item;
} hd_yaml_node;

typedef struct hd_yaml hd_yaml;

enum { HD_YAML_MAX_BYTES = 1 << 20, HD_YAML_MAX_DEPTH = 16, HD_YAML_MAX_KEYS = 1000 /* of one mapping */ };

/* Parses one document; `source` names it in messages (copied). */
hd_status hd__yaml_parse(hd_yaml **out, hd_ctx *ctx, const char *text, size_t length, const char *source);

/* Reads and parses a file. */
HD_TOOLS_API hd_status hd__yaml_read(hd_yaml **out, hd_ctx *ctx, const char *path);

HD_TOOLS_API void hd__yaml_destroy(hd_yaml *yaml);

/* A document that ends with its scope. */
HD_RELEASER(hd__yaml_release, hd_yaml, hd__yaml_destroy)
#define HD_YAML_OWNED HD_RELEASED(hd__yaml_release) hd_yaml

/* The document's root; a document without content has a mapping without entries. */
HD_TOOLS_API const hd_yaml_node *hd__yaml_root(const hd_yaml *yaml);

/* Sets the true location of an entry of the root: messages about it then name this line of `source`, which must outlive
 * the document's messages. */
void hd__yaml_place(hd_yaml *yaml, int entry, const char *source, int line);

/* Reports an error at a node: HD_E_FORMAT, "SOURCE:LINE: ...". */
hd_status hd__yaml_fail(hd_ctx *ctx, const hd_yaml_node *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The node must be of this kind; `what` names it in the message ("a layer", "layers"). */
HD_TOOLS_API hd_status hd__yaml_expect(hd_ctx *ctx, const hd_yaml_node *node, hd_yaml_kind kind, const char *what);

/* The entry of a mapping, NULL if there is none. */
HD_TOOLS_API const hd_yaml_node *hd__yaml_get(const hd_yaml_node *mapping, const char *key);

/* Refuses keys that are not in the NULL-terminated list; the message names the most similar known key, or all. */
hd_status hd__yaml_only_keys(hd_ctx *ctx, const hd_yaml_node *mapping, const char *const *keys);

/* A whole number in [min, max]. */
HD_TOOLS_API hd_status hd__yaml_int(int64_t *out, hd_ctx *ctx, const hd_yaml_node *node, int64_t min, int64_t max);

/* A number in [min, max]. */
hd_status hd__yaml_number(double *out, hd_ctx *ctx, const hd_yaml_node *node, double min, double max);

/* true or false. */
hd_status hd__yaml_bool(bool *out, hd_ctx *ctx, const hd_yaml_node *node);

/* A scalar that is not empty. */
HD_TOOLS_API hd_status hd__yaml_text(const char **out, hd_ctx *ctx, const hd_yaml_node *node);
