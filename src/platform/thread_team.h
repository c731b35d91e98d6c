/* A team: the calling thread and threads that wait for work. They are the library's, so they depend on no setting of
 * another runtime and change none of the program's.
 *
 * A region runs a function once on each thread of the team, and ends when all have returned. Its start and its end are
 * signals of a barrier's lines (barrier.h): line 0 says which region has begun, line i which one thread i has finished.
 * Waiting threads spin briefly, then sleep.
 *
 * After a fork a child has none of the threads: its next region starts new ones. */
#pragma once

#include <stdbool.h>

typedef struct hd_thread_team hd_thread_team;

/* Starts a team of `threads`, the calling one included; `crowded`: there are more threads than CPUs that may be busy
 * at once. Returns the number of threads that there are: less than `threads`, and
 * *out is NULL, if the system does not start them; 0 without memory. */
int hd__thread_team_create(hd_thread_team **out, int threads, bool crowded);
void hd__thread_team_destroy(hd_thread_team *team);

/* Runs work(arg, i) on each thread i, 0 being the calling thread, and waits for all. Returns the number of threads as
 * above: if it is less than the team's, nothing was run. Regions of one team run one after the other, whichever threads
 * call; work must not run a region of its own team. */
int hd__thread_team_run(hd_thread_team *team, void (*work)(void *arg, int thread), void *arg);
