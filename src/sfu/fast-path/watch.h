// What a watch (watch.c) needs of the other C files.

#ifndef STOA_WATCH_H
#define STOA_WATCH_H

#include "native.h"

// As isRtcp in rtp/rtp.ts.
#define FIRST_CONTROL 192u
#define LAST_CONTROL 223u

struct sockaddr_in6;

// receivers.c: whether it is control that only tells something, asks for nothing and ends nothing. What cannot be told otherwise
// is opened, if the receiver is known: `outcome` is its plain length, or why it was refused; 0 when not a byte of it was touched.
int can_wait(engine *e, uint32_t receiver_number, uint8_t *packet, uint32_t length, int32_t *outcome);
// take.c
uint32_t stoa_take(engine *e, uint32_t receiver_number, publisher *p, taking *t, uint32_t from);
// fan-out.c
uint32_t stoa_fan_out_run(engine *e, uint8_t *arena, uint32_t arena_bytes, uint32_t slot, destination *destinations,
                          const source *packets, uint32_t packet_count, const seat *seats, uint32_t seat_count);
// send.c
void read_address(destination *from, const struct sockaddr_in6 *sender);
uint32_t stoa_send(int32_t fd, uint32_t is_v6, uint8_t *arena, uint32_t arena_bytes, destination *to, uint32_t count,
                   uint32_t *grouping);

#endif
