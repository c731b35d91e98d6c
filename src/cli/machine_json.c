/* Writes a look as JSON. Unknown values are null. */
#include "cli/machine_json.h"

#include "cli/cli.h"

static void text(FILE *to, const char *key, const char *value) {
  fprintf(to, "\"%s\": ", key);
  cli_json_text(to, value);
  fprintf(to, ", ");
}

static void real(FILE *to, const char *key, double value) {
  fprintf(to, "\"%s\": ", key);
  cli_json_real(to, value);
  fprintf(to, ", ");
}

static void whole(FILE *to, const char *key, long long value) { fprintf(to, "\"%s\": %lld, ", key, value); }

static void bytes(FILE *to, const char *key, int64_t value) {
  if (value >= 0)
    whole(to, key, value);
  else
    fprintf(to, "\"%s\": null, ", key);
}

static void put_machine(FILE *to, const hd_look *look) {
  const hd_topology *t = look->machine;
  text(to, "model", t->model);
  text(to, "isa", look->isa);
  whole(to, "packages", t->packages);
  whole(to, "cores", t->cores);
  whole(to, "pus", t->cpus);
  fprintf(to, "\"caches\": [");
  for (int i = 0; i < t->caches; i++)
    fprintf(to, "%s{\"name\": \"%s\", \"bytes\": %lld, \"count\": %d}", i ? ", " : "",
            hd_memory_level_name(t->cache[i].level), (long long)t->cache[i].bytes, t->cache[i].count);
  fprintf(to, "], ");
  bytes(to, "memory_bytes", look->memory_bytes);
  bytes(to, "memory_used_bytes", look->memory_used_bytes);
  bytes(to, "swap_bytes", look->swap_bytes);
  bytes(to, "swap_used_bytes", look->swap_used_bytes);
  real(to, "use", look->use_all);
  real(to, "temperature_c", look->temperature_c);
  real(to, "power_w", look->power_w);
  fprintf(to, "\"load\": [");
  for (int i = 0; i < 3; i++) {
    fprintf(to, "%s", i ? ", " : "");
    cli_json_real(to, look->load[i]);
  }
  fprintf(to, "], ");
}

static void put_cpus(FILE *to, const hd_look *look) {
  const hd_topology *t = look->machine;
  fprintf(to, "\"cpus\": [");
  for (int i = 0; i < t->cpus; i++) {
    const hd_cpu *c = &t->cpu[i];
    fprintf(to,
            "%s{\"cpu\": %d, \"core\": %d, \"package\": %d, \"numa\": %d, \"kind\": \"%s\", \"use\": ", i ? ", " : "",
            c->cpu, c->core, c->package, c->numa, hd_core_type_name(t->kind[c->kind].type));
    cli_json_real(to, look->use[i]);
    fprintf(to, "}");
  }
  fprintf(to, "], ");
}

static void put_processes(FILE *to, const hd_gpu *gpu) {
  if (gpu->processes < 0) {
    fprintf(to, "\"processes\": null");
    return;
  }
  fprintf(to, "\"processes\": [");
  for (int i = 0; i < gpu->processes; i++) {
    const hd_gpu_process *p = &gpu->process[i];
    fprintf(to, "%s{", i ? ", " : "");
    whole(to, "pid", p->pid);
    bytes(to, "memory_bytes", p->memory_bytes);
    fprintf(to, "\"name\": ");
    cli_json_text(to, p->name);
    fprintf(to, "}");
  }
  fprintf(to, "]");
}

static void put_gpus(FILE *to, const hd_look *look) {
  fprintf(to, "\"gpus\": [");
  for (int i = 0; i < look->gpus; i++) {
    const hd_gpu *gpu = &look->gpu[i];
    fprintf(to, "%s{", i ? ", " : "");
    whole(to, "gpu", gpu->index);
    bytes(to, "cuda", gpu->cuda);
    text(to, "name", gpu->name);
    text(to, "uuid", gpu->uuid);
    text(to, "trouble", gpu->trouble);
    real(to, "use", gpu->use);
    bytes(to, "memory_bytes", gpu->memory_bytes);
    bytes(to, "memory_used_bytes", gpu->memory_used_bytes);
    real(to, "temperature_c", gpu->temperature_c);
    real(to, "power_w", gpu->power_w);
    real(to, "power_limit_w", gpu->power_limit_w);
    put_processes(to, gpu);
    fprintf(to, "}");
  }
  fprintf(to, "], ");
  text(to, "gpu_note", look->gpu_note);
  text(to, "cuda_note", look->cuda_note);
}

static void put_rank(FILE *to, const hd_job_rank *rank) {
  fprintf(to, "{");
  whole(to, "rank", rank->rank);
  whole(to, "pid", rank->pid);
  text(to, "state", hd_job_state_name(rank->state));
  whole(to, "step", rank->step);
  real(to, "loss", rank->loss);
  real(to, "samples_per_s", rank->samples_per_s);
  whole(to, "threads", rank->threads);
  whole(to, "lanes", rank->threads);
  fprintf(to, "\"cpus\": [");
  for (int i = 0; i < rank->threads; i++)
    fprintf(to, rank->cpu[i] < 0 ? "%snull" : "%s%d", i ? ", " : "", rank->cpu[i]);
  fprintf(to, "]}");
}

static void put_job(FILE *to, const hd_job *job) {
  fprintf(to, "{");
  whole(to, "pid", job->pid);
  text(to, "model", job->model);
  text(to, "data", job->data);
  text(to, "state", hd_job_state_name(job->state));
  whole(to, "step", job->step);
  whole(to, "steps", job->steps);
  whole(to, "epoch", job->epoch);
  whole(to, "epochs", job->epochs);
  whole(to, "batch", job->batch);
  real(to, "loss", job->loss);
  real(to, "samples_per_s", job->samples_per_s);
  real(to, "elapsed_s", job->elapsed_s);
  real(to, "left_s", job->left_s);
  whole(to, "threads", job->threads);
  whole(to, "lanes", job->threads);
  text(to, "isa", job->isa);
  text(to, "device", job->device);
  text(to, "out", job->out);
  text(to, "command", job->command);
  fprintf(to, "\"ranks\": [");
  for (int i = 0; i < job->ranks; i++) {
    fprintf(to, "%s", i ? ", " : "");
    put_rank(to, &job->rank[i]);
  }
  fprintf(to, "]}");
}

void look_json(FILE *to, const hd_look *look) {
  fprintf(to, "{");
  put_machine(to, look);
  put_cpus(to, look);
  put_gpus(to, look);
  fprintf(to, "\"jobs\": [");
  for (int i = 0; i < look->jobs; i++) {
    fprintf(to, "%s", i ? ", " : "");
    put_job(to, &look->job[i]);
  }
  fprintf(to, "]}\n");
}
