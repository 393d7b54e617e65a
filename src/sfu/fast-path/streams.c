// The published streams that are forwarded without TypeScript. A packet may pass if it is the next of an open stream and begins no
// keyframe; TypeScript (room/incoming-streams.ts) decides on all others, and is the reference for what is recorded here.

#include <stddef.h>
#include <string.h>

#include "fast-path.h"

_Static_assert(sizeof(fast_stream) == 32, "a row of stream-table.ts");
_Static_assert(sizeof(publisher) == 32 && sizeof(stream_row) == 48, "stream-table.ts");
_Static_assert(sizeof(packet_run) == 64, "a run of native-receive-loop.ts");

// A larger packet fits no buffer together with what a copy adds to it: MAX_PACKET_BYTES in fan-out.ts.
#define MAX_PACKET_BYTES (BUFFER_BYTES - 595u)
// MAX_STATUSES in wire/rtcp/twcc.ts.
#define MAX_STATUSES 400

static int is_row_of(const stream_row *row, uint32_t ssrc) { return row->stream.open && row->stream.ssrc == ssrc; }

fast_stream *forwardable_stream(publisher *p, const uint8_t *packet, uint32_t length) {
  if (!p || !p->arrived || !p->flight || length < RTP_HEADER_BYTES || packet[0] >> 6 != 2) return NULL;
  if (packet[1] >= FIRST_RTCP_TYPE && packet[1] <= LAST_RTCP_TYPE) return NULL;
  uint32_t ssrc = read32(packet + 8);
  uint32_t count = p->row_count < MAX_STREAMS ? p->row_count : MAX_STREAMS;
  uint32_t at = p->latest;
  // Most packets belong to the same stream as the one before.
  if (at >= count || !is_row_of(&p->rows[at], ssrc))
    for (at = 0; at < count && !is_row_of(&p->rows[at], ssrc);) at++;
  if (at == count) return NULL;
  p->latest = at;
  return p->rows[at].group.is_forwardable ? &p->rows[at].stream : NULL;
}

int is_next_packet(const fast_stream *s, const uint8_t *packet) {
  if (!(s->highest >= 0 && s->highest < MAX_EXTENDED) || (packet[1] & 0x7f) != s->payload_type) return 0;
  return (uint32_t)(((uint64_t)s->highest + 1) & 0xffff) == read16(packet + 2);
}

// As TwccRecorder.record in wire/rtcp/twcc.ts.
static void record_arrival(arrivals *a, uint32_t number, double now_ms) {
  double highest = a->highest, extended = number;
  if (!(highest >= -1 && highest < MAX_EXTENDED)) return;
  if (highest < 0) {
    a->highest = a->next = extended;
  } else {
    int32_t ahead = (int16_t)(uint16_t)(number - (uint32_t)((uint64_t)highest & 0xffff));
    extended = highest + ahead;
    if (ahead > 0) {
      uint32_t skipped = (uint32_t)ahead - 1 < ARRIVALS_KEPT - 1 ? (uint32_t)ahead - 1 : ARRIVALS_KEPT;
      for (uint32_t i = 1; i <= skipped; i++) a->ticks[((uint64_t)highest + i) % ARRIVALS_KEPT] = 0;
      a->highest = extended;
      if (a->next < extended - ARRIVALS_KEPT + 1) a->next = extended - ARRIVALS_KEPT + 1;
    } else {
      if (-ahead >= MAX_STATUSES || a->ticks[(uint64_t)(int64_t)extended % ARRIVALS_KEPT] != 0) return;
      if (extended < a->next) a->next = extended;
    }
  }
  uint32_t ticks = now_ms >= 0 && now_ms < MAX_EXTENDED ? (uint32_t)(uint64_t)(now_ms * 4 + 0.5) : 0;
  a->ticks[(uint64_t)(int64_t)extended % ARRIVALS_KEPT] = ticks ? ticks : 1;
}

// As FlightRecorder.received in flight/flight-recorder.ts.
static void record_header(flight_log *f, const source_packet *s) {
  uint32_t *words = f->words[f->count++ % FLIGHT_KEPT];
  words[0] = ticks_of(s->now_ms);
  words[1] = read32(s->data + 8);
  words[2] = s->timestamp;
  words[3] = read16(s->data + 2) << 16 | (s->marker ? 0x8000 : 0) | (s->data_bytes & 0x3fff);
}

static void record_packet(publisher *p, const source_packet *s, packet_run *run) {
  run->audio_level = -1;
  for (uint32_t i = 0; i < s->element_count; i++) {
    const uint8_t *element = s->data + s->elements[i].at;
    uint32_t id = s->elements[i].id, bytes = s->elements[i].bytes;
    if (id == p->transport_sequence_id && bytes >= 2) {
      record_arrival(p->arrived, read16(element), s->now_ms);
      run->has_transport_number = 1;
    } else if (id == p->audio_level_id && bytes >= 1) {
      run->audio_level = element[0] & 0x7f;
    }
  }
  record_header(p->flight, s);
}

static void read_vp8_ids(const source_packet *s, packet_run *run) {
  run->vp8_bytes = (int32_t)s->vp8_bytes;
  run->wide = (int32_t)s->wide;
  run->picture_id = s->picture_id_at > 0 ? (int32_t)s->picture_id : -1;
  run->tl0 = s->tl0_at > 0 ? (int32_t)s->tl0 : -1;
  run->key_idx = s->key_idx_at > 0 ? (int32_t)s->key_idx : -1;
}

int advance_stream(publisher *p, fast_stream *stream, source_packet *s, packet_run *run, const uint8_t *packet, uint32_t length,
                   double now_ms) {
  // Padding carries no media, and TypeScript drops such packets.
  if (packet[0] & 0x20 || length > MAX_PACKET_BYTES) return 0;
  uint32_t payload_at = RTP_HEADER_BYTES + (packet[0] & 0x0f) * 4u;
  if (packet[0] & 0x10) {
    if (payload_at + 4 > length) return 0;
    payload_at += 4 + read16(packet + payload_at + 2) * 4;
  }
  if (payload_at >= length) return 0;
  if (!read_source(s, packet, length, payload_at, length - payload_at, stream->highest + 1, now_ms)) return 0;
  if ((stream->codec == CODEC_VP8 && !read_vp8(s)) || !continues_frames(s, stream->codec)) return 0;
  if (stream->codec == CODEC_VP8) read_vp8_ids(s, run);
  if (!stream->rewrites_vp8) s->vp8_bytes = 0;
  stream->highest += 1;
  run->stream = (uint32_t)((stream_row *)stream - p->rows);
  run->extended = s->extended;
  run->timestamp = s->timestamp;
  record_packet(p, s, run);
  return 1;
}
