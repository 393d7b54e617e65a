// Waits at the media socket in place of the event loop of the thread, and forwards packets without TypeScript: it opens them
// (receivers.c), checks that they continue a known stream (streams.c), writes the copies (fan-out.c) and sends them (send.c). It sets
// every other datagram aside for TypeScript, forwards the rest of what it has read, and returns. It also returns when its time is up
// or the event loop has something to do. native-receive-loop.ts then accounts for the forwarded packets.

#define _GNU_SOURCE

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "fast-path.h"

_Static_assert(sizeof(session) == 40 && sizeof(forwarded_run) == 80 && sizeof(set_aside) == 16, "native-receive-loop.ts");
_Static_assert(offsetof(receive_loop, from) == 72, "native-receive-loop.ts");
_Static_assert(offsetof(receive_loop, runs) == 72 + MAX_RECEIVED * 24 + MAX_SESSIONS * 40, "native-receive-loop.ts");

#define READ_AT_ONCE 64
// The loop returns to TypeScript when less room than this is left.
#define LEAST_FREE 16u
#define SEND_PATIENCE_MS 10
#define PAUSE_STEP_US 200u
#define HURRIED_AFTER_VAIN_PAUSE 16u

typedef struct {
  engine *e;
  receive_loop *loop;
  uint8_t *datagrams, *arena;
  uint32_t arena_bytes;
  destination *to;
  double began_ms, began_at_ms;
  // Copies that are written but not yet sent.
  uint32_t copies;
  // The run that the next packet may continue, its packets, and its session. There is none while the count is 0.
  packet_run run;
  source_packet sources[MAX_RUN];
  session *run_session;
  // What the kernel receives into: the first `prepared` entries are filled in, and each is used once.
  uint32_t prepared;
  struct mmsghdr messages[MAX_RECEIVED];
  struct iovec vectors[MAX_RECEIVED];
  struct sockaddr_in6 senders[MAX_RECEIVED];
} state;

static double clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double passed_ms(const state *g) { return g->loop->is_still ? 0 : clock_ms() - g->began_at_ms; }

static uint8_t *datagram_at(const state *g, uint32_t number) { return g->datagrams + (size_t)number * BUFFER_BYTES; }

static void count_out(state *g, int sign) {
  for (uint32_t i = 0; i < g->copies; i++) {
    if (g->to[i].length == 0) continue;
    g->loop->packets_out += (uint32_t)sign;
    g->loop->bytes_out += (uint32_t)sign * g->to[i].length;
  }
}

// Packets for which the socket's buffer has no room even after a while are lost, as on any congested link.
static void send_copies(state *g) {
  receive_loop *loop = g->loop;
  int sent = g->copies == 0;
  count_out(g, 1);
  for (int tries = 0; !sent && tries < 2; tries++) {
    sent = stoa_send(loop->fd, loop->is_v6, g->arena, g->arena_bytes, g->to, g->copies, &loop->grouping) == 1;
    struct pollfd room = {.fd = loop->fd, .events = POLLOUT};
    if (!sent && tries == 0) poll(&room, 1, SEND_PATIENCE_MS);
  }
  if (!sent) {
    uint32_t before = loop->packets_out;
    count_out(g, -1);
    loop->dropped += before - loop->packets_out;
  }
  g->copies = 0;
}

static void copy_run(state *g, const fan_out_group *group, uint32_t packets) {
  for (uint32_t done = 0; done < group->slot_count;) {
    uint32_t room = (MAX_BATCH - g->copies) / packets;
    if (room == 0) {
      send_copies(g);
      continue;
    }
    uint32_t count = group->slot_count - done < room ? group->slot_count - done : room;
    if (fan_out_run(g->e, g->arena, g->arena_bytes, g->copies, g->to, g->sources, packets, group->slots + done, count) == 0) return;
    g->copies += count * packets;
    done += count;
  }
}

static void end_run(state *g, double now_ms) {
  if (g->run.count == 0) return;
  copy_run(g, &g->run_session->streams->rows[g->run.stream].group, g->run.count);
  forwarded_run *done = &g->loop->runs[g->loop->run_count++];
  done->now_ms = now_ms;
  done->session = (uint32_t)(g->run_session - g->loop->sessions);
  done->run = g->run;
  g->run.count = 0;
}

static session *session_of(receive_loop *loop, const destination *from) {
  for (uint32_t i = 0; i < loop->session_count; i++) {
    session *s = &loop->sessions[i];
    if (s->port == from->port && from->scope == 0 && memcmp(s->address, from->address, sizeof s->address) == 0) return s;
  }
  return NULL;
}

// Whether a packet of that stream and timestamp belongs to the open run. A packet of audio is a run of its own.
static int continues_run(const state *g, const session *s, uint32_t number, const packet_run *next, uint32_t codec) {
  const packet_run *run = &g->run;
  return codec != CODEC_AUDIO && run->count > 0 && g->run_session == s && run->stream == next->stream &&
         run->timestamp == next->timestamp && run->first + run->count == number && run->count < MAX_RUN;
}

// Returns 0 when TypeScript has to look at the packet. `outcome` is its plain length, or the reason why it was refused, if it was
// opened.
static int forward_packet(state *g, session *s, uint32_t number, double now_ms, int32_t *outcome) {
  uint8_t *packet = datagram_at(g, number);
  destination *from = &g->loop->from[number];
  // Packets of a session that follow one for TypeScript are left to TypeScript too, so that they keep their order.
  fast_stream *stream = s && !s->is_held ? forwardable_stream(s->streams, packet, from->length) : NULL;
  if (!stream || !is_next_packet(stream, packet)) return 0;
  receiver *r = find_receiver(g->e, s->receiver);
  *outcome = r ? receive_rtp(g->e, r, packet, from->length) : 0;
  if (*outcome <= 0) return 0;
  packet_run next = {0};
  source_packet source;
  if (!advance_stream(s->streams, stream, &source, &next, packet, (uint32_t)*outcome, now_ms)) return 0;
  if (continues_run(g, s, number, &next, stream->codec)) {
    next.extended = g->run.extended;
    next.first = g->run.first;
    next.count = g->run.count;
    next.bytes = g->run.bytes;
    next.payload_bytes = g->run.payload_bytes;
    next.has_transport_number |= g->run.has_transport_number;
  } else {
    end_run(g, now_ms);
    next.first = number;
    g->run_session = s;
  }
  g->sources[next.count++] = source;
  next.bytes += source.data_bytes;
  next.payload_bytes += source.payload_bytes;
  g->run = next;
  s->bytes_in += from->length;
  from->length = (uint16_t)*outcome;
  return 1;
}

static int is_rtp(const uint8_t *packet, uint32_t length) {
  return length >= RTP_HEADER_BYTES && packet[0] >> 6 == 2 && (packet[1] < FIRST_RTCP_TYPE || packet[1] > LAST_RTCP_TYPE);
}

static void forward_datagrams(state *g, uint32_t first, double now_ms) {
  receive_loop *loop = g->loop;
  for (uint32_t i = first; i < loop->received; i++) {
    session *s = session_of(loop, &loop->from[i]);
    set_aside left = {.datagram = i, .session = s ? (uint32_t)(s - loop->sessions) : 0};
    if (forward_packet(g, s, i, now_ms, &left.outcome)) continue;
    if (s && is_rtp(datagram_at(g, i), loop->from[i].length)) s->is_held = 1;
    loop->aside[loop->set_aside_count++] = left;
  }
  end_run(g, now_ms);
  send_copies(g);
}

static void prepare(state *g, uint32_t upto) {
  for (uint32_t i = g->prepared; i < upto; i++) {
    g->vectors[i] = (struct iovec){datagram_at(g, i), BUFFER_BYTES};
    struct msghdr to = {.msg_iov = &g->vectors[i], .msg_iovlen = 1, .msg_name = &g->senders[i], .msg_namelen = sizeof g->senders[i]};
    g->messages[i].msg_hdr = to;
  }
  if (g->prepared < upto) g->prepared = upto;
}

// Returns how many datagrams were read, or −1 when the socket cannot be read.
static int read_datagrams(state *g) {
  receive_loop *loop = g->loop;
  uint32_t first = loop->received, room = MAX_RECEIVED - first;
  if (room > READ_AT_ONCE) room = READ_AT_ONCE;
  prepare(g, first + room);
  struct mmsghdr *messages = g->messages + first;
  int count = recvmmsg(loop->fd, messages, room, MSG_DONTWAIT, NULL);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
  for (int i = 0; i < count; i++) {
    destination *from = &loop->from[first + (uint32_t)i];
    read_address(from, &g->senders[first + (uint32_t)i]);
    int whole = (messages[i].msg_hdr.msg_flags & MSG_TRUNC) == 0 && messages[i].msg_len <= BUFFER_BYTES;
    from->length = whole ? (uint16_t)messages[i].msg_len : 0;
  }
  loop->received += (uint32_t)count;
  return count;
}

// Whether the newest datagram belongs to a video frame whose last packet has not come.
static int is_amid_frame(const state *g) {
  receive_loop *loop = g->loop;
  uint32_t newest = loop->received - 1;
  const uint8_t *packet = datagram_at(g, newest);
  const session *s = session_of(loop, &loop->from[newest]);
  const fast_stream *stream = s ? forwardable_stream(s->streams, packet, loop->from[newest].length) : NULL;
  return stream && stream->codec != CODEC_AUDIO && packet[1] >> 7 == 0;
}

static void pause_for(uint32_t micros) {
  struct timespec pause = {.tv_nsec = (long)micros * 1000};
  nanosleep(&pause, NULL);
}

// A browser sends a frame's packets together, and they arrive within a fraction of a millisecond. Waiting for the rest costs
// less than waking up for each, and no viewer can show a frame before it is complete. If the packets turn out to be spread, the
// loop does not wait for the next frames. Returns −1 if the socket cannot be read.
static int await_frame(state *g) {
  receive_loop *loop = g->loop;
  for (uint32_t paused = 0; paused < loop->pause_us && MAX_RECEIVED - loop->received >= LEAST_FREE && is_amid_frame(g);
       paused += PAUSE_STEP_US) {
    if (loop->hurried > 0) {
      loop->hurried--;
      return 0;
    }
    pause_for(PAUSE_STEP_US);
    int more = read_datagrams(g);
    if (more == 0) loop->hurried = HURRIED_AFTER_VAIN_PAUSE;
    if (more <= 0) return more;
  }
  return 0;
}

// Returns 0 when TypeScript has something to do, even if no datagram woke the loop.
static int receive(state *g) {
  uint32_t first = g->loop->received;
  if (read_datagrams(g) <= 0) return 0;
  int is_broken = await_frame(g) < 0;
  forward_datagrams(g, first, g->began_ms + passed_ms(g));
  return !is_broken && g->loop->set_aside_count == 0 && MAX_RECEIVED - g->loop->received >= LEAST_FREE;
}

// `datagrams` has room for MAX_RECEIVED datagrams, `arena` and `to` have room for MAX_BATCH copies.
EXPORT void stoa_receive_loop(engine *e, receive_loop *loop, uint8_t *datagrams, uint32_t datagrams_bytes, uint8_t *arena,
                              uint32_t arena_bytes, destination *to) {
  if (!loop) return;
  loop->run_count = loop->received = loop->set_aside_count = loop->packets_out = loop->bytes_out = loop->dropped = 0;
  if (!e || !datagrams || !arena || !to || loop->session_count > MAX_SESSIONS) return;
  if (datagrams_bytes / BUFFER_BYTES < MAX_RECEIVED || arena_bytes / BUFFER_BYTES < MAX_BATCH) return;
  for (uint32_t i = 0; i < loop->session_count; i++) loop->sessions[i].bytes_in = loop->sessions[i].is_held = 0;
  state g;
  g.e = e;
  g.loop = loop;
  g.datagrams = datagrams;
  g.arena = arena;
  g.arena_bytes = arena_bytes;
  g.to = to;
  g.copies = g.prepared = g.run.count = 0;
  g.began_ms = loop->now_ms;
  g.began_at_ms = clock_ms();
  // A datagram also makes the event loop's descriptor readable until it is received, and waiting at that descriptor alone costs
  // less than at both. If no datagram is there, the event loop has something else to do.
  for (double left = loop->wait_ms; left > 0; left = loop->wait_ms - passed_ms(&g)) {
    struct pollfd either = {.fd = loop->event_loop >= 0 ? loop->event_loop : loop->fd, .events = POLLIN};
    int ready = poll(&either, 1, (int)left + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || !receive(&g)) break;
  }
  loop->now_ms = g.began_ms + passed_ms(&g);
}
