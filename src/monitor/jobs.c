/* Reading the pages of jobs: see jobs.h. A page is never mapped, and nothing in it is believed unseen. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "monitor/jobs.h"

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
#include "sys/job_page.h"
#include "sys/process.h"

/* What one process may show, how far into a page its slots may lie, and how often a slot is read that changes. */
enum { MOST_PAGES = 64, MOST_OFFSET = 1 << 20, ATTEMPTS = 100, PATH_BYTES = 1024 };

/* A process that holds a page. */
typedef struct holder {
  int pid, own_pid; /* the latter as it numbers itself, in a container of its own say */
  uint64_t start;
} holder;

/* What is known of the jobs found so far beside what is told. */
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

/* A slot as it was at one moment; false while its writer is in the middle of it. */
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

/* Whose slot it is never changes, so this much may be read without asking for the sequence. */
static bool is_slot_of(const holder *who, int fd, uint64_t offset) {
  hd_job_slot slot;
  const size_t bytes = offsetof(hd_job_slot, progress);
  return read_all(&slot, bytes, fd, offset) && slot.pid == who->own_pid && slot.start == who->start;
}

/* The holder's slot, its rank in *rank. Ranks are found in order mostly, so the search begins behind the last one. */
static bool find_slot(hd_job_slot *slot, int *rank, int fd, const hd_job_head *head, const holder *who, int first) {
  for (uint32_t i = 0; i < head->ranks; i++) {
    *rank = (int)(((uint32_t)first + i) % head->ranks);
    const uint64_t offset = head->slot_offset + (uint64_t)*rank * head->slot_bytes;
    if (is_slot_of(who, fd, offset))
      return read_slot(slot, fd, offset);
  }
  return false;
}

/* ---- What it says, made fit to be told ---- */

static int64_t at_least(int64_t least, int64_t value) { return value < least ? least : value; }

static double speed(double samples_per_s) { return samples_per_s >= 0 && samples_per_s < 1e15 ? samples_per_s : NAN; }

static hd_status tell_rank(hd_job_rank *out, hd_ctx *ctx, const hd_job_slot *slot, int rank, const holder *who) {
  static const char *const state[HD_JOB_STATES] = {"ready", "training", "evaluating", "saving"};
  const hd_job_progress *p = &slot->progress;
  const int lanes = slot->lanes < 0 ? 0 : slot->lanes > HD_MAX_THREADS ? HD_MAX_THREADS : slot->lanes;
  *out = (hd_job_rank){.rank = rank,
                       .pid = who->pid,
                       .start = who->start,
                       .state = p->state >= 0 && p->state < HD_JOB_STATES ? state[p->state] : state[HD_JOB_READY],
                       .step = at_least(0, p->step),
                       .epoch = at_least(0, p->epoch),
                       .loss = isfinite(p->loss) ? p->loss : NAN,
                       .samples_per_s = speed(p->samples_per_s),
                       .lanes = lanes,
                       .cpu = hd__malloc((size_t)(lanes + 1) * sizeof *out->cpu)};
  if (!out->cpu)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the lanes of a job");
  for (int i = 0; i < lanes; i++)
    out->cpu[i] = slot->cpu[i] < 0 ? -1 : slot->cpu[i];
  return HD_OK;
}

static void tell_facts(hd_job *job, const hd_job_facts *facts) {
  hd__utf8_clean(job->model, sizeof job->model, facts->model, sizeof facts->model);
  hd__utf8_clean(job->data, sizeof job->data, facts->data, sizeof facts->data);
  hd__utf8_clean(job->isa, sizeof job->isa, facts->isa, sizeof facts->isa);
  hd__utf8_clean(job->device, sizeof job->device, facts->device, sizeof facts->device);
  hd__utf8_clean(job->out, sizeof job->out, facts->out, sizeof facts->out);
  job->batch = at_least(1, facts->batch);
  job->epochs = at_least(0, facts->epochs);
  job->steps = at_least(0, facts->steps);
}

/* A file or folder of a process; "" if that is too long. */
static const char *path_of(char path[PATH_BYTES], const char *root, int pid, const char *name) {
  if (snprintf(path, PATH_BYTES, "%s/proc/%d/%s", root, pid, name) >= PATH_BYTES)
    path[0] = 0;
  return path;
}

static size_t read_text(char *text, size_t bytes, const char *root, int pid, const char *file) {
  char path[PATH_BYTES];
  FILE *from = fopen(path_of(path, root, pid, file), "re");
  const size_t got = from ? fread(text, 1, bytes - 1, from) : 0;
  if (from)
    fclose(from);
  text[got] = 0;
  return got;
}

/* Its words, parted by blanks. */
static void tell_command(hd_job *job, const char *root) {
  char text[HD_LOOK_PATH_BYTES];
  size_t got = read_text(text, sizeof text, root, job->pid, "cmdline");
  while (got > 0 && !text[got - 1])
    got--;
  for (size_t i = 0; i < got; i++)
    text[i] = text[i] ? text[i] : ' ';
  hd__utf8_clean(job->command, sizeof job->command, text, got);
}

/* What the ranks come to together: the first one leads. */
static void sum_up(hd_job *job, const char *root) {
  const hd_job_rank *lead = &job->rank[0];
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  job->pid = lead->pid;
  job->start = lead->start;
  job->state = lead->state;
  job->step = lead->step;
  job->epoch = lead->epoch;
  job->loss = lead->loss;
  job->lanes = 0;
  job->samples_per_s = 0;
  for (int i = 0; i < job->ranks; i++) {
    job->lanes += job->rank[i].lanes;
    job->samples_per_s += job->rank[i].samples_per_s;
  }
  const double age = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  job->elapsed_s = fmax(age - (double)lead->start / (double)sysconf(_SC_CLK_TCK), 0);
  const double left = (double)at_least(0, job->steps - job->step) * (double)job->batch;
  job->left_s = job->samples_per_s > 0 ? left / job->samples_per_s : NAN;
  tell_command(job, root);
}

/* ---- All pages ---- */

static hd_status add_job(hd_job **out, found *f, hd_ctx *ctx, const hd_job_facts *facts, const struct stat *file) {
  if (f->jobs->count == f->room) {
    const int room = f->room ? 2 * f->room : 8;
    hd_job *job = hd__realloc(f->jobs->job, (size_t)room * sizeof *job);
    f->jobs->job = job ? job : f->jobs->job;
    void *page = job ? hd__realloc(f->page, (size_t)room * sizeof *f->page) : NULL;
    if (!page)
      return hd__fail(ctx, HD_E_NOMEM, "out of memory for the list of jobs");
    f->page = page;
    f->room = room;
  }
  const int at = f->jobs->count++;
  f->page[at].device = file->st_dev;
  f->page[at].inode = file->st_ino;
  *out = &f->jobs->job[at];
  **out = (hd_job){0};
  tell_facts(*out, facts);
  return HD_OK;
}

static hd_status add_rank(hd_job *job, hd_ctx *ctx, const hd_job_slot *slot, int rank, const holder *who) {
  hd_job_rank *grown = hd__realloc(job->rank, (size_t)(job->ranks + 1) * sizeof *grown);
  if (!grown)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the ranks of a job");
  job->rank = grown;
  int at = job->ranks;
  for (; at > 0 && grown[at - 1].rank > rank; at--)
    ;
  hd_job_rank told;
  HD_TRY(tell_rank(&told, ctx, slot, rank, who));
  memmove(&grown[at + 1], &grown[at], (size_t)(job->ranks - at) * sizeof *grown);
  grown[at] = told;
  job->ranks++;
  return HD_OK;
}

static hd_status take_page(found *f, hd_ctx *ctx, int fd, const struct stat *file, const holder *who) {
  hd_job_head head;
  hd_job_slot slot;
  int rank, at = 0;
  if (!read_head(&head, fd, file))
    return HD_OK;
  while (at < f->jobs->count && (f->page[at].device != file->st_dev || f->page[at].inode != file->st_ino))
    at++;
  hd_job *job = at < f->jobs->count ? &f->jobs->job[at] : NULL;
  if (!find_slot(&slot, &rank, fd, &head, who, job ? job->rank[job->ranks - 1].rank + 1 : 0))
    return HD_OK;
  for (int i = 0; job && i < job->ranks; i++)
    if (job->rank[i].pid == who->pid)
      return HD_OK; /* the process holds the page twice */
  if (!job)
    HD_TRY(add_job(&job, f, ctx, &head.facts, file));
  return add_rank(job, ctx, &slot, rank, who);
}

/* Opens the file behind a descriptor of another process if it is a memory file of our name. First without reading
 * rights: whatever took its place meanwhile is not touched. */
static int open_page(const char *path, struct stat *file) {
  static const char name[] = "/memfd:" HD_JOB_FILE " (deleted)";
  char link[sizeof name + 1], self[64];
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

/* The number that the process has in its own world: the last one of the line NSpid. */
static int own_pid(const char *root, int pid) {
  char text[4096];
  read_text(text, sizeof text, root, pid, "status");
  const char *line = strstr(text, "\nNSpid:");
  int own = pid;
  for (char *end, *at = line ? (char *)line + 7 : NULL; at && *at && *at != '\n'; at = end) {
    const long number = strtol(at, &end, 10);
    if (end == at)
      break;
    own = (int)number;
  }
  return own;
}

static hd_status look_at_process(found *f, hd_ctx *ctx, int pid) {
  char path[PATH_BYTES], descriptor[PATH_BYTES];
  DIR *folder = opendir(path_of(path, f->root, pid, "fd")); /* refused for those of other users */
  hd_status status = HD_OK;
  holder who = {.pid = pid};
  int pages = 0;
  for (struct dirent *entry; folder && status == HD_OK && pages < MOST_PAGES && (entry = readdir(folder));) {
    struct stat file;
    if (snprintf(descriptor, sizeof descriptor, "%s/%s", path, entry->d_name) >= (int)sizeof descriptor)
      continue;
    const int fd = open_page(descriptor, &file);
    if (fd < 0)
      continue;
    if (pages++ == 0) {
      who.own_pid = own_pid(f->root, pid);
      who.start = hd__process_start(pid);
    }
    status = take_page(f, ctx, fd, &file, &who);
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
  hd_status status = HD_OK;
  DIR *folder = snprintf(path, sizeof path, "%s/proc", root) < PATH_BYTES ? opendir(path) : NULL;
  for (struct dirent *entry; folder && status == HD_OK && (entry = readdir(folder));) {
    char *end;
    const long pid = strtol(entry->d_name, &end, 10);
    if (!*end && pid > 0)
      status = look_at_process(&f, ctx, (int)pid);
  }
  if (folder)
    closedir(folder);
  hd__free(f.page);
  for (int i = 0; i < jobs->count && status == HD_OK; i++)
    sum_up(&jobs->job[i], root);
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
    return hd__fail(ctx, HD_E_SYSTEM, "expected job %d to run, found that it has ended; there is nothing to do",
                    job->pid);
  return hd__fail(ctx, HD_E_SYSTEM, "expected to signal job %d, found: %s; only its user and root may", job->pid,
                  strerror(error));
}
