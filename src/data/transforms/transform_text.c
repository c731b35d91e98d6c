/* Writes a list of transforms as one line; see transform.h. */
#include "data/transforms/transform.h"

#include "base/text_buffer.h"
#include "data/transforms/transform_step.h"

/* Values have been checked: they are words, numbers, and lists of numbers. */
static void append_value(hd_line *l, const hd_yaml_node *node) {
  if (node->kind == HD_YAML_SCALAR) {
    hd__line_add(l, "%s", node->text);
    return;
  }
  hd__line_add(l, "[");
  for (int i = 0; i < node->count; i++) {
    hd__line_add(l, i ? ", " : "");
    append_value(l, &node->item[i]);
  }
  hd__line_add(l, "]");
}

static void append_step(hd_line *l, const hd_transform_step *step) {
  const hd_transform *row = step->row;
  bool any = false;
  for (int k = 0; k < HD_TRANSFORM_MAX_KEYS && row->keys[k]; k++) {
    const hd_yaml_node *value = hd__step_param(step, row->keys[k]);
    if (!value)
      continue;
    hd__line_add(l, any ? ", %s%s: " : "{%s: {%s: ", any ? "" : row->name, row->keys[k]);
    append_value(l, value);
    any = true;
  }
  hd__line_add(l, any ? "}}" : "%s", row->name);
}

hd_status hd__transforms_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *list, bool evaluation) {
  hd_line l = {.text = text, .bytes = bytes};
  HD_TRY(hd__transforms_check(ctx, list));
  hd__line_add(&l, "[");
  for (int i = 0; i < list->count; i++) {
    hd_transform_step step = {0};
    hd_status status = hd__step_read(&step, ctx, &list->item[i]);
    hd__step_free(&step);
    HD_TRY(status);
    if (evaluation && step.row->kind != HD_TRANSFORM_FIXED)
      return hd__yaml_fail(ctx, step.where, "expected nothing random in evaluation, found %s; %s", step.row->name,
                           step.row->kind == HD_TRANSFORM_MIDDLE ? "use centre_crop" : "leave it out");
    hd__line_add(&l, i ? ", " : "");
    append_step(&l, &step);
  }
  hd__line_add(&l, "]");
  if (l.length < bytes)
    return HD_OK;
  return hd__yaml_fail(ctx, list, "expected a list of at most %zu characters, found more; leave some out", bytes - 1);
}
