/* Threads that wait for work: see thread_team.h. */
#include "platform/thread_team.h"

#include <string.h>

#include "base/alloc.h"
#include "platform/barrier.h"
#include "platform/thread_start.h"

typedef struct member {
  hd_thread_team *team;
  hd_thread thread;
  int number;
} member;

struct hd_thread_team {
  int threads;
  member *member; /* by their numbers; number 0 is not used */
  hd_barrier gate;
  hd_barrier_line *line;
  unsigned region; /* the last one that has begun */
  pthread_mutex_t one_at_a_time;

  /* The work that line 0 publishes. */
  void (*work)(void *arg, int thread); /* NULL: the team ends */
  void *arg;
};

static void *run_member(void *arg) {
  const member *m = arg;
  hd_thread_team *team = m->team;
  for (unsigned region = 1;; region++) {
    hd__barrier_await(&team->gate, 0, region);
    if (!team->work)
      return NULL;
    team->work(team->arg, m->number);
    hd__barrier_signal(&team->gate, m->number, region);
  }
}

static void begin(hd_thread_team *team, void (*work)(void *, int), void *arg) {
  team->work = work;
  team->arg = arg;
  hd__barrier_signal(&team->gate, 0, ++team->region);
}

/* Ends the first `threads` threads, which are in no region. */
static void end_members(hd_thread_team *team, int threads) {
  begin(team, NULL, NULL);
  for (int i = 1; i < threads; i++)
    hd__thread_join(&team->member[i].thread);
}

/* Starts all members, or none; returns how many threads there are. */
static int start_members(hd_thread_team *team) {
  int there = 1;
  memset(team->line, 0, (size_t)team->threads * sizeof *team->line);
  team->region = 0;
  for (; there < team->threads; there++) {
    member *m = &team->member[there];
    *m = (member){.team = team, .number = there};
    if (hd__thread_start(&m->thread, run_member, m) != 0)
      break;
  }
  if (there < team->threads)
    end_members(team, there);
  return there;
}

static void release(hd_thread_team *team) {
  hd__free(team->member);
  hd__free(team->line);
  hd__free(team);
}

int hd__thread_team_create(hd_thread_team **out, int threads, bool crowded) {
  *out = NULL;
  hd_thread_team *team = hd__calloc(1, sizeof *team);
  if (!team)
    return 0;
  team->threads = threads;
  team->member = hd__calloc((size_t)threads, sizeof *team->member);
  team->line = hd__malloc_aligned((size_t)HD_BARRIER_LINES(threads) * sizeof *team->line);
  int there = 0;
  if (team->member && team->line) {
    hd__barrier_init(&team->gate, team->line, threads, crowded);
    pthread_mutex_init(&team->one_at_a_time, NULL);
    there = start_members(team);
  }
  if (there == threads)
    *out = team;
  else
    release(team);
  return there;
}

static bool is_here(const hd_thread_team *team) { return hd__thread_is_here(&team->member[1].thread); }

void hd__thread_team_destroy(hd_thread_team *team) {
  if (!team)
    return;
  if (is_here(team))
    end_members(team, team->threads);
  release(team);
}

/* In a child the lock may be held by a thread that is not here. */
static int start_again(hd_thread_team *team) {
  pthread_mutex_init(&team->one_at_a_time, NULL);
  return start_members(team);
}

int hd__thread_team_run(hd_thread_team *team, void (*work)(void *arg, int thread), void *arg) {
  const int there = is_here(team) ? team->threads : start_again(team);
  if (there < team->threads)
    return there;
  pthread_mutex_lock(&team->one_at_a_time);
  begin(team, work, arg);
  work(arg, 0);
  for (int i = 1; i < team->threads; i++)
    hd__barrier_await(&team->gate, i, team->region);
  pthread_mutex_unlock(&team->one_at_a_time);
  return there;
}
