/* The table of operations, from ops.def, and functions that look up their descriptors. */
#include <string.h>

#include "op/op.h"

#define OP_ROWS(name) extern const hd_op_rule hd__rule_##name;
#define OP_SHARD OP_ROWS
#define OP_REDUCE OP_ROWS
#define OP_STATS OP_ROWS
#define OP_UPDATE(name)
#define OP(name, class) OP_##class(name)
#define OP_DX(name) OP_ROWS(name)
#define OP_DW(name) OP_ROWS(name)
#define OP_DX_DW(name) OP_ROWS(name)
#include "kernel/ops.def"
#undef OP_ROWS
#undef OP_SHARD
#undef OP_REDUCE
#undef OP_STATS
#undef OP_UPDATE

#define ENTRY(name, class, role, rule) {#name, HD_CLASS_##class, HD_ROLE_##role, &hd__rule_##rule},
#define OP_ROWS(name) ENTRY(name, ROWS, FORWARD, name)
#define OP_SHARD(name) ENTRY(name, SHARD, FORWARD, name)
#define OP_REDUCE(name) ENTRY(name, REDUCE, FORWARD, name)
#define OP_STATS(name) ENTRY(name, STATS, FORWARD, name)
#define OP_UPDATE(name) {#name, HD_CLASS_UPDATE, HD_ROLE_FORWARD, NULL},
#define OP(name, class) OP_##class(name)
#define OP_DX(name) OP_ROWS(name) ENTRY(name##_dx, ROWS, DX, name)
#define OP_DW(name) OP_ROWS(name) ENTRY(name##_dw, REDUCE, DW, name)
#define OP_DX_DW(name) OP_DX(name) ENTRY(name##_dw, REDUCE, DW, name)
static const hd_op_info table[HD_OP_COUNT] = {
#include "kernel/ops.def"
};

const hd_op_info *hd__op_info(hd_op op) { return &table[op]; }

hd_op hd__op_find(const char *name) {
  hd_op op = 0;
  while (op < HD_OP_COUNT && strcmp(table[op].name, name))
    op++;
  return op;
}

hd_op hd__op_find_line(const char *name) {
  static const struct line {
    const char *name;
    hd_op op;
  } lines[] = {{"conv1d", HD_OP_conv2d},
               {"conv_transpose1d", HD_OP_conv_transpose2d},
               {"max_pool1d", HD_OP_max_pool2d},
               {"avg_pool1d", HD_OP_avg_pool2d}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strcmp(name, lines[i].name))
      return lines[i].op;
  return HD_OP_COUNT;
}

int64_t hd__op_flops(hd_op op, const hd_geom *g) {
  const hd_op_info *info = &table[op];
  return info->rule->flops_of ? info->rule->flops_of(g, info->role)
                              : (int64_t)info->rule->flops[info->role] * g->ci * g->hi * g->wi;
}

int64_t hd__op_macs(hd_op op, const hd_geom *g) { return table[op].rule->macs ? table[op].rule->macs(g) : 0; }

bool hd__op_works_in_place(hd_op op) {
  return table[op].rule && table[op].rule->in_place && table[op].role != HD_ROLE_DW;
}

bool hd__op_drops(hd_op op) { return op == HD_OP_dropout || op == HD_OP_dropout2d; }

void hd__op_defaults(hd_attrs *attrs, const hd_op_setting *settings) {
  *attrs = (hd_attrs){0};
  for (const hd_op_setting *s = settings; s && s->key; s++) {
    void *field = (char *)attrs + s->field;
    if (s->type == HD_SETTING_REAL)
      *(float *)field = (float)s->default_value;
    else if (s->type < HD_SETTING_LAYER)
      for (int i = 0; i < (s->type == HD_SETTING_SIDES ? 2 : 1); i++)
        ((int32_t *)field)[i] = (int32_t)s->default_value;
  }
}

void hd__op_settings_to_geom(hd_geom *geom, const hd_attrs *attrs, const hd_op_setting *settings) {
  for (const hd_op_setting *s = settings; s && s->key; s++)
    if (s->geom)
      memcpy((char *)geom + s->geom, (const char *)attrs + s->field, sizeof(int32_t));
}

const hd_op_setting *hd__op_weights(const hd_op_rule *rule) {
  const hd_op_setting *s = rule->settings;
  while (s && s->key && s->type != HD_SETTING_WEIGHTS)
    s++;
  return s && s->key ? s : NULL;
}

static void default_to(int32_t *field, int32_t value) { *field = *field ? *field : value; }

int hd__op_sample(hd_geom *g, hd_op op, int index) {
  const hd_op_info *info = &table[op];
  if (!info->rule || index >= info->rule->sample_count)
    return 0;
  *g = info->rule->samples[index];
  default_to(&g->hi, 1);
  default_to(&g->wi, 1);
  default_to(&g->co, g->ci);
  default_to(&g->window.kh, 1);
  default_to(&g->window.kw, 1);
  default_to(&g->window.sh, 1);
  default_to(&g->window.sw, 1);
  default_to(&g->conv.pool, 1);
  if (!hd__geom_finish(g))
    return 0;
  if (info->role == HD_ROLE_DX && info->rule->part)
    info->rule->part(g, g, 1);
  return 1;
}
