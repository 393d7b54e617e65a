// Calls the native code as a hostile program would, under the sanitizers of the compiler: test/sfu/fast-path/sanitizer.test.ts.
// Every buffer is a heap block of exactly its size, so that one byte too far is found.

#include <arpa/inet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../../src/sfu/fast-path/srtp.h"

#define KEY_BYTES 100u

engine *stoa_open(void);
void stoa_close(engine *);
uint32_t stoa_add_cipher(engine *, uint32_t, const uint8_t *, uint32_t);
void stoa_remove_cipher(engine *, uint32_t);
uint32_t stoa_live_ciphers(const engine *);
uint32_t stoa_protect(engine *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t, uint32_t);
int32_t stoa_unprotect(engine *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t, uint32_t);
uint32_t stoa_protect_rtcp(engine *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t);
int32_t stoa_unprotect_rtcp(engine *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t);
uint32_t stoa_add_receiver(engine *, uint32_t, uint32_t);
void stoa_forget_stream(engine *, uint32_t, uint32_t);
void stoa_remove_receiver(engine *, uint32_t);
int32_t stoa_receive_rtp(engine *, uint32_t, uint8_t *, uint32_t, uint32_t);
int32_t stoa_receive_rtcp(engine *, uint32_t, uint8_t *, uint32_t, uint32_t);
uint32_t stoa_fan_out(engine *, uint8_t *, uint32_t, uint32_t, destination *, const uint8_t *, uint32_t, uint32_t, uint32_t, double,
                      double, uint32_t, const subscriber_slot *, uint32_t);
void stoa_receive_loop(engine *, receive_loop *, uint8_t *, uint32_t, uint8_t *, uint32_t, destination *);
uint32_t stoa_write_address(const uint8_t *, uint32_t, uint32_t, char *, uint32_t);

static uint32_t seed = 2463534242u;

static uint32_t chance(void) {
  seed ^= seed << 13;
  seed ^= seed >> 17;
  seed ^= seed << 5;
  return seed;
}

// Mostly near what is allowed, sometimes absurd.
static uint32_t hostile(uint32_t usual) {
  switch (chance() % 8) {
    case 0: return chance();
    case 1: return UINT32_MAX - chance() % 64;
    case 2: return usual + chance() % 64;
    default: return usual ? chance() % usual : 0;
  }
}

static void check(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "driver: %s\n", what);
  exit(2);
}

static uint8_t *block(uint32_t bytes) {
  uint8_t *p = malloc(bytes ? bytes : 1);
  for (uint32_t i = 0; i < bytes; i++) p[i] = (uint8_t)chance();
  return p;
}

static uint32_t add(engine *e, uint32_t profile) {
  uint8_t *keys = block(KEY_BYTES);
  uint32_t number = stoa_add_cipher(e, profile, keys, KEY_BYTES);
  free(keys);
  return number;
}

static void churn(engine *e) {
  uint32_t numbers[300] = {0};
  for (uint32_t i = 0; i < 6000; i++) {
    uint32_t at = chance() % 300;
    if (numbers[at]) stoa_remove_cipher(e, numbers[at]);
    numbers[at] = add(e, 1 + chance() % 2);
    check(numbers[at] != 0, "a key was refused");
  }
  check(stoa_live_ciphers(e) <= 300, "keys were not let go of");
  for (uint32_t i = 0; i < 300; i++) stoa_remove_cipher(e, numbers[i]);
  check(stoa_live_ciphers(e) == 0, "keys are left over");
}

static void open_and_close_packets(engine *e) {
  for (uint32_t profile = 1; profile <= 2; profile++) {
    uint32_t number = add(e, profile);
    for (uint32_t length = 12; length < 1400; length += 1 + chance() % 9) {
      uint32_t tag = profile == 1 ? 16 : 10;
      uint8_t *packet = block(length + tag);
      uint8_t *before = block(length);
      memcpy(before, packet, length);
      check(stoa_protect(e, number, packet, length + tag - 1, 12, length, 5) == 0, "no room for the tag");
      check(stoa_protect(e, number, packet, length + tag, 12, length, 5) == length + tag, "protect");
      packet[length + tag - 1] ^= 1;
      check(stoa_unprotect(e, number, packet, length + tag, 12, length + tag, 5) == -1, "a wrong tag");
      packet[length + tag - 1] ^= 1;
      check(stoa_unprotect(e, number, packet, length + tag, 12, length + tag, 5) == (int32_t)length, "unprotect");
      check(memcmp(before, packet, length) == 0, "another packet came back");
      free(packet);
      packet = block(length + tag + 4);
      memcpy(packet, before, length);
      check(stoa_protect_rtcp(e, number, packet, length + tag + 3, length, 9) == 0, "no room for tag and index");
      check(stoa_protect_rtcp(e, number, packet, length + tag + 4, length, 9) == length + tag + 4, "protect control");
      packet[8 % length] ^= 1;
      check(stoa_unprotect_rtcp(e, number, packet, length + tag + 4, length + tag + 4, 9) == -1, "wrong control");
      packet[8 % length] ^= 1;
      check(stoa_unprotect_rtcp(e, number, packet, length + tag + 4, length + tag + 4, 9) == (int32_t)length,
            "unprotect control");
      check(memcmp(before, packet, length) == 0, "another packet of control came back");
      free(packet);
      free(before);
    }
    stoa_remove_cipher(e, number);
  }
}

// gcm.c and libcrypto protect a packet alike, whether its body was copied before or not.
static void protect_as_libcrypto_does(void) {
  engine *engines[2] = {stoa_open(), stoa_open()};
  engines[0]->has_own_gcm = 0;
  for (uint32_t i = 0; i < 4000; i++) {
    uint8_t *keys = block(KEY_BYTES), *packets[3], *plain;
    cipher *ciphers[2];
    for (uint32_t k = 0; k < 2; k++) ciphers[k] = find_cipher(engines[k], stoa_add_cipher(engines[k], 1, keys, KEY_BYTES));
    uint32_t header = 12 + chance() % (i % 8 ? 60 : 400), rollover = chance();
    uint32_t bytes = chance() % (i % 4 ? 400 : BUFFER_BYTES - 16 - header), length = header + bytes;
    packets[0] = block(length + 16);
    for (uint32_t k = 1; k < 3; k++) memcpy(packets[k] = block(length + 16), packets[0], length);
    memcpy(plain = block(bytes), packets[0] + header, bytes);
    if (bytes > HEAD_BYTES) memset(packets[2] + header + HEAD_BYTES, 0, bytes - HEAD_BYTES);
    for (uint32_t k = 0; k < 3; k++)
      check(protect_rtp(ciphers[k > 0], packets[k], header, length, rollover, k == 2 ? plain : NULL) == length + 16, "protect");
    check(memcmp(packets[0], packets[1], length + 16) == 0, "libcrypto writes other bytes");
    check(memcmp(packets[0], packets[2], length + 16) == 0, "libcrypto writes other bytes for a body that was not copied");
    if (bytes > HEAD_BYTES) memset(packets[2] + header + HEAD_BYTES, 0, bytes - HEAD_BYTES);
    memcpy(packets[2] + header, plain, bytes < HEAD_BYTES ? bytes : HEAD_BYTES);
    check(protect_rtp(ciphers[0], packets[2], header, length, rollover, plain) == length + 16, "protect");
    check(memcmp(packets[0], packets[2], length + 16) == 0, "libcrypto writes other bytes for a body that it copies");
    for (uint32_t k = 0; k < 3; k++) free(packets[k]);
    for (uint32_t k = 0; k < 2; k++) stoa_remove_cipher(engines[k], 1 + i % engines[k]->capacity);
    free(plain);
    free(keys);
  }
  for (uint32_t k = 0; k < 2; k++) stoa_close(engines[k]);
}

static void fuzz_packets(engine *e, uint32_t live) {
  for (uint32_t i = 0; i < 20000; i++) {
    uint32_t capacity = chance() % 2600;
    uint8_t *packet = block(capacity);
    stoa_protect(e, hostile(live), packet, capacity, hostile(40), hostile(capacity), chance());
    stoa_unprotect(e, hostile(live), packet, capacity, hostile(40), hostile(capacity), chance());
    stoa_protect_rtcp(e, hostile(live), packet, capacity, hostile(capacity), hostile(1u << 31));
    stoa_unprotect_rtcp(e, hostile(live), packet, capacity, hostile(capacity), hostile(1u << 31));
    free(packet);
  }
}

// Numbers that jump, streams that come and go, and bytes that were never protected.
static void fuzz_receivers(engine *e, uint32_t live) {
  uint32_t opened = 0, receivers[8] = {0}, keys[8] = {0};
  for (uint32_t i = 0; i < 20000; i++) {
    uint32_t at = chance() % 8;
    if (!receivers[at] || chance() % 64 == 0) {
      stoa_remove_receiver(e, receivers[at]);
      keys[at] = 1 + chance() % live;
      receivers[at] = stoa_add_receiver(e, keys[at], 512);
      check(receivers[at] != 0, "a receiver was refused");
    }
    uint32_t length = 12 + chance() % 900, room = length + 20;
    uint8_t *packet = block(room);
    packet[0] = 0x80;
    packet[8] = packet[9] = packet[10] = 0;
    uint32_t sealed = stoa_protect(e, keys[at], packet, room, 12, length, chance() % 4 ? 0 : 1);
    if (chance() % 8 == 0) packet[chance() % room] ^= 1;
    opened += stoa_receive_rtp(e, receivers[at], packet, room, chance() % 16 ? sealed : hostile(room)) >= 0;
    stoa_receive_rtp(e, hostile(9), packet, room, hostile(room));
    sealed = stoa_protect_rtcp(e, keys[at], packet, room, length, chance() % 4 ? chance() % 300 : chance() >> 1);
    if (sealed > 0) opened += stoa_receive_rtcp(e, receivers[at], packet, room, sealed) >= 0;
    stoa_receive_rtcp(e, hostile(9), packet, room, hostile(room));
    free(packet);
  }
  check(opened > 1000, "hardly a packet was opened");
  check(stoa_add_receiver(e, 1u << 30, 8) == 0 && stoa_add_receiver(NULL, 1, 8) == 0, "a receiver without a key");
  // Half of them are left for the engine to free.
  for (uint32_t i = 0; i < 4; i++) stoa_remove_receiver(e, receivers[i]);
}

static const uint32_t CODECS[] = {CODEC_AUDIO, CODEC_VP8, CODEC_VP9, CODEC_H264, CODEC_AV1, 77};

// A protected packet of the stream's next number, or nearly so, with extensions that are as often broken as not. Returns its length.
static uint32_t next_of(engine *e, uint32_t key, const fast_stream *s, uint32_t number, uint8_t **packet) {
  uint32_t plain = 12 + chance() % 300, header = 12;
  uint8_t *p = block(plain);
  memset(p, 0, 12);
  p[0] = (uint8_t)(0x80 | (chance() % 2 ? 0x10 : 0) | (chance() % 16 ? 0 : chance() % 64));
  p[1] = (uint8_t)s->payload_type;
  p[2] = (uint8_t)(number >> 8);
  p[3] = (uint8_t)number;
  p[7] = (uint8_t)(chance() % 2);
  p[11] = (uint8_t)s->ssrc;
  if (p[0] & 0x10 && plain >= 24) {
    memcpy(p + 12, chance() % 2 ? "\xbe\xde\0\x02" : "\x10\0\0\x02", 4);
    if (chance() % 2) memcpy(p + 16, "\x51\x12\x34\x60\x85\0\0\0", 8);
    header = chance() % 8 ? 24 : 12;
  }
  *packet = malloc(plain + 20);
  memcpy(*packet, p, plain);
  free(p);
  uint32_t sealed = stoa_protect(e, key, *packet, plain + 20, header, plain, 0);
  uint8_t *exact = realloc(*packet, sealed ? sealed : 1);
  *packet = exact;
  return sealed;
}

// A packet with extensions of any form, whose payload begins where it should in two of three cases.
static void fuzz_fan_out(engine *e, uint32_t live) {
  uint32_t copies = 0;
  transport_numbers *sent = (transport_numbers *)block(sizeof *sent);
  for (uint32_t i = 0; i < 8000; i++) {
    int wild = chance() % 3 == 0;
    uint32_t count = 1 + chance() % 3, buffers = count + chance() % 2, bytes = chance() % 2400;
    uint8_t *arena = block(buffers * BUFFER_BYTES), *packet = block(bytes);
    destination *to = (destination *)block(buffers * sizeof(destination));
    subscriber_slot *slots = (subscriber_slot *)block(count * sizeof(subscriber_slot));
    uint32_t payload_at = RTP_HEADER_BYTES;
    if (bytes >= 40) {
      uint32_t words = chance() % 6;
      packet[0] = (uint8_t)(0x80 | (chance() % 4 ? 0x10 : 0));
      memcpy(packet + 12, chance() % 2 ? "\xbe\xde" : "\x10\0", 2);
      packet[14] = 0;
      packet[15] = (uint8_t)(chance() % 16 ? words : hostile(600));
      if (packet[0] & 0x10) payload_at += 4 + words * 4;
    }
    if (wild) payload_at = hostile(bytes);
    uint32_t payload_bytes = wild ? hostile(bytes) : bytes < payload_at ? 0 : bytes - payload_at;
    double extended = wild && chance() % 9 == 0 ? -1.0 / (chance() % 3) : chance();
    for (uint32_t k = 0; k < count; k++) {
      slots[k].cipher = hostile(live);
      slots[k].numbers = chance() % 2 ? sent : NULL;
      slots[k].sequence_offset = chance() % 9 ? extended - chance() % 70000 : chance() - 1e300 * (chance() % 2);
      if (chance() % 8) slots[k].template_bytes = chance() % 49;
      if (chance() % 8) slots[k].abs_send_time_at = slots[k].transport_sequence_at = 255;
    }
    uint32_t first = chance() % 16 ? buffers - count : hostile(buffers);
    uint32_t size = buffers * BUFFER_BYTES, limit = wild ? hostile(bytes) % (bytes + 1) : bytes, is_vp8 = chance() % 2;
    if (stoa_fan_out(e, arena, size, first, to, packet, limit, payload_at, payload_bytes, extended, 5, is_vp8, slots, count) == count)
      for (uint32_t k = 0; k < count; k++) copies += to[first + k].length > 0;
    uint32_t many = UINT32_MAX - chance() % 9;
    check(stoa_fan_out(e, arena, size, first, to, packet, limit, payload_at, payload_bytes, extended, 5, 0, slots, many) == 0,
          "more copies than there is room for");
    free(packet);
    free(arena);
    free(to);
    free(slots);
  }
  free(sent);
  check(copies > 1000, "hardly a copy was made");
}

static int bound(int family, uint16_t *port) {
  struct sockaddr_in6 address = {0};
  socklen_t bytes = family == AF_INET6 ? sizeof address : sizeof(struct sockaddr_in);
  address.sin6_family = (sa_family_t)family;
  if (family == AF_INET) ((struct sockaddr_in *)&address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(family, SOCK_DGRAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0) return -1;
  getsockname(fd, (struct sockaddr *)&address, &bytes);
  *port = ntohs(address.sin6_port);
  return fd;
}

// Sizes repeat, so that packets of one peer are grouped; two peers, so that groups are separated.
static void fuzz_send(int family, uint32_t grouping) {
  uint16_t ports[2], own;
  int to[2] = {bound(AF_INET, &ports[0]), bound(AF_INET, &ports[1])}, from = bound(family, &own);
  if (from < 0) return;  // a machine without IPv6
  for (uint32_t i = 0; i < 300; i++) {
    uint32_t count = 1 + chance() % 24, sizes[2][24], good[2] = {0};
    uint8_t *arena = block(count * BUFFER_BYTES);
    destination *table = (destination *)block(count * sizeof(destination));
    for (uint32_t k = 0; k < count; k++) {
      uint32_t peer = chance() % 2;
      memset(table[k].address, 0, 10);
      memcpy(table[k].address + 10, "\xff\xff\x7f\0\0\x01", 6);
      table[k].scope = 0;
      table[k].port = ports[peer];
      table[k].length = (uint16_t)(chance() % 4 ? 900 : hostile(1400));
      // Refused by every system, and never on its way to a network: a broadcast, or IPv6 from an IPv4 socket.
      if (chance() % 8 == 0) memset(table[k].address + (family == AF_INET ? 0 : 12), 0xff, family == AF_INET ? 16 : 4);
      else if (table[k].length > 0 && table[k].length <= BUFFER_BYTES) sizes[peer][good[peer]++] = table[k].length;
    }
    check(stoa_send(from, family == AF_INET6, arena, count * BUFFER_BYTES, table, count, &grouping) == 1, "packets were kept back");
    check(stoa_send(from, family == AF_INET6, arena, count * BUFFER_BYTES, table, count + 1, &grouping) == 0, "more packets than slots");
    uint8_t buffer[BUFFER_BYTES];
    for (uint32_t peer = 0; peer < 2; peer++)
      for (uint32_t k = 0; k < good[peer]; k++)
        check(recv(to[peer], buffer, sizeof buffer, 0) == (ssize_t)sizes[peer][k], "a packet is missing or out of order");
    free(arena);
    free(table);
  }
  for (uint32_t peer = 0; peer < 2; peer++) {
    check(recv(to[peer], &own, 1, MSG_DONTWAIT) < 0, "a packet too many");
    close(to[peer]);
  }
  close(from);
  destination nowhere = {0};
  uint8_t *arena = block(BUFFER_BYTES);
  nowhere.length = 1;
  memcpy(nowhere.address + 10, "\xff\xff\x7f\0\0\x01", 6);
  check(stoa_send(-1, 0, arena, BUFFER_BYTES, &nowhere, 1, &grouping) == 1, "a closed socket loses what it is given");
  free(arena);
}

static const uint8_t LOOPBACK[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};

// RTCP of any kind, and of any length.
static uint32_t control_of(uint8_t **packet) {
  uint32_t length = 4 + chance() % 200;
  uint8_t *p = *packet = block(length);
  p[0] = (uint8_t)(0x80 | (chance() % 4 ? 15 : chance() % 64));
  p[1] = (uint8_t)(chance() % 4 ? 199 + chance() % 10 : chance());
  return chance() % 16 ? length : chance() % length;
}

// The packets come by a real socket: from a publisher, from another address, RTCP, and bytes that were never protected.
static void fuzz_receive_loop(engine *e, uint32_t live) {
  uint32_t forwarded = 0, sent = 0, aside = 0, opened = 0, key = 1, receiver = 0;
  uint16_t ports[3];
  int here = bound(AF_INET, &ports[0]), from[2] = {bound(AF_INET, &ports[1]), bound(AF_INET, &ports[2])};
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ports[0]), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  size_t table_bytes = sizeof(publisher) + 3 * sizeof(stream_row);
  publisher *p = calloc(1, table_bytes);
  arrivals *arrived = malloc(sizeof *arrived);
  flight_log *flight = calloc(1, sizeof *flight);
  subscriber_slot *slots = (subscriber_slot *)block(3 * sizeof(subscriber_slot));
  uint8_t *datagrams = block(MAX_RECEIVED * BUFFER_BYTES), *arena = block(MAX_BATCH * BUFFER_BYTES);
  destination *table = (destination *)block(MAX_BATCH * sizeof(destination));
  for (uint32_t i = 0; i < 2000; i++) {
    if (i % 25 == 0) {
      stoa_remove_receiver(e, receiver);
      receiver = stoa_add_receiver(e, key = 1 + chance() % live, 1 + chance() % 8);
      memset(p, 0, table_bytes);
      p->row_count = 3;
      p->latest = chance() % 8 ? 0 : chance();
      for (uint32_t k = 0; k < 3; k++) {
        p->rows[k].stream = (fast_stream){chance() % 1000, 1, k + 1, 96 + k, CODECS[chance() % 6], chance() % 2, 0};
        p->rows[k].group = (fan_out_group){slots, chance() % 4, chance() % 8 != 0};
        slots[k].cipher = hostile(live);
        slots[k].numbers = NULL;
        slots[k].sequence_offset = 0;
        slots[k].port = ports[1 + chance() % 2];
        memcpy(slots[k].address, LOOPBACK, sizeof LOOPBACK);
        if (chance() % 8) slots[k].template_bytes = chance() % 49;
        if (chance() % 8) slots[k].abs_send_time_at = slots[k].transport_sequence_at = 255;
      }
      p->arrived = chance() % 16 ? arrived : NULL;
      p->flight = chance() % 16 ? flight : NULL;
      p->transport_sequence_id = 5;
      p->audio_level_id = 6;
      memset(arrived->ticks, 0, sizeof arrived->ticks);
      arrived->highest = arrived->next = chance() % 4 ? -1 : chance() % 70000;
      if (chance() % 8 == 0) p->rows[chance() % 3].stream.highest = chance() % 2 ? -5.0 : 1e300;
      if (chance() % 8 == 0) arrived->highest = 0.0 / 0.0;
    }
    receive_loop *loop = (receive_loop *)block(sizeof *loop);
    double numbers[3] = {p->rows[0].stream.highest, p->rows[1].stream.highest, p->rows[2].stream.highest};
    for (uint32_t k = chance() % 24; k > 0; k--) {
      uint32_t at = chance() % 8 ? 0 : chance() % 3;
      uint8_t *packet;
      double number = numbers[at] >= 0 && numbers[at] < 1e6 ? ++numbers[at] : 0;
      uint32_t jump = chance() % 32 ? 0 : chance();
      uint32_t length = chance() % 8 ? next_of(e, key, &p->rows[at].stream, (uint32_t)number + jump, &packet) : control_of(&packet);
      if (chance() % 32 == 0 && length > 0) packet[chance() % length] ^= 1;
      sendto(from[chance() % 16 == 0], packet, length, 0, (struct sockaddr *)&to, sizeof to);
      free(packet);
    }
    loop->now_ms = chance() % 64 ? 1e12 : -1e300;
    loop->fd = here;
    loop->event_loop = -1;
    loop->is_v6 = loop->is_still = 0;
    loop->hurried = chance() % 3;
    loop->pause_us = chance() % 4 ? 0 : 400;
    loop->wait_ms = 1;
    loop->grouping = chance() % 2;
    loop->session_count = chance() % 32 ? 2 : hostile(70);
    for (uint32_t k = 0; k < MAX_SESSIONS; k++) {
      loop->sessions[k] = (session){.streams = k == 0 ? p : NULL, .receiver = chance() % 64 ? receiver : hostile(9)};
      loop->sessions[k].port = ports[1 + k % 2];
      memcpy(loop->sessions[k].address, LOOPBACK, sizeof LOOPBACK);
    }
    uint32_t few = chance() % 16 ? MAX_RECEIVED * BUFFER_BYTES : chance() % (MAX_RECEIVED * BUFFER_BYTES);
    stoa_receive_loop(e, loop, datagrams, few, arena, MAX_BATCH * BUFFER_BYTES, table);
    check(loop->received <= MAX_RECEIVED && loop->run_count <= loop->received, "more results than datagrams");
    uint32_t counted = 0;
    for (uint32_t k = 0; k < loop->run_count; k++) counted += loop->runs[k].run.count;
    check(counted + loop->set_aside_count == loop->received, "a datagram was neither forwarded nor set aside");
    for (uint32_t k = 0; k < loop->set_aside_count; k++) {
      const set_aside *left = &loop->aside[k];
      check(left->datagram < loop->received && left->session < MAX_SESSIONS, "an invalid datagram was set aside");
      check(k == 0 || left->datagram > loop->aside[k - 1].datagram, "datagrams were set aside out of order");
      opened += left->outcome > 0;
    }
    forwarded += counted;
    aside += loop->set_aside_count;
    sent += loop->packets_out;
    for (uint32_t k = 0; k < 2; k++)
      while (recv(from[k], datagrams, BUFFER_BYTES, MSG_DONTWAIT) >= 0) continue;
    free(loop);
  }
  check(forwarded > 200 && sent > 200 && aside > 1000 && opened > 20, "hardly a datagram was forwarded or set aside");
  char text[64];
  check(stoa_write_address(LOOPBACK, 0, 0, text, sizeof text) == 9 && stoa_write_address(LOOPBACK, 0, 1, text, 9) == 0, "an address");
  uint8_t local[16] = {0xfe, 0x80, [15] = 1};
  check(stoa_write_address(local, if_nametoindex("lo"), 1, text, sizeof text) == 10 && strcmp(text, "fe80::1%lo") == 0, "of a link");
  check(stoa_write_address(local, 0xffffffff, 1, text, sizeof text) == 18 && strcmp(text, "fe80::1%4294967295") == 0, "of no link");
  for (uint32_t room = 0; room < 11; room++) check(stoa_write_address(local, if_nametoindex("lo"), 1, text, room) == 0, "no room");
  for (uint32_t k = 0; k < 2; k++) close(from[k]);
  close(here);
  stoa_remove_receiver(e, receiver);
  free(p);
  free(arrived);
  free(flight);
  free(slots);
  free(datagrams);
  free(arena);
  free(table);
}

int main(void) {
  engine *e = stoa_open();
  check(e != NULL, "libcrypto cannot be used");
  churn(e);
  open_and_close_packets(e);
  protect_as_libcrypto_does();
  // Numbers begin at 1 again.
  stoa_close(e);
  e = stoa_open();
  uint32_t live = 40;
  for (uint32_t i = 0; i < live; i++) {
    // Half of them as on a processor that libcrypto has to do for.
    e->has_own_gcm = i % 4 < 2 && gcm_is_available();
    add(e, 1 + i % 2);
  }
  for (uint32_t i = 0; i < 200; i++) stoa_remove_cipher(e, hostile(1000) | 64);
  fuzz_packets(e, live);
  fuzz_receivers(e, live);
  fuzz_fan_out(e, live);
  for (uint32_t grouping = 0; grouping < 2; grouping++) {
    fuzz_send(AF_INET, grouping);
    fuzz_send(AF_INET6, grouping);
  }
  fuzz_receive_loop(e, live);
  uint8_t some[KEY_BYTES] = {0};
  check(stoa_add_cipher(e, 3, some, KEY_BYTES) == 0 && stoa_add_cipher(e, 1, some, KEY_BYTES - 1) == 0, "a wrong key");
  check(stoa_add_cipher(NULL, 1, some, KEY_BYTES) == 0 && stoa_protect(NULL, 1, some, 50, 12, 20, 0) == 0, "no engine");
  stoa_close(e);
  stoa_close(NULL);
  puts("sound");
  return 0;
}
