/* The part of a C file that is for networks of texts: the scores of the next token, and a generator.
 *
 * Where heddle's decoder takes the plan (train/inference/decoder.h), the file computes new places alone, from the keys
 * and values that it keeps in its memory; other networks compute their whole window for each token. */
#include "op/op.h"
#include "train/export/export_c.h"
#include "train/inference/decoder.h"

typedef struct text_size {
  long long places, tokens, memory;
  bool decodes;
} text_size;

static text_size size_of(const hd_c_writer *w) {
  text_size s = {.places = w->plan->io.places,
                 .tokens = w->network->trained->network.target.scores,
                 .memory = hd__c_memory(w),
                 .decodes = hd__decoder_takes(w->plan)};
  for (int i = 0; i < w->plan->call_count && s.decodes; i++)
    s.memory += hd__c_is_loss(&w->plan->calls[i]) ? 0 : hd__decoder_kept(&w->plan->calls[i]);
  return s;
}

static void write_signature(const hd_c_writer *w, const text_size *s) {
  fprintf(w->to,
          "void %s_scores(float score[%lld], const int32_t *token, int32_t kept, int32_t count, float memory[%lld])",
          w->name, s->tokens, s->memory);
}

static const char *kind_of(const hd_c_writer *w) {
  const hd_trained *t = w->network->trained;
  return t->class_names > 0                                ? "TEXT_CHARACTERS"
         : hd__settings(t->run)->tokens == HD_TOKENS_BYTES ? "TEXT_BYTES"
                                                           : "TEXT_NUMBERS";
}

void hd__c_text_head(const hd_c_writer *w) {
  const text_size s = size_of(w);
  const char *name = w->name;
  fprintf(w->to, " *     ");
  write_signature(w, &s);
  fprintf(w->to,
          ";\n *     int64_t %s_generate(FILE *to, const char *prompt, int64_t length, const text_settings *how);\n",
          name);
  fprintf(w->to,
          " *\n * generate: writes a prompt and `length` tokens that follow it, as heddle generate does: %s. Returns "
          "-1, or the\n * byte of the prompt at which there is no token, or another of the negative numbers below.\n",
          kind_of(w));
  fprintf(w->to, " *     cc -O2 -ffp-contract=off -DHEDDLE_MAIN FILE.c -o %s -lm && ./%s --prompt TEXT --length 300\n",
          name, name);
  fprintf(w->to,
          " *\n * score: of each token as the one that follows token[0] to token[count - 1], at most %lld of them%s\n"
          " * memory: working memory\n",
          s.places,
          s.decodes
              ? ". memory has what the\n * calls before left there of the first `kept` tokens; kept = 0 is always "
                "right"
              : "; kept is not read");
}

/* ---- Scores ---- */

/* A recurrent layer's outputs of all places so far are kept; a copy of the new ones is what other layers read. */
static void write_states(const hd_c_writer *w, const hd_plan_call *call, int64_t kept_at) {
  const int co = call->geom->co;
  hd__c_begin_call(w, call);
  fprintf(w->to, "    g.wi = g.wo = g.wp = kept + count;\n    g.recurrent.first = kept;\n");
  fprintf(w->to, "    c.out[0] = memory + %lld;\n    c.out[1] = memory + %lld;\n", (long long)kept_at,
          (long long)(kept_at + call->out[0].elems));
  hd__c_end_call(w, call);
  fprintf(w->to, "  memcpy(");
  hd__c_place(w, &call->out[0]);
  fprintf(w->to, ", memory + %lld + (int64_t)kept * %d, (size_t)count * %d * sizeof *memory);\n", (long long)kept_at,
          co, co);
}

/* A call for `count` places behind `kept` others. */
static void write_decoding(const hd_c_writer *w, const hd_plan_call *call, int64_t kept_at) {
  const hd_op_places places = hd__decoder_places(call);
  const int ci = call->geom->ci;
  hd__c_begin_call(w, call);
  fprintf(w->to, "    g.wi = g.wo = g.wp = %scount;\n", places == HD_PLACES_PAST ? "kept + " : "");
  if (places != HD_PLACES_SAME)
    fprintf(w->to, "    g.attention.first = kept;\n");
  if (places == HD_PLACES_WEIGHTED)
    fprintf(w->to, "    c.in[1] = (const float *)c.in[1] + (int64_t)kept * %d;\n", ci);
  if (places == HD_PLACES_PAST) {
    fprintf(w->to, "    memcpy(memory + %lld + (int64_t)kept * %d, c.in[0], (size_t)count * %d * sizeof *memory);\n",
            (long long)kept_at, ci, ci);
    fprintf(w->to, "    c.in[0] = memory + %lld;\n", (long long)kept_at);
  }
  hd__c_end_call(w, call);
}

static void write_calls(const hd_c_writer *w, bool decodes) {
  int64_t kept_at = hd__c_memory(w);
  for (int i = 0; i < w->plan->call_count; i++) {
    const hd_plan_call *call = &w->plan->calls[i];
    if (hd__c_is_loss(call))
      continue;
    if (decodes) {
      if (hd__decoder_places(call) == HD_PLACES_STATE)
        write_states(w, call, kept_at);
      else
        write_decoding(w, call, kept_at);
      kept_at += hd__decoder_kept(call);
    } else {
      hd__c_begin_call(w, call);
      hd__c_end_call(w, call);
    }
  }
}

static void write_scores(const hd_c_writer *w, const text_size *s) {
  fprintf(w->to, "\nenum { %s_places = %lld, %s_tokens = %lld, %s_memory = %lld };\n\n", w->name, s->places, w->name,
          s->tokens, w->name, s->memory);
  write_signature(w, s);
  fprintf(w->to, ";\n");
  write_signature(w, s);
  fprintf(w->to, " {\n  const uint64_t mode = hd__fpmode_enter();\n");
  if (s->decodes)
    fprintf(w->to, "  token += kept;\n  count -= kept;\n");
  fprintf(w->to, "  for (int32_t i = 0; i < ");
  fprintf(w->to, s->decodes ? "count; i++)\n    (" : "%lld; i++)\n    (", s->places);
  hd__c_place(w, &w->plan->io.input);
  fprintf(w->to, s->decodes ? ")[i] = (float)token[i];\n" : ")[i] = i < count ? (float)token[i] : 0;\n");
  write_calls(w, s->decodes);
  fprintf(w->to, "  memcpy(score, ");
  hd__c_place(w, &w->plan->io.logits);
  fprintf(w->to, " + (int64_t)(count - 1) * %lld, %lld * sizeof *score);\n  hd__fpmode_leave(mode);\n}\n", s->tokens,
          s->tokens);
}

/* ---- The generator ---- */

static void write_generator(const hd_c_writer *w, const text_size *s) {
  const char *name = w->name;
  const hd_trained *t = w->network->trained;
  fprintf(w->to, "\ntypedef struct %s_generator {\n  text_generator text;\n  int32_t window[%lld];\n", name, s->places);
  fprintf(w->to,
          "  float score[%lld], memory[%lld];\n  double chance[%lld];\n  token_score order[%lld];\n} %s_generator;\n\n",
          s->tokens, s->memory, s->tokens, s->tokens, name);
  fprintf(w->to, "static const text_network %s_network = {%s, ", name, kind_of(w));
  if (hd__c_has_names(w))
    fprintf(w->to, "%s_class_names, %d", name, t->class_names);
  else
    fprintf(w->to, "0, 0");
  fprintf(w->to, ", %lld, %lld, %s_scores};\n\n", s->places, s->tokens, name);
  fprintf(w->to,
          "/* For text_begin and text_next: the text of a generator, which outlives it. */\n"
          "static text_generator *%s_text(%s_generator *g) {\n"
          "  if (!g)\n    return 0;\n"
          "  memset(&g->text, 0, sizeof g->text);\n  g->text.network = &%s_network;\n",
          name, name, name);
  fprintf(w->to,
          "  g->text.window = g->window;\n  g->text.score = g->score;\n  g->text.memory = g->memory;\n"
          "  g->text.draws.tokens = %lld;\n  g->text.draws.chance = g->chance;\n"
          "  g->text.draws.order = g->order;\n  return &g->text;\n}\n\n",
          s->tokens);
}

static void write_generate(const hd_c_writer *w) {
  const char *name = w->name;
  fprintf(w->to,
          "int64_t %s_generate(FILE *to, const char *prompt, int64_t length, const text_settings *how);\n"
          "int64_t %s_generate(FILE *to, const char *prompt, int64_t length, const text_settings *how) {\n"
          "  %s_generator *g = (%s_generator *)malloc(sizeof *g);\n"
          "  const int64_t result = g ? text_write(to, %s_text(g), prompt, length, how) : (int64_t)TEXT_NO_MEMORY;\n"
          "  free(g);\n  return result;\n}\n\n",
          name, name, name, name, name);
  fprintf(w->to,
          "#ifdef HEDDLE_MAIN\nint main(int argc, char **argv) {\n"
          "  %s_generator *g = (%s_generator *)malloc(sizeof *g);\n"
          "  const int result = text_main(%s_text(g), argc, argv);\n  free(g);\n  return result;\n}\n#endif\n",
          name, name, name);
}

hd_status hd__c_text(hd_c_writer *w) {
  const text_size s = size_of(w);
  HD_TRY(hd__c_header(w, "text_generator.h"));
  write_scores(w, &s);
  write_generator(w, &s);
  write_generate(w);
  return HD_OK;
}
