/* Weights of GPT-2's names: see gpt_names.h. */
#include "train/checkpoint/gpt_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool begins(const char **text, const char *word) {
  const size_t length = strlen(word);
  const bool is = !strncmp(*text, word, length);
  *text += is ? length : 0;
  return is;
}

static bool ends(const char *text, const char *word) {
  const size_t length = strlen(text), tail = strlen(word);
  return length >= tail && !strcmp(text + length - tail, word);
}

/* The name behind prefixes of programs. */
static const char *without_prefix(const char *name) {
  begins(&name, "_orig_mod.");
  begins(&name, "transformer.");
  return name;
}

/* The block of h.N.REST, from 0, and REST; -1: it is another name. */
static int block_of(const char **rest, const char *name) {
  char *end;
  if (!begins(&name, "h.") || !isdigit((unsigned char)*name))
    return -1;
  const long block = strtol(name, &end, 10);
  *rest = end + 1;
  return *end == '.' && block < 100000 ? (int)block : -1;
}

/* h1.attn_c_attn.weight of h.0.attn.c_attn.weight: the last part of a name stays apart. */
static void rename_tensor(char out[HD_NAME_BYTES], const char *name) {
  const char *rest;
  name = without_prefix(name);
  const int block = block_of(&rest, name);
  snprintf(out, HD_NAME_BYTES, "%s", name);
  if (block < 0)
    return;
  const int head = snprintf(out, HD_NAME_BYTES, "h%d.", block + 1);
  snprintf(out + head, (size_t)(HD_NAME_BYTES - head), "%s", rest);
  char *last = strrchr(out, '.');
  for (char *c = out + head; c < last; c++)
    *c = *c == '.' ? '_' : *c;
}

/* A mask, which some files keep: 1 x 1 x places x places, or one number. */
static bool is_mask(const hd_st_tensor *t) {
  const char *rest;
  if (block_of(&rest, without_prefix(t->name)) < 0)
    return false;
  return (!strcmp(rest, "attn.bias") && t->shape.rank == 4) || !strcmp(rest, "attn.masked_bias");
}

/* Whether the file has GPT-2's names and the model has not. */
static bool applies(const hd_st_list *list, const hd_directory *d) {
  bool found = false;
  for (int i = 0; i < list->count; i++) {
    const char *rest;
    found =
        found || (block_of(&rest, without_prefix(list->tensor[i].name)) >= 0 && !strcmp(rest, "attn.c_attn.weight"));
    if (ends(list->tensor[i].name, "attn.c_attn.weight") && hd__directory_find(d, list->tensor[i].name))
      return false;
  }
  return found;
}

/* ---- Orientation ---- */

/* Whether a weight is one that Hugging Face keeps as inputs x outputs. */
static bool is_turnable(const char *name) {
  const char *rest;
  return block_of(&rest, without_prefix(name)) >= 0 &&
         (!strcmp(rest, "attn.c_attn.weight") || ends(rest, ".c_proj.weight") || !strcmp(rest, "mlp.c_fc.weight"));
}

typedef enum orientation { NOT_KNOWN, BY_OUTPUTS, BY_INPUTS } orientation;

static orientation orientation_of(const hd_st_tensor *t, const hd_store_entry *entry) {
  const hd_shape *is = &t->shape, *wanted = &entry->shape;
  if (is->rank != 2 || wanted->rank != 2 || wanted->dim[0] == wanted->dim[1])
    return NOT_KNOWN;
  return is->dim[0] == wanted->dim[0] && is->dim[1] == wanted->dim[1]   ? BY_OUTPUTS
         : is->dim[0] == wanted->dim[1] && is->dim[1] == wanted->dim[0] ? BY_INPUTS
                                                                        : NOT_KNOWN;
}

static hd_status find_orientation(orientation *out, const hd_st_list *list, hd_ctx *ctx, const char *path,
                                  const hd_directory *d) {
  const char *first = "";
  *out = NOT_KNOWN;
  for (int i = 0; i < list->count; i++) {
    char name[HD_NAME_BYTES];
    rename_tensor(name, list->tensor[i].name);
    const hd_store_entry *entry = is_turnable(list->tensor[i].name) ? hd__directory_find(d, name) : NULL;
    const orientation is = entry ? orientation_of(&list->tensor[i], entry) : NOT_KNOWN;
    if (is != NOT_KNOWN && *out != NOT_KNOWN && is != *out)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected all linear layers as outputs x inputs or all as inputs x outputs, found '%s' and "
                      "'%s' unlike; save them alike",
                      path, first, list->tensor[i].name);
    if (is != NOT_KNOWN) {
      *out = is;
      first = list->tensor[i].name;
    }
  }
  if (*out != NOT_KNOWN)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected a linear layer of a GPT whose shape says whether weights are outputs x inputs, found "
                  "none that is not square and fits the model; does the file belong to this model? If so rename its "
                  "tensors as heddle summary shows them, as outputs x inputs",
                  path);
}

/* ---- Tensors ---- */

static void *new_block(hd_gpt_memory *memory, size_t bytes) {
  void *block = hd__calloc(bytes ? bytes : 1, 1);
  if (block)
    memory->block[memory->blocks++] = block;
  return block;
}

static hd_status turn(hd_gpt_memory *memory, hd_st_tensor *t, hd_ctx *ctx, const char *path) {
  const size_t rows = (size_t)t->shape.dim[0], columns = (size_t)t->shape.dim[1], each = t->length / (rows * columns);
  char *to = new_block(memory, t->length);
  HD_TRY(HD_ALLOCATED(to, ctx, "%s: out of memory while loading", path));
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k < columns; k++)
      memcpy(to + (k * rows + i) * each, (const char *)t->bytes + (i * columns + k) * each, each);
  t->bytes = to;
  t->shape.dim[0] = (int32_t)columns;
  t->shape.dim[1] = (int32_t)rows;
  return HD_OK;
}

static void leave_masks_out(hd_st_list *list) {
  int kept = 0;
  for (int i = 0; i < list->count; i++)
    if (is_mask(&list->tensor[i]))
      hd__free(list->tensor[i].name);
    else
      list->tensor[kept++] = list->tensor[i];
  list->count = kept;
}

static bool is_norm_bias(const char *name) {
  return ends(name, ".ln_1.bias") || ends(name, ".ln_2.bias") || !strcmp(name, "ln_f.bias");
}

/* A norm of nanoGPT's without bias: the model's has zeros. */
static hd_status add_biases(hd_gpt_memory *memory, hd_st_list *list, hd_ctx *ctx, const char *path,
                            const hd_directory *d) {
  int missing = 0;
  for (int i = 0; i < list->count; i++)
    if (is_norm_bias(list->tensor[i].name))
      return HD_OK;
  for (int i = 0; i < d->entries; i++)
    missing += is_norm_bias(d->entry[i].name);
  hd_st_tensor *more = hd__realloc(list->tensor, (size_t)(list->count + missing + 1) * sizeof *more);
  HD_TRY(HD_ALLOCATED(more, ctx, "%s: out of memory while loading", path));
  list->tensor = more;
  for (int i = 0; i < d->entries; i++) {
    const hd_store_entry *entry = &d->entry[i];
    if (!is_norm_bias(entry->name))
      continue;
    const size_t length = (size_t)hd__shape_elems(&entry->shape) * sizeof(float);
    void *zeros = new_block(memory, length);
    char *name = hd__strdup(entry->name);
    HD_TRY(HD_ALLOCATED(zeros && name, ctx, "%s: out of memory while loading", path));
    list->tensor[list->count++] =
        (hd_st_tensor){.name = name, .type = HD_ST_F32, .shape = entry->shape, .bytes = zeros, .length = length};
  }
  return HD_OK;
}

hd_status hd__gpt_rename(hd_gpt_memory *memory, hd_st_list *list, hd_ctx *ctx, const char *path,
                         const hd_directory *d) {
  orientation is;
  if (!applies(list, d))
    return HD_OK;
  leave_masks_out(list);
  HD_TRY(find_orientation(&is, list, ctx, path, d));
  HD_TRY(HD_NEW(memory->block, list->count + d->entries, ctx, "%s: out of memory while loading", path));
  for (int i = 0; i < list->count; i++) {
    hd_st_tensor *t = &list->tensor[i];
    char name[HD_NAME_BYTES];
    if (is == BY_INPUTS && is_turnable(t->name) && t->shape.rank == 2)
      HD_TRY(turn(memory, t, ctx, path));
    rename_tensor(name, t->name);
    char *renamed = hd__strdup(name);
    HD_TRY(HD_ALLOCATED(renamed, ctx, "%s: out of memory while loading", path));
    hd__free(t->name);
    t->name = renamed;
  }
  HD_TRY(add_biases(memory, list, ctx, path, d));
  hd__fail(ctx, HD_OK, HD_GPT_NOTE "linear layers as %s",
           is == BY_INPUTS ? "inputs x outputs, as Hugging Face has them" : "outputs x inputs, as nanoGPT has them");
  return HD_OK;
}

void hd__gpt_memory_fini(hd_gpt_memory *memory) {
  for (int i = 0; i < memory->blocks; i++)
    hd__free(memory->block[i]);
  hd__free(memory->block);
  *memory = (hd_gpt_memory){0};
}
