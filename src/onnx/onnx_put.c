/* The layers that are made of an ONNX file, their names, and the views of computed values; see onnx_reader.h. */
#ifdef HD_HAVE_ONNX

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "onnx/onnx_layers.h"

/* ---- Names ---- */

/* Takes a name for a layer; false: another layer has it. r->taken_name is a hash table with more than
 * twice the room. */
static bool take_name(hd_onnx_reader *r, const char *name) {
  size_t at = 0xcbf29ce484222325;
  for (const char *c = name; *c; c++)
    at = (at ^ (unsigned char)*c) * 0x100000001b3;
  for (at %= HD_ONNX_NAMES; *r->taken_name[at]; at = (at + 1) % HD_ONNX_NAMES)
    if (!strcmp(r->taken_name[at], name))
      return false;
  if (!strcmp(name, "input") || !strcmp(name, "above") || !strcmp(name, "flat_input"))
    return false;
  strcpy(r->taken_name[at], name);
  return true;
}

/* A name in the form of layers' names: "/layer1/conv1/Conv" is layer1.conv1.Conv. */
static void clean_name(char out[HD_ONNX_NAME_BYTES], const char *name, size_t length) {
  size_t n = 0;
  for (size_t i = 0; i < length && n < 48; i++) {
    const char c = name[i] == '/' || name[i] == ':' ? '.' : name[i];
    if (isalnum((unsigned char)c) && (unsigned char)c < 0x80)
      out[n++] = c;
    else if (n > 0)
      out[n++] = c == '.' || c == '-' ? c : '_';
  }
  out[n] = 0;
}

/* The name of a layer: of its weight, else of its node, else of its operator; with a number if it is taken. */
static void choose_name(char out[HD_ONNX_NAME_BYTES], hd_onnx_reader *r, const HdOnnx__Node *node, const char *weight) {
  static const char suffix[] = ".weight";
  const size_t length = strlen(weight), tail = sizeof suffix - 1;
  char base[HD_ONNX_NAME_BYTES] = "";
  if (length > tail && !strcmp(weight + length - tail, suffix))
    clean_name(base, weight, length - tail);
  if (!*base && node->name)
    clean_name(base, node->name, strlen(node->name));
  if (!*base)
    clean_name(base, node->op_type, strlen(node->op_type));
  snprintf(out, HD_ONNX_NAME_BYTES, "%s", *base ? base : "layer");
  for (int i = hd__onnx_index(r, node); !take_name(r, out); i++)
    snprintf(out, HD_ONNX_NAME_BYTES, "%.48s_%d", *base ? base : "layer", i);
}

hd_status hd__onnx_put(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *weight,
                       const char *fmt, ...) {
  char name[HD_ONNX_NAME_BYTES];
  va_list args;
  if (v->scores)
    return hd__onnx_refuse_scores(r, v->scores);
  if (v->c < 1 || v->h < 1 || v->w < 1 || v->c > HD_ONNX_MOST_SIDE || v->h > HD_ONNX_MOST_SIDE / v->c ||
      v->w > HD_ONNX_MOST_SIDE / (v->c * v->h))
    return hd__onnx_refuse(r, node, "expected 1 to %d elements of a sample, found others; use smaller samples",
                           HD_ONNX_MOST_SIDE);
  if (++r->layers > HD_ONNX_LAYERS)
    return hd__onnx_refuse(r, node, "expected at most %d layers, found more; use a smaller network", HD_ONNX_LAYERS);
  choose_name(name, r, node, weight ? weight : "");
  fprintf(r->text, "  - \"%s\": {", name);
  va_start(args, fmt);
  vfprintf(r->text, fmt, args);
  va_end(args);
  fprintf(r->text, "}\n");
  memcpy(v->layer, name, sizeof name);
  v->source = NULL;
  r->shape[r->layers - 1] = *v;
  return HD_OK;
}

/* A layer of each element: it leaves them where they are. */
hd_status hd__onnx_put_plain(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, const char *op) {
  char from[HD_ONNX_NAME_BYTES];
  memcpy(from, v->layer, sizeof from);
  return hd__onnx_put(v, r, node, NULL, "%s, from: \"%s\"", op, from);
}

hd_status hd__onnx_put_scale(hd_onnx_view *v, hd_onnx_reader *r, const HdOnnx__Node *node, double factor) {
  char op[64 + HD_NUMBER_BYTES], text[HD_NUMBER_BYTES];
  hd__format_float(text, (float)factor);
  snprintf(op, sizeof op, "op: scale, factor: %s", text);
  return hd__onnx_put_plain(v, r, node, op);
}

/* ---- Computed values ---- */

hd_status hd__onnx_merged_view(hd_onnx_view *out, hd_onnx_reader *r, const char *value) {
  *out = r->view_in;
  if (hd__onnx_is_input(r, value))
    return hd__onnx_take_input(r, value);
  hd_onnx_value *found = hd__onnx_find(r, value);
  if (!found || found->node < 0)
    return hd__fail(
        r->ctx, HD_E_UNSUPPORTED,
        "%s: expected a node that computes '%.80s', found none; heddle reads values that follow from one input",
        r->path, value);
  const HdOnnx__Node *node = r->graph->node[found->node];
  if (found->view) {
    *out = *found->view;
    return HD_OK;
  }
  if (found->busy || ++r->depth > HD_ONNX_LAYERS)
    return hd__onnx_refuse(r, node, "expected a chain of at most %d layers, found more, or a cycle; split the network",
                           HD_ONNX_LAYERS);
  found->busy = true;
  const hd_status made = r->make(out, r, node, found->output);
  found->busy = false; /* also where it failed: another reading may be tried */
  r->depth--;
  HD_TRY(made);
  HD_TRY(HD_NEW_RAW(found->view, 1, r->ctx, "%s: out of memory while reading", r->path));
  *found->view = *out;
  return HD_OK;
}

hd_status hd__onnx_view(hd_onnx_view *out, hd_onnx_reader *r, const char *value) {
  HD_TRY(hd__onnx_merged_view(out, r, value));
  if (out->scores)
    return hd__onnx_refuse_scores(r, out->scores);
  if (hd__onnx_side(out, out->batch) == 1)
    return HD_OK;
  return hd__onnx_refuse(r, hd__onnx_producer(r, value, NULL),
                         "expected a batch of samples as '%.80s', found one of their parts; keep the batch as an axis "
                         "of its own",
                         value);
}

hd_status hd__onnx_beside_view(hd_onnx_view *out, hd_onnx_reader *r, const char *value) {
  HD_TRY(hd__onnx_merged_view(out, r, value));
  return out->scores || out->batch != 0 ? hd__onnx_view(out, r, value) : HD_OK;
}

hd_status hd__onnx_view_of(hd_onnx_view *out, hd_onnx_reader *r, const HdOnnx__Node *node, size_t k) {
  return hd__onnx_view(out, r, hd__onnx_input(node, k));
}

#endif
