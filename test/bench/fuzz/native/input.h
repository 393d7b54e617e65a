// The bytes of a fuzzer as numbers, and what every target needs. Reading past the end gives zeros.

#ifndef STOA_FUZZ_INPUT_H
#define STOA_FUZZ_INPUT_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "srtp.h"

engine *stoa_open(void);
void stoa_close(engine *e);
uint32_t stoa_add_cipher(engine *e, uint32_t profile, const uint8_t *from, uint32_t bytes);
void stoa_remove_cipher(engine *e, uint32_t number);
uint32_t stoa_protect(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t header_length, uint32_t length,
                      uint32_t rollover);
int32_t stoa_unprotect(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t header_length, uint32_t length,
                       uint32_t rollover);
uint32_t stoa_protect_rtcp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length, uint32_t index);
int32_t stoa_unprotect_rtcp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length, uint32_t index);
uint32_t stoa_add_receiver(engine *e, uint32_t cipher_number, uint32_t max_streams);
void stoa_remove_receiver(engine *e, uint32_t number);
int32_t stoa_receive_rtp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length);
int32_t stoa_receive_rtcp(engine *e, uint32_t number, uint8_t *packet, uint32_t capacity, uint32_t length);
uint32_t stoa_fan_out(engine *e, uint8_t *arena, uint32_t arena_bytes, uint32_t first, destination *destinations,
                      const uint8_t *packet, uint32_t bytes, uint32_t payload_at, uint32_t payload_bytes, double extended,
                      double now_ms, uint32_t rewrites_vp8, const subscriber_slot *slots, uint32_t slot_count);
void stoa_receive_loop(engine *e, receive_loop *loop, uint8_t *datagrams, uint32_t datagrams_bytes, uint8_t *arena,
                       uint32_t arena_bytes, destination *to);
uint32_t stoa_write_address(const uint8_t *address, uint32_t scope, uint32_t is_v6, char *text, uint32_t capacity);

typedef struct {
  const uint8_t *at;
  size_t left;
} input;

static inline uint32_t take(input *in, uint32_t bytes) {
  uint32_t value = 0;
  for (; bytes > 0; bytes--) {
    value = value << 8 | (in->left > 0 ? *in->at : 0);
    if (in->left > 0) in->at++, in->left--;
  }
  return value;
}

// Copies up to `bytes`, and returns how many there were.
static inline uint32_t take_bytes(input *in, uint8_t *to, uint32_t bytes) {
  uint32_t count = in->left < bytes ? (uint32_t)in->left : bytes;
  memcpy(to, in->at, count);
  in->at += count;
  in->left -= count;
  return count;
}

#define MUST(condition) \
  do { \
    if (!(condition)) abort(); \
  } while (0)

static uint8_t fuzz_key[100];

static inline engine *fuzz_engine(void) {
  static engine *e;
  if (e) return e;
  for (size_t i = 0; i < sizeof fuzz_key; i++) fuzz_key[i] = (uint8_t)(i * 7);
  return e = stoa_open();
}

// A packet in memory of exactly its size, so that a byte beyond it is noticed.
static inline uint8_t *exactly(const uint8_t *from, uint32_t length, uint32_t capacity) {
  uint8_t *copy = malloc(capacity ? capacity : 1);
  MUST(copy);
  memcpy(copy, from, length);
  return copy;
}

#endif
