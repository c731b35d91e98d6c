/* Runs a plan's steps on a GPU.
 *
 * A step is recorded once for each half of the store and replayed. While the GPU computes, lanes of the host fetch the
 * next step's samples into pinned memory, and the copy stream brings them over:
 *
 *     host       fetch 0 | fetch 1     | fetch 2     |             inlet 0, inlet 1, inlet 0
 *     copy               | copy 0      | copy 1      | copy 2
 *     compute                   | step 0      | step 1      | step 2
 *
 * An inlet is filled again when the step before the last has been copied, and copied into when that step is done. What
 * came of steps is read back for several at once: the driver hears of a step up to `lookahead` steps late. Where a value
 * is not finite the GPU itself stops updating, so the last whole version stands whatever was launched behind it.
 *
 * At the end of a run the last whole version is brought into the host's store: checkpoints, digests and the CPU see the
 * same bytes wherever they were computed. */
#include "exec/exec_cuda.h"

#include <string.h>

#include "base/alloc.h"
#include "exec/exec_cuda_state.h"
#include "exec/exec_state.h"
#include "sys/lanes.h"
#include "tree/tree.h"

/* ---- Creating ---- */

static hd_status refuse_own(hd_ctx *ctx, const hd_plan *plan) {
  for (int i = 0; i < plan->call_count; i++)
    if (plan->calls[i].op == HD_OP_own || plan->calls[i].op == HD_OP_own_dx)
      return hd__fail(ctx, HD_E_UNSUPPORTED,
                      "--device cuda expects operations that a GPU has, found '%s', which is a program's own; use "
                      "--device cpu",
                      plan->graph->nodes[plan->calls[i].node].name);
  return HD_OK;
}

static hd_status create_events(hd_exec_cuda *x, hd_ctx *ctx) {
  for (int half = 0; half < 2; half++) {
    cuda_inlet *inlet = &x->inlet[half];
    HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_create(&inlet->copied, CU_EVENT_NO_TIMING), "starting"));
    HD_TRY(hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_create(&inlet->used, CU_EVENT_NO_TIMING), "starting"));
  }
  return HD_OK;
}

/* Evaluation reads one half alone, whichever it is. */
static hd_status record(hd_exec_cuda *x, hd_ctx *ctx) {
  for (int half = 0; half < (x->plan->trains ? 2 : 1); half++) {
    HD_TRY(hd__cuda_record(x->cuda, ctx));
    const hd_status status = hd__exec_cuda_lower(x, ctx, half);
    hd_ctx quiet = {0};
    HD_TRY(hd__cuda_recorded(&x->inlet[half].recorded, x->cuda, status == HD_OK ? ctx : &quiet));
    HD_TRY(status);
  }
  return HD_OK;
}

static hd_status create(hd_exec_cuda *x, hd_ctx *ctx) {
  HD_TRY(refuse_own(ctx, x->plan));
  x->fetch = hd__malloc_aligned((size_t)(hd__lanes_count(x->lanes) * x->settings.fetch_bytes) + 1);
  if (!x->fetch)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for fetching samples");
  HD_TRY(create_events(x, ctx));
  HD_TRY(hd__exec_cuda_native_plan(x, ctx));
  HD_TRY(hd__exec_cuda_memory(x, ctx));
  HD_TRY(hd__exec_cuda_warm_up(x, ctx));
  return record(x, ctx);
}

hd_status hd__exec_cuda_create(hd_exec_cuda **out, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_lanes *lanes,
                               const hd_exec_settings *settings) {
  *out = NULL;
  hd_exec_cuda *x = hd__calloc(1, sizeof *x);
  if (!x)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the executor");
  x->plan = plan;
  x->store = store;
  x->lanes = lanes;
  x->settings = *settings;
  x->cuda = settings->cuda;
  const hd_status status = create(x, ctx);
  if (status == HD_OK)
    *out = x;
  else
    hd__exec_cuda_destroy(x);
  return status;
}

void hd__exec_cuda_destroy(hd_exec_cuda *x) {
  if (!x)
    return;
  x->cuda->driver.stream_wait(x->cuda->copy);
  x->cuda->driver.stream_wait(x->cuda->compute);
  for (int half = 0; half < 2; half++) {
    const cuda_inlet *inlet = &x->inlet[half];
    if (inlet->recorded)
      x->cuda->driver.graph_exec_destroy(inlet->recorded);
    if (inlet->copied)
      x->cuda->driver.event_destroy(inlet->copied);
    if (inlet->used)
      x->cuda->driver.event_destroy(inlet->used);
  }
  hd__cuda_free(x->cuda, x->memory);
  hd__cuda_free(x->cuda, x->data);
  hd__cuda_free(x->cuda, x->labels);
  hd__cuda_free_host(x->cuda, x->host);
  hd__free(x->native.taken);
  hd__free(x->constant);
  hd__free(x->fetch);
  hd__free(x);
}

/* ---- Copies ---- */

static hd_status upload(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes,
                        cu_stream stream) {
  return bytes == 0 ? HD_OK
                    : hd__cuda_check(x->cuda, ctx,
                                     x->cuda->driver.upload((cu_pointer)(uintptr_t)to, from, (size_t)bytes, stream),
                                     "copying to the GPU");
}

static hd_status download(const hd_exec_cuda *x, hd_ctx *ctx, void *to, const void *from, int64_t bytes) {
  return bytes == 0 ? HD_OK
                    : hd__cuda_check(
                          x->cuda, ctx,
                          x->cuda->driver.download(to, (cu_pointer)(uintptr_t)from, (size_t)bytes, x->cuda->compute),
                          "copying from the GPU");
}

static hd_status wait(const hd_exec_cuda *x, hd_ctx *ctx) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.stream_wait(x->cuda->compute), "computing");
}

static int64_t weight_bytes(const hd_exec_cuda *x) { return x->plan->param_elems * (int64_t)sizeof(float); }
static int64_t state_bytes(const hd_exec_cuda *x) { return x->plan->trained_elems * (int64_t)sizeof(float); }

/* Both halves: frozen parameters stand in both. */
static hd_status upload_store(hd_exec_cuda *x, hd_ctx *ctx) {
  const hd_store *store = x->store;
  const int32_t good = 0;
  x->version = hd__store_version(store);
  for (int half = 0; half < 2; half++) {
    HD_TRY(upload(x, ctx, x->weights[half], store->weights[half], weight_bytes(x), x->cuda->compute));
    for (int s = 0; s < store->directory->states && x->state[half][s]; s++)
      HD_TRY(upload(x, ctx, x->state[half][s], store->state[half][s], state_bytes(x), x->cuda->compute));
  }
  for (int p = 0; p < x->plan->param_count; p++)
    HD_TRY(upload(x, ctx, x->bad + p, &good, sizeof good, x->cuda->compute));
  HD_TRY(upload(x, ctx, &x->flags->failed, &good, sizeof good, x->cuda->compute));
  HD_TRY(wait(x, ctx));
  x->uploaded = true;
  return HD_OK;
}

static hd_status download_store(hd_exec_cuda *x, hd_ctx *ctx) {
  hd_store *store = x->store;
  const int half = (int)(x->version & 1);
  HD_TRY(download(x, ctx, store->weights[half], x->weights[half], weight_bytes(x)));
  for (int s = 0; s < store->directory->states; s++)
    HD_TRY(download(x, ctx, store->state[half][s], x->state[half][s], state_bytes(x)));
  HD_TRY(wait(x, ctx));
  hd__store_set_version(store, x->version);
  return HD_OK;
}

/* ---- Samples ---- */

typedef struct fetching {
  const hd_exec_cuda *exec;
  const cuda_inlet *inlet;
  const hd_driver *driver;
  const hd_step *step;
  int64_t first, rows;
  uint32_t flags[HD_MAX_THREADS];
} fetching;

static void fetch_lane(void *arg, int lane) {
  fetching *f = arg;
  const hd_exec_cuda *x = f->exec;
  const hd_plan *plan = x->plan;
  const hd_value *label = &plan->graph->values[plan->graph->label];
  const hd_place *to_x = &plan->place[plan->graph->input], *to_target = &plan->place[plan->graph->label];
  const int lanes = hd__lanes_count(x->lanes);
  const int64_t begin = hd__tree_share(f->rows, NULL, lanes, lane),
                end = hd__tree_share(f->rows, NULL, lanes, lane + 1);
  const hd_slots slots = {.x = (float *)f->inlet->host_x + begin * to_x->stride,
                          .x_stride = to_x->stride,
                          .target = f->inlet->host_target + begin * to_target->stride * hd__dtype_bytes(label->dtype),
                          .target_stride = to_target->stride,
                          .outputs = label->dtype == HD_F32 ? (int32_t)hd__shape_elems(&label->shape) : 0,
                          .scratch = x->fetch + lane * x->settings.fetch_bytes};
  f->flags[lane] = end > begin ? f->driver->fetch(f->driver->self, f->step, f->first + begin, end - begin, &slots) : 0;
}

/* Samples [first, first + rows) of the step into the inlet's memory of the host. */
static hd_status fetch(uint32_t *flags, hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, const hd_step *step,
                       int64_t first, int64_t rows, const cuda_inlet *inlet) {
  if (x->data) {
    driver->choose(driver->self, step, inlet->host_sample);
    return HD_OK;
  }
  fetching f = {.exec = x, .inlet = inlet, .driver = driver, .step = step, .first = first, .rows = rows};
  HD_TRY(hd__lanes_run(x->lanes, ctx, fetch_lane, &f));
  for (int l = 0; l < hd__lanes_count(x->lanes); l++)
    *flags |= f.flags[l];
  return HD_OK;
}

static void describe(const hd_exec_cuda *x, hd_cuda_step *to, const hd_step *step, int64_t rows) {
  const hd_part part = hd__tree_part(rows, x->settings.shards, 1, 0);
  hd_range_plan whole;
  to->seed = step->seed;
  to->epoch = step->epoch;
  to->position = (uint32_t)step->cursor;
  to->divisor = step->divisor;
  to->result = (int32_t)(x->launched % HD_CUDA_RESULTS);
  memcpy(to->hyper, step->hyper, sizeof to->hyper);
  if (to->samples == rows)
    return; /* the same shards */
  to->rows = to->samples = rows;
  hd__tree_range(&whole, &part, 0, x->settings.shards);
  to->fold = whole.pushes;
}

/* Brings an inlet's content over and launches the step that reads it. */
static hd_status launch(hd_exec_cuda *x, hd_ctx *ctx, cuda_inlet *inlet) {
  const hd_cuda *cuda = x->cuda;
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.stream_after(cuda->copy, inlet->used, 0), "ordering copies"));
  HD_TRY(upload(x, ctx, inlet->x, inlet->host_x, hd__exec_cuda_x_bytes(x), cuda->copy));
  if (x->data)
    HD_TRY(upload(x, ctx, inlet->sample, inlet->host_sample, inlet->host_step->rows * (int64_t)sizeof(int32_t),
                  cuda->copy));
  else
    HD_TRY(upload(x, ctx, inlet->target, inlet->host_target, hd__exec_cuda_target_bytes(x), cuda->copy));
  HD_TRY(upload(x, ctx, inlet->step, inlet->host_step, (int64_t)sizeof *inlet->step, cuda->copy));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.event_record(inlet->copied, cuda->copy), "ordering copies"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.stream_after(cuda->compute, inlet->copied, 0), "ordering steps"));
  HD_TRY(hd__cuda_check(cuda, ctx, cuda->driver.graph_launch(inlet->recorded, cuda->compute), "launching a step"));
  return hd__cuda_check(cuda, ctx, cuda->driver.event_record(inlet->used, cuda->compute), "ordering steps");
}

/* Until the host may fill the inlet again. */
static hd_status wait_for_inlet(const hd_exec_cuda *x, hd_ctx *ctx, const cuda_inlet *inlet) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_wait(inlet->copied), "copying to the GPU");
}

/* ---- Training ---- */

/* Reads back what came of the steps under way, and tells the driver. */
static hd_status collect(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  if (x->seen == x->launched)
    return HD_OK;
  HD_TRY(download(x, ctx, x->host_results, x->results, (int64_t)(HD_CUDA_RESULTS * sizeof *x->results)));
  HD_TRY(wait(x, ctx));
  for (; x->seen < x->launched; x->seen++) {
    const int at = (int)(x->seen % HD_CUDA_RESULTS);
    const hd_step_result result = {.loss_sum = x->host_results[at].loss_sum};
    if (x->host_results[at].failed) {
      x->bad_param = x->host_results[at].bad_param;
      x->seen = x->launched;
      *flags |= HD_FLAG_NOT_FINITE;
      return HD_OK;
    }
    x->version++;
    if (driver->closing)
      *flags |= driver->closing(driver->self, &x->step[at], &result);
    driver->done(driver->self, &x->step[at], &result);
  }
  return HD_OK;
}

static hd_status run_steps(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  const int32_t most = x->settings.lookahead < HD_CUDA_RESULTS ? x->settings.lookahead : HD_CUDA_RESULTS;
  uint64_t version = x->version;
  for (hd_step step; !*flags && driver->next(driver->self, &step); version++) {
    cuda_inlet *inlet = &x->inlet[version & 1];
    HD_TRY(wait_for_inlet(x, ctx, inlet));
    HD_TRY(fetch(flags, x, ctx, driver, &step, 0, step.samples, inlet));
    if (*flags)
      break;
    describe(x, inlet->host_step, &step, step.samples);
    HD_TRY(launch(x, ctx, inlet));
    x->step[x->launched++ % HD_CUDA_RESULTS] = step;
    if (x->launched - x->seen >= most)
      HD_TRY(collect(x, ctx, driver, flags));
  }
  return collect(x, ctx, driver, flags);
}

hd_status hd__exec_cuda_run(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  *flags = 0;
  if (!x->uploaded || x->version != hd__store_version(x->store))
    HD_TRY(upload_store(x, ctx));
  hd_status status = run_steps(x, ctx, driver, flags);
  if (status != HD_OK) {
    x->uploaded = false;
    return status; /* the GPU is lost: the store has what was trained before this run */
  }
  HD_TRY(download_store(x, ctx));
  if (*flags & HD_FLAG_NOT_FINITE) {
    x->uploaded = false;
    return hd__exec_not_finite(ctx, x->plan, x->bad_param);
  }
  return *flags & HD_FLAG_NO_DATA ? driver->why(driver->self, ctx) : HD_OK;
}

/* ---- Evaluation ---- */

static hd_status evaluate_group(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, const hd_step *step,
                                int64_t first, int64_t rows, const hd_exec_outcome *out) {
  cuda_inlet *inlet = &x->inlet[0];
  const hd_graph *graph = x->plan->graph;
  const int64_t stride = x->plan->place[graph->logits].stride;
  const int32_t classes = graph->values[graph->logits].shape.dim[0];
  uint32_t flags = 0;
  HD_TRY(fetch(&flags, x, ctx, driver, step, first, rows, inlet));
  if (flags & HD_FLAG_NO_DATA)
    return driver->why(driver->self, ctx);
  describe(x, inlet->host_step, step, rows);
  HD_TRY(launch(x, ctx, inlet));
  HD_TRY(
      download(x, ctx, x->host_scores, hd__exec_cuda_rows(x, graph->logits), rows * stride * (int64_t)sizeof(float)));
  HD_TRY(download(x, ctx, x->host_losses, x->losses, rows * (int64_t)sizeof(float)));
  HD_TRY(wait(x, ctx));
  memcpy(out->loss + first, x->host_losses, (size_t)rows * sizeof *out->loss);
  for (int64_t r = 0; r < rows; r++)
    hd__exec_judge(out, first + r, x->host_scores + r * stride, classes);
  return HD_OK;
}

hd_status hd__exec_cuda_evaluate(hd_exec_cuda *x, hd_ctx *ctx, const hd_driver *driver, int64_t samples,
                                 const hd_exec_outcome *out) {
  const hd_step step = {.samples = samples, .divisor = 1};
  HD_TRY(upload(x, ctx, x->weights[0], x->store->weights[hd__store_half(x->store)], weight_bytes(x), x->cuda->compute));
  HD_TRY(wait(x, ctx));
  for (int64_t first = 0; first < samples; first += x->settings.batch) {
    const int64_t rows = samples - first < x->settings.batch ? samples - first : x->settings.batch;
    HD_TRY(evaluate_group(x, ctx, driver, &step, first, rows, out));
  }
  return HD_OK;
}
