// The memory that TypeScript and the C files share, and the functions that the C files call of each other. Each media worker has an
// engine of its own: no two threads share anything here.

#ifndef STOA_FAST_PATH_H
#define STOA_FAST_PATH_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

// send-batch.ts has the same two numbers.
#define BUFFER_BYTES 2304u
#define MAX_BATCH 200u

#define RTP_HEADER_BYTES 12u
// RFC 5761: the second byte of RTCP.
#define FIRST_RTCP_TYPE 192u
#define LAST_RTCP_TYPE 223u
// The packet index of SRTP has 48 bits.
#define MAX_EXTENDED 281474976710656.0

// Times in 32 bits, for tables of thousands of packets (wire/rtcp/ticks.ts).
static inline uint32_t ticks_of(double ms) { return ms >= 0 && ms < MAX_EXTENDED ? (uint32_t)(uint64_t)(ms * 16) : 0; }

static inline uint32_t read16(const uint8_t *p) { return (uint32_t)p[0] << 8 | p[1]; }

static inline uint32_t read32(const uint8_t *p) { return read16(p) << 16 | read16(p + 2); }

static inline uint8_t *write16(uint8_t *p, uint32_t value) {
  p[0] = (uint8_t)(value >> 8);
  p[1] = (uint8_t)value;
  return p + 2;
}

static inline uint8_t *write32(uint8_t *p, uint32_t value) { return write16(write16(p, value >> 16), value); }

// ---- Shared with TypeScript

// The address and length of a datagram. An IPv4 address has its mapped form (::ffff:a.b.c.d).
typedef struct {
  uint8_t address[16];
  uint32_t scope;
  uint16_t port, length;
} destination;

#define NUMBERS_KEPT 2048u

// The transport-wide sequence numbers of one subscriber, and when each was sent (wire/rtcp/twcc-feedback.ts).
typedef struct {
  uint32_t next, unused;
  struct {
    uint32_t sent_at, what;
  } entries[NUMBERS_KEPT];
} transport_numbers;

#define MAX_PASSED_EXTENSIONS 8

// What all copies for one subscriber have in common (subscriber-slot.ts). `numbers` is NULL without transport-wide
// sequence numbers; otherwise TypeScript keeps its memory alive as long as the slot exists.
typedef struct {
  uint32_t cipher, ssrc;
  transport_numbers *numbers;
  double sequence_offset;
  uint32_t timestamp_offset, picture_id_offset, tl0_offset, key_idx_offset;
  uint16_t port;
  uint8_t payload_type, unused;
  uint8_t template_bytes, abs_send_time_at, transport_sequence_at, two_byte;
  uint8_t address[16];
  uint8_t template[48];
  uint8_t passed_from[MAX_PASSED_EXTENSIONS], passed_to[MAX_PASSED_EXTENSIONS];
} subscriber_slot;

// Clients have a few streams. A link between two workers carries those of many publishers.
#define MAX_STREAMS 1024u

// A published stream whose packets need no decision while they come in order and none begins a keyframe (stream-table.ts). `highest`
// is the unwrapped sequence number of its newest packet.
typedef struct {
  double highest;
  uint32_t open, ssrc, payload_type, codec, rewrites_vp8, unused;
} fast_stream;

enum { CODEC_AUDIO, CODEC_VP8, CODEC_VP9, CODEC_H264, CODEC_AV1 };

// The subscribers of a stream. The receive loop forwards the stream only while `is_forwardable` is not 0.
typedef struct {
  const subscriber_slot *slots;
  uint32_t slot_count, is_forwardable;
} fan_out_group;

#define ARRIVALS_KEPT 2048u

// When the packets of a connection arrived, in quarters of a millisecond; 0 for those that did not (wire/rtcp/twcc.ts).
typedef struct {
  double highest, next;
  uint32_t ticks[ARRIVALS_KEPT];
} arrivals;

#define FLIGHT_KEPT 1024u

// The headers of the packets that arrived last (flight/flight-recorder.ts).
typedef struct {
  uint32_t count;
  uint32_t words[FLIGHT_KEPT][4];
} flight_log;

typedef struct {
  fast_stream stream;
  fan_out_group group;
} stream_row;

// All streams of a connection, in `row_count` rows; `latest` is the row of the newest packet. TypeScript keeps the memory of `arrived` and `flight` alive while it is named here; both are NULL at
// first. Ids of header extensions are 0 where they were not negotiated.
typedef struct {
  arrivals *arrived;
  flight_log *flight;
  uint32_t transport_sequence_id, audio_level_id, row_count, latest;
  stream_row rows[];
} publisher;

// Consecutive packets of one stream and one RTP timestamp, from datagram number `first` on. `extended` is the unwrapped sequence
// number of the first. Fields that a packet does not have are −1.
typedef struct {
  double extended;
  uint32_t stream, first, count, timestamp, bytes, payload_bytes, has_transport_number;
  int32_t audio_level, vp8_bytes, picture_id, wide, tl0, key_idx, unused;
} packet_run;

#define MAX_SESSIONS 512u
#define MAX_RECEIVED 128u

// A connection that sends media: the address its packets come from, and what is needed to open them. `bytes_in` is a result.
typedef struct {
  uint8_t address[16];
  publisher *streams;
  uint32_t receiver;
  uint16_t port, unused;
  uint32_t bytes_in, is_held;
} session;

// A run that was forwarded at `now_ms`.
typedef struct {
  double now_ms;
  uint32_t session, unused;
  packet_run run;
} forwarded_run;

// A datagram that the receive loop leaves to TypeScript. `outcome` is 0 when its bytes are untouched. Otherwise it belongs to that
// session, and `outcome` is its plain length or the reason why it was refused.
typedef struct {
  uint32_t datagram, session;
  int32_t outcome;
  uint32_t unused;
} set_aside;

// The parameters and results of the receive loop (native-receive-loop.ts). `from` holds the sender of each datagram; a length of 0
// marks a datagram that was too long. For forwarded packets it holds the plain length.
typedef struct {
  double now_ms;
  int32_t fd, event_loop;
  uint32_t is_v6, wait_ms, pause_us, session_count, grouping;
  uint32_t run_count, received, set_aside_count, packets_out, bytes_out, dropped;
  // With `is_still` time stands still, as replaying a trace requires. `hurried` counts the frames for which the loop does not wait.
  uint32_t is_still, hurried, unused;
  destination from[MAX_RECEIVED];
  session sessions[MAX_SESSIONS];
  forwarded_run runs[MAX_RECEIVED];
  set_aside aside[MAX_RECEIVED];
} receive_loop;

// The reasons for refusing a packet, as negative outcomes (native-srtp.ts).
enum { MALFORMED = -1, REPLAYED = -2, UNAUTHENTIC = -3, TOO_MANY_STREAMS = -4 };

// ---- srtp.c

typedef struct engine engine;
typedef struct cipher cipher;

// Returns NULL when no cipher has that number.
cipher *find_cipher(const engine *e, uint32_t number);
uint32_t tag_bytes(const cipher *c);
#define HEAD_BYTES 128u
// Protects a packet in place; there is room for its tag behind `length`. With `plain`, the body is read from there, and only its
// first HEAD_BYTES have to be in the packet already. Returns the new length, or 0.
uint32_t protect_rtp(cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover, const uint8_t *plain);
// Opens a packet in place. Returns the plain length, or −1: then no byte has changed.
int32_t unprotect_rtp(engine *e, cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover);
int32_t unprotect_rtcp(engine *e, cipher *c, uint8_t *packet, uint32_t length, uint32_t index);
// Returns where the E flag and the index are in protected RTCP of that length.
uint32_t rtcp_index_at(const cipher *c, uint32_t length);
void free_ciphers(engine *e);

// ---- receivers.c

typedef struct receiver receiver;

receiver *find_receiver(const engine *e, uint32_t number);
// Opens a packet if it is new and authentic. Returns the plain length, or the reason why it is refused.
int32_t receive_rtp(engine *e, receiver *r, uint8_t *packet, uint32_t length);
void free_receivers(engine *e);

// ---- source-packet.c

#define MAX_ELEMENTS 16u

// A decrypted packet of a publisher, with what its copies need. Positions in the VP8 descriptor are 0 for absent fields.
typedef struct {
  double extended, now_ms;
  const uint8_t *data;
  uint32_t data_bytes, payload_at, payload_bytes, timestamp, marker, abs_send_time;
  uint32_t vp8_bytes, picture_id_at, wide, picture_id, tl0_at, tl0, key_idx_at, key_idx;
  uint32_t element_count;
  struct {
    uint32_t id, at, bytes;
  } elements[MAX_ELEMENTS];
} source_packet;

// Fills in the source from well-formed plain RTP. Returns 0 when it has more extension elements than there is room for.
int read_source(source_packet *s, const uint8_t *packet, uint32_t bytes, uint32_t payload_at, uint32_t payload_bytes,
                double extended, double now_ms);
// Reads the VP8 payload descriptor. Returns 0 when it is cut off.
int read_vp8(source_packet *s);
// Returns 1 only when the packet certainly begins no keyframe.
int continues_frames(const source_packet *s, uint32_t codec);

// ---- streams.c

// Returns the forwardable stream with the SSRC of the packet, or NULL.
fast_stream *forwardable_stream(publisher *p, const uint8_t *packet, uint32_t length);
// Whether the packet is the next one of its stream.
int is_next_packet(const fast_stream *s, const uint8_t *packet);
// Advances the stream by a decrypted packet, and records it for feedback and for the flight recorder. Returns 0, and changes
// nothing, if TypeScript has to handle the packet.
int advance_stream(publisher *p, fast_stream *stream, source_packet *s, packet_run *run, const uint8_t *packet, uint32_t length,
                   double now_ms);

// ---- fan-out.c

#define MAX_RUN 32u

// Writes the copies of `packet_count` packets for each slot into the buffers of the arena from number `first` on, and where each of
// them goes, subscriber by subscriber. A copy that is refused has a length of 0. Returns the number of copies.
uint32_t fan_out_run(engine *e, uint8_t *arena, uint32_t arena_bytes, uint32_t first, destination *destinations,
                     const source_packet *packets, uint32_t packet_count, const subscriber_slot *slots, uint32_t slot_count);

// ---- send.c

struct sockaddr_in6;

void read_address(destination *from, const struct sockaddr_in6 *sender);
EXPORT uint32_t stoa_send(int32_t fd, uint32_t is_v6, uint8_t *arena, uint32_t arena_bytes, destination *to, uint32_t count,
                          uint32_t *grouping);

#endif
