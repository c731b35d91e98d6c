/* heddle devices: the CPUs and GPUs of this machine, and the processes that use them. */
#include <time.h>

#include "cli/cli.h"
#include "cli/machine_text.h"
#include "cli/topo.h"

static void print_look(const hd_look *look) {
  const hd_topology *t = look->machine;
  cli_print("%s: %s, %s, %s, %s kernels\n", *t->model ? t->model : "processor", cli_counted(t->packages, "package"),
            cli_counted(t->cores, "core"), cli_counted(t->cpus, "CPU"), look->isa);
  topo_print_caches(t);
  look_print_use(stdout, look);
  look_print_gpus(stdout, look);
  cli_print("CUDA: %s\n", look->cuda_note);
  look_print_jobs(stdout, look);
}

static int run(hd_ctx *ctx, hd_config *config, int count, char **operand) {
  const struct timespec a_moment = {.tv_nsec = 200000000}; /* CPU use is measured between two readings */
  const hd_look *look;
  hd_monitor *monitor;
  CLI_TRY(hd_monitor_create(&monitor, ctx));
  nanosleep(&a_moment, NULL);
  const hd_status status = hd_monitor_look(&look, monitor, ctx);
  if (status == HD_OK)
    (cli_wants_json(config) ? look_json : print_look)(look);
  hd_monitor_destroy(monitor);
  return status;
}

const cli_command cli_devices = {.name = "devices",
                                 .help = "the CPUs and GPUs of this machine, and what uses them",
                                 .usage =
                                     "heddle devices [--json]: the CPUs and GPUs of this machine, and what uses them",
                                 .options = (const char *const[]){"json", NULL},
                                 .run = run};
