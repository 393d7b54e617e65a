/* A thread that only passes bytes on, between a TCP connection of loopback and a socket of the machine. In the place of the
 * edge, before a server that ends TLS itself, it shows what a thread costs there that neither decrypts nor runs a script. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 * 1024 };

static int listener;
static struct sockaddr_un server = {.sun_family = AF_UNIX};
static socklen_t server_bytes;

static void watch(int epoll, int socket) {
  struct epoll_event event = {.events = EPOLLIN, .data.fd = socket};
  epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
}

/* Forwards bytes from each side to the other until one of them is closed. */
static void pass_on(int front, int back) {
  static char buffer[BUFFER_BYTES];
  int epoll = epoll_create1(0);
  watch(epoll, front);
  watch(epoll, back);
  for (;;) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) < 1) continue;
    int from = event.data.fd;
    ssize_t length = recv(from, buffer, sizeof buffer, 0);
    if (length <= 0 || send(from == front ? back : front, buffer, (size_t)length, MSG_NOSIGNAL) < 0) break;
  }
  close(epoll);
}

static void *serve(void *unused) {
  (void)unused;
  int front, at_once = 1;
  while ((front = accept(listener, NULL, NULL)) >= 0) {
    int back = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(front, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    if (connect(back, (struct sockaddr *)&server, server_bytes) == 0) pass_on(front, back);
    close(front);
    close(back);
  }
  return NULL;
}

/* Leads, one connection at a time, to the abstract socket of that name. Returns its port; 0 when it cannot. */
int32_t start_hop(const char *name) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t place_bytes = sizeof place;
  size_t length = strlen(name);
  if (length > sizeof server.sun_path - 1) return 0;
  memcpy(server.sun_path + 1, name, length);
  server_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  pthread_t thread;
  listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&place, place_bytes) < 0 || listen(listener, 1) < 0) return 0;
  if (getsockname(listener, (struct sockaddr *)&place, &place_bytes) < 0) return 0;
  return pthread_create(&thread, NULL, serve, NULL) == 0 ? ntohs(place.sin_port) : 0;
}
