/* --sample-every: texts that a network writes while it is trained: see session.h.
 *
 * The rank that writes the run's folder decodes them alone where threads compute. Any other network computes a whole
 * window for each token, in an evaluation, which all ranks would have to take part in: a single process alone does. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "exec/exchange/cluster.h"
#include "train/inference/text_network.h"
#include "train/run/session.h"

static hd_text_network network_of(const hd_session *s) {
  const session_compute *c = &s->compute;
  const hd_split *data = hd__dataset_train(s->input.data);
  return (hd_text_network){.plan = c->eval_plan,
                           .store = c->average_store ? c->average_store : c->store,
                           .threads = c->threads,
                           .exec = c->eval_exec,
                           .class_name = data->class_names,
                           .class_names = data->class_names ? data->classes : 0,
                           .bytes = s->run.settings->tokens == HD_TOKENS_BYTES,
                           .places = s->run.network.target.places,
                           .tokens = s->run.network.target.scores};
}

bool hd__session_shows_texts(const hd_session *s) {
  const hd_text_network network = network_of(s);
  return s->run.settings->sample_every > 0 && hd__network_reads_text(&s->run.network) && !hd__stages_are_apart(s) &&
         (hd__cluster_ranks(s->compute.local) == 1 || hd__text_network_decodes(&network));
}

hd_status hd__session_check_samples(const hd_session *s, hd_ctx *ctx) {
  if (s->run.settings->sample_every == 0 || hd__session_shows_texts(s) || *s->checkpoints.resumed)
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--sample-every expects a single process, or a network of texts on CPUs, whose layers read a place "
                  "and, by causal attention or a state, those before it, found %s; leave it out, and use heddle "
                  "generate on the run",
                  s->run.network.name ? s->run.network.name : "another network");
}

/* Bytes that are no characters, and the character 0, which would end the text, are written as \xHH. */
static void show_bytes(char out[HD_SAMPLE_BYTES], const char *text, size_t length) {
  uint32_t code;
  for (size_t i = 0, bytes; i < length; i += bytes) {
    bytes = hd__utf8_decode(&code, text + i, length - i);
    if (bytes > 0 && code > 0) {
      memcpy(out, text + i, bytes);
      out += bytes;
    } else {
      out += snprintf(out, sizeof "\\xHH", "\\x%02X", (unsigned char)text[i]);
      bytes = 1;
    }
  }
  *out = 0;
}

static hd_status write_sample(char out[HD_SAMPLE_BYTES], hd_session *s, hd_ctx *ctx, hd_generator *g) {
  const hd_generation how = {.temperature = 1, .seed = (uint64_t)s->run.settings->seed};
  char text[HD_SAMPLE_BYTES];
  size_t length = 0, bytes;
  HD_TRY(hd_generator_begin(g, ctx, "", 0, &how));
  for (int i = 0; i < HD_SAMPLE_TOKENS; i++, length += bytes)
    HD_TRY(hd_generator_next(g, ctx, text + length, &bytes));
  show_bytes(out, text, length);
  return HD_OK;
}

hd_status hd__session_sample(hd_session *s, hd_ctx *ctx) {
  const int64_t step = s->run.counters.step, every = s->run.settings->sample_every;
  char text[HD_SAMPLE_BYTES];
  hd_generator *g;
  if (!hd__session_shows_texts(s) || (step % every != 0 && step != s->run.steps_in_all))
    return HD_OK;
  HD_TRY(hd__session_load_average(s, ctx));
  if (!hd__session_writes(s))
    return HD_OK;
  const hd_text_network network = network_of(s);
  HD_TRY(hd__generator_of(&g, ctx, &network));
  const hd_status status = write_sample(text, s, ctx, g);
  hd_generator_destroy(g);
  const hd_event event = {.kind = HD_EVENT_SAMPLE, .step = step, .text = text};
  HD_TRY(status);
  hd__session_event(s, &event);
  return hd__session_note_sample(s, ctx, text);
}
