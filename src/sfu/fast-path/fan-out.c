// The costly part of the packet path: every viewer's copy of a packet. What a copy looks like is decided in TypeScript
// (forwarding/fan-out.ts), which also does all of this where no C compiler was at hand: byte for byte the same packets. Nothing
// given to a function here is trusted: every number is checked against the memory it points into.

#include <stddef.h>
#include <string.h>

#include "native.h"

#define ABSENT 255u
#define RTX_BYTES 2u
#define MAX_OVERHEAD 20u
// Rollovers have 32 bits.
#define MAX_EXTENDED 281474976710656.0

// Completes and protects `count` copies of one payload, each in its own slot of the arena.
EXPORT void stoa_fan_out(engine *e, uint8_t *arena, uint32_t arena_bytes, const uint8_t *payload, uint32_t payload_bytes,
                         copy *copies, uint32_t count) {
  if (!e || !arena || !copies || count > MAX_BATCH || (!payload && payload_bytes > 0)) return;
  for (uint32_t i = 0; i < count; i++) {
    copy *to = &copies[i];
    cipher *c = find_cipher(e, to->cipher);
    to->length = 0;
    if (!c || to->slot >= arena_bytes / SLOT_BYTES || payload_bytes > SLOT_BYTES) continue;
    if (to->prefix_length > payload_bytes || to->padding_length > 255) continue;
    if (to->header_length < RTP_HEADER_BYTES || to->payload_at < to->header_length || to->payload_at > SLOT_BYTES) continue;
    uint32_t end = to->payload_at + payload_bytes;
    if (end + to->padding_length + tag_bytes(c) > SLOT_BYTES) continue;
    uint8_t *packet = arena + (size_t)to->slot * SLOT_BYTES;
    if (payload_bytes > to->prefix_length)
      memcpy(packet + to->payload_at + to->prefix_length, payload + to->prefix_length, payload_bytes - to->prefix_length);
    if (to->padding_length > 0) {
      memset(packet + end, 0, to->padding_length);
      end += to->padding_length;
      packet[end - 1] = (uint8_t)to->padding_length;
    }
    to->length = seal(c, packet, to->header_length, end, to->rollover, NULL);
  }
}

_Static_assert(sizeof(seat) == 128, "a row of forwarding/seat-table.ts");
_Static_assert(sizeof(source) == 280, "a packet of native-fan-out-alike.ts");

static uint8_t *write16(uint8_t *p, uint32_t value) {
  p[0] = (uint8_t)(value >> 8);
  p[1] = (uint8_t)value;
  return p + 2;
}

static uint8_t *write32(uint8_t *p, uint32_t value) { return write16(write16(p, value >> 16), value); }

static int is_sound(const source *from) {
  if (!from->data) return 0;
  if (from->data_bytes > SLOT_BYTES || from->payload_at > from->data_bytes || from->element_count > MAX_ELEMENTS) return 0;
  if (from->payload_bytes > from->data_bytes - from->payload_at || from->vp8_bytes > from->payload_bytes) return 0;
  uint32_t vp8 = from->vp8_bytes;
  if (vp8 > 0 && (from->picture_id_at >= vp8 || from->tl0_at >= vp8 || from->key_idx_at >= vp8)) return 0;
  if (vp8 > 0 && from->wide && from->picture_id_at + 2 > vp8) return 0;
  for (uint32_t i = 0; i < from->element_count; i++) {
    uint32_t at = from->elements[i].at;
    if (at > from->data_bytes || from->elements[i].bytes > 255 || from->elements[i].bytes > from->data_bytes - at) return 0;
  }
  return from->extended >= 0 && from->extended < MAX_EXTENDED;
}

// The last one counts, as in TypeScript's map. 0: it stays behind.
static uint8_t passes_as(const seat *to, uint32_t id) {
  for (int i = MAX_PASSING - 1; i >= 0; i--)
    if (id != 0 && to->passing_from[i] == id) return to->passing_to[i];
  return 0;
}

// Writes the header's extensions and returns where they end, or NULL: with them the packet fits no slot.
static uint8_t *write_extensions(uint8_t *at, const uint8_t *limit, const seat *to, const source *from, uint32_t number) {
  uint8_t *start = at + 4, *end = start + to->template_bytes;
  memcpy(start, to->template, to->template_bytes);
  if (to->abs_send_time_at != ABSENT) {
    start[to->abs_send_time_at] = (uint8_t)(from->abs_send_time >> 16);
    write16(start + to->abs_send_time_at + 1, from->abs_send_time);
  }
  if (to->transport_sequence_at != ABSENT) write16(start + to->transport_sequence_at, number);
  for (uint32_t i = 0; i < from->element_count; i++) {
    uint32_t bytes = from->elements[i].bytes;
    uint8_t id = passes_as(to, from->elements[i].id);
    if (id == 0 || (!to->two_byte && (bytes == 0 || bytes > 16))) continue;
    if (limit - end < (ptrdiff_t)bytes + 8) return NULL;
    if (to->two_byte) {
      *end++ = id;
      *end++ = (uint8_t)bytes;
    } else {
      *end++ = (uint8_t)(id << 4 | (bytes - 1));
    }
    memcpy(end, from->data + from->elements[i].at, bytes);
    end += bytes;
  }
  if (end == start) return at;
  while ((end - start) & 3) *end++ = 0;
  write16(at, to->two_byte ? 0x1000 : 0xbede);
  write16(at + 2, (uint32_t)(end - start) >> 2);
  return end;
}

static void rewrite_vp8(uint8_t *payload, const source *from, const seat *to) {
  uint32_t picture_id = from->picture_id + to->picture_id_offset;
  if (from->picture_id_at > 0 && from->wide) write16(payload + from->picture_id_at, 0x8000 | (picture_id & 0x7fff));
  else if (from->picture_id_at > 0) payload[from->picture_id_at] = picture_id & 0x7f;
  if (from->tl0_at > 0) payload[from->tl0_at] = (uint8_t)(from->tl0 + to->tl0_offset);
  if (from->key_idx_at > 0) {
    uint8_t *byte = payload + from->key_idx_at;
    *byte = (*byte & 0xe0) | ((from->key_idx + to->key_idx_offset) & 0x1f);
  }
}

// As SentPackets.next in rtcp/twcc-feedback.ts: 16 bits of number, 16 of size.
static uint32_t take_number(numbers *n, const source *from) {
  uint32_t number = n->next & 0xffff;
  n->next = (number + 1) & 0xffff;
  n->entries[number % NUMBERS_KEPT].sent_at_ms = from->now_ms;
  n->entries[number % NUMBERS_KEPT].what = number + from->data_bytes * 65536.0;
  return number;
}

// Returns the length of the protected copy, or 0.
static uint32_t write_copy(engine *e, uint8_t *packet, const source *from, const seat *to) {
  uint32_t transport_number = to->numbers ? take_number(to->numbers, from) : 0;
  cipher *c = find_cipher(e, to->cipher);
  double outgoing = from->extended - to->sequence_offset;
  if (!c || !(outgoing >= 0 && outgoing < MAX_EXTENDED) || to->template_bytes > sizeof to->template) return 0;
  if (to->abs_send_time_at != ABSENT && to->abs_send_time_at + 3u > to->template_bytes) return 0;
  if (to->transport_sequence_at != ABSENT && to->transport_sequence_at + 2u > to->template_bytes) return 0;
  uint64_t number = (uint64_t)outgoing;
  uint8_t *payload = write_extensions(packet + RTP_HEADER_BYTES, packet + SLOT_BYTES, to, from, transport_number);
  if (!payload) return 0;
  uint32_t header_length = (uint32_t)(payload - packet);
  if (header_length + RTX_BYTES + from->payload_bytes + MAX_OVERHEAD > SLOT_BYTES) return 0;
  packet[0] = 0x80 | (header_length > RTP_HEADER_BYTES ? 0x10 : 0);
  packet[1] = (uint8_t)((from->marker ? 0x80 : 0) | (to->payload_type & 0x7f));
  write32(write32(write16(packet + 2, (uint32_t)number), from->timestamp + to->timestamp_offset), to->ssrc);
  // What is rewritten is copied first; the rest on its way through the cipher.
  const uint8_t *plain = from->data + from->payload_at;
  uint32_t first = from->payload_bytes < HEAD_BYTES || from->vp8_bytes > HEAD_BYTES ? from->payload_bytes : HEAD_BYTES;
  memcpy(payload, plain, first);
  if (from->vp8_bytes > 0) rewrite_vp8(payload, from, to);
  if (first == from->payload_bytes) plain = NULL;
  return seal(c, packet, header_length, header_length + from->payload_bytes, (uint32_t)(number >> 16), plain);
}

// Nobody has looked at what the copies of a seat take since its last packets, and by now it is far from the processor: it is fetched
// while copies are made for those before.
static void fetch_ahead(const engine *e, const seat *seats, uint32_t count) {
  if (count > 4) __builtin_prefetch(&seats[4]);
  if (count > 2) {
    fetch_cipher(e, seats[2].cipher);
    if (seats[2].numbers) __builtin_prefetch(seats[2].numbers);
  }
  if (count > 1 && seats[1].numbers)
    __builtin_prefetch(&seats[1].numbers->entries[seats[1].numbers->next % NUMBERS_KEPT], 1);
}

// Copies of `packet_count` packets for each of `seat_count` seats, in the slots of the arena from `slot` on, and where each
// goes: viewer by viewer, so that what is for one lies together and leaves together. A length of 0: refused.
EXPORT uint32_t stoa_fan_out_run(engine *e, uint8_t *arena, uint32_t arena_bytes, uint32_t slot, destination *destinations,
                                 const source *packets, uint32_t packet_count, const seat *seats, uint32_t seat_count) {
  if (!e || !arena || !destinations || !packets || !seats) return 0;
  if (packet_count > MAX_RUN || seat_count > MAX_BATCH || slot > MAX_BATCH) return 0;
  uint32_t count = packet_count * seat_count;
  if (count > MAX_BATCH || slot + count > arena_bytes / SLOT_BYTES) return 0;
  int sound[MAX_RUN];
  for (uint32_t p = 0; p < packet_count; p++) sound[p] = is_sound(&packets[p]);
  for (uint32_t s = 0; s < seat_count; s++) {
    const seat *to = &seats[s];
    fetch_ahead(e, to, seat_count - s);
    for (uint32_t p = 0; p < packet_count; p++, slot++) {
      destination *there = &destinations[slot];
      memcpy(there->address, to->address, sizeof there->address);
      there->scope = 0;
      there->port = to->port;
      there->length = sound[p] ? (uint16_t)write_copy(e, arena + (size_t)slot * SLOT_BYTES, &packets[p], to) : 0;
    }
  }
  return count;
}
