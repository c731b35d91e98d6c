/* Calls of a group, done at once or later; see desk.h. A call that waits its turn behind work that was started is
 * handed in like that, and waited for. */
#include "comm/desk.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/gpu_group.h"
#include "comm/message.h"

enum { COLLECTIVES, MESSAGES, QUEUES };

struct hd_work {
  hd_group_call call;
  hd_message message;
  hd_desk *desk;
  hd_work *next;
  hd_ctx ctx; /* keeps the message */
  hd_status status;
  bool done;
};

typedef struct queue {
  pthread_t thread;
  bool has_thread;
  hd_work *first, **end;
} queue;

struct hd_desk {
  hd_group *group;
  pthread_mutex_t lock;
  pthread_cond_t came, done;
  queue queue[QUEUES];
  bool ends;
};

static bool is_message(const hd_group_call *call) { return call->kind == HD_GROUP_SEND || call->kind == HD_GROUP_RECV; }

/* A GPU does one thing after the other. */
static int queue_of(const hd_group *g, const hd_group_call *call) {
  return is_message(call) && !g->gpu ? MESSAGES : COLLECTIVES;
}

static hd_status do_now(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  HD_TRY(hd__group_check(g, ctx));
  if (queue_of(g, call) == MESSAGES)
    return hd__message(g, ctx, call);
  g->patience_s = call->timeout_s > 0 ? call->timeout_s : g->timeout_s;
  if (is_message(call))
    return hd__gpu_message(g, ctx, call);
  return hd__collective(g, ctx, call);
}

/* Takes a work out of its queue; the lock is held. */
static void finish(hd_desk *desk, queue *q, hd_work *work, hd_status status) {
  hd_work **at = &q->first;
  while (*at != work)
    at = &(*at)->next;
  *at = work->next;
  if (q->end == &work->next)
    q->end = at;
  work->status = status;
  work->done = true;
  pthread_cond_broadcast(&desk->done);
}

/* The lock is held; false: the desk is closed, and all is done. */
static bool wait_for_work(hd_desk *desk, queue *q) {
  while (!q->first && !desk->ends)
    pthread_cond_wait(&desk->came, &desk->lock);
  return q->first != NULL;
}

static void *do_collectives(void *arg) {
  hd_desk *desk = arg;
  queue *q = &desk->queue[COLLECTIVES];
  pthread_mutex_lock(&desk->lock);
  while (wait_for_work(desk, q)) {
    hd_work *work = q->first;
    pthread_mutex_unlock(&desk->lock);
    const hd_status status = do_now(desk->group, &work->ctx, &work->call);
    pthread_mutex_lock(&desk->lock);
    finish(desk, q, work, status);
  }
  pthread_mutex_unlock(&desk->lock);
  return NULL;
}

/* Whether an earlier one goes the same way. */
static bool must_wait(const queue *q, const hd_work *work) {
  for (const hd_work *w = q->first; w != work; w = w->next)
    if (w->call.kind == work->call.kind && w->call.peer == work->call.peer)
      return true;
  return false;
}

/* Moves what can be moved of all messages; says whether one is done, and whether one goes to another host. */
static bool move_all(hd_desk *desk, queue *q, bool in_vain, bool *far) {
  bool any = false;
  *far = false;
  for (hd_work *work = q->first, *next; work; work = next) {
    bool done;
    next = work->next;
    *far |= hd__group_is_far(desk->group, work->call.peer);
    if (must_wait(q, work))
      continue;
    hd_status status = hd__message_move(&done, desk->group, &work->ctx, &work->message);
    if (status == HD_OK && !done && in_vain)
      hd__message_look(desk->group, &work->message);
    if (status != HD_OK || done)
      finish(desk, q, work, status);
    any |= status != HD_OK || done;
  }
  return any;
}

static void *do_messages(void *arg) {
  hd_desk *desk = arg;
  queue *q = &desk->queue[MESSAGES];
  bool in_vain = false;
  pthread_mutex_lock(&desk->lock);
  while (wait_for_work(desk, q)) {
    const unsigned seen = hd__bell_seen(desk->group);
    bool far;
    if (move_all(desk, q, in_vain, &far))
      continue;
    pthread_mutex_unlock(&desk->lock);
    if (far)
      hd__bell_rest();
    else
      hd__bell_wait(desk->group, seen);
    in_vain = hd__bell_seen(desk->group) == seen;
    pthread_mutex_lock(&desk->lock);
  }
  pthread_mutex_unlock(&desk->lock);
  return NULL;
}

static hd_status start_thread(hd_desk *desk, hd_ctx *ctx, int which) {
  queue *q = &desk->queue[which];
  sigset_t all, before;
  if (q->has_thread)
    return HD_OK;
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&q->thread, NULL, which == MESSAGES ? do_messages : do_collectives, desk);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  q->has_thread = error == 0;
  return error
             ? hd__fail(ctx, HD_E_SYSTEM, "cannot start a thread for the group: %s; raise `ulimit -u`", strerror(error))
             : HD_OK;
}

static hd_status open_desk(hd_group *g, hd_ctx *ctx, int which) {
  if (!g->desk) {
    hd_desk *desk = hd__calloc(1, sizeof *desk);
    if (!desk)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for the group's work");
    desk->group = g;
    pthread_mutex_init(&desk->lock, NULL);
    pthread_cond_init(&desk->came, NULL);
    pthread_cond_init(&desk->done, NULL);
    for (int i = 0; i < QUEUES; i++)
      desk->queue[i].end = &desk->queue[i].first;
    g->desk = desk;
  }
  return start_thread(g->desk, ctx, which);
}

void hd__desk_destroy(hd_desk *desk) {
  if (!desk)
    return;
  pthread_mutex_lock(&desk->lock);
  desk->ends = true;
  pthread_cond_broadcast(&desk->came);
  pthread_mutex_unlock(&desk->lock);
  for (int i = 0; i < QUEUES; i++)
    if (desk->queue[i].has_thread)
      pthread_join(desk->queue[i].thread, NULL);
  pthread_cond_destroy(&desk->came);
  pthread_cond_destroy(&desk->done);
  pthread_mutex_destroy(&desk->lock);
  hd__free(desk);
}

static hd_status check_kind(hd_ctx *ctx, const hd_group_call *call) {
  if ((unsigned)call->kind > HD_GROUP_RECV)
    return hd__fail(ctx, HD_E_USAGE, "expected a call of a group, found kind %d", (int)call->kind);
  if (!(call->timeout_s >= 0))
    return hd__fail(ctx, HD_E_USAGE, "expected a timeout in seconds, found %g", call->timeout_s);
  return HD_OK;
}

hd_status hd_group_start(hd_work **out, hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  *out = NULL;
  HD_TRY(check_kind(ctx, call));
  const int which = queue_of(g, call);
  if (is_message(call))
    HD_TRY(hd__message_check(g, ctx, call));
  HD_TRY(open_desk(g, ctx, which));
  hd_work *work = hd__calloc(1, sizeof *work);
  if (!work)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the group's work");
  work->call = *call;
  work->message.call = &work->call;
  work->desk = g->desk;
  queue *q = &g->desk->queue[which];
  pthread_mutex_lock(&g->desk->lock);
  *q->end = work;
  q->end = &work->next;
  pthread_cond_broadcast(&g->desk->came);
  pthread_mutex_unlock(&g->desk->lock);
  if (which == MESSAGES)
    hd__bell_ring(g, g->rank);
  *out = work;
  return HD_OK;
}

hd_status hd_work_wait(hd_work *work, hd_ctx *ctx) {
  hd_desk *desk = work->desk;
  pthread_mutex_lock(&desk->lock);
  while (!work->done)
    pthread_cond_wait(&desk->done, &desk->lock);
  pthread_mutex_unlock(&desk->lock);
  hd_status status = work->status;
  if (status != HD_OK)
    hd__fail(ctx, status, "%s", work->ctx.message);
  hd__free(work);
  return status;
}

int hd_work_is_done(hd_work *work) {
  pthread_mutex_lock(&work->desk->lock);
  const int done = work->done;
  pthread_mutex_unlock(&work->desk->lock);
  return done;
}

static bool is_idle(hd_desk *desk, int which) {
  if (!desk)
    return true;
  pthread_mutex_lock(&desk->lock);
  const bool idle = !desk->queue[which].first;
  pthread_mutex_unlock(&desk->lock);
  return idle;
}

hd_status hd_group_run(hd_group *g, hd_ctx *ctx, const hd_group_call *call) {
  HD_TRY(check_kind(ctx, call));
  if (is_idle(g->desk, queue_of(g, call)))
    return do_now(g, ctx, call);
  hd_work *work;
  HD_TRY(hd_group_start(&work, g, ctx, call));
  return hd_work_wait(work, ctx);
}

/* ---- each call by its name ---- */

hd_status hd_group_barrier(hd_group *g, hd_ctx *ctx) {
  return hd_group_run(g, ctx, &(hd_group_call){.kind = HD_GROUP_BARRIER});
}

hd_status hd_group_broadcast(void *data, hd_group *g, hd_ctx *ctx, int64_t count, hd_dtype dtype, int32_t root) {
  return hd_group_run(
      g, ctx,
      &(hd_group_call){
          .kind = HD_GROUP_BROADCAST, .output = data, .input = data, .count = count, .dtype = dtype, .peer = root});
}

hd_status hd_group_all_reduce(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                              hd_reduce_op op) {
  return hd_group_run(
      g, ctx,
      &(hd_group_call){
          .kind = HD_GROUP_ALL_REDUCE, .output = output, .input = input, .count = count, .dtype = dtype, .op = op});
}

hd_status hd_group_reduce(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                          hd_reduce_op op, int32_t root) {
  return hd_group_run(g, ctx,
                      &(hd_group_call){.kind = HD_GROUP_REDUCE,
                                       .output = output,
                                       .input = input,
                                       .count = count,
                                       .dtype = dtype,
                                       .op = op,
                                       .peer = root});
}

hd_status hd_group_gather(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                          int32_t root) {
  return hd_group_run(
      g, ctx,
      &(hd_group_call){
          .kind = HD_GROUP_GATHER, .output = output, .input = input, .count = count, .dtype = dtype, .peer = root});
}

hd_status hd_group_all_gather(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count,
                              hd_dtype dtype) {
  return hd_group_run(
      g, ctx,
      &(hd_group_call){.kind = HD_GROUP_ALL_GATHER, .output = output, .input = input, .count = count, .dtype = dtype});
}

hd_status hd_group_scatter(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype,
                           int32_t root) {
  return hd_group_run(
      g, ctx,
      &(hd_group_call){
          .kind = HD_GROUP_SCATTER, .output = output, .input = input, .count = count, .dtype = dtype, .peer = root});
}

hd_status hd_group_reduce_scatter(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count,
                                  hd_dtype dtype, hd_reduce_op op) {
  return hd_group_run(
      g, ctx,
      &(hd_group_call){
          .kind = HD_GROUP_REDUCE_SCATTER, .output = output, .input = input, .count = count, .dtype = dtype, .op = op});
}

hd_status hd_group_all_to_all(void *output, hd_group *g, hd_ctx *ctx, const void *input, int64_t count,
                              hd_dtype dtype) {
  return hd_group_run(
      g, ctx,
      &(hd_group_call){.kind = HD_GROUP_ALL_TO_ALL, .output = output, .input = input, .count = count, .dtype = dtype});
}

hd_status hd_group_send(hd_group *g, hd_ctx *ctx, const void *input, int64_t count, hd_dtype dtype, int32_t to) {
  return hd_group_run(
      g, ctx, &(hd_group_call){.kind = HD_GROUP_SEND, .input = input, .count = count, .dtype = dtype, .peer = to});
}

hd_status hd_group_recv(void *output, hd_group *g, hd_ctx *ctx, int64_t count, hd_dtype dtype, int32_t from) {
  return hd_group_run(
      g, ctx, &(hd_group_call){.kind = HD_GROUP_RECV, .output = output, .count = count, .dtype = dtype, .peer = from});
}
