/* Times of a GPU's work for a profile: driver events around copies and after each kernel, read back with the steps'
 * results and written to tracks next to the host's.
 *
 *     host      fetch | launch | fetch | launch | wait for the GPU
 *     copy              copy 0           copy 1
 *     compute                    step 0: kernel | kernel | ...       step 1: ...
 *
 * Only a single GPU can be profiled. Steps are launched kernel by kernel, not replayed, so that each kernel can be
 * timed: the time between two kernels is a little longer than without a profile. The GPU's clock is not the host's;
 * a region's first step is related to the host's clock by an event that the host waits for, every later step to the
 * previous one. */
#include "base/alloc.h"
#include "exec/gpu/gpu_executor_state.h"

enum { HOST, COPY, COMPUTE, TRACKS, COPY_BEGIN = 0, COPY_END, STEP_BEGIN, FIRST_KERNEL };

/* The events of a step that may be under way. */
typedef struct timed_step {
  hd_cuda_marks marks; /* their events follow FIRST_KERNEL others */
  cu_event *event;
  int64_t samples;
} timed_step;

struct hd_cuda_timing {
  hd_track *track; /* the host's, then copy and compute */
  timed_step step[HD_CUDA_RESULTS];
  cu_event zero; /* at zero_ns of the host's clock */
  int64_t zero_ns;
  int32_t room;
};

/* An upper bound of a plan's launches; launches beyond it would not be recorded. */
static int32_t most_launches(const hd_plan *plan) { return 8 * plan->call_count + 2 * plan->param_count + 16; }

hd_trace_size hd__exec_cuda_trace_size(const void *self, int64_t slices) {
  static const char *const names[TRACKS] = {"host", "GPU copy", "GPU compute"};
  const hd_exec_cuda *x = self;
  const int32_t room = most_launches(x->plan) + 8;
  return (hd_trace_size){.threads = TRACKS, .process_threads = TRACKS, .room = room, .slices = slices, .names = names};
}

static hd_status create_event(cu_event *out, const hd_exec_cuda *x, hd_ctx *ctx) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_create(out, 0), "starting a profile");
}

static hd_status create_step(timed_step *step, const hd_exec_cuda *x, hd_ctx *ctx, int32_t room) {
  step->event = hd__calloc((size_t)(FIRST_KERNEL + room), sizeof *step->event);
  step->marks.kernel = hd__calloc((size_t)room, sizeof *step->marks.kernel);
  step->marks.label = hd__calloc((size_t)room, sizeof *step->marks.label);
  if (!step->event || !step->marks.kernel || !step->marks.label)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
  step->marks.event = step->event + FIRST_KERNEL;
  step->marks.room = room;
  for (int e = 0; e < FIRST_KERNEL + room; e++)
    HD_TRY(create_event(&step->event[e], x, ctx));
  return HD_OK;
}

hd_status hd__exec_cuda_trace(void *self, hd_ctx *ctx, hd_trace *trace) {
  hd_exec_cuda *x = self;
  if (x->share->exchanges > 0)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--profile expects a run on one GPU, found several that share its steps; leave it out");
  hd_cuda_timing *t = hd__calloc(1, sizeof *t);
  if (!t)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the profile");
  x->timing = t;
  t->track = trace->track;
  t->room = most_launches(x->plan);
  hd__cuda_use(x->cuda);
  HD_TRY(create_event(&t->zero, x, ctx));
  for (int s = 0; x->plan->trains && s < HD_CUDA_RESULTS; s++)
    HD_TRY(create_step(&t->step[s], x, ctx, t->room));
  return HD_OK;
}

void hd__exec_cuda_trace_end(hd_exec_cuda *x) {
  hd_cuda_timing *t = x->timing;
  for (int s = 0; t && s < HD_CUDA_RESULTS; s++) {
    timed_step *step = &t->step[s];
    for (int e = 0; step->event && e < FIRST_KERNEL + t->room && step->event[e]; e++)
      x->cuda->driver.event_destroy(step->event[e]);
    hd__free(step->event);
    hd__free(step->marks.kernel);
    hd__free(step->marks.label);
  }
  if (t && t->zero)
    x->cuda->driver.event_destroy(t->zero);
  hd__free(t);
  x->timing = NULL;
}

hd_track *hd__exec_cuda_host_track(const hd_exec_cuda *x) { return x->timing ? &x->timing->track[HOST] : NULL; }

/* ---- Recording ---- */

static timed_step *step_of(const hd_exec_cuda *x, int64_t number) { return &x->timing->step[number % HD_CUDA_RESULTS]; }

static hd_status record(const hd_exec_cuda *x, hd_ctx *ctx, cu_event event, cu_stream stream) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(event, stream), "timing a step");
}

hd_status hd__exec_cuda_time_region(hd_exec_cuda *x, hd_ctx *ctx) {
  hd_cuda_timing *t = x->timing;
  if (!t)
    return HD_OK;
  hd__cuda_use(x->cuda);
  HD_TRY(record(x, ctx, t->zero, x->cuda->compute));
  HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_wait(t->zero), "timing a step"));
  t->zero_ns = hd__clock_ns();
  hd__trace_start(&t->track[HOST]);
  return HD_OK;
}

hd_status hd__exec_cuda_time_copies(hd_exec_cuda *x, hd_ctx *ctx, bool begin) {
  if (!x->timing || !x->plan->trains)
    return HD_OK;
  return record(x, ctx, step_of(x, x->launched)->event[begin ? COPY_BEGIN : COPY_END], x->cuda->copy);
}

hd_status hd__exec_cuda_time_step(hd_exec_cuda *x, hd_ctx *ctx, int inlet) {
  timed_step *step = step_of(x, x->launched);
  step->samples = x->inlet[inlet].host.step->rows;
  step->marks.count = 0;
  step->marks.next_label = HD_CUDA_NO_LABEL;
  HD_TRY(record(x, ctx, step->event[STEP_BEGIN], x->cuda->compute));
  x->cuda->marks = &step->marks;
  const hd_status status = hd__exec_cuda_lower(x, ctx, inlet);
  x->cuda->marks = NULL;
  return status;
}

/* ---- Writing ---- */

typedef struct slice_name {
  hd_slice_kind kind;
  int32_t of;
} slice_name;

/* The slice of a kernel: kernels of operations by their node, the others by their work. */
static slice_name name_of(const hd_cuda_marks *marks, int i) {
  const int kernel = marks->kernel[i];
  if (marks->label[i] != HD_CUDA_NO_LABEL)
    return (slice_name){HD_SLICE_CALL, marks->label[i]};
  if (kernel < HD_OP_COUNT)
    return (slice_name){HD_SLICE_REDUCE_UPDATE, -1};
  switch (kernel) {
  case HD_CUDA_gather: return (slice_name){HD_SLICE_FETCH, 0};
  case HD_CUDA_gradients: return (slice_name){HD_SLICE_REDUCE, -1};
  case HD_CUDA_squares:
  case HD_CUDA_clip_norm: return (slice_name){HD_SLICE_NORM, 0};
  case HD_CUDA_losses: return (slice_name){HD_SLICE_CLOSE, 0};
  case HD_CUDA_running: return (slice_name){HD_SLICE_UPDATE, -1};
  default: return (slice_name){HD_SLICE_GATHER, 0};
  }
}

static int64_t after(const hd_exec_cuda *x, cu_event begin, cu_event end) {
  float ms = 0;
  x->cuda->driver.event_elapsed(&ms, begin, end);
  return (int64_t)((double)ms * 1e6);
}

static void put(hd_track *track, slice_name name, int64_t begin_ns, int64_t end_ns) {
  track->now_ns = begin_ns;
  const int opened = hd__trace_open(track, name.kind, name.of);
  track->now_ns = end_ns;
  hd__trace_close(track, opened);
}

/* Writes a finished step, which began at begin_ns, after its copies, to the tracks. */
static void write_step(const hd_exec_cuda *x, const timed_step *step, int64_t begin_ns) {
  const hd_cuda_marks *marks = &step->marks;
  hd_track *copy = &x->timing->track[COPY], *compute = &x->timing->track[COMPUTE];
  const cu_event begin = step->event[STEP_BEGIN];
  hd__trace_step(copy);
  put(copy, (slice_name){HD_SLICE_UPLOAD, 0}, begin_ns - after(x, step->event[COPY_BEGIN], begin),
      begin_ns - after(x, step->event[COPY_END], begin));
  hd__trace_step(compute);
  compute->now_ns = begin_ns;
  const int whole = hd__trace_open(compute, HD_SLICE_STEP, (int32_t)step->samples);
  int64_t from_ns = begin_ns;
  for (int i = 0; i < marks->count; i++) {
    const int64_t end_ns = begin_ns + after(x, begin, marks->event[i]);
    put(compute, name_of(marks, i), from_ns, end_ns);
    from_ns = end_ns;
  }
  hd__trace_close(compute, whole);
}

void hd__exec_cuda_write_times(hd_exec_cuda *x, int64_t number) {
  hd_cuda_timing *t = x->timing;
  if (!t)
    return;
  const timed_step *step = step_of(x, number);
  t->zero_ns += after(x, t->zero, step->event[STEP_BEGIN]);
  write_step(x, step, t->zero_ns);
  /* The next step is timed from this one: over a long run milliseconds in float would not resolve kernels. */
  const cu_event free_again = t->zero;
  t->zero = step->event[STEP_BEGIN];
  step->event[STEP_BEGIN] = free_again;
}
