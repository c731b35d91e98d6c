/* Meeting at a socket: see rendezvous.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "comm/watch.h"
#include "sys/clock.h"

enum { HELLO_VERSION = 1, ANSWER_BYTES = 400, LOOK_MS = 20, METHOD_BYTES = 1024 };

/* What a rank says to rank 0. */
typedef struct hello {
  uint32_t magic, version;
  int32_t rank, ranks, pid;
} hello;

/* How soon rank 0 has to come where it is said to live on another machine. */
static const double SOON_S = 5;

/* How long one that came may take to say hello. */
static const double HELLO_S = 1;

#define HELLO_MAGIC UINT32_C(0x6864646c) /* "lddh" */

typedef struct place {
  int rank, ranks;
  double timeout_s, end_s;
  char shown[96]; /* for messages */
  char host[256]; /* where rank 0 is, for all that was said; "": not said */
  struct sockaddr_un address;
  socklen_t length;
} place;

static double left_s(const place *p) { return p->end_s - hd__clock_s(); }

/* A name that holds as long as a socket has it; the first byte is 0, so no file has it. */
static void name_socket(place *p, const char *key) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (; *key; key++)
    sum = (sum ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
  p->address.sun_family = AF_UNIX;
  const int n = snprintf(p->address.sun_path + 1, sizeof p->address.sun_path - 1, "heddle-group-%u-%016llx",
                         (unsigned)geteuid(), (unsigned long long)sum);
  p->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int open_socket(void) { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }

static hd_status no_socket(hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_SYSTEM, "expected a socket for the ranks to meet at, found: %s; raise `ulimit -n`",
                  strerror(errno));
}

/* Whether there is something to read by then; signals that the program takes meanwhile do not end the wait. */
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

/* An answer: empty, and with the descriptor, or why not. */
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

static bool same_user(int peer) {
  struct ucred who;
  socklen_t length = sizeof who;
  return getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

/* What is wrong with who says hello; "": nothing. */
static void judge(char why[ANSWER_BYTES], const place *p, const int *pid_of, const hello *h) {
  *why = 0;
  if (h->version != HELLO_VERSION)
    snprintf(why, ANSWER_BYTES, "expected ranks of one version of heddle, found another one in pid %d", h->pid);
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

/* Serves one that came; false: there is a rank with which no world can be made, `why` says so. */
static bool serve(char why[ANSWER_BYTES], const place *p, const hd_world *world, int *pid_of, int peer) {
  hello h;
  *why = 0;
  if (!same_user(peer) || !comes_by(peer, hd__clock_s() + HELLO_S) ||
      recv(peer, &h, sizeof h, 0) != (ssize_t)sizeof h || h.magic != HELLO_MAGIC)
    return true; /* none of ours */
  judge(why, p, pid_of, &h);
  answer(peer, *why ? -1 : hd__world_fd(world), why);
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
                  "expected %d ranks to meet at %s within %g s, rank%s %s%s did not come; were all "
                  "started, on this host, by this user? On several hosts start them with `mpirun -n %d PROGRAM`",
                  p->ranks, p->shown, p->timeout_s, count == 1 ? "" : "s", list, count > 16 ? ", ..." : "", p->ranks);
}

/* Until all others have the descriptor. */
static hd_status serve_all(hd_ctx *ctx, const place *p, hd_world *world, int listener, int *pid_of) {
  char why[ANSWER_BYTES];
  for (int left = p->ranks - 1; left > 0;) {
    if (!comes_by(listener, p->end_s))
      return missing(ctx, p, pid_of);
    const int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (peer < 0) { /* there may be a descriptor later */
      poll(NULL, 0, LOOK_MS);
      continue;
    }
    const bool fine = serve(why, p, world, pid_of, peer);
    close(peer);
    if (!fine)
      return hd__fail(ctx, HD_E_USAGE, "%s", why);
    left = 0;
    for (int r = 0; r < p->ranks; r++)
      left += !pid_of[r];
  }
  return HD_OK;
}

static hd_status listen_at(int *out, hd_ctx *ctx, const place *p) {
  *out = open_socket();
  if (*out < 0)
    return no_socket(ctx);
  if (bind(*out, (const struct sockaddr *)&p->address, p->length) == 0 && listen(*out, HD_WORLD_MOST_RANKS) == 0)
    return HD_OK;
  const int error = errno;
  close(*out);
  return error == EADDRINUSE ? hd__fail(ctx, HD_E_USAGE,
                                        "expected to be the one rank 0 at %s, found that another process "
                                        "waits there: two jobs at once need different names (another "
                                        "MASTER_PORT, port or path), and each rank its own number",
                                        p->shown)
                             : hd__fail(ctx, HD_E_SYSTEM, "cannot wait for ranks at %s: %s", p->shown, strerror(error));
}

/* Those who have joined learn why nothing comes of it. */
static void give_up(hd_world *world, hd_ctx *ctx) {
  hd_fault fault = {.kind = HD_FAULT_GAVE_UP, .rank = 0, .pid = (int32_t)getpid(), .step = -1};
  snprintf(fault.text, sizeof fault.text, "%s", ctx ? ctx->message : "the ranks did not meet");
  hd__world_break(world, &fault);
}

static hd_status receive_others(hd_world **out, hd_ctx *ctx, const place *p) {
  int listener, *pid_of = hd__calloc((size_t)p->ranks, sizeof *pid_of);
  hd_world *world;
  if (!pid_of)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d ranks", p->ranks);
  pid_of[0] = (int)getpid();
  hd_status status = hd__world_found(&world, ctx, p->ranks, false);
  if (status == HD_OK) {
    status = listen_at(&listener, ctx, p);
    if (status == HD_OK) {
      status = serve_all(ctx, p, world, listener, pid_of);
      close(listener);
    }
    if (status == HD_OK)
      status = hd__world_join(out, ctx, hd__world_fd(world), 0, left_s(p) > 1 ? left_s(p) : 1);
    else
      give_up(world, ctx);
    hd__world_leave(world);
  }
  hd__free(pid_of);
  return status;
}

/* ---- the others ---- */

static bool is_own(const struct sockaddr *address, socklen_t length) {
  const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
  if (address->sa_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
    return true; /* also where no network is up */
  const int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool foreign = fd >= 0 && bind(fd, address, length) != 0 && errno == EADDRNOTAVAIL;
  if (fd >= 0)
    close(fd);
  return !foreign;
}

/* Whether HOST is known, and no address of it is this machine's; a mere name is nobody's. */
static bool lives_elsewhere(const char *host) {
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
  struct addrinfo *all = NULL;
  bool own = false;
  if (!*host || !strcmp(host, "localhost") || getaddrinfo(host, NULL, &hints, &all) != 0)
    return false;
  for (const struct addrinfo *a = all; a && !own; a = a->ai_next)
    own = is_own(a->ai_addr, a->ai_addrlen);
  freeaddrinfo(all);
  return !own;
}

static hd_status on_another_host(hd_ctx *ctx, const place *p) {
  return hd__fail(
      ctx, HD_E_UNSUPPORTED,
      "expected all %d ranks on this host, found no rank 0 here and that %.80s is another host: a world that "
      "spans hosts needs MPI; start the ranks with `mpirun -n %d PROGRAM`",
      p->ranks, p->host, p->ranks);
}

/* Waits for rank 0's socket to be there. An address of another machine may be a mere name for ranks of this one: then
 * rank 0 comes soon. */
static hd_status connect_to(int *out, hd_ctx *ctx, const place *p) {
  const double ask_s = hd__clock_s() + SOON_S;
  bool asked = false;
  for (;;) {
    *out = open_socket();
    if (*out < 0)
      return no_socket(ctx);
    if (connect(*out, (const struct sockaddr *)&p->address, p->length) == 0)
      return HD_OK;
    close(*out);
    if (!asked && (left_s(p) <= 0 || hd__clock_s() > ask_s)) {
      asked = true;
      if (lives_elsewhere(p->host))
        return on_another_host(ctx, p);
    }
    if (left_s(p) <= 0)
      return hd__fail(ctx, HD_E_TIMEOUT,
                      "expected rank 0 of %d at %s within %g s, it did not come; was it started, on "
                      "this host, by this user? On several hosts start them with `mpirun -n %d PROGRAM`",
                      p->ranks, p->shown, p->timeout_s, p->ranks);
    poll(NULL, 0, LOOK_MS);
  }
}

/* *fd is -1, or the descriptor of the world's memory. */
static hd_status hear_answer(int *fd, hd_ctx *ctx, const place *p, int peer) {
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
    return hd__fail(ctx, HD_E_PEER, "expected rank 0 at %s to answer, found that it is gone", p->shown);
  text[got] = 0;
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
    memcpy(fd, CMSG_DATA(head), sizeof *fd);
  return *fd < 0 ? hd__fail(ctx, HD_E_USAGE, "%s", text) : HD_OK;
}

static hd_status come_to(hd_world **out, hd_ctx *ctx, const place *p) {
  const hello mine = {HELLO_MAGIC, HELLO_VERSION, p->rank, p->ranks, (int32_t)getpid()};
  int peer, fd;
  HD_TRY(connect_to(&peer, ctx, p));
  send(peer, &mine, sizeof mine, MSG_NOSIGNAL);
  hd_status status = hear_answer(&fd, ctx, p, peer);
  close(peer);
  if (status != HD_OK)
    return status;
  status = hd__world_join(out, ctx, fd, p->rank, left_s(p) > 1 ? left_s(p) : 1);
  close(fd);
  return status;
}

/* ---- which way ---- */

/* Where to meet: what all ranks have in common, and how to show it. */
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
  return hd__fail(ctx, HD_E_USAGE, "expected env://, file:///PATH or tcp://HOST:PORT to meet at, found '%.80s'",
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
  if (p->ranks < 1 || p->ranks > HD_WORLD_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected a world size from 1 to %d, found %d", HD_WORLD_MOST_RANKS, p->ranks);
  if (p->rank < 0 || p->rank >= p->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", p->ranks - 1, p->rank);
  return HD_OK;
}

/* Started by heddle launch: numbers that are given must be those that it gave. */
static hd_status join_launched(hd_world **out, hd_ctx *ctx, int rank, int ranks, double timeout_s) {
  int own_rank, own_ranks;
  hd__world_launched(&own_rank, &own_ranks);
  if ((rank != -1 && rank != own_rank) || (ranks != -1 && ranks != own_ranks))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected rank %d of %d, as heddle launch says, found rank %d of %d; leave both -1", own_rank,
                    own_ranks, rank, ranks);
  return hd__world_join_launched(out, ctx, timeout_s);
}

static hd_status come_together(hd_world **out, hd_ctx *ctx, place *p, const char *key) {
  name_socket(p, key);
  return p->rank == 0 ? receive_others(out, ctx, p) : come_to(out, ctx, p);
}

/* MPI says who lives where; the ranks of each host then meet as on one. */
static hd_status come_over_mpi(hd_world **out, hd_ctx *ctx, place *p, const hd_start *start) {
  char key[METHOD_BYTES];
  hd_hosts *hosts;
  HD_TRY(hd__hosts_open(&hosts, ctx, start->by, p->ranks));
  p->rank = hd__hosts_local_rank(hosts);
  p->ranks = hd__hosts_local_ranks(hosts);
  hd__hosts_key(key, sizeof key, hosts);
  snprintf(p->shown, sizeof p->shown, "the ranks of a host (%.60s)", key);
  hd_status status = come_together(out, ctx, p, key);
  if (status != HD_OK) {
    hd__hosts_close(hosts, false);
    return status;
  }
  status = hd__hosts_enter(*out, ctx, hosts);
  if (status != HD_OK) {
    hd__world_give_up(*out, hd_ctx_message(ctx));
    hd__world_leave(*out);
    *out = NULL;
  }
  return status;
}

/* Which way it is: MPI, or shared memory. */
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

hd_status hd__rendezvous(hd_world **out, hd_ctx *ctx, hd_way way, const char *method, int rank, int ranks,
                         double timeout_s) {
  hd_start start = {.rank = -1, .ranks = -1};
  place p = {.timeout_s = timeout_s, .end_s = hd__clock_s() + timeout_s};
  char key[METHOD_BYTES];
  int given_rank, given_ranks;
  bool mpi;
  *out = NULL;
  if ((!method || !strcmp(method, "env://")) && hd__world_launched(&given_rank, &given_ranks) && way != HD_WAY_MPI)
    return join_launched(out, ctx, rank, ranks, timeout_s);
  if (rank == -1 || ranks == -1 || way == HD_WAY_MPI)
    HD_TRY(hd__start_read(&start, ctx));
  HD_TRY(choose_way(&mpi, ctx, way, &start));
  HD_TRY(read_method(key, &p, ctx, method, &start));
  HD_TRY(settle_numbers(&p, ctx, &start, rank, ranks));
  return mpi ? come_over_mpi(out, ctx, &p, &start) : come_together(out, ctx, &p, key);
}
