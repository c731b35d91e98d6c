/* Running jobs, by their status pages: a job of this process, one of three processes, one that is killed; and pages
 * that are torn, foreign, cut off or false. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "tools/monitor/jobs.h"
#include "platform/job_page.h"
#include "platform/process.h"

static hd_ctx *ctx;
static hd_jobs jobs;

static const hd_job_facts facts = {.model = "cnn",
                                   .data = "digits",
                                   .isa = "avx2",
                                   .device = "cpu",
                                   .out = "/runs/cnn-1",
                                   .batch = 64,
                                   .epochs = 3,
                                   .steps = 1000};

/* Looks again; how many jobs there are of this process or of a child of the test. Others may run on the machine. */
static pid_t child[8];
static int children;

static int is_ours(int pid) {
  int found = pid == getpid();
  for (int i = 0; i < children; i++)
    found |= pid == child[i];
  return found;
}

static hd_job *found;

static int look(void) {
  int count = 0;
  hd__jobs_fini(&jobs);
  if (hd__jobs_find(&jobs, ctx, "") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int i = 0; i < jobs.count; i++)
    if (is_ours(jobs.job[i].pid)) {
      found = &jobs.job[i];
      count++;
    }
  return count;
}

/* A process that does `work` with the page and then waits to be killed. */
static pid_t start_child(void (*work)(hd_job_page *page, int rank), hd_job_page *page, int rank) {
  int ready[2];
  char byte;
  if (pipe(ready) != 0)
    bail_out("no pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (work)
      work(page, rank);
    (void)!write(ready[1], "!", 1);
    for (;;)
      pause();
  }
  close(ready[1]);
  if (pid < 0 || read(ready[0], &byte, 1) != 1)
    bail_out("no child");
  close(ready[0]);
  return child[children++] = pid;
}

static void end_children(void) {
  for (int i = 0; i < children; i++)
    if (waitpid(child[i], NULL, WNOHANG) == 0) {
      kill(child[i], SIGKILL);
      waitpid(child[i], NULL, 0);
    }
  children = 0;
}

static void test_own(void) {
  hd_job_page page;
  const int cpus[3] = {2, 0, -1};
  is_int(look(), 0, "no job");
  hd__jobs_fini(&jobs);
  const held before = held_now();
  hd__job_open(&page, 1, &facts);
  is_int(look(), 1, "a job of this process");
  is_int(found->pid, getpid(), "has its number");
  ok(found->start > 0 && found->start == hd__process_start(getpid()), "and its start");
  is_str(found->model, "cnn", "model");
  is_str(found->data, "digits", "data");
  is_str(found->isa, "avx2", "instruction set");
  is_str(found->out, "/runs/cnn-1", "folder");
  is_int(found->state, HD_JOB_READY, "state");
  ok(strstr(found->command, "test_jobs"), "command: %s", found->command);
  ok(isnan(found->loss) && isnan(found->samples_per_s) && isnan(found->left_s), "its speed is not known yet");
  ok(found->steps == 1000 && found->epochs == 3 && found->batch == 64, "where it is heading");
  ok(found->elapsed_s >= 0 && found->elapsed_s < 3600, "since when");
  hd__job_threads(&page, cpus, 3);
  hd__job_enter(&page, HD_JOB_TRAINING);
  page.window_s -= 2; /* as if it had begun two seconds ago */
  hd__job_step(&page, 200, 1, 12800, 0.25);
  is_int(look(), 1, "it has come on");
  ok(found->step == 200 && found->epoch == 1 && found->loss == 0.25, "step, epoch, loss");
  is_int(found->state, HD_JOB_TRAINING, "state");
  near(found->samples_per_s, 6400, 200, "12800 samples in 2 s");
  near(found->left_s, 800 * 64 / found->samples_per_s, 1e-9, "800 steps are left");
  is_int(found->ranks, 1, "one rank");
  ok(found->rank[0].threads == 3 && found->threads == 3 && !memcmp(found->rank[0].cpu, cpus, sizeof cpus),
     "threads and CPUs");
  const double speed = found->samples_per_s;
  hd__job_enter(&page, HD_JOB_EVALUATING);
  page.pause_s -= 10; /* ten seconds of evaluation */
  hd__job_enter(&page, HD_JOB_TRAINING);
  hd__job_step(&page, 201, 1, 12864, 0.25);
  is_int(look(), 1, "after a pause");
  near(found->samples_per_s, speed, 0, "the speed is that of training alone");
  hd__job_close(&page);
  is_int(look(), 0, "gone");
  hd__jobs_fini(&jobs);
  holds_same(before, "with all that it took");
  hd__job_close(&page);
  hd__job_step(&page, 1, 1, 1, 1);
  hd__job_enter(&page, HD_JOB_SAVING);
  pass("a page that is none takes everything");
}

static void be_rank(hd_job_page *page, int rank) {
  page->slot = (void *)((char *)page->head + page->head->slot_offset + (size_t)rank * page->head->slot_bytes);
  page->slot->pid = (int32_t)getpid();
  page->slot->start = hd__process_start(0);
  page->slot->progress = (hd_job_progress){.step = 7 + rank, .samples_per_s = 100, .state = HD_JOB_TRAINING};
  page->slot->threads = 2;
}

static void test_ranks(void) {
  hd_job_page page;
  hd__job_open(&page, 3, &facts);
  for (int rank = 2; rank >= 0; rank--)
    start_child(be_rank, &page, rank);
  start_child(NULL, NULL, 0);
  is_int(look(), 1, "a job of three ranks is one; this process and a child that hold its page are none");
  ok(found->ranks == 3 && found->rank[0].rank == 0 && found->rank[2].rank == 2, "its ranks are in order");
  is_int(found->pid, found->rank[0].pid, "its process is that of rank 0");
  ok(found->step == 7 && found->samples_per_s == 100 && found->threads == 6,
     "threads add up; the speed of a rank is the run's");
  near(found->left_s, (1000 - 7) * 64 / 100.0, 1e-9, "993 steps are left");
  const hd_job_rank dead = found->rank[1];
  kill(dead.pid, SIGKILL);
  waitpid(dead.pid, NULL, 0);
  is_int(look(), 1, "one rank is killed");
  ok(found->ranks == 2 && found->rank[1].rank == 2, "the others are still listed");
  is_int(hd__process_signal(dead.pid, dead.start, SIGTERM), ESRCH, "a process that has ended cannot be signalled");
  hd__job_close(&page);
  is_int(hd_job_signal(ctx, found, SIGKILL), HD_OK, "a signal to the job");
  int signalled = 0, status;
  for (int i = 0; i < 3; i++)
    if (child[i] != dead.pid && waitpid(child[i], &status, 0) == child[i])
      signalled += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  is_int(signalled, 2, "reaches all its ranks");
  refuses(hd_job_signal(ctx, found, SIGKILL), HD_E_SYSTEM, ctx, "", "has ended", "a job that has ended");
  is_int(look(), 0, "nothing is left behind");
  end_children();
}

static void test_identity(void) {
  const pid_t pid = start_child(NULL, NULL, 0);
  const uint64_t start = hd__process_start(pid);
  int status;
  is_int(hd__process_signal(pid, start + 1, SIGKILL), ESRCH, "a process with another start is another process");
  is_int(hd__process_signal(pid, 0, SIGKILL), ESRCH, "as is one without");
  is_int(hd__process_signal(0, start, SIGKILL), ESRCH, "0 is no process");
  is_int(hd__process_signal(-1, start, SIGKILL), ESRCH, "nor is -1");
  is_int(waitpid(pid, &status, WNOHANG), 0, "it is alive");
  is_int(hd__process_signal(pid, start, SIGKILL), 0, "the right one");
  is_int(waitpid(pid, &status, 0), pid, "is dead");
  children = 0;
  is_int(hd__process_start(pid), 0, "and has no start any more");
  const pid_t stranger = geteuid() == 0 ? fork() : -1;
  if (stranger == 0)
    _exit(setuid(65534) == 0 ? hd__process_signal(getppid(), hd__process_start(getppid()), 0) : 0);
  if (stranger > 0)
    ok(waitpid(stranger, &status, 0) == stranger && WEXITSTATUS(status) == EPERM, "another user's is out of reach");
  else
    skip(1, "cannot become another user");
}

static void *stay(void *arg) {
  for (;;)
    pause();
  return arg;
}

/* Until it is as expected, 10 s at most. */
static hd_process_state await_look(pid_t pid, uint64_t start, char state, bool lingers) {
  const struct timespec rest = {.tv_nsec = 1000000};
  hd_process_state look = hd__process_read(pid, start);
  for (int i = 0; i < 10000 && (look.state != state || look.lingers != lingers); i++) {
    nanosleep(&rest, NULL);
    look = hd__process_read(pid, start);
  }
  return look;
}

/* The state of a process is that of its first thread; another one may still write to the disk. */
static void test_lingering(void) {
  const pid_t pid = fork();
  pthread_t thread;
  if (pid == 0) {
    if (pthread_create(&thread, NULL, stay, NULL) != 0)
      _exit(1);
    pthread_exit(NULL);
  }
  const uint64_t start = hd__process_start(pid);
  hd_process_state look = await_look(pid, start, 'Z', true);
  ok(look.has_ended && look.lingers, "a process whose first thread alone has ended lingers");
  kill(pid, SIGKILL);
  look = await_look(pid, start, 'Z', false);
  ok(look.has_ended && !look.lingers, "and is gone with the last one");
  waitpid(pid, NULL, 0);
  look = hd__process_read(pid, start);
  ok(look.has_ended && !look.lingers, "as is one that was waited for");
}

/* ---- Pages that are not what they should be ---- */

typedef struct forgery {
  const char *name;
  void (*forge)(hd_job_page *page);
  int seen;
} forgery;

static void forge_magic(hd_job_page *p) { p->head->magic = 0; }
static void forge_version(hd_job_page *p) { p->head->version = HD_JOB_VERSION + 1; }
static void forge_no_ranks(hd_job_page *p) { p->head->ranks = 0; }
static void forge_ranks(hd_job_page *p) { p->head->ranks = UINT32_MAX; }
static void forge_offset(hd_job_page *p) { p->head->slot_offset = UINT32_MAX - 8; }
static void forge_stride(hd_job_page *p) { p->head->slot_bytes = 1; }
static void forge_large_stride(hd_job_page *p) { p->head->slot_bytes = UINT32_MAX; }
static void forge_outside(hd_job_page *p) { p->head->ranks = 2; }
static void forge_writing(hd_job_page *p) { p->slot->sequence++; }
static void forge_pid(hd_job_page *p) { p->slot->pid = 1; }
static void forge_start(hd_job_page *p) { p->slot->start++; }
static void forge_slot_in_head(hd_job_page *p) { p->head->slot_offset = 0; }

static void forge_lies(hd_job_page *p) {
  memset(&p->head->facts, 0xff, sizeof p->head->facts);
  memset(&p->slot->progress, 0xff, sizeof p->slot->progress);
  memset(p->slot->cpu, 0x80, sizeof p->slot->cpu);
  p->slot->threads = INT32_MAX;
  p->slot->progress.step = INT64_MIN;
  p->slot->progress.samples_per_s = -1e300;
}

static void test_forgeries(void) {
  static const forgery list[] = {{"no magic yet", forge_magic, 0},
                                 {"another version", forge_version, 0},
                                 {"no rank", forge_no_ranks, 0},
                                 {"four billion ranks", forge_ranks, 0},
                                 {"slots far away", forge_offset, 0},
                                 {"tiny slots", forge_stride, 0},
                                 {"huge slots", forge_large_stride, 0},
                                 {"a slot beyond the end", forge_outside, 0},
                                 {"a writer that never ends", forge_writing, 0},
                                 {"the number of another process", forge_pid, 0},
                                 {"another start", forge_start, 0},
                                 {"a slot on top of the head", forge_slot_in_head, 0},
                                 {"lies in every field", forge_lies, 1}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
    hd_job_page page;
    hd__job_open(&page, 1, &facts);
    list[i].forge(&page);
    is_int(look(), list[i].seen, "%s: %s", list[i].name,
           list[i].seen ? "listed with its well-formed values" : "passed over");
    hd__job_close(&page);
  }
  hd_job_page page;
  hd__job_open(&page, 1, &facts);
  forge_lies(&page);
  look();
  ok(!strncmp(found->model, "???", 3) && !strncmp(found->out, "???", 3), "text that is none: question marks");
  ok(found->step == 0 && found->steps == 0 && isnan(found->loss) && isnan(found->samples_per_s),
     "numbers that cannot be");
  ok(found->threads == HD_MAX_THREADS && found->rank[0].cpu[0] == -1, "threads");
  is_int(found->state, HD_JOB_READY, "state");
  hd__job_close(&page);
}

/* Files of the right name that are no pages at all. */
static void test_files(void) {
  const int empty = memfd_create(HD_JOB_FILE, MFD_CLOEXEC), junk = memfd_create(HD_JOB_FILE, MFD_CLOEXEC);
  const int other = memfd_create("heddle-job2", MFD_CLOEXEC);
  char noise[512];
  memset(noise, 0x5a, sizeof noise);
  if (empty < 0 || junk < 0 || write(junk, noise, sizeof noise) != (ssize_t)sizeof noise)
    bail_out("no memory file");
  is_int(look(), 0, "an empty file, and a short one of noise");
  hd_job_page page;
  hd__job_open(&page, 1, &facts);
  ok(ftruncate(page.fd, 10) != 0 && ftruncate(page.fd, 1 << 20) != 0, "a page can neither shrink nor grow");
  is_int(fcntl(page.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC, "nor does it go to programs that the job starts");
  const int twice = dup(page.fd);
  is_int(look(), 1, "a page that is held twice is one job");
  is_int(found->ranks, 1, "of one rank");
  close(twice);
  hd_job_page second;
  hd__job_open(&second, 1, &facts);
  is_int(look(), 2, "two sessions of a process are two jobs");
  hd__job_close(&second);
  hd__job_close(&page);
  close(empty);
  close(junk);
  close(other);
  for (int i = 0; i < 100; i++)
    hd__job_open(&second, 1, &facts);
  is_int(look(), 64, "a process shows 64 jobs at most");
  for (int fd = 3; fd < 1024; fd++) {
    char path[64], link[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, link, sizeof link - 1) > 0 && strstr(link, HD_JOB_FILE))
      close(fd);
  }
  is_int(look(), 0, "all gone");
}

/* A writer at full speed never lets a reader see a partial step. */
static void test_torn(void) {
  hd_job_page page;
  int torn = 0, seen = 0;
  hd__job_open(&page, 1, &facts);
  hd__job_step(&page, 0, 0, 0, 0); /* before, its loss is not known */
  const pid_t writer = fork();
  if (writer == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
    for (int64_t i = 0;; i++)
      hd__job_step(&page, i, i, i, (double)i);
  child[children++] = writer;
  for (int i = 0; i < 500; i++) {
    if (look() != 1)
      continue;
    seen++;
    torn += found->step != found->epoch || (double)found->step != found->loss;
  }
  end_children();
  ok(seen > 0, "a page that changes all the time was read %d times", seen);
  is_int(torn, 0, "and never a partial step");
  hd__job_close(&page);
}

static void test_strangers(void) {
  hd_job_page page;
  hd__job_open(&page, 1, &facts);
  if (lose_rights()) {
    hd__jobs_fini(&jobs);
    is_int(hd__jobs_find(&jobs, ctx, ""), HD_OK, "as another user: processes that cannot be read are passed over");
    regain_rights();
  } else {
    skip(1, "cannot become another user");
  }
  hd__job_close(&page);
}

/* The descriptor of the page may refer to another file by now, which is not changed. */
static void test_not_a_page(void) {
  enum { PAGE = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, BYTES = 64 << 10 };
  static const struct {
    const char *name;
    int bytes, seals;
    uint64_t magic;
    uint32_t version, ranks;
    const char *what;
  } files[] = {{HD_JOB_FILE, BYTES, 0, HD_JOB_MAGIC, HD_JOB_VERSION, 2, "without seals"},
               {"another", BYTES, PAGE, HD_JOB_MAGIC, HD_JOB_VERSION, 2, "of another name"},
               {HD_JOB_FILE, BYTES, PAGE, 1, HD_JOB_VERSION, 2, "without its mark"},
               {HD_JOB_FILE, BYTES, PAGE, HD_JOB_MAGIC, HD_JOB_VERSION + 1, 2, "of another version"},
               {HD_JOB_FILE, BYTES, PAGE, HD_JOB_MAGIC, HD_JOB_VERSION, 1, "for fewer ranks"},
               {HD_JOB_FILE, BYTES, PAGE, HD_JOB_MAGIC, HD_JOB_VERSION, 1024, "too short for its ranks"},
               {HD_JOB_FILE, 64, PAGE, HD_JOB_MAGIC, HD_JOB_VERSION, 2, "shorter than a head"}};
  hd_job_page page, joined;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    static char before[BYTES], after[BYTES];
    const int fd = memfd_create(files[i].name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    hd_job_head head = {.magic = files[i].magic, .version = files[i].version, .ranks = files[i].ranks};
    if (fd < 0 || write(fd, &head, sizeof head) != (ssize_t)sizeof head || ftruncate(fd, files[i].bytes) != 0 ||
        (files[i].seals && fcntl(fd, F_ADD_SEALS, files[i].seals) != 0))
      bail_out("no memory file");
    const ssize_t got = pread(fd, before, sizeof before, 0);
    hd__job_join(&joined, (int)getpid(), fd, 1);
    ok(!joined.head && pread(fd, after, sizeof after, 0) == got && !memcmp(before, after, (size_t)got),
       "a memory file %s is no page, and is left as it is", files[i].what);
    hd__job_close(&joined);
    close(fd);
  }
  put_file(in_scratch("notes"), "precious", 8);
  const int fd = open(in_scratch("notes"), O_RDWR | O_CLOEXEC);
  struct stat file;
  hd__job_join(&joined, (int)getpid(), fd, 1);
  ok(!joined.head && fstat(fd, &file) == 0 && file.st_size == 8, "nor is a file");
  close(fd);
  hd__job_open(&page, 2, &facts);
  hd__job_join(&joined, (int)getpid(), page.fd, 2);
  ok(!joined.head, "a rank that the page has no slot for has none");
  hd__job_join(&joined, (int)getpid(), page.fd, 1);
  ok(joined.head && joined.slot->pid == (int32_t)getpid(), "another one has its slot");
  hd__job_close(&joined);
  hd__job_close(&page);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  test_not_a_page();
  test_own();
  test_ranks();
  test_identity();
  test_lingering();
  test_forgeries();
  test_files();
  test_torn();
  test_strangers();
  end_children();
  hd__jobs_fini(&jobs);
  hd_ctx_destroy(ctx);
  return done_testing();
}
