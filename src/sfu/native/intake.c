// One turn's datagrams with one system call, sorted by who sent them: what a known connection protected is opened, the rest is
// for TypeScript to look at. Nothing given is trusted: every number is checked against the memory it points into.

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cipher.h"

#define MAX_DATAGRAMS 64u
#define MAX_PATHS (1u << 21)

// An address that proved to be a client's. `number` is TypeScript's name for it; `receiver` is 0 while there are no keys.
typedef struct path {
  uint8_t address[16];
  uint32_t scope, port, number, receiver;
} path;

struct intake {
  uint8_t slots[MAX_DATAGRAMS][SLOT_BYTES];
  struct sockaddr_in6 from[MAX_DATAGRAMS];
  // Open addressing; a number of 0 is a free place. The size is a power of two, and never more than half is taken.
  path *paths;
  uint32_t capacity, count;
};

static uint32_t hash_of(const path *p) {
  uint32_t hash = p->port * 2654435761u;
  for (uint32_t i = 0; i < 16; i++) hash = (hash ^ p->address[i]) * 16777619u;
  return (hash ^ p->scope) * 2654435761u >> 7;
}

static int same_place(const path *a, const path *b) {
  return a->port == b->port && a->scope == b->scope && memcmp(a->address, b->address, 16) == 0;
}

// Its entry, or the free one that is to become it.
static path *place_of(const intake *in, const path *wanted) {
  for (uint32_t at = hash_of(wanted);; at++) {
    path *entry = &in->paths[at & (in->capacity - 1)];
    if (entry->number == 0 || same_place(entry, wanted)) return entry;
  }
}

static int grow(intake *in) {
  path *old = in->paths;
  uint32_t before = in->capacity, capacity = before ? before * 2 : 256;
  if (capacity > MAX_PATHS || !(in->paths = calloc(capacity, sizeof *old))) {
    in->paths = old;
    return 0;
  }
  in->capacity = capacity;
  for (uint32_t i = 0; i < before; i++)
    if (old[i].number != 0) *place_of(in, &old[i]) = old[i];
  free(old);
  return 1;
}

static intake *intake_of(engine *e) {
  if (!e->intake) e->intake = calloc(1, sizeof *e->intake);
  return e->intake;
}

void free_intake(engine *e) {
  if (e->intake) free(e->intake->paths);
  free(e->intake);
}

// What comes from there is named `number`, and opened by that receiver unless it is 0. Returns 0 when there is no room.
EXPORT uint32_t stoa_set_path(engine *e, const uint8_t *address, uint32_t scope, uint32_t port, uint32_t number,
                              uint32_t receiver_number) {
  if (!e || !address || number == 0 || port > 65535) return 0;
  intake *in = intake_of(e);
  if (!in || (in->count * 2 >= in->capacity && !grow(in))) return 0;
  path wanted = {.scope = scope, .port = port, .number = number, .receiver = receiver_number};
  memcpy(wanted.address, address, 16);
  path *entry = place_of(in, &wanted);
  if (entry->number == 0) in->count++;
  *entry = wanted;
  return 1;
}

EXPORT void stoa_remove_path(engine *e, const uint8_t *address, uint32_t scope, uint32_t port) {
  if (!e || !address || !e->intake || e->intake->capacity == 0) return;
  intake *in = e->intake;
  path wanted = {.scope = scope, .port = port};
  memcpy(wanted.address, address, 16);
  path *entry = place_of(in, &wanted);
  if (entry->number == 0) return;
  entry->number = 0;
  in->count--;
  // Those that had to step aside for it take their places anew.
  for (uint32_t at = (uint32_t)(entry - in->paths) + 1;; at++) {
    path *next = &in->paths[at & (in->capacity - 1)];
    if (next->number == 0) return;
    path moved = *next;
    next->number = 0;
    *place_of(in, &moved) = moved;
  }
}

static void read_sender(record *out, const struct sockaddr_in6 *from) {
  static const uint8_t MAPPED[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (from->sin6_family == AF_INET6) {
    memcpy(out->address, &from->sin6_addr, 16);
    out->scope = from->sin6_scope_id;
    out->port = ntohs(from->sin6_port);
    return;
  }
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
  memcpy(out->address, MAPPED, sizeof MAPPED);
  memcpy(out->address + 12, &v4->sin_addr, 4);
  out->scope = 0;
  out->port = ntohs(v4->sin_port);
}

static const path *path_of(const intake *in, const record *from) {
  if (in->count == 0) return NULL;
  path wanted = {.scope = from->scope, .port = from->port};
  memcpy(wanted.address, from->address, 16);
  const path *entry = place_of(in, &wanted);
  return entry->number ? entry : NULL;
}

// RFC 7983 tells media by its first byte, RFC 5761 control among it by its second.
static void open_media(engine *e, receiver *r, uint8_t *packet, record *out) {
  int is_rtcp = out->length >= 2 && packet[1] >= 192 && packet[1] <= 223;
  int32_t plain = is_rtcp ? receive_rtcp(e, r, packet, out->length) : receive_rtp(e, r, packet, out->length);
  out->kind = plain < 0 ? (uint32_t)-plain : is_rtcp ? RECORD_RTCP : RECORD_RTP;
  out->plain = plain < 0 ? 0 : (uint32_t)plain;
}

// Takes what is waiting, at most as many as there is room for. Each has a record, and its bytes lie in the chunk from
// `chunk_at` on, one behind the other. Returns how many there are.
EXPORT uint32_t stoa_take(engine *e, int32_t fd, uint8_t *chunk, uint32_t chunk_bytes, uint32_t chunk_at, record *records,
                          uint32_t capacity) {
  if (!e || !chunk || !records || chunk_at > chunk_bytes) return 0;
  intake *in = intake_of(e);
  if (!in) return 0;
  uint32_t most = (chunk_bytes - chunk_at) / SLOT_BYTES;
  if (most > capacity) most = capacity;
  if (most > MAX_DATAGRAMS) most = MAX_DATAGRAMS;
  struct mmsghdr messages[MAX_DATAGRAMS];
  struct iovec vectors[MAX_DATAGRAMS];
  memset(messages, 0, most * sizeof *messages);
  for (uint32_t i = 0; i < most; i++) {
    vectors[i] = (struct iovec){in->slots[i], SLOT_BYTES};
    messages[i].msg_hdr.msg_iov = &vectors[i];
    messages[i].msg_hdr.msg_iovlen = 1;
    messages[i].msg_hdr.msg_name = &in->from[i];
    messages[i].msg_hdr.msg_namelen = sizeof in->from[i];
  }
  int taken;
  do taken = recvmmsg(fd, messages, most, MSG_DONTWAIT, NULL);
  while (taken < 0 && errno == EINTR);
  for (int i = 0; i < taken; i++) {
    record *out = &records[i];
    // Larger ones than any network carries are cut off, and refused as whatever they are.
    out->kind = RECORD_RAW;
    out->path = 0;
    out->at = chunk_at;
    out->length = messages[i].msg_len;
    out->plain = 0;
    read_sender(out, &in->from[i]);
    memcpy(chunk + chunk_at, in->slots[i], out->length);
    const path *known = path_of(in, out);
    if (known) {
      out->path = known->number;
      receiver *r = find_receiver(e, known->receiver);
      uint8_t first = out->length > 0 ? chunk[chunk_at] : 0;
      if (r && first >= 128 && first < 192) open_media(e, r, chunk + chunk_at, out);
    }
    chunk_at += out->length;
  }
  return taken < 0 ? 0 : (uint32_t)taken;
}
