/* Other users of the machine: a real second user binds the socket names of ranks' rendezvous, answers there with
 * hostile memory, and reads the open files of running jobs. Without the rights of root there is no second user; then
 * the tests that need one are skipped.
 *
 * And false memory of the ranks: a file that can be truncated, one that is too short, one of another number of
 * ranks, offsets that lead outside. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "comm/group_state.h"
#include "exec/exchange/local_group_join.h"
#include "exec/weight_store.h"
#include "platform/cpu_claim.h"
#include "platform/job_page.h"
#include "unit/stranger.h"

enum { RANKS = 2, WAIT_S = 120 };

static hd_ctx *ctx;

/* ---- a second user ---- */

/* A process of the second user, which does `act` and then waits to be killed; it has reported that it is ready. */
static pid_t start_stranger(bool (*act)(void *arg, int tell), void *arg, int *heard) {
  int pair[2];
  char ready = 0;
  if (pipe(pair) != 0)
    bail_out("no pipe");
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pair[0]);
    if (!become_stranger())
      _exit(1);
    _exit(act(arg, pair[1]) ? 0 : 1);
  }
  close(pair[1]);
  if (pid < 0 || read(pair[0], &ready, 1) != 1 || ready != 'r')
    bail_out("expected a process of user %d, found none", STRANGER);
  *heard = pair[0];
  return pid;
}

/* What it writes after 'r' until it is killed: 'c' for each connection, of which there is one at least, 'h' for each
 * that sent something. */
static void end_stranger(pid_t pid, int heard, int *connections, int *told) {
  char text[4096];
  ssize_t got;
  *connections = read(heard, text, 1) == 1;
  *told = 0;
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  while ((got = read(heard, text, sizeof text)) > 0)
    for (ssize_t i = 0; i < got; i++) {
      *connections += text[i] == 'c';
      *told += text[i] == 'h';
    }
  close(heard);
}

/* ---- names that are held ---- */

typedef struct comer {
  hd_group_settings settings;
  hd_ctx ctx;
  hd_status status;
} comer;

static void *come(void *arg) {
  comer *c = arg;
  hd_group *group;
  c->status = hd_group_init(&group, &c->ctx, &c->settings);
  if (c->status == HD_OK)
    c->status = hd_group_barrier(group, &c->ctx);
  hd_group_destroy(group);
  return NULL;
}

/* The rendezvous of ranks `first` to RANKS - 1 by a method. */
static void meet(comer *c, const char *method, int first, double timeout_s) {
  pthread_t thread[RANKS];
  for (int r = first; r < RANKS; r++) {
    c[r] = (comer){.settings = {.struct_bytes = sizeof(hd_group_settings),
                                .backend = HD_GROUP_SHM,
                                .init_method = method,
                                .rank = r,
                                .world_size = RANKS,
                                .timeout_s = timeout_s}};
    if (pthread_create(&thread[r], NULL, come, &c[r]) != 0)
      bail_out("no thread");
  }
  for (int r = first; r < RANKS; r++)
    pthread_join(thread[r], NULL);
}

static const char *method_of(const char *name) {
  static char text[SCRATCH_PATH_BYTES + 16];
  snprintf(text, sizeof text, "file://%s", in_scratch("%s", name));
  return text;
}

static void test_names(void) {
  char uid[32];
  comer c[RANKS];
  int heard, connections, told;
  snprintf(uid, sizeof uid, "(uid %d)", STRANGER);
  if (!has_second_user()) {
    skip(7, "a second user needs the rights of root");
    return;
  }
  const char *method = method_of("some");
  names taken = names_of(method, NAMES / 2);
  pid_t stranger = start_stranger(squat, &taken, &heard);
  meet(c, method, 0, WAIT_S);
  end_stranger(stranger, heard, &connections, &told);
  ok(c[0].status == HD_OK && c[1].status == HD_OK,
     "ranks find each other although another user holds names of theirs: %s%s", c[0].ctx.message, c[1].ctx.message);
  is_int(told, 0, "and send that user nothing, in %d connections", connections);

  method = method_of("all");
  taken = names_of(method, NAMES);
  stranger = start_stranger(squat, &taken, &heard);
  meet(c, method, 0, WAIT_S);
  end_stranger(stranger, heard, &connections, &told);
  for (int r = 0; r < RANKS; r++)
    ok(c[r].status == HD_E_USAGE && strstr(c[r].ctx.message, uid) && strstr(c[r].ctx.message, "heddle launch"),
       "where another user holds all of them the message of rank %d names the user: %s", r, c[r].ctx.message);
  is_int(told, 0, "and it sends nothing");

  method = method_of("one");
  taken = names_of(method, 1);
  stranger = start_stranger(squat, &taken, &heard);
  meet(c, method, 1, 0.3);
  end_stranger(stranger, heard, &connections, &told);
  ok(c[1].status == HD_E_TIMEOUT && strstr(c[1].ctx.message, uid),
     "a rank whose rank 0 does not come lists those that came: %s", c[1].ctx.message);
  is_int(told, 0, "and has sent nothing to the names that it tried");
}

/* ---- what a job holds open ---- */

typedef struct holding {
  pid_t pid;
  int fd[2];
} holding;

/* Writes 'o' for each descriptor of the job that it can open, and 'c' at the end. */
static bool peek(void *arg, int tell) {
  const holding *h = arg;
  char path[64], memory[64];
  (void)!write(tell, "r", 1);
  snprintf(memory, sizeof memory, "/proc/%d/mem", (int)h->pid);
  bool opened = open(memory, O_RDONLY) >= 0;
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)h->pid, h->fd[i]);
    opened |= open(path, O_RDONLY) >= 0 || errno != EACCES;
  }
  return write(tell, opened ? "o" : "c", 1) == 1;
}

static void test_reading(void) {
  hd_local_group *local;
  hd_job_page page;
  char said = 0;
  int heard;
  if (!has_second_user()) {
    skip(1, "a second user needs the rights of root");
    return;
  }
  hd__job_open(&page, 1, &(hd_job_facts){.model = "cnn"});
  if (hd__local_group_found(&local, ctx, RANKS, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  holding h = {getpid(), {hd__local_group_fd(local), page.fd}};
  const pid_t stranger = start_stranger(peek, &h, &heard);
  ok(read(heard, &said, 1) == 1 && said == 'c', "another user opens neither the memory of ranks nor the page of a job");
  waitpid(stranger, NULL, 0);
  close(heard);
  hd__job_close(&page);
  hd__local_group_leave(local);
}

/* ---- CPUs ---- */

/* CPUs that no machine of the test has, so that no job on it is disturbed. */
static void test_cpus(void) {
  enum { FAR = 700000 };
  const int far = FAR + (int)(getpid() % 100000) * 4;
  hd_binding thread[2] = {{.cpu = far}, {.cpu = far + 1}};
  const hd_placement place = {.threads = 2, .thread = thread};
  hd_claim first, second;
  int heard, connections, told;
  if (!has_second_user()) {
    skip(7, "a second user needs the rights of root");
    return;
  }
  names taken = names_of_cpus(far, NAMES / 2, 2);
  pid_t stranger = start_stranger(squat, &taken, &heard);
  is_int(hd__claim_find(far), HD_CLAIMED_OTHER_USER,
         "a CPU that another user reserves counts as reserved by another user");
  ok(hd__claim_take(&first, &place), "and to be had all the same");
  is_int(hd__claim_find(far), HD_CLAIMED_SAME_USER, "a job of this user counts more");
  ok(!hd__claim_take(&second, &place), "and a second one is notified");
  hd__claim_drop(&second);
  hd__claim_drop(&first);
  end_stranger(stranger, heard, &connections, &told);
  taken = names_of_cpus(far, NAMES, 2);
  stranger = start_stranger(squat, &taken, &heard);
  ok(hd__claim_take(&first, &place), "where another user holds all names of a CPU a job binds its threads");
  is_int(hd__claim_find(far), HD_CLAIMED_OTHER_USER, "without one");
  hd__claim_drop(&first);
  end_stranger(stranger, heard, &connections, &told);
  is_int(told, 0, "and that user is sent nothing");
}

/* ---- memory that lies ---- */

/* A copy of a local group's memory in another file, with these seals. */
static int copy_of(const hd_local_group *local, off_t bytes, int seals) {
  const int fd = memfd_create("heddle-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  char block[4096];
  if (fd < 0 || ftruncate(fd, bytes) != 0)
    bail_out("no memory file");
  for (off_t at = 0; at < bytes; at += (off_t)sizeof block) {
    const ssize_t got = pread(hd__local_group_fd(local), block, sizeof block, at);
    if (got > 0 && pwrite(fd, block, (size_t)got, at) != got)
      bail_out("no memory file");
  }
  if (seals && fcntl(fd, F_ADD_SEALS, seals) != 0)
    bail_out("no seals");
  return fd;
}

static void refuses_file(int fd, const char *says, const char *name) {
  hd_local_group *adopted;
  const hd_status status = hd__local_group_hold(&adopted, ctx, fd);
  ok(status == HD_E_USAGE && !adopted && strstr(hd_ctx_message(ctx), says), "%s: %s", name, hd_ctx_message(ctx));
  hd__local_group_leave(adopted);
  close(fd);
}

static off_t bytes_of(const hd_local_group *local) {
  struct stat file = {0};
  fstat(hd__local_group_fd(local), &file);
  return file.st_size;
}

static void test_files(void) {
  enum { SEALS = F_SEAL_SHRINK | F_SEAL_SEAL };
  hd_local_group *local, *adopted;
  if (hd__local_group_found(&local, ctx, RANKS, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const off_t bytes = bytes_of(local);
  ok(ftruncate(hd__local_group_fd(local), 0) != 0 && errno == EPERM, "the memory of ranks cannot be cut short");
  ok(ftruncate(hd__local_group_fd(local), bytes + (2 << 20)) == 0, "it can grow");
  refuses_file(copy_of(local, bytes, 0), "can be truncated", "a file without seals");
  refuses_file(copy_of(local, 8192, SEALS), "too short", "one that ends behind its head");
  if (has_second_user()) {
    const int fd = copy_of(local, bytes, SEALS);
    (void)!fchown(fd, STRANGER, STRANGER);
    refuses_file(fd, "memory of another user (uid 65533)", "one of another user");
  } else {
    skip(1, "a second user needs the rights of root");
  }
  int fd = copy_of(local, bytes, SEALS);
  is_int(hd__local_group_check_file(ctx, fd, RANKS + 1), HD_E_USAGE, "one for another number of ranks: %s",
         hd_ctx_message(ctx));
  is_int(hd__local_group_hold(&adopted, ctx, fd), HD_OK, "a whole one is held: %s", hd_ctx_message(ctx));
  close(fd);
  hd__local_group_leave(adopted);
  hd__local_group_leave(local);
}

static void test_offsets(void) {
  static const struct {
    int64_t offset, bytes;
    const char *name;
  } lies[] = {{1LL << 40, 4096, "behind the end"},           {0, 4096, "in the head"},
              {-(2LL << 20), 4096, "before it all"},         {2 << 20, 1LL << 40, "too long"},
              {2 << 20, -1, "of less than nothing"},         {INT64_MAX - 4095, 8192, "around the end of numbers"},
              {(2 << 20) + 8, 64, "in the middle of a page"}};
  hd_local_group *local;
  hd_segment segment;
  int32_t block;
  if (hd__local_group_found(&local, ctx, 1, false) != HD_OK ||
      hd__local_group_allocate(&block, local, ctx, 4096, 1) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const size_t bytes = (size_t)bytes_of(local);
  char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, hd__local_group_fd(local), 0);
  int64_t *numbers = NULL; /* held | offset, room, bytes | number | name */
  for (size_t at = 0; at + 64 < bytes && !numbers; at += 8) {
    int64_t *n = (void *)(base + at);
    if (n[0] == (2 << 20) && n[2] == 4096 && n[1] >= 4096)
      numbers = n;
  }
  if (!numbers)
    bail_out("expected the block in the table, found none");
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    numbers[0] = lies[i].offset;
    numbers[2] = lies[i].bytes;
    const hd_status mapped = hd__local_group_map(&segment, local, ctx, block, "a block");
    hd__segment_destroy(&segment);
    const hd_status found = hd__local_group_find(&segment, local, NULL, "");
    hd__segment_destroy(&segment);
    ok(mapped == HD_E_FORMAT && found == HD_E_FORMAT, "a block %s: %s", lies[i].name, hd_ctx_message(ctx));
  }
  is_int(hd__local_group_map(&segment, local, ctx, HD_LOCAL_GROUP_BLOCKS, "a block"), HD_E_FORMAT,
         "a block behind all: %s", hd_ctx_message(ctx));
  is_int(hd__local_group_map(&segment, local, ctx, -1, "a block"), HD_E_FORMAT, "and one before all");
  munmap(base, bytes);
  hd__local_group_leave(local);
}

/* ---- the weights' directory ---- */

/* A sound store of one parameter of 2 x 3, whose numbers the cases then change. */
static hd_directory *make_store(hd_segment *segment, hd_local_group *local) {
  int32_t block;
  if (hd__local_group_allocate(&block, local, ctx, 4096, 1) != HD_OK ||
      hd__local_group_map(segment, local, ctx, block, "a store") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_directory *d = segment->base;
  memset(d, 0, 4096);
  *d = (hd_directory){.param_elems = 16,
                      .trained_elems = 16,
                      .states = 1,
                      .entries = 1,
                      .weights_offset = 1024,
                      .state_offset = 2048,
                      .average_offset = 3072,
                      .packed_offset = 3072};
  d->entry[0] = (hd_store_entry){
      .name = "w", .shape = {2, {2, 3}}, .same_as = -1, .trained = 1, .rows = 2, .c = 1, .h = 1, .w = 3};
  return d;
}

static const struct {
  size_t at;
  int64_t value;
  int bytes;
  const char *name;
} store_lies[] = {
#define LIE(member, value, name)                                                                                       \
  { offsetof(hd_directory, member), value, sizeof(((hd_directory *)0)->member), name }
#define ENTRY(member, value, name)                                                                                     \
  { sizeof(hd_directory) + offsetof(hd_store_entry, member), value, sizeof(((hd_store_entry *)0)->member), name }
    LIE(entries, INT32_MAX, "entries"),
    LIE(entries, -1, "entries"),
    LIE(states, HD_MAX_STATES + 1, "states"),
    LIE(states, -1, "states"),
    LIE(param_elems, INT64_MAX / 8, "parameters"),
    LIE(param_elems, -1, "parameters"),
    LIE(trained_elems, 1 << 20, "trained ones"),
    LIE(packed_elems, INT64_MAX, "packed ones"),
    LIE(weights_offset, 1 << 30, "a place of weights"),
    LIE(weights_offset, -64, "a place of weights"),
    LIE(weights_offset, 0, "weights in the directory"),
    LIE(state_offset, 4096, "a place of states"),
    LIE(average_offset, 1 << 30, "a place of averages"),
    LIE(averages, 3, "averages"),
    LIE(packed_offset, 1LL << 40, "a place of packed ones"),
    ENTRY(rows, -2, "rows"),
    ENTRY(rows, INT32_MAX, "rows"),
    ENTRY(w, 0, "columns"),
    ENTRY(kept, 2, "states of a parameter"),
    ENTRY(kept, -1, "states of a parameter"),
    ENTRY(kept, 1, "states of what is no optimizer"),
    ENTRY(update, -1, "an update"),
    ENTRY(offset, 11, "a place of floats"),
    ENTRY(offset, INT64_MAX, "a place of floats"),
    ENTRY(same_as, 1, "another entry"),
    ENTRY(shape.rank, 99, "a rank"),
    ENTRY(shape.dim[0], 4, "a side")};

/* Finds the entry of the store's block in the table of the local group, whose memory is at `base`, and names it: that
 * of the block is empty. */
static void name_store(char *base) {
  int64_t *numbers = NULL;
  for (size_t at = 0; at + 64 < (2 << 20) && !numbers; at += 8) {
    int64_t *n = (void *)(base + at);
    if (n[0] == (2 << 20) && n[2] == 4096)
      numbers = n;
  }
  if (!numbers)
    bail_out("expected the block in the table, found none");
  strcpy((char *)&numbers[4], "weights and optimizer state");
}

static void check_lies(hd_directory *d, hd_local_group *local) {
  hd_store *store;
  for (size_t i = 0; i < sizeof store_lies / sizeof *store_lies; i++) {
    char was[8];
    memcpy(was, (char *)d + store_lies[i].at, 8);
    memcpy((char *)d + store_lies[i].at, &store_lies[i].value, (size_t)store_lies[i].bytes);
    const hd_status status = hd__store_find(&store, ctx, local);
    ok(status == HD_E_FORMAT && !store, "%s that lead outside (%lld)", store_lies[i].name,
       (long long)store_lies[i].value);
    hd__store_destroy(store);
    memcpy((char *)d + store_lies[i].at, was, 8);
  }
}

static void test_store(void) {
  hd_local_group *local;
  hd_segment segment;
  hd_store *store;
  if (hd__local_group_found(&local, ctx, 1, false) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_directory *d = make_store(&segment, local);
  char *base = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, hd__local_group_fd(local), 0);
  name_store(base);
  is_int(hd__store_find(&store, ctx, local), HD_OK, "a sound store is found: %s", hd_ctx_message(ctx));
  hd__store_destroy(store);
  check_lies(d, local);
  memset(d->entry[0].name, 'n', sizeof d->entry[0].name);
  is_int(hd__store_find(&store, ctx, local), HD_E_FORMAT, "a name that does not end: %s", hd_ctx_message(ctx));
  munmap(base, 2 << 20);
  hd__segment_destroy(&segment);
  hd__local_group_leave(local);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  hd_ctx_create(&ctx);
  test_names();
  test_reading();
  test_cpus();
  test_files();
  test_offsets();
  test_store();
  hd_ctx_destroy(ctx);
  return done_testing();
}
