// Reads what copies need to know of a published packet: its header extensions and, with VP8, its payload descriptor. The reference in
// TypeScript is in wire/rtp/rtp.ts and wire/codec.

#include <stddef.h>
#include <string.h>

#include "fast-path.h"

#define ONE_BYTE_PROFILE 0xbedeu
#define TWO_BYTE_PROFILE 0x1000u

// Lists the elements as RtpView.nextExtension walks them.
static int list_elements(source_packet *s, uint32_t at, uint32_t end, uint32_t profile) {
  const uint8_t *data = s->data;
  int one_byte = profile == ONE_BYTE_PROFILE;
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

// As absSendTime in wire/rtp/rtp-extensions.ts: seconds in 6.18 bits.
static uint32_t abs_send_time(double unix_ms) {
  return unix_ms >= 0 && unix_ms < MAX_EXTENDED ? (uint32_t)((uint64_t)(unix_ms / 1000 * 262144) & 0xffffff) : 0;
}

int read_source(source_packet *s, const uint8_t *packet, uint32_t bytes, uint32_t payload_at, uint32_t payload_bytes,
                double extended, double now_ms) {
  memset(s, 0, offsetof(source_packet, elements));
  s->extended = extended;
  s->now_ms = now_ms;
  s->data = packet;
  s->data_bytes = bytes;
  s->payload_at = payload_at;
  s->payload_bytes = payload_bytes;
  s->timestamp = read32(packet + 4);
  s->marker = packet[1] >> 7;
  s->abs_send_time = abs_send_time(now_ms);
  uint32_t at = RTP_HEADER_BYTES + (packet[0] & 0x0f) * 4u;
  if ((packet[0] & 0x10) == 0 || at + 4 > payload_at) return 1;
  return list_elements(s, at + 4, payload_at, read16(packet + at));
}

int read_vp8(source_packet *s) {
  const uint8_t *payload = s->data + s->payload_at;
  uint32_t end = s->payload_bytes, at = 1;
  if (end == 0) return 0;
  if (payload[0] & 0x80) {
    if (at >= end) return 0;
    uint8_t flags = payload[at++];
    if (flags & 0x80) {
      if (at >= end) return 0;
      s->wide = payload[at] >> 7;
      if (at + 1 + s->wide > end) return 0;
      s->picture_id_at = at;
      s->picture_id = s->wide ? read16(payload + at) & 0x7fff : payload[at];
      at += 1 + s->wide;
    }
    if (flags & 0x40) {
      if (at >= end) return 0;
      s->tl0_at = at;
      s->tl0 = payload[at++];
    }
    if (flags & 0x30) {
      if (at >= end) return 0;
      if (flags & 0x10) {
        s->key_idx_at = at;
        s->key_idx = payload[at] & 0x1f;
      }
      at++;
    }
  }
  s->vp8_bytes = at;
  return 1;
}

int continues_frames(const source_packet *s, uint32_t codec) {
  const uint8_t *payload = s->data + s->payload_at;
  switch (codec) {
    case CODEC_AUDIO: return 1;
    case CODEC_VP8: {
      int starts_frame = (payload[0] & 0x10) != 0 && (payload[0] & 0x0f) == 0;
      return !(starts_frame && s->vp8_bytes < s->payload_bytes && (payload[s->vp8_bytes] & 1) == 0);
    }
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
