/* What a thread costs that only passes bytes on between a TCP connection of loopback and a socket of the machine: an echo
 * without it, and with it. Prints both medians in microseconds: no server with such a thread adds less on this machine. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ECHOES = 20000, MESSAGE_BYTES = 92, BUFFER_BYTES = 4096 };

typedef struct {
  int near, far;
} Pair;

static void check(int result, const char *what) {
  if (result >= 0) return;
  perror(what);
  exit(1);
}

static Pair connection(void) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof place;
  int listener = socket(AF_INET, SOCK_STREAM, 0), at_once = 1;
  check(bind(listener, (struct sockaddr *)&place, size), "bind");
  check(getsockname(listener, (struct sockaddr *)&place, &size), "getsockname");
  check(listen(listener, 1), "listen");
  Pair pair = {.near = socket(AF_INET, SOCK_STREAM, 0)};
  check(connect(pair.near, (struct sockaddr *)&place, size), "connect");
  check(pair.far = accept(listener, NULL, NULL), "accept");
  check(setsockopt(pair.near, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once), "setsockopt");
  check(setsockopt(pair.far, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once), "setsockopt");
  close(listener);
  return pair;
}

static Pair within(void) {
  int sides[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, sides), "socketpair");
  return (Pair){sides[0], sides[1]};
}

static int watching(const int *sockets, int count) {
  int epoll = epoll_create1(0);
  for (int i = 0; i < count; i++) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = sockets[i]};
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[i], &event), "epoll_ctl");
  }
  return epoll;
}

/* What comes in at one side leaves at the other; with the same socket twice it is an echo. */
static void *pass_on(void *argument) {
  Pair *sides = argument;
  char buffer[BUFFER_BYTES];
  int epoll = watching((int *)sides, sides->near == sides->far ? 1 : 2);
  for (;;) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) < 1) continue;
    int from = event.data.fd;
    ssize_t length = recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (length == 0) return NULL;
    if (length > 0) send(from == sides->near ? sides->far : sides->near, buffer, (size_t)length, MSG_NOSIGNAL);
  }
}

static int later(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return difference < 0 ? -1 : difference > 0;
}

static double now_micros(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double median_echo(int socket) {
  static double times[ECHOES];
  char buffer[BUFFER_BYTES] = {0};
  int epoll = watching(&socket, 1);
  for (int i = 0; i < ECHOES; i++) {
    struct epoll_event event;
    double started_at = now_micros();
    check((int)send(socket, buffer, MESSAGE_BYTES, 0), "send");
    check(epoll_wait(epoll, &event, 1, -1), "epoll_wait");
    check((int)recv(socket, buffer, sizeof buffer, 0), "recv");
    times[i] = now_micros() - started_at;
  }
  close(epoll);
  qsort(times, ECHOES, sizeof times[0], later);
  return times[ECHOES / 2];
}

int main(void) {
  pthread_t threads[3];
  Pair direct = connection(), front = connection(), back = within();
  Pair echoes[] = {{direct.far, direct.far}, {front.far, back.near}, {back.far, back.far}};
  for (int i = 0; i < 3; i++) check(-pthread_create(&threads[i], NULL, pass_on, &echoes[i]), "pthread_create");
  double without = median_echo(direct.near);
  printf("{\"without\":%.2f,\"with\":%.2f}\n", without, median_echo(front.near));
  return 0;
}
