/* Adding up slices by operation, and waits by pairs of threads: see profile.h. */
#include "train/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Items besides the nodes. */
enum { FETCHING, GATHERING, UPDATING, CLOSING, EXCHANGING, STAGING, OTHERS };

static const char *const other_name[OTHERS] = {
    "samples", "gather", "reduce and update", "loss and next step", "to other hosts", "wait for a stage"};

typedef struct sums {
  const hd_profiler *profiler;
  int nodes, threads;
  int64_t *spent_ns;  /* per node, then the other items */
  int64_t *waited_ns; /* threads x threads: the first waits for the second */
  int64_t *thread_ns; /* inside of steps */
  int barriers;       /* of the step so far */
} sums;

static int other_of(hd_slice_kind kind) {
  switch (kind) {
  case HD_SLICE_FETCH: return FETCHING;
  case HD_SLICE_GATHER: return GATHERING;
  case HD_SLICE_REDUCE:
  case HD_SLICE_REDUCE_UPDATE:
  case HD_SLICE_UPDATE:
  case HD_SLICE_NORM: return UPDATING;
  case HD_SLICE_CLOSE: return CLOSING;
  case HD_SLICE_EXCHANGE: return EXCHANGING;
  case HD_SLICE_BUBBLE: return STAGING;
  default: return -1;
  }
}

static bool add_slice(void *arg, int track, int64_t step, const hd_slice *slice) {
  sums *s = arg;
  int64_t spent = slice->end_ns - slice->begin_ns;
  int other = other_of((hd_slice_kind)slice->kind);
  if (s->profiler->names && track != s->threads - 1)
    return true; /* only the track that computes counts */
  if (slice->kind == HD_SLICE_STEP) {
    s->barriers = 0;
    s->thread_ns[track] += spent;
  } else if (slice->kind == HD_SLICE_WAIT) {
    s->waited_ns[track * s->threads + hd__profile_last_thread(s->profiler, track, step, s->barriers++)] += spent;
  } else if (slice->kind == HD_SLICE_CALL) {
    s->spent_ns[slice->of] += spent;
  } else if (other >= 0) {
    s->spent_ns[s->nodes + other] += spent;
  }
  return true;
}

static int by_share(const void *a, const void *b) {
  double x = ((const hd_profile_item *)a)->share, y = ((const hd_profile_item *)b)->share;
  return (x < y) - (x > y);
}

/* Nodes with the same label become one item. */
static void make_items(hd_profiler *p, const sums *s, double all_ns) {
  char *text = p->text;
  hd_profile *r = &p->result;
  r->items = 0;
  for (int i = 0; i < s->nodes + OTHERS; i++) {
    int length = i < s->nodes ? (int)strlen(p->label[i]) - 2 : (int)strlen(other_name[i - s->nodes]);
    const char *name = i < s->nodes ? p->label[i] + 1 : other_name[i - s->nodes]; /* labels include quotes */
    int at = 0;
    while (at < r->items &&
           ((int)strlen(p->item[at].name) != length || strncmp(p->item[at].name, name, (size_t)length)))
      at++;
    if (at == r->items && s->spent_ns[i] > 0) {
      memcpy(text, name, (size_t)length);
      p->item[r->items++] = (hd_profile_item){.name = text};
      text += length + 1;
    }
    if (at < r->items)
      p->item[at].share += (double)s->spent_ns[i] / all_ns;
  }
  qsort(p->item, (size_t)r->items, sizeof *p->item, by_share);
}

/* A thread that waits for itself is not reported: it is the last to arrive, and the time is that of the barrier
 * itself. */
static void find_waiting(hd_profile *r, const sums *s, const hd_trace *trace, double all_ns) {
  r->waiter = r->awaited = -1;
  for (int l = 0; l < s->threads; l++)
    for (int k = 0; k < s->threads; k++) {
      int64_t waited = s->waited_ns[l * s->threads + k];
      double share = s->thread_ns[l] > 0 ? (double)waited / (double)s->thread_ns[l] : 0;
      r->waiting += (double)waited / all_ns;
      if (l == k || share <= r->longest)
        continue;
      r->longest = share;
      r->waiter = l;
      r->awaited = k;
      r->waiter_rank = hd__trace_track(trace, l)->rank;
      r->awaited_rank = hd__trace_track(trace, k)->rank;
    }
}

static hd_status take_room(hd_profiler *p, hd_ctx *ctx, const sums *s) {
  size_t bytes = 0;
  for (int i = 0; i < s->nodes; i++)
    bytes += strlen(p->label[i]);
  for (int i = 0; i < OTHERS; i++)
    bytes += strlen(other_name[i]) + 1;
  hd__free(p->item);
  hd__free(p->text);
  p->item = hd__calloc((size_t)s->nodes + OTHERS, sizeof *p->item);
  p->text = hd__calloc(bytes, 1);
  return HD_ALLOCATED(p->item && p->text, ctx, "out of memory for the profile");
}

hd_status hd__profile_sum(hd_profiler *p, hd_ctx *ctx) {
  int nodes = p->plan->graph->node_count, threads = p->trace->all_threads;
  const hd_slice_buffer *buffer = &p->trace->track[0].steps;
  sums s = {.profiler = p, .nodes = nodes, .threads = threads};
  HD_TRY(HD_NEW(s.spent_ns, nodes + OTHERS + threads * threads + threads, ctx, "out of memory for the profile"));
  s.waited_ns = s.spent_ns + nodes + OTHERS;
  s.thread_ns = s.waited_ns + threads * threads;
  hd_status status = take_room(p, ctx, &s);
  if (status == HD_OK) {
    double all_ns = 0;
    hd__profile_walk(p, add_slice, &s);
    for (int l = 0; l < threads; l++)
      all_ns += (double)s.thread_ns[l];
    p->result = (hd_profile){.path = p->path, .steps = buffer->count, .item = p->item};
    p->result.kept = buffer->count < 2 * buffer->half ? buffer->count : 2 * buffer->half;
    if (all_ns > 0) {
      make_items(p, &s, all_ns);
      find_waiting(&p->result, &s, p->trace, all_ns);
    }
  }
  hd__free(s.spent_ns);
  return status;
}
