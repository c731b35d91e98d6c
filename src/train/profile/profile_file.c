/* The trace file: see profile.h.
 *
 * Times are microseconds since the trace began, with three decimals. Slices of a track nest and never overlap; a slice
 * is written before those inside it. An arrow (a flow) leads from the thread that arrived last at a barrier to each
 * thread that waited for it. */
#include "base/json_text.h"
#include "train/profile/profile.h"

#include <inttypes.h>
#include <jansson.h>

#include "base/version.h"
#include "exec/exchange/cluster.h"
#include "op/op.h"
#include "platform/machine.h"

typedef struct writing {
  const hd_profiler *profiler;
  FILE *to;
  const char *comma;
  int64_t step; /* the current step, */
  int track;    /* its track, */
  int barriers; /* and the number of its barriers so far */
  int64_t arrow;
} writing;

static void put_time(FILE *to, const char *key, int64_t ns) {
  fprintf(to, "\"%s\": %" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

/* Of a track, or, with -1 - rank, of a process. */
static void begin_event(writing *w, const char *kind, int track) {
  const int rank = track < 0 ? -1 - track : hd__trace_track(w->profiler->trace, track)->rank;
  fprintf(w->to, "%s\n{\"ph\": \"%s\", \"pid\": %d, \"tid\": %d, ", w->comma, kind, rank + 1,
          track < 0 ? 0 : track + 1);
  w->comma = ",";
}

static const char *const phase_name[] = {[HD_PHASE_SHARDS] = "shards",
                                         [HD_PHASE_OUTPUTS] = "outputs",
                                         [HD_PHASE_WHOLE] = "loss of the program",
                                         [HD_PHASE_REDUCE_UPDATE] = "chunks: reduce, update",
                                         [HD_PHASE_REDUCE_NORM] = "chunks: reduce, norm",
                                         [HD_PHASE_UPDATE] = "chunks: update",
                                         [HD_PHASE_MATRICES] = "matrices"};

/* Slices other than steps, phases and calls. */
static const struct {
  const char *name, *category;
} plain[] = {[HD_SLICE_FETCH] = {"samples", "data"},
             [HD_SLICE_GATHER] = {"gather", "gather"},
             [HD_SLICE_REDUCE] = {"reduce", "update"},
             [HD_SLICE_REDUCE_UPDATE] = {"reduce, update", "update"},
             [HD_SLICE_UPDATE] = {"update", "update"},
             [HD_SLICE_NORM] = {"norm", "update"},
             [HD_SLICE_CLOSE] = {"loss and next step", "close"},
             [HD_SLICE_WAIT] = {"wait", "wait"},
             [HD_SLICE_BUBBLE] = {"wait for a stage", "wait"},
             [HD_SLICE_INLET] = {"wait for a copy", "wait"},
             [HD_SLICE_LAUNCH] = {"launch", "launch"},
             [HD_SLICE_COLLECT] = {"wait for the GPU", "wait"},
             [HD_SLICE_UPLOAD] = {"copy to the GPU", "data"},
             [HD_SLICE_EXCHANGE] = {"to other hosts", "hosts"},
             [HD_SLICE_REPORT] = {"report", "report"},
             [HD_SLICE_SHUFFLE] = {"shuffle", "data"},
             [HD_SLICE_EVALUATE] = {"evaluate", "evaluate"},
             [HD_SLICE_COPY] = {"copy for the checkpoint", "checkpoint"},
             [HD_SLICE_WRITE] = {"write the checkpoint", "checkpoint"}};

/* With the sums of the slices inside it. */
static void put_step(const writing *w, const hd_slice *step) {
  const hd_slice_buffer *buffer = &hd__trace_track(w->profiler->trace, w->track)->steps;
  const int64_t block = hd__slice_buffer_block(buffer, w->step);
  const hd_slice *slice = hd__slice_buffer_slices(buffer, block);
  int64_t data_ns = 0, waiting_ns = 0, all_ns = step->end_ns - step->begin_ns;
  for (int i = 0; i < *hd__slice_buffer_used(buffer, block); i++) {
    const int64_t ns = slice[i].end_ns - slice[i].begin_ns;
    data_ns += slice[i].kind == HD_SLICE_FETCH ? ns : 0;
    waiting_ns += slice[i].kind == HD_SLICE_WAIT || slice[i].kind == HD_SLICE_BUBBLE ? ns : 0;
  }
  fprintf(w->to, "\"name\": \"step\", \"cat\": \"step\", \"args\": {\"step\": %" PRId64 ", \"samples\": %d, ",
          w->profiler->first_step + w->step + 1, step->of);
  put_time(w->to, "data_us", data_ns);
  fputs(", ", w->to);
  put_time(w->to, "compute_us", all_ns > data_ns + waiting_ns ? all_ns - data_ns - waiting_ns : 0);
  fputs(", ", w->to);
  put_time(w->to, "waiting_us", waiting_ns);
  fputs("}", w->to);
}

static void put_call(const writing *w, int node) {
  const hd_profiler *p = w->profiler;
  const hd_graph *graph = p->plan->graph;
  fprintf(w->to, "\"name\": %s, \"cat\": \"%s\", \"args\": {\"op\": \"%s\"}", p->label[node],
          hd__graph_is_gradient(graph, node) ? "backward" : "forward", hd__op_info(graph->nodes[node].op)->name);
}

static void put_plain(const writing *w, const char *name, const char *category) {
  fprintf(w->to, "\"name\": \"%s\", \"cat\": \"%s\"", name, category);
}

/* `parameter` -1: all of them. */
static void put_parameter(const writing *w, int parameter) {
  const hd_profiler *p = w->profiler;
  if (parameter >= 0)
    fprintf(w->to, ", \"args\": {\"parameter\": %s}", p->label[p->plan->graph->node_count + parameter]);
}

static void put_wait(writing *w) {
  const hd_profiler *p = w->profiler;
  if (p->trace->all_threads == 1)
    return;
  const int last = hd__profile_last_thread(p, w->track, w->step, w->barriers);
  fprintf(w->to, ", \"args\": {\"for\": \"");
  if (hd__cluster_ranks(p->local) > 1)
    fprintf(w->to, "rank %d, ", hd__trace_track(p->trace, last)->rank);
  fprintf(w->to, "thread %d\"}", last);
}

static void put_slice(writing *w, const hd_slice *slice) {
  const hd_slice_kind kind = (hd_slice_kind)slice->kind;
  if (kind == HD_SLICE_STEP)
    put_step(w, slice);
  else if (kind == HD_SLICE_PHASE)
    put_plain(w, phase_name[w->profiler->plan->phases[slice->of].kind], "phase");
  else if (kind == HD_SLICE_CALL)
    put_call(w, slice->of);
  else
    put_plain(w, plain[kind].name, plain[kind].category);
  if (kind == HD_SLICE_WAIT)
    put_wait(w);
  else if (kind == HD_SLICE_BUBBLE)
    fprintf(w->to, ", \"args\": {\"for\": \"stage %d\"}", slice->of);
  else if (kind == HD_SLICE_EXCHANGE && slice->of >= 0) /* the rank of another host that was waited for last */
    fprintf(w->to, ", \"args\": {\"for\": \"rank %d\"}", slice->of);
  else if (kind == HD_SLICE_REDUCE || kind == HD_SLICE_REDUCE_UPDATE || kind == HD_SLICE_UPDATE)
    put_parameter(w, slice->of);
}

/* From the last moment before the last thread arrived to the end of this thread's wait. */
static void put_arrow(writing *w, int track, const hd_slice *wait) {
  const hd_profiler *p = w->profiler;
  int last = hd__profile_last_thread(p, track, w->step, w->barriers);
  const hd_slice *came = hd__profile_wait(p, last, w->step, w->barriers);
  if (track == last || !came || wait->end_ns - 1 < came->begin_ns)
    return;
  w->arrow++;
  for (int end = 0; end < 2; end++) {
    begin_event(w, end ? "f" : "s", end ? track : last);
    put_time(w->to, "ts", (end ? wait->end_ns : came->begin_ns) - 1 - p->trace->start_ns);
    fprintf(w->to, ", \"id\": %" PRId64 ", \"name\": \"waited for\", \"cat\": \"wait\"%s}", w->arrow,
            end ? ", \"bp\": \"e\"" : "");
  }
}

static bool write_slice(void *arg, int track, int64_t step, const hd_slice *slice) {
  writing *w = arg;
  if (slice->kind == HD_SLICE_STEP) {
    w->step = step;
    w->track = track;
    w->barriers = 0;
  }
  begin_event(w, "X", track);
  put_time(w->to, "ts", slice->begin_ns - w->profiler->trace->start_ns);
  fputs(", ", w->to);
  put_time(w->to, "dur", slice->end_ns - slice->begin_ns);
  fputs(", ", w->to);
  put_slice(w, slice);
  fputs("}", w->to);
  if (slice->kind == HD_SLICE_WAIT) {
    put_arrow(w, track, slice);
    w->barriers++;
  }
  return !ferror(w->to);
}

static void name_track(writing *w, int track, const char *name) {
  begin_event(w, "M", track);
  fprintf(w->to, "\"name\": \"thread_name\", \"args\": {\"name\": \"%s\"}}", name);
  begin_event(w, "M", track);
  fprintf(w->to, "\"name\": \"thread_sort_index\", \"args\": {\"sort_index\": %d}}", track);
}

static void name_process(writing *w, const hd_track *first) {
  const int ranks = hd__cluster_ranks(w->profiler->local);
  begin_event(w, "M", -1 - first->rank);
  if (ranks > 1)
    fprintf(w->to, "\"name\": \"process_name\", \"args\": {\"name\": \"rank %d\"}}", first->rank);
  else
    fprintf(w->to, "\"name\": \"process_name\", \"args\": {\"name\": \"heddle\"}}");
  begin_event(w, "M", -1 - first->rank);
  fprintf(w->to, "\"name\": \"process_labels\", \"args\": {\"labels\": \"pid %d\"}}", first->pid);
  begin_event(w, "M", -1 - first->rank);
  fprintf(w->to, "\"name\": \"process_sort_index\", \"args\": {\"sort_index\": %d}}", first->rank);
}

static void name_tracks(writing *w) {
  const hd_profiler *p = w->profiler;
  for (int l = 0; l < p->trace->all_threads; l++) {
    char name[64];
    const hd_track *track = hd__trace_track(p->trace, l);
    const int cpu = track->cpu;
    if (l == 0 || track->rank != hd__trace_track(p->trace, l - 1)->rank)
      name_process(w, track);
    if (p->names)
      snprintf(name, sizeof name, "%s", p->names[l]);
    else if (cpu >= 0)
      snprintf(name, sizeof name, "thread %d, CPU %d", l, cpu);
    else
      snprintf(name, sizeof name, "thread %d, not bound", l);
    name_track(w, l, name);
  }
  name_track(w, p->trace->all_threads, "checkpoint writer");
}

static void describe(writing *w) {
  const hd_profiler *p = w->profiler;
  char cpu[128];
  hd__cpu_name(cpu, sizeof cpu);
  json_t *about =
      json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I}", "model", p->model, "cpu", cpu, "isa", p->plan->kernels->isa,
                "heddle", hd__version(), "ranks", hd__cluster_ranks(p->local), "threads", p->trace->all_threads,
                "steps", (json_int_t)p->result.steps, "steps_kept", (json_int_t)p->result.kept);
  fputs("{\"displayTimeUnit\": \"ns\", \"otherData\": ", w->to);
  if (!about || hd__json_write(w->to, about, JSON_PRESERVE_ORDER) != 0)
    fputs("{}", w->to);
  json_decref(about);
}

static hd_status write_trace(FILE *to, hd_ctx *ctx, void *arg) {
  writing w = {.profiler = arg, .to = to, .comma = ""};
  describe(&w);
  fputs(", \"traceEvents\": [", to);
  name_tracks(&w);
  hd__profile_walk(w.profiler, write_slice, &w);
  fputs("\n]}\n", to);
  return HD_OK;
}

hd_status hd__profile_write(hd_profiler *p, hd_ctx *ctx) {
  hd_ctx quiet = {0};
  hd__trace_collect(p->trace, &quiet, p->local); /* after the loss of a rank the others' slices are still written */
  if (!hd__profile_writes(p))
    return HD_OK;
  HD_TRY(hd__profile_sum(p, ctx));
  hd_status status = hd__file_write_named(ctx, p->path, write_trace, p);
  return status == HD_E_IO ? hd__fail_in(ctx, status, "--profile") : status;
}
