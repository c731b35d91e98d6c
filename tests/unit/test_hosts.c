/* Ranks on two hosts, each a thread of this process with a local group of its own, over a transport in memory: what
 * fails leaves no transfer behind that others could take, and what stops a run is no failure of the other host. */
#include "scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "comm/group_state.h"
#include "exec/exchange/cluster.h"
#include "exec/exchange/cluster_state.h"
#include "exec/exchange/local_group_join.h"
#include "exec/trace.h"
#include "heddle.h"

enum { HOSTS = 2, WAIT_S = 120, COUNT = 1000 };

/* ---- the transport ---- */

/* What was sent waits here: a send is done at once. */
typedef struct letter {
  struct letter *next;
  int from, to, tag;
  int64_t bytes;
  char data[];
} letter;

struct hd_transfer {
  hd_transfer *next;
  int rank, count;
  hd_transfer_part part[]; /* what it still receives; data NULL: it was received */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static letter *letters;
static hd_transfer *running;
static atomic_int finalized[HOSTS];

static int post(int rank, const hd_transfer_part *part, char *why) {
  letter **at = &letters, *new = hd__malloc(sizeof *new + (size_t)part->bytes);
  if (!new) {
    snprintf(why, HD_TRANSPORT_WHY_BYTES, "no memory for %lld bytes", (long long)part->bytes);
    return -1;
  }
  *new = (letter){.from = rank, .to = part->peer, .tag = part->tag, .bytes = part->bytes};
  memcpy(new->data, part->data, (size_t)part->bytes);
  while (*at)
    at = &(*at)->next;
  *at = new;
  return 0;
}

static int start(int rank, hd_transfer **out, const hd_transfer_part *parts, int32_t count, char *why) {
  hd_transfer *t = *out = hd__calloc(1, sizeof *t + (size_t)count * sizeof *t->part);
  int error = 0;
  t->rank = rank;
  pthread_mutex_lock(&lock);
  for (int32_t i = 0; i < count && error == 0; i++)
    if (parts[i].receives)
      t->part[t->count++] = parts[i];
    else
      error = post(rank, &parts[i], why);
  t->next = running;
  running = t;
  if (error)
    *out = NULL;
  pthread_mutex_unlock(&lock);
  return error;
}

static bool receive(int rank, const hd_transfer_part *part) {
  letter **at = &letters;
  while (*at && ((*at)->to != rank || (*at)->tag != part->tag ||
                 (part->peer != HD_TRANSPORT_ANY_RANK && part->peer != (*at)->from)))
    at = &(*at)->next;
  letter *found = *at;
  if (!found)
    return false;
  memcpy(part->data, found->data, (size_t)(found->bytes < part->bytes ? found->bytes : part->bytes));
  *at = found->next;
  hd__free(found);
  return true;
}

static void end_transfer(hd_transfer *t) {
  hd_transfer **at = &running;
  while (*at != t)
    at = &(*at)->next;
  *at = t->next;
  hd__free(t);
}

static int test(hd_transfer *t, char *why) {
  int left = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < t->count; i++) {
    if (t->part[i].data && receive(t->rank, &t->part[i]))
      t->part[i].data = NULL;
    left += t->part[i].data != NULL;
  }
  if (left == 0)
    end_transfer(t);
  pthread_mutex_unlock(&lock);
  return left == 0;
}

static void drop(hd_transfer *t) {
  if (!t)
    return;
  pthread_mutex_lock(&lock);
  end_transfer(t);
  pthread_mutex_unlock(&lock);
}

static const char *name(void) { return "memory"; }

static int start_0(hd_transfer **out, const hd_transfer_part *parts, int32_t count, char *why) {
  return start(0, out, parts, count, why);
}

static int start_1(hd_transfer **out, const hd_transfer_part *parts, int32_t count, char *why) {
  return start(1, out, parts, count, why);
}

static int finalize_0(char *why) { return atomic_fetch_add(&finalized[0], 1) * 0; }

static int finalize_1(char *why) { return atomic_fetch_add(&finalized[1], 1) * 0; }

static const hd_transport transport[HOSTS] = {
    {.name = name, .start = start_0, .test = test, .drop = drop, .finalize = finalize_0},
    {.name = name, .start = start_1, .test = test, .drop = drop, .finalize = finalize_1}};

/* The receives of a rank with these tags that are running. */
static int receives(int rank, int first_tag, int end_tag) {
  int count = 0;
  pthread_mutex_lock(&lock);
  for (const hd_transfer *t = running; t; t = t->next)
    count += t->rank == rank && t->count > 0 && t->part[0].tag >= first_tag && t->part[0].tag < end_tag;
  pthread_mutex_unlock(&lock);
  return count;
}

static void forget_all(void) {
  while (running)
    end_transfer(running);
  for (letter *next; letters; letters = next) {
    next = letters->next;
    hd__free(letters);
  }
}

/* ---- the ranks ---- */

typedef struct member {
  int rank;
  hd_ctx ctx;
  hd_local_group *local;
  hd_cluster *cluster;
  hd_group *group;
  hd_status status;
  char text[HD_MESSAGE_BYTES];
  int wrong;
} member;

typedef void scene_fn(member *m);

static scene_fn *scene;
static hd_cluster *made[64]; /* one that is closed after a fault is kept until the process ends */
static int made_count;
static atomic_int ready; /* ranks that have come to where a scene waits for them */

static hd_cluster *cluster_of(int rank) {
  hd_cluster *h = hd__calloc(1, sizeof *h);
  h->transport = &transport[rank];
  h->rank = h->this_host = rank;
  h->ranks = h->count = HOSTS;
  h->host = hd__calloc(HOSTS + 1, sizeof *h->host);
  h->member = hd__calloc(HOSTS, sizeof *h->member);
  pthread_mutex_init(&h->lock, NULL);
  for (int i = 0; i <= HOSTS; i++)
    h->host[i] = (hd_host){.first = i, .name = {(char)('a' + i)}};
  for (int i = 0; i < HOSTS; i++)
    h->member[i] = i;
  return h;
}

static hd_status join(member *m) {
  hd_local_group *founder;
  HD_TRY(hd__local_group_found(&founder, &m->ctx, 1, false));
  const hd_status status = hd__local_group_join(&m->local, &m->ctx, hd__local_group_fd(founder), 0, WAIT_S);
  hd__local_group_leave(founder);
  HD_TRY(status);
  hd__local_group_keep_process(m->local);
  HD_TRY(hd__cluster_enter(m->local, &m->ctx, m->cluster));
  return hd__group_of_ranks(&m->group, &m->ctx, m->local, WAIT_S);
}

static void leave(member *m) {
  hd_group_destroy(m->group);
  hd__local_group_leave(m->local);
  m->group = NULL;
  m->local = NULL;
}

static void *play(void *arg) {
  member *m = arg;
  if (join(m) == HD_OK)
    scene(m);
  else
    m->wrong = 1000;
  leave(m);
  return NULL;
}

/* How many things were wrong in a scene that the ranks of both hosts play. */
static int with_hosts(member all[HOSTS], scene_fn *fn) {
  pthread_t thread[HOSTS];
  int wrong = 0;
  scene = fn;
  for (int r = 0; r < HOSTS; r++) {
    all[r] = (member){.rank = r, .cluster = cluster_of(r)};
    made[made_count++] = all[r].cluster;
    atomic_store(&finalized[r], 0);
  }
  atomic_store(&ready, 0);
  for (int r = 0; r < HOSTS; r++)
    if (pthread_create(&thread[r], NULL, play, &all[r]))
      bail_out("no thread");
  for (int r = 0; r < HOSTS; r++) {
    pthread_join(thread[r], NULL);
    wrong += all[r].wrong;
  }
  for (int r = 0; r < HOSTS && wrong; r++)
    diag("rank %d: %d wrong: %s", r, all[r].wrong, all[r].ctx.message);
  forget_all();
  return wrong;
}

static void keep(member *m, hd_status status) {
  m->status = status;
  snprintf(m->text, sizeof m->text, "%s", m->ctx.message);
}

/* Ranks wait for each other, without a call that a broken group would end. */
static void meet(int arrivals) {
  atomic_fetch_add(&ready, 1);
  while (atomic_load(&ready) < arrivals)
    sched_yield();
}

/* ---- groups ---- */

static hd_group_call receive_call(void *output, int64_t count, int peer, double timeout_s) {
  return (hd_group_call){.struct_bytes = sizeof(hd_group_call),
                         .kind = HD_GROUP_RECV,
                         .output = output,
                         .count = count,
                         .dtype = HD_I32,
                         .peer = peer,
                         .timeout_s = timeout_s};
}

static void all_is_well(member *m) {
  int32_t x[COUNT], sum = 0;
  for (int i = 0; i < COUNT; i++)
    x[i] = 100 * m->rank + i;
  m->wrong += hd_group_all_reduce(&sum, m->group, &m->ctx, x, 1, HD_I32, HD_REDUCE_SUM) != HD_OK || sum != 100;
  if (m->rank == 1)
    m->wrong += hd_group_send(m->group, &m->ctx, x, COUNT, HD_I32, 0) != HD_OK;
  else
    m->wrong += hd_group_recv(x, m->group, &m->ctx, COUNT, HD_I32, 1) != HD_OK || x[COUNT - 1] != 100 + COUNT - 1;
  m->wrong += hd_group_barrier(m->group, &m->ctx) != HD_OK;
}

/* The memory of a message that never came is the program's again. */
static void check_dropped(member *m) {
  m->wrong += m->status != HD_E_TIMEOUT || !strstr(m->text, "expected rank 1 to send within 0.05 s");
  m->wrong += receives(0, HD_TAG_GROUPS, HD_TRANSPORT_TAGS) != 0;
}

static void no_message(member *m) {
  int32_t x;
  const hd_group_call call = receive_call(&x, 1, 1, 0.05);
  if (m->rank == 0) {
    keep(m, hd_group_run(m->group, &m->ctx, &call));
    check_dropped(m);
  }
  meet(HOSTS);
}

static void no_message_for_work(member *m) {
  int32_t x;
  hd_work *work;
  const hd_group_call call = receive_call(&x, 1, 1, 0.05);
  if (m->rank == 0) {
    m->wrong += hd_group_start(&work, m->group, &m->ctx, &call) != HD_OK;
    keep(m, hd_work_wait(work, &m->ctx));
    check_dropped(m);
  }
  meet(HOSTS);
}

/* What a rank sent before it left is received after it has left. */
static void sent_and_left(member *m) {
  int32_t x = 7;
  if (m->rank == 1) {
    m->wrong += hd_group_send(m->group, &m->ctx, &x, 1, HD_I32, 0) != HD_OK;
    leave(m);
    return;
  }
  x = 0;
  while (!hd__cluster_has_left(m->local, 1)) {
    hd__cluster_poll_faults(m->local);
    sched_yield();
  }
  m->wrong += hd_group_recv(&x, m->group, &m->ctx, 1, HD_I32, 1) != HD_OK || x != 7;
  const hd_group_call call = receive_call(&x, 1, 1, WAIT_S);
  keep(m, hd_group_run(m->group, &m->ctx, &call));
  m->wrong += m->status != HD_E_PEER || !strstr(m->text, "rank 1 has left the group");
}

static void test_groups(void) {
  member all[HOSTS];
  is_int(with_hosts(all, all_is_well), 0, "calls and messages between hosts");
  is_int(finalized[0] + finalized[1], HOSTS, "and both end the transport");
  is_int(with_hosts(all, no_message), 0, "a message that never comes is not received later: %s", all[0].text);
  is_int(finalized[0], 0, "the rank that waited for it waits for no end of the other one");
  is_int(with_hosts(all, no_message_for_work), 0, "nor is one of work in the background: %s", all[0].text);
  is_int(with_hosts(all, sent_and_left), 0, "a message of a rank that has left, and one that it never sent: %s",
         all[0].text);
}

/* ---- waits of a host ---- */

/* A leader may wait for another host: those who wait for it give it the time to say so. */
static void leader_is_late(member *m) {
  enum { TIMEOUT_S = 10 };
  const int64_t second = 1000000000;
  char all[HOSTS];
  hd__local_group_set_timeout(m->local, TIMEOUT_S);
  if (m->rank == 0) {
    hd__local_group_late(m->local, 0, (TIMEOUT_S + HD_OTHER_HOST_S + 1) * second);
    m->wrong += hd__local_group_check(m->local, &m->ctx) != HD_OK;
    meet(HOSTS);
    while (receives(1, HD_TAG_HOSTS, HD_TAG_HOSTS + 1) == 0)
      sched_yield();
    hd__local_group_late(m->local, 0, (TIMEOUT_S + 2 * HD_OTHER_HOST_S + 1) * second);
    keep(m, hd__local_group_check(m->local, &m->ctx));
  } else {
    meet(HOSTS);
    keep(m, hd__cluster_gather(all, m->local, &m->ctx, "", 1));
    m->wrong += receives(1, HD_TAG_HOSTS, HD_TAG_HOSTS + 1) != 0;
  }
  m->wrong += m->status != HD_E_PEER || !strstr(m->text, "has not reached a barrier for 15 s");
}

/* ---- a profile of both hosts ---- */

static int exchanges(const hd_cluster *h) {
  int count = 0;
  for (const hd_cluster_exchange *m = h->unused; m; m = m->next)
    count++;
  return count;
}

/* The first host has no memory for the tracks of the other one: both know, and nothing is left on its way. */
static void no_room_for_profile(member *m) {
  const hd_trace_size size = {.threads = 1, .process_threads = 1, .all_threads = HOSTS, .room = 4, .slices = 64};
  hd_trace *trace;
  m->wrong += hd__trace_create(&trace, &m->ctx, m->local, &size) != HD_OK;
  const size_t bytes = trace->memory.bytes;
  trace->memory.bytes = m->rank == 1 ? SIZE_MAX : bytes; /* which no allocator is asked for */
  keep(m, hd__trace_collect(trace, &m->ctx, m->local));
  trace->memory.bytes = bytes;
  m->wrong += m->status != HD_E_NOMEM || !strstr(m->text, "out of memory for the profile of all hosts, in rank 0");
  const int kept = exchanges(m->cluster);
  m->wrong += trace->all_threads != 1;
  m->wrong += hd__trace_collect(trace, &m->ctx, m->local) != HD_OK;
  m->wrong += trace->all_threads != HOSTS || exchanges(m->cluster) != kept;
  hd__trace_destroy(trace);
}

/* ---- stopping a session ---- */

enum { STEPS = 6, STOP_AT = 3, RUNS = 3 };

static char out[RUNS][SCRATCH_PATH_BYTES];

typedef struct stopper {
  member *m;
  hd_session *session;
  int64_t at;      /* the step after which it asks the session to stop */
  bool terminates; /* it shortens waits for the other host, too: from the end of time on, for no test is that fast */
} stopper;

static void on_event(void *user, const hd_event *event) {
  const stopper *s = user;
  _Atomic double *shortened_s = &s->m->cluster->shortened_s;
  if (event->kind != HD_EVENT_STEP || event->step != s->at)
    return;
  hd_session_stop(s->session);
  s->m->wrong += atomic_load(shortened_s) != 0;
  if (s->terminates)
    atomic_store(shortened_s, 1e300);
}

static hd_session *open_session(member *m, int run) {
  const char *const settings[] = {"model",     "simplenet", "data", "random:1x28x28", "batch", "8", "threads", "1",
                                  "max-steps", "6",         "out",  out[run]};
  hd_session *session = NULL;
  hd_config *config;
  hd_status status = hd_config_create(&config, &m->ctx);
  for (size_t i = 0; i < sizeof settings / sizeof *settings && status == HD_OK; i += 2)
    status = hd_config_set(config, &m->ctx, settings[i], settings[i + 1]);
  if (status == HD_OK)
    status = hd_ddp(&session, &m->ctx, config, m->group);
  hd_config_destroy(config);
  m->wrong += status != HD_OK;
  return session;
}

/* Rank 0 stops the session after step `at`; afterwards waits are as long as before. */
static void stop_session(member *m, int run, int64_t at, bool terminates) {
  stopper s = {.m = m, .session = open_session(m, run), .at = m->rank == 0 ? at : 0, .terminates = terminates};
  if (!s.session)
    return;
  m->wrong += hd_session_train(s.session, &m->ctx, on_event, &s) != (at < STEPS ? HD_E_INTERRUPTED : HD_OK);
  m->wrong += atomic_load(&m->cluster->shortened_s) != 0;
  hd_session_terminate(s.session);
  m->wrong += atomic_load(&m->cluster->shortened_s) == 0;
  hd_session_destroy(s.session);
  m->wrong += atomic_load(&m->cluster->shortened_s) != 0;
}

static void stops(member *m) {
  stop_session(m, 0, STOP_AT, false);
  stop_session(m, 1, STOP_AT, true);
  stop_session(m, 2, STEPS, true);
}

int main(void) {
  member all[HOSTS];
  for (int i = 0; i < RUNS; i++)
    snprintf(out[i], sizeof out[i], "%s", in_scratch("run-%d", i));
  test_groups();
  is_int(with_hosts(all, leader_is_late), 0, "a leader has more time than another rank: %s", all[1].text);
  is_int(with_hosts(all, no_room_for_profile), 0, "no memory for the profile of both hosts: %s", all[1].text);
  is_int(with_hosts(all, stops), 0, "hd_session_stop shortens no wait, and hd_session_terminate until the end");
  return done_testing();
}
