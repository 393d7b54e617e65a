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

#include "../../../src/sfu/fast-path/cipher.h"
#include "../../../src/sfu/fast-path/native.h"

#define KEY_BYTES 100u

void *stoa_open(void);
void stoa_close(void *);
uint32_t stoa_add_cipher(void *, uint32_t, const uint8_t *, uint32_t);
void stoa_remove_cipher(void *, uint32_t);
uint32_t stoa_live_ciphers(const void *);
uint32_t stoa_protect(void *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t, uint32_t);
int32_t stoa_unprotect(void *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t, uint32_t);
void stoa_fan_out(void *, uint8_t *, uint32_t, const uint8_t *, uint32_t, copy *, uint32_t);
uint32_t stoa_protect_rtcp(void *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t);
int32_t stoa_unprotect_rtcp(void *, uint32_t, uint8_t *, uint32_t, uint32_t, uint32_t);
uint32_t stoa_add_receiver(void *, uint32_t);
void stoa_remove_receiver(void *, uint32_t);
int32_t stoa_receive_rtp(void *, uint32_t, uint8_t *, uint32_t, uint32_t);
int32_t stoa_receive_rtcp(void *, uint32_t, uint8_t *, uint32_t, uint32_t);
uint32_t stoa_take(void *, uint32_t, publisher *, taking *, uint32_t);
uint32_t stoa_fan_out_run(void *, uint8_t *, uint32_t, uint32_t, destination *, const source *, uint32_t, const seat *,
                          uint32_t);
uint32_t stoa_send(int32_t, uint32_t, uint8_t *, uint32_t, destination *, uint32_t, uint32_t *);

void stoa_watch(void *, watch *, uint8_t *, uint32_t, uint8_t *, uint32_t, destination *);
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

static uint32_t add(void *engine, uint32_t profile) {
  uint8_t *keys = block(KEY_BYTES);
  uint32_t number = stoa_add_cipher(engine, profile, keys, KEY_BYTES);
  free(keys);
  return number;
}

static void churn(void *engine) {
  uint32_t numbers[300] = {0};
  for (uint32_t i = 0; i < 6000; i++) {
    uint32_t at = chance() % 300;
    if (numbers[at]) stoa_remove_cipher(engine, numbers[at]);
    numbers[at] = add(engine, 1 + chance() % 2);
    check(numbers[at] != 0, "a key was refused");
  }
  check(stoa_live_ciphers(engine) <= 300, "keys were not let go of");
  for (uint32_t i = 0; i < 300; i++) stoa_remove_cipher(engine, numbers[i]);
  check(stoa_live_ciphers(engine) == 0, "keys are left over");
}

static void open_and_close_packets(void *engine) {
  for (uint32_t profile = 1; profile <= 2; profile++) {
    uint32_t number = add(engine, profile);
    for (uint32_t length = 12; length < 1400; length += 1 + chance() % 9) {
      uint32_t tag = profile == 1 ? 16 : 10;
      uint8_t *packet = block(length + tag);
      uint8_t *before = block(length);
      memcpy(before, packet, length);
      check(stoa_protect(engine, number, packet, length + tag - 1, 12, length, 5) == 0, "no room for the tag");
      check(stoa_protect(engine, number, packet, length + tag, 12, length, 5) == length + tag, "protect");
      packet[length + tag - 1] ^= 1;
      check(stoa_unprotect(engine, number, packet, length + tag, 12, length + tag, 5) == -1, "a wrong tag");
      packet[length + tag - 1] ^= 1;
      check(stoa_unprotect(engine, number, packet, length + tag, 12, length + tag, 5) == (int32_t)length, "unprotect");
      check(memcmp(before, packet, length) == 0, "another packet came back");
      free(packet);
      packet = block(length + tag + 4);
      memcpy(packet, before, length);
      check(stoa_protect_rtcp(engine, number, packet, length + tag + 3, length, 9) == 0, "no room for tag and index");
      check(stoa_protect_rtcp(engine, number, packet, length + tag + 4, length, 9) == length + tag + 4, "protect control");
      packet[8 % length] ^= 1;
      check(stoa_unprotect_rtcp(engine, number, packet, length + tag + 4, length + tag + 4, 9) == -1, "wrong control");
      packet[8 % length] ^= 1;
      check(stoa_unprotect_rtcp(engine, number, packet, length + tag + 4, length + tag + 4, 9) == (int32_t)length,
            "unprotect control");
      check(memcmp(before, packet, length) == 0, "another packet of control came back");
      free(packet);
      free(before);
    }
    stoa_remove_cipher(engine, number);
  }
}

// What gcm.c makes of a packet is what libcrypto makes of it, whether the body was copied before or not.
static void seal_as_libcrypto_does(void) {
  engine *engines[2] = {stoa_open(), stoa_open()};
  engines[0]->is_quick = 0;
  for (uint32_t i = 0; i < 4000; i++) {
    uint8_t *keys = block(KEY_BYTES), *packets[3], *plain;
    cipher *ciphers[2];
    for (uint32_t k = 0; k < 2; k++) ciphers[k] = find_cipher(engines[k], stoa_add_cipher(engines[k], 1, keys, KEY_BYTES));
    uint32_t header = 12 + chance() % (i % 8 ? 60 : 400), rollover = chance();
    uint32_t bytes = chance() % (i % 4 ? 400 : SLOT_BYTES - 16 - header), length = header + bytes;
    packets[0] = block(length + 16);
    for (uint32_t k = 1; k < 3; k++) memcpy(packets[k] = block(length + 16), packets[0], length);
    memcpy(plain = block(bytes), packets[0] + header, bytes);
    if (bytes > HEAD_BYTES) memset(packets[2] + header + HEAD_BYTES, 0, bytes - HEAD_BYTES);
    for (uint32_t k = 0; k < 3; k++)
      check(seal(ciphers[k > 0], packets[k], header, length, rollover, k == 2 ? plain : NULL) == length + 16, "seal");
    check(memcmp(packets[0], packets[1], length + 16) == 0, "libcrypto seals otherwise");
    check(memcmp(packets[0], packets[2], length + 16) == 0, "libcrypto seals otherwise what was not copied before");
    if (bytes > HEAD_BYTES) memset(packets[2] + header + HEAD_BYTES, 0, bytes - HEAD_BYTES);
    memcpy(packets[2] + header, plain, bytes < HEAD_BYTES ? bytes : HEAD_BYTES);
    check(seal(ciphers[0], packets[2], header, length, rollover, plain) == length + 16, "seal");
    check(memcmp(packets[0], packets[2], length + 16) == 0, "libcrypto seals otherwise what it copies");
    for (uint32_t k = 0; k < 3; k++) free(packets[k]);
    for (uint32_t k = 0; k < 2; k++) stoa_remove_cipher(engines[k], 1 + i % engines[k]->capacity);
    free(plain);
    free(keys);
  }
  for (uint32_t k = 0; k < 2; k++) stoa_close(engines[k]);
}

static void fuzz_packets(void *engine, uint32_t live) {
  for (uint32_t i = 0; i < 20000; i++) {
    uint32_t capacity = chance() % 2600;
    uint8_t *packet = block(capacity);
    stoa_protect(engine, hostile(live), packet, capacity, hostile(40), hostile(capacity), chance());
    stoa_unprotect(engine, hostile(live), packet, capacity, hostile(40), hostile(capacity), chance());
    stoa_protect_rtcp(engine, hostile(live), packet, capacity, hostile(capacity), hostile(1u << 31));
    stoa_unprotect_rtcp(engine, hostile(live), packet, capacity, hostile(capacity), hostile(1u << 31));
    free(packet);
  }
}

// Numbers that jump, streams that come and go, and bytes that nobody protected.
static void fuzz_receivers(void *engine, uint32_t live) {
  uint32_t opened = 0, receivers[8] = {0}, keys[8] = {0};
  for (uint32_t i = 0; i < 20000; i++) {
    uint32_t at = chance() % 8;
    if (!receivers[at] || chance() % 64 == 0) {
      stoa_remove_receiver(engine, receivers[at]);
      keys[at] = 1 + chance() % live;
      receivers[at] = stoa_add_receiver(engine, keys[at]);
      check(receivers[at] != 0, "a receiver was refused");
    }
    uint32_t length = 12 + chance() % 900, room = length + 20;
    uint8_t *packet = block(room);
    packet[0] = 0x80;
    packet[8] = packet[9] = packet[10] = 0;
    uint32_t sealed = stoa_protect(engine, keys[at], packet, room, 12, length, chance() % 4 ? 0 : 1);
    if (chance() % 8 == 0) packet[chance() % room] ^= 1;
    opened += stoa_receive_rtp(engine, receivers[at], packet, room, chance() % 16 ? sealed : hostile(room)) >= 0;
    stoa_receive_rtp(engine, hostile(9), packet, room, hostile(room));
    sealed = stoa_protect_rtcp(engine, keys[at], packet, room, length, chance() % 4 ? chance() % 300 : chance() >> 1);
    if (sealed > 0) opened += stoa_receive_rtcp(engine, receivers[at], packet, room, sealed) >= 0;
    stoa_receive_rtcp(engine, hostile(9), packet, room, hostile(room));
    free(packet);
  }
  check(opened > 1000, "hardly a packet was opened");
  check(stoa_add_receiver(engine, 1u << 30) == 0 && stoa_add_receiver(NULL, 1) == 0, "a receiver without a key");
  // Half of them are left for the engine to free.
  for (uint32_t i = 0; i < 4; i++) stoa_remove_receiver(engine, receivers[i]);
}

static const uint32_t CODECS[] = {CODEC_AUDIO, CODEC_VP8, CODEC_VP9, CODEC_H264, CODEC_AV1, 77};

// A packet of the lane's next number, or nearly so, sealed; with extensions that are as often broken as not. Returns its length.
static uint32_t next_of(void *engine, uint32_t key, const lane *l, uint32_t number, uint8_t **packet) {
  uint32_t plain = 12 + chance() % 300, header = 12;
  uint8_t *p = block(plain);
  memset(p, 0, 12);
  p[0] = (uint8_t)(0x80 | (chance() % 2 ? 0x10 : 0) | (chance() % 16 ? 0 : chance() % 64));
  p[1] = (uint8_t)l->payload_type;
  p[2] = (uint8_t)(number >> 8);
  p[3] = (uint8_t)number;
  p[7] = (uint8_t)(chance() % 2);
  p[11] = (uint8_t)l->ssrc;
  if (p[0] & 0x10 && plain >= 24) {
    memcpy(p + 12, chance() % 2 ? "\xbe\xde\0\x02" : "\x10\0\0\x02", 4);
    if (chance() % 2) memcpy(p + 16, "\x51\x12\x34\x60\x85\0\0\0", 8);
    header = chance() % 8 ? 24 : 12;
  }
  *packet = malloc(plain + 20);
  memcpy(*packet, p, plain);
  free(p);
  uint32_t sealed = stoa_protect(engine, key, *packet, plain + 20, header, plain, 0);
  uint8_t *exact = realloc(*packet, sealed ? sealed : 1);
  *packet = exact;
  return sealed;
}

static void fuzz_take(void *engine, uint32_t live) {
  uint32_t taken = 0, opened = 0, key = 1 + chance() % live, receiver = stoa_add_receiver(engine, key);
  publisher *p = (publisher *)block(sizeof *p);
  arrivals *came = malloc(sizeof *came);
  flight *seen = calloc(1, sizeof *seen);
  for (uint32_t i = 0; i < 3000; i++) {
    if (i % 50 == 0) {
      stoa_remove_receiver(engine, receiver);
      receiver = stoa_add_receiver(engine, key = 1 + chance() % live);
      memset(p, 0, sizeof *p);
      for (uint32_t k = 0; k < 3; k++)
        p->lanes[k] = (lane){chance() % 1000, 1, k + 1, 96 + k, CODECS[chance() % 6], chance() % 2, 0};
      p->came = chance() % 16 ? came : NULL;
      p->seen = chance() % 16 ? seen : NULL;
      p->transport_sequence_id = 5;
      p->audio_level_id = 6;
      for (uint32_t k = 0; k < ARRIVALS_KEPT; k++) came->ticks[k] = -1;
      came->highest = chance() % 4 ? -1 : chance() % 70000;
      came->next = came->highest;
      if (chance() % 8 == 0) p->lanes[chance() % 3].highest = chance() % 2 ? -5.0 : 1e300;
      if (chance() % 8 == 0) came->highest = 0.0 / 0.0;
    }
    taking *t = (taking *)block(sizeof *t);
    uint8_t *packets[MAX_TAKE] = {0};
    double numbers[3] = {p->lanes[0].highest, p->lanes[1].highest, p->lanes[2].highest};
    t->now_ms = chance() % 64 ? chance() : -1e300;
    t->count = 1 + chance() % (chance() % 8 ? 8 : MAX_TAKE);
    for (uint32_t k = 0; k < t->count; k++) {
      uint32_t at = chance() % 8 ? 0 : chance() % 3;
      double next = numbers[at] >= 0 && numbers[at] < 1e6 ? ++numbers[at] : 0;
      t->lengths[k] = next_of(engine, key, &p->lanes[at], (uint32_t)next + (chance() % 32 ? 0 : chance()), &packets[k]);
      if (chance() % 64 == 0 && t->lengths[k] > 0) packets[k][chance() % t->lengths[k]] ^= 1;
      if (chance() % 64 == 0 && t->lengths[k] > 12) t->lengths[k] = chance() % 12;
      t->data[k] = chance() % 64 ? (double)(uintptr_t)packets[k] : 0;
    }
    for (uint32_t from = 0; from < t->count; from++) {
      uint32_t to = stoa_take(engine, chance() % 64 ? receiver : hostile(9), p, t, from);
      check(to >= from && to <= t->count && (to == from || t->run_count > 0), "datagrams were skipped");
      uint32_t counted = 0;
      for (uint32_t k = 0; to > from && k < t->run_count; k++) counted += t->runs[k].count;
      check(counted == to - from, "runs do not make up what was taken");
      taken += to - from;
      opened += to < t->count && t->outcome > 0;
      from = to;
    }
    uint32_t count = t->count;
    t->count = MAX_TAKE + 1 + chance() % 9;
    check(stoa_take(engine, receiver, p, t, 0) == 0, "more datagrams than there is room for");
    for (uint32_t k = 0; k < count; k++) free(packets[k]);
    free(t);
  }
  check(taken > 1000 && opened > 100, "hardly a datagram was taken");
  stoa_remove_receiver(engine, receiver);
  free(p);
  free(came);
  free(seen);
}

static void fuzz_fan_out(void *engine, uint32_t live) {
  for (uint32_t i = 0; i < 3000; i++) {
    uint32_t slots = 1 + chance() % 4, payload_bytes = chance() % 2400, count = 1 + chance() % 6;
    uint8_t *arena = block(slots * SLOT_BYTES), *payload = block(payload_bytes);
    copy *copies = (copy *)block(count * sizeof(copy));
    for (uint32_t k = 0; k < count; k++) {
      uint32_t header = hostile(200);
      copies[k] = (copy){hostile(live), hostile(slots), header, header + (chance() % 3), hostile(9), hostile(256), chance(), 7};
      if (chance() % 16 == 0) copies[k].payload_at = chance();
    }
    stoa_fan_out(engine, arena, slots * SLOT_BYTES, payload, payload_bytes, copies, chance() % 50 ? count : UINT32_MAX);
    free(arena);
    free(payload);
    free(copies);
  }
}

// Two of three are as they should be.
static void describe(source *from, const uint8_t *data, uint32_t bytes) {
  int wild = chance() % 3 == 0;
  memset(from, 0, sizeof *from);
  from->data = wild && chance() % 9 == 0 ? NULL : data;
  from->extended = wild && chance() % 9 == 0 ? -1.0 / (chance() % 3) : chance();
  from->data_bytes = wild ? chance() % (bytes + 1) : bytes;
  from->payload_at = wild ? hostile(bytes) : bytes / 3;
  from->payload_bytes = wild ? hostile(bytes) : bytes - bytes / 3;
  from->vp8_bytes = wild ? hostile(9) : bytes > 9 ? chance() % 7 : 0;
  from->wide = wild ? chance() : from->vp8_bytes > 1;
  uint32_t *places[] = {&from->picture_id_at, &from->tl0_at, &from->key_idx_at};
  for (uint32_t i = 0; i < 3 && from->vp8_bytes > 1; i++) *places[i] = wild ? hostile(9) : chance() % (from->vp8_bytes - 1);
  from->element_count = wild ? hostile(MAX_ELEMENTS) : chance() % (MAX_ELEMENTS + 1);
  for (uint32_t i = 0; i < MAX_ELEMENTS; i++) {
    from->elements[i].id = chance() % 16;
    from->elements[i].bytes = wild ? hostile(256) : chance() % 256 % (bytes + 1);
    from->elements[i].at = wild ? hostile(bytes) : bytes - from->elements[i].bytes;
  }
}

static void fuzz_fan_out_run(void *engine, uint32_t live) {
  uint32_t copies = 0;
  numbers *sent = (numbers *)block(sizeof(numbers));
  for (uint32_t i = 0; i < 6000; i++) {
    uint32_t packets = 1 + chance() % 3, count = 1 + chance() % 3, slots = packets * count + chance() % 2;
    uint8_t *arena = block(slots * SLOT_BYTES), *data[3];
    destination *to = (destination *)block(slots * sizeof(destination));
    seat *seats = (seat *)block(count * sizeof(seat));
    source *from = (source *)block(packets * sizeof(source));
    for (uint32_t p = 0; p < packets; p++) {
      uint32_t bytes = chance() % 2400;
      data[p] = block(bytes);
      describe(&from[p], data[p], bytes);
    }
    for (uint32_t k = 0; k < count; k++) {
      seats[k].cipher = hostile(live);
      seats[k].numbers = chance() % 2 ? sent : NULL;
      seats[k].sequence_offset = chance() % 9 ? from[0].extended - chance() % 70000 : chance() - 1e300 * (chance() % 2);
      if (chance() % 8) seats[k].template_bytes = chance() % 49;
      if (chance() % 8) seats[k].abs_send_time_at = seats[k].transport_sequence_at = 255;
    }
    uint32_t slot = chance() % 16 ? slots - packets * count : hostile(slots);
    uint32_t bytes = slots * SLOT_BYTES;
    if (stoa_fan_out_run(engine, arena, bytes, slot, to, from, packets, seats, count) == packets * count)
      for (uint32_t k = 0; k < packets * count; k++) copies += to[slot + k].length > 0;
    stoa_fan_out_run(engine, arena, bytes, slot, to, from, packets, seats, UINT32_MAX - chance() % 9);
    stoa_fan_out_run(engine, arena, bytes, slot, to, from, UINT32_MAX - chance() % 9, seats, count);
    for (uint32_t p = 0; p < packets; p++) free(data[p]);
    free(arena);
    free(from);
    free(to);
    free(seats);
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

// Sizes repeat, so that packets of one peer are grouped; two peers, so that groups are taken apart.
static void fuzz_send(int family, uint32_t grouping) {
  uint16_t ports[2], own;
  int to[2] = {bound(AF_INET, &ports[0]), bound(AF_INET, &ports[1])}, from = bound(family, &own);
  if (from < 0) return;  // a machine without IPv6
  for (uint32_t i = 0; i < 300; i++) {
    uint32_t count = 1 + chance() % 24, sizes[2][24], good[2] = {0};
    uint8_t *arena = block(count * SLOT_BYTES);
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
      else if (table[k].length > 0 && table[k].length <= SLOT_BYTES) sizes[peer][good[peer]++] = table[k].length;
    }
    check(stoa_send(from, family == AF_INET6, arena, count * SLOT_BYTES, table, count, &grouping) == 1, "packets were kept back");
    check(stoa_send(from, family == AF_INET6, arena, count * SLOT_BYTES, table, count + 1, &grouping) == 0, "more packets than slots");
    uint8_t buffer[SLOT_BYTES];
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
  uint8_t *arena = block(SLOT_BYTES);
  nowhere.length = 1;
  memcpy(nowhere.address + 10, "\xff\xff\x7f\0\0\x01", 6);
  check(stoa_send(-1, 0, arena, SLOT_BYTES, &nowhere, 1, &grouping) == 1, "a closed socket loses what it is given");
  free(arena);
}

static const uint8_t LOOPBACK[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};

// Control of several packets, protected, now and then with something in it that is not well-formed.
static uint32_t compound_of(void *engine, uint32_t key, uint32_t index, uint8_t **packet) {
  uint32_t length = 0, end = 28 + chance() % 8 * 4 + (chance() % 8 ? 0 : chance() % 4);
  uint8_t *p = *packet = block(end + 20);
  while (length + 4 <= end) {
    uint32_t words = chance() % 8 ? chance() % ((end - length) / 4) : (end - length) / 4 - 1;
    if (chance() % 32 == 0) words += chance() % 9;
    p[length] = (uint8_t)(0x80 | (chance() % 8 ? 15 : chance() % 32));
    p[length + 1] = (uint8_t)(chance() % 8 ? 200 + chance() % 3 : 200 + chance() % 9);
    p[length + 2] = 0;
    p[length + 3] = (uint8_t)words;
    length += 4 + words * 4;
  }
  return stoa_protect_rtcp(engine, key, p, end + 20, end, index);
}

// Control of any kind, of a length that is its own, that of a compound, or neither.
static uint32_t control_of(uint8_t **packet) {
  uint32_t words = chance() % 40, length = 4 + words * 4 + (chance() % 4 ? chance() % 2 ? 14 : 20 : chance() % 40);
  uint8_t *p = *packet = block(length);
  p[0] = (uint8_t)(0x80 | (chance() % 4 ? 15 : chance() % 64));
  p[1] = (uint8_t)(chance() % 4 ? 199 + chance() % 10 : chance());
  p[2] = 0;
  p[3] = (uint8_t)words;
  return chance() % 16 ? length : chance() % length;
}

// Packets really come by a socket: of a publisher, of somebody else, reports, and bytes that nobody protected.
static void fuzz_watch(void *engine, uint32_t live) {
  uint32_t taken = 0, sent = 0, left = 0, aside = 0, opened = 0, index = 0, key = 1, receiver = 0;
  uint16_t ports[3];
  int here = bound(AF_INET, &ports[0]), from[2] = {bound(AF_INET, &ports[1]), bound(AF_INET, &ports[2])};
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(ports[0]), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  publisher *p = calloc(1, sizeof *p);
  arrivals *came = malloc(sizeof *came);
  flight *seen = calloc(1, sizeof *seen);
  seat *seats = (seat *)block(3 * sizeof(seat));
  uint8_t *slots = block(MAX_WATCHED * SLOT_BYTES), *arena = block(MAX_BATCH * SLOT_BYTES);
  destination *table = (destination *)block(MAX_BATCH * sizeof(destination));
  for (uint32_t i = 0; i < 1000; i++) {
    if (i % 25 == 0) {
      stoa_remove_receiver(engine, receiver);
      receiver = stoa_add_receiver(engine, key = 1 + chance() % live);
      memset(p, 0, sizeof *p);
      for (uint32_t k = 0; k < 3; k++) {
        p->lanes[k] = (lane){chance() % 1000, 1, k + 1, 96 + k, CODECS[chance() % 6], chance() % 2, 0};
        p->audiences[k] = (audience){seats, chance() % 4, chance() % 8 != 0};
      }
      for (uint32_t k = 0; k < 3; k++) {
        seats[k].cipher = hostile(live);
        seats[k].numbers = NULL;
        seats[k].sequence_offset = 0;
        seats[k].port = ports[1 + chance() % 2];
        memcpy(seats[k].address, LOOPBACK, sizeof LOOPBACK);
        if (chance() % 8) seats[k].template_bytes = chance() % 49;
        if (chance() % 8) seats[k].abs_send_time_at = seats[k].transport_sequence_at = 255;
      }
      p->came = came;
      p->seen = seen;
      for (uint32_t k = 0; k < ARRIVALS_KEPT; k++) came->ticks[k] = -1;
      came->highest = came->next = -1;
    }
    watch *w = (watch *)block(sizeof *w);
    double numbers[3] = {p->lanes[0].highest, p->lanes[1].highest, p->lanes[2].highest};
    for (uint32_t k = chance() % 24; k > 0; k--) {
      uint32_t at = chance() % 8 ? 0 : chance() % 3;
      uint8_t *packet;
      int is_control = chance() % 8 == 0;
      uint32_t length = !is_control     ? next_of(engine, key, &p->lanes[at], (uint32_t)++numbers[at], &packet)
                        : chance() % 2 ? control_of(&packet)
                                       : compound_of(engine, key, index++, &packet);
      if (chance() % 32 == 0 && length > 0) packet[chance() % length] ^= 1;
      sendto(from[chance() % 16 == 0], packet, length, 0, (struct sockaddr *)&to, sizeof to);
      free(packet);
    }
    w->now_ms = 1e12;
    w->fd = here;
    w->loop = -1;
    w->is_v6 = w->still = 0;
    w->hurried = chance() % 3;
    w->pause_us = chance() % 4 ? 0 : 400;
    w->wait_ms = 1;
    w->patience_ms = chance() % 2 * 50;
    w->grouping = chance() % 2;
    w->session_count = chance() % 32 ? 2 : hostile(70);
    for (uint32_t k = 0; k < MAX_SESSIONS; k++)
      w->sessions[k] = (session){.streams = k == 0 ? p : NULL, .receiver = chance() % 64 ? receiver : hostile(9), .port = ports[1 + k % 2]};
    for (uint32_t k = 0; k < MAX_SESSIONS; k++) memcpy(w->sessions[k].address, LOOPBACK, sizeof LOOPBACK);
    uint32_t few = chance() % 16 ? MAX_WATCHED * SLOT_BYTES : chance() % (MAX_WATCHED * SLOT_BYTES);
    stoa_watch(engine, w, slots, few, arena, MAX_BATCH * SLOT_BYTES, table);
    check(w->taken <= w->received && w->received <= MAX_WATCHED && w->run_count <= w->taken, "datagrams were skipped");
    uint32_t counted = 0;
    for (uint32_t k = 0; k < w->run_count; k++) counted += w->runs[k].run.count;
    check(counted + w->aside_count == w->taken, "runs and reports do not make up what was taken");
    for (uint32_t k = 0; k < w->aside_count; k++)
      check(w->aside[k].slot < w->taken && (k == 0 || w->aside[k].slot > w->aside[k - 1].slot), "a report is not where it came");
    for (uint32_t k = 0; k < w->aside_count; k++) opened += w->aside[k].outcome > 0;
    taken += counted;
    aside += w->aside_count;
    sent += w->packets_out;
    left += w->received - w->taken;
    for (uint32_t k = 0; k < 2; k++)
      while (recv(from[k], slots, SLOT_BYTES, MSG_DONTWAIT) >= 0) continue;
    free(w);
  }
  check(taken > 100 && sent > 100 && left > 100 && aside > 50 && opened > 10, "hardly a datagram was watched");
  char text[64];
  check(stoa_write_address(LOOPBACK, 0, 0, text, sizeof text) == 9 && stoa_write_address(LOOPBACK, 0, 1, text, 9) == 0, "an address");
  uint8_t local[16] = {0xfe, 0x80, [15] = 1};
  check(stoa_write_address(local, if_nametoindex("lo"), 1, text, sizeof text) == 10 && strcmp(text, "fe80::1%lo") == 0, "of a link");
  check(stoa_write_address(local, 0xffffffff, 1, text, sizeof text) == 18 && strcmp(text, "fe80::1%4294967295") == 0, "of no link");
  for (uint32_t room = 0; room < 11; room++) check(stoa_write_address(local, if_nametoindex("lo"), 1, text, room) == 0, "no room");
  for (uint32_t k = 0; k < 2; k++) close(from[k]);
  close(here);
  stoa_remove_receiver(engine, receiver);
  free(p);
  free(came);
  free(seen);
  free(seats);
  free(slots);
  free(arena);
  free(table);
}

int main(void) {
  void *engine = stoa_open();
  check(engine != NULL, "libcrypto cannot be used");
  churn(engine);
  open_and_close_packets(engine);
  seal_as_libcrypto_does();
  // Numbers begin at 1 again.
  stoa_close(engine);
  engine = stoa_open();
  uint32_t live = 40;
  for (uint32_t i = 0; i < live; i++) {
    // Half of them as on a processor that libcrypto has to do for.
    ((struct engine *)engine)->is_quick = i % 4 < 2 && gcm_is_at_hand();
    add(engine, 1 + i % 2);
  }
  for (uint32_t i = 0; i < 200; i++) stoa_remove_cipher(engine, hostile(1000) | 64);
  fuzz_packets(engine, live);
  fuzz_receivers(engine, live);
  fuzz_take(engine, live);
  fuzz_fan_out(engine, live);
  fuzz_fan_out_run(engine, live);
  for (uint32_t grouping = 0; grouping < 2; grouping++) {
    fuzz_send(AF_INET, grouping);
    fuzz_send(AF_INET6, grouping);
  }
  fuzz_watch(engine, live);
  uint8_t some[KEY_BYTES] = {0};
  check(stoa_add_cipher(engine, 3, some, KEY_BYTES) == 0 && stoa_add_cipher(engine, 1, some, KEY_BYTES - 1) == 0, "a wrong key");
  check(stoa_add_cipher(NULL, 1, some, KEY_BYTES) == 0 && stoa_protect(NULL, 1, some, 50, 12, 20, 0) == 0, "no engine");
  stoa_close(engine);
  stoa_close(NULL);
  puts("sound");
  return 0;
}
