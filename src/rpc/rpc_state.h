/* The state of the calls of a group in one rank, and the memory in which the ranks of a host call each other.
 *
 * Each rank has a range of the memory, for the calls that it makes and the queue of those that it serves:
 *
 *     queue     tail | sleeps | numbers of slots of callers, + 1; 0: none
 *     slots     HD_RPC_CALLS: state and header of a call, then of its reply
 *     elements  of each slot: room for the input, room for the output
 *
 * A caller takes one of its slots, writes header and input, sets the state to PENDING and puts the number of the slot
 * into the queue of the called rank. Its service thread runs the function, writes header and output, and sets the state
 * to DONE: the slot is the caller's again. A slot is in one queue at a time, and the queue has an entry for every slot
 * of the host, so putting never waits. A slot that its caller gives up stays GIVEN_UP until the service thread has
 * reached it.
 *
 * A call to another host has a slot too. The message of its header and input goes to the service thread of the called
 * rank, which runs one such call at a time in memory of its own; the reply is received by a thread of the caller. Both
 * waits poll the transport, see rpc_hosts.c. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "comm/group_state.h"
#include "exec/exchange/transport.h"
#include "heddle/rpc.h"
#include "platform/memory_word.h"
#include "platform/thread_start.h"
#include "platform/wait.h"

/* States of a slot; SLEEPS is added while its caller sleeps on the word. */
enum { HD_RPC_PENDING = 1, HD_RPC_GIVEN_UP, HD_RPC_DONE, HD_RPC_SLEEPS = 4 };

/* The header before the elements of a call, or of its reply. The elements of a failure are its message. */
typedef struct hd_rpc_header {
  int32_t status, dtype, ndim;
  int32_t in_place; /* of a result: it is where the input was */
  char name[HD_RPC_NAME_BYTES];
  int64_t size[HD_RPC_MAX_DIMS];
} hd_rpc_header;

typedef struct hd_rpc_slot {
  _Alignas(128) atomic_uint state; /* slept on */
  hd_rpc_header header;
} hd_rpc_slot;

_Static_assert(sizeof(hd_rpc_slot) == 128, "a slot is two cache lines");

typedef struct hd_rpc_queue {
  _Alignas(128) atomic_uint tail;   /* of entries, modulo their number */
  _Alignas(128) atomic_uint sleeps; /* slept on: 1 while the service thread sleeps */
  _Alignas(128) atomic_uint entry[];
} hd_rpc_queue;

/* The header of a message between hosts, and whose slot it belongs to. */
typedef struct hd_rpc_mail {
  hd_rpc_header header;
  int32_t caller, called, slot, bytes;
} hd_rpc_mail;

/* A call under way: the process-local side of a slot. */
struct hd_rpc_future {
  hd_rpc *rpc;
  hd_rpc_slot *slot;
  char *elements; /* the input, and `room` bytes on the output */
  int rank;
  char name[HD_RPC_NAME_BYTES];
  hd_rpc_mail mail; /* to another host */
  hd_transfer *sent;
};

/* Calls between hosts; NULL: all ranks are on one. */
typedef struct hd_rpc_hosts hd_rpc_hosts;

struct hd_rpc {
  hd_group *parent; /* the program's: opening and closing are calls of it */
  hd_group *group;  /* of the same ranks: its memory and tags are for these calls alone */
  hd_rpc_function function[HD_RPC_FUNCTIONS];
  char name[HD_RPC_FUNCTIONS][HD_RPC_NAME_BYTES];
  int functions;
  hd_wait wait; /* turns before a nap */
  double timeout_s;
  size_t most_bytes, room, entries; /* room: most_bytes in whole pages; entries: of a queue */
  int *rank_at;                     /* ranks of this host, by place */
  hd_rpc_queue *queue;              /* of this rank */
  hd_ctx *ctx;                      /* of the service thread */
  hd_rpc_future call[HD_RPC_CALLS];
  _Atomic uint64_t unused, given_up; /* slots, as bits */
  atomic_int waiting;                /* threads that wait for a slot */
  atomic_uint freed;                 /* slept on: changes when a slot becomes unused for them */
  hd_rpc_hosts *hosts;
  hd_thread thread;
  atomic_bool closed, ends; /* no more calls; no more service */
};

/* Memory of the rank at a place of this host; its size. */
size_t hd__rpc_range_bytes(const hd_rpc *rpc);
hd_rpc_queue *hd__rpc_queue(const hd_rpc *rpc, int place);
hd_rpc_slot *hd__rpc_slot(const hd_rpc *rpc, int place, int slot);
char *hd__rpc_elements(const hd_rpc *rpc, int place, int slot);

/* ---- Waiting: polls, then sleeps ---- */

/* The longest sleep on a word: shorter between hosts, where messages wake no thread. */
int64_t hd__rpc_nap_ns(const hd_rpc *rpc, int naps);

/* ---- Arrays ---- */

/* A copy of the header, which other ranks may write: it is checked and used as it was read. */
hd_rpc_header hd__rpc_header(const hd_rpc_slot *slot);

/* Bytes of the elements; SIZE_MAX: not an array of at most `most` bytes. */
size_t hd__rpc_bytes(const hd_rpc_header *header, size_t most);

/* ---- Serving ---- */

/* Runs the function that the header names, on `elements`, whose input is followed by room for the output; the header
 * becomes that of the reply. Returns the bytes of the result, which is at hd__rpc_result. */
size_t hd__rpc_run(hd_rpc *rpc, hd_rpc_header *header, char *elements, int32_t caller);
char *hd__rpc_result(const hd_rpc *rpc, const hd_rpc_header *header, char *elements);

/* The function whose call this thread runs; NULL: none. */
const char *hd__rpc_running(void);

void *hd__rpc_serve(void *rpc);

/* A slot's state, without SLEEPS; sets it to DONE, and wakes its caller. */
unsigned hd__rpc_state(hd_rpc_slot *slot);
void hd__rpc_finish(hd_rpc_slot *slot);

/* ---- Calling ---- */

/* Waits until a call is done. HD_E_TIMEOUT: it is not; HD_E_PEER: a rank is lost. */
hd_status hd__rpc_await(hd_rpc_future *call, hd_ctx *ctx, double timeout_s);

/* ---- Between hosts; for NULL all but start do nothing ---- */

hd_status hd__rpc_hosts_open(hd_rpc *rpc, hd_ctx *ctx);
void hd__rpc_hosts_close(hd_rpc *rpc);

/* Sends the call, whose header and input are in its slot. */
hd_status hd__rpc_hosts_start(hd_rpc *rpc, hd_ctx *ctx, hd_rpc_future *call, size_t bytes);

/* Makes progress on calls of other ranks (by the service thread) and on replies (by any thread). Returns whether
 * anything moved. */
bool hd__rpc_hosts_serve(hd_rpc *rpc);
bool hd__rpc_hosts_receive(hd_rpc *rpc);
