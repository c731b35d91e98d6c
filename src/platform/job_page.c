/* Creating and writing the job page: see job_page.h. */
#include "platform/job_page.h"

#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/memory_file.h"
#include "platform/process.h"

enum { SLOT_ALIGN = 128 };

/* The window over which the speed is measured. */
static const double WINDOW_S = 0.25;

static size_t aligned(size_t bytes) { return (bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN; }

static size_t page_bytes(int ranks) {
  return aligned(sizeof(hd_job_head)) + (size_t)ranks * aligned(sizeof(hd_job_slot));
}

static void begin_write(hd_job_slot *slot) {
  uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
  atomic_store_explicit(&slot->sequence, sequence + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
}

static void end_write(hd_job_slot *slot) {
  uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
  atomic_store_explicit(&slot->sequence, sequence + 1, memory_order_release);
}

static void write_head(hd_job_page *page, int ranks, const hd_job_facts *facts) {
  hd_job_head *head = page->head;
  head->version = HD_JOB_VERSION;
  head->ranks = (uint32_t)ranks;
  head->slot_offset = (uint32_t)aligned(sizeof *head);
  head->slot_bytes = (uint32_t)aligned(sizeof *page->slot);
  head->facts = *facts;
  atomic_store_explicit(&head->magic, HD_JOB_MAGIC, memory_order_release); /* now the page is valid */
}

static void take_slot(hd_job_page *page, int rank) {
  hd_job_slot *slot = (void *)((char *)page->head + aligned(sizeof *page->head) + (size_t)rank * aligned(sizeof *slot));
  page->slot = slot;
  begin_write(slot);
  slot->pid = (int32_t)getpid();
  slot->start = hd__process_start(0);
  slot->progress = (hd_job_progress){.state = HD_JOB_READY, .loss = NAN, .samples_per_s = NAN};
  end_write(slot);
}

/* Maps the file, which the page then owns; on failure there is no page. */
static bool map(hd_job_page *page, int fd, size_t bytes) {
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED)
    close(fd);
  else
    *page = (hd_job_page){.fd = fd, .bytes = bytes, .head = base};
  return base != MAP_FAILED;
}

void hd__job_open(hd_job_page *page, int ranks, const hd_job_facts *facts) {
  const size_t bytes = page_bytes(ranks);
  *page = (hd_job_page){0};
  int fd = hd__memory_file(HD_JOB_FILE, (int64_t)bytes, false);
  if (fd < 0 || !map(page, fd, bytes))
    return;
  take_slot(page, 0);
  write_head(page, ranks, facts);
}

/* Whether the file is a job page in which this rank has a slot: a memory file of this user, sealed in size, with a
 * valid head. The numbers of the process and of its descriptor may mean something else by now, or in another
 * container. */
static bool is_page(int fd, off_t *bytes, int rank) {
  hd_job_head head;
  struct stat file;
  char link[64], name[64] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, name, sizeof name - 1) <= 0 || strcmp(name, HD_JOB_LINK) || fstat(fd, &file) != 0 ||
      !S_ISREG(file.st_mode) || file.st_uid != geteuid() || !hd__memory_file_is_fixed(fd, false) ||
      pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
    return false;
  *bytes = file.st_size;
  return head.magic == HD_JOB_MAGIC && head.version == HD_JOB_VERSION && rank >= 0 && (uint32_t)rank < head.ranks &&
         head.ranks <= HD_JOB_MOST_RANKS && (uint64_t)file.st_size >= page_bytes((int)head.ranks);
}

/* Opens the file of another process's descriptor without blocking: it may be a pipe or a device by now. */
void hd__job_join(hd_job_page *page, int pid, int fd, int rank) {
  char path[64];
  off_t bytes = 0;
  *page = (hd_job_page){0};
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  int opened = fd < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened < 0)
    return;
  if (!is_page(opened, &bytes, rank))
    close(opened);
  else if (map(page, opened, (size_t)bytes))
    take_slot(page, rank);
}

void hd__job_close(hd_job_page *page) {
  if (!page->head)
    return;
  munmap(page->head, page->bytes);
  close(page->fd);
  *page = (hd_job_page){0};
}

void hd__job_threads(hd_job_page *page, const int *cpu, int threads) {
  hd_job_slot *slot = page->slot;
  if (!slot)
    return;
  begin_write(slot);
  slot->threads = threads < HD_MAX_THREADS ? threads : HD_MAX_THREADS;
  for (int i = 0; i < slot->threads; i++)
    slot->cpu[i] = cpu[i];
  end_write(slot);
}

void hd__job_enter(hd_job_page *page, int state) {
  hd_job_slot *slot = page->slot;
  if (!slot)
    return;
  const double now = hd__clock_coarse_s();
  const bool trained = slot->progress.state == HD_JOB_TRAINING, trains = state == HD_JOB_TRAINING;
  if (trains && !trained)
    page->window_s += now - page->pause_s;
  else if (trained && !trains)
    page->pause_s = now;
  begin_write(slot);
  slot->progress.state = state;
  end_write(slot);
}

void hd__job_step(hd_job_page *page, int64_t step, int64_t epoch, int64_t samples, double loss) {
  hd_job_slot *slot = page->slot;
  if (!slot)
    return;
  const double now = hd__clock_coarse_s(), seconds = now - page->window_s;
  begin_write(slot);
  slot->progress.step = step;
  slot->progress.epoch = epoch;
  slot->progress.loss = loss;
  if (slot->progress.state == HD_JOB_TRAINING && seconds >= WINDOW_S) {
    slot->progress.samples_per_s = (double)(samples - page->window_samples) / seconds;
    page->window_s = now;
    page->window_samples = samples;
  }
  end_write(slot);
}
