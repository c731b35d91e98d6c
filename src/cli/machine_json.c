/* Writes a look as JSON. Unknown values are null. */
#include "cli/machine_text.h"

#include <math.h>

#include "cli/cli.h"
#include "cli/topo.h"

/* For %.17g, which prints all digits of a whole number. */
static double known(int64_t value) { return value >= 0 ? (double)value : NAN; }

static void put_machine(const hd_look *look) {
  const hd_topology *t = look->machine;
  cli_json("'model': %s, 'isa': %s, 'packages': %d, 'cores': %d, 'pus': %d, ", t->model, look->isa, t->packages,
           t->cores, t->cpus);
  topo_json_caches(t);
  cli_json(", 'memory_bytes': %.17g, 'memory_used_bytes': %.17g, 'swap_bytes': %.17g, 'swap_used_bytes': %.17g, ",
           known(look->memory_bytes), known(look->memory_used_bytes), known(look->swap_bytes),
           known(look->swap_used_bytes));
  cli_json("'use': %g, 'temperature_c': %g, 'power_w': %g, 'load': [%g, %g, %g], ", look->use_all, look->temperature_c,
           look->power_w, look->load[0], look->load[1], look->load[2]);
}

static void put_cpus(const hd_look *look) {
  const hd_topology *t = look->machine;
  cli_json("'cpus': [");
  for (int i = 0; i < t->cpus; i++) {
    const hd_cpu *c = &t->cpu[i];
    cli_json("%c{'cpu': %d, 'core': %d, 'package': %d, 'numa': %d, 'kind': %s, 'use': %g}", i, c->cpu, c->core,
             c->package, c->numa, hd_core_type_name(t->kind[c->kind].type), look->use[i]);
  }
  cli_json("], ");
}

static void put_processes(const hd_gpu *gpu) {
  if (gpu->processes < 0) {
    cli_json("'processes': null");
    return;
  }
  cli_json("'processes': [");
  for (int i = 0; i < gpu->processes; i++) {
    const hd_gpu_process *p = &gpu->process[i];
    cli_json("%c{'pid': %d, 'memory_bytes': %.17g, 'name': %s}", i, p->pid, known(p->memory_bytes), p->name);
  }
  cli_json("]");
}

static void put_gpus(const hd_look *look) {
  cli_json("'gpus': [");
  for (int i = 0; i < look->gpus; i++) {
    const hd_gpu *gpu = &look->gpu[i];
    cli_json("%c{'gpu': %d, 'cuda': %.17g, 'name': %s, 'uuid': %s, 'trouble': %s, 'use': %g, ", i, gpu->index,
             known(gpu->cuda), gpu->name, gpu->uuid, gpu->trouble, gpu->use);
    cli_json(
        "'memory_bytes': %.17g, 'memory_used_bytes': %.17g, 'temperature_c': %g, 'power_w': %g, 'power_limit_w': %g, ",
        known(gpu->memory_bytes), known(gpu->memory_used_bytes), gpu->temperature_c, gpu->power_w, gpu->power_limit_w);
    put_processes(gpu);
    cli_json("}");
  }
  cli_json("], 'gpu_note': %s, 'cuda_note': %s, ", look->gpu_note, look->cuda_note);
}

static void put_rank(int index, const hd_job_rank *rank) {
  cli_json("%c{'rank': %d, 'pid': %d, 'state': %s, 'step': %lld, 'loss': %g, 'samples_per_s': %g, 'threads': %d, "
           "'lanes': %d, 'cpus': [",
           index, rank->rank, rank->pid, hd_job_state_name(rank->state), (long long)rank->step, rank->loss,
           rank->samples_per_s, rank->threads, rank->threads);
  for (int i = 0; i < rank->threads; i++)
    cli_json("%c%.17g", i, known(rank->cpu[i]));
  cli_json("]}");
}

static void put_job(int index, const hd_job *job) {
  cli_json("%c{'pid': %d, 'model': %s, 'data': %s, 'state': %s, 'step': %lld, 'steps': %lld, 'epoch': %lld, 'epochs': "
           "%lld, 'batch': %lld, ",
           index, job->pid, job->model, job->data, hd_job_state_name(job->state), (long long)job->step,
           (long long)job->steps, (long long)job->epoch, (long long)job->epochs, (long long)job->batch);
  cli_json("'loss': %g, 'samples_per_s': %g, 'elapsed_s': %g, 'left_s': %g, 'threads': %d, 'lanes': %d, ", job->loss,
           job->samples_per_s, job->elapsed_s, job->left_s, job->threads, job->threads);
  cli_json("'isa': %s, 'device': %s, 'out': %s, 'command': %s, 'ranks': [", job->isa, job->device, job->out,
           job->command);
  for (int i = 0; i < job->ranks; i++)
    put_rank(i, &job->rank[i]);
  cli_json("]}");
}

void look_json(const hd_look *look) {
  cli_json("{");
  put_machine(look);
  put_cpus(look);
  put_gpus(look);
  cli_json("'jobs': [");
  for (int i = 0; i < look->jobs; i++)
    put_job(i, &look->job[i]);
  cli_json("]}\n");
}
