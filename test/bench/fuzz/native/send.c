// Batches to any destinations, and any answer of the kernel.

#include "sockets.h"

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned room, int flags, struct timespec *timeout) {
  (void)fd, (void)messages, (void)room, (void)flags, (void)timeout;
  return fail(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  kernel = (input){data, size};
  uint32_t is_v6 = take(&kernel, 1) & 1, grouping = take(&kernel, 1) & 1, count = take(&kernel, 1) % (MAX_BATCH + 2);
  static uint8_t *arena;
  if (!arena) arena = calloc(MAX_BATCH, BUFFER_BYTES);
  destination *to = calloc(count ? count : 1, sizeof *to);
  MUST(arena && to);
  for (uint32_t i = 0; i < count; i++) {
    // Groups are packets of one destination, so most of them are.
    uint32_t which = take(&kernel, 1);
    to[i].address[15] = which & 3;
    to[i].scope = which > 250;
    to[i].port = which & 1;
    to[i].length = (uint16_t)(which & 8 ? 1200 : take(&kernel, 2) % (BUFFER_BYTES + 1));
  }
  stoa_send(1, is_v6, arena, MAX_BATCH * BUFFER_BYTES, to, count, &grouping);
  char text[64];
  uint32_t capacity = take(&kernel, 1) % sizeof text;
  if (count > 0) MUST(stoa_write_address(to[0].address, to[0].scope, is_v6, text, capacity) <= sizeof text);
  free(to);
  return 0;
}
