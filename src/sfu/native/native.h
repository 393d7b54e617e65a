// What the C files have in common. One engine for every media worker: nothing is shared between threads.

#ifndef STOA_NATIVE_H
#define STOA_NATIVE_H

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

// Known to packet/send-batch.ts as well.
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

#define MAX_ELEMENTS 16u
#define MAX_PASSING 8

// What there is to know of a packet that goes to a whole audience (native-fan-out-alike.ts fills it in).
typedef struct {
  double extended;
  uint32_t data_bytes, payload_at, payload_bytes, timestamp, marker, abs_send_time;
  // VP8: length of the descriptor, 0 for other codecs; then places in it, 0 for what is not there, and values.
  uint32_t vp8_bytes, picture_id_at, wide, picture_id, tl0_at, tl0, key_idx_at, key_idx;
  uint32_t element_count;
  struct {
    uint32_t id, at, bytes;
  } elements[MAX_ELEMENTS];
} source;

// A viewer in the audience: what all of its copies have in common (packet/seat-table.ts).
typedef struct {
  uint32_t cipher, ssrc, payload_type, transport_sequence;
  double sequence_offset;
  uint32_t timestamp_offset, picture_id_offset, tl0_offset, key_idx_offset, port;
  uint8_t template_bytes, abs_send_time_at, transport_sequence_at, two_byte;
  uint8_t address[16];
  uint8_t template[48];
  uint8_t passing_from[MAX_PASSING], passing_to[MAX_PASSING];
} seat;

typedef struct engine engine;
typedef struct cipher cipher;

// NULL where there is none of that number.
cipher *find_cipher(const engine *e, uint32_t number);
uint32_t tag_bytes(const cipher *c);
// The packet has room for its tag behind `length`. Returns the new length, or 0.
uint32_t seal(cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover);

#endif
