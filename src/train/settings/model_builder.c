/* Models built from C: the description is written line by line, and parsed like a file's. */
#include "heddle/model.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "graph/graph.h"
#include "graph/model.h"

enum { MAX_NAME_BYTES = 200, MAX_DESCRIPTION_BYTES = 4096 };

struct hd_model {
  char *text; /* ends with a line break */
};

static hd_status check_name(hd_ctx *ctx, const char *name, const char *what) {
  size_t length = strlen(name);
  int good = length > 0 && length <= MAX_NAME_BYTES;
  for (const char *c = name; *c; c++)
    good = good && (isalnum((unsigned char)*c) || *c == '-' || *c == '_');
  if (good)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE, "expected letters, digits, '-' and '_' as the %s's name, found '%.40s'; rename it",
                  what, name);
}

static hd_status append(hd_model *model, hd_ctx *ctx, const char *line) {
  char *longer = hd__printf_alloc("%s%s\n", model->text ? model->text : "", line);
  HD_TRY(HD_ALLOCATED(longer, ctx, "out of memory for a model"));
  hd__free(model->text);
  model->text = longer;
  return HD_OK;
}

hd_status hd_model_create(hd_model **out, hd_ctx *ctx, const char *name, int32_t channels, int32_t height,
                          int32_t width) {
  char head[2 * MAX_NAME_BYTES];
  *out = NULL;
  HD_TRY(check_name(ctx, name, "model"));
  snprintf(head, sizeof head, "model: \"%s\"\ninput: [%d, %d, %d]\nlayers:", name, channels, height, width);
  hd_model *model = *out = hd__calloc(1, sizeof *model);
  HD_TRY(HD_ALLOCATED(model, ctx, "out of memory for a model"));
  hd_status status = append(model, ctx, head);
  return HD_CREATED(status, out, hd_model_destroy);
}

void hd_model_destroy(hd_model *model) {
  if (!model)
    return;
  hd__free(model->text);
  hd__free(model);
}

hd_status hd_model_add(hd_model *model, hd_ctx *ctx, const char *name, const char *description, ...) {
  char line[MAX_DESCRIPTION_BYTES], key[MAX_NAME_BYTES + 8];
  va_list args;
  HD_TRY(check_name(ctx, name, "layer"));
  snprintf(key, sizeof key, "\n  - %s: {", name);
  if (strstr(model->text, key))
    return hd__fail(ctx, HD_E_USAGE, "expected each layer name once, found '%s' again; choose another", name);
  size_t at = (size_t)snprintf(line, sizeof line, "%s", key + 1);
  va_start(args, description);
  int length = vsnprintf(line + at, sizeof line - at, description, args);
  va_end(args);
  if (length < 0 || at + (size_t)length + 2 > sizeof line || strpbrk(line + at, "\r\n"))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected one line of fewer than %zu characters about the layer '%s', found more; write it shorter",
                    sizeof line - at, name);
  memcpy(line + at + length, "}", 2);
  return append(model, ctx, line);
}

hd_status hd_model_check(int64_t *parameters, const hd_model *model, hd_ctx *ctx) {
  hd_graph *graph;
  HD_TRY(hd__model_parse(&graph, NULL, ctx, model->text, strlen(model->text), "model"));
  if (parameters) {
    *parameters = 0;
    for (int p = 0; p < graph->param_count; p++)
      *parameters += hd__param_elems(&graph->params[p]);
  }
  hd__graph_destroy(graph);
  return HD_OK;
}

const char *hd_model_text(const hd_model *model) { return model->text; }
