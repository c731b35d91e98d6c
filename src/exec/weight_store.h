/* The versions of weights, optimizer state and packed copies, in one segment.
 *
 *     | directory | weights 0 | weights 1 | state 0 | state 1 | average 0 | average 1 | packed copies |
 *
 * Version t is in buffer t mod 2. A step reads version t and writes version t+1 into the other buffer; t+1 counts only
 * after the closing barrier (hd__store_set_version, called by each rank with the same version). So a step that finds a
 * NaN leaves the last whole version untouched. Packed copies are of the weights that the next step reads: an update
 * writes them once no thread reads them any more, and a step that does not count writes them again. The directory at
 * the segment's start lists places, names, file shapes and memory orders: enough to save the last whole version
 * without a plan. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "exec/exchange/local_group.h"
#include "plan/plan.h"
#include "platform/segment.h"

enum { HD_NAME_BYTES = 96 };

typedef struct hd_store_entry {
  char name[HD_NAME_BYTES];
  hd_shape shape;        /* in files */
  int32_t op;            /* hd_op of the layer that owns it */
  int32_t same_as;       /* the entry of which this is another name, -1: none */
  int32_t running;       /* 1: a statistic that follows the batches */
  int32_t trained;       /* 1: follows its gradient: has room for optimizer states, */
  int32_t update;        /* of which this hd_op keeps some, */
  uint32_t kept;         /* a bit for each state of its rule */
  int32_t rows, c, h, w; /* memory order, see hd_param */
  int64_t offset;        /* floats, inside each buffer of weights and, if trained, of every state */
} hd_store_entry;

typedef struct hd_directory {
  _Atomic uint64_t version;                         /* steps done: the last whole version */
  int64_t param_elems, trained_elems, packed_elems; /* floats: of a version's weights, each state; packed copies */
  int32_t states, entries;                          /* entries: parameters, then aliases */
  int32_t averages;                                 /* hd_averages */
  int64_t weights_offset, state_offset, average_offset, packed_offset; /* bytes from the segment's start */
  hd_store_entry entry[];
} hd_directory;

typedef struct hd_store {
  hd_segment segment;
  hd_directory *directory;
  float *weights[2];
  float *state[2][HD_MAX_STATES];
  float *average[2]; /* like weights; NULL: there is none */
  float *packed;
} hd_store;

/* The arrays of the last whole version that are evaluated and saved as the weights, and those saved beside them, or
 * NULL. */
float *hd__store_result(const hd_store *store);
float *hd__store_beside(const hd_store *store);

/* Bytes of the segment below, before rounding to pages. */
int64_t hd__store_bytes(const hd_plan *plan);

/* Room for the plan's parameters with their optimizer states, all zero, version 0. Collective over the local group
 * (NULL: this process alone), whose ranks share the store. */
hd_status hd__store_create(hd_store **out, hd_ctx *ctx, hd_local_group *local, const hd_plan *plan);

/* Maps the store of a local group in a process that is not one of its ranks. */
hd_status hd__store_find(hd_store **out, hd_ctx *ctx, hd_local_group *local);
void hd__store_destroy(hd_store *store);

/* Touches the pages that begin in `count` weights from `first` on and, if trained, in their states, in both buffers,
 * without changing a value: pages never touched before are then allocated near this thread. */
void hd__store_touch(hd_store *store, int64_t first, int64_t count, int trained);

/* The last whole version, and the buffer that holds it. */
uint64_t hd__store_version(const hd_store *store);
int hd__store_buffer(const hd_store *store);

/* Makes `version` the last whole one; the caller has filled its buffer. */
void hd__store_set_version(hd_store *store, uint64_t version);

/* After weights were filled in: writes the packed copies of the last whole version, and copies frozen parameters into
 * the other buffer, and into the averages; of the stages that are here (NULL: all are). */
void hd__store_pack(hd_store *store, const hd_plan *plan, const bool *here);

/* Zeros for the packed copies of another plan, whose padding lies elsewhere. */
void hd__store_clear_packed(hd_store *store);

/* Gives the memory of the packed copies back, until hd__store_pack writes them again, if no other process has it. */
HD_TOOLS_API void hd__store_unpack(hd_store *store);

/* Copies one parameter between memory order (`memory`, at the entry's offset) and file order (`file`, dense). */
void hd__store_to_file_order(float *file, const float *memory, const hd_store_entry *entry);
void hd__store_from_file_order(float *memory, const float *file, const hd_store_entry *entry);

const hd_store_entry *hd__directory_find(const hd_directory *d, const char *name); /* NULL: there is none */
int64_t hd__store_entry_elems(const hd_store_entry *entry);
bool hd__store_is_in_file_order(const hd_store_entry *entry); /* both are the same */
