// What most packets of media are: the next in order of a stream that is known, and no beginning of a keyframe. They are opened,
// noted and described here, many by one call; whatever is unusual is left to TypeScript (room/uplink.ts), which decides on it and
// does all of this where no C compiler was at hand. Nothing given to a function here is trusted: every number is checked against
// the memory it points into.

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cipher.h"

_Static_assert(sizeof(lane) == 32, "a row of forwarding/lanes.ts");
_Static_assert(sizeof(publisher) == 32 + MAX_LANES * 48, "forwarding/lanes.ts");
_Static_assert(sizeof(run) == 64, "a run of native-take.ts");
_Static_assert(offsetof(taking, runs) == 32 + MAX_TAKE * 12, "native-take.ts");

// More makes no packet that fits a slot with all that is added to it; known to forwarding/fan-out.ts as well.
#define MAX_PACKET_BYTES (SLOT_BYTES - 595u)
#define MAX_STATUSES 400
#define MAX_EXTENDED 281474976710656.0
#define ONE_BYTE_PROFILE 0xbedeu
#define TWO_BYTE_PROFILE 0x1000u

static uint32_t read16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static uint32_t read32(const uint8_t *p) { return read16(p) << 16 | read16(p + 2); }

// As TwccRecorder.record in rtcp/twcc.ts.
static void note_arrival(arrivals *a, uint32_t number, double now_ms) {
  double highest = a->highest, extended = number;
  if (!(highest >= -1 && highest < MAX_EXTENDED)) return;
  if (highest < 0) {
    a->highest = a->next = extended;
  } else {
    int32_t ahead = (int16_t)(uint16_t)(number - (uint32_t)((uint64_t)highest & 0xffff));
    extended = highest + ahead;
    if (ahead > 0) {
      uint32_t skipped = (uint32_t)ahead - 1 < ARRIVALS_KEPT - 1 ? (uint32_t)ahead - 1 : ARRIVALS_KEPT;
      for (uint32_t i = 1; i <= skipped; i++) a->ticks[((uint64_t)highest + i) % ARRIVALS_KEPT] = -1;
      a->highest = extended;
      if (a->next < extended - ARRIVALS_KEPT + 1) a->next = extended - ARRIVALS_KEPT + 1;
    } else {
      if (-ahead >= MAX_STATUSES || a->ticks[(uint64_t)(int64_t)extended % ARRIVALS_KEPT] >= 0) return;
      if (extended < a->next) a->next = extended;
    }
  }
  double ticks = now_ms * 4 + 0.5;
  a->ticks[(uint64_t)(int64_t)extended % ARRIVALS_KEPT] = ticks >= 0 && ticks < MAX_EXTENDED ? (double)(int64_t)ticks : -1;
}

// As FlightRecorder.received in flight/flight-recorder.ts.
static void note_packet(flight *f, const uint8_t *packet, uint32_t length, double now_ms) {
  uint32_t slot = f->count++ % FLIGHT_KEPT;
  f->at_ms[slot] = now_ms;
  f->words[slot][0] = read32(packet + 8);
  f->words[slot][1] = read32(packet + 4);
  f->words[slot][2] = read16(packet + 2) << 16 | (length < 0xffff ? length : 0xffff);
  f->words[slot][3] = packet[1] >> 7;
}

// Lists the extension's elements as RtpView.nextExtension walks them. Returns 0 when there are more than a source has room for.
static int list_elements(source *s, uint32_t at, uint32_t end, uint32_t profile) {
  const uint8_t *data = s->data;
  int one_byte = profile == ONE_BYTE_PROFILE;
  s->element_count = 0;
  if (!one_byte && (profile & 0xfff0) != TWO_BYTE_PROFILE) return 1;
  for (;;) {
    while (at < end && data[at] == 0) at++;
    if (at + (one_byte ? 1 : 2) > end) return 1;
    uint32_t id = one_byte ? data[at] >> 4 : data[at];
    uint32_t bytes = one_byte ? (data[at] & 0x0fu) + 1 : data[at + 1];
    at += one_byte ? 1 : 2;
    if (one_byte && (id == 0 || id == 15)) return 1;
    if (at + bytes > end) return 1;
    if (s->element_count == MAX_ELEMENTS) return 0;
    s->elements[s->element_count].id = id;
    s->elements[s->element_count].at = at;
    s->elements[s->element_count++].bytes = bytes;
    at += bytes;
  }
}

// The payload descriptor (RFC 7741), as codec/vp8.ts reads it. Returns 0 when it is cut off, or a keyframe begins.
static int read_vp8(source *s, run *r, int rewrites) {
  const uint8_t *payload = s->data + s->payload_at;
  uint32_t end = s->payload_bytes, at = 1;
  r->picture_id = r->tl0 = r->key_idx = -1;
  if (payload[0] & 0x80) {
    if (at >= end) return 0;
    uint8_t flags = payload[at++];
    if (flags & 0x80) {
      if (at >= end) return 0;
      s->wide = payload[at] >> 7;
      if (at + 1 + s->wide > end) return 0;
      s->picture_id_at = at;
      s->picture_id = s->wide ? read16(payload + at) & 0x7fff : payload[at];
      r->picture_id = (int32_t)s->picture_id;
      at += 1 + s->wide;
    }
    if (flags & 0x40) {
      if (at >= end) return 0;
      s->tl0_at = at;
      s->tl0 = payload[at++];
      r->tl0 = (int32_t)s->tl0;
    }
    if (flags & 0x30) {
      if (at >= end) return 0;
      if (flags & 0x10) {
        s->key_idx_at = at;
        s->key_idx = payload[at] & 0x1f;
        r->key_idx = (int32_t)s->key_idx;
      }
      at++;
    }
  }
  r->wide = (int32_t)s->wide;
  r->vp8_bytes = (int32_t)at;
  s->vp8_bytes = rewrites ? at : 0;
  int starts_frame = (payload[0] & 0x10) != 0 && (payload[0] & 0x0f) == 0;
  return !(starts_frame && at < end && (payload[at] & 1) == 0);
}

// Certainly not the beginning of a keyframe.
static int goes_on(const lane *l, source *s, run *r) {
  const uint8_t *payload = s->data + s->payload_at;
  switch (l->codec) {
    case CODEC_AUDIO: return 1;
    case CODEC_VP8: return read_vp8(s, r, l->rewrites_vp8 != 0);
    case CODEC_VP9: return (payload[0] & 0x40) != 0 || (payload[0] & 0x08) == 0;
    case CODEC_AV1: return s->payload_bytes >= 2 && ((payload[0] & 0x08) == 0 || (payload[0] & 0x80) != 0);
    case CODEC_H264: {
      if (s->payload_bytes < 2) return 0;
      uint32_t type = payload[0] & 0x1f, unit = payload[1] & 0x1f;
      if (type == 28 || type == 29) return (payload[1] & 0x80) == 0 || (unit != 5 && unit != 7);
      return type != 5 && type != 7 && type != 24;
    }
    default: return 0;
  }
}

// Fills in the source from a plain packet of well-formed RTP. Returns 0 when it is unusual.
static int describe(const lane *l, source *s, run *r, uint8_t *packet, uint32_t length) {
  memset(s, 0, sizeof *s);
  if (packet[0] & 0x20 || length > MAX_PACKET_BYTES) return 0;
  uint32_t at = RTP_HEADER_BYTES + (packet[0] & 0x0f) * 4u, profile = 0, elements_at = at;
  if (packet[0] & 0x10) {
    if (at + 4 > length) return 0;
    profile = read16(packet + at);
    elements_at = at + 4;
    at = elements_at + read16(packet + at + 2) * 4;
  }
  if (at >= length) return 0;
  s->data = packet;
  s->data_bytes = length;
  s->payload_at = at;
  s->payload_bytes = length - at;
  s->timestamp = read32(packet + 4);
  s->marker = packet[1] >> 7;
  return (profile == 0 || list_elements(s, elements_at, at, profile)) && goes_on(l, s, r);
}

static lane *lane_of(publisher *p, const uint8_t *packet, uint32_t length) {
  if (length < RTP_HEADER_BYTES) return NULL;
  uint32_t ssrc = read32(packet + 8), number = read16(packet + 2);
  for (uint32_t i = 0; i < MAX_LANES; i++) {
    lane *l = &p->lanes[i];
    if (!l->open || l->ssrc != ssrc) continue;
    if (!(l->highest >= 0 && l->highest < MAX_EXTENDED) || (packet[1] & 0x7f) != l->payload_type) return NULL;
    return (uint32_t)(((uint64_t)l->highest + 1) & 0xffff) == number ? l : NULL;
  }
  return NULL;
}

// Whether the newest run goes on with a packet of the same lane and time.
static int joins(const run *newest, const run *r, uint32_t codec) {
  return codec != CODEC_AUDIO && newest->lane == r->lane && newest->timestamp == r->timestamp &&
         newest->first + newest->count == r->first && newest->count < MAX_RUN;
}

static void note(publisher *p, taking *t, run *r, const source *s) {
  r->audio_level = -1;
  for (uint32_t i = 0; i < s->element_count; i++) {
    const uint8_t *element = s->data + s->elements[i].at;
    uint32_t id = s->elements[i].id, bytes = s->elements[i].bytes;
    if (id == p->transport_sequence_id && bytes >= 2) {
      note_arrival(p->came, read16(element), t->now_ms);
      r->numbered = 1;
    } else if (id == p->audio_level_id && bytes >= 1) {
      r->audio_level = element[0] & 0x7f;
    }
  }
  note_packet(p->seen, s->data, s->data_bytes, t->now_ms);
}

// Takes datagrams from number `from` on, until one is unusual. Returns its number, or the count.
EXPORT uint32_t stoa_take(engine *e, uint32_t receiver_number, publisher *p, taking *t, uint32_t from) {
  receiver *incoming = find_receiver(e, receiver_number);
  if (!incoming || !p || !t || t->count > MAX_TAKE) return from;
  t->run_count = 0;
  t->outcome = 0;
  if (!p->came || !p->seen) return from;
  for (uint32_t i = from; i < t->count; i++) {
    uint8_t *packet = (uint8_t *)(uintptr_t)t->data[i];
    lane *l = packet ? lane_of(p, packet, t->lengths[i]) : NULL;
    t->outcome = 0;
    if (!l) return i;
    t->outcome = receive_rtp(e, incoming, packet, t->lengths[i]);
    if (t->outcome <= 0) return i;
    run next = {.lane = (uint32_t)(l - p->lanes), .first = i};
    source *s = &t->sources[i];
    if (!describe(l, s, &next, packet, (uint32_t)t->outcome)) return i;
    t->lengths[i] = (uint32_t)t->outcome;
    s->extended = next.extended = ++l->highest;
    s->now_ms = t->now_ms;
    s->abs_send_time = t->abs_send_time;
    next.timestamp = s->timestamp;
    note(p, t, &next, s);
    run *r = t->run_count > 0 ? &t->runs[t->run_count - 1] : NULL;
    if (r && joins(r, &next, l->codec)) {
      next.extended = r->extended;
      next.first = r->first;
      next.count = r->count;
      next.bytes = r->bytes;
      next.payload_bytes = r->payload_bytes;
      next.numbered |= r->numbered;
    } else {
      r = &t->runs[t->run_count++];
    }
    next.count++;
    next.bytes += s->data_bytes;
    next.payload_bytes += s->payload_bytes;
    *r = next;
  }
  t->outcome = 0;
  return t->count;
}
