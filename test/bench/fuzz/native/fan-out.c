// Copies of any packet for subscribers with any settings: every copy stays in its buffer.

#include "input.h"

#define SLOTS 4u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  engine *e = fuzz_engine();
  static uint32_t cipher;
  static transport_numbers numbers;
  if (!cipher) cipher = stoa_add_cipher(e, PROFILE_GCM, fuzz_key, sizeof fuzz_key);
  input in = {data, size};
  uint32_t slot_count = take(&in, 1) % (SLOTS + 1), rewrites = take(&in, 1) & 1, payload_at = take(&in, 1), first = take(&in, 1);
  double extended = take(&in, 4);
  subscriber_slot *slots = calloc(SLOTS, sizeof *slots);
  MUST(slots);
  for (uint32_t i = 0; i < slot_count; i++) {
    take_bytes(&in, (uint8_t *)&slots[i], sizeof slots[i]);
    slots[i].cipher = slots[i].cipher & 1 ? cipher : slots[i].cipher;
    slots[i].numbers = slots[i].ssrc & 1 ? &numbers : NULL;
  }
  uint8_t plain[BUFFER_BYTES];
  uint32_t bytes = take_bytes(&in, plain, sizeof plain), payload_bytes = bytes < payload_at ? 0 : bytes - payload_at;
  uint8_t *packet = exactly(plain, bytes, bytes);
  uint32_t room = SLOTS + (first & 1);
  uint8_t *arena = malloc((size_t)room * BUFFER_BYTES);
  destination *to = calloc(room, sizeof *to);
  MUST(arena && to);
  uint32_t count = stoa_fan_out(e, arena, room * BUFFER_BYTES, first % 3, to, packet, bytes, payload_at, payload_bytes, extended, 1,
                                rewrites, slots, slot_count);
  MUST(count <= slot_count);
  for (uint32_t i = 0; i < room; i++) MUST(to[i].length <= BUFFER_BYTES);
  free(to);
  free(arena);
  free(packet);
  free(slots);
  return 0;
}
