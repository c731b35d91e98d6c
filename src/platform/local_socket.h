/* UNIX sockets under abstract addresses: names of one host that are no files and are freed with the process that
 * holds them.
 *
 * Such a name has no owner and no permissions: any user of the network namespace may hold it first. Only the
 * credentials of the listening process cannot be forged, so each call that reaches a holder returns its user. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The holder of a name. */
typedef enum hd_name_holder {
  HD_NAME_FREE,       /* no process listens */
  HD_NAME_SAME_USER,  /* a process of this user */
  HD_NAME_OTHER_USER, /* a process of another user */
  HD_NAME_UNKNOWN     /* the queue of connections is full, or the call was refused */
} hd_name_holder;

/* A non-blocking socket of records that listens under the name; -1 with errno, EADDRINUSE: the name is held. */
int hd__local_listen(const char *name);

/* Connects without waiting. *fd is a socket for HD_NAME_SAME_USER, else -1: nothing is ever sent to another user;
 * *user is the holder's user where it is known. HD_NAME_UNKNOWN with *fd -1 and errno EMFILE: there is no descriptor
 * left. */
hd_name_holder hd__local_connect(int *fd, uid_t *user, const char *name);

/* Whether the process at the other end of a socket is of this user. */
bool hd__local_peer_is_same_user(int fd, uid_t *user);

/* The process that made a pair of sockets, running or ended; 0: the descriptor is no such socket. */
pid_t hd__local_socket_maker(int fd);
