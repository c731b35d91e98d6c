/* The forward pass of a text's new places; see decoder.h. */
#include "train/inference/decoder.h"

#include <string.h>

#include "base/alloc.h"
#include "platform/fpmode.h"

typedef struct share {
  hd_decoder_texts texts;
  int32_t room; /* places of all of them that the values have room for */
  void *values, *scratch;
} share;

struct hd_decoder {
  const hd_plan *plan;
  const hd_store *store;
  hd_threads *threads;
  int32_t texts, places, shares;
  int64_t kept_elems; /* of a text and all layers */
  float *kept;        /* texts x kept_elems */
  share *share;
};

/* ---- What it takes ---- */

/* The geometry of a layer for other places than the plan's. */
static hd_geom geom_of(const hd_geom *planned, int32_t places) {
  hd_geom g = *planned;
  g.wi = places;
  g.wo = g.wp = places;
  return g;
}

hd_op_places hd__decoder_places(const hd_plan_call *call) {
  const hd_op_rule *rule = hd__op_info(call->op)->rule;
  return rule->elementwise ? HD_PLACES_SAME : rule->places;
}

static bool is_pointwise(const hd_geom *g) {
  return g->window.kh == 1 && g->window.kw == 1 && g->window.sh == 1 && g->window.sw == 1 && g->window.ph == 0 &&
         g->window.pw == 0 && g->conv.pool == 1;
}

/* Whether the kernel for other places reads the same packed weights, if any. */
static bool packs_alike(const hd_plan *plan, const hd_plan_call *call, int32_t places) {
  const hd_geom one = geom_of(call->geom, 1), all = geom_of(call->geom, places);
  const int64_t elems = hd_packed_elems(plan->kernels, call->op, call->geom);
  return hd_packed_elems(plan->kernels, call->op, &one) == elems &&
         hd_packed_elems(plan->kernels, call->op, &all) == elems;
}

static bool takes_call(const hd_plan *plan, const hd_plan_call *call) {
  const hd_geom *g = call->geom;
  const hd_op_places places = hd__decoder_places(call);
  for (int i = 0; i < HD_MAX_IN + HD_MAX_OUT; i++) {
    const hd_where at = i < HD_MAX_IN ? call->in[i].where : call->out[i - HD_MAX_IN].where;
    if (at != HD_AT_NOWHERE && at != HD_AT_ARENA && at != HD_AT_PARAM)
      return false;
  }
  return places != HD_PLACES_ANY && (places != HD_PLACES_PAST || g->attention.causal) && !call->per_shard &&
         !call->run_outputs && (call->op != HD_OP_conv2d || is_pointwise(g)) && g->hi == 1 && g->ho == 1 &&
         g->wi == plan->io.places && g->wo == g->wi && g->wp == g->wi &&
         !((g->binary.spread[0] | g->binary.spread[1]) & HD_SPREAD_PIXELS) && packs_alike(plan, call, g->wi);
}

static bool is_loss(const hd_plan_call *call) { return hd__op_info(call->op)->rule->loss; }

bool hd__decoder_takes(const hd_plan *plan) {
  bool takes = plan->io.places > 0 && !plan->trains && !plan->shifts && plan->io.input.where == HD_AT_ARENA &&
               plan->io.logits.where == HD_AT_ARENA && plan->phase_count == 1;
  for (int i = 0; i < plan->call_count && takes; i++)
    takes = is_loss(&plan->calls[i]) || takes_call(plan, &plan->calls[i]);
  return takes;
}

/* ---- Memory ---- */

int64_t hd__decoder_kept(const hd_plan_call *call) {
  switch (hd__decoder_places(call)) {
  case HD_PLACES_PAST: return (int64_t)call->geom->wi * call->geom->ci;
  case HD_PLACES_STATE: return call->out[0].elems + call->out[1].elems;
  default: return 0;
  }
}

/* Its transposed keys, which kernels have use for: room for the places of the plan, in whole groups. */
static int32_t key_room(const hd_plan_call *call) { return (call->geom->wi + 15) / 16 * 16; }

static int64_t key_elems(const hd_plan_call *call) {
  const bool reads_past = hd__decoder_places(call) == HD_PLACES_PAST;
  return reads_past ? (int64_t)(call->geom->ci - call->geom->co) / 2 * key_room(call) : 0;
}

static int64_t room_of(const hd_plan_call *call) { return hd__decoder_kept(call) + key_elems(call); }

static int64_t groups_of(const share *s, int32_t places) { return (s->texts.count + places - 1) / places; }

/* Of all calls, with any number of places. */
static int64_t scratch_bytes(const hd_plan *plan, int32_t room) {
  int64_t most = 0;
  for (int i = 0; i < plan->call_count; i++)
    for (int32_t places = 1; places <= room && !is_loss(&plan->calls[i]); places++) {
      const hd_geom g = geom_of(plan->calls[i].geom, places);
      const int64_t bytes = hd_scratch_bytes(plan->kernels, plan->calls[i].op, &g);
      most = bytes > most ? bytes : most;
    }
  return most;
}

static hd_status set_up(hd_decoder *d, hd_ctx *ctx) {
  for (int i = 0; i < d->plan->call_count; i++)
    d->kept_elems += is_loss(&d->plan->calls[i]) ? 0 : room_of(&d->plan->calls[i]);
  const int threads = hd__threads_count(d->threads);
  d->shares = threads < d->texts ? threads : d->texts;
  HD_TRY(HD_NEW(d->share, d->shares, ctx, "out of memory for texts"));
  const size_t kept_bytes = (size_t)(d->texts * d->kept_elems + 16) * sizeof *d->kept;
  d->kept = hd__malloc_aligned(kept_bytes);
  HD_TRY(HD_ALLOCATED(d->kept, ctx, "out of memory for the keys and values of %d texts", d->texts));
  memset(d->kept, 0, kept_bytes); /* groups of keys are read as a whole */
  for (int i = 0; i < d->shares; i++) {
    share *s = &d->share[i];
    s->texts.first = (int32_t)((int64_t)d->texts * i / d->shares);
    s->texts.count = (int32_t)((int64_t)d->texts * (i + 1) / d->shares) - s->texts.first;
    s->room = (int32_t)groups_of(s, d->places) * d->places;
    s->values = hd__malloc_aligned((size_t)(d->plan->size.arena_bytes * groups_of(s, d->places)));
    s->scratch = hd__malloc_aligned((size_t)scratch_bytes(d->plan, s->room) + 64);
    HD_TRY(HD_ALLOCATED(s->values && s->scratch, ctx, "out of memory for texts"));
  }
  return HD_OK;
}

hd_status hd__decoder_create(hd_decoder **out, hd_ctx *ctx, const hd_plan *plan, const hd_store *store,
                             hd_threads *threads, int32_t texts) {
  *out = NULL;
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for texts"));
  hd_decoder *d = *out;
  *d = (hd_decoder){.plan = plan, .store = store, .threads = threads, .texts = texts, .places = plan->io.places};
  const hd_status status = set_up(d, ctx);
  return HD_CREATED(status, out, hd__decoder_destroy);
}

void hd__decoder_destroy(hd_decoder *d) {
  if (!d)
    return;
  for (int i = 0; d->share && i < d->shares; i++) {
    hd__free(d->share[i].values);
    hd__free(d->share[i].scratch);
  }
  hd__free(d->share);
  hd__free(d->kept);
  hd__free(d);
}

/* ---- A run ---- */

/* Some new places of a thread's texts. */
typedef struct span {
  const hd_decoder *d;
  const share *share;
  const int32_t *token; /* of text 0 */
  int64_t stride;       /* to the next text's */
  int32_t from, count;  /* of each text */
  const hd_origin *origin;
} span;

static hd_call call_of(const span *s, const hd_plan_call *planned, const hd_geom *g) {
  hd_call call = {.g = g, .rows = 1, .packed = hd__place_at(&planned->packed, s->origin), .scratch = s->share->scratch};
  for (int i = 0; i < HD_MAX_IN; i++)
    call.in[i] = hd__place_at(&planned->in[i], s->origin);
  for (int i = 0; i < HD_MAX_OUT; i++)
    call.out[i] = hd__place_at(&planned->out[i], s->origin);
  return call;
}

static void run(const span *s, const hd_plan_call *planned, const hd_call *call) {
  hd_kernels_for(s->d->plan->kernels, planned->op, call->g)->run[planned->op](call);
}

/* Of each text alone: a layer that reads the number of a place. */
static void run_numbered(const span *s, const hd_plan_call *planned) {
  hd_geom g = geom_of(planned->geom, s->count);
  hd_call call = call_of(s, planned, &g);
  const float *const x = call.in[0];
  float *const y = call.out[0];
  g.attention.first = s->from;
  if (hd__decoder_places(planned) == HD_PLACES_WEIGHTED)
    call.in[1] = (const float *)call.in[1] + (int64_t)s->from * g.ci;
  for (int64_t i = 0; i < s->share->texts.count; i++) {
    call.in[0] = x + i * s->count * g.ci;
    call.out[0] = y + i * s->count * g.co;
    run(s, planned, &call);
  }
}

/* The input of the new places is kept, then their queries read all places so far. */
static void run_past(const span *s, const hd_plan_call *planned, int64_t at) {
  hd_geom g = geom_of(planned->geom, s->from + s->count);
  hd_call call = call_of(s, planned, &g);
  const float *const x = call.in[0];
  float *const y = call.out[0];
  const int64_t elems = (int64_t)s->count * g.ci;
  g.attention.first = s->from;
  g.attention.room = key_room(planned);
  for (int64_t i = 0; i < s->share->texts.count; i++) {
    float *const kept = s->d->kept + (s->share->texts.first + i) * s->d->kept_elems + at;
    memcpy(kept + (int64_t)s->from * g.ci, x + i * elems, (size_t)elems * sizeof *x);
    call.in[0] = kept;
    call.out[0] = y + i * s->count * g.co;
    call.out[1] = kept + hd__decoder_kept(planned);
    run(s, planned, &call);
  }
}

/* The new places go on from what is kept of the one before them: all texts at once. */
static void run_state(const span *s, const hd_plan_call *planned, int64_t at) {
  hd_geom g = geom_of(planned->geom, s->from + s->count);
  hd_call call = call_of(s, planned, &g);
  float *const y = call.out[0], *const kept = s->d->kept + s->share->texts.first * s->d->kept_elems + at;
  const int64_t elems = (int64_t)s->count * g.co;
  g.recurrent.first = s->from;
  call.rows = s->share->texts.count;
  call.in_stride[0] = (int64_t)s->count * g.ci;
  call.out[0] = kept;
  call.out[1] = kept + planned->out[0].elems;
  call.out_stride[0] = call.out_stride[1] = s->d->kept_elems;
  run(s, planned, &call);
  for (int64_t i = 0; i < call.rows; i++)
    memcpy(y + i * elems, kept + i * s->d->kept_elems + (int64_t)s->from * g.co, (size_t)elems * sizeof *y);
}

static void run_call(const span *s, const hd_plan_call *planned, int64_t kept_at) {
  const hd_op_places places = hd__decoder_places(planned);
  const hd_geom g = geom_of(planned->geom, s->share->texts.count * s->count);
  const hd_call call = call_of(s, planned, &g);
  if (places == HD_PLACES_PAST)
    run_past(s, planned, kept_at);
  else if (places == HD_PLACES_STATE)
    run_state(s, planned, kept_at);
  else if (places == HD_PLACES_SAME)
    run(s, planned, &call);
  else
    run_numbered(s, planned);
}

static void run_span(const span *s) {
  const hd_plan *plan = s->d->plan;
  float *x = hd__place_at(&plan->io.input, s->origin);
  int64_t kept_at = 0;
  for (int i = 0; i < s->share->texts.count; i++)
    for (int k = 0; k < s->count; k++)
      *x++ = (float)s->token[(s->share->texts.first + i) * s->stride + k];
  for (int i = 0; i < plan->call_count; i++) {
    if (is_loss(&plan->calls[i]))
      break;
    run_call(s, &plan->calls[i], kept_at);
    kept_at += room_of(&plan->calls[i]);
  }
}

/* As many places at a time as the values of a share have room for. */
void hd__decoder_compute(hd_decoder *d, int index, const hd_new_places *places, float *score) {
  const share *mine = &d->share[index];
  const hd_plan *plan = d->plan;
  const int64_t floats = sizeof(float), scores = plan->io.logits.elems / d->places;
  const hd_origin origin[HD_WHERES] = {[HD_AT_ARENA] = {mine->values, .scale = groups_of(mine, d->places)},
                                       [HD_AT_PARAM] = {d->store->weights[hd__store_buffer(d->store)], .scale = floats},
                                       [HD_AT_PACKED] = {d->store->packed, .scale = floats}};
  const int32_t most = mine->room / mine->texts.count;
  span s = {.d = d, .share = mine, .stride = places->stride, .origin = origin};
  for (int32_t done = 0; done < places->count; done += s.count) {
    s.count = places->count - done < most ? places->count - done : most;
    s.from = places->kept + done;
    s.token = places->token + done;
    run_span(&s);
  }
  const float *from = hd__place_at(&plan->io.logits, origin);
  for (int64_t i = 0; i < mine->texts.count; i++)
    memcpy(score + (mine->texts.first + i) * scores, from + ((i + 1) * s.count - 1) * scores,
           (size_t)scores * sizeof *score);
}

/* ---- Threads ---- */

int hd__decoder_shares(const hd_decoder *d) { return d->shares; }

hd_decoder_texts hd__decoder_texts(const hd_decoder *d, int index) { return d->share[index].texts; }

typedef struct region {
  int shares;
  void (*work)(void *arg, int index);
  void *arg;
} region;

static void run_thread(void *of, int thread) {
  const region *r = of;
  if (thread < r->shares)
    r->work(r->arg, thread);
}

hd_status hd__decoder_each(hd_decoder *d, hd_ctx *ctx, void (*work)(void *arg, int index), void *arg) {
  region r = {d->shares, work, arg};
  if (d->shares > 1)
    return hd__threads_run(d->threads, ctx, run_thread, &r);
  const uint64_t mode = hd__fpmode_enter();
  work(arg, 0);
  hd__fpmode_leave(mode);
  return HD_OK;
}
