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

typedef struct engine engine;
typedef struct cipher cipher;

// NULL where there is none of that number.
cipher *find_cipher(const engine *e, uint32_t number);
uint32_t tag_bytes(const cipher *c);
// The packet has room for its tag behind `length`. Returns the new length, or 0.
uint32_t seal(cipher *c, uint8_t *packet, uint32_t header_length, uint32_t length, uint32_t rollover);

#endif
