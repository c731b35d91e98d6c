/* A web server with bad manners, for tests of downloads: bad_server FOLDER prints its port and serves FOLDER's files,
 * one request at a time, until its standard input ends. The first part of a path says how:
 *
 *     /good/F     all of it, from where the client wants to go on
 *     /half/F     half of what is left, then breaks off
 *     /lies/F     as many bytes, all wrong
 *     /spoils/F   half of it, all wrong, then breaks off
 *     /deaf/F     all of it from the beginning, whatever the client wants
 *     /slow/F     one byte, then nothing more while the client waits */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct request {
  char manner[16], file[64];
  size_t from;
} request;

/* The request's head, up to its empty line. */
static int read_request(request *r, int client) {
  char text[4096];
  size_t length = 0;
  *r = (request){0};
  do {
    ssize_t got = read(client, text + length, sizeof text - 1 - length);
    if (got <= 0)
      return 0;
    length += (size_t)got;
    text[length] = 0;
  } while (!strstr(text, "\r\n\r\n") && length < sizeof text - 1);
  const char *range = strstr(text, "ange: bytes=");
  r->from = range ? strtoul(range + 12, NULL, 10) : 0;
  return sscanf(text, "GET /%15[a-z]/%63[A-Za-z0-9.-] ", r->manner, r->file) == 2;
}

static char *read_file(size_t *length, const char *folder, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file)
    return NULL;
  fseek(file, 0, SEEK_END);
  *length = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*length + 1);
  if (fread(bytes, 1, *length, file) != *length)
    *length = 0;
  fclose(file);
  return bytes;
}

static void send_all(int client, const char *bytes, size_t length) {
  for (ssize_t sent; length > 0 && (sent = write(client, bytes, length)) > 0; bytes += sent, length -= (size_t)sent) {
  }
}

static void answer(int client, const request *r, char *bytes, size_t length) {
  const int deaf = !strcmp(r->manner, "deaf"), wrong = !strcmp(r->manner, "lies") || !strcmp(r->manner, "spoils");
  const int breaks = !strcmp(r->manner, "half") || !strcmp(r->manner, "spoils"), slow = !strcmp(r->manner, "slow");
  const size_t from = deaf ? 0 : r->from;
  char head[256];
  if (from >= length && length > 0) {
    send_all(client, head,
             (size_t)sprintf(head, "HTTP/1.1 416 Nothing there\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
    return;
  }
  for (size_t i = 0; wrong && i < length; i++)
    bytes[i] ^= 0x55;
  const size_t left = length - from, sent = slow ? 1 : breaks ? (left + 1) / 2 : left;
  int used = sprintf(head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n",
                     from ? "206 Partial Content" : "200 OK", left);
  if (from)
    used += sprintf(head + used, "Content-Range: bytes %zu-%zu/%zu\r\n", from, length - 1, length);
  used += sprintf(head + used, "\r\n");
  send_all(client, head, (size_t)used);
  send_all(client, bytes + from, sent);
  if (slow) { /* until the client goes */
    struct pollfd gone = {.fd = client, .events = POLLIN};
    poll(&gone, 1, 60000);
  }
}

static void serve(int client, const char *folder) {
  static const char missing[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  request r;
  size_t length = 0;
  char *bytes = read_request(&r, client) ? read_file(&length, folder, r.file) : NULL;
  if (bytes)
    answer(client, &r, bytes, length);
  else
    send_all(client, missing, sizeof missing - 1);
  free(bytes);
  shutdown(client, SHUT_WR);
  close(client);
}

int main(int argc, char **argv) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof at;
  int door = socket(AF_INET, SOCK_STREAM, 0);
  if (argc != 2 || bind(door, (struct sockaddr *)&at, bytes) || listen(door, 8) ||
      getsockname(door, (struct sockaddr *)&at, &bytes))
    return 1;
  signal(SIGPIPE, SIG_IGN);
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  for (;;) {
    struct pollfd fds[] = {{.fd = door, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    if (poll(fds, 2, -1) < 0 || fds[1].revents)
      return 0;
    int client = accept(door, NULL, NULL);
    if (client >= 0)
      serve(client, argv[1]);
  }
}
