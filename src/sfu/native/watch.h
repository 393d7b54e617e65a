// What a watch (watch.c) needs of the other C files.

#ifndef STOA_WATCH_H
#define STOA_WATCH_H

#include "native.h"

// take.c
uint32_t stoa_take(engine *e, uint32_t receiver_number, publisher *p, taking *t, uint32_t from);
// fan-out.c
uint32_t stoa_fan_out_run(engine *e, uint8_t *arena, uint32_t arena_bytes, uint32_t slot, destination *destinations,
                          const source *packets, uint32_t packet_count, const seat *seats, uint32_t seat_count);
// send.c
uint32_t stoa_send(int32_t fd, uint32_t is_v6, uint8_t *arena, uint32_t arena_bytes, destination *to, uint32_t count,
                   uint32_t *grouping);

#endif
