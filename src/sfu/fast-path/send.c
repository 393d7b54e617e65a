// Sends many datagrams to many peers with one system call, on the socket that Bun receives with. Packets of one size to one peer
// travel through the kernel as one (UDP GSO): a browser sends all packets of a frame together, and so does the server. No
// argument is trusted: every number is checked against the memory that it points into.

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "fast-path.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define SOL_UDP_LEVEL 17
// The kernel takes 64 segments in one call, and no more than fits one IP packet.
#define MAX_SEGMENTS 60u
#define MAX_GROUP_BYTES 60000u
#define TABLE_SIZE 512u  // a power of two, more than twice MAX_BATCH

// Packets for one peer that leave together. All have one size; only the last may be shorter.
typedef struct {
  uint32_t first, count, bytes, segment_bytes, filled;
  int closed;
} group;

typedef union {
  char bytes[CMSG_SPACE(sizeof(uint16_t))];
  struct cmsghdr aligned;
} control;

static const uint8_t MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// An IPv4 socket gets the last four bytes of a mapped address.
static socklen_t write_address(struct sockaddr_in6 *out, const destination *to, int family) {
  memset(out, 0, sizeof *out);
  if (family == AF_INET6) {
    out->sin6_family = AF_INET6;
    out->sin6_port = htons(to->port);
    out->sin6_scope_id = to->scope;
    memcpy(&out->sin6_addr, to->address, 16);
    return sizeof *out;
  }
  struct sockaddr_in *v4 = (struct sockaddr_in *)out;
  v4->sin_family = AF_INET;
  v4->sin_port = htons(to->port);
  memcpy(&v4->sin_addr, to->address + 12, 4);
  return sizeof *v4;
}

void read_address(destination *from, const struct sockaddr_in6 *sender) {
  memset(from, 0, sizeof *from);
  if (sender->sin6_family == AF_INET6) {
    memcpy(from->address, &sender->sin6_addr, 16);
    from->port = ntohs(sender->sin6_port);
    from->scope = sender->sin6_scope_id;
    return;
  }
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)sender;
  memcpy(from->address, MAPPED, sizeof MAPPED);
  memcpy(from->address + 12, &v4->sin_addr, 4);
  from->port = ntohs(v4->sin_port);
}

static int can_send(const destination *to, int family) {
  return to->length > 0 && to->length <= BUFFER_BYTES &&
         (family == AF_INET6 || memcmp(to->address, MAPPED, sizeof MAPPED) == 0);
}

static int same_peer(const destination *a, const destination *b) {
  return a->port == b->port && a->scope == b->scope && memcmp(a->address, b->address, 16) == 0;
}

// Finds the peer's entry in the table of newest groups, or the free one that is to become it.
static uint16_t *newest_group(uint16_t *table, const group *groups, const destination *to, const destination *peer) {
  uint32_t hash = peer->port * 2654435761u;
  for (uint32_t i = 12; i < 16; i++) hash = (hash ^ peer->address[i]) * 16777619u;
  for (uint32_t at = hash >> 16;; at++) {
    uint16_t *entry = &table[at & (TABLE_SIZE - 1)];
    if (*entry == 0 || same_peer(&to[groups[*entry - 1].first], peer)) return entry;
  }
}

// Puts every packet into a group; `of` says which, 0 for none, else its number + 1. Packets for one peer stay in order.
static uint32_t gather(const destination *to, uint32_t count, int family, int grouping, group *groups, uint16_t *of) {
  uint16_t table[TABLE_SIZE] = {0};
  uint32_t made = 0;
  for (uint32_t i = 0; i < count; i++) {
    of[i] = 0;
    if (!can_send(&to[i], family)) continue;
    uint32_t length = to[i].length;
    uint16_t *newest = newest_group(table, groups, to, &to[i]);
    group *open = *newest && grouping ? &groups[*newest - 1] : NULL;
    if (open && !open->closed && length <= open->segment_bytes && open->count < MAX_SEGMENTS &&
        open->bytes + length <= MAX_GROUP_BYTES) {
      open->closed = length < open->segment_bytes;
      open->bytes += length;
      open->count++;
      of[i] = *newest;
      continue;
    }
    groups[made++] = (group){.first = i, .count = 1, .bytes = length, .segment_bytes = length};
    of[i] = *newest = (uint16_t)made;
  }
  return made;
}

static void write_segment_size(struct msghdr *message, control *room, uint32_t segment_bytes) {
  uint16_t size = (uint16_t)segment_bytes;
  message->msg_control = room->bytes;
  message->msg_controllen = sizeof room->bytes;
  struct cmsghdr *header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_UDP_LEVEL;
  header->cmsg_type = UDP_SEGMENT;
  header->cmsg_len = CMSG_LEN(sizeof size);
  memcpy(CMSG_DATA(header), &size, sizeof size);
}

// Sends the packets of a group one by one, where the kernel or the network card refuses the group.
static void send_singly(int fd, const struct msghdr *together) {
  for (size_t i = 0; i < together->msg_iovlen; i++) {
    struct msghdr alone = *together;
    alone.msg_iov = &together->msg_iov[i];
    alone.msg_iovlen = 1;
    alone.msg_control = NULL;
    alone.msg_controllen = 0;
    while (sendmsg(fd, &alone, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  }
}

// Returns how many messages were sent or can never be sent. For the others the socket's buffer was full.
static uint32_t transmit(int fd, struct mmsghdr *messages, uint32_t count, uint32_t *grouping) {
  uint32_t sent = 0;
  for (int retried = 0; sent < count;) {
    int more = sendmmsg(fd, messages + sent, count - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (more > 0) {
      sent += (uint32_t)more;
      retried = 0;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return sent;
    // An ICMP error of another peer is reported once.
    if (errno == ECONNREFUSED && retried++ == 0) continue;
    // A peer whose address has no route must not hold up the others.
    if (messages[sent].msg_hdr.msg_iovlen > 1) {
      if (errno == EIO || errno == EOPNOTSUPP || errno == ENOPROTOOPT) *grouping = 0;
      send_singly(fd, &messages[sent].msg_hdr);
    }
    sent++;
    retried = 0;
  }
  return sent;
}

// Sends the first `count` buffers of the arena and returns 1 when no packet is left. Otherwise the packets that need no further
// attempt have a length of 0 afterwards. `grouping` becomes 0 where the system refuses groups.
EXPORT uint32_t stoa_send(int32_t fd, uint32_t is_v6, uint8_t *arena, uint32_t arena_bytes, destination *to, uint32_t count,
                          uint32_t *grouping) {
  group groups[MAX_BATCH];
  uint16_t of[MAX_BATCH];
  struct mmsghdr messages[MAX_BATCH];
  struct iovec vectors[MAX_BATCH];
  struct sockaddr_in6 addresses[MAX_BATCH];
  control controls[MAX_BATCH];
  if (!arena || !to || !grouping || count > MAX_BATCH || count > arena_bytes / BUFFER_BYTES) return 0;
  int family = is_v6 ? AF_INET6 : AF_INET;
  uint32_t made = gather(to, count, family, *grouping != 0, groups, of);
  for (uint32_t g = 0, vector = 0; g < made; g++) {
    memset(&messages[g], 0, sizeof messages[g]);
    struct msghdr *message = &messages[g].msg_hdr;
    message->msg_name = &addresses[g];
    message->msg_namelen = write_address(&addresses[g], &to[groups[g].first], family);
    message->msg_iov = &vectors[vector];
    message->msg_iovlen = groups[g].count;
    if (groups[g].count > 1) write_segment_size(message, &controls[g], groups[g].segment_bytes);
    vector += groups[g].count;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (of[i] == 0) continue;
    group *its = &groups[of[i] - 1];
    messages[of[i] - 1].msg_hdr.msg_iov[its->filled++] = (struct iovec){arena + (size_t)i * BUFFER_BYTES, to[i].length};
  }
  uint32_t sent = transmit(fd, messages, made, grouping);
  if (sent == made) return 1;
  for (uint32_t i = 0; i < count; i++)
    if (of[i] <= sent) to[i].length = 0;
  return 0;
}

// Writes an address as text, as Bun does: 16 bytes, of which an IPv4 socket uses the last four. A link-local address ends with the
// name of its network link. Returns the length of the text, or 0.
EXPORT uint32_t stoa_write_address(const uint8_t *address, uint32_t scope, uint32_t is_v6, char *text, uint32_t capacity) {
  if (!address || !text || !inet_ntop(is_v6 ? AF_INET6 : AF_INET, address + (is_v6 ? 0 : 12), text, capacity)) return 0;
  uint32_t length = (uint32_t)strnlen(text, capacity);
  char link[IF_NAMESIZE];
  if (scope == 0) return length;
  if (!if_indextoname(scope, link)) snprintf(link, sizeof link, "%u", scope);
  int more = snprintf(text + length, capacity - length, "%%%s", link);
  return more > 0 && (uint32_t)more < capacity - length ? length + (uint32_t)more : 0;
}
