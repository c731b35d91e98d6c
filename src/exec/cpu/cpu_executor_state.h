/* Internal state of the CPU executor, shared by the files that run its phases and included by no other.
 *
 * Shared memory is written either before the region, or by one thread between two barriers of all threads. The
 * description of a step and its layout have two slots that alternate: thread 0 prepares the next step while the other
 * threads work on the current one. */
#pragma once

#include "exec/cpu/cpu_executor.h"
#include "exec/exchange/exchange.h"
#include "reduce/reduction_tree.h"

/* Elements of a thread's reduction buffer. A tile of a deferred gradient has at most TILE_COLUMNS columns, and of more
 * than TILE_ROWS rows a multiple of them, so that the kernels' blocks of rows are whole; a tile of a
 * direct gradient has REDUCE_ELEMS consecutive elements. Copies are packed PACK_ROWS rows at a time. */
enum {
  TILE_ELEMS = HD_FORM_ELEMS,
  TILE_COLUMNS = 4096,
  TILE_ROWS = 8,
  REDUCE_ELEMS = 4096,
  OWNED_ALIGN = 16,
  PACK_ROWS = 16,
  STREAM_BYTES = 32 << 20
};

/* How a micro-batch's sums are exchanged between hosts; see host_sums.c. */
typedef struct host_layout {
  hd_reduction shards[HD_MAX_SUBTREES]; /* for each partial sum of this host: over its shards */
  hd_partial_sums sums;                 /* of all hosts, with the additions of this one */
} host_layout;

/* How the threads of one stage share a micro-batch. Threads of other stages have empty ranges. */
typedef struct stage_layout {
  hd_partial_sums sums;      /* of all threads, with the additions of this process's, */
  float *sum[HD_MAX_SHARDS]; /* and their places */
  hd_reduction *host_sums;   /* for each partial sum of this host: over its threads'. NULL: as hosts of the layout */
} stage_layout;

/* How one micro-batch is laid out over threads. */
typedef struct micro_batch_layout {
  int64_t samples; /* of the batch this was made for, 0: not made yet */
  hd_micro_batch micro_batch;
  int64_t first;         /* its first sample in the batch */
  hd_reduction shards;   /* over all shards of the micro-batch: for deferred gradients */
  stage_layout *stage;   /* one per stage of the plan */
  int32_t merges, level; /* additions of earlier micro-batches' sums, and this one's place on their stack */
  host_layout *hosts;    /* NULL: hosts do not share its samples */
} micro_batch_layout;

/* What a thread has done for its stage, for the report. */
typedef struct stage_work {
  _Alignas(64) int64_t shards, waited_ns; /* for other stages */
} stage_work;

/* Transfers of a thread to or from other hosts, the oldest first. */
typedef struct stage_mail {
  hd_transfer **transfer;
  int *peer, count;
} stage_mail;

typedef struct thread_state {
  _Alignas(128) hd_origin origin[HD_WHERES]; /* of this step's calls, at row 0 */
  char *arena;
  void *scratch;
  char *targets;                /* evaluation: of one group */
  void *fetch;                  /* settings.fetch_bytes */
  float *partial_sums;          /* slots of direct_elems floats */
  int stage;                    /* whose calls it runs */
  int32_t arenas;               /* of its arena: shards that may be between forward and backward */
  unsigned phases;              /* shards phases so far, of several stages */
  stage_mail sent, received[2]; /* with stages on several hosts: forward and backward, */
  hd_transfer_part *parts;      /* and room for the parts of a transfer */
  float *gathered;              /* gathered_elems floats: the sums over all shards that a later phase reads */
  float *stack;                 /* for reducing statistics */
  float *tile, *other_tile;     /* of a gradient; of another use of its parameter */
  double *norms;                /* room for the tree over chunk numbers */
  int32_t chunk_lo, chunk_hi;
  hd_track *track; /* NULL: nothing is recorded */
  hd_tally *tally; /* NULL without other ranks, and for threads of other hosts */
  uint32_t flags;
} thread_state;

/* How the threads of all ranks share the work. */
typedef struct work_division {
  int32_t *rank_of;     /* of the threads: their ranks in the job */
  int32_t *speed;       /* of the threads; NULL: all equal */
  int32_t *border;      /* of the threads of each stage: see hd__exec_border */
  int32_t *host_border; /* host h has the shards [host_border[h], host_border[h + 1]) of each micro-batch */
  int64_t group_rows;   /* the most samples in an arena */
  int64_t *phase_rows;  /* and those of each phase, since phases have arenas of different sizes */
} work_division;

/* Of a network that is cut into several stages; see pipeline.c. */
typedef struct stage_state {
  hd_barrier signals; /* what this host's threads have done */
  hd_barrier_watch watch;
  bool apart;       /* each stage has one host: hosts share the stages, not the samples; see stage_hosts.c */
  int32_t unit;     /* shards that pass from stage to stage together */
  stage_work *work; /* per thread */
} stage_state;

/* What is kept of a batch beside the threads' arenas. */
typedef struct batch_state {
  float *values;
  int64_t capacity; /* of values: samples */
  float *losses;    /* per sample of the batch */
  char *targets;    /* likewise: labels, or slots of floats, target_bytes each */
  int64_t target_bytes;
} batch_state;

/* For the gradient's norm. */
typedef struct norm_state {
  float *grad; /* reduced */
  double *of_chunk;
} norm_state;

/* Of muon: squares per chunk, of the direction and of the old weight; matrix_elems floats. */
typedef struct muon_state {
  double *direction_squares, *weight_squares;
  float *matrices;
} muon_state;

/* What hosts exchange; see host_sums.c. */
typedef struct host_state {
  int32_t setting;      /* HEDDLE_HOST_SUMS of rank 0: 1: all hosts reduce, 2: owners, 0: not set */
  bool has_owners;      /* each host reduces a range of the gradients for all */
  int64_t *owned_bytes; /* host h owns the bytes [owned_bytes[h], owned_bytes[h + 1]) of grad_elems floats */
  float *sum;           /* partial sums of all hosts, grad_elems each */
  float *owned_sum;     /* the finished sums of all owners */
  float *gathered;      /* sums that a later phase reads, of the threads of all hosts */
  uint32_t carried;     /* the first thread of the host: flags to send with the next exchange */
} host_state;

/* Of two steps, which alternate. */
typedef struct step_slots {
  hd_step step[2];
  int has_step[2];
  micro_batch_layout *layout[2]; /* one per micro-batch */
} step_slots;

/* What a step or an evaluation found. */
typedef struct step_result {
  int32_t *bad_param; /* per thread, with HD_FLAG_NOT_FINITE: the parameter, -1: the loss, -2: the norm */
  double loss_sum;    /* of the step */
  uint32_t flags;
  const hd_exec_outcome *outcome; /* of an evaluation */
} step_result;

/* The executor. All ranks of the host share what these point to: stages.work, batch, norm, muon, the sums of hosts,
 * micro_batch_sum, result.bad_param, and the partial_sums of threads; it is laid out together, in `common`. */
typedef struct hd_exec_cpu {
  const hd_plan *plan;
  hd_store *store;
  hd_threads *threads;
  hd_exec_settings settings;
  hd_cpu_settings own;
  hd_exchange exchange; /* between the threads of all ranks of all hosts */
  hd_exec_caller *caller;
  work_division division;
  stage_state stages;
  thread_state *thread; /* all threads; of other processes' threads only stage and partial_sums are set */
  hd_segment local;     /* of this process: layouts, and memory of its threads */
  hd_segment common;
  batch_state batch;
  norm_state norm;
  muon_state muon;
  bool streams;           /* two versions of all weights and states are larger than what a shared cache keeps */
  float *micro_batch_sum; /* accumulation: stack of sums, grad_elems each */
  host_state hosts;
  step_slots slots;
  step_result result;
} hd_exec_cpu;

/* A thread's position in the run. */
typedef struct thread_at {
  hd_exec_cpu *exec;
  thread_state *thread;
  const hd_step *step;
  const micro_batch_layout *layout;
  int index;            /* of the thread */
  int64_t first_target; /* of those in memory, counted as samples are: 0 in training */
  int buffer;           /* of the store, read by this step */
  uint64_t trained;     /* the groups that the step trains, as bits */
  bool last;            /* the batch's last micro-batch */
  bool sums_host;       /* gradients are summed over this host's shards alone, for the exchange */
} thread_at;

/* The rows of one kernel call: of a group in the arena, of a micro-batch in batch memory, of the batch in the
 * losses. */
typedef struct call_rows {
  int64_t rows;
  int64_t batch_row;           /* in the batch */
  hd_origin origin[HD_WHERES]; /* DIRECT: where shard sums are written */
  int32_t j0, j1;              /* of a call by outputs: the outputs j0 .. j1-1 */
  int32_t merges;              /* of a call that merges, see hd_call */
} call_rows;

/* Whether the step needs a call, and whether it trains a parameter. */
static inline bool hd__exec_needs(const thread_at *at, const hd_plan_call *call) {
  return call->needed & (at->trained | HD_NEEDED_ALWAYS);
}
static inline bool hd__exec_trains(const thread_at *at, int param) {
  return at->trained >> at->exec->plan->params[param].group & 1;
}

void hd__exec_call(const thread_at *at, const hd_plan_call *call, const call_rows *rows);

/* Finds the memory of a thread's calls for a step that reads buffer at->buffer. */
void hd__exec_find_memory(const thread_at *at);

/* `rows` rows from a row of the micro-batch on; row 0 of the arena is that one. */
static inline call_rows hd__exec_rows(const thread_at *at, int64_t rows, int64_t micro_batch_row, int64_t batch_row) {
  call_rows group = {.rows = rows, .batch_row = batch_row};
  for (int w = 0; w < HD_WHERES; w++)
    group.origin[w] = at->thread->origin[w];
  group.origin[HD_AT_BATCH].row = micro_batch_row;
  group.origin[HD_AT_LABELS].row = batch_row - at->first_target;
  group.origin[HD_AT_LOSSES].row = batch_row;
  return group;
}

/* Fetches a group's samples and targets. */
void hd__exec_fetch_group(const thread_at *at, const call_rows *group);

/* Numbers the threads of all ranks and records their speeds. */
hd_status hd__exec_number_threads(hd_exec_cpu *exec, hd_ctx *ctx);

/* Thread l of a stage has the shards [border[l], border[l + 1]) of each micro-batch, counted from its first. */
static inline int32_t *hd__exec_border(const hd_exec_cpu *exec, int stage) {
  return exec->division.border + (ptrdiff_t)stage * (exec->exchange.count + 1);
}

/* The partial sums of a host's threads of a stage are [first_sum(host), first_sum(host + 1)); a host's samples
 * likewise.
 * */
static inline int32_t hd__exec_first_sum(const thread_at *at, int stage, int host) {
  return at->layout->stage[stage].sums.first[at->exec->exchange.host_first[host]];
}
/* The shards of a thread of this process. */
static inline const hd_range_plan *hd__exec_range(const thread_at *at) {
  return &at->layout->stage[at->thread->stage].sums.range[at->index - at->exec->exchange.first];
}

/* Whether hosts share the samples of a batch. */
static inline bool hd__exec_shares_samples(const hd_exec_cpu *exec) {
  return exec->exchange.hosts > 1 && !exec->stages.apart;
}

/* The only host of a stage; where every host has all stages, this host. */
static inline int hd__exec_stage_host(const hd_exec_cpu *exec, int stage) {
  return exec->stages.apart ? hd__stage_host(stage, exec->plan->pipeline.stages.count, exec->exchange.hosts)
                            : exec->exchange.host;
}
static inline bool hd__exec_has_stage(const hd_exec_cpu *exec, int stage) {
  return hd__exec_stage_host(exec, stage) == exec->exchange.host;
}

static inline int64_t hd__exec_first_row(const thread_at *at, int host) {
  return at->layout->stage[0].sums.row[at->exec->exchange.host_first[host]];
}

/* This host's threads, and whether a thread is the first of its host, which runs the exchange. */
static inline int hd__exec_host_first(const hd_exec_cpu *exec) {
  return exec->exchange.host_first[exec->exchange.host];
}
static inline bool hd__exec_leads(const thread_at *at) { return at->index == hd__exec_host_first(at->exec); }

/* The shard of a step of a reduction over shards, counted from the micro-batch's first. */
static inline int32_t hd__exec_shard(const thread_at *at, const hd_reduction_step *step) {
  return step->term - at->layout->micro_batch.lo;
}

/* Waits at the next barrier of this host's threads and adds the waiting to the thread's account. Returns the OR of all
 * flags. */
static inline uint32_t hd__exec_barrier(const thread_at *at, uint32_t flags) {
  return hd__exchange_wait(&at->exec->exchange, at->index - hd__exec_host_first(at->exec), flags);
}

/* Exchanges between hosts, called by all threads: the sums that a gather of the phase reads; sums of gradients, losses
 * and flags. They return the flags of the closing barrier. */
uint32_t hd__exec_exchange_phase(const thread_at *at, const hd_phase *phase);
uint32_t hd__exec_exchange_sums(const thread_at *at);

/* The first thread of a host: exchanges what was published, see exchange.h. Every thread: waits for that. */
static inline bool hd__exec_finish_exchange(const thread_at *at, const hd_slices *slices, const uint32_t *flags,
                                            bool reports) {
  hd_exchange *x = &at->exec->exchange;
  const bool is_done = hd__exchange_finish(x, slices, flags, reports);
  hd__trace_leaf(at->thread->track, HD_SLICE_EXCHANGE, x->waited_for);
  return is_done;
}
static inline uint32_t hd__exec_wait_for_exchange(const thread_at *at, uint32_t flags) {
  const uint32_t all = hd__exec_barrier(at, flags);
  hd__trace_leaf(at->thread->track, HD_SLICE_WAIT, 0);
  return all;
}

/* With stages on several hosts: whether the network can be cut this way. */
hd_status hd__exec_check_stage_hosts(const hd_exec_cpu *exec, hd_ctx *ctx);

/* Likewise. Receives what a stage range needs from the stage before it, which another host runs, for the pushes [push,
 * end), and begins to receive it for the pushes up to `next_end`. Sends what the stage after `range` needs. Waits until
 * everything that was sent has gone. False: the local group is broken. */
bool hd__exec_receive_values(const thread_at *at, const hd_stage_range *range, int push, int end, int next_end);
bool hd__exec_send_values(const thread_at *at, const hd_stage_range *range, int push, int end);
bool hd__exec_finish_sends(const thread_at *at);

/* Likewise: lets the transport move what is on its way. A failure is found by the calls above. */
void hd__exec_move_values(const thread_at *at);

/* Likewise: exchanges the norms of chunks; losses and flags, at the end of a step. They return the flags of the closing
 * barrier. */
uint32_t hd__exec_exchange_norms(const thread_at *at);
uint32_t hd__exec_exchange_losses(const thread_at *at);
hd_status hd__exec_cpu_collect(void *self, hd_ctx *ctx);
hd_status hd__exec_cpu_spread(void *self, hd_ctx *ctx);

/* Decides whether gradients are reduced by owners, and lays out the owned ranges. All hosts decide alike. */
hd_status hd__exec_choose_owners(hd_exec_cpu *exec, hd_ctx *ctx);

/* Sums this host's gradients for hd__exec_exchange_sums, each thread its chunks. */
void hd__exec_sum_host(const thread_at *at);

/* Reduces the elements [first, first + count) of all hosts' partial sums. */
void hd__exec_sum_owned(const thread_at *at, int64_t first, int64_t count);

/* Times the threads, if they run on cores of several kinds and have not been timed. */
hd_status hd__exec_time_threads(hd_threads *threads, hd_ctx *ctx, const hd_kernels *kernels);

/* An evaluation: writes the outcome of a group from its scores. */
void hd__exec_note_outcome(const thread_at *at, const call_rows *group);

/* Functions of the table hd__cpu_executor. */
hd_status hd__exec_cpu_evaluate(void *self, hd_ctx *ctx, hd_exec_caller *caller, int64_t samples,
                                const hd_exec_outcome *out, uint32_t *flags);
bool hd__exec_cpu_fetches(const void *self, int64_t samples, int64_t first, int64_t rows);

/* Gives each thread its stage; and finds the threads [*begin, *end) of a host that run a stage. */
hd_status hd__exec_number_stages(hd_exec_cpu *exec, hd_ctx *ctx);
void hd__exec_threads_of_stage(int *begin, int *end, const hd_exec_cpu *exec, int host, int stage);

/* Sets the borders. A thread without a shard still works on chunks. */
void hd__exec_divide_shards(hd_exec_cpu *exec);

/* Memory for the state of threads; then what they do: shards, and the samples that they run together; chunks. */
hd_status hd__exec_take_threads(hd_exec_cpu *exec, hd_ctx *ctx);
void hd__exec_distribute_shards(hd_exec_cpu *exec);
hd_status hd__exec_distribute_chunks(hd_exec_cpu *exec, hd_ctx *ctx);

/* Bytes of a thread's arenas. */
enum { ALIGN_BYTES = 128 };
int64_t hd__exec_arena_bytes(const hd_exec_cpu *exec, int thread);

/* The memory of an executor whose shards and chunks are distributed, placed where its threads are; what it would take.
 */
hd_status hd__exec_take_memory(hd_exec_cpu *exec, hd_ctx *ctx);
hd_exec_memory hd__exec_count_memory(hd_exec_cpu *exec);

void hd__exec_layout(hd_exec_cpu *exec, int slot, int64_t samples);

/* A shards phase, for all shards of the thread. */
void hd__exec_shards(const thread_at *at, const hd_phase *phase);

/* Runs the calls of a stage range for the shards pushed by `walk`; arena number `arena` keeps what the thread's next
 * stage range reads. */
void hd__exec_run_group(const thread_at *at, const hd_phase *phase, const hd_stage_range *range, const hd_walk *walk,
                        int32_t arena);

/* The same where the plan has several stages: pipeline.c. False: a rank of another stage is lost; the thread must
 * not wait at the next barrier, where the others detect that. */
bool hd__exec_pipeline(const thread_at *at, const hd_phase *phase);

/* The number of units that a thread of a stage may have between forward and backward. */
int32_t hd__exec_arenas(const hd_exec_cpu *exec, int thread);

/* Places the signals at `base`, unless that is NULL; returns their size. Opens them. */
int64_t hd__exec_lay_out_signals(hd_exec_cpu *exec, void *base);
void hd__exec_open_signals(hd_exec_cpu *exec, bool crowded);
void hd__exec_outputs(const thread_at *at, const hd_phase *phase);
void hd__exec_whole(const thread_at *at, const hd_phase *phase);

/* Merges the statistics of two neighbouring ranges, of rows[0] and rows[1] samples, into the left one's; means are at
 * at[0], sums of squared deviations at at[1]. */
void hd__exec_merge_stats(const hd_plan *plan, const hd_plan_call *call, float *left, float *right, const int64_t *at,
                          const int64_t *rows);

/* Called by each thread: reduces the sums of a phase's gathered calls over all shards. */
void hd__exec_gather(const thread_at *at, const hd_phase *phase);

/* Updates running statistics, by their owner, from the batch's. */
void hd__exec_running(const thread_at *at, int param, int32_t j0, int32_t j1);
void hd__exec_reduce(const thread_at *at, hd_phase_kind kind);
void hd__exec_update(const thread_at *at);

/* The average of elements of the new version, which the caller has just written. */
void hd__exec_average(const thread_at *at, int64_t first, int64_t count);

/* A stage of muon, for this thread's rows of all matrices. */
void hd__exec_matrices(const thread_at *at, const hd_phase *phase);

/* Of the thread's chunks of matrices: the sums of squares of direction and old weight. */
void hd__exec_sum_directions(const thread_at *at);

/* Adds `count` sums in pairs of neighbours, level by level, an odd one passing; overwrites them. */
double hd__exec_sum_pairs(double *sum, int count);

void hd__exec_note_not_finite(const thread_at *at, int param);

/* Packed copies of the new version of rows j0 .. j1-1. */
void hd__exec_pack_new(const thread_at *at, int param, int32_t j0, int32_t j1);

/* Packs the thread's rows of all packed copies, of the version that the current step reads. */
void hd__exec_pack(const thread_at *at);
