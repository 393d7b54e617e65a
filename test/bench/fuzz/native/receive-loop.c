// Datagrams of strangers and of two publishers, forwarded to subscribers with any settings.

#include "sockets.h"

#define SENDERS 2u
#define SLOTS 3u
#define STREAMS 4u

static uint32_t sender_cipher;
static uint32_t last_number[SENDERS][STREAMS];

static uint32_t header_bytes(const uint8_t *packet, uint32_t length) {
  uint32_t bytes = 12 + (packet[0] & 0x0f) * 4u;
  if (packet[0] & 0x10 && bytes + 4 <= length) bytes += 4 + read16(packet + bytes + 2) * 4;
  return bytes <= length ? bytes : length;
}

// A header that the receive loop forwards: chance alone makes none.
static void make_next(uint8_t *packet, uint32_t *last) {
  *last += 1;
  packet[0] = 0x80 | (packet[0] & 0x1f);
  packet[1] = 96 | (packet[1] & 0x80);
  packet[2] = (uint8_t)(*last >> 8);
  packet[3] = (uint8_t)*last;
}

// The first byte of a datagram says whose it is, whether it is the next of its stream, and whether it is authentic; the second is its
// length in steps of eight bytes.
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned room, int flags, struct timespec *timeout) {
  (void)fd, (void)flags, (void)timeout;
  unsigned count = 0;
  while (count < room && kernel.left > 0) {
    uint32_t kind = take(&kernel, 1), length = take(&kernel, 1) * 8;
    if (kind == 255) break;
    struct msghdr *message = &messages[count].msg_hdr;
    MUST(message->msg_iovlen == 1 && message->msg_iov[0].iov_len == BUFFER_BYTES);
    uint8_t *packet = message->msg_iov[0].iov_base;
    length = take_bytes(&kernel, packet, length);
    if (kind & 4 && length >= 12) packet[8] = packet[9] = packet[10] = 0, packet[11] = kind & 3;
    if (kind & 16 && length >= 12) make_next(packet, &last_number[kind & 1][kind & 3]);
    if (kind & 8) length = stoa_protect(fuzz_engine(), sender_cipher, packet, BUFFER_BYTES, header_bytes(packet, length), length, 0);
    struct sockaddr_in6 from = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)(1 + (kind & 1)))};
    memcpy(message->msg_name, &from, sizeof from);
    messages[count].msg_len = length;
    message->msg_flags = kind & 64 ? MSG_TRUNC : 0;
    count++;
  }
  if (count > 0) return (int)count;
  errno = EAGAIN;
  return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  engine *e = fuzz_engine();
  kernel = (input){data, size};
  uint32_t profile = 1 + (take(&kernel, 1) & 1);
  sender_cipher = stoa_add_cipher(e, profile, fuzz_key, sizeof fuzz_key);
  uint32_t own = stoa_add_cipher(e, profile, fuzz_key, sizeof fuzz_key);
  static receive_loop *loop;
  static arrivals *arrived;
  static flight_log *flight;
  static transport_numbers *numbers;
  static uint8_t *datagrams, *arena;
  static destination *to;
  if (!loop) {
    loop = malloc(sizeof *loop);
    arrived = calloc(1, sizeof *arrived);
    flight = calloc(1, sizeof *flight);
    numbers = calloc(1, sizeof *numbers);
    datagrams = malloc(MAX_RECEIVED * BUFFER_BYTES);
    arena = malloc(MAX_BATCH * BUFFER_BYTES);
    to = calloc(MAX_BATCH, sizeof *to);
  }
  publisher *publishers[SENDERS];
  for (uint32_t p = 0; p < SENDERS; p++)
    MUST((publishers[p] = calloc(1, sizeof(publisher) + STREAMS * sizeof(stream_row))) != NULL);
  subscriber_slot *slots = calloc(SLOTS, sizeof *slots);
  MUST(loop && arrived && flight && numbers && slots && datagrams && arena && to);
  arrived->highest = arrived->next = -1;
  memset(loop, 0, offsetof(receive_loop, from));
  for (uint32_t i = 0; i < SLOTS; i++) {
    slots[i].cipher = own;
    slots[i].ssrc = i;
    slots[i].template_bytes = (uint8_t)(take(&kernel, 1) % 64);
    slots[i].abs_send_time_at = (uint8_t)(take(&kernel, 1) | 128);
    slots[i].transport_sequence_at = 255;
    slots[i].two_byte = (uint8_t)(take(&kernel, 1) & 1);
    slots[i].passed_from[0] = 1;
    slots[i].passed_to[0] = 2;
    slots[i].numbers = take(&kernel, 1) & 1 ? numbers : NULL;
    slots[i].sequence_offset = 0;
  }
  for (uint32_t p = 0; p < SENDERS; p++) {
    publishers[p]->row_count = STREAMS;
    publishers[p]->arrived = arrived;
    publishers[p]->flight = flight;
    publishers[p]->transport_sequence_id = take(&kernel, 1) % 16;
    publishers[p]->audio_level_id = take(&kernel, 1) % 16;
    for (uint32_t s = 0; s < STREAMS; s++) {
      uint32_t codec = take(&kernel, 1);
      last_number[p][s] = take(&kernel, 2);
      publishers[p]->rows[s].stream = (fast_stream){
          .highest = last_number[p][s], .open = 1, .ssrc = s, .payload_type = 96, .codec = codec % 5, .rewrites_vp8 = codec >> 7};
      publishers[p]->rows[s].group = (fan_out_group){.slots = slots, .slot_count = SLOTS, .is_forwardable = 1};
    }
    loop->sessions[p] = (session){.streams = publishers[p], .receiver = stoa_add_receiver(e, own, 8), .port = (uint16_t)(1 + p)};
    MUST(loop->sessions[p].receiver);
  }
  loop->fd = loop->event_loop = 1;
  loop->is_v6 = 1;
  loop->wait_ms = 1;
  loop->pause_us = take(&kernel, 1);
  loop->is_still = 1;
  loop->grouping = 1;
  loop->session_count = SENDERS;
  stoa_receive_loop(e, loop, datagrams, MAX_RECEIVED * BUFFER_BYTES, arena, MAX_BATCH * BUFFER_BYTES, to);
  MUST(loop->received <= MAX_RECEIVED && loop->run_count <= MAX_RECEIVED && loop->set_aside_count <= MAX_RECEIVED);
  for (uint32_t i = 0; i < loop->run_count; i++) {
    const packet_run *run = &loop->runs[i].run;
    MUST(loop->runs[i].session < SENDERS && run->first + run->count <= loop->received && run->stream < STREAMS);
  }
  for (uint32_t p = 0; p < SENDERS; p++) stoa_remove_receiver(e, loop->sessions[p].receiver);
  stoa_remove_cipher(e, own);
  stoa_remove_cipher(e, sender_cipher);
  free(slots);
  for (uint32_t p = 0; p < SENDERS; p++) free(publishers[p]);
  return 0;
}
