/* A recorder: what each kernel of a step computes, as a list of hashes in the order in which one thread computes it.
 *
 * It stands between a plan and its kernels, so that the executor runs unchanged: calls run through functions of the
 * recorder, which call the real kernel and then hash its results, and so do updates. Equal runs on one thread have
 * equal lists; the first result in which two lists differ is computed from equal results alone, so it is the cause.
 *
 * The functions find their recorder in a thread-local variable: one thread computes, between hd__recorder_enter and
 * _leave. The plan must not be run once the recorder is gone. */
#pragma once

#include "exec/weight_store.h"
#include "graph/graph.h"
#include "heddle/evidence.h"
#include "plan/plan.h"

typedef enum hd_result_kind {
  HD_RESULT_INPUT,    /* samples or targets that a call reads */
  HD_RESULT_OUTPUT,   /* of a call */
  HD_RESULT_GRADIENT, /* of a parameter, summed over the batch */
  HD_RESULT_WEIGHT,   /* of a parameter, after the update */
  HD_RESULT_STATE     /* of the optimizer, after the update */
} hd_result_kind;

/* `rows` rows of `elems` elements. The struct has no padding: results are compared as bytes. */
typedef struct hd_result {
  hd_result_kind kind;
  int32_t node;   /* of the plan's graph, -1 for none */
  int32_t of;     /* the value of the graph; GRADIENT, WEIGHT, STATE: the parameter */
  int32_t state;  /* STATE: its number */
  int32_t shared; /* one row for all samples, a sum or a statistic; else a row for each */
  int32_t elem_bytes;
  int64_t sample, samples; /* those of the batch that it was computed from; 0, 0: all */
  int64_t first;           /* the first element of each row */
  int64_t rows, elems;
  uint64_t hash;
} hd_result;

/* Called for each result of a step, number `place` in the list: its first row, the others stride_bytes apart. */
typedef void hd_on_result_fn(void *user, const hd_result *result, int64_t place, const void *at, int64_t stride_bytes);

typedef struct hd_recorder {
  hd_plan *plan;
  const hd_store *store;
  hd_kernels table; /* the plan's, with updates that are recorded */
  hd_run_fn **run;  /* of each call, */
  hd_run_outputs_fn **run_outputs;
  hd_update_fn *inner_update[HD_OP_COUNT];

  int64_t step, cursor; /* of the current step: its number from 1, and where its samples begin in the epoch */
  hd_result *list;      /* of the current step */
  int64_t count, room;
  hd_fault_place fault; /* planted in its result, or in the next one of floats */
  hd_result planted;    /* where the fault was planted; rows 0: nowhere */

  hd_on_result_fn *on_result; /* may be NULL */
  void *user;                 /* of on_result */
  bool out_of_memory;
} hd_recorder;

/* Puts a recorder between a plan and its kernels. */
hd_status hd__recorder_init(hd_recorder *recorder, hd_ctx *ctx, hd_plan *plan, const hd_store *store);
void hd__recorder_fini(hd_recorder *recorder);

void hd__recorder_enter(hd_recorder *recorder);
void hd__recorder_leave(void);

/* Begins the list of a step. */
void hd__recorder_step(hd_recorder *recorder, int64_t step, int64_t cursor);

/* Whether its elements are floats, and not class numbers or places in a window. */
bool hd__result_is_float(const hd_recorder *recorder, const hd_result *result);

/* Where an element of a row is in its tensor as files and PyTorch order it. */
int64_t hd__result_file_place(const hd_recorder *recorder, const hd_result *result, int64_t element);

/* A result in words: what computed it; and where an element of it is, "[3, 12, 5, 7]", as files and PyTorch count, the
 * sample of the batch first. */
void hd__result_name(char *text, size_t bytes, const hd_recorder *recorder, const hd_result *result);
void hd__result_index(char *text, size_t bytes, const hd_recorder *recorder, const hd_result *result, int64_t element);
