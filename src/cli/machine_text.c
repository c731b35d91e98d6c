/* Writes a look in plain lines. */
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

static void print_job(FILE *to, const hd_job *job) {
  char left[LOOK_TIME_BYTES];
  fprintf(to, "job %d: %s on %s, %s, step %s of %s", job->pid, job->model, job->data, hd_job_state_name(job->state),
          cli_grouped(job->step), cli_grouped(job->steps));
  if (isfinite(job->loss))
    fprintf(to, ", loss %.4f", job->loss);
  if (isfinite(job->samples_per_s))
    fprintf(to, ", %s samples/s", cli_grouped((long long)(job->samples_per_s + 0.5)));
  if (*look_time(left, job->left_s))
    fprintf(to, ", %s left", left);
  fprintf(to, "\n");
  for (int i = 0; i < job->ranks; i++)
    print_rank(to, job, &job->rank[i]);
  fprintf(to, "  %s\n", job->out);
}

void look_print_jobs(FILE *to, const hd_look *look) {
  for (int i = 0; i < look->jobs; i++)
    print_job(to, &look->job[i]);
  if (look->jobs == 0)
    fprintf(to, "no heddle job runs\n");
}
