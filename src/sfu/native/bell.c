// How the loop of Bun tells us that datagrams have come without reading them itself. It waits for the socket it opened, by its
// epoll registration, which belongs to the open socket and not to the number; and it reads from the number. So the number is
// given to another socket, the bell: the one that clients write to wakes the loop, and the loop finds one empty message of the
// bell's and calls us. Then the bell has to be rung again.

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "native.h"

// To itself, and nobody else can.
static int open_bell(void) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof own;
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  uint8_t heard;
  if (bind(fd, (struct sockaddr *)&own, bytes) == 0 && getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 &&
      connect(fd, (struct sockaddr *)&own, bytes) == 0 && send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 &&
      recv(fd, &heard, 1, MSG_DONTWAIT | MSG_PEEK) == 1)
    return fd;
  close(fd);
  return -1;
}

// The socket gets another number, which is returned, and `fd` becomes its bell. −1: all is as it was.
EXPORT int32_t stoa_adopt(int32_t fd) {
  int bell = open_bell();
  if (bell < 0) return -1;
  int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own >= 0 && dup3(bell, fd, O_CLOEXEC) < 0) {
    close(own);
    own = -1;
  }
  close(bell);
  return own;
}

EXPORT void stoa_ring(int32_t bell) { send(bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL); }

// Before Bun closes the bell: it must not be told any more.
EXPORT void stoa_release(int32_t own) { close(own); }
