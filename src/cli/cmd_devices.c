/* heddle devices: the CPUs and GPUs of this machine, and the processes that use them. */
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/machine_text.h"
#include "cli/topo.h"

static void print_processor(const hd_look *look) {
  const hd_topology *t = look->machine;
  cli_print("%s: %d package%s, %d core%s, %d CPU%s", *t->model ? t->model : "processor", t->packages,
            t->packages == 1 ? "" : "s", t->cores, t->cores == 1 ? "" : "s", t->cpus, t->cpus == 1 ? "" : "s");
  cli_print(", %s kernels\n", look->isa);
  for (int i = 0; i < t->caches; i++)
    cli_print("%s%d x %s of %s", i ? ", " : "caches: ", t->cache[i].count, hd_memory_level_name(t->cache[i].level),
              topo_bytes(t->cache[i].bytes));
  if (t->caches > 0)
    cli_print("\n");
}

static int show(hd_ctx *ctx, int json) {
  const struct timespec a_moment = {.tv_nsec = 200000000}; /* CPU use is measured between two looks */
  const hd_look *look;
  hd_monitor *monitor;
  hd_status status = hd_monitor_create(&monitor, ctx);
  if (status == HD_OK) {
    nanosleep(&a_moment, NULL);
    status = hd_monitor_look(&look, monitor, ctx);
  }
  if (status != HD_OK) {
    hd_monitor_destroy(monitor);
    return cli_fail(status, hd_ctx_message(ctx));
  }
  if (json) {
    look_json(look);
  } else {
    print_processor(look);
    look_print_use(stdout, look);
    look_print_gpus(stdout, look);
    cli_print("CUDA: %s\n", look->cuda_note);
    look_print_jobs(stdout, look);
  }
  hd_monitor_destroy(monitor);
  return CLI_OK;
}

static int run(void *self, hd_ctx *ctx, hd_config *config, int count, char **operand) {
  return show(ctx, cli_wants_json(config));
}

int cli_devices(int argc, char **argv) {
  static const char *const options[] = {"json", NULL};
  static const cli_command command = {
      .name = "devices",
      .usage = "heddle devices [--json]: the CPUs and GPUs of this machine, and what uses them",
      .options = options,
      .run = run};
  return cli_run(&command, argc, argv);
}
