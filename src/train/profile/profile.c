/* Recording a profile, and reading its slices: see profile.h. */
#include "train/profile/profile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "exec/exchange/cluster.h"

/* Slices of steps, over all threads: about 30 MB of file. */
enum { SLICES = 1 << 18 };

static char *json_label(const char *name, const char *suffix) {
  char *text = hd__printf_alloc("%s%s%s", name, *suffix ? " " : "", suffix), *label = NULL;
  json_t *string = text ? json_string(text) : NULL;
  char *dumped = string ? hd__json_dump(string, JSON_ENCODE_ANY) : NULL;
  if (dumped)
    label = hd__strdup(dumped);
  free(dumped);
  json_decref(string);
  hd__free(text);
  return label;
}

static hd_status make_labels(hd_profiler *p, hd_ctx *ctx) {
  const hd_graph *graph = p->plan->graph;
  int nodes = graph->node_count, params = p->plan->param_count;
  p->label = hd__calloc((size_t)(nodes + params) + 1, sizeof *p->label);
  bool all = p->label != NULL;
  for (int i = 0; all && i < nodes; i++)
    all = (p->label[i] = json_label(graph->nodes[i].name, hd__graph_direction(graph, i))) != NULL;
  for (int i = 0; all && i < params; i++)
    all = (p->label[nodes + i] = json_label(graph->values[graph->params[i].value].name, "")) != NULL;
  return HD_ALLOCATED(all, ctx, "out of memory for the profile");
}

static hd_status write_nothing(FILE *to, hd_ctx *ctx, void *arg) {
  fputs("{\"traceEvents\": []}\n", to);
  return HD_OK;
}

static hd_status claim_file(hd_profiler *p, hd_ctx *ctx, const char *path) {
  if (strlen(path) >= sizeof p->path)
    return hd__fail(ctx, HD_E_USAGE, "--profile expects a path below %zu bytes, found a longer one; shorten it",
                    sizeof p->path);
  snprintf(p->path, sizeof p->path, "%s", path);
  if (hd__file_is_stream(path))
    return HD_OK; /* a format with one text, at the end */
  hd_status status = hd__file_write_named(ctx, path, write_nothing, NULL);
  return status == HD_E_IO ? hd__fail_in(ctx, status, "--profile") : status;
}

bool hd__profile_writes(const hd_profiler *p) { return hd__cluster_rank(p->local) == 0; }

static void sign(hd_track *track, const hd_profiler *p, int cpu) {
  track->rank = hd__cluster_rank(p->local);
  track->pid = (int32_t)getpid();
  track->cpu = cpu;
}

hd_status hd__profile_open(hd_profiler *p, hd_ctx *ctx, const hd_profile_of *of) {
  const hd_trace_size size = hd__exec_trace_size(of->exec, SLICES);
  *p = (hd_profiler){
      .plan = of->plan, .local = of->local, .model = of->model, .first_step = of->first_step, .names = size.names};
  if (hd__profile_writes(p))
    HD_TRY(claim_file(p, ctx, of->path));
  HD_TRY(make_labels(p, ctx));
  HD_TRY(hd__trace_create(&p->trace, ctx, of->local, &size));
  for (int l = 0; l < size.process_threads; l++)
    sign(&p->trace->track[size.first + l], p, p->names ? -1 : hd__threads_cpu(of->threads, l));
  if (hd__profile_writes(p))
    sign(hd__profile_writer_track(p), p, -1);
  return hd__exec_trace(of->exec, ctx, p->trace);
}

hd_track *hd__profile_first_track(const hd_profiler *p) { return p->trace ? &p->trace->track[p->trace->first] : NULL; }

hd_track *hd__profile_writer_track(const hd_profiler *p) {
  return p->trace ? &p->trace->track[p->trace->threads] : NULL;
}

void hd__profile_close(hd_profiler *p) {
  hd__trace_destroy(p->trace);
  for (int i = 0; p->label && p->label[i]; i++)
    hd__free(p->label[i]);
  hd__free(p->label);
  hd__free(p->item);
  hd__free(p->text);
  *p = (hd_profiler){0};
}

static bool walk_slices(const hd_slice_buffer *buffer, bool steps, int track, hd_slice_visit *visit, void *arg) {
  for (int64_t n = 0; n < buffer->count; n++) {
    int64_t block = hd__slice_buffer_block(buffer, n);
    if (block < 0)
      continue;
    const hd_slice *slice = hd__slice_buffer_slices(buffer, block);
    for (int i = 0; i < *hd__slice_buffer_used(buffer, block); i++)
      if (!visit(arg, track, steps ? n : -1, &slice[i]))
        return false;
  }
  return true;
}

void hd__profile_walk(const hd_profiler *p, hd_slice_visit *visit, void *arg) {
  for (int t = 0; t <= p->trace->all_threads; t++) {
    const hd_track *track = hd__trace_track(p->trace, t);
    if (!walk_slices(&track->steps, true, t, visit, arg) || !walk_slices(&track->events, false, t, visit, arg))
      return;
  }
}

const hd_slice *hd__profile_wait(const hd_profiler *p, int thread, int64_t step, int n) {
  const hd_slice_buffer *buffer = &hd__trace_track(p->trace, thread)->steps;
  int64_t block = hd__slice_buffer_block(buffer, step);
  const hd_slice *slice = block < 0 ? NULL : hd__slice_buffer_slices(buffer, block);
  for (int i = 0; slice && i < *hd__slice_buffer_used(buffer, block); i++)
    if (slice[i].kind == HD_SLICE_WAIT && n-- == 0)
      return &slice[i];
  return NULL;
}

int hd__profile_last_thread(const hd_profiler *p, int thread, int64_t step, int n) {
  const int host = hd__trace_host(p->trace, thread);
  int64_t latest_ns = INT64_MIN;
  int last = p->trace->host_thread[host];
  for (int l = last; l < p->trace->host_thread[host + 1]; l++) {
    const hd_slice *wait = hd__profile_wait(p, l, step, n);
    if (!wait || wait->begin_ns <= latest_ns)
      continue;
    latest_ns = wait->begin_ns;
    last = l;
  }
  return last;
}
