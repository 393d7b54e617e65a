// In place of the kernel: nothing leaves the process, every byte that would be sent is read, and the answers are the fuzzer's.

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "input.h"

static input kernel;
static uint32_t bytes_sent;

static void read_all(const struct msghdr *message) {
  MUST(message->msg_namelen <= sizeof(struct sockaddr_in6));
  for (size_t i = 0; i < message->msg_iovlen; i++) {
    MUST(message->msg_iov[i].iov_len <= BUFFER_BYTES);
    const uint8_t *bytes = message->msg_iov[i].iov_base;
    for (size_t k = 0; k < message->msg_iov[i].iov_len; k++) bytes_sent += bytes[k];
  }
}

static int fail(uint32_t how) {
  static const int errors[] = {EAGAIN, EINTR, ECONNREFUSED, EIO, ENETUNREACH, EMSGSIZE, ENOPROTOOPT, EPERM};
  errno = errors[how % 8];
  return -1;
}

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
  (void)fd, (void)flags;
  for (unsigned i = 0; i < count; i++) read_all(&messages[i].msg_hdr);
  uint32_t how = take(&kernel, 1);
  // An interrupted call is repeated, which must end with the input.
  if (how > 200 && kernel.left > 0) return fail(how);
  return how > 150 ? 1 + (int)(how % count) : (int)count;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
  (void)fd, (void)flags;
  read_all(message);
  return take(&kernel, 1) > 200 && kernel.left > 0 ? fail(take(&kernel, 1)) : 1;
}

int __wrap_poll(struct pollfd *which, nfds_t count, int timeout) {
  (void)which, (void)count, (void)timeout;
  return kernel.left > 0 ? 1 : 0;
}
