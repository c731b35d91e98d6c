/* The executor's insides, shared by the files that run its phases; nobody else includes this.
 *
 * What lanes share is written either before the region, or by one lane between two meetings that all lanes come to. The
 * description of a step and its layout exist twice, by the parity of the step: lane 0 prepares the next one while the
 * others still work on this one. */
#ifndef HD_EXEC_EXEC_STATE_H
#define HD_EXEC_EXEC_STATE_H

#include "exec/exec.h"
#include "exec/tally.h"
#include "sys/meeting.h"
#include "tree/tree.h"

/* Elements of the buffer in which a lane folds. A tile of a deferred gradient has a multiple of TILE_ROWS home rows and
 * at most TILE_COLUMNS columns; one of a direct gradient has FOLD_ELEMS in a row. */
enum { TILE_ELEMS = 24576, TILE_ROWS = 12, TILE_COLUMNS = TILE_ELEMS / TILE_ROWS, FOLD_ELEMS = 4096, OWNED_ALIGN = 16 };

/* How a part's sums cross between hosts; see exec_hosts.c. */
typedef struct host_layout {
  hd_fold shards[HD_MAX_COVER]; /* for each cover of this host: of its shards, */
  hd_fold lanes[HD_MAX_COVER];  /* and of its lanes' covers */
  hd_fold covers;               /* over all hosts' covers, host after host */
  int32_t *cover, *piece;       /* host h has the covers [cover[h], cover[h + 1]), its lanes the pieces likewise */
} host_layout;

/* How one part of a batch is laid out over lanes. */
typedef struct part_layout {
  int64_t samples; /* of the batch this was made for, 0: not made yet */
  hd_part part;
  int64_t first;        /* the part's first sample in the batch */
  hd_range_plan *range; /* per lane */
  hd_fold shards;       /* over all shards of the part: for deferred gradients */
  hd_fold covers;       /* over the concatenated covers of all lanes */
  int32_t piece_lane[HD_MAX_SHARDS], piece_slot[HD_MAX_SHARDS]; /* whose cover, and which slot of it */
  int64_t piece_rows[HD_MAX_SHARDS];                            /* samples under it */
  int32_t merges, level; /* additions of earlier parts' sums, and where on their stack this part's goes */
  host_layout *hosts;    /* NULL: there is one */
} part_layout;

typedef struct lane_state {
  _Alignas(128) char *arena;
  void *scratch;
  char *targets; /* evaluation: of a group */
  void *fetch;   /* settings.fetch_bytes */
  float *cover;  /* slots of direct_elems floats */
  int64_t slot_rows[HD_MAX_COVER];
  float *gathered;          /* direct_elems floats: sums over all shards, as far as a later phase reads them */
  float *stack;             /* for folding statistics */
  float *tile, *other_tile; /* of a gradient; of a further use of its parameter */
  double *norms;            /* room for the tree over chunk numbers */
  int32_t chunk_lo, chunk_hi;
  hd_track *track; /* NULL: nothing is recorded */
  hd_tally *tally; /* NULL without other ranks, and for lanes of other hosts */
  int32_t held_by; /* the first lane of a host: the rank of another one that it waited for between meetings; -1: none */
  uint32_t flags;
} lane_state;

struct hd_exec {
  struct hd_exec_cuda *cuda; /* runs the plan on a GPU: of what follows only `plan` is there; NULL: on lanes */
  const hd_plan *plan;
  hd_store *store;
  hd_lanes *lanes;
  hd_exec_settings settings;
  int lane_count;            /* of all ranks of all hosts, host after host */
  int hosts, host;           /* how many, and which is this one */
  int32_t *host_lane;        /* host h has lanes [host_lane[h], host_lane[h + 1]) */
  int first_lane, own_lanes; /* those of this process */
  int32_t *rank_lane;        /* rank r of this host has lanes [rank_lane[r], rank_lane[r + 1]) */
  int32_t *speed;            /* of the lanes; NULL: all alike */
  int32_t *border;           /* shards of lane l inside part 0: [border[l], border[l + 1]); other parts alike */
  int64_t group_rows;        /* samples that an arena holds */
  lane_state *lane;          /* of all; other processes' have nothing but a cover */
  hd_meeting meeting;
  hd_meeting_watch watch;
  hd_segment memory; /* this process's own: layouts, and its lanes' parts */
  hd_segment common; /* what lanes of all ranks read: everything below up to layouts, and covers */
  hd_meeting_line *lines;
  int32_t *bad_param; /* per lane, with HD_FLAG_NOT_FINITE: the parameter, -1: the loss, -2: the norm */
  float *batch_memory;
  float *losses; /* per sample of the batch */
  char *targets; /* likewise: labels, or slots of floats, target_bytes each */
  int64_t target_bytes;
  float *grad; /* folded gradients, for the norm */
  double *chunk_norm;
  float *part_sum;      /* accumulation: stack of sums, grad_elems each */
  float *host_sum;      /* covers of all hosts, grad_elems each */
  int32_t said_owners;  /* HEDDLE_HOST_SUMS of rank 0: 1: everybody, 2: owners, 0: neither */
  bool has_owners;      /* sums of gradients cross by way of owners; see exec_hosts.c */
  int64_t *owned_bytes; /* host h owns the bytes [owned_bytes[h], owned_bytes[h + 1]) of grad_elems floats, */
  int64_t *owned_each;  /* so many */
  float *owned_sum;     /* finished, of all owners */
  int64_t *host_spent;  /* the accounts of all ranks, host after host, as they crossed last */
  float *crossing;      /* what a gather reads of lanes of all hosts */
  uint32_t *host_flags, *agreed_flags; /* that each host raised before its sums crossed; and all of them */
  int64_t *block_bytes;                /* room for what crosses: HOST_BLOCKS numbers for each host */
  uint32_t carried;                    /* the first lane of the host: flags that other hosts have not heard of yet */
  hd_range_plan *ranges;
  part_layout *layout[2]; /* per parity, one per part */

  hd_step step[2];
  int has_step[2];
  const hd_driver *driver;
  hd_step_result result;
  uint32_t last_flags;
};

/* Where a lane is. */
typedef struct lane_at {
  hd_exec *exec;
  lane_state *lane;
  const hd_step *step;
  const part_layout *layout;
  int index;     /* of the lane */
  int half;      /* of the store that is read */
  bool last;     /* the batch's last part */
  bool hands_in; /* gradients are summed over this host's shards, for other hosts */
} lane_at;

enum { HOST_BLOCKS = 5 };

/* Where one kernel call works: rows of a group in the arena, of a part in batch memory, of the batch in the losses. */
typedef struct call_rows {
  int64_t rows;
  int64_t arena_row; /* in the arena's group */
  int64_t part_row;  /* in the part */
  int64_t batch_row; /* in the batch */
  float *losses;     /* row 0 of the batch */
  char *targets;     /* row 0 of the group */
  float *direct;     /* REDUCE, STATS: where shard sums go */
  int32_t j0, j1;    /* outputs j0 .. j1-1 alone; all of them where j1 is 0 */
} call_rows;

void hd__exec_call(const lane_at *at, const hd_plan_call *call, const call_rows *rows);
float *hd__exec_rows_at(const lane_at *at, int value, const call_rows *rows);

/* Asks the driver for a group's samples and targets. */
void hd__exec_fetch(const lane_at *at, const call_rows *group);

/* Numbers the lanes of all ranks, and says how fast they are; and lets them meet, on lines that are there by then. */
hd_status hd__exec_number_lanes(hd_exec *exec, hd_ctx *ctx);
hd_status hd__exec_open_meeting(hd_exec *exec, hd_ctx *ctx);

/* This host's lanes, and whether a lane speaks for its host. */
static inline int hd__exec_host_first(const hd_exec *exec) { return exec->host_lane[exec->host]; }
static inline int hd__exec_host_lanes(const hd_exec *exec) {
  return exec->host_lane[exec->host + 1] - exec->host_lane[exec->host];
}
static inline bool hd__exec_leads(const lane_at *at) { return at->index == hd__exec_host_first(at->exec); }

/* Comes to the next meeting of this host's lanes, and accounts for the waiting there; returns everybody's flags. */
uint32_t hd__exec_meet(const lane_at *at, uint32_t flags);

/* What the lanes of a rank of this host, counted from its first, have spent: one rank's sums of hd__exec_spent. */
void hd__exec_spent_here(int64_t *sum, const hd_exec *exec, int rank);

/* The rows of a part, counted from its first, that a host has. */
void hd__exec_host_rows(int64_t *row0, int64_t *row1, const hd_exec *exec, const hd_part *part, int host);

/* Between hosts, all lanes: what a gather of the phase will read; sums of gradients, losses and flags; what an
 * evaluation wrote. They return the flags of the meeting that closes it. */
uint32_t hd__exec_cross_phase(const lane_at *at, const hd_phase *phase);
uint32_t hd__exec_cross_sums(const lane_at *at);
uint32_t hd__exec_cross_outcome(const lane_at *at, const hd_exec_outcome *out, uint32_t flags);

/* Whether hosts hand sums to owners; what this host owns, and the rest, is laid out then. All hosts say the same. */
hd_status hd__exec_choose_owners(hd_exec *exec, hd_ctx *ctx);

/* Sums this host's gradients, each lane its chunks of them, for hd__exec_cross_sums. */
void hd__exec_hand_in(const lane_at *at);

/* Sums the elements [first, first + count) of what all hosts handed in. */
void hd__exec_sum_owned(const lane_at *at, int64_t first, int64_t count);

/* Why samples could not be had: what the first rank says that knows. */
hd_status hd__exec_why(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver);

/* Where lanes run on cores of several kinds, and nobody has timed them yet: does so. */
hd_status hd__exec_time_lanes(hd_lanes *lanes, hd_ctx *ctx, const hd_kernels *kernels);

/* A run's end: names the parameter whose update is not finite, -1: the loss. */
hd_status hd__exec_not_finite(hd_ctx *ctx, const hd_plan *plan, int32_t param);

/* Notes what a sample's scores say. */
void hd__exec_judge(const hd_exec_outcome *out, int64_t sample, const float *score, int32_t classes);

void hd__exec_layout(hd_exec *exec, int parity, int64_t samples);

/* `piece`: the covers of all lanes. */
void hd__exec_lay_hosts(hd_exec *exec, part_layout *layout, const hd_subtree *piece);
void hd__exec_shards(const lane_at *at, const hd_phase *phase);
void hd__exec_outputs(const lane_at *at, const hd_phase *phase);

/* Merges the statistics in the two topmost slots of a lane's stack; depth counts both. */
void hd__exec_merge_stats(const lane_at *at, const hd_node *node, int depth);

/* Every lane for itself: folds what the calls of a phase gathered over all shards. */
void hd__exec_gather(const lane_at *at, const hd_phase *phase);

/* The owner of running statistics lets them follow the batch's. */
void hd__exec_running(const lane_at *at, int param, int32_t j0, int32_t j1);
void hd__exec_fold(const lane_at *at, hd_phase_kind kind);
void hd__exec_update(const lane_at *at);

#endif
