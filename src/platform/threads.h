/* Threads: the compute threads of a run, in one region at a time.
 *
 * Thread 0 is the one that calls, the others are a team of the library's (thread_team.h). OMP_THREAD_LIMIT may allow
 * fewer than requested. Thread i is bound to its CPU while a region runs, and computes in heddle's floating-point mode;
 * both are restored at the end. Where the system refuses to bind, threads run unbound: that costs speed, not results.
 *
 * Threads on cores of several kinds differ in speed. An executor that measures the speeds sets them here for all
 * executors; all threads of a kind count as equally fast. HEDDLE_THREAD_SPEEDS sets them beforehand. */
#pragma once

#include "base/tools_api.h"
#include "base/status.h"
#include "platform/placement.h"

typedef struct hd_threads hd_threads;

/* Starts a placement's threads. HD_E_SYSTEM if the system refuses. The placement is copied. */
HD_TOOLS_API hd_status hd__threads_create(hd_threads **out, hd_ctx *ctx, const hd_placement *place);
HD_TOOLS_API void hd__threads_destroy(hd_threads *threads);

/* The most threads that OMP_THREAD_LIMIT allows in this process; 0: any number. */
int32_t hd__threads_most(void);

/* Reads this machine and places threads on it; their number is the request's, else the context's. */
HD_TOOLS_API hd_status hd__threads_place(hd_placement **out, hd_ctx *ctx, const hd_placement_request *request);

/* The same within OMP_THREAD_LIMIT; starts the threads, and claims their CPUs, so that other jobs avoid these. */
HD_TOOLS_API hd_status hd__threads_open(hd_threads **out, hd_ctx *ctx, const hd_placement_request *request);

/* The same with a placement that exists already. */
hd_status hd__threads_open_at(hd_threads **out, hd_ctx *ctx, const hd_placement *place);

/* Starts `count` more threads on the CPUs of the first `count` of others, without a claim. */
hd_status hd__threads_first(hd_threads **out, hd_ctx *ctx, const hd_threads *others, int count);

/* Leaves the threads unbound: for regions so short that binding costs more than it gains. */
HD_TOOLS_API void hd__threads_unbind(hd_threads *threads);

HD_TOOLS_API int hd__threads_count(const hd_threads *threads);

/* The CPU that a thread is bound to, -1: none. */
HD_TOOLS_API int hd__threads_cpu(const hd_threads *threads, int thread);

/* The number of the L3 cache of a bound thread; -1: unknown. */
HD_TOOLS_API int hd__threads_cache(const hd_threads *threads, int thread);

/* The bindings of loader workers, as many as were requested; NULL: none. */
const hd_binding *hd__threads_workers(const hd_threads *threads);

/* Whether another job is bound to one of these CPUs, too. */
int hd__threads_disputed(const hd_threads *threads);

/* The number of CPUs that may be busy at once, and whether there are more threads. */
HD_TOOLS_API int hd__threads_cpus(const hd_threads *threads);
/* Sets that number for threads of one of several ranks, whose CPUs are not these threads' alone. */
void hd__threads_set_cpus(hd_threads *threads, int cpus);
HD_TOOLS_API int hd__threads_share_cpus(const hd_threads *threads);

/* Relative speeds, 0 (gets no work) to 1000; NULL: all equal. */
const int32_t *hd__threads_speeds(const hd_threads *threads);

/* Whether threads are on cores of several kinds and their speeds are not set yet; and setting them: a rate for each
 * thread, in any unit. */
int hd__threads_need_speeds(const hd_threads *threads);
void hd__threads_set_speeds(hd_threads *threads, const double *rate);

/* Whether the threads run on several NUMA nodes. */
int hd__threads_span_nodes(const hd_threads *threads);

/* Binds untouched memory to the NUMA nodes of the threads: thread i's range is [from[i], from[i + 1]). A refusal
 * costs speed, not results. */
void hd__threads_bind_memory(hd_threads *threads, char *const *from);

/* One line if the system has refused to bind threads or their memory; NULL: it has not. */
const char *hd__threads_refused(const hd_threads *threads);

/* Runs work(arg, thread) on every thread and waits for all. In a child of the process that started the threads others
 * are started first; it fails, without running anything, if the system refuses them. */
HD_TOOLS_API hd_status hd__threads_run(hd_threads *threads, hd_ctx *ctx, void (*work)(void *arg, int thread),
                                       void *arg);
