/* Rendezvous at a socket: see rendezvous.h. */
#include "exec/exchange/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/version.h"
#include "exec/exchange/cluster.h"
#include "exec/exchange/local_group_join.h"
#include "platform/clock.h"
#include "platform/local_socket.h"

enum { ANSWER_BYTES = 400, CHECK_MS = 20, METHOD_BYTES = 1024 };

/* Names that ranks try in turn, so that a name held by another user is skipped. */
enum { NAMES = 8, NAME_BYTES = 64 };

/* What a rank sends to rank 0. */
typedef struct hello {
  uint32_t magic, version; /* version: a hash of it */
  int32_t rank, ranks, pid;
} hello;

/* How soon rank 0 has to be found where its address belongs to another machine. */
static const double SOON_S = 5;

/* How long a connected process may take to send its hello. */
static const double HELLO_S = 1;

#define HELLO_MAGIC UINT32_C(0x6864646c) /* "lddh" */

typedef struct place {
  int rank, ranks;
  double timeout_s, end_s;
  char shown[96]; /* for messages */
  char host[256]; /* of rank 0, as given; "": not given */
  uint64_t key;
} place;

static double left_s(const place *p) { return p->end_s - hd__clock_s(); }

static uint64_t sum_of(const char *key) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (; *key; key++)
    sum = (sum ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
  return sum;
}

static const char *name_of(char name[NAME_BYTES], const place *p, int which) {
  snprintf(name, NAME_BYTES, "heddle-group-%u-%016llx-%d", (unsigned)geteuid(), (unsigned long long)p->key, which);
  return name;
}

static hd_status no_socket(hd_ctx *ctx, int error) {
  return hd__fail(ctx, HD_E_SYSTEM, "cannot open a socket for the ranks to connect to: %s; raise `ulimit -n`",
                  strerror(error));
}

/* Waits until there is something to read, or end_s; signals do not end the wait. */
static bool comes_by(int fd, double end_s) {
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  int got;
  do {
    const double rest_s = end_s - hd__clock_s();
    got = poll(&ready, 1, rest_s > 1 ? 1000 : rest_s > 0 ? (int)(1000 * rest_s) + 1 : 0);
  } while (got != 1 && (got == 0 || errno == EINTR) && hd__clock_s() < end_s);
  return got == 1;
}

/* ---- rank 0 ---- */

/* Sends an answer: the descriptor and an empty text, or the text of an error. */
static void answer(int peer, int fd, const char *why) {
  char text[ANSWER_BYTES];
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  const int n = snprintf(text, sizeof text, "%s", why);
  struct iovec part = {text, (size_t)n + 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  sendmsg(peer, &message, MSG_NOSIGNAL);
}

/* The error of a hello; "": none. */
static void judge(char why[ANSWER_BYTES], const place *p, const int *pid_of, const hello *h) {
  *why = 0;
  if (h->version != hd__version_hash())
    snprintf(why, ANSWER_BYTES,
             "expected one version of heddle in all ranks, found %s in rank 0 and another one in pid %d; install the "
             "same version",
             hd__version(), h->pid);
  else if (h->ranks != p->ranks)
    snprintf(why, ANSWER_BYTES, "expected all ranks to have the same world size, found %d in rank 0 and %d in rank %d",
             p->ranks, h->ranks, h->rank);
  else if (h->rank < 0 || h->rank >= p->ranks)
    snprintf(why, ANSWER_BYTES, "expected ranks from 0 to %d, found %d", p->ranks - 1, h->rank);
  else if (pid_of[h->rank])
    snprintf(why, ANSWER_BYTES,
             "expected each rank once, found rank %d in pid %d and in pid %d; give each its own number", h->rank,
             pid_of[h->rank], h->pid);
}

/* Serves one connection; false: a rank with which no group can be formed, for the reason `why`. */
static bool serve(char why[ANSWER_BYTES], const place *p, const hd_local_group *local, int *pid_of, int peer) {
  hello h;
  uid_t user;
  *why = 0;
  if (!hd__local_peer_is_same_user(peer, &user) || !comes_by(peer, hd__clock_s() + HELLO_S) ||
      recv(peer, &h, sizeof h, 0) != (ssize_t)sizeof h || h.magic != HELLO_MAGIC)
    return true; /* not a rank of this user */
  judge(why, p, pid_of, &h);
  answer(peer, *why ? -1 : hd__local_group_fd(local), why);
  if (!*why)
    pid_of[h.rank] = h.pid;
  return !*why;
}

static hd_status missing(hd_ctx *ctx, const place *p, const int *pid_of) {
  char list[160] = "";
  int count = 0;
  for (int r = 0; r < p->ranks; r++) {
    const size_t at = strlen(list);
    if (!pid_of[r] && count++ < 16)
      snprintf(list + at, sizeof list - at, "%s%d", at ? ", " : "", r);
  }
  return hd__fail(ctx, HD_E_TIMEOUT,
                  "expected %d ranks to connect at %s within %g s, but rank%s %s%s did not; were all started, on this "
                  "host, by this user? On several hosts start them with `mpirun -n %d PROGRAM`",
                  p->ranks, p->shown, p->timeout_s, count == 1 ? "" : "s", list, count > 16 ? ", ..." : "", p->ranks);
}

/* Serves connections until all other ranks have the descriptor. */
static hd_status serve_all(hd_ctx *ctx, const place *p, hd_local_group *local, int listener, int *pid_of) {
  char why[ANSWER_BYTES];
  for (int left = p->ranks - 1; left > 0;) {
    if (!comes_by(listener, p->end_s))
      return missing(ctx, p, pid_of);
    const int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (peer < 0) { /* there may be a descriptor later */
      const int error = errno;
      if (left_s(p) <= 0)
        return error == EMFILE || error == ENFILE ? no_socket(ctx, error) : missing(ctx, p, pid_of);
      poll(NULL, 0, CHECK_MS);
      continue;
    }
    const bool fine = serve(why, p, local, pid_of, peer);
    close(peer);
    if (!fine)
      return hd__fail(ctx, HD_E_USAGE, "%s", why);
    left = 0;
    for (int r = 0; r < p->ranks; r++)
      left += !pid_of[r];
  }
  return HD_OK;
}

/* The holder of a name that could not be bound. A process that has bound it listens a moment later, and one that
 * ends frees it: until then this tries again. */
static hd_name_holder find_holder(uid_t *user, const char *name) {
  const double end_s = hd__clock_s() + HELLO_S;
  hd_name_holder holder;
  int fd;
  while ((holder = hd__local_connect(&fd, user, name)) != HD_NAME_SAME_USER && holder != HD_NAME_OTHER_USER &&
         hd__clock_s() < end_s)
    poll(NULL, 0, CHECK_MS);
  if (fd >= 0)
    close(fd);
  return holder;
}

static hd_status two_first_ranks(hd_ctx *ctx, const place *p) {
  return hd__fail(ctx, HD_E_USAGE,
                  "another process already waits as rank 0 at %s: two jobs at once need different names (another "
                  "MASTER_PORT, port or path), and each rank its own number",
                  p->shown);
}

static hd_status held_by_others(hd_ctx *ctx, const place *p, uid_t user) {
  char holder[48] = "an unknown user";
  if (user != (uid_t)-1)
    snprintf(holder, sizeof holder, "another user (uid %u)", (unsigned)user);
  return hd__fail(ctx, HD_E_USAGE,
                  "cannot meet the ranks at %s: all %d names for it are held by %s; use another MASTER_PORT, "
                  "port or path, or start the ranks with `heddle launch`, which needs no name",
                  p->shown, NAMES, holder);
}

static hd_status listen_at(int *out, hd_ctx *ctx, const place *p) {
  uid_t user, seen = (uid_t)-1;
  for (int i = 0; i < NAMES; i++) {
    char name[NAME_BYTES];
    *out = hd__local_listen(name_of(name, p, i));
    if (*out >= 0)
      return HD_OK;
    if (errno != EADDRINUSE)
      return hd__fail(ctx, HD_E_SYSTEM, "cannot wait for ranks at %s: %s", p->shown, strerror(errno));
    if (find_holder(&user, name) == HD_NAME_SAME_USER)
      return two_first_ranks(ctx, p);
    seen = user != (uid_t)-1 ? user : seen;
  }
  return held_by_others(ctx, p, seen);
}

/* Passes the error to the ranks that have joined. */
static void give_up(hd_local_group *local, hd_ctx *ctx) {
  hd_fault fault = {.kind = HD_FAULT_GAVE_UP, .rank = 0, .pid = (int32_t)getpid(), .step = -1};
  snprintf(fault.text, sizeof fault.text, "%s", ctx ? ctx->message : "the rendezvous of the ranks failed");
  hd__local_group_break(local, &fault);
}

static hd_status receive_others(hd_local_group **out, hd_ctx *ctx, const place *p) {
  HD_OWNED int *pid_of = hd__calloc((size_t)p->ranks, sizeof *pid_of);
  int listener;
  hd_local_group *local;
  HD_TRY(HD_ALLOCATED(pid_of, ctx, "out of memory for %d ranks", p->ranks));
  pid_of[0] = (int)getpid();
  HD_TRY(hd__local_group_found(&local, ctx, p->ranks, false));
  hd_status status = listen_at(&listener, ctx, p);
  if (status == HD_OK) {
    status = serve_all(ctx, p, local, listener, pid_of);
    close(listener);
  }
  if (status == HD_OK)
    status = hd__local_group_join(out, ctx, hd__local_group_fd(local), 0, left_s(p) > 1 ? left_s(p) : 1);
  else
    give_up(local, ctx);
  hd__local_group_leave(local);
  return status;
}

/* ---- the others ---- */

static bool is_of_this_host(const struct sockaddr *address, socklen_t length) {
  const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
  if (address->sa_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
    return true; /* also where no network is up */
  const int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool foreign = fd >= 0 && bind(fd, address, length) != 0 && errno == EADDRNOTAVAIL;
  if (fd >= 0)
    close(fd);
  return !foreign;
}

/* Whether HOST can be resolved, and no address of it is this machine's. */
static bool is_another_host(const char *host) {
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
  struct addrinfo *all = NULL;
  bool here = false;
  if (!*host || !strcmp(host, "localhost") || getaddrinfo(host, NULL, &hints, &all) != 0)
    return false;
  for (const struct addrinfo *a = all; a && !here; a = a->ai_next)
    here = is_of_this_host(a->ai_addr, a->ai_addrlen);
  freeaddrinfo(all);
  return !here;
}

static hd_status on_another_host(hd_ctx *ctx, const place *p) {
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "expected all %d ranks on this host, found no rank 0 here, and %.80s is another host: a run that "
                  "spans hosts needs MPI; start the ranks with `mpirun -n %d PROGRAM`",
                  p->ranks, p->host, p->ranks);
}

static hd_status no_first_rank(hd_ctx *ctx, const place *p, uid_t other) {
  if (other != (uid_t)-1)
    return hd__fail(
        ctx, HD_E_TIMEOUT,
        "expected rank 0 of %d at %s within %g s, found another user (uid %u) there, whose connection was refused; was "
        "rank 0 started, on this host, by this user? Use another MASTER_PORT, port or path, or `heddle "
        "launch`; ranks on several hosts need `mpirun -n %d PROGRAM`",
        p->ranks, p->shown, p->timeout_s, (unsigned)other, p->ranks);
  return hd__fail(ctx, HD_E_TIMEOUT,
                  "expected rank 0 of %d at %s within %g s, but it did not answer; was it started, on "
                  "this host, by this user? On several hosts start them with `mpirun -n %d PROGRAM`",
                  p->ranks, p->shown, p->timeout_s, p->ranks);
}

/* A socket to the first name that a process of this user holds; -1: there is none. *others: names held by other
 * users. */
static int find_first_rank(const place *p, int *others, uid_t *other) {
  int fd = -1;
  *others = 0;
  for (int i = 0; i < NAMES && fd < 0; i++) {
    char name[NAME_BYTES];
    uid_t user;
    if (hd__local_connect(&fd, &user, name_of(name, p, i)) != HD_NAME_OTHER_USER)
      continue;
    *other = user;
    ++*others;
  }
  return fd;
}

/* Waits for rank 0's socket. An address of another machine may be no more than a common name for ranks of this one:
 * then the socket appears within SOON_S. */
static hd_status connect_to(int *out, hd_ctx *ctx, const place *p) {
  const double check_s = hd__clock_s() + SOON_S;
  uid_t other = (uid_t)-1;
  bool checked = false;
  for (;;) {
    int others;
    *out = find_first_rank(p, &others, &other);
    if (*out >= 0)
      return HD_OK;
    if (errno == EMFILE || errno == ENFILE)
      return no_socket(ctx, errno);
    if (others == NAMES) /* rank 0 finds none that is free */
      return held_by_others(ctx, p, other);
    if (!checked && (left_s(p) <= 0 || hd__clock_s() > check_s)) {
      checked = true;
      if (is_another_host(p->host))
        return on_another_host(ctx, p);
    }
    if (left_s(p) <= 0)
      return no_first_rank(ctx, p, other);
    poll(NULL, 0, CHECK_MS);
  }
}

/* *fd is -1, or the descriptor of the group's memory. */
static hd_status receive_answer(int *fd, hd_ctx *ctx, const place *p, int peer) {
  char text[ANSWER_BYTES];
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec part = {text, sizeof text - 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  *fd = -1;
  const double end_s = left_s(p) > 1 ? p->end_s : hd__clock_s() + 1;
  const ssize_t got = comes_by(peer, end_s) ? recvmsg(peer, &message, MSG_CMSG_CLOEXEC) : -1;
  if (got <= 0)
    return hd__fail(ctx, HD_E_PEER, "rank 0 at %s has ended", p->shown);
  text[got] = 0;
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof *fd))
    memcpy(fd, CMSG_DATA(head), sizeof *fd);
  if (*fd >= 0)
    return HD_OK;
  return *text ? hd__fail(ctx, HD_E_USAGE, "%s", text)
               : hd__fail(ctx, HD_E_SYSTEM,
                          "expected the memory of the ranks from rank 0 at %s, found no free descriptor for it; raise "
                          "`ulimit -n`",
                          p->shown);
}

static hd_status join_rank_0(hd_local_group **out, hd_ctx *ctx, const place *p) {
  const hello sent = {HELLO_MAGIC, hd__version_hash(), p->rank, p->ranks, (int32_t)getpid()};
  int peer, fd;
  HD_TRY(connect_to(&peer, ctx, p));
  send(peer, &sent, sizeof sent, MSG_NOSIGNAL);
  hd_status status = receive_answer(&fd, ctx, p, peer);
  close(peer);
  if (status != HD_OK)
    return status;
  status = hd__local_group_check_file(ctx, fd, p->ranks);
  HD_THEN(status, hd__local_group_join(out, ctx, fd, p->rank, left_s(p) > 1 ? left_s(p) : 1));
  close(fd);
  return status;
}

/* ---- the method ---- */

/* The key of the rendezvous: what all ranks have in common, and how messages show it. */
static hd_status read_method(char key[METHOD_BYTES], place *p, hd_ctx *ctx, const char *method, const hd_start *start) {
  if (!method || !strcmp(method, "env://")) {
    snprintf(key, METHOD_BYTES, "env|%s", start->key);
    snprintf(p->shown, sizeof p->shown, "env:// (%.70s)", start->key);
    snprintf(p->host, sizeof p->host, "%s", start->master ? start->master : "");
    return HD_OK;
  }
  snprintf(p->shown, sizeof p->shown, "%.90s", method);
  if (!strncmp(method, "file://", 7) && method[7] == '/' && strlen(method) < METHOD_BYTES) {
    snprintf(key, METHOD_BYTES, "%s", method);
    return HD_OK;
  }
  const char *port = strrchr(method, ':');
  if (!strncmp(method, "tcp://", 6) && port > method + 6 && port[1] &&
      strspn(port + 1, "0123456789") == strlen(port + 1) && strlen(method) < METHOD_BYTES) {
    snprintf(key, METHOD_BYTES, "%s", method);
    snprintf(p->host, sizeof p->host, "%.*s", (int)(port - method - 6), method + 6);
    return HD_OK;
  }
  return hd__fail(
      ctx, HD_E_USAGE,
      "expected env://, file:///PATH or tcp://HOST:PORT, found '%.80s'; write tcp://127.0.0.1:29500, for example",
      method);
}

static hd_status settle_numbers(place *p, hd_ctx *ctx, const hd_start *start, int rank, int ranks) {
  p->rank = rank == -1 ? start->rank : rank;
  p->ranks = ranks == -1 ? start->ranks : ranks;
  if (p->ranks == -1 || p->rank == -1)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a rank and a world size, found no %s; start the program with `heddle launch "
                    "-n N -- PROGRAM`, or set RANK and WORLD_SIZE",
                    p->rank != -1    ? "world size"
                    : p->ranks != -1 ? "rank"
                                     : "rank and no world size");
  if (p->ranks < 1 || p->ranks > HD_LOCAL_GROUP_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected a world size from 1 to %d, found %d", HD_LOCAL_GROUP_MOST_RANKS,
                    p->ranks);
  if (p->rank < 0 || p->rank >= p->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", p->ranks - 1, p->rank);
  return HD_OK;
}

/* Started by heddle launch: rank and ranks, where the caller gives them, must be the launcher's. */
static hd_status join_launched(hd_local_group **out, hd_ctx *ctx, int rank, int ranks, double timeout_s) {
  int given_rank, given_ranks;
  hd__local_group_launched(&given_rank, &given_ranks);
  if ((rank != -1 && rank != given_rank) || (ranks != -1 && ranks != given_ranks))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected rank %d of %d, as heddle launch says, found rank %d of %d; leave both -1", given_rank,
                    given_ranks, rank, ranks);
  return hd__local_group_join_launched(out, ctx, timeout_s);
}

static hd_status rendezvous_on_host(hd_local_group **out, hd_ctx *ctx, place *p, const char *key) {
  p->key = sum_of(key);
  return p->rank == 0 ? receive_others(out, ctx, p) : join_rank_0(out, ctx, p);
}

/* MPI assigns ranks to hosts; the ranks of each host then use the rendezvous of one host. */
static hd_status rendezvous_over_mpi(hd_local_group **out, hd_ctx *ctx, place *p, const hd_start *start) {
  char key[METHOD_BYTES];
  hd_cluster *cluster;
  HD_TRY(hd__cluster_open(&cluster, ctx, start->by, p->ranks));
  p->rank = hd__cluster_local_rank(cluster);
  p->ranks = hd__cluster_local_ranks(cluster);
  hd__cluster_key(key, sizeof key, cluster);
  snprintf(p->shown, sizeof p->shown, "the ranks of a host (%.60s)", key);
  hd_status status = rendezvous_on_host(out, ctx, p, key);
  if (status != HD_OK) {
    hd__cluster_close(cluster, false);
    return status;
  }
  status = hd__cluster_enter(*out, ctx, cluster);
  if (status != HD_OK) {
    hd__local_group_give_up(*out, hd_ctx_message(ctx));
    hd__local_group_leave(*out);
    *out = NULL;
  }
  return status;
}

/* Ranks of an MPI launcher that count all ranks as on one host wait forever for those on other hosts. */
static hd_status without_mpi(hd_local_group **out, hd_ctx *ctx, place *p, const hd_start *start, const char *key) {
  char why[HD_MESSAGE_BYTES];
  const hd_status status = rendezvous_on_host(out, ctx, p, key);
  if (status != HD_E_TIMEOUT || !start->has_mpi)
    return status;
  snprintf(why, sizeof why, "%s", hd_ctx_message(ctx));
  return hd__fail(ctx, status, "%s; or is HEDDLE_HOST_ID set on some of the ranks? Set it on all or on none", why);
}

/* Chooses MPI or shared memory. */
static hd_status choose_way(bool *mpi, hd_ctx *ctx, hd_way way, const hd_start *start) {
  *mpi = way == HD_WAY_MPI || (way == HD_WAY_ANY && start->spans);
  if (way == HD_WAY_SHM && start->spans)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected all %d ranks on this host for backend shm, found several hosts: start them with `mpirun "
                    "-n %d PROGRAM` and backend mpi, or leave the backend out",
                    start->ranks, start->ranks);
  if (way == HD_WAY_MPI && !start->has_mpi)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected ranks that mpirun or srun started for backend mpi, found %s; start them with `mpirun -n "
                    "%d PROGRAM`",
                    start->by ? start->by : "none of their variables", start->ranks > 0 ? start->ranks : 2);
  return HD_OK;
}

hd_status hd__rendezvous(hd_local_group **out, hd_ctx *ctx, hd_way way, const hd_rendezvous *at) {
  hd_start start = {.rank = -1, .ranks = -1};
  const bool by_variables = !at->method || !strcmp(at->method, "env://");
  place p = {.timeout_s = at->timeout_s, .end_s = hd__clock_s() + at->timeout_s};
  char key[METHOD_BYTES];
  int given_rank, given_ranks;
  bool mpi;
  *out = NULL;
  if (by_variables && hd__local_group_launched(&given_rank, &given_ranks) && way != HD_WAY_MPI)
    return join_launched(out, ctx, at->rank, at->ranks, at->timeout_s);
  if (at->rank == -1 || at->ranks == -1 || way == HD_WAY_MPI)
    HD_TRY(hd__start_read(&start, ctx));
  else if (by_variables)
    hd__start_read_name(&start);
  HD_TRY(choose_way(&mpi, ctx, way, &start));
  HD_TRY(read_method(key, &p, ctx, at->method, &start));
  HD_TRY(settle_numbers(&p, ctx, &start, at->rank, at->ranks));
  return mpi ? rendezvous_over_mpi(out, ctx, &p, &start) : without_mpi(out, ctx, &p, &start, key);
}
