/* How the GPUs of a run divide a batch, and the exchange of partial sums between them.
 *
 * GPUs are numbered host after host, rank after rank; each has neighbouring shards of the batch, as threads have on
 * the CPU. A GPU adds the sums of complete subtrees of its shards; these partial sums are exchanged between all GPUs,
 * and each GPU finishes the reduction and updates all weights: the bits are equal on all GPUs, and weights are never
 * sent. The losses of the samples are exchanged with the gradients, and in earlier exchanges of the step the sums that
 * a later phase reads, such as a batch's statistics.
 *
 *     GPU 0   shards 0 .. 7  | partial sums \            / | all partial sums: reduce, update
 *     GPU 1   shards 8 .. 15 | partial sums -- exchange -- | all partial sums: reduce, update
 *
 * gpu_exchange.h has the ways that sums take. With native arithmetic, if NCCL is available, each GPU adds its gradients
 * to one sum, and NCCL adds the sums of all GPUs; statistics, losses and the ranks' barriers are unchanged. */
#pragma once

#include "exec/exchange/exchange.h"
#include "exec/executor.h"
#include "exec/gpu/gpu_nccl.h"
#include "reduce/reduction_tree.h"

struct hd_exec_cuda;

typedef struct cuda_share {
  struct hd_exec_cuda *first; /* GPU of this process; the others follow in order */
  hd_local_group *local;
  int32_t shards;
  int64_t batch;
  hd_exchange exchange;        /* between the GPUs of all ranks */
  int32_t *border;             /* GPU g has the shards [border[g], border[g + 1]) */
  int exchanges;               /* in a step; the last one exchanges gradients and losses */
  int64_t *elems;              /* floats of a partial sum in each exchange */
  cuda_nccl *nccl;             /* reduces the last exchange; NULL: it is like the others */
  char why[HD_CUDA_WHY_BYTES]; /* the reason why a requested NCCL is not used; else "" */

  int64_t samples;      /* of the batch that the fields below are laid out for; 0: none yet */
  hd_partial_sums sums; /* of all GPUs, with the additions of this process's; with a single GPU over its shards */

  int32_t *chosen;   /* indices of a step's samples, for GPUs that hold the data */
  hd_segment memory; /* ranks: two buffers that alternate, of losses and partial sums, and memory of the exchange */
  hd_tally *tally;   /* this rank's; NULL: no other ranks */
  bool reports;      /* the current step exchanges the accounts */
  bool pinned;
  uint64_t exchanges_done; /* exchanges so far */
  uint32_t carried;        /* flags to send with the next step */
  double loss_sum;         /* ranks: of the step whose exchange was last */
} cuda_share;

/* Numbers the GPUs of all ranks. HD_E_UNSUPPORTED: there are more of them than shards. */
hd_status hd__cuda_share_create(cuda_share **out, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings);
void hd__cuda_share_destroy(cuda_share *share); /* NULL is allowed */
void hd__cuda_share_forget(cuda_share *share);  /* before its first GPU is destroyed */

/* Whether other processes have GPUs of this run. */
static inline bool hd__cuda_share_is_ranked(const cuda_share *s) { return s->exchange.count > s->exchange.here; }

/* Whether NCCL reduces exchange `index` of a step. */
static inline bool hd__cuda_share_is_summed(const cuda_share *s, int index) {
  return s->nccl && index == s->exchanges - 1;
}

/* The number of shards of GPU `number`, and the most samples. */
int32_t hd__cuda_share_shards(const cuda_share *share, int number);
int64_t hd__cuda_share_rows(const cuda_share *share, int number);

/* The most floats in any exchange of a step: of GPU `number`'s partial sums, and of those of all GPUs. */
int64_t hd__cuda_share_gpu_elems(const cuda_share *share, int number);
int64_t hd__cuda_share_all_elems(const cuda_share *share);

/* Lays out a batch of `samples` samples. */
void hd__cuda_share_lay_out(cuda_share *share, int64_t samples);

/* Ranks: exchange number `number`'s memory of the host: the losses of a batch, then partial sums. Two alternate. */
float *hd__cuda_share_buffer(const cuda_share *share, uint64_t number);

/* Ranks: waits until all have published, and receives what other hosts have; *flags becomes the OR of those of all. */
hd_status hd__cuda_share_wait(cuda_share *share, hd_ctx *ctx, uint32_t *flags, bool reports);

/* The samples [*begin, *end) of `samples` that GPU `number` evaluates. The second makes all results known to all
 * ranks. */
void hd__cuda_share_evaluates(int64_t *begin, int64_t *end, const cuda_share *share, int number, int64_t samples);
hd_status hd__cuda_share_outcome(cuda_share *share, hd_ctx *ctx, const hd_exec_outcome *out, int64_t samples,
                                 const hd_plan_io *io, uint32_t *flags);

/* Whether one of this process's GPUs has one of the rows [first, first + rows) of a step of `samples` samples. */
bool hd__cuda_share_fetches(const cuda_share *share, int64_t samples, int64_t first, int64_t rows);
