/* A network as one C file: the headers of its operations, its weights, and a function that calls the operations in
 * the order of the plan.
 *
 * The arithmetic is that of src/op: the file carries the text of these headers, which is also what the reference
 * kernels are compiled from, so its scores have the bits of heddle's own. What is written here is data alone:
 * geometries, weights and places in memory, as the plan has them for one sample. */
#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/embed.h"
#include "base/exact_math.h"
#include "base/version.h"
#include "op/op.h"
#include "train/export/export_c.h"

enum { LINE_BYTES = 512, VALUES_A_LINE = 8 };

typedef hd_c_writer writer;

/* ---- The headers ---- */

/* Operations have parameters and functions that a network need not use. */
static void write_quiet(FILE *to) {
  fprintf(to, "#ifdef __GNUC__\n"
              "#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n"
              "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
              "#pragma GCC diagnostic ignored \"-Wmissing-field-initializers\"\n"
              "#endif\n\n");
}

static hd_status write_headers(writer *w) {
  char path[LINE_BYTES];
  write_quiet(w->to);
  fprintf(w->to, "#include <stdint.h>\n\nstatic uint64_t hd__fpmode_enter(void);\nstatic void "
                 "hd__fpmode_leave(uint64_t before);\n");
  HD_TRY(hd__c_header(w, "fpmode.c"));
  for (int i = 0; i < w->plan->call_count; i++) {
    const hd_plan_call *call = &w->plan->calls[i];
    if (hd__c_is_loss(call))
      continue;
    if (call->class != HD_CLASS_ROWS || call->op == HD_OP_custom)
      return hd__fail(
          w->ctx, HD_E_UNSUPPORTED,
          "layer '%s': expected an operation of heddle, found the custom operation %s; remove it before exporting",
          call->name, hd__op_info(call->op)->name);
    snprintf(path, sizeof path, "%s.h", hd__op_info(call->op)->name);
    HD_TRY(hd__c_header(w, path));
  }
  return HD_OK;
}

/* ---- Weights ---- */

static void write_floats(FILE *to, const float *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    fputs(i % VALUES_A_LINE ? " " : "\n    ", to);
    hd__c_float(to, x[i]);
    fputc(',', to);
  }
}

/* In memory order, at the plan's offsets. */
static const float *weights_of(const writer *w) {
  const hd_store *store = w->network->trained->store;
  return store->weights[hd__store_buffer(store)];
}

/* The first parameter that begins at this offset or after it. */
static const hd_plan_param *next_param(const hd_plan *plan, int64_t offset) {
  const hd_plan_param *next = NULL;
  for (int p = 0; p < plan->param_count; p++)
    if (plan->params[p].offset >= offset && (!next || plan->params[p].offset < next->offset))
      next = &plan->params[p];
  return next;
}

/* By offset, with zeros between parameters: C++ has no elements that are named by their index. */
static hd_status write_weights(writer *w) {
  int64_t at = 0;
  fprintf(w->to, "\nstatic const float weight[%lld] = {", (long long)w->plan->size.param_elems);
  for (const hd_plan_param *param; (param = next_param(w->plan, at));) {
    const float *x = weights_of(w) + param->offset;
    const int64_t count = param->rows * param->columns;
    for (int64_t i = 0; i < count; i++)
      if (!isfinite(x[i]))
        return hd__fail(w->ctx, HD_E_NOTFINITE, "%s: expected finite weights, found %g; export another checkpoint",
                        param->name, (double)x[i]);
    for (; at < param->offset; at++)
      fprintf(w->to, " 0,");
    fprintf(w->to, "\n    /* %s */", param->name);
    write_floats(w->to, x, count);
    at += count;
  }
  fprintf(w->to, "\n};\n");
  return HD_OK;
}

/* ---- The file ---- */

static bool is_of_word(char c) { return (isalnum((unsigned char)c) && (unsigned char)c < 0x80) || c == '_'; }

/* Whether a header has the word. */
static bool is_taken(const char *word) {
  const size_t length = strlen(word);
  for (int i = 0; i < HD_C_HEADERS && hd__embed_chains[i].name; i++) {
    const char *text = (const char *)hd__embed_chains[i].bytes;
    for (const char *at = text; (at = strstr(at, word)); at += length)
      if ((at == text || !is_of_word(at[-1])) && !is_of_word(at[length]))
        return true;
  }
  return false;
}

/* Whether a word that the file makes of the network's name is an operation's. */
static bool collides(const char *name) {
  static const char *const ends[] = {"scores", "pixels",    "outputs", "memory",   "class_names", "places",
                                     "tokens", "generator", "network", "generate", "text"};
  char word[HD_C_NAME_BYTES + 16];
  bool found = false;
  for (size_t i = 0; i < sizeof ends / sizeof *ends && !found; i++) {
    snprintf(word, sizeof word, "%s_%s", name, ends[i]);
    found = is_taken(word);
  }
  return found;
}

/* The network's name as a C identifier: "net_" is before it if it begins with a digit, or means something else. */
static void set_name(writer *w) {
  char name[HD_C_NAME_BYTES - 4];
  snprintf(name, sizeof name, "%s", w->network->trained->network.name);
  for (char *c = name; *c; c++)
    *c = is_of_word(*c) ? *c : '_';
  snprintf(w->name, sizeof w->name, "%s%s", isdigit((unsigned char)*name) || collides(name) ? "net_" : "", name);
}

static const hd_shape *input_of(const writer *w) { return &w->plan->graph->values[w->plan->graph->input].shape; }

static void write_signature(const writer *w) {
  fprintf(w->to, "void %s_scores(float score[%lld], const %s pixel[%lld], float memory[%lld])", w->name,
          (long long)w->plan->io.logits.elems,
          hd__trained_reads_columns(w->network->trained) ? "double"
          : w->network->bytes                            ? "uint8_t"
                                                         : "float",
          (long long)hd__shape_elems(input_of(w)), (long long)hd__c_memory(w));
}

/* What C could read as something else is written in octal. */
static void write_text(FILE *to, const char *text) {
  fputc('"', to);
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c < 0x20 || *c >= 0x7f || strchr("\"\\?", *c))
      fprintf(to, "\\%03o", *c);
    else
      fputc(*c, to);
  fputc('"', to);
}

static void write_names(const writer *w) {
  const hd_trained *t = w->network->trained;
  const int32_t classes = hd__target_classes(&t->network.target);
  fprintf(w->to, "\nextern ");
  hd__c_names_signature(w);
  fprintf(w->to, ";\n");
  hd__c_names_signature(w);
  fprintf(w->to, " = {");
  for (int32_t c = 0; c < classes; c++) {
    fprintf(w->to, "%s\n    ", c ? "," : "");
    if (c < t->class_names)
      write_text(w->to, t->class_name[c]);
    else
      fputc('0', w->to);
  }
  fprintf(w->to, "};\n");
}

/* A name inside a comment, which it cannot end. */
static void write_quoted(FILE *to, const char *text) {
  for (const char *c = text; *c; c++)
    fprintf(to, (unsigned char)*c < 0x20 || strchr("*\\\x7f", *c) ? "\\%03o" : "%c", (unsigned char)*c);
}

/* What each number of a row is. */
static void write_columns(const writer *w) {
  const hd_features *f = &w->network->trained->features;
  for (int32_t i = 0; i < f->count && f->feature[i].column; i++) {
    const hd_feature *each = &f->feature[i];
    fprintf(w->to, " *   pixel[%d]: ", i);
    write_quoted(w->to, each->column);
    if (each->category) {
      fprintf(w->to, ", 1 if it is ");
      write_quoted(w->to, each->category);
      fprintf(w->to, ", else 0");
    } else if (each->empty) {
      fprintf(w->to, ", 1 if it is empty, else 0");
    } else if (!isnan(each->fill)) {
      fprintf(w->to, ", %.17g if it is empty", each->fill);
    }
    fputc('\n', w->to);
  }
}

/* What a sample is, and how the run made it. */
static void write_sample(const writer *w) {
  char shape[HD_SHAPE_TEXT_BYTES];
  if (hd__trained_reads_columns(w->network->trained)) {
    fprintf(w->to, " * pixel: one row of %lld numbers, not normalised\n", (long long)hd__shape_elems(input_of(w)));
    write_columns(w);
    return;
  }
  fprintf(w->to, " * pixel: one sample, %s in planes (channel, row, column)%s\n",
          hd__shape_text(shape, sizeof shape, input_of(w)), w->network->bytes ? ", 0 to 255, not normalised" : "");
  if (w->network->trained->tta != HD_TTA_NONE)
    fprintf(w->to, " *        (one view of it: the other ones of --tta %s are not computed)\n",
            hd_choice_name(HD_OPT_TTA, (int)w->network->trained->tta));
  if (!*w->network->transforms)
    return;
  fprintf(w->to, " *\n * In the run samples were made by these transforms, random ones in training only. This file has "
                 "to_float and\n"
                 " * normalise of them; the program must do the others, crops and sizes for example, before it "
                 "calls:\n *\n *     ");
  write_quoted(w->to, w->network->transforms);
  fprintf(w->to, "\n *\n");
}

/* ---- Heads ---- */

static void name_head(char out[HD_C_NAME_BYTES], const hd_target *t, int32_t head);

static bool has_earlier(const char *name, const hd_target *t, int32_t head) {
  char before[HD_C_NAME_BYTES];
  for (int32_t k = 0; k < head; k++) {
    name_head(before, t, k);
    if (!strcmp(before, name))
      return true;
  }
  return false;
}

/* The name of a head as a part of an identifier; with a number if an earlier head has the same. */
static void name_head(char out[HD_C_NAME_BYTES], const hd_target *t, int32_t head) {
  char clean[HD_TARGET_HEAD_BYTES];
  snprintf(clean, sizeof clean, "%s", t->head[head].name);
  for (char *c = clean; *c; c++)
    *c = is_of_word(*c) ? *c : '_';
  snprintf(out, HD_C_NAME_BYTES, "%s", clean);
  for (int number = 2; has_earlier(out, t, head); number++)
    snprintf(out, HD_C_NAME_BYTES, "%s_%d", clean, number);
}

/* Which scores are whose. */
static void describe_heads(const writer *w) {
  const hd_target *t = &w->network->trained->network.target;
  char name[HD_C_NAME_BYTES];
  for (int32_t k = 0; k < t->heads; k++) {
    const hd_loss_head *is = &t->head[k].is;
    name_head(name, t, k);
    fprintf(w->to, " *   score[%d] to score[%d]: ", is->first, is->first + is->count - 1);
    write_quoted(w->to, t->head[k].name);
    fprintf(w->to, ", of %s; %s_%s_offset and %s_%s_size\n", hd__op_info(hd__head_op(is))->name, w->name, name, w->name,
            name);
  }
}

static void write_heads(const writer *w) {
  const hd_target *t = &w->network->trained->network.target;
  char name[HD_C_NAME_BYTES];
  for (int32_t k = 0; k < t->heads; k++) {
    name_head(name, t, k);
    fprintf(w->to, "enum { %s_%s_offset = %d, %s_%s_size = %d };\n", w->name, name, t->head[k].is.first, w->name, name,
            t->head[k].is.count);
  }
  fputs(t->heads > 0 ? "\n" : "", w->to);
}

/* The declarations, what a sample is and what comes out. */
static void write_use(const writer *w) {
  fprintf(w->to, " *     ");
  write_signature(w);
  if (hd__c_has_names(w)) {
    fprintf(w->to, ";\n *     extern ");
    hd__c_names_signature(w);
  }
  fprintf(w->to, ";\n *\n");
  write_sample(w);
  fprintf(w->to, " * score: %s\n",
          w->network->trained->network.target.heads > 0 ? "those of the heads, one after the other"
          : w->network->trained->targets.count > 0      ? "the predicted numbers"
          : w->network->trained->network.target.places > 0
              ? "the output of the last layer, in planes (class, row, column)"
              : "the output of the last layer");
  describe_heads(w);
  fprintf(w->to, " * memory: working memory\n");
}

static bool is_text(const writer *w) { return hd__network_reads_text(&w->network->trained->network); }

static void write_head(const writer *w) {
  fprintf(w->to, "/* %s: a network trained by heddle %s, weights %s.\n *\n", w->name, hd__version(),
          w->network->digest);
  if (is_text(w))
    hd__c_text_head(w);
  else
    write_use(w);
  fprintf(w->to,
          " *\n * What it computes equals heddle's bit for bit if the compiler may not contract or reorder:\n *\n"
          " *     cc -O2 -ffp-contract=off -c FILE.c       and link with -lm, after the program's objects\n *\n"
          " * The functions above it are copies of heddle's own operations. */\n");
}

/* Numbers that are `bytes` apart. */
static void write_doubles(FILE *to, const char *name, const double *first, size_t bytes, int32_t count) {
  fprintf(to, "  static const double %s[] = {", name);
  for (int32_t i = 0; i < count; i++) {
    fputs(i ? ", " : "", to);
    hd__c_double(to, *(const double *)(const void *)((const char *)first + (size_t)i * bytes));
  }
  fprintf(to, "};\n");
}

/* A row, normalised by columns. */
static void write_row(const writer *w) {
  const hd_features *f = &w->network->trained->features;
  write_doubles(w->to, "mean", &f->feature->mean, sizeof *f->feature, f->count);
  write_doubles(w->to, "std", &f->feature->std, sizeof *f->feature, f->count);
  fprintf(w->to, "  for (int64_t i = 0; i < %d; i++)\n    (", f->count);
  hd__c_place(w, &w->plan->io.input);
  fprintf(w->to, ")[i] = (float)(((double)pixel[i] - mean[i]) / std[i]);\n");
}

static void write_input(const writer *w) {
  const hd_shape *shape = input_of(w);
  const int channels = shape->rank == 3 ? shape->dim[0] : 1;
  const long long plane = (long long)hd__shape_elems(shape) / channels;
  fprintf(w->to, "  static const float scale[] = {");
  write_floats(w->to, w->network->normalise.scale, channels);
  fprintf(w->to, "};\n  static const float shift[] = {");
  write_floats(w->to, w->network->normalise.shift, channels);
  fprintf(w->to, "};\n  for (int64_t i = 0; i < %lld; i++)\n    for (int c = 0; c < %d; c++)\n      (", plane,
          channels);
  hd__c_place(w, &w->plan->io.input);
  fprintf(w->to, ")[i * %d + c] = fmaf((float)pixel[c * %lldLL + i], scale[c], shift[c]);\n", channels, plane);
}

/* Scores become numbers on the scale of the file that the network was trained on. */
static void write_unscaling(const writer *w) {
  const hd_target_scale *t = &w->network->trained->targets;
  if (t->count == 0)
    return;
  write_doubles(w->to, "target_mean", t->mean, sizeof *t->mean, t->count);
  write_doubles(w->to, "target_std", t->std, sizeof *t->std, t->count);
  fprintf(
      w->to,
      "  for (int i = 0; i < %d; i++)\n    score[i] = (float)((double)score[i] * target_std[i] + target_mean[i]);\n",
      t->count);
}

/* A score for each class of each pixel is in planes, as the pixels are: in memory those of a pixel lie together. */
static void write_result(const writer *w) {
  const long long elems = w->plan->io.logits.elems, places = w->network->trained->network.target.places;
  if (places > 0)
    fprintf(w->to,
            "  for (int64_t i = 0; i < %lld; i++)\n    for (int c = 0; c < %lld; c++)\n      score[c * %lldLL + i] = (",
            places, elems / places, places);
  else
    fprintf(w->to, "  memcpy(score, ");
  hd__c_place(w, &w->plan->io.logits);
  if (places > 0)
    fprintf(w->to, ")[i * %lld + c];\n", elems / places);
  else
    fprintf(w->to, ", %lld * sizeof *score);\n", elems);
}

static void write_scores(const writer *w) {
  fprintf(w->to, "\nenum { %s_pixels = %lld, %s_outputs = %lld, %s_memory = %lld };\n\n", w->name,
          (long long)hd__shape_elems(input_of(w)), w->name, (long long)w->plan->io.logits.elems, w->name,
          (long long)hd__c_memory(w));
  write_heads(w);
  write_signature(w);
  fprintf(w->to, ";\n");
  write_signature(w);
  fprintf(w->to, " {\n  const uint64_t mode = hd__fpmode_enter();\n");
  if (hd__trained_reads_columns(w->network->trained))
    write_row(w);
  else
    write_input(w);
  for (int i = 0; i < w->plan->call_count; i++)
    if (!hd__c_is_loss(&w->plan->calls[i])) {
      hd__c_begin_call(w, &w->plan->calls[i]);
      hd__c_end_call(w, &w->plan->calls[i]);
    }
  write_result(w);
  write_unscaling(w);
  fprintf(w->to, "  hd__fpmode_leave(mode);\n}\n");
}

hd_status hd__export_c(FILE *to, hd_ctx *ctx, const hd_exported *network) {
  writer w = {.to = to, .ctx = ctx, .network = network, .plan = network->trained->plan};
  set_name(&w);
  write_head(&w);
  HD_TRY(write_headers(&w));
  HD_TRY(write_weights(&w));
  if (hd__c_has_names(&w))
    write_names(&w);
  if (is_text(&w))
    return hd__c_text(&w);
  write_scores(&w);
  return HD_OK;
}
