/* Builds the tree of yaml_bind.h from libyaml's events; and the getters. */
#include "base/yaml_bind.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/text_buffer.h"
#include "base/nearest.h"
#include "base/number.h"

struct hd_yaml {
  char *source;
  hd_yaml_node root;
};

typedef struct builder {
  yaml_parser_t parser;
  const char *text;
  size_t length;
  hd_yaml *yaml;
  hd_ctx *ctx;
} builder;

static hd_status out_of_memory(hd_ctx *ctx, const char *source) {
  return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory while reading", source);
}

hd_status hd__yaml_fail(hd_ctx *ctx, const hd_yaml_node *node, const char *fmt, ...) {
  char text[HD_MESSAGE_BYTES / 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return hd__fail(ctx, HD_E_FORMAT, "%s:%d: %s", node->source, node->line, text);
}

static int line_at(const builder *b, size_t offset) {
  int line = 1;
  for (size_t i = 0; i < offset && i < b->length; i++)
    line += b->text[i] == '\n';
  return line;
}

static hd_status next_event(builder *b, yaml_event_t *event) {
  if (yaml_parser_parse(&b->parser, event))
    return HD_OK;
  if (b->parser.error == YAML_MEMORY_ERROR)
    return out_of_memory(b->ctx, b->yaml->source);
  bool coding = b->parser.error == YAML_READER_ERROR; /* has an offset and no mark */
  int line = coding ? line_at(b, b->parser.problem_offset) : (int)b->parser.problem_mark.line + 1;
  return hd__fail(b->ctx, HD_E_FORMAT, "%s:%d: expected YAML, found: %s; check %s", b->yaml->source, line,
                  b->parser.problem ? b->parser.problem : "an error",
                  coding ? "that it is UTF-8 text" : "indentation, colons and quotes");
}

static hd_status fill(builder *b, hd_yaml_node *node, const yaml_event_t *event, int depth);

/* Makes room for one more entry and returns it. */
static hd_yaml_node *add_item(hd_yaml_node *parent) {
  if ((parent->count & (parent->count - 1)) == 0) {
    size_t room = parent->count ? 2 * (size_t)parent->count : 1;
    hd_yaml_node *bigger = hd__realloc(parent->item, room * sizeof *bigger);
    if (!bigger)
      return NULL;
    parent->item = bigger;
  }
  hd_yaml_node *item = &parent->item[parent->count++];
  *item = (hd_yaml_node){.source = parent->source};
  return item;
}

/* Refuses anchors (&name) and tags (!name), which the subset excludes. */
static hd_status check_plain(builder *b, const hd_yaml_node *node, const yaml_event_t *event) {
  const yaml_char_t *anchor = NULL, *tag = NULL;
  if (event->type == YAML_SCALAR_EVENT) {
    anchor = event->data.scalar.anchor;
    tag = event->data.scalar.tag;
  } else if (event->type == YAML_SEQUENCE_START_EVENT) {
    anchor = event->data.sequence_start.anchor;
    tag = event->data.sequence_start.tag;
  } else if (event->type == YAML_MAPPING_START_EVENT) {
    anchor = event->data.mapping_start.anchor;
    tag = event->data.mapping_start.tag;
  }
  if (anchor)
    return hd__yaml_fail(b->ctx, node, "expected a plain value, found an anchor (&%.100s); remove it",
                         (const char *)anchor);
  if (tag)
    return hd__yaml_fail(b->ctx, node, "expected a plain value, found a tag (%.100s); remove it", (const char *)tag);
  return HD_OK;
}

/* Stores a key's event in `item`; keys are scalars and unique. */
static hd_status take_key(builder *b, const hd_yaml_node *parent, hd_yaml_node *item, const yaml_event_t *event) {
  item->line = (int)event->start_mark.line + 1;
  item->key_at = event->start_mark.index;
  HD_TRY(check_plain(b, item, event));
  if (event->type == YAML_ALIAS_EVENT)
    return hd__yaml_fail(b->ctx, item, "expected a name as key, found an alias (*name); write it out");
  if (event->type != YAML_SCALAR_EVENT)
    return hd__yaml_fail(b->ctx, item, "expected a name as key, found a list or mapping; write NAME: VALUE");
  if (parent->count > HD_YAML_MAX_KEYS)
    return hd__yaml_fail(b->ctx, item, "expected at most %d keys, found more; is it the right file?", HD_YAML_MAX_KEYS);
  const char *key = (const char *)event->data.scalar.value;
  if (event->data.scalar.length != strlen(key))
    return hd__yaml_fail(b->ctx, item, "expected text, found a NUL byte; remove it");
  for (int i = 0; i < parent->count - 1; i++)
    if (!strcmp(parent->item[i].key, key))
      return hd__yaml_fail(b->ctx, item, "expected each key once, found '%s' again (first in line %d); remove one", key,
                           parent->item[i].line);
  item->key = hd__strdup(key);
  return item->key ? HD_OK : out_of_memory(b->ctx, b->yaml->source);
}

static hd_status fill_items(builder *b, hd_yaml_node *node, yaml_event_type_t end, int depth) {
  for (;;) {
    yaml_event_t event;
    HD_TRY(next_event(b, &event));
    if (event.type == end) {
      const bool bracket = event.end_mark.index > event.start_mark.index;
      node->end = bracket ? event.end_mark.index : node->count > 0 ? node->item[node->count - 1].end : node->at;
      yaml_event_delete(&event);
      return HD_OK;
    }
    hd_yaml_node *item = add_item(node);
    hd_status status = item ? HD_OK : out_of_memory(b->ctx, b->yaml->source);
    if (status == HD_OK && node->kind == HD_YAML_MAPPING) {
      status = take_key(b, node, item, &event);
      yaml_event_delete(&event);
      HD_TRY(status);
      HD_TRY(next_event(b, &event));
    }
    HD_THEN(status, fill(b, item, &event, depth));
    yaml_event_delete(&event);
    HD_TRY(status);
  }
}

static hd_status fill(builder *b, hd_yaml_node *node, const yaml_event_t *event, int depth) {
  node->line = (int)event->start_mark.line + 1;
  node->at = event->start_mark.index;
  node->end = event->end_mark.index;
  if (depth > HD_YAML_MAX_DEPTH)
    return hd__yaml_fail(b->ctx, node, "expected at most %d levels, found more; flatten the file", HD_YAML_MAX_DEPTH);
  HD_TRY(check_plain(b, node, event));
  switch (event->type) {
  case YAML_SCALAR_EVENT:
    node->kind = HD_YAML_SCALAR;
    if (event->data.scalar.length != strlen((const char *)event->data.scalar.value))
      return hd__yaml_fail(b->ctx, node, "expected text, found a NUL byte; remove it");
    node->text = hd__strdup((const char *)event->data.scalar.value);
    return node->text ? HD_OK : out_of_memory(b->ctx, b->yaml->source);
  case YAML_SEQUENCE_START_EVENT:
    node->kind = HD_YAML_SEQUENCE;
    return fill_items(b, node, YAML_SEQUENCE_END_EVENT, depth + 1);
  case YAML_MAPPING_START_EVENT:
    node->kind = HD_YAML_MAPPING;
    return fill_items(b, node, YAML_MAPPING_END_EVENT, depth + 1);
  case YAML_ALIAS_EVENT:
    return hd__yaml_fail(b->ctx, node, "expected a value, found an alias (*name); write the value out");
  default: return hd__yaml_fail(b->ctx, node, "expected a value, found the end; add one");
  }
}

/* Stream start, document start, root, document end, stream end. */
static hd_status build(builder *b) {
  hd_yaml_node *root = &b->yaml->root;
  *root = (hd_yaml_node){.kind = HD_YAML_MAPPING, .line = 1, .source = b->yaml->source};
  bool filled = false;
  for (;;) {
    yaml_event_t event;
    HD_TRY(next_event(b, &event));
    yaml_event_type_t type = event.type;
    hd_status status = HD_OK;
    bool content = type == YAML_SCALAR_EVENT || type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT ||
                   type == YAML_ALIAS_EVENT;
    if (type == YAML_DOCUMENT_START_EVENT && filled) {
      root->line = (int)event.start_mark.line + 1;
      status = hd__yaml_fail(b->ctx, root, "expected one document, found a second; remove the line '---'");
    } else if (content) {
      filled = true;
      status = fill(b, root, &event, 0);
    }
    yaml_event_delete(&event);
    HD_TRY(status);
    if (type == YAML_STREAM_END_EVENT)
      return HD_OK;
  }
}

hd_status hd__yaml_parse(hd_yaml **out, hd_ctx *ctx, const char *text, size_t length, const char *source) {
  *out = NULL;
  if (length > HD_YAML_MAX_BYTES)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at most %d bytes of YAML, found %zu; is it the right file?", source,
                    HD_YAML_MAX_BYTES, length);
  builder b = {.text = text, .length = length, .ctx = ctx, .yaml = hd__calloc(1, sizeof *b.yaml)};
  if (!b.yaml)
    return out_of_memory(ctx, source);
  b.yaml->source = hd__strdup(source);
  if (!b.yaml->source || !yaml_parser_initialize(&b.parser)) {
    hd__yaml_destroy(b.yaml);
    return out_of_memory(ctx, source);
  }
  yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, length);
  hd_status status = build(&b);
  yaml_parser_delete(&b.parser);
  *out = b.yaml;
  return HD_CREATED(status, out, hd__yaml_destroy);
}

HD_RELEASER(close_file, FILE, fclose)

hd_status hd__yaml_read(hd_yaml **out, hd_ctx *ctx, const char *path) {
  *out = NULL;
  HD_OWNED char *text = hd__malloc(HD_YAML_MAX_BYTES + 1);
  HD_RELEASED(close_file) FILE *file = fopen(path, "rbe");
  const size_t length = file && text ? fread(text, 1, HD_YAML_MAX_BYTES + 1, file) : 0;
  if (!file || ferror(file))
    return hd__fail(ctx, HD_E_IO, "%s: expected a readable YAML file, found: %s; check the path", path,
                    strerror(errno));
  return text ? hd__yaml_parse(out, ctx, text, length, path) : out_of_memory(ctx, path);
}

static void free_node(hd_yaml_node *node) {
  for (int i = 0; i < node->count; i++)
    free_node(&node->item[i]);
  hd__free(node->item);
  hd__free(node->key);
  hd__free(node->text);
}

void hd__yaml_destroy(hd_yaml *yaml) {
  if (!yaml)
    return;
  free_node(&yaml->root);
  hd__free(yaml->source);
  hd__free(yaml);
}

static void place(hd_yaml_node *node, const char *source, int line) {
  node->source = source;
  node->line = line;
  for (int i = 0; i < node->count; i++)
    place(&node->item[i], source, line);
}

void hd__yaml_place(hd_yaml *yaml, int entry, const char *source, int line) {
  if (entry == 0) {
    yaml->root.source = source;
    yaml->root.line = line;
  }
  place(&yaml->root.item[entry], source, line);
}

const hd_yaml_node *hd__yaml_root(const hd_yaml *yaml) { return &yaml->root; }

static const char *kind_text(hd_yaml_kind kind) {
  static const char *const text[] = {"a single value", "a list", "a mapping"};
  return text[kind];
}

static const char *remedy_text(hd_yaml_kind kind) {
  static const char *const text[] = {"write one value", "write [A, B] or lines that begin with '- '",
                                     "write NAME: VALUE"};
  return text[kind];
}

hd_status hd__yaml_expect(hd_ctx *ctx, const hd_yaml_node *node, hd_yaml_kind kind, const char *what) {
  if (node->kind == kind)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected %s as %s, found %s; %s", kind_text(kind), what, kind_text(node->kind),
                       remedy_text(kind));
}

const hd_yaml_node *hd__yaml_get(const hd_yaml_node *mapping, const char *key) {
  for (int i = 0; i < mapping->count; i++)
    if (mapping->item[i].key && !strcmp(mapping->item[i].key, key))
      return &mapping->item[i];
  return NULL;
}

static hd_status unknown_key(hd_ctx *ctx, const hd_yaml_node *node, const char *const *keys) {
  char list[256] = "";
  hd_line known = {.text = list, .bytes = sizeof list};
  hd_nearest nearest = {.word = node->key};
  for (int k = 0; keys[k]; k++) {
    hd__nearest_try(&nearest, keys[k]);
    hd__line_add(&known, "%s%s", k ? ", " : "", keys[k]);
  }
  if (nearest.name)
    return hd__yaml_fail(ctx, node, "expected a known key, found '%s'; did you mean '%s'?", node->key, nearest.name);
  return hd__yaml_fail(ctx, node, "expected a known key, found '%s'; known are %s", node->key, list);
}

hd_status hd__yaml_only_keys(hd_ctx *ctx, const hd_yaml_node *mapping, const char *const *keys) {
  for (int i = 0; i < mapping->count; i++) {
    bool known = false;
    for (int k = 0; keys[k]; k++)
      known |= !strcmp(keys[k], mapping->item[i].key);
    if (!known)
      return unknown_key(ctx, &mapping->item[i], keys);
  }
  return HD_OK;
}

hd_status hd__yaml_text(const char **out, hd_ctx *ctx, const hd_yaml_node *node) {
  HD_TRY(hd__yaml_expect(ctx, node, HD_YAML_SCALAR, node->key ? node->key : "an entry"));
  if (!*node->text)
    return hd__yaml_fail(ctx, node, "expected a value for '%s', found nothing; add one",
                         node->key ? node->key : "an entry");
  *out = node->text;
  return HD_OK;
}

hd_status hd__yaml_int(int64_t *out, hd_ctx *ctx, const hd_yaml_node *node, int64_t min, int64_t max) {
  const char *text;
  HD_TRY(hd__yaml_text(&text, ctx, node));
  int64_t value;
  if (!hd__parse_int64(&value, text) || value < min || value > max)
    return hd__yaml_fail(ctx, node,
                         "expected a whole number from %lld to %lld as '%s', found '%s'; write one in that range",
                         (long long)min, (long long)max, node->key ? node->key : "an entry", text);
  *out = value;
  return HD_OK;
}

hd_status hd__yaml_number(double *out, hd_ctx *ctx, const hd_yaml_node *node, double min, double max) {
  const char *text;
  HD_TRY(hd__yaml_text(&text, ctx, node));
  double value;
  if (!hd__parse_setting(&value, text) || value < min || value > max)
    return hd__yaml_fail(ctx, node, "expected a number from %g to %g as '%s', found '%s'; write one in that range", min,
                         max, node->key ? node->key : "an entry", text);
  *out = value;
  return HD_OK;
}

hd_status hd__yaml_bool(bool *out, hd_ctx *ctx, const hd_yaml_node *node) {
  const char *text;
  HD_TRY(hd__yaml_text(&text, ctx, node));
  if (strcmp(text, "true") && strcmp(text, "false"))
    return hd__yaml_fail(ctx, node, "expected true or false as '%s', found '%s'; write one of the two",
                         node->key ? node->key : "an entry", text);
  *out = !strcmp(text, "true");
  return HD_OK;
}
