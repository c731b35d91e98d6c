/* Parts of a C file that several writers need; see export_c.h. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/embed.h"
#include "base/json_number.h"
#include "op/op.h"
#include "train/export/export_c.h"

enum { LINE_BYTES = 512 };

/* ---- Headers ---- */

static int find_header(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (int i = 0; i < HD_C_HEADERS && hd__embed_chains[i].name; i++)
    if (!strcmp(hd__embed_chains[i].name, name))
      return i;
  return -1;
}

static const char INTRINSICS[] = "#include <xmmintrin.h>";

/* tcc has no intrinsics, and its assembler does not know these two instructions: stmxcsr and ldmxcsr of (%rax). */
static void write_intrinsics(FILE *to) {
  fprintf(to,
          "#ifdef __TINYC__\n"
          "static unsigned _mm_getcsr(void) {\n"
          "  unsigned is;\n"
          "  __asm__ volatile(\".byte 0x0f, 0xae, 0x18\" ::\"a\"(&is) : \"memory\");\n"
          "  return is;\n"
          "}\n"
          "static void _mm_setcsr(unsigned is) {\n"
          "  __asm__ volatile(\".byte 0x0f, 0xae, 0x10\" ::\"a\"(&is) : \"memory\");\n"
          "}\n"
          "#else\n%s\n#endif\n",
          INTRINSICS);
}

/* A line of a header; one that includes another header becomes its text. */
static hd_status write_line(hd_c_writer *w, const char *line, int length) {
  char path[LINE_BYTES];
  if (!strncmp(line, "#pragma once", 12))
    return HD_OK;
  if (length < LINE_BYTES && sscanf(line, "#include \"%511[^\"\n]\"", path) == 1)
    return hd__c_header(w, path);
  if ((size_t)length == strlen(INTRINSICS) && !strncmp(line, INTRINSICS, strlen(INTRINSICS)))
    write_intrinsics(w->to);
  else
    fprintf(w->to, "%.*s\n", length, line);
  return HD_OK;
}

hd_status hd__c_header(hd_c_writer *w, const char *path) {
  const int header = find_header(path);
  if (header < 0)
    return hd__fail(w->ctx, HD_E_UNSUPPORTED, "C export does not know the operation %s; export to ONNX", path);
  if (w->written[header])
    return HD_OK;
  w->written[header] = true;
  const char *line = (const char *)hd__embed_chains[header].bytes;
  for (const char *end; (end = strchr(line, '\n')); line = end + 1)
    HD_TRY(write_line(w, line, (int)(end - line)));
  return HD_OK;
}

bool hd__c_is_loss(const hd_plan_call *call) { return hd__op_info(call->op)->rule->loss; }

/* ---- Numbers ---- */

/* What a constant lacks to be a floating one: "3" becomes "3.". */
static const char *point_of(const char *number) { return strpbrk(number, ".e") ? "" : "."; }

void hd__c_float(FILE *to, float x) {
  char text[HD_JSON_NUMBER_BYTES];
  if (isinf(x)) {
    fputs(x < 0 ? "-INFINITY" : "INFINITY", to);
    return;
  }
  hd__json_float(text, x);
  fprintf(to, "%s%sf", text, point_of(text));
}

void hd__c_double(FILE *to, double x) {
  char text[HD_JSON_NUMBER_BYTES];
  hd__json_number(text, x);
  fprintf(to, "%s%s", text, point_of(text));
}

/* ---- The calls ---- */

/* The fields of a geometry that operations read forward. */
#define INTS(field, n)                                                                                                 \
  { #field, offsetof(hd_geom, field), n, false }
#define REAL(field)                                                                                                    \
  { #field, offsetof(hd_geom, field), 1, true }
static const struct field {
  const char *name;
  size_t offset;
  int count;
  bool is_real;
} fields[] = {INTS(ci, 1),
              INTS(hi, 1),
              INTS(wi, 1),
              INTS(co, 1),
              INTS(ho, 1),
              INTS(wo, 1),
              INTS(hp, 1),
              INTS(wp, 1),
              INTS(relu, 1),
              INTS(window.kh, 1),
              INTS(window.kw, 1),
              INTS(window.sh, 1),
              INTS(window.sw, 1),
              INTS(window.ph, 1),
              INTS(window.pw, 1),
              INTS(window.dilation, 2),
              INTS(window.transposed, 1),
              INTS(conv.groups, 1),
              INTS(conv.pool, 1),
              INTS(conv_transpose2d.output_padding, 2),
              INTS(norm.groups, 1),
              REAL(norm.eps),
              INTS(concat.part, HD_CONCAT_INPUTS),
              REAL(leaky_relu.negative_slope),
              REAL(scale.factor),
              REAL(elu.alpha),
              REAL(softplus.beta),
              REAL(softplus.threshold),
              REAL(clip.min),
              REAL(clip.max),
              INTS(prelu.num_parameters, 1),
              INTS(attention.heads, 1),
              INTS(attention.key_heads, 1),
              INTS(attention.causal, 1),
              REAL(rotary.ratio),
              REAL(rotary.rest),
              INTS(embedding.tokens, 1),
              INTS(binary.spread, 2),
              INTS(sides.out, 2),
              INTS(upsample.bilinear, 1),
              INTS(upsample.align_corners, 1),
              INTS(pad.before, 2),
              INTS(pad.mode, 1),
              INTS(line.channels, 1),
              INTS(slice.start, 1),
              INTS(reshape.swap, 2),
              INTS(reshape.inner, 1),
              REAL(shifted_linear.shift),
              INTS(gelu.approximate, 1),
              INTS(avg_pool2d.count_include_pad, 1)};

static void write_field(FILE *to, const hd_geom *geom, const struct field *field) {
  const char *at = (const char *)geom + field->offset;
  int32_t value[HD_CONCAT_INPUTS];
  float real;
  if (field->is_real) {
    memcpy(&real, at, sizeof real);
    fprintf(to, "    g.%s = ", field->name);
    hd__c_float(to, real);
    fprintf(to, ";\n");
    return;
  }
  memcpy(value, at, (size_t)field->count * sizeof *value);
  for (int i = 0; i < field->count; i++)
    if (field->count > 1)
      fprintf(to, "    g.%s[%d] = %d;\n", field->name, i, value[i]);
    else
      fprintf(to, "    g.%s = %d;\n", field->name, value[i]);
}

/* Assignments: C++ has initializers that name their member only since 20. */
static void write_geom(FILE *to, const hd_geom *geom) {
  static const hd_geom nothing;
  fprintf(to, "    hd_geom g;\n    memset(&g, 0, sizeof g);\n");
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const size_t bytes = (size_t)fields[i].count * 4, offset = fields[i].offset;
    if (memcmp((const char *)geom + offset, (const char *)&nothing + offset, bytes))
      write_field(to, geom, &fields[i]);
  }
}

/* Floats of memory before the values of a whole batch. */
static int64_t arena_floats(const hd_plan *plan) { return plan->size.arena_bytes / (int64_t)sizeof(float); }

void hd__c_place(const hd_c_writer *w, const hd_place *place) {
  const int64_t floats = place->offset / (int64_t)sizeof(float);
  switch (place->where) {
  case HD_AT_ARENA: fprintf(w->to, "memory + %lld", (long long)floats); return;
  case HD_AT_BATCH: fprintf(w->to, "memory + %lld", (long long)(arena_floats(w->plan) + floats)); return;
  case HD_AT_PARAM: fprintf(w->to, "weight + %lld", (long long)place->offset); return;
  default: fprintf(w->to, "0"); return;
  }
}

static void write_places(const hd_c_writer *w, const char *name, const hd_place *place, int count) {
  for (int i = 0; i < count; i++)
    if (place[i].where == HD_AT_ARENA || place[i].where == HD_AT_BATCH || place[i].where == HD_AT_PARAM) {
      fprintf(w->to, "    c.%s[%d] = ", name, i);
      hd__c_place(w, &place[i]);
      fprintf(w->to, ";\n");
    }
}

void hd__c_begin_call(const hd_c_writer *w, const hd_plan_call *call) {
  fprintf(w->to, "  { /* %s */\n", call->name);
  write_geom(w->to, call->geom);
  fprintf(w->to, "    hd_call c;\n    memset(&c, 0, sizeof c);\n    c.g = &g;\n    c.rows = 1;\n");
  write_places(w, "in", call->in, HD_MAX_IN);
  write_places(w, "out", call->out, HD_MAX_OUT);
}

void hd__c_end_call(const hd_c_writer *w, const hd_plan_call *call) {
  const char *op = hd__op_info(call->op)->name;
  fprintf(w->to, "    for (int64_t i = 0; i < %s_count(&g); i++)\n      %s_at(&c, 0, i);\n  }\n", op, op);
}

/* ---- Declarations ---- */

int64_t hd__c_memory(const hd_c_writer *w) {
  return arena_floats(w->plan) + w->plan->size.batch_bytes / (int64_t)sizeof(float);
}

bool hd__c_has_names(const hd_c_writer *w) {
  const hd_trained *t = w->network->trained;
  return t->class_names > 0 && hd__target_classes(&t->network.target) > 0;
}

void hd__c_names_signature(const hd_c_writer *w) {
  fprintf(w->to, "const char *const %s_class_names[%d]", w->name,
          hd__target_classes(&w->network->trained->network.target));
}
