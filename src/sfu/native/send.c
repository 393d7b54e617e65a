// Many datagrams to many peers with one system call, on the socket that Bun receives with. Nothing given is trusted:
// every number is checked against the memory it points into.

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define EXPORT __attribute__((visibility("default")))

// Known to native-send.ts as well.
#define SLOT_BYTES 2304u
#define MAX_BATCH 200u

// Where a slot goes. IPv4 in its mapped form (::ffff:a.b.c.d).
typedef struct {
  uint8_t address[16];
  uint32_t scope;
  uint16_t port, length;
} destination;

static const uint8_t MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// An IPv4 socket is given the last four bytes of a mapped address, and nothing else.
static socklen_t write_address(struct sockaddr_in6 *out, const destination *to, int family) {
  memset(out, 0, sizeof *out);
  if (family == AF_INET6) {
    out->sin6_family = AF_INET6;
    out->sin6_port = htons(to->port);
    out->sin6_scope_id = to->scope;
    memcpy(&out->sin6_addr, to->address, 16);
    return sizeof *out;
  }
  if (memcmp(to->address, MAPPED, sizeof MAPPED) != 0) return 0;
  struct sockaddr_in *v4 = (struct sockaddr_in *)out;
  v4->sin_family = AF_INET;
  v4->sin_port = htons(to->port);
  memcpy(&v4->sin_addr, to->address + 12, 4);
  return sizeof *v4;
}

// Sends the first `count` slots of the arena. Returns how many are done with: sent, or impossible to send. The rest
// found the socket's buffer full.
EXPORT uint32_t stoa_send(int32_t fd, uint8_t *arena, uint32_t arena_bytes, const destination *to, uint32_t count) {
  struct mmsghdr messages[MAX_BATCH];
  struct iovec vectors[MAX_BATCH];
  struct sockaddr_in6 addresses[MAX_BATCH];
  struct sockaddr_in6 own;
  socklen_t own_bytes = sizeof own;
  if (!arena || !to || count > MAX_BATCH || count > arena_bytes / SLOT_BYTES) return 0;
  if (getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0) return 0;
  uint32_t wanted = 0, of[MAX_BATCH];
  for (uint32_t i = 0; i < count; i++) {
    struct mmsghdr *message = &messages[wanted];
    socklen_t bytes = write_address(&addresses[wanted], &to[i], own.sin6_family);
    if (bytes == 0 || to[i].length == 0 || to[i].length > SLOT_BYTES) continue;
    vectors[wanted] = (struct iovec){arena + (size_t)i * SLOT_BYTES, to[i].length};
    memset(message, 0, sizeof *message);
    message->msg_hdr.msg_name = &addresses[wanted];
    message->msg_hdr.msg_namelen = bytes;
    message->msg_hdr.msg_iov = &vectors[wanted];
    message->msg_hdr.msg_iovlen = 1;
    of[wanted++] = i;
  }
  for (uint32_t sent = 0, retried = 0; sent < wanted;) {
    int more = sendmmsg(fd, messages + sent, wanted - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (more > 0) {
      sent += (uint32_t)more;
      retried = 0;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return of[sent];
    } else if (errno != EINTR) {
      // An ICMP error of another peer is reported once; an address without a route must not hold up the others.
      if (errno != ECONNREFUSED || retried++ > 0) {
        sent++;
        retried = 0;
      }
    }
  }
  return count;
}
