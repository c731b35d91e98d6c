/* Calls between hosts, over the transport: a message for the call and one for the reply, each with a tag of the group.
 * A message is a header and, if there are any, elements. Their length is in the header, so a rank receives a header
 * from any rank, then the elements from that one: messages of two ranks arrive in order.
 *
 * The service thread handles one call of another host at a time: it receives, runs and answers it before the next one.
 * Replies are received meanwhile, by the thread that waits for one or by the service thread, under a lock. So ranks
 * that send each other large replies cannot deadlock. Messages that are not received yet wait at their sender or, if
 * they are small, in the transport: at most HD_RPC_CALLS of a rank. */
#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "rpc/rpc_state.h"

/* Added to the group's tag: after the memory is shared, the group makes no collective calls. */
enum { TAG_CALL, TAG_REPLY };

/* The transfer in progress: the header that is received; its elements; the message to which it belongs, or which
 * answers it. */
typedef enum stage { HEADER, ELEMENTS, SENT } stage;

typedef struct flow {
  stage stage;
  int tag;
  hd_rpc_mail mail;
  hd_transfer *transfer; /* NULL: the transport has failed, which breaks the local group */
} flow;

struct hd_rpc_hosts {
  flow calls, replies;
  hd_rpc_mail answer;
  pthread_mutex_t lock; /* of replies */
  char *elements;       /* of the call that is run */
  int other;            /* a rank of another host, which a failed transport is reported for */
};

/* A header, elements, or both. */
typedef struct message {
  hd_rpc_mail *mail; /* NULL: none */
  void *data;
  int64_t bytes;
  int peer; /* -1: any rank */
  int tag;
  bool received; /* else sent */
} message;

/* Starts to send or receive it. */
static hd_status start(hd_transfer **out, hd_rpc *rpc, hd_ctx *ctx, const message *m) {
  const hd_group *g = rpc->group;
  hd_transfer_part parts[2];
  int count = 0;
  const int32_t to = m->peer < 0 ? HD_TRANSPORT_ANY_RANK : g->member[m->peer];
  if (m->mail)
    parts[count++] = (hd_transfer_part){m->mail, sizeof *m->mail, to, g->tag + m->tag, m->received};
  if (m->bytes > 0)
    parts[count++] = (hd_transfer_part){m->data, m->bytes, to, g->tag + m->tag, m->received};
  *out = NULL;
  return hd__cluster_start(out, g->local, ctx, parts, count);
}

static hd_status receive_header(hd_rpc *rpc, hd_ctx *ctx, flow *f) {
  f->stage = HEADER;
  return start(&f->transfer, rpc, ctx, &(message){.mail = &f->mail, .peer = -1, .tag = f->tag, .received = true});
}

static void receive_elements(hd_rpc *rpc, flow *f, char *to, int from) {
  f->stage = ELEMENTS;
  start(&f->transfer, rpc, NULL,
        &(message){.data = to, .bytes = f->mail.bytes, .peer = from, .tag = f->tag, .received = true});
}

/* Whether the transfer has come to its end. */
static bool has_moved(const hd_rpc *rpc, flow *f) {
  if (!f->transfer)
    return false;
  const int done = hd__cluster_test(rpc->group->local, f->transfer, rpc->group->member[rpc->hosts->other]);
  if (done != 0)
    f->transfer = NULL;
  return done > 0;
}

hd_status hd__rpc_hosts_start(hd_rpc *rpc, hd_ctx *ctx, hd_rpc_future *call, size_t bytes) {
  call->mail = (hd_rpc_mail){.header = call->slot->header,
                             .caller = rpc->group->rank,
                             .called = call->rank,
                             .slot = (int32_t)(call - rpc->call),
                             .bytes = (int32_t)bytes};
  return start(
      &call->sent, rpc, ctx,
      &(message){
          .mail = &call->mail, .data = call->elements, .bytes = (int64_t)bytes, .peer = call->rank, .tag = TAG_CALL});
}

/* ---- serving ---- */

static void run_call(hd_rpc *rpc) {
  hd_rpc_hosts *hosts = rpc->hosts;
  flow *f = &hosts->calls;
  hd_rpc_mail *answer = &hosts->answer;
  *answer = f->mail;
  answer->bytes = (int32_t)hd__rpc_run(rpc, &answer->header, hosts->elements, f->mail.caller);
  f->stage = SENT;
  start(&f->transfer, rpc, NULL,
        &(message){.mail = answer,
                   .data = hd__rpc_result(rpc, &answer->header, hosts->elements),
                   .bytes = answer->bytes,
                   .peer = f->mail.caller,
                   .tag = TAG_REPLY});
}

bool hd__rpc_hosts_serve(hd_rpc *rpc) {
  if (!rpc->hosts || !has_moved(rpc, &rpc->hosts->calls))
    return false;
  flow *f = &rpc->hosts->calls;
  if (f->stage == SENT)
    receive_header(rpc, NULL, f);
  else if (f->stage == HEADER && f->mail.bytes > 0)
    receive_elements(rpc, f, rpc->hosts->elements, f->mail.caller);
  else
    run_call(rpc);
  return true;
}

/* ---- replies ---- */

static void receive_reply(hd_rpc *rpc, flow *f) {
  hd_rpc_future *call = &rpc->call[f->mail.slot];
  if (f->stage == HEADER && f->mail.bytes > 0) {
    receive_elements(rpc, f, hd__rpc_result(rpc, &f->mail.header, call->elements), f->mail.called);
  } else if (f->stage != SENT) { /* the call has been received, and its transfer is to be freed */
    f->stage = SENT;
    f->transfer = call->sent;
  } else {
    call->slot->header = f->mail.header;
    receive_header(rpc, NULL, f);
    hd__rpc_finish(call->slot);
  }
}

bool hd__rpc_hosts_receive(hd_rpc *rpc) {
  hd_rpc_hosts *hosts = rpc->hosts;
  if (!hosts || pthread_mutex_trylock(&hosts->lock))
    return false;
  const bool moves = has_moved(rpc, &hosts->replies);
  if (moves)
    receive_reply(rpc, &hosts->replies);
  pthread_mutex_unlock(&hosts->lock);
  return moves;
}

/* ---- opening and closing ---- */

static void release(hd_rpc_hosts *hosts) {
  pthread_mutex_destroy(&hosts->lock);
  hd__free(hosts->elements);
  hd__free(hosts);
}

hd_status hd__rpc_hosts_open(hd_rpc *rpc, hd_ctx *ctx) {
  const hd_group *g = rpc->group;
  int other = 0;
  while (other < g->ranks && !hd__group_is_remote(g, other))
    other++;
  if (other == g->ranks)
    return HD_OK;
  hd_rpc_hosts *hosts = hd__calloc(1, sizeof *hosts);
  HD_TRY(HD_ALLOCATED(hosts, ctx, "out of memory for calls between hosts"));
  pthread_mutex_init(&hosts->lock, NULL);
  hosts->elements = hd__malloc_aligned(2 * rpc->room);
  hosts->calls.tag = TAG_CALL;
  hosts->replies.tag = TAG_REPLY;
  hosts->other = other;
  if (!hosts->elements) {
    release(hosts);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for calls between hosts of %zu bytes", rpc->most_bytes);
  }
  rpc->hosts = hosts;
  HD_TRY(receive_header(rpc, ctx, &hosts->calls));
  return receive_header(rpc, ctx, &hosts->replies);
}

void hd__rpc_hosts_close(hd_rpc *rpc) {
  if (!rpc->hosts)
    return;
  hd__cluster_drop(rpc->group->local, rpc->hosts->calls.transfer);
  hd__cluster_drop(rpc->group->local, rpc->hosts->replies.transfer);
  release(rpc->hosts);
}
