/* A plan: a compiled graph with gradients, fusions, memory, chunks and phases. It is the same for every layout and
 * holds everything that running needs: an executor reads no graph. The passes that make it are in passes.h.
 *
 * A plan gives every value's place for one sample; the executor chooses how many samples a call handles. Values that a
 * later phase reads (the inputs of a deferred gradient or of a batch norm) have a slot per sample of a micro-batch; all
 * others are in the thread's arena:
 *
 *   thread arena  [ value a: G slots | value b: G slots | ... ]      G samples at a time, reused from group to group
 *   batch memory  [ value x: N slots | value y: N slots | ... ]      N samples of a micro-batch
 *
 * A place's offset is therefore in bytes per sample and is multiplied by G or N. The plan is independent of threads and
 * ranks. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "base/shape.h"
#include "base/status.h"
#include "base/tools_api.h"
#include "graph/graph.h"
#include "optimizer/optimizer.h"
#include "kernel/kernel.h"

typedef enum hd_where {
  HD_AT_NOWHERE, /* never stored */
  HD_AT_ARENA,
  HD_AT_BATCH,
  HD_AT_LABELS,
  HD_AT_LOSSES, /* one float per sample of the whole batch */
  HD_AT_PARAM,
  HD_AT_PACKED, /* a packed copy of a parameter */
  HD_AT_CONST,
  HD_AT_DIRECT,   /* summed over one shard: a gradient, a statistic */
  HD_AT_GATHERED, /* the same, where calls read it: the sum over all shards */
  HD_WHERES
} hd_where;

typedef struct hd_place {
  hd_where where;
  int64_t offset;    /* ARENA, BATCH: bytes per sample; from PARAM on: floats */
  int64_t stride;    /* elements from one sample to the next, */
  int64_t row_bytes; /* and bytes */
  int64_t gathered;  /* DIRECT, of a gathered call: where the sum over all shards is, floats */
  int64_t elems;     /* of a sample, or of what all samples share */
} hd_place;

/* Where an executor has the memory of places: at base + offset * scale + row * row_bytes. */
typedef struct hd_origin {
  void *base;
  int64_t scale, row;
} hd_origin;

static inline void *hd__place_at(const hd_place *place, const hd_origin origin[HD_WHERES]) {
  const hd_origin *o = &origin[place->where];
  return place->where == HD_AT_NOWHERE ? NULL : (char *)o->base + place->offset * o->scale + o->row * place->row_bytes;
}

/* Behind each sample of a value in a guarded plan: a page of memory. */
enum { HD_GUARD_BYTES = 4096 };

/* One kernel call of a shards phase. */
typedef struct hd_plan_call {
  hd_op op;
  hd_op_class class;
  const hd_geom *geom;
  hd_run_fn *run;
  hd_run_outputs_fn *run_outputs; /* if threads divide the call by its outputs, else NULL */
  hd_place in[HD_MAX_IN], out[HD_MAX_OUT], packed;
  bool per_shard;  /* SHARD, REDUCE, STATS, the table's: once per shard; else once for a group of neighbouring shards */
  bool merges;     /* its kernel adds the sums of shards before it, see hd_call */
  bool in_turn;    /* computes its places one after the other, each of all samples of a call together */
  bool gathered;   /* its sums over all shards are read by a later segment or become running statistics */
  int64_t flops;   /* of a sample */
  uint64_t needed; /* the groups that need it, see HD_NEEDED_ALWAYS */
  uint32_t written; /* the node's number as written, the key of its random numbers */
  int stage;        /* whose threads run it */
  int node;
  const char *name; /* of the node */
} hd_plan_call;

/* Parameters of one group share their optimizer and its settings. */
typedef struct hd_plan_group {
  hd_update_settings settings; /* complete */
  const hd_optimizer_rule *optimizer;
  hd_op update;
  bool later;    /* its parameters are trained from a later stage of the run on */
  uint32_t kept; /* the states of its rule that it keeps of a parameter, a bit each */
  int states;    /* up to the last of them */
} hd_plan_group;

enum { HD_MAX_GROUPS = 32 };

/* The steps that need a call, as bits: bit 0 to 31, steps that train this group of parameters, whose gradients depend
 * on it; HD_NEEDED_ALWAYS, every step. */
#define HD_NEEDED_ALWAYS (1ull << HD_MAX_GROUPS)

/* What is kept beside each version of the weights: their exponential moving average, which is evaluated and saved in
 * their place, or the slow weights of lookahead. */
typedef enum hd_averages { HD_AVERAGES_NONE, HD_AVERAGES_EMA, HD_AVERAGES_LOOKAHEAD } hd_averages;

/* A parameter of muon as a matrix x of `rows` x `columns`, the fewer being its rows. Its places are in floats, in the
 * executor's memory for matrices. */
typedef struct hd_plan_matrix {
  int param;
  bool turned; /* x is the transposed weight */
  int64_t rows, columns;
  int64_t x[2], gram, polynomial; /* rows x columns, before and after a round; squares of `rows` */
  int rounds;                     /* of the Newton-Schulz iteration */
  double lr_factor;               /* multiplies the learning rate */
} hd_plan_matrix;

/* A use of a parameter, given by its gradient: an output of a REDUCE node. */
typedef struct hd_plan_use {
  int node;
  int stage; /* of the node */
  hd_op op;
  int output;       /* 0 weight, 1 bias */
  int64_t direct;   /* not deferred: offset in the direct gradients, floats */
  int64_t offset;   /* in the concatenation of all uses' gradients, floats; of the first use the parameter's */
  hd_form_fn *form; /* deferred: forms it from these */
  const hd_geom *geom;
  hd_place x, dy;
} hd_plan_use;

/* How a running statistic is updated from the batch's. */
typedef struct hd_plan_running {
  int64_t batch;  /* of the batch's statistic: offset in the direct sums, floats */
  int64_t pixels; /* of a sample */
  float momentum;
  bool unbias; /* a variance */
} hd_plan_running;

/* How the chunk owner gets a parameter's gradient: the sum of its uses, in reverse order of the nodes. A frozen
 * parameter has no chunks, and its weights are in both versions. In the concatenation of all parameters the trained
 * ones come first: gradients and the optimizer's state end there. */
typedef struct hd_plan_param {
  const char *name;
  hd_op op;              /* of the layer that owns it */
  const hd_shape *shape; /* as in files */
  int32_t rows, c, h, w; /* in memory: rows x h x w x c */
  int64_t columns;       /* elements of a row */
  bool frozen;
  bool later;      /* frozen now: trained in a later stage of the run, or trained since an earlier one was over */
  bool is_running; /* a running statistic: updated as `running` says */
  bool trained;    /* has a gradient and an update */
  bool is_matrix;  /* whose update has phases of its own */
  hd_plan_running running;
  int group;
  int stage;     /* whose threads own its chunks */
  bool deferred; /* formed from x and dy inside the reduction; else reduced from shard sums */
  int first_use, uses;
  int64_t offset;     /* where the parameter starts in the concatenation of all, floats, a multiple of 16 */
  int32_t chunk_rows; /* rows of a chunk (the last may have fewer) */
  int32_t first_chunk, chunks;
} hd_plan_param;

/* A packed copy of a parameter for an operation's kernel; equal calls share one. */
typedef struct hd_plan_packed {
  int param;
  hd_op op;
  hd_geom geom;
  int64_t offset, elems; /* floats, in the concatenation of all packed copies */
  void (*pack)(const hd_geom *g, const float *w, float *packed, int32_t j0, int32_t j1);
} hd_plan_packed;

/* A fixed part of the parameters. */
typedef struct hd_chunk {
  int param;
  int32_t j0, j1; /* rows */
  int64_t weight; /* relative cost, for distribution */
} hd_chunk;

typedef enum hd_phase_kind {
  HD_PHASE_SHARDS,        /* run a segment's calls for every shard */
  HD_PHASE_OUTPUTS,       /* run a segment's one call, whose outputs threads share, for all samples */
  HD_PHASE_WHOLE,         /* one thread runs a segment's one call for all samples: the loss of the program */
  HD_PHASE_REDUCE_UPDATE, /* per chunk: reduce, update */
  HD_PHASE_REDUCE_NORM,   /* per chunk: reduce, keep the gradient, sum its squares */
  HD_PHASE_UPDATE,        /* per chunk: scale by the norm's factor, update */
  HD_PHASE_MATRICES       /* per row of each matrix: a stage of muon */
} hd_phase_kind;

/* The stages of muon, in their order; from GRAM to APPLY is a round. */
typedef enum hd_matrix_stage {
  HD_STAGE_SCALE,
  HD_STAGE_GRAM,
  HD_STAGE_POLYNOMIAL,
  HD_STAGE_APPLY,
  HD_STAGE_WRITE
} hd_matrix_stage;

/* A stage range: neighbouring calls of a shards phase that belong to one stage. In training a stage has a forward and a
 * backward range; in the last stage they are one. A step passes through all stages in order, so a stage whose gradients
 * are all deferred has a backward range without calls. */
typedef struct hd_stage_range {
  int stage, call0, call1;
} hd_stage_range;

/* A cut edge: a value that stage `from` makes and that stages `first` to `last` read or pass on. */
typedef struct hd_cut_edge {
  hd_place place; /* BATCH or LABELS */
  int from, first, last;
} hd_cut_edge;

typedef struct hd_phase {
  hd_phase_kind kind;
  int call0, call1; /* SHARDS: its segment's calls; except in the first, sums of the previous one are reduced before */
  int range0, range1;          /* SHARDS: the calls, cut at the borders of stages */
  hd_matrix_stage stage;       /* MATRICES, */
  int round;                   /* and the round that it belongs to */
  int64_t gathered, gradients; /* floats of a partial sum: of gathered calls; after the last segment of all gradients */
} hd_phase;

/* What the passes find of a node. */
typedef struct hd_plan_node {
  int segment, stage;
  bool by_outputs; /* it is a segment that threads divide by its outputs instead of by shards */
  bool whole;      /* it is a segment that one thread runs for all samples */
  bool gathered;   /* as of its call */
  uint64_t needed; /* likewise */
} hd_plan_node;

/* The places of what a step gets and what it finds. */
typedef struct hd_plan_io {
  hd_place input, label, logits;
  int32_t target_outputs;  /* numbers of a target; 0: one class number */
  int32_t places, ignored; /* class numbers of a target, one of them ignored; 0: at most one class number */
  bool weighs;             /* a target is followed by the weight of its sample */
  bool is_log_odds;        /* the only score is of class 1 against class 0; otherwise each class has its score */
} hd_plan_io;

/* How parameters get their gradients and change. */
typedef struct hd_plan_update {
  hd_plan_use *uses;
  int use_count;
  hd_plan_group groups[HD_MAX_GROUPS]; /* the first has the run's settings */
  int group_count;
  int states; /* the most that a group keeps */
  hd_averages averages;
} hd_plan_update;

/* The parameters of muon. */
typedef struct hd_plan_muon {
  hd_plan_matrix *matrices;
  int matrix_count;
  int64_t matrix_elems; /* floats of the executor's memory for matrices */
} hd_plan_muon;

/* The stages that the network is cut into. */
typedef struct hd_plan_pipeline {
  hd_stages stages;
  hd_stage_range *ranges;
  hd_cut_edge *cut_edges;
  int cut_edge_count;
} hd_plan_pipeline;

/* How much memory the places are in. */
typedef struct hd_plan_size {
  int64_t arena_bytes, batch_bytes;         /* per sample */
  int64_t stage_arena_bytes[HD_MAX_STAGES]; /* of arena_bytes, the most that a stage needs */
  int64_t scratch_bytes;                    /* per thread */
  int64_t param_elems, packed_elems, direct_elems, gathered_elems, const_elems;
  int64_t trained_elems; /* the first of param_elems: parameters with gradients and optimizer state */
  int64_t grad_elems;    /* of all uses' gradients: trained_elems, then those of further uses */
} hd_plan_size;

/* A loss that the program computes, for all samples of a batch at once. */
typedef struct hd_plan_program {
  hd_run_fn *loss, *gradient;      /* in the place of the kernels of the loss, and of its gradient */
  const struct hd_custom_op *self; /* where these find it: in the geometry of both */
  hd_status (*failure)(const struct hd_custom_op *self, hd_ctx *ctx); /* why a batch has no losses; HD_OK: it has */
} hd_plan_program;

/* All that executors read: they know no graph. */
typedef struct hd_plan {
  hd_graph *graph; /* owned */
  const hd_kernels *kernels;
  hd_plan_node *nodes; /* as the graph's */
  int segments;
  hd_plan_call *calls;
  int call_count;
  hd_phase *phases;
  int phase_count;
  hd_place *place; /* one per value */
  hd_plan_io io;
  hd_plan_size size;
  float *constants; /* numbers of the model's description */
  hd_plan_param *params;
  int param_count, alias_count;
  hd_plan_packed *packed;
  int packed_count;
  hd_chunk *chunks;
  int chunk_count;
  hd_plan_update update;
  hd_plan_muon muon;
  hd_plan_pipeline pipeline;
  bool gathers; /* whether any node is gathered */
  bool trains;
  bool guarded;                   /* HD_GUARD_BYTES a sample behind each value are never touched */
  bool shifts;                    /* samples come without the shift; the first layer adds it */
  const hd_plan_program *program; /* NULL: kernels compute the loss */
} hd_plan;

/* Optimisations that a plan can omit, for comparison; none of them changes a bit. */
typedef enum hd_omission {
  HD_OMIT_RELU = 1,      /* fused ReLUs, except those between a convolution and the pool that is fused with it */
  HD_OMIT_RECOMPUTE = 2, /* values computed again */
  HD_OMIT_NEEDED = 4,    /* leaving out calls whose results are not needed */
  HD_OMIT_REUSE = 8,     /* values that share memory one after the other */
  HD_OMIT_IN_PLACE = 16, /* results over their inputs */
  HD_OMIT_ALL = 31
} hd_omission;

typedef struct hd_plan_settings {
  bool train;       /* with gradients and updates; else forward and loss only */
  int64_t batch;    /* train: samples of a batch; 0: not known */
  bool clip_norm;   /* train: a phase for the gradient's norm */
  hd_stages stages; /* count 0 or 1: a single stage; without the nodes where stages begin: cut evenly */
  bool recompute;   /* train: cheap values are computed again for gradients instead of kept */
  uint32_t omit;    /* hd_omission bits */
  bool guard;       /* each value has memory of its own, and a page without access behind it: with OMIT_REUSE */
  bool check;       /* the plan is checked after each pass */
  hd_update_settings update; /* train: the run's */
  hd_averages averages;      /* train */
  bool may_shift;            /* samples may come without `shift`, the number that normalisation adds to each element */
  float shift;
  const hd_plan_program *program; /* train: the loss of the program, which outlives the plan; NULL: the model's */
} hd_plan_settings;

/* Takes ownership of the graph, also on failure. The kernel table must outlive the plan. */
HD_TOOLS_API hd_status hd__plan_create(hd_plan **out, hd_ctx *ctx, hd_graph *graph, const hd_kernels *kernels,
                                       const hd_plan_settings *settings);
HD_TOOLS_API void hd__plan_destroy(hd_plan *plan);

/* Replaces the table of kernels by one with the same slots. */
HD_TOOLS_API void hd__plan_set_kernels(hd_plan *plan, const hd_kernels *kernels);

/* An alias of a parameter: "NODE.weight" of a node that uses another node's parameter. */
const char *hd__plan_alias(int *param, const hd_plan *plan, int index);

/* Cuts a graph that has gradients into out->count stages, so that the most expensive costs as little as possible. cost:
 * of each node as written, with its gradients; NULL: estimated. Each stage needs a layer with parameters;
 * hd__stages_most returns how many layers have some. HD_E_USAGE: fewer than stages. */
int hd__stages_most(const hd_graph *graph);
hd_status hd__stages_cut(hd_stages *out, hd_ctx *ctx, const hd_graph *graph, const double *cost);

/* The stage of a node, given by its number as written. */
int hd__plan_stage_of(const hd_plan *plan, int written);

/* Prints the result of each pass, one line per item. */
void hd__plan_print(const hd_plan *plan, FILE *to);
