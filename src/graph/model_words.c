/* Words of model files that the data resolve: see model_words.h. */
#include "graph/model_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

hd_model_facts hd__model_default_facts(const hd_model_outline *outline, const char *loss) {
  const hd_op op = loss ? hd__op_find(loss) : outline->loss;
  return (hd_model_facts){.input = {3, {1, 28, 28}}, .classes = op == HD_OP_cross_entropy ? 10 : 1, .loss = loss};
}

/* Plain or in quotes, not as a block of lines. */
static bool is_word(const hd_yaml_node *node, const char *word) {
  return node && node->kind == HD_YAML_SCALAR && !strcmp(node->text, word) &&
         node->end - node->at <= strlen(word) + strlen("''");
}

static const hd_yaml_node *get(const hd_yaml_node *root, const char *key) {
  return root->kind == HD_YAML_MAPPING ? hd__yaml_get(root, key) : NULL;
}

/* HD_OP_COUNT where the text states none, or what is none. */
static hd_op stated_loss(const hd_yaml_node *root) {
  const hd_yaml_node *loss = get(root, "loss");
  if (loss && loss->kind == HD_YAML_SEQUENCE)
    return HD_OP_weighted_sum;
  const hd_yaml_node *name = loss && loss->kind == HD_YAML_MAPPING ? hd__yaml_get(loss, "op") : loss;
  const hd_op op = name && name->kind == HD_YAML_SCALAR ? hd__op_find(name->text) : HD_OP_COUNT;
  const hd_op_info *info = op < HD_OP_COUNT ? hd__op_info(op) : NULL;
  return info && info->rule && info->rule->loss && info->role == HD_ROLE_FORWARD ? op : HD_OP_COUNT;
}

/* The loss that a text has. */
static hd_op loss_of(const hd_yaml_node *root) {
  const hd_op op = stated_loss(root);
  return op < HD_OP_COUNT ? op : HD_OP_cross_entropy;
}

/* ---- What is to be replaced ---- */

/* Characters [at, end) of the text become this one. */
typedef struct edit {
  size_t at, end;
  char text[80];
} edit;

typedef struct edits {
  edit *list;
  int count;
  bool failed; /* out of memory */
} edits;

static void add(edits *e, size_t at, size_t end, const char *text) {
  edit *longer = hd__realloc(e->list, ((size_t)e->count + 1) * sizeof *longer);
  e->failed |= !longer;
  if (!longer)
    return;
  e->list = longer;
  e->list[e->count] = (edit){.at = at, .end = end};
  snprintf(e->list[e->count++].text, sizeof e->list->text, "%s", text);
}

/* Whether an entry is `out: classes` or `tokens: classes`. */
static bool is_classes(const hd_yaml_node *item) {
  return item->key && (!strcmp(item->key, "out") || !strcmp(item->key, "tokens")) && is_word(item, "classes");
}

/* Replaces these words in an entry and in all below it. */
static void visit(edits *e, const hd_yaml_node *node, const char *classes) {
  for (int i = 0; i < node->count; i++) {
    const hd_yaml_node *item = &node->item[i];
    if (is_classes(item))
      add(e, item->at, item->end, classes);
    visit(e, item, classes);
  }
}

static void add_words(edits *e, const hd_yaml_node *root, const hd_model_facts *facts) {
  const int32_t *dim = facts->input.dim;
  const hd_yaml_node *input = get(root, "input"), *layers = get(root, "layers");
  char text[64];
  snprintf(text, sizeof text, facts->input.rank == 1 ? "[%d]" : "[%d, %d, %d]", dim[0], dim[1], dim[2]);
  if (is_word(input, "data"))
    add(e, input->at, input->end, text);
  snprintf(text, sizeof text, "%d", facts->classes);
  if (layers)
    visit(e, layers, text);
}

/* ---- The new text ---- */

static int by_place(const void *a, const void *b) {
  const size_t x = ((const edit *)a)->at, y = ((const edit *)b)->at;
  return (x > y) - (x < y);
}

/* The byte of a character; libyaml does not count a byte order mark. */
static size_t byte_of(const char *text, size_t length, size_t character) {
  size_t at = length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
  for (; at < length; at++)
    if (((unsigned char)text[at] & 0xc0) != 0x80 && character-- == 0)
      return at;
  return length;
}

/* Whether the text ends with the document's content: no line "...". */
static bool ends_open(const char *text, size_t length) {
  for (size_t i = 0; i + 3 <= length; i++)
    if ((i == 0 || text[i - 1] == '\n') && !memcmp(text + i, "...", 3))
      return false;
  return true;
}

/* A new entry of the root: the last line, or the first entry where the text has brackets or a mark at its end. There is
 * no place for it in a text whose first key does not begin a line. */
static void add_loss(edits *e, const char *text, size_t length, const hd_yaml_node *root, const char *loss) {
  char entry[80];
  const size_t first = root->item[0].key_at, at = byte_of(text, length, first), start = byte_of(text, length, 0);
  size_t line = at;
  while (line > start && text[line - 1] == ' ')
    line--;
  const int column = (int)(at - line);
  const bool in_brackets = text[byte_of(text, length, root->at)] == '{';
  const bool begins = line == start || text[line - 1] == '\n', last = !in_brackets && ends_open(text, length);
  const char *end = length > 0 && text[length - 1] == '\n' ? "" : "\n";
  int written = -1;
  if (in_brackets)
    written = snprintf(entry, sizeof entry, "loss: %s, ", loss);
  else if (begins && last)
    written = snprintf(entry, sizeof entry, "%s%*sloss: %s\n", end, column, "", loss);
  else if (begins)
    written = snprintf(entry, sizeof entry, "loss: %s\n%*s", loss, column, "");
  if (written > 0 && (size_t)written < sizeof entry)
    add(e, last ? SIZE_MAX : first, last ? SIZE_MAX : first, entry);
}

static hd_status apply(char **out, hd_ctx *ctx, edits *e, const char *text, size_t length) {
  char *made = NULL;
  size_t bytes = 0, from = 0;
  qsort(e->list, (size_t)e->count, sizeof *e->list, by_place);
  FILE *to = open_memstream(&made, &bytes);
  HD_TRY(HD_ALLOCATED(to, ctx, "out of memory while reading a model"));
  for (int i = 0; i < e->count; i++) {
    const size_t at = byte_of(text, length, e->list[i].at);
    fwrite(text + from, 1, at - from, to);
    fputs(e->list[i].text, to);
    from = byte_of(text, length, e->list[i].end);
  }
  fwrite(text + from, 1, length - from, to);
  *out = fclose(to) == 0 ? hd__strdup(made) : NULL;
  free(made);
  return HD_ALLOCATED(*out, ctx, "out of memory while reading a model");
}

hd_status hd__model_resolve(char **out, hd_ctx *ctx, const char *text, size_t length, const char *source,
                            const hd_model_facts *facts) {
  HD_YAML_OWNED *yaml = NULL;
  edits e = {0};
  *out = NULL;
  HD_TRY(hd__yaml_parse(&yaml, ctx, text, length, source));
  const hd_yaml_node *root = hd__yaml_root(yaml), *loss = get(root, "loss");
  add_words(&e, root, facts);
  if (facts->loss && stated_loss(root) < HD_OP_COUNT)
    add(&e, loss->at, loss->end, facts->loss);
  else if (facts->loss && !loss && root->kind == HD_YAML_MAPPING && root->count > 0)
    add_loss(&e, text, length, root, facts->loss);
  hd_status status = HD_ALLOCATED(!e.failed, ctx, "out of memory while reading a model");
  if (e.count > 0)
    HD_THEN(status, apply(out, ctx, &e, text, length));
  hd__free(e.list);
  return status;
}

/* ---- Another head ---- */

/* The last entry of the layers, or NULL. */
static const hd_yaml_node *last_layer(const hd_yaml_node *root) {
  const hd_yaml_node *layers = get(root, "layers");
  const hd_yaml_node *entry = layers && layers->count > 0 ? &layers->item[layers->count - 1] : NULL;
  return entry && entry->kind == HD_YAML_MAPPING && entry->count == 1 ? &entry->item[0] : NULL;
}

static hd_status refuse_head(hd_ctx *ctx, const char *source, const hd_yaml_node *layer) {
  const hd_yaml_node *op = layer ? get(layer, "op") : NULL, *share = layer ? get(layer, "share") : NULL;
  const char *found = op && op->kind == HD_YAML_SCALAR ? op->text : "a block of layers";
  return hd__fail(
      ctx, HD_E_USAGE,
      "--head: expected a linear layer%s as the last one of %s, found '%s', %s%s; end the model with one, or "
      "leave --head out",
      share ? " with weights of its own" : "", source, layer && layer->key ? layer->key : "", found,
      share ? " with those of another layer" : "");
}

hd_status hd__model_with_head(char **out, hd_ctx *ctx, const char *text, size_t length, const char *source,
                              const char *outputs) {
  HD_YAML_OWNED *yaml = NULL;
  edits e = {0};
  *out = NULL;
  HD_TRY(hd__yaml_parse(&yaml, ctx, text, length, source));
  const hd_yaml_node *layer = last_layer(hd__yaml_root(yaml)), *op = layer ? get(layer, "op") : NULL;
  const hd_yaml_node *is = layer ? get(layer, "out") : NULL;
  if (stated_loss(hd__yaml_root(yaml)) == HD_OP_weighted_sum)
    return hd__fail(ctx, HD_E_USAGE, "--head: expected a model with one loss, found the several of %s; change the file",
                    source);
  const bool linear = op && op->kind == HD_YAML_SCALAR && !strcmp(op->text, hd__op_info(HD_OP_linear)->name);
  if (!linear || !is || is->kind != HD_YAML_SCALAR || get(layer, "share"))
    return refuse_head(ctx, source, layer);
  add(&e, is->at, is->end, outputs);
  hd_status status = HD_ALLOCATED(!e.failed, ctx, "out of memory while reading a model");
  HD_THEN(status, apply(out, ctx, &e, text, length));
  hd__free(e.list);
  return status;
}

/* ---- Before the data are known ---- */

static int32_t ignored_of(const hd_yaml_node *root) {
  const hd_yaml_node *loss = get(root, "loss"), *ignored = loss ? get(loss, "ignore_index") : NULL;
  int64_t label;
  const bool is_label = ignored && ignored->kind == HD_YAML_SCALAR && hd__parse_int64(&label, ignored->text) &&
                        label >= 0 && label <= INT32_MAX;
  return is_label ? (int32_t)label : -1;
}

/* 0: it is no number above 0. */
static int32_t number_of(const hd_yaml_node *node) {
  int64_t number;
  const bool good =
      node && node->kind == HD_YAML_SCALAR && hd__parse_int64(&number, node->text) && number > 0 && number <= INT32_MAX;
  return good ? (int32_t)number : 0;
}

/* Whether samples have neither channels nor height. */
static bool are_rows(const hd_yaml_node *input) {
  if (!input || input->kind != HD_YAML_SEQUENCE)
    return is_word(input, "data");
  return input->count == 1 || (input->count == 3 && number_of(&input->item[0]) == 1 && number_of(&input->item[1]) == 1);
}

hd_status hd__model_outline(hd_model_outline *out, hd_ctx *ctx, const char *text, size_t length, const char *source) {
  HD_YAML_OWNED *yaml = NULL;
  edits words = {0};
  *out = (hd_model_outline){0};
  HD_TRY(hd__yaml_parse(&yaml, ctx, text, length, source));
  const hd_yaml_node *root = hd__yaml_root(yaml), *name = get(root, "model"), *layers = get(root, "layers");
  out->input = is_word(get(root, "input"), "data");
  const hd_yaml_node *input = get(root, "input");
  if (input && input->kind == HD_YAML_SEQUENCE && input->count == 1)
    out->context = number_of(&input->item[0]);
  out->rows = are_rows(get(root, "input"));
  if (layers)
    visit(&words, layers, "");
  out->classes = words.count > 0;
  hd__free(words.list);
  out->has_loss = get(root, "loss") != NULL;
  out->loss = loss_of(root);
  out->ignored = ignored_of(root);
  if (name && name->kind == HD_YAML_SCALAR && !(out->name = hd__strdup(name->text)))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while reading a model");
  return HD_OK;
}

/* ---- Comparing ---- */

/* The number in place of the first `out: classes`; 0: there is none. */
static int32_t classes_in(const hd_yaml_node *written, const hd_yaml_node *resolved) {
  int32_t found = 0;
  for (int i = 0; i < written->count && i < resolved->count && written->kind == resolved->kind && !found; i++) {
    const hd_yaml_node *item = &written->item[i];
    const hd_yaml_node *same = item->key ? hd__yaml_get(resolved, item->key) : &resolved->item[i];
    if (same && is_classes(item))
      found = number_of(same);
    else if (same)
      found = classes_in(item, same);
  }
  return found;
}

/* The facts that a resolved text shows. */
static void read_facts(hd_model_facts *facts, const hd_yaml_node *written, const hd_yaml_node *resolved) {
  const hd_yaml_node *input = get(resolved, "input"), *layers[] = {get(written, "layers"), get(resolved, "layers")};
  facts->input.rank = input && input->kind == HD_YAML_SEQUENCE && input->count == 1 ? 1 : 3;
  for (int i = 0; input && i < facts->input.rank && i < input->count; i++)
    facts->input.dim[i] = number_of(&input->item[i]);
  if (layers[0] && layers[1])
    facts->classes = classes_in(layers[0], layers[1]);
}

hd_status hd__model_is_resolved(bool *out, hd_ctx *ctx, const char *written, const char *resolved) {
  HD_YAML_OWNED *of_written = NULL;
  HD_YAML_OWNED *of_resolved = NULL;
  HD_OWNED char *text = NULL;
  hd_model_facts facts = {0};
  HD_TRY(hd__yaml_parse(&of_written, ctx, written, strlen(written), "model"));
  HD_TRY(hd__yaml_parse(&of_resolved, ctx, resolved, strlen(resolved), "model"));
  const hd_yaml_node *const root[] = {hd__yaml_root(of_written), hd__yaml_root(of_resolved)};
  read_facts(&facts, root[0], root[1]);
  if (loss_of(root[0]) != loss_of(root[1]))
    facts.loss = hd__op_info(loss_of(root[1]))->name;
  HD_TRY(hd__model_resolve(&text, ctx, written, strlen(written), "model", &facts));
  *out = !strcmp(text ? text : written, resolved);
  return HD_OK;
}
