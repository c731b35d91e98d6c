/* Reading the pages of jobs: see jobs.h. A page is never mapped, and its content is untrusted: every value is
 * checked. */
#include "tools/monitor/jobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "platform/file.h"
#include "platform/job_page.h"
#include "platform/process.h"

/* The most pages of one process, the largest offset of its slots in a page, and how often a changing slot is read. */
enum { MOST_PAGES = 64, MOST_OFFSET = 1 << 20, ATTEMPTS = 100, PATH_BYTES = 1024 };

/* A process that holds a page. */
typedef struct holder {
  int pid, ns_pid; /* the latter in its PID namespace, for example a container */
  uint64_t start;
} holder;

/* The jobs found so far, with the identity of their pages. */
typedef struct found {
  const char *root;
  hd_jobs *jobs;
  struct {
    dev_t device;
    ino_t inode;
  } * page; /* of each job */
  int room;
} found;

/* ---- One page ---- */

static bool read_all(void *to, size_t bytes, int fd, uint64_t offset) {
  return pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool read_head(hd_job_head *head, int fd, const struct stat *file) {
  if (!read_all(head, sizeof *head, fd, 0) || head->magic != HD_JOB_MAGIC || head->version != HD_JOB_VERSION)
    return false;
  if (head->ranks < 1 || head->ranks > HD_JOB_MOST_RANKS || head->slot_offset > MOST_OFFSET ||
      head->slot_bytes < sizeof(hd_job_slot) || head->slot_bytes > MOST_OFFSET)
    return false;
  return head->slot_offset + (uint64_t)head->ranks * head->slot_bytes <= (uint64_t)file->st_size;
}

/* A consistent copy of a slot; false if its writer never left it unchanged. */
static bool read_slot(hd_job_slot *slot, int fd, uint64_t offset) {
  uint32_t after;
  for (int i = 0; i < ATTEMPTS; i++) {
    if (!read_all(&slot->sequence, sizeof slot->sequence, fd, offset))
      return false;
    const uint32_t before = slot->sequence;
    atomic_thread_fence(memory_order_acquire);
    if (!read_all(slot, sizeof *slot, fd, offset))
      return false;
    atomic_thread_fence(memory_order_acquire);
    if (!read_all(&after, sizeof after, fd, offset))
      return false;
    if (before % 2 == 0 && before == after)
      return true;
  }
  return false;
}

/* These fields of a slot never change, so they may be read without the sequence lock. */
static bool is_slot_of(const holder *process, int fd, uint64_t offset) {
  hd_job_slot slot;
  const size_t bytes = offsetof(hd_job_slot, progress);
  return read_all(&slot, bytes, fd, offset) && slot.pid == process->ns_pid && slot.start == process->start;
}

/* The process's slot, its rank in *rank. Ranks are mostly found in order, so the search begins after the last one. */
static bool find_slot(hd_job_slot *slot, int *rank, int fd, const hd_job_head *head, const holder *process, int first) {
  for (uint32_t i = 0; i < head->ranks; i++) {
    *rank = (int)(((uint32_t)first + i) % head->ranks);
    const uint64_t offset = head->slot_offset + (uint64_t)*rank * head->slot_bytes;
    if (is_slot_of(process, fd, offset))
      return read_slot(slot, fd, offset);
  }
  return false;
}

/* ---- Sanitising values ---- */

static int64_t at_least(int64_t least, int64_t value) { return value < least ? least : value; }

static double speed(double samples_per_s) { return samples_per_s >= 0 && samples_per_s < 1e15 ? samples_per_s : NAN; }

static hd_status convert_rank(hd_job_rank *out, hd_ctx *ctx, const hd_job_slot *slot, int rank, const holder *process) {
  const hd_job_progress *p = &slot->progress;
  const int threads = slot->threads < 0 ? 0 : slot->threads > HD_MAX_THREADS ? HD_MAX_THREADS : slot->threads;
  *out = (hd_job_rank){.rank = rank,
                       .pid = process->pid,
                       .start = process->start,
                       .state = p->state >= 0 && p->state < HD_JOB_STATES ? (hd_job_state)p->state : HD_JOB_READY,
                       .step = at_least(0, p->step),
                       .epoch = at_least(0, p->epoch),
                       .loss = isfinite(p->loss) ? p->loss : NAN,
                       .samples_per_s = speed(p->samples_per_s),
                       .threads = threads,
                       .cpu = hd__malloc((size_t)(threads + 1) * sizeof *out->cpu)};
  HD_TRY(HD_ALLOCATED(out->cpu, ctx, "out of memory for the threads of a job"));
  for (int i = 0; i < threads; i++)
    out->cpu[i] = slot->cpu[i] < 0 ? -1 : slot->cpu[i];
  return HD_OK;
}

static void convert_facts(hd_job *job, const hd_job_facts *facts) {
  hd__utf8_clean(job->model, sizeof job->model, facts->model, sizeof facts->model);
  hd__utf8_clean(job->data, sizeof job->data, facts->data, sizeof facts->data);
  hd__utf8_clean(job->isa, sizeof job->isa, facts->isa, sizeof facts->isa);
  hd__utf8_clean(job->device, sizeof job->device, facts->device, sizeof facts->device);
  hd__utf8_clean(job->out, sizeof job->out, facts->out, sizeof facts->out);
  job->batch = at_least(1, facts->batch);
  job->epochs = at_least(0, facts->epochs);
  job->steps = at_least(0, facts->steps);
}

/* The path of a file or folder of a process; "" if that is too long. */
static const char *path_of(char path[PATH_BYTES], const char *root, int pid, const char *name) {
  if (snprintf(path, PATH_BYTES, "%s/proc/%d/%s", root, pid, name) >= PATH_BYTES)
    path[0] = 0;
  return path;
}

static size_t read_text(char *text, size_t bytes, const char *root, int pid, const char *file) {
  char path[PATH_BYTES];
  return hd__file_text(text, bytes, path_of(path, root, pid, file));
}

/* The command line, its words separated by blanks. */
static void read_command(hd_job *job, const char *root) {
  char text[HD_LOOK_PATH_BYTES];
  size_t got = read_text(text, sizeof text, root, job->pid, "cmdline");
  while (got > 0 && !text[got - 1])
    got--;
  for (size_t i = 0; i < got; i++)
    text[i] = text[i] ? text[i] : ' ';
  hd__utf8_clean(job->command, sizeof job->command, text, got);
}

/* Threads add up over the ranks. Each tells the run's state, step and speed: the first one's are the job's. */
static void add_ranks(hd_job *job, const char *root) {
  const hd_job_rank *lead = &job->rank[0];
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  job->pid = lead->pid;
  job->start = lead->start;
  job->state = lead->state;
  job->step = lead->step;
  job->epoch = lead->epoch;
  job->loss = lead->loss;
  job->samples_per_s = lead->samples_per_s;
  job->threads = 0;
  for (int i = 0; i < job->ranks; i++)
    job->threads += job->rank[i].threads;
  const double age = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  job->elapsed_s = fmax(age - (double)lead->start / (double)sysconf(_SC_CLK_TCK), 0);
  const double left = (double)at_least(0, job->steps - job->step) * (double)job->batch;
  job->left_s = job->samples_per_s > 0 ? left / job->samples_per_s : NAN;
  read_command(job, root);
}

/* ---- All pages ---- */

static hd_status add_job(hd_job **out, found *f, hd_ctx *ctx, const hd_job_facts *facts, const struct stat *file) {
  if (f->jobs->count == f->room) {
    const int room = f->room ? 2 * f->room : 8;
    hd_job *job = hd__realloc(f->jobs->job, (size_t)room * sizeof *job);
    f->jobs->job = job ? job : f->jobs->job;
    void *page = job ? hd__realloc(f->page, (size_t)room * sizeof *f->page) : NULL;
    HD_TRY(HD_ALLOCATED(page, ctx, "out of memory for the list of jobs"));
    f->page = page;
    f->room = room;
  }
  const int at = f->jobs->count++;
  f->page[at].device = file->st_dev;
  f->page[at].inode = file->st_ino;
  *out = &f->jobs->job[at];
  **out = (hd_job){0};
  convert_facts(*out, facts);
  return HD_OK;
}

static hd_status add_rank(hd_job *job, hd_ctx *ctx, const hd_job_slot *slot, int rank, const holder *process) {
  hd_job_rank *grown = hd__realloc(job->rank, (size_t)(job->ranks + 1) * sizeof *grown);
  HD_TRY(HD_ALLOCATED(grown, ctx, "out of memory for the ranks of a job"));
  job->rank = grown;
  int at = job->ranks;
  for (; at > 0 && grown[at - 1].rank > rank; at--)
    ;
  hd_job_rank converted;
  HD_TRY(convert_rank(&converted, ctx, slot, rank, process));
  memmove(&grown[at + 1], &grown[at], (size_t)(job->ranks - at) * sizeof *grown);
  grown[at] = converted;
  job->ranks++;
  return HD_OK;
}

static hd_status take_page(found *f, hd_ctx *ctx, int fd, const struct stat *file, const holder *process) {
  hd_job_head head;
  hd_job_slot slot;
  int rank, at = 0;
  if (!read_head(&head, fd, file))
    return HD_OK;
  while (at < f->jobs->count && (f->page[at].device != file->st_dev || f->page[at].inode != file->st_ino))
    at++;
  hd_job *job = at < f->jobs->count ? &f->jobs->job[at] : NULL;
  if (!find_slot(&slot, &rank, fd, &head, process, job ? job->rank[job->ranks - 1].rank + 1 : 0))
    return HD_OK;
  for (int i = 0; job && i < job->ranks; i++)
    if (job->rank[i].pid == process->pid)
      return HD_OK; /* the process holds the page twice */
  if (!job)
    HD_TRY(add_job(&job, f, ctx, &head.facts, file));
  return add_rank(job, ctx, &slot, rank, process);
}

/* Opens the file behind a descriptor of another process if it is a memory file of heddle's name. First without read
 * permission, so that a different file that took its place is not touched. */
static int open_page(const char *path, struct stat *file) {
  static const char name[] = HD_JOB_LINK;
  char link[sizeof name + 1], self[64];
  errno = 0;
  if (readlink(path, link, sizeof link) != sizeof name - 1 || memcmp(link, name, sizeof name - 1))
    return -1;
  int handle = open(path, O_PATH | O_CLOEXEC), fd = -1;
  if (handle < 0)
    return -1;
  snprintf(self, sizeof self, "/proc/self/fd/%d", handle);
  if (fstat(handle, file) == 0 && S_ISREG(file->st_mode))
    fd = open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  close(handle);
  if (fd >= 0 && fstat(fd, file) == 0)
    return fd;
  if (fd >= 0)
    close(fd);
  return -1;
}

/* Jobs that cannot be seen for lack of descriptors must not count as jobs that do not run. */
static hd_status check_descriptors(hd_ctx *ctx, const char *path) {
  return errno == EMFILE || errno == ENFILE ? hd__file_error(ctx, path, "look for jobs") : HD_OK;
}

/* The process's number in its PID namespace: the last number of the line NSpid. */
static int ns_pid(const char *root, int pid) {
  char text[4096];
  read_text(text, sizeof text, root, pid, "status");
  const char *line = strstr(text, "\nNSpid:");
  int number_there = pid;
  for (char *end, *at = line ? (char *)line + 7 : NULL; at && *at && *at != '\n'; at = end) {
    const long number = strtol(at, &end, 10);
    if (end == at)
      break;
    number_there = (int)number;
  }
  return number_there;
}

static hd_status read_process(found *f, hd_ctx *ctx, int pid) {
  char path[PATH_BYTES], descriptor[PATH_BYTES];
  DIR *folder = opendir(path_of(path, f->root, pid, "fd")); /* refused for processes of other users */
  hd_status status = folder ? HD_OK : check_descriptors(ctx, path);
  holder process = {.pid = pid};
  int pages = 0;
  for (struct dirent *entry; folder && status == HD_OK && pages < MOST_PAGES && (entry = readdir(folder));) {
    struct stat file;
    if (snprintf(descriptor, sizeof descriptor, "%s/%s", path, entry->d_name) >= (int)sizeof descriptor)
      continue;
    const int fd = open_page(descriptor, &file);
    if (fd < 0) {
      status = check_descriptors(ctx, descriptor);
      continue;
    }
    if (pages++ == 0) {
      process.ns_pid = ns_pid(f->root, pid);
      process.start = hd__process_start(pid);
    }
    status = take_page(f, ctx, fd, &file, &process);
    close(fd);
  }
  if (folder)
    closedir(folder);
  return status;
}

static int by_age(const void *left, const void *right) {
  const hd_job *a = left, *b = right;
  if (a->start != b->start)
    return a->start < b->start ? -1 : 1;
  return (a->pid > b->pid) - (a->pid < b->pid);
}

hd_status hd__jobs_find(hd_jobs *jobs, hd_ctx *ctx, const char *root) {
  found f = {.root = root, .jobs = jobs};
  char path[PATH_BYTES];
  errno = 0;
  DIR *folder = snprintf(path, sizeof path, "%s/proc", root) < PATH_BYTES ? opendir(path) : NULL;
  hd_status status = folder ? HD_OK : check_descriptors(ctx, path);
  for (struct dirent *entry; folder && status == HD_OK && (entry = readdir(folder));) {
    char *end;
    const long pid = strtol(entry->d_name, &end, 10);
    if (!*end && pid > 0)
      status = read_process(&f, ctx, (int)pid);
  }
  if (folder)
    closedir(folder);
  hd__free(f.page);
  for (int i = 0; i < jobs->count && status == HD_OK; i++)
    add_ranks(&jobs->job[i], root);
  if (status == HD_OK && jobs->count > 1)
    qsort(jobs->job, (size_t)jobs->count, sizeof *jobs->job, by_age);
  return status;
}

void hd__jobs_fini(hd_jobs *jobs) {
  for (int i = 0; i < jobs->count; i++) {
    for (int rank = 0; rank < jobs->job[i].ranks; rank++)
      hd__free(jobs->job[i].rank[rank].cpu);
    hd__free(jobs->job[i].rank);
  }
  hd__free(jobs->job);
  *jobs = (hd_jobs){0};
}

hd_status hd_job_signal(hd_ctx *ctx, const hd_job *job, int number) {
  int sent = 0, error = ESRCH;
  for (int i = 0; i < job->ranks; i++) {
    const int failed = hd__process_signal(job->rank[i].pid, job->rank[i].start, number);
    sent += failed == 0;
    error = failed && failed != ESRCH ? failed : error;
  }
  if (sent > 0)
    return HD_OK;
  if (error == ESRCH)
    return hd__fail(ctx, HD_E_SYSTEM, "expected a running job, found that job %d has ended; there is nothing to do",
                    job->pid);
  return hd__fail(ctx, HD_E_SYSTEM, "cannot signal job %d: %s; only its user and root may", job->pid, strerror(error));
}
