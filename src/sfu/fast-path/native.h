// What the C files have in common. One engine for every media worker: nothing is shared between threads.

#ifndef STOA_NATIVE_H
#define STOA_NATIVE_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

// Known to forwarding/send-batch.ts as well.
#define SLOT_BYTES 2304u
#define MAX_BATCH 200u

#define RTP_HEADER_BYTES 12u

// Where a slot goes. IPv4 in its mapped form (::ffff:a.b.c.d).
typedef struct {
  uint8_t address[16];
  uint32_t scope;
  uint16_t port, length;
} destination;

// One viewer's copy: header, RTX number and codec prefix are in the slot already. `length` is the answer; 0: refused.
typedef struct {
  uint32_t cipher, slot, header_length, payload_at, prefix_length, padding_length, rollover, length;
} copy;

// Packets that are copied by one call; known to native-fan-out-alike.ts as well.
#define MAX_RUN 32u
#define MAX_ELEMENTS 16u
#define MAX_PASSING 8

// What there is to know of a packet that goes to a whole audience (native-fan-out-alike.ts fills it in). `data` is its plain
// bytes, which TypeScript holds on to until the call is over.
typedef struct {
  double extended, now_ms;
  const uint8_t *data;
  uint32_t data_bytes, payload_at, payload_bytes, timestamp, marker, abs_send_time;
  // VP8: length of the descriptor, 0 for other codecs; then places in it, 0 for what is not there, and values.
  uint32_t vp8_bytes, picture_id_at, wide, picture_id, tl0_at, tl0, key_idx_at, key_idx;
  uint32_t element_count;
  struct {
    uint32_t id, at, bytes;
  } elements[MAX_ELEMENTS];
  uint32_t unused;
} source;

#define NUMBERS_KEPT 2048u

// Transport-wide sequence numbers of one viewer, and when each was sent (rtcp/twcc-feedback.ts).
typedef struct {
  uint32_t next, unused;
  struct {
    double sent_at_ms, what;
  } entries[NUMBERS_KEPT];
} numbers;

// A viewer in the audience: what all of its copies have in common (forwarding/seat-table.ts). `numbers` is NULL when it wants
// none; else it is memory that TypeScript holds on to for as long as the row is there.
typedef struct {
  uint32_t cipher, ssrc;
  numbers *numbers;
  double sequence_offset;
  uint32_t timestamp_offset, picture_id_offset, tl0_offset, key_idx_offset;
  uint16_t port;
  uint8_t payload_type, unused;
  uint8_t template_bytes, abs_send_time_at, transport_sequence_at, two_byte;
  uint8_t address[16];
  uint8_t template[48];
  uint8_t passing_from[MAX_PASSING], passing_to[MAX_PASSING];
} seat;

#define MAX_LANES 32u
#define MAX_TAKE 64u

// A stream whose packets are forwarded without a second thought as long as they come in order and none begins a keyframe
// (forwarding/lanes.ts). `highest` is the number of its newest packet, unwrapped.
typedef struct {
  double highest;
  uint32_t open, ssrc, payload_type, codec, rewrites_vp8, unused;
} lane;

enum { CODEC_AUDIO, CODEC_VP8, CODEC_VP9, CODEC_H264, CODEC_AV1 };

#define ARRIVALS_KEPT 4096u

// Which packets of a connection arrived, and when, in quarters of a millisecond; −1: not (rtcp/twcc.ts).
typedef struct {
  double highest, next, ticks[ARRIVALS_KEPT];
} arrivals;

#define FLIGHT_KEPT 2048u

// The headers of what arrived lately (flight/flight-recorder.ts).
typedef struct {
  uint32_t count, unused;
  double at_ms[FLIGHT_KEPT];
  uint32_t words[FLIGHT_KEPT][4];
} flight;

// Who gets what comes on a lane, while packets are forwarded without TypeScript (watch.c): `direct` is 0 where it has to be asked.
typedef struct {
  const seat *seats;
  uint32_t seat_count, direct;
} audience;

// All streams of a publisher. `came` and `seen` are memory that TypeScript holds on to for as long as they are named here; NULL
// before there is any. Ids of extensions are 0 where they are not used.
typedef struct {
  arrivals *came;
  flight *seen;
  uint32_t transport_sequence_id, audio_level_id, unused[2];
  lane lanes[MAX_LANES];
  audience audiences[MAX_LANES];
} publisher;

// Packets in a row of one lane and one moment in its time: from datagram number `first` on. `extended` is the number of the first.
typedef struct {
  double extended;
  uint32_t lane, first, count, timestamp, bytes, payload_bytes, numbered;
  // −1 for what is not there.
  int32_t audio_level, vp8_bytes, picture_id, wide, tl0, key_idx, unused;
} run;

// Datagrams of one connection, and what became of them: their plain lengths, the runs they make up, and each as a source of
// copies. `outcome` tells of the first that was not taken: 0 when not a byte of it was touched, else its plain length, or why it
// was refused.
typedef struct {
  double now_ms;
  uint32_t abs_send_time, count, run_count;
  int32_t outcome;
  uint32_t unused[2];
  double data[MAX_TAKE];
  uint32_t lengths[MAX_TAKE];
  run runs[MAX_TAKE];
  source sources[MAX_TAKE];
} taking;

#define MAX_SESSIONS 64u
// Datagrams that are received before TypeScript makes up for them.
#define MAX_WATCHED 128u

// A peer that was heard lately: where its packets come from, and what opens and describes them. `bytes_in` is an answer.
typedef struct {
  uint8_t address[16];
  publisher *streams;
  uint32_t receiver;
  uint16_t port, unused;
  uint32_t bytes_in, unused_too;
} session;

// Packets that were taken, copied and sent; those of one lane, from slot number `run.first` on.
typedef struct {
  double now_ms;
  uint32_t session, unused;
  run run;
} watched_run;

// A report that could wait: in which slot, and when it came. Untouched if `outcome` is 0; else it is of that session, opened, with
// this plain length, or refused for this reason.
typedef struct {
  double now_ms;
  uint32_t slot, session;
  int32_t outcome;
  uint32_t unused;
} laid_aside;

// What TypeScript asks of a watch (native-watch.ts), and what has become of it. Of `received` slots those before `taken` are done
// with, but for the reports among them, which were laid aside. The first of the rest is untouched if `outcome` is 0; else it is of
// `rest_session`, opened, with this plain length, or refused for this reason. A slot of length 0 is of no use. `from` tells plain
// lengths of what was taken.
typedef struct {
  double now_ms;
  int32_t fd, loop;
  uint32_t is_v6, wait_ms, pause_us, session_count, grouping;
  uint32_t run_count, taken, received, rest_session;
  int32_t outcome;
  uint32_t packets_out, bytes_out, dropped, aside_count;
  // 1: time stands still, as in a trace that is played. Then, for how many frames the rest is not waited for.
  uint32_t still, hurried;
  // So long a report is laid aside; 0: none is, it ends the watch as it comes.
  uint32_t patience_ms, unused;
  destination from[MAX_WATCHED];
  session sessions[MAX_SESSIONS];
  watched_run runs[MAX_WATCHED];
  laid_aside aside[MAX_WATCHED];
  taking taking;
} watch;

// Why a packet was refused, to native-receiver.ts as well.
enum { MALFORMED = -1, REPLAYED = -2, UNAUTHENTIC = -3, TOO_MANY_STREAMS = -4 };

typedef struct engine engine;
typedef struct cipher cipher;
typedef struct receiver receiver;

// NULL where there is none of that number.
cipher *find_cipher(const engine *e, uint32_t number);
// Has the processor fetch what it takes to seal with that one, while it does something else.
void fetch_cipher(const engine *e, uint32_t number);
uint32_t tag_bytes(const cipher *c);
#define HEAD_BYTES 128u
// The packet has room for its tag behind `length`. If `plain` is given, that is where the body is, and only its first HEAD_BYTES
// have to be in the packet already. Returns the new length, or 0.
uint32_t seal(cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover, const uint8_t *plain);

#endif
