/* How the GPUs of a run share a batch, and what they tell each other in a step.
 *
 * GPUs are numbered host after host, rank after rank; each has neighbouring shards of the batch, as lanes have on the CPU.
 * It adds their sums as far as the tree allows; these covers cross to all GPUs, and each of them finishes the tree, and
 * updates all weights: all get the same bits, and weights never cross. The losses of the samples cross with them, and
 * before that the covers of whatever a later phase reads, such as a batch's statistics.
 *
 *     GPU 0   shards 0 .. 7  | cover \         / | all covers: fold, update
 *     GPU 1   shards 8 .. 15 | cover -- cross -- | all covers: fold, update
 *
 * Inside a process GPUs copy from each other. Ranks lay their covers into memory that their host's ranks share, meet
 * there, and copy from it; with several hosts the first rank of each moves the others' in between.
 *
 * With native arithmetic, where there is NCCL, each GPU makes one sum of its gradients, and NCCL one of all GPUs' sums;
 * the rest, statistics and losses and the ranks' meetings, stays as it is. */
#ifndef HD_EXEC_EXEC_CUDA_SHARE_H
#define HD_EXEC_EXEC_CUDA_SHARE_H

#include "exec/exec.h"
#include "exec/exec_cuda_nccl.h"
#include "exec/tally.h"
#include "tree/tree.h"

struct hd_exec_cuda;

typedef struct cuda_share {
  struct hd_exec_cuda *first; /* this process's, in order */
  hd_world *world;
  int32_t shards;
  int64_t batch;
  int count, own_first, own; /* GPUs of the run; which are this process's */
  int hosts, host;
  int32_t *host_first;         /* host h has the GPUs [host_first[h], host_first[h + 1]) */
  int32_t *border;             /* GPU g has the shards [border[g], border[g + 1]) */
  int crossings;               /* in a step; the last one carries gradients and losses */
  int64_t *elems;              /* floats of each cover in a crossing */
  cuda_nccl *nccl;             /* adds the last crossing's; NULL: its covers cross as the others' do */
  char why[HD_CUDA_WHY_BYTES]; /* NCCL does not, if it was to; else "" */

  int64_t samples; /* of the batch that the rest was laid out for; 0: none yet */
  int64_t *row;    /* GPU g has the samples [row[g], row[g + 1]) of it, */
  int32_t *cover;  /* and the covers [cover[g], cover[g + 1]) */
  hd_fold whole;   /* over all covers; of a GPU alone over its shards */
  hd_fold *local;  /* of each own GPU: over its shards, samples counted from its first */

  int32_t *chosen;   /* samples of a step, for GPUs that have the data */
  hd_segment memory; /* ranks: two places in turn for what crosses, and an account of each rank's time */
  hd_tally *tally;   /* this rank's; NULL: alone */
  int64_t *spent;    /* accounts of all ranks, host after host: others' as they last crossed, to the first host alone */
  bool reports;      /* the step under way makes them cross */
  bool pinned;
  uint64_t crossed;     /* so often */
  uint32_t carried;     /* flags that other ranks have not heard of yet */
  double loss_sum;      /* ranks: of the step whose covers crossed last */
  int64_t *block_bytes; /* hosts: four for each */
} cuda_share;

/* Numbers the GPUs of all ranks. HD_E_UNSUPPORTED: there are more of them than shards. */
hd_status hd__cuda_share_create(cuda_share **out, hd_ctx *ctx, const hd_plan *plan, const hd_exec_settings *settings);
void hd__cuda_share_destroy(cuda_share *share); /* NULL is allowed */
void hd__cuda_share_forget(cuda_share *share);  /* before its first GPU goes */

/* Other processes have GPUs of this run, too. */
static inline bool hd__cuda_share_is_ranked(const cuda_share *s) { return s->count > s->own; }

/* Of GPU `number`: shards, and samples at most. */
int32_t hd__cuda_share_shards(const cuda_share *share, int number);
int64_t hd__cuda_share_rows(const cuda_share *share, int number);

/* Floats that all crossings of a step need, at most: of GPU `number`'s covers, and of all GPUs'. */
int64_t hd__cuda_share_own_elems(const cuda_share *share, int number);
int64_t hd__cuda_share_all_elems(const cuda_share *share);

/* Lays a batch of so many samples out. */
void hd__cuda_share_lay(cuda_share *share, int64_t samples);

/* Crossing `index` of a step: what has been queued on each GPU goes before it, what is queued then behind it. Ranks wait,
 * and agree on flags; HD_E_PEER: one is lost. */
hd_status hd__cuda_share_cross(cuda_share *share, hd_ctx *ctx, int index, uint32_t *flags);

/* What ranks have spent, as hd__exec_spent tells it; it adds nothing where there are no accounts. */
void hd__cuda_share_spent(int64_t *sums, const cuda_share *share);

/* The samples that GPU `number` evaluates: [*begin, *end) of so many; and afterwards: all know what each wrote. */
void hd__cuda_share_evaluates(int64_t *begin, int64_t *end, const cuda_share *share, int number, int64_t samples);
hd_status hd__cuda_share_outcome(cuda_share *share, hd_ctx *ctx, const hd_exec_outcome *out, int64_t samples,
                                 uint32_t *flags);

/* Whether one of this process's GPUs has one of the rows [first, first + rows) of a step of so many samples. */
bool hd__cuda_share_fetches(const cuda_share *share, int64_t samples, int64_t first, int64_t rows);

#endif
