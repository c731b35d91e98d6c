/* The number of threads of a context: see heddle/topology.h. It is stored in the context; hd__threads_place reads
 * it. */
#include "base/status.h"
#include "platform/threads.h"

/* Warns in the context if there are more threads than CPUs that may be busy at once. An error in reading the machine
 * gives no warning: opening threads reports it. */
static void warn(hd_ctx *ctx, int32_t threads) {
  hd_topology *machine;
  const int32_t cpus = hd_topology_create(&machine, ctx) == HD_OK ? machine->budget.cpus : threads;
  hd_topology_destroy(machine);
  ctx->message[0] = 0;
  if (threads > cpus)
    hd__fail(ctx, HD_OK, "warning: %d threads share %d CPU%s, which is slower; use %d or fewer", threads, cpus,
             cpus == 1 ? "" : "s", cpus);
}

hd_status hd_set_num_threads(hd_ctx *ctx, int32_t threads) {
  if (!ctx || threads < 1 || threads > HD_MAX_THREADS)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected 1 to %d threads, found %d; hd_get_num_threads tells what suits the machine",
                    HD_MAX_THREADS, threads);
  ctx->threads = threads;
  warn(ctx, threads);
  return HD_OK;
}

hd_status hd_get_num_threads(int32_t *threads, hd_ctx *ctx) {
  hd_placement *place;
  *threads = 0;
  HD_TRY(hd__threads_place(&place, ctx, &(hd_placement_request){0}));
  *threads = place->threads;
  hd_placement_destroy(place);
  return HD_OK;
}
