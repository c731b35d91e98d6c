/* Scenes that the ranks of a group play, each by a thread, which a local group allows: a test of thousands of calls
 * takes a second. To be included behind scratch.h. */
#ifndef HD_TESTS_RANK_SCENE_H
#define HD_TESTS_RANK_SCENE_H

#include <pthread.h>

#include "comm/group_state.h"
#include "exec/exchange/local_group_join.h"
#include "heddle/rpc.h"
#include "scratch.h"

enum { MOST_RANKS = 7, WAIT_S = 120 };

typedef struct member {
  int rank, ranks;
  hd_ctx ctx;
  hd_local_group *local;
  hd_group *group;
  hd_rpc *rpc;      /* of a scene's own, like all that follows */
  hd_status status; /* what it leaves behind */
  char text[HD_MESSAGE_BYTES];
  int wrong;
} member;

typedef void scene_fn(member *m);

static hd_local_group *founder;
static scene_fn *scene;

static void *play(void *arg) {
  member *m = arg;
  if (hd__local_group_join(&m->local, &m->ctx, hd__local_group_fd(founder), m->rank, WAIT_S) != HD_OK ||
      hd__group_of_ranks(&m->group, &m->ctx, m->local, WAIT_S) != HD_OK) {
    m->wrong = 1000;
    diag("rank %d: %s", m->rank, m->ctx.message);
    return NULL;
  }
  hd__local_group_keep_process(m->local);
  scene(m);
  hd_group_destroy(m->group);
  hd__local_group_leave(m->local);
  return NULL;
}

/* All ranks play a scene; returns how many things were wrong. */
static int with_ranks(member *all, int ranks, scene_fn *fn) {
  pthread_t thread[MOST_RANKS];
  int wrong = 0;
  scene = fn;
  if (hd__local_group_found(&founder, NULL, ranks, false) != HD_OK)
    bail_out("no local group");
  for (int r = 0; r < ranks; r++) {
    all[r] = (member){.rank = r, .ranks = ranks};
    if (pthread_create(&thread[r], NULL, play, &all[r]))
      bail_out("no thread");
  }
  for (int r = 0; r < ranks; r++) {
    pthread_join(thread[r], NULL);
    wrong += all[r].wrong;
  }
  hd__local_group_leave(founder);
  return wrong;
}

#endif
