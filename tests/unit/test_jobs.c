/* Running jobs, as their pages show them: a job of this process, one of three ranks in processes of their own, one that
 * is killed; and pages that are torn, foreign, cut off or full of lies. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "monitor/jobs.h"
#include "sys/job_page.h"
#include "sys/process.h"

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
  int ours = pid == getpid();
  for (int i = 0; i < children; i++)
    ours |= pid == child[i];
  return ours;
}

static hd_job *ours;

static int look(void) {
  int count = 0;
  hd__jobs_fini(&jobs);
  if (hd__jobs_find(&jobs, ctx, "") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int i = 0; i < jobs.count; i++)
    if (is_ours(jobs.job[i].pid)) {
      ours = &jobs.job[i];
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
  is_int(ours->pid, getpid(), "has its number");
  ok(ours->start > 0 && ours->start == hd__process_start(getpid()), "and its start");
  is_str(ours->model, "cnn", "model");
  is_str(ours->data, "digits", "data");
  is_str(ours->isa, "avx2", "instruction set");
  is_str(ours->out, "/runs/cnn-1", "folder");
  is_str(ours->state, "ready", "state");
  ok(strstr(ours->command, "test_jobs"), "command: %s", ours->command);
  ok(isnan(ours->loss) && isnan(ours->samples_per_s) && isnan(ours->left_s), "nothing is known of its speed yet");
  ok(ours->steps == 1000 && ours->epochs == 3 && ours->batch == 64, "where it is heading");
  ok(ours->elapsed_s >= 0 && ours->elapsed_s < 3600, "since when");
  hd__job_lanes(&page, cpus, 3);
  hd__job_enter(&page, HD_JOB_TRAINING);
  page.window_s -= 2; /* as if it had begun two seconds ago */
  hd__job_step(&page, 200, 1, 12800, 0.25);
  is_int(look(), 1, "it has come on");
  ok(ours->step == 200 && ours->epoch == 1 && ours->loss == 0.25, "step, epoch, loss");
  is_str(ours->state, "training", "state");
  near(ours->samples_per_s, 6400, 200, "12800 samples in 2 s");
  near(ours->left_s, 800 * 64 / ours->samples_per_s, 1e-9, "800 steps are left");
  is_int(ours->ranks, 1, "one rank");
  ok(ours->rank[0].lanes == 3 && ours->lanes == 3 && !memcmp(ours->rank[0].cpu, cpus, sizeof cpus), "lanes and CPUs");
  const double speed = ours->samples_per_s;
  hd__job_enter(&page, HD_JOB_EVALUATING);
  page.pause_s -= 10; /* ten seconds of evaluation */
  hd__job_enter(&page, HD_JOB_TRAINING);
  hd__job_step(&page, 201, 1, 12864, 0.25);
  is_int(look(), 1, "after a pause");
  near(ours->samples_per_s, speed, 0, "the speed is that of training alone");
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
  page->slot->lanes = 2;
}

static void test_ranks(void) {
  hd_job_page page;
  hd__job_open(&page, 3, &facts);
  for (int rank = 2; rank >= 0; rank--)
    start_child(be_rank, &page, rank);
  start_child(NULL, NULL, 0);
  is_int(look(), 1, "a job of three ranks is one; this process and a child that hold its page are none");
  ok(ours->ranks == 3 && ours->rank[0].rank == 0 && ours->rank[2].rank == 2, "its ranks are in order");
  is_int(ours->pid, ours->rank[0].pid, "it goes by its first one");
  ok(ours->step == 7 && ours->samples_per_s == 300 && ours->lanes == 6, "speeds and lanes add up");
  const hd_job_rank dead = ours->rank[1];
  kill(dead.pid, SIGKILL);
  waitpid(dead.pid, NULL, 0);
  is_int(look(), 1, "one rank is killed");
  ok(ours->ranks == 2 && ours->rank[1].rank == 2, "the others are still told");
  is_int(hd__process_signal(dead.pid, dead.start, SIGTERM), ESRCH, "who has ended cannot be signalled");
  hd__job_close(&page);
  is_int(hd_job_signal(ctx, ours, SIGKILL), HD_OK, "a signal to the job");
  int signalled = 0, status;
  for (int i = 0; i < 3; i++)
    if (child[i] != dead.pid && waitpid(child[i], &status, 0) == child[i])
      signalled += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  is_int(signalled, 2, "reaches all its ranks");
  refuses(hd_job_signal(ctx, ours, SIGKILL), HD_E_SYSTEM, ctx, "", "has ended", "a job that has ended");
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

/* Until it looks as wanted, 10 s at most. */
static hd_process_look await_look(pid_t pid, uint64_t start, char state, bool lingers) {
  const struct timespec rest = {.tv_nsec = 1000000};
  hd_process_look look = hd__process_look(pid, start);
  for (int i = 0; i < 10000 && (look.state != state || look.lingers != lingers); i++) {
    nanosleep(&rest, NULL);
    look = hd__process_look(pid, start);
  }
  return look;
}

/* The first thread's end is what the state of a process tells; another one may still be at the disk. */
static void test_lingering(void) {
  const pid_t pid = fork();
  pthread_t thread;
  if (pid == 0) {
    if (pthread_create(&thread, NULL, stay, NULL) != 0)
      _exit(1);
    pthread_exit(NULL);
  }
  const uint64_t start = hd__process_start(pid);
  hd_process_look look = await_look(pid, start, 'Z', true);
  ok(look.has_ended && look.lingers, "a process whose first thread alone has ended lingers");
  kill(pid, SIGKILL);
  look = await_look(pid, start, 'Z', false);
  ok(look.has_ended && !look.lingers, "and is gone with the last one");
  waitpid(pid, NULL, 0);
  look = hd__process_look(pid, start);
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
  p->slot->lanes = INT32_MAX;
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
           list[i].seen ? "told with what is well-formed" : "passed over");
    hd__job_close(&page);
  }
  hd_job_page page;
  hd__job_open(&page, 1, &facts);
  forge_lies(&page);
  look();
  ok(!strncmp(ours->model, "???", 3) && !strncmp(ours->out, "???", 3), "text that is none: question marks");
  ok(ours->step == 0 && ours->steps == 0 && isnan(ours->loss) && isnan(ours->samples_per_s), "numbers that cannot be");
  ok(ours->lanes == HD_MAX_THREADS && ours->rank[0].cpu[0] == -1, "lanes");
  is_str(ours->state, "ready", "state");
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
  is_int(ours->ranks, 1, "of one rank");
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

/* A writer at full speed never lets a reader see half of a step. */
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
    torn += ours->step != ours->epoch || (double)ours->step != ours->loss;
  }
  end_children();
  ok(seen > 0, "a page that changes all the time was read %d times", seen);
  is_int(torn, 0, "and never half of a step");
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

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
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
