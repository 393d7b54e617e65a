// The receiving half of each connection: the packet indices and replay windows of its streams. A packet is opened if it is new and
// authentic. wire/srtp/srtp.ts is the reference in TypeScript. No argument of an exported function is trusted: every number is
// checked against the memory that it points into.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "srtp.h"

// In a burst, packets may be reordered by more than RFC 3711's minimum of 64.
#define RTP_WINDOW 1024u
#define RTCP_WINDOW 128u
#define MAX_RECEIVERS (1u << 20)
#define CYCLE 0x10000
#define HALF 0x8000

typedef struct {
  uint32_t ssrc;
  int64_t highest;
  uint32_t bits[RTP_WINDOW / 32];
} stream;

typedef struct {
  stream *streams;
  uint32_t count, capacity, window, latest;
} streams;

// An authenticated peer must not make the server hold state for more and more SSRCs, so `max_streams` limits them.
struct receiver {
  uint32_t cipher, max_streams;
  streams rtp, rtcp;
};

static stream *find_stream(streams *all, uint32_t ssrc) {
  if (all->latest < all->count && all->streams[all->latest].ssrc == ssrc) return &all->streams[all->latest];
  for (uint32_t i = 0; i < all->count; i++) {
    if (all->streams[i].ssrc != ssrc) continue;
    all->latest = i;
    return &all->streams[i];
  }
  return NULL;
}

static stream *add_stream(streams *all, uint32_t ssrc) {
  if (all->count == all->capacity) {
    uint32_t capacity = all->capacity ? all->capacity * 2 : 2;
    stream *more = realloc(all->streams, capacity * sizeof *more);
    if (!more) return NULL;
    all->streams = more;
    all->capacity = capacity;
  }
  stream *fresh = &all->streams[all->count++];
  memset(fresh, 0, sizeof *fresh);
  fresh->ssrc = ssrc;
  fresh->highest = -1;
  return fresh;
}

// RFC 3711, Appendix A. Returns −1 for a packet from before the very first cycle.
static int64_t estimate_index(int64_t highest, int64_t sequence) {
  int64_t last = highest % CYCLE;
  int64_t index = highest - last + sequence;
  if (last < HALF) {
    if (sequence - last > HALF) index -= CYCLE;
  } else if (last - HALF > sequence) {
    index += CYCLE;
  }
  return index < 0 ? -1 : index;
}

static int is_fresh(const stream *s, uint32_t window, int64_t index) {
  if (index > s->highest) return 1;
  if (s->highest - index >= window) return 0;
  uint32_t bit = (uint32_t)index & (window - 1);
  return (s->bits[bit / 32] & 1u << bit % 32) == 0;
}

// Only for packets that passed authentication: a forged one must not move the window.
static void accept_index(stream *s, uint32_t window, int64_t index) {
  if (index > s->highest) {
    if (s->highest < 0 || index - s->highest >= window) memset(s->bits, 0, sizeof s->bits);
    else
      for (int64_t skipped = s->highest + 1; skipped < index; skipped++) {
        uint32_t bit = (uint32_t)skipped & (window - 1);
        s->bits[bit / 32] &= ~(1u << bit % 32);
      }
    s->highest = index;
  }
  uint32_t bit = (uint32_t)index & (window - 1);
  s->bits[bit / 32] |= 1u << bit % 32;
}

// Header length with CSRCs and extension, or −1 when the packet is not well-formed RTP.
static int32_t header_length_of(const uint8_t *packet, uint32_t length) {
  if (length < RTP_HEADER_BYTES || packet[0] >> 6 != 2) return -1;
  uint32_t at = RTP_HEADER_BYTES + (packet[0] & 0x0f) * 4u;
  if (packet[0] & 0x10) {
    if (at + 4 > length) return -1;
    at += 4 + read16(packet + at + 2) * 4;
  }
  return at <= length ? (int32_t)at : -1;
}

int32_t receive_rtp(engine *e, receiver *r, uint8_t *packet, uint32_t length) {
  cipher *c = find_cipher(e, r->cipher);
  int32_t header_length = header_length_of(packet, length);
  if (!c || length > BUFFER_BYTES || header_length < 0 || length < (uint32_t)header_length + tag_bytes(c)) return MALFORMED;
  uint32_t ssrc = read32(packet + 8), sequence = read16(packet + 2);
  stream *known = find_stream(&r->rtp, ssrc);
  int64_t index = known ? estimate_index(known->highest, sequence) : sequence;
  if (index < 0 || (known && !is_fresh(known, RTP_WINDOW, index))) return REPLAYED;
  if (!known && r->rtp.count >= r->max_streams) return TOO_MANY_STREAMS;
  int32_t plain = unprotect_rtp(e, c, packet, (uint32_t)header_length, length, (uint32_t)(index / CYCLE));
  if (plain < 0) return UNAUTHENTIC;
  if (!known) known = add_stream(&r->rtp, ssrc);
  if (!known) return TOO_MANY_STREAMS;
  accept_index(known, RTP_WINDOW, index);
  return plain;
}

static int32_t receive_rtcp(engine *e, receiver *r, uint8_t *packet, uint32_t length) {
  cipher *c = find_cipher(e, r->cipher);
  if (!c || length > BUFFER_BYTES || length < RTCP_HEADER_BYTES + RTCP_INDEX_BYTES + tag_bytes(c)) return MALFORMED;
  uint32_t word = read32(packet + rtcp_index_at(c, length));
  // WebRTC encrypts all RTCP: a clear E flag is refused rather than supported.
  if (word < RTCP_ENCRYPTED) return MALFORMED;
  uint32_t index = word - RTCP_ENCRYPTED, ssrc = read32(packet + 4);
  stream *known = find_stream(&r->rtcp, ssrc);
  if (known && !is_fresh(known, RTCP_WINDOW, index)) return REPLAYED;
  if (!known && r->rtcp.count >= r->max_streams) return TOO_MANY_STREAMS;
  int32_t plain = unprotect_rtcp(e, c, packet, length, index);
  if (plain < 0) return UNAUTHENTIC;
  if (!known) known = add_stream(&r->rtcp, ssrc);
  if (!known) return TOO_MANY_STREAMS;
  accept_index(known, RTCP_WINDOW, index);
  return plain;
}

receiver *find_receiver(const engine *e, uint32_t number) {
  return e && number > 0 && number <= e->receiver_capacity ? e->receivers[number - 1] : NULL;
}

static void free_receiver(receiver *r) {
  if (!r) return;
  free(r->rtp.streams);
  free(r->rtcp.streams);
  free(r);
}

void free_receivers(engine *e) {
  for (uint32_t i = 0; i < e->receiver_capacity; i++) free_receiver(e->receivers[i]);
  free(e->receivers);
}

// Adds a receiver with this key, for packets of at most `max_streams` streams. Returns its number, or 0.
EXPORT uint32_t stoa_add_receiver(engine *e, uint32_t cipher_number, uint32_t max_streams) {
  if (!find_cipher(e, cipher_number)) return 0;
  uint32_t index = 0;
  while (index < e->receiver_capacity && e->receivers[index]) index++;
  if (index == e->receiver_capacity) {
    uint32_t capacity = index ? index * 2 : 64;
    receiver **more = capacity > MAX_RECEIVERS ? NULL : realloc(e->receivers, capacity * sizeof *more);
    if (!more) return 0;
    memset(more + index, 0, (capacity - index) * sizeof *more);
    e->receivers = more;
    e->receiver_capacity = capacity;
  }
  receiver *r = calloc(1, sizeof *r);
  if (!r) return 0;
  r->cipher = cipher_number;
  r->max_streams = max_streams;
  e->receivers[index] = r;
  return index + 1;
}

EXPORT void stoa_remove_receiver(engine *e, uint32_t number) {
  receiver *r = find_receiver(e, number);
  if (!r) return;
  e->receivers[number - 1] = NULL;
  free_receiver(r);
}

static void forget_stream(streams *all, uint32_t ssrc) {
  stream *known = find_stream(all, ssrc);
  if (known) *known = all->streams[--all->count];
}

// The stream has ended, and none with its SSRC follows.
EXPORT void stoa_forget_stream(engine *e, uint32_t number, uint32_t ssrc) {
  receiver *r = find_receiver(e, number);
  if (!r) return;
  forget_stream(&r->rtp, ssrc);
  forget_stream(&r->rtcp, ssrc);
}

// Opens the packet in place. Returns the plain length, or the reason why it is refused: then no byte has changed.
EXPORT int32_t stoa_receive_rtp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length) {
  receiver *r = find_receiver(e, number);
  return r && packet && length <= capacity ? receive_rtp(e, r, packet, length) : MALFORMED;
}

EXPORT int32_t stoa_receive_rtcp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length) {
  receiver *r = find_receiver(e, number);
  return r && packet && length <= capacity ? receive_rtcp(e, r, packet, length) : MALFORMED;
}
