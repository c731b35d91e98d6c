/* Calls of a group, synchronous or queued; see group_state.h. A synchronous call is queued, too, if its queue is not
 * empty, and then waited for. */
#include "comm/group_state.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "comm/mailbox.h"
#include "platform/thread_start.h"

enum { COLLECTIVES, MESSAGES, QUEUES };

struct hd_work {
  hd_group_call call;
  hd_message message;
  hd_work_queue *work_queue;
  hd_work *next;
  hd_ctx ctx; /* keeps the message */
  hd_status status;
  bool done;
};

typedef struct queue {
  hd_thread thread;
  hd_work *first, **end;
} queue;

struct hd_work_queue {
  hd_group *group;
  pthread_mutex_t lock;
  pthread_cond_t came, done;
  queue queue[QUEUES];
  bool ends;
};

static bool is_message(const hd_group_call *call) { return call->kind == HD_GROUP_SEND || call->kind == HD_GROUP_RECV; }

/* A GPU runs all calls in one order. */
static int queue_of(const hd_group *g, const hd_group_call *call) {
  return is_message(call) && !g->gpu ? MESSAGES : COLLECTIVES;
}

static hd_status do_now(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  HD_TRY(hd__group_check(g, ctx));
  if (queue_of(g, call) == MESSAGES)
    return hd__message(g, ctx, call);
  g->call_timeout_s = call->timeout_s > 0 ? call->timeout_s : g->timeout_s;
  if (is_message(call))
    return hd__gpu_message(g, ctx, call);
  if (!g->gpu)
    return hd__collective(g, ctx, call);
  HD_TRY(hd__collective_compare(g, ctx, call));
  return hd__gpu_collective(g, ctx, call);
}

/* Removes a work from its queue; the lock is held. */
static void finish(hd_work_queue *work_queue, queue *q, hd_work *work, hd_status status) {
  hd_work **at = &q->first;
  while (*at != work)
    at = &(*at)->next;
  *at = work->next;
  if (q->end == &work->next)
    q->end = at;
  work->status = status;
  work->done = true;
  pthread_cond_broadcast(&work_queue->done);
}

/* The lock is held; false: the work queue is closed, and all is done. */
static bool wait_for_work(hd_work_queue *work_queue, queue *q) {
  while (!q->first && !work_queue->ends)
    pthread_cond_wait(&work_queue->came, &work_queue->lock);
  return q->first != NULL;
}

static void *do_collectives(void *arg) {
  hd_work_queue *work_queue = arg;
  queue *q = &work_queue->queue[COLLECTIVES];
  pthread_mutex_lock(&work_queue->lock);
  while (wait_for_work(work_queue, q)) {
    hd_work *work = q->first;
    pthread_mutex_unlock(&work_queue->lock);
    const hd_status status = do_now(work_queue->group, &work->ctx, &work->call);
    pthread_mutex_lock(&work_queue->lock);
    finish(work_queue, q, work, status);
  }
  pthread_mutex_unlock(&work_queue->lock);
  return NULL;
}

/* Whether an earlier message of the same kind and peer is in the queue. */
static bool must_wait(const queue *q, const hd_work *work) {
  for (const hd_work *w = q->first; w != work; w = w->next)
    if (w->call.kind == work->call.kind && w->call.peer == work->call.peer)
      return true;
  return false;
}

/* Makes progress on all messages; returns whether one is done; *far: whether one goes to another host. `waited` as in
 * hd__message_move. */
static bool move_all(hd_work_queue *work_queue, queue *q, bool waited, bool *far) {
  bool any = false;
  *far = false;
  for (hd_work *work = q->first, *next; work; work = next) {
    bool done;
    next = work->next;
    *far |= hd__group_is_remote(work_queue->group, work->call.peer);
    if (must_wait(q, work))
      continue;
    const hd_status status = hd__message_move(&done, work_queue->group, &work->ctx, &work->message, waited);
    if (status == HD_OK && !done)
      continue;
    hd__message_drop(work_queue->group, &work->message);
    finish(work_queue, q, work, status);
    any = true;
  }
  return any;
}

static void *do_messages(void *arg) {
  hd_work_queue *work_queue = arg;
  queue *q = &work_queue->queue[MESSAGES];
  bool waited = false;
  pthread_mutex_lock(&work_queue->lock);
  while (wait_for_work(work_queue, q)) {
    const unsigned seen = hd__event_seen(work_queue->group);
    bool far;
    if (move_all(work_queue, q, waited, &far))
      continue;
    pthread_mutex_unlock(&work_queue->lock);
    if (far)
      hd__event_pause();
    else
      hd__event_wait(work_queue->group, seen);
    waited = hd__event_seen(work_queue->group) == seen;
    pthread_mutex_lock(&work_queue->lock);
  }
  pthread_mutex_unlock(&work_queue->lock);
  return NULL;
}

static hd_status start_thread(hd_work_queue *work_queue, hd_ctx *ctx, int which) {
  queue *q = &work_queue->queue[which];
  if (hd__thread_is_here(&q->thread))
    return HD_OK;
  const int error = hd__thread_start(&q->thread, which == MESSAGES ? do_messages : do_collectives, work_queue);
  return error
             ? hd__fail(ctx, HD_E_SYSTEM, "cannot start a thread for the group: %s; raise `ulimit -u`", strerror(error))
             : HD_OK;
}

static hd_status open_work_queue(hd_group *g, hd_ctx *ctx, int which) {
  if (!g->work_queue) {
    hd_work_queue *work_queue = hd__calloc(1, sizeof *work_queue);
    HD_TRY(HD_ALLOCATED(work_queue, ctx, "out of memory for the group's work"));
    work_queue->group = g;
    pthread_mutex_init(&work_queue->lock, NULL);
    pthread_cond_init(&work_queue->came, NULL);
    pthread_cond_init(&work_queue->done, NULL);
    for (int i = 0; i < QUEUES; i++)
      work_queue->queue[i].end = &work_queue->queue[i].first;
    g->work_queue = work_queue;
  }
  return start_thread(g->work_queue, ctx, which);
}

void hd__work_queue_drain(hd_work_queue *work_queue) {
  if (!work_queue)
    return;
  pthread_mutex_lock(&work_queue->lock);
  while (work_queue->queue[COLLECTIVES].first)
    pthread_cond_wait(&work_queue->done, &work_queue->lock);
  pthread_mutex_unlock(&work_queue->lock);
}

void hd__work_queue_destroy(hd_work_queue *work_queue) {
  if (!work_queue)
    return;
  pthread_mutex_lock(&work_queue->lock);
  work_queue->ends = true;
  pthread_cond_broadcast(&work_queue->came);
  pthread_mutex_unlock(&work_queue->lock);
  for (int i = 0; i < QUEUES; i++)
    hd__thread_join(&work_queue->queue[i].thread);
  pthread_cond_destroy(&work_queue->came);
  pthread_cond_destroy(&work_queue->done);
  pthread_mutex_destroy(&work_queue->lock);
  hd__free(work_queue);
}

static hd_status check_kind(const hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  HD_TRY(hd__group_check_process(g, ctx));
  if ((unsigned)call->kind > HD_GROUP_RECV)
    return hd__fail(ctx, HD_E_USAGE, "expected a call of a group, found kind %d", (int)call->kind);
  if (!(call->timeout_s >= 0))
    return hd__fail(ctx, HD_E_USAGE, "expected a timeout in seconds, found %g", call->timeout_s);
  return HD_OK;
}

static hd_status start_call(hd_work **out, hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  HD_TRY(check_kind(g, ctx, call));
  const int which = queue_of(g, call);
  if (is_message(call))
    HD_TRY(hd__message_check(g, ctx, call));
  HD_TRY(open_work_queue(g, ctx, which));
  hd_work *work = hd__calloc(1, sizeof *work);
  HD_TRY(HD_ALLOCATED(work, ctx, "out of memory for the group's work"));
  work->call = *call;
  work->message.call = &work->call;
  work->work_queue = g->work_queue;
  queue *q = &g->work_queue->queue[which];
  pthread_mutex_lock(&g->work_queue->lock);
  *q->end = work;
  q->end = &work->next;
  pthread_cond_broadcast(&g->work_queue->came);
  pthread_mutex_unlock(&g->work_queue->lock);
  if (which == MESSAGES)
    hd__event_signal(g, g->rank);
  *out = work;
  return HD_OK;
}

hd_status hd_group_start(hd_work **out, hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  hd_group_call wanted;
  *out = NULL;
  HD_TRY(hd__struct_read(&wanted, ctx, call, sizeof wanted, "hd_group_call"));
  return start_call(out, g, ctx, &wanted);
}

hd_status hd_work_wait(hd_work *work, hd_ctx *ctx) {
  hd_work_queue *work_queue = work->work_queue;
  HD_TRY(hd__group_check_process(work_queue->group, ctx));
  pthread_mutex_lock(&work_queue->lock);
  while (!work->done)
    pthread_cond_wait(&work_queue->done, &work_queue->lock);
  pthread_mutex_unlock(&work_queue->lock);
  hd_status status = work->status;
  if (status != HD_OK)
    hd__fail(ctx, status, "%s", work->ctx.message);
  hd__free(work);
  return status;
}

int hd_work_is_done(hd_work *work) {
  if (hd__group_check_process(work->work_queue->group, NULL) != HD_OK)
    return work->done;
  pthread_mutex_lock(&work->work_queue->lock);
  const int done = work->done;
  pthread_mutex_unlock(&work->work_queue->lock);
  return done;
}

static bool is_idle(hd_work_queue *work_queue, int which) {
  if (!work_queue)
    return true;
  pthread_mutex_lock(&work_queue->lock);
  const bool idle = !work_queue->queue[which].first;
  pthread_mutex_unlock(&work_queue->lock);
  return idle;
}

static hd_status run_call(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  HD_TRY(check_kind(g, ctx, call));
  if (is_idle(g->work_queue, queue_of(g, call)))
    return do_now(g, ctx, call);
  hd_work *work;
  HD_TRY(start_call(&work, g, ctx, call));
  return hd_work_wait(work, ctx);
}

hd_status hd_group_run(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  hd_group_call wanted;
  HD_TRY(hd__struct_read(&wanted, ctx, call, sizeof wanted, "hd_group_call"));
  return run_call(g, ctx, &wanted);
}

/* ---- each call by its name ---- */

hd_status hd_group_barrier(hd_group *g, hd_ctx *ctx) {
  return run_call(g, ctx, &(hd_group_call){.kind = HD_GROUP_BARRIER});
}

hd_status hd_group_broadcast(void *data, hd_group *g, hd_ctx *ctx, int64_t count, hd_dtype dtype, int32_t root) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_BROADCAST, data, data, count, dtype, HD_REDUCE_SUM, root, 0});
}

hd_status hd_group_all_reduce(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                              hd_reduce_op op) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_ALL_REDUCE, output, input, count, dtype, op, 0, 0});
}

hd_status hd_group_reduce(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                          hd_reduce_op op, int32_t root) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_REDUCE, output, input, count, dtype, op, root, 0});
}

hd_status hd_group_gather(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                          int32_t root) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_GATHER, output, input, count, dtype, HD_REDUCE_SUM, root, 0});
}

hd_status hd_group_all_gather(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count,
                              hd_dtype dtype) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_ALL_GATHER, output, input, count, dtype, HD_REDUCE_SUM, 0, 0});
}

hd_status hd_group_scatter(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                           int32_t root) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_SCATTER, output, input, count, dtype, HD_REDUCE_SUM, root, 0});
}

hd_status hd_group_reduce_scatter(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count,
                                  hd_dtype dtype, hd_reduce_op op) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_REDUCE_SCATTER, output, input, count, dtype, op, 0, 0});
}

hd_status hd_group_all_to_all(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count,
                              hd_dtype dtype) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_ALL_TO_ALL, output, input, count, dtype, HD_REDUCE_SUM, 0, 0});
}

hd_status hd_group_send(hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype, int32_t to) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_SEND, NULL, input, count, dtype, HD_REDUCE_SUM, to, 0});
}

hd_status hd_group_recv(void *output, hd_group *g, hd_ctx *ctx, int64_t count, hd_dtype dtype, int32_t from) {
  return run_call(g, ctx, &(hd_group_call){0, HD_GROUP_RECV, output, NULL, count, dtype, HD_REDUCE_SUM, from, 0});
}
