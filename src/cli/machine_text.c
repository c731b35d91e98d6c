/* Writes a look in plain lines and as JSON: see machine_text.h. */
#include "cli/machine_text.h"

#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/topo.h"

enum { CPUS_IN_ROW = 8 };

const char *look_time(char text[LOOK_TIME_BYTES], double seconds) {
  const long long s = seconds < 1e9 ? (long long)seconds : 0;
  text[0] = 0;
  if (!isfinite(seconds) || seconds < 0 || seconds >= 1e9)
    return text;
  if (s < 3600)
    snprintf(text, LOOK_TIME_BYTES, "%lld:%02lld", s / 60, s % 60);
  else if (s < 36000)
    snprintf(text, LOOK_TIME_BYTES, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  else if (s < 360000)
    snprintf(text, LOOK_TIME_BYTES, "%lldh%02lldm", s / 3600, s / 60 % 60);
  else
    snprintf(text, LOOK_TIME_BYTES, s < 86400000 ? "%lldd%02lldh" : "%lldd", s / 86400, s / 3600 % 24);
  return text;
}

const char *look_cpus(char *text, const hd_job_rank *rank) {
  int number[HD_MAX_THREADS], count = 0;
  for (int i = 0; i < rank->threads && i < HD_MAX_THREADS; i++)
    if (rank->cpu[i] >= 0)
      number[count++] = rank->cpu[i];
  return topo_ranges(text, number, count);
}

const char *look_part(char text[LOOK_PART_BYTES], int64_t used_bytes, int64_t bytes) {
  static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
  double scale = 1024;
  int u = 0;
  for (; (double)bytes >= 1024 * scale && u < 3; u++)
    scale *= 1024;
  snprintf(text, LOOK_PART_BYTES, "%.1f of %.1f %s", (double)used_bytes / scale, (double)bytes / scale, unit[u]);
  return text;
}

void look_print_use(FILE *to, const hd_look *look) {
  char part[LOOK_PART_BYTES];
  const int cpus = look->machine->cpus;
  if (isfinite(look->use_all))
    fprintf(to, "%.0f %% of ", 100 * look->use_all);
  fprintf(to, "%d CPU%s", cpus, cpus == 1 ? "" : "s");
  if (isfinite(look->load[0]))
    fprintf(to, ", load %.2f %.2f %.2f", look->load[0], look->load[1], look->load[2]);
  if (look->memory_used_bytes >= 0)
    fprintf(to, ", memory %s", look_part(part, look->memory_used_bytes, look->memory_bytes));
  if (look->swap_used_bytes > 0)
    fprintf(to, ", swap %s", look_part(part, look->swap_used_bytes, look->swap_bytes));
  if (isfinite(look->temperature_c))
    fprintf(to, ", %.0f C", look->temperature_c);
  if (isfinite(look->power_w))
    fprintf(to, ", %.1f W", look->power_w);
  fprintf(to, "\n");
}

void look_print_cpus(FILE *to, const hd_look *look) {
  const hd_topology *t = look->machine;
  for (int i = 0; i < t->cpus; i++) {
    fprintf(to, "%sCPU %-4d", i % CPUS_IN_ROW ? "  " : "", t->cpu[i].cpu);
    fprintf(to, isfinite(look->use[i]) ? "%3.0f %%" : "  - %%", 100 * look->use[i]);
    if (i % CPUS_IN_ROW == CPUS_IN_ROW - 1 || i + 1 == t->cpus)
      fprintf(to, "\n");
  }
}

static void print_gpu(FILE *to, const hd_gpu *gpu) {
  char part[LOOK_PART_BYTES];
  fprintf(to, "GPU %d: %s", gpu->index, gpu->name);
  if (gpu->cuda >= 0)
    fprintf(to, ", cuda:%d", gpu->cuda);
  if (gpu->trouble[0])
    fprintf(to, ", %s", gpu->trouble);
  if (isfinite(gpu->use))
    fprintf(to, ", %.0f %% busy", 100 * gpu->use);
  if (gpu->memory_bytes > 0)
    fprintf(to, ", memory %s", look_part(part, gpu->memory_used_bytes, gpu->memory_bytes));
  if (isfinite(gpu->temperature_c))
    fprintf(to, ", %.0f C", gpu->temperature_c);
  if (isfinite(gpu->power_w))
    fprintf(to, ", %.0f W", gpu->power_w);
  if (isfinite(gpu->power_w) && isfinite(gpu->power_limit_w))
    fprintf(to, " of %.0f W", gpu->power_limit_w);
  fprintf(to, "\n");
  for (int i = 0; i < gpu->processes; i++) {
    const hd_gpu_process *p = &gpu->process[i];
    fprintf(to, "  process %d", p->pid);
    if (p->name[0])
      fprintf(to, " (%s)", p->name);
    if (p->memory_bytes >= 0)
      fprintf(to, ", %s", topo_bytes(p->memory_bytes));
    fprintf(to, "\n");
  }
}

void look_print_gpus(FILE *to, const hd_look *look) {
  for (int i = 0; i < look->gpus; i++)
    print_gpu(to, &look->gpu[i]);
  if (look->gpus == 0)
    fprintf(to, "%s\n", look->gpu_note);
}

static void print_rank(FILE *to, const hd_job *job, const hd_job_rank *rank) {
  char cpus[TOPO_RANGES_BYTES], several[64] = "";
  if (job->ranks > 1)
    snprintf(several, sizeof several, "rank %d pid %d, ", rank->rank, rank->pid);
  fprintf(to, "  %s%d thread%s", several, rank->threads, rank->threads == 1 ? "" : "s");
  if (*look_cpus(cpus, rank))
    fprintf(to, " on CPU%s %s", strpbrk(cpus, "-,") ? "s" : "", cpus);
  fprintf(to, "\n");
}

/* Loss, speed and time left, as far as they are known, on a line of their own. */
static void print_progress(FILE *to, const hd_job *job) {
  char left[LOOK_TIME_BYTES];
  const bool has_loss = isfinite(job->loss), has_speed = isfinite(job->samples_per_s);
  const bool has_left = *look_time(left, job->left_s) != 0;
  if (has_loss)
    fprintf(to, "  loss %.4f", job->loss);
  if (has_speed)
    fprintf(to, "%s%s samples/s", has_loss ? ", " : "  ", cli_grouped((long long)(job->samples_per_s + 0.5)));
  if (has_left)
    fprintf(to, "%s%s left", has_loss || has_speed ? ", " : "  ", left);
  if (has_loss || has_speed || has_left)
    fprintf(to, "\n");
}

static void print_job(FILE *to, const hd_job *job) {
  fprintf(to, "job %d: %s on %s, %s, step %s of %s\n", job->pid, job->model, job->data, hd_job_state_name(job->state),
          cli_grouped(job->step), cli_grouped(job->steps));
  print_progress(to, job);
  for (int i = 0; i < job->ranks; i++)
    print_rank(to, job, &job->rank[i]);
  fprintf(to, "  %s\n", job->out);
}

void look_print_jobs(FILE *to, const hd_look *look) {
  for (int i = 0; i < look->jobs; i++)
    print_job(to, &look->job[i]);
  if (look->jobs == 0)
    fprintf(to, "no heddle job is running\n");
}

/* ---- JSON: unknown values are null ---- */

/* As a number of JSON. */
static double known(int64_t value) { return value >= 0 ? (double)value : NAN; }

static void put_machine(const hd_look *look) {
  const hd_topology *t = look->machine;
  cli_json("'model': %s, 'isa': %s, 'packages': %d, 'cores': %d, 'pus': %d, ", t->model, look->isa, t->packages,
           t->cores, t->cpus);
  topo_json_caches(t);
  cli_json(", 'memory_bytes': %g, 'memory_used_bytes': %g, 'swap_bytes': %g, 'swap_used_bytes': %g, ",
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
    cli_json("%c{'pid': %d, 'memory_bytes': %g, 'name': %s}", i, p->pid, known(p->memory_bytes), p->name);
  }
  cli_json("]");
}

static void put_gpus(const hd_look *look) {
  cli_json("'gpus': [");
  for (int i = 0; i < look->gpus; i++) {
    const hd_gpu *gpu = &look->gpu[i];
    cli_json("%c{'gpu': %d, 'cuda': %g, 'name': %s, 'uuid': %s, 'trouble': %s, 'use': %g, ", i, gpu->index,
             known(gpu->cuda), gpu->name, gpu->uuid, gpu->trouble, gpu->use);
    cli_json("'memory_bytes': %g, 'memory_used_bytes': %g, 'temperature_c': %g, 'power_w': %g, 'power_limit_w': %g, ",
             known(gpu->memory_bytes), known(gpu->memory_used_bytes), gpu->temperature_c, gpu->power_w,
             gpu->power_limit_w);
    put_processes(gpu);
    cli_json("}");
  }
  cli_json("], 'gpu_note': %s, 'cuda_note': %s, ", look->gpu_note, look->cuda_note);
}

static void put_rank(int index, const hd_job_rank *rank) {
  cli_json("%c{'rank': %d, 'pid': %d, 'state': %s, 'step': %lld, 'loss': %g, 'samples_per_s': %g, 'threads': %d, "
           "'cpus': [",
           index, rank->rank, rank->pid, hd_job_state_name(rank->state), (long long)rank->step, rank->loss,
           rank->samples_per_s, rank->threads);
  for (int i = 0; i < rank->threads; i++)
    cli_json("%c%g", i, known(rank->cpu[i]));
  cli_json("]}");
}

static void put_job(int index, const hd_job *job) {
  cli_json("%c{'pid': %d, 'model': %s, 'data': %s, 'state': %s, 'step': %lld, 'steps': %lld, 'epoch': %lld, 'epochs': "
           "%lld, 'batch': %lld, ",
           index, job->pid, job->model, job->data, hd_job_state_name(job->state), (long long)job->step,
           (long long)job->steps, (long long)job->epoch, (long long)job->epochs, (long long)job->batch);
  cli_json("'loss': %g, 'samples_per_s': %g, 'elapsed_s': %g, 'left_s': %g, 'threads': %d, ", job->loss,
           job->samples_per_s, job->elapsed_s, job->left_s, job->threads);
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
