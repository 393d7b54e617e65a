// Writes the copies of published packets for all subscribers of a stream, which is the costly part of forwarding. fan-out.ts is the
// reference in TypeScript: byte for byte the same packets. No argument of an exported function is trusted: every number is checked
// against the memory that it points into.

#include <stddef.h>
#include <string.h>

#include "fast-path.h"

#define ABSENT 255u
#define RTX_BYTES 2u
#define MAX_OVERHEAD 20u

_Static_assert(sizeof(subscriber_slot) == 128, "a row of subscriber-slot.ts");

// Returns the id under which an extension is forwarded, or 0 if it is not. The last entry wins, as in the reference's map.
static uint8_t passes_as(const subscriber_slot *to, uint32_t id) {
  for (int i = MAX_PASSED_EXTENSIONS - 1; i >= 0; i--)
    if (id != 0 && to->passed_from[i] == id) return to->passed_to[i];
  return 0;
}

// Writes the header extensions and returns where they end, or NULL when the packet fits no buffer with them.
static uint8_t *write_extensions(uint8_t *at, const uint8_t *limit, const subscriber_slot *to, const source_packet *from, uint32_t number) {
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

static void rewrite_vp8(uint8_t *payload, const source_packet *from, const subscriber_slot *to) {
  uint32_t picture_id = from->picture_id + to->picture_id_offset;
  if (from->picture_id_at > 0 && from->wide) write16(payload + from->picture_id_at, 0x8000 | (picture_id & 0x7fff));
  else if (from->picture_id_at > 0) payload[from->picture_id_at] = picture_id & 0x7f;
  if (from->tl0_at > 0) payload[from->tl0_at] = (uint8_t)(from->tl0 + to->tl0_offset);
  if (from->key_idx_at > 0) {
    uint8_t *byte = payload + from->key_idx_at;
    *byte = (*byte & 0xe0) | ((from->key_idx + to->key_idx_offset) & 0x1f);
  }
}

// Does the same as SentPackets.next in wire/rtcp/twcc-feedback.ts: 12 bits of size, 5 of number, a zero, 13 of the RTP number, a
// zero.
static uint32_t next_number(transport_numbers *n, const source_packet *from, double outgoing) {
  uint32_t sequence = outgoing >= 0 && outgoing < MAX_EXTENDED ? (uint32_t)((uint64_t)outgoing & 0x1fff) : 0;
  uint32_t number = n->next & 0xffff;
  n->next = (number + 1) & 0xffff;
  n->entries[number % NUMBERS_KEPT].sent_at = ticks_of(from->now_ms);
  n->entries[number % NUMBERS_KEPT].what = (from->data_bytes & 0xfff) | number / NUMBERS_KEPT << 12 | sequence << 18;
  return number;
}

// Returns the length of the protected copy, or 0.
static uint32_t write_copy(engine *e, uint8_t *packet, const source_packet *from, const subscriber_slot *to) {
  double outgoing = from->extended - to->sequence_offset;
  uint32_t transport_number = to->numbers ? next_number(to->numbers, from, outgoing) : 0;
  cipher *c = find_cipher(e, to->cipher);
  if (!c || !(outgoing >= 0 && outgoing < MAX_EXTENDED) || to->template_bytes > sizeof to->template) return 0;
  if (to->abs_send_time_at != ABSENT && to->abs_send_time_at + 3u > to->template_bytes) return 0;
  if (to->transport_sequence_at != ABSENT && to->transport_sequence_at + 2u > to->template_bytes) return 0;
  uint64_t number = (uint64_t)outgoing;
  uint8_t *payload = write_extensions(packet + RTP_HEADER_BYTES, packet + BUFFER_BYTES, to, from, transport_number);
  if (!payload) return 0;
  uint32_t header_length = (uint32_t)(payload - packet);
  if (header_length + RTX_BYTES + from->payload_bytes + MAX_OVERHEAD > BUFFER_BYTES) return 0;
  packet[0] = 0x80 | (header_length > RTP_HEADER_BYTES ? 0x10 : 0);
  packet[1] = (uint8_t)((from->marker ? 0x80 : 0) | (to->payload_type & 0x7f));
  write32(write32(write16(packet + 2, (uint32_t)number), from->timestamp + to->timestamp_offset), to->ssrc);
  // The bytes that are rewritten are copied first; the cipher copies the others.
  const uint8_t *plain = from->data + from->payload_at;
  uint32_t first = from->payload_bytes < HEAD_BYTES || from->vp8_bytes > HEAD_BYTES ? from->payload_bytes : HEAD_BYTES;
  memcpy(payload, plain, first);
  if (from->vp8_bytes > 0) rewrite_vp8(payload, from, to);
  if (first == from->payload_bytes) plain = NULL;
  return protect_rtp(c, packet, header_length, header_length + from->payload_bytes, (uint32_t)(number >> 16), plain);
}

uint32_t fan_out_run(engine *e, uint8_t *arena, uint32_t arena_bytes, uint32_t first, destination *destinations,
                     const source_packet *packets, uint32_t packet_count, const subscriber_slot *slots, uint32_t slot_count) {
  if (packet_count > MAX_RUN || slot_count > MAX_BATCH || first > MAX_BATCH) return 0;
  uint32_t count = packet_count * slot_count;
  if (count > MAX_BATCH || first + count > arena_bytes / BUFFER_BYTES) return 0;
  for (uint32_t s = 0; s < slot_count; s++) {
    const subscriber_slot *to = &slots[s];
    for (uint32_t p = 0; p < packet_count; p++, first++) {
      destination *there = &destinations[first];
      memcpy(there->address, to->address, sizeof there->address);
      there->scope = 0;
      there->port = to->port;
      there->length = (uint16_t)write_copy(e, arena + (size_t)first * BUFFER_BYTES, &packets[p], to);
    }
  }
  return count;
}

// Writes the copies of one packet that TypeScript has received. Returns their number, or 0 if TypeScript has to write them itself.
EXPORT uint32_t stoa_fan_out(engine *e, uint8_t *arena, uint32_t arena_bytes, uint32_t first, destination *destinations,
                             const uint8_t *packet, uint32_t bytes, uint32_t payload_at, uint32_t payload_bytes, double extended,
                             double now_ms, uint32_t rewrites_vp8, const subscriber_slot *slots, uint32_t slot_count) {
  if (!e || !arena || !destinations || !packet || !slots) return 0;
  if (bytes > BUFFER_BYTES || payload_at < RTP_HEADER_BYTES || payload_at > bytes || payload_bytes > bytes - payload_at) return 0;
  if (!(extended >= 0 && extended < MAX_EXTENDED)) return 0;
  source_packet source;
  if (!read_source(&source, packet, bytes, payload_at, payload_bytes, extended, now_ms)) return 0;
  if (rewrites_vp8) read_vp8(&source);
  return fan_out_run(e, arena, arena_bytes, first, destinations, &source, 1, slots, slot_count);
}
