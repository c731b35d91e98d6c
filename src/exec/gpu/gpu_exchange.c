/* The exchange between GPUs by copies and by the host's memory: see gpu_exchange.h. */
#include "exec/gpu/gpu_exchange.h"

#include "exec/gpu/gpu_executor_state.h"

/* Floats of a partial sum that this exchange moves. */
static int64_t moved_elems(const cuda_share *s, int index) {
  return hd__cuda_share_is_summed(s, index) ? 0 : s->elems[index];
}

static bool has_losses(const cuda_share *s, int index) { return index == s->exchanges - 1; }

/* ---- by copies ---- */

static hd_status mark(const hd_exec_cuda *x, hd_ctx *ctx, cu_event event) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.event_record(event, x->cuda->compute), "ordering GPUs");
}

static hd_status wait_for(const hd_exec_cuda *x, hd_ctx *ctx, cu_event event) {
  return hd__cuda_check(x->cuda, ctx, x->cuda->driver.stream_after(x->cuda->compute, event, 0),
                        "waiting for another GPU");
}

static hd_status mark_ready(cuda_share *s, hd_ctx *ctx, int index) {
  (void)index;
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(mark(x, ctx, x->ready));
  }
  return HD_OK;
}

/* Each waits for all others: until they are ready, or until they have taken all. */
static hd_status wait_for_others(const cuda_share *s, hd_ctx *ctx, bool taken) {
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    for (const hd_exec_cuda *other = s->first; other; other = other->next)
      if (other != x)
        HD_TRY(wait_for(x, ctx, taken ? other->taken : other->ready));
  }
  return HD_OK;
}

static hd_status wait_until_ready(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  (void)index;
  (void)flags;
  return wait_for_others(s, ctx, false);
}

static hd_status copy_across(const hd_exec_cuda *to, const hd_exec_cuda *from, hd_ctx *ctx, float *there,
                             const float *here, int64_t elems) {
  if (elems == 0)
    return HD_OK;
  const cu_pointer target = (cu_pointer)(uintptr_t)there, source = (cu_pointer)(uintptr_t)here;
  return hd__cuda_check(to->cuda, ctx,
                        to->cuda->driver.move_across(target, to->cuda->context, source, from->cuda->context,
                                                     (size_t)elems * sizeof *here, to->cuda->compute),
                        "copying from another GPU");
}

/* Copies the partial sums of all GPUs to GPU x. */
static hd_status take_from_all(const cuda_share *s, hd_exec_cuda *x, hd_ctx *ctx, int index) {
  const int64_t elems = moved_elems(s, index);
  for (const hd_exec_cuda *from = s->first; from; from = from->next) {
    const int g = from->number;
    HD_TRY(copy_across(x, from, ctx, x->all_partial_sums + s->sums.first[g] * elems, from->partial_sums,
                       (s->sums.first[g + 1] - s->sums.first[g]) * elems));
    if (has_losses(s, index))
      HD_TRY(
          copy_across(x, from, ctx, x->all_losses + s->sums.row[g], from->losses, s->sums.row[g + 1] - s->sums.row[g]));
  }
  return HD_OK;
}

/* No GPU continues before all GPUs have copied: only then may a GPU overwrite its partial sums. */
static hd_status take(cuda_share *s, hd_ctx *ctx, int index) {
  for (hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(take_from_all(s, x, ctx, index));
    HD_TRY(mark(x, ctx, x->taken));
  }
  return wait_for_others(s, ctx, true);
}

const gpu_exchange hd__gpu_exchange_by_copies = {.publish = mark_ready, .wait = wait_until_ready, .finish = take};

/* ---- by the host's memory ---- */

/* The losses of a batch, then partial sums. */
static float *current_buffer(const cuda_share *s) { return hd__cuda_share_buffer(s, s->exchanges_done - 1); }

static hd_status download(cuda_share *s, hd_ctx *ctx, int index) {
  const int64_t elems = moved_elems(s, index), floats = (int64_t)sizeof(float);
  s->exchanges_done++;
  float *losses = current_buffer(s), *partial_sums = losses + s->batch;
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    const int g = x->number;
    if (!s->pinned) /* the driver blocks while copying unpinned memory and would not check for lost ranks */
      HD_TRY(hd__exec_cuda_wait(x, ctx));
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_download(x, ctx, partial_sums + s->sums.first[g] * elems, x->partial_sums,
                                  (s->sums.first[g + 1] - s->sums.first[g]) * elems * floats));
    if (has_losses(s, index))
      HD_TRY(hd__exec_cuda_download(x, ctx, losses + s->sums.row[g], x->losses,
                                    (s->sums.row[g + 1] - s->sums.row[g]) * floats));
  }
  if (has_losses(s, index)) /* the results of earlier steps */
    HD_TRY(hd__exec_cuda_queue_results(s->first, ctx));
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_wait(x, ctx));
  }
  return HD_OK;
}

/* A host's first rank: names what the hosts exchange. */
static void name_sums(cuda_share *s, int index, float *losses) {
  hd_exchange *x = &s->exchange;
  int64_t *of_sums = hd__exchange_publish(x, losses + s->batch);
  int64_t *of_losses = has_losses(s, index) ? hd__exchange_publish(x, losses) : NULL;
  for (int h = 0; h < x->hosts; h++) {
    const int begin = x->host_first[h], end = x->host_first[h + 1];
    of_sums[h] = (s->sums.first[end] - s->sums.first[begin]) * moved_elems(s, index) * (int64_t)sizeof(float);
    if (of_losses)
      of_losses[h] = (s->sums.row[end] - s->sums.row[begin]) * (int64_t)sizeof(float);
  }
}

static hd_status wait_for_ranks(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  if (index == 0) { /* before anything is updated */
    *flags |= s->carried;
    s->carried = 0;
  }
  if (hd__cluster_leads(s->local))
    name_sums(s, index, current_buffer(s));
  return hd__cuda_share_wait(s, ctx, flags, has_losses(s, index) && s->reports);
}

static hd_status upload(cuda_share *s, hd_ctx *ctx, int index) {
  const int64_t floats = (int64_t)sizeof(float);
  const float *losses = current_buffer(s);
  s->loss_sum = 0;
  for (int64_t i = 0; i < s->samples && has_losses(s, index); i++)
    s->loss_sum += (double)losses[i];
  for (const hd_exec_cuda *x = s->first; x; x = x->next) {
    hd__cuda_use(x->cuda);
    HD_TRY(hd__exec_cuda_upload(x, ctx, x->all_partial_sums, losses + s->batch,
                                s->sums.first[s->exchange.count] * moved_elems(s, index) * floats));
    if (has_losses(s, index))
      HD_TRY(hd__exec_cuda_upload(x, ctx, x->all_losses, losses, s->samples * floats));
  }
  return HD_OK;
}

const gpu_exchange hd__gpu_exchange_by_host = {.publish = download, .wait = wait_for_ranks, .finish = upload};

/* ---- of a step ---- */

hd_status hd__gpu_exchange(cuda_share *s, hd_ctx *ctx, int index, uint32_t *flags) {
  const gpu_exchange *const ways[] = {hd__cuda_share_is_ranked(s) ? &hd__gpu_exchange_by_host
                                                                  : &hd__gpu_exchange_by_copies,
                                      hd__cuda_share_is_summed(s, index) ? &hd__gpu_exchange_by_nccl : NULL};
  for (size_t i = 0; i < sizeof ways / sizeof *ways && ways[i] && !*flags; i++) {
    HD_TRY(ways[i]->publish(s, ctx, index));
    HD_TRY(ways[i]->wait(s, ctx, index, flags));
    if (!*flags)
      HD_TRY(ways[i]->finish(s, ctx, index));
  }
  return HD_OK;
}
