// Packets of one connection in any order, authentic or not: none opens twice.

#include "input.h"

#define KEPT 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  engine *e = fuzz_engine();
  input in = {data, size};
  uint32_t profile = 1 + (take(&in, 1) & 1);
  uint32_t sender = stoa_add_cipher(e, profile, fuzz_key, sizeof fuzz_key);
  uint32_t opener = stoa_add_cipher(e, profile, fuzz_key, sizeof fuzz_key);
  uint32_t receiver = stoa_add_receiver(e, opener, 8);
  MUST(receiver);
  uint32_t opened[KEPT][2], count = 0;
  for (int packets = 0; packets < 200 && in.left > 0; packets++) {
    uint32_t kind = take(&in, 1), length = take(&in, 1), capacity = length + 64;
    uint8_t plain[256] = {0};
    length = take_bytes(&in, plain, length);
    uint8_t *packet = exactly(plain, length, capacity);
    uint32_t bytes = length;
    if (kind & 1) bytes = kind & 2 ? stoa_protect_rtcp(e, sender, packet, capacity, length, take(&in, 2))
                                   : stoa_protect(e, sender, packet, capacity, 12, length, 0);
    int32_t outcome = kind & 2 ? stoa_receive_rtcp(e, receiver, packet, capacity, bytes)
                               : stoa_receive_rtp(e, receiver, packet, capacity, bytes);
    MUST(outcome <= (int32_t)length && outcome >= TOO_MANY_STREAMS);
    if (!(kind & 2) && outcome > 0 && length >= 12) {
      uint32_t number = read16(plain + 2), ssrc = read32(plain + 8);
      for (uint32_t i = 0; i < count; i++) MUST(opened[i][0] != number || opened[i][1] != ssrc);
      if (count < KEPT) opened[count][0] = number, opened[count++][1] = ssrc;
    }
    free(packet);
  }
  stoa_remove_receiver(e, receiver);
  stoa_remove_cipher(e, sender);
  stoa_remove_cipher(e, opener);
  return 0;
}
