// Protecting and opening: what was protected opens to the same bytes, one changed byte does not, and the code for x86-64 writes what
// libcrypto writes.

#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  engine *e = fuzz_engine();
  input in = {data, size};
  uint32_t profile = 1 + (take(&in, 1) & 1), rollover = take(&in, 4), header = take(&in, 1), flip = take(&in, 2);
  // Taken before the packet, which takes all the rest.
  uint32_t spare = take(&in, 1) % 64;
  uint32_t sender = stoa_add_cipher(e, profile, fuzz_key, sizeof fuzz_key);
  uint32_t opener = stoa_add_cipher(e, profile, fuzz_key, sizeof fuzz_key);
  MUST(sender && opener);
  find_cipher(e, opener)->uses_own_gcm = 0;
  // A received packet fills a buffer including its tag, so the packet is smaller before it is protected.
  uint8_t plain[BUFFER_BYTES - GCM_TAG_BYTES - RTCP_INDEX_BYTES];
  uint32_t length = take_bytes(&in, plain, sizeof plain), capacity = length + spare;

  uint8_t *packet = exactly(plain, length, capacity);
  uint32_t sealed = stoa_protect(e, sender, packet, capacity, header, length, rollover);
  MUST(sealed == 0 || (sealed > length && sealed <= capacity));
  uint8_t *again = exactly(plain, length, capacity);
  MUST(stoa_protect(e, opener, again, capacity, header, length, rollover) == sealed);
  if (sealed) {
    MUST(memcmp(packet, again, sealed) == 0);
    again[flip % sealed] ^= 1;
    MUST(stoa_unprotect(e, opener, again, capacity, header, sealed, rollover) < 0);
    MUST(stoa_unprotect(e, opener, packet, capacity, header, sealed, rollover) == (int32_t)length);
    MUST(memcmp(packet, plain, length) == 0);
  }
  free(again);
  free(packet);

  packet = exactly(plain, length, length);
  stoa_unprotect(e, opener, packet, length, header, length, rollover);
  stoa_unprotect_rtcp(e, opener, packet, length, length, rollover);
  free(packet);

  packet = exactly(plain, length, capacity);
  sealed = stoa_protect_rtcp(e, sender, packet, capacity, length, rollover);
  MUST(sealed <= capacity);
  if (sealed) {
    MUST(stoa_unprotect_rtcp(e, opener, packet, capacity, sealed, rollover) == (int32_t)length);
    MUST(memcmp(packet, plain, length) == 0);
  }
  free(packet);
  stoa_remove_cipher(e, sender);
  stoa_remove_cipher(e, opener);
  return 0;
}
