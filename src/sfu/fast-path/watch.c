// While nothing but usual packets comes, TypeScript need not wake for each of them: this waits at the socket in its place, and
// takes (take.c), copies (fan-out.c) and sends (send.c) what comes. Reports that nobody waits for are laid aside. It ends when the
// time is up, with the first packet that is neither, or when the loop of the thread has something else to do. TypeScript
// (native-watch.ts) then makes up for what was done: it counts and keeps every packet as though it had just come, and reads the
// reports. No other thread has a part in it.

#define _GNU_SOURCE

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "watch.h"

_Static_assert(sizeof(session) == 40 && sizeof(watched_run) == 80 && sizeof(laid_aside) == 24, "native-watch.ts");
_Static_assert(offsetof(watch, from) == 88 && offsetof(watch, sessions) == 88 + MAX_WATCHED * 24, "native-watch.ts");
_Static_assert(offsetof(watch, aside) == offsetof(watch, runs) + MAX_WATCHED * 80, "native-watch.ts");

#define MAX_RECEIVED 64
// With less room left it is time for TypeScript.
#define LEAST_FREE 16u
#define SEND_PATIENCE_MS 10
#define PAUSE_STEP_US 200u
#define HURRIED_AFTER_VAIN 16u

// The copies that have been made and not been sent.
typedef struct {
  engine *e;
  watch *w;
  uint8_t *slots, *arena;
  uint32_t arena_bytes, copies;
  destination *to;
  double began_ms, began_at_ms;
  // What the kernel is given to receive with, of the first `prepared` slots: each is used once.
  uint32_t prepared;
  struct mmsghdr messages[MAX_WATCHED];
  struct iovec vectors[MAX_WATCHED];
  struct sockaddr_in6 senders[MAX_WATCHED];
} watching;

static double clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double passed_ms(const watching *g) { return g->w->still ? 0 : clock_ms() - g->began_at_ms; }

static uint8_t *slot_of(const watching *g, uint32_t slot) { return g->slots + (size_t)slot * SLOT_BYTES; }

// As absSendTime in rtp/ntp.ts: 24 bits, 6.18 seconds.
static uint32_t abs_send_time(double unix_ms) { return (uint32_t)((uint64_t)(unix_ms / 1000 * 262144) & 0xffffff); }

static void count_out(watching *g, int sign) {
  for (uint32_t i = 0; i < g->copies; i++) {
    if (g->to[i].length == 0) continue;
    g->w->packets_out += (uint32_t)sign;
    g->w->bytes_out += (uint32_t)sign * g->to[i].length;
  }
}

// What finds no room in the kernel's buffer even after a while is lost, as on any congested link.
static void send_copies(watching *g) {
  watch *w = g->w;
  int sent = g->copies == 0;
  count_out(g, 1);
  for (int tries = 0; !sent && tries < 2; tries++) {
    sent = stoa_send(w->fd, w->is_v6, g->arena, g->arena_bytes, g->to, g->copies, &w->grouping) == 1;
    struct pollfd room = {.fd = w->fd, .events = POLLOUT};
    if (!sent && tries == 0) poll(&room, 1, SEND_PATIENCE_MS);
  }
  if (!sent) {
    uint32_t before = w->packets_out;
    count_out(g, -1);
    w->dropped += before - w->packets_out;
  }
  g->copies = 0;
}

static void copy_run(watching *g, const audience *all, const run *r) {
  const source *from = &g->w->taking.sources[r->first];
  for (uint32_t done = 0; done < all->seat_count;) {
    uint32_t room = (MAX_BATCH - g->copies) / r->count;
    if (room == 0) {
      send_copies(g);
      continue;
    }
    uint32_t count = all->seat_count - done < room ? all->seat_count - done : room;
    uint32_t filled =
        stoa_fan_out_run(g->e, g->arena, g->arena_bytes, g->copies, g->to, from, r->count, all->seats + done, count);
    if (filled != count * r->count) return;
    g->copies += filled;
    done += count;
  }
}

static session *session_of(watch *w, const destination *from) {
  for (uint32_t i = 0; i < w->session_count; i++) {
    session *s = &w->sessions[i];
    if (s->port == from->port && from->scope == 0 && memcmp(s->address, from->address, sizeof s->address) == 0) return s;
  }
  return NULL;
}

// The lane of a packet of media that goes to seats and nowhere else; NULL for any other.
static const lane *direct_lane(const session *s, const uint8_t *packet, uint32_t length) {
  if (!s || !s->streams || length < RTP_HEADER_BYTES || packet[0] >> 6 != 2) return NULL;
  if (packet[1] >= FIRST_CONTROL && packet[1] <= LAST_CONTROL) return NULL;
  uint32_t ssrc = (uint32_t)packet[8] << 24 | (uint32_t)packet[9] << 16 | (uint32_t)packet[10] << 8 | packet[11];
  for (uint32_t i = 0; i < MAX_LANES; i++) {
    const lane *l = &s->streams->lanes[i];
    if (l->open && l->ssrc == ssrc) return s->streams->audiences[i].direct ? l : NULL;
  }
  return NULL;
}

// Packets of one session, from slot `first` on. Returns how many of them were taken.
static uint32_t take_from(watching *g, session *s, uint32_t first, uint32_t count, double now_ms) {
  watch *w = g->w;
  taking *t = &w->taking;
  t->now_ms = now_ms;
  t->abs_send_time = abs_send_time(now_ms);
  t->count = count;
  for (uint32_t i = 0; i < count; i++) {
    t->data[i] = (double)(uintptr_t)slot_of(g, first + i);
    t->lengths[i] = w->from[first + i].length;
  }
  uint32_t taken = stoa_take(g->e, s->receiver, s->streams, t, 0);
  for (uint32_t i = 0; taken > 0 && i < t->run_count; i++) {
    const run *r = &t->runs[i];
    copy_run(g, &s->streams->audiences[r->lane], r);
    watched_run *done = &w->runs[w->run_count++];
    done->now_ms = now_ms;
    done->session = (uint32_t)(s - w->sessions);
    done->run = *r;
    done->run.first += first;
  }
  for (uint32_t i = 0; i < taken; i++) {
    s->bytes_in += w->from[first + i].length;
    w->from[first + i].length = (uint16_t)t->lengths[i];
  }
  return taken;
}

// A report. Returns 0 when it cannot wait, or is none.
static int lay_aside(watching *g, const session *s, double now_ms) {
  watch *w = g->w;
  laid_aside report = {.now_ms = now_ms, .slot = w->taken, .session = s ? (uint32_t)(s - w->sessions) : 0};
  if (!can_wait(g->e, s ? s->receiver : 0, slot_of(g, report.slot), w->from[report.slot].length, &report.outcome)) {
    w->outcome = report.outcome;
    w->rest_session = report.session;
    return 0;
  }
  w->aside[w->aside_count++] = report;
  w->taken++;
  return 1;
}

// Returns 0 when TypeScript has to see to what is left.
static int forward(watching *g, double now_ms) {
  watch *w = g->w;
  while (w->taken < w->received) {
    uint32_t first = w->taken, count = 0;
    session *s = session_of(w, &w->from[first]);
    while (count < MAX_TAKE && first + count < w->received && (count == 0 || session_of(w, &w->from[first + count]) == s) &&
           direct_lane(s, slot_of(g, first + count), w->from[first + count].length))
      count++;
    if (count == 0) {
      if (!lay_aside(g, s, now_ms)) return 0;
      continue;
    }
    uint32_t taken = take_from(g, s, first, count, now_ms);
    w->taken += taken;
    if (taken == count) continue;
    w->outcome = w->taking.outcome;
    w->rest_session = (uint32_t)(s - w->sessions);
    return 0;
  }
  return 1;
}

static void prepare(watching *g, uint32_t upto) {
  for (uint32_t i = g->prepared; i < upto; i++) {
    g->vectors[i] = (struct iovec){slot_of(g, i), SLOT_BYTES};
    struct msghdr to = {.msg_iov = &g->vectors[i], .msg_iovlen = 1, .msg_name = &g->senders[i], .msg_namelen = sizeof g->senders[i]};
    g->messages[i].msg_hdr = to;
  }
  if (g->prepared < upto) g->prepared = upto;
}

// Reads what has come. Returns 0 when nothing has, less when the socket cannot be read.
static int read_datagrams(watching *g) {
  watch *w = g->w;
  uint32_t first = w->received, room = MAX_WATCHED - first;
  if (room > MAX_RECEIVED) room = MAX_RECEIVED;
  prepare(g, first + room);
  struct mmsghdr *messages = g->messages + first;
  int count = recvmmsg(w->fd, messages, room, MSG_DONTWAIT, NULL);
  if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
  for (int i = 0; i < count; i++) {
    destination *from = &w->from[first + (uint32_t)i];
    read_address(from, &g->senders[first + (uint32_t)i]);
    int whole = (messages[i].msg_hdr.msg_flags & MSG_TRUNC) == 0 && messages[i].msg_len <= SLOT_BYTES;
    from->length = whole ? (uint16_t)messages[i].msg_len : 0;
  }
  w->received += (uint32_t)count;
  return count;
}

// The newest datagram is of a picture whose last packet has not come.
static int is_amid_frame(const watching *g) {
  const watch *w = g->w;
  uint32_t newest = w->received - 1;
  const uint8_t *packet = slot_of(g, newest);
  const session *s = session_of(g->w, &w->from[newest]);
  const lane *l = direct_lane(s, packet, w->from[newest].length);
  return l && l->codec != CODEC_AUDIO && packet[1] >> 7 == 0;
}

static void pause_for(uint32_t micros) {
  struct timespec pause = {.tv_nsec = (long)micros * 1000};
  nanosleep(&pause, NULL);
}

// A frame's packets are sent at once, and come within a fraction of a millisecond: it costs less to wait for the others than to
// wake for each of them, and a viewer can show none before all are there. Where they turn out to be spread, the next ones are not
// waited for. Returns less than 0 when the socket cannot be read.
static int await_frame(watching *g) {
  watch *w = g->w;
  for (uint32_t paused = 0; paused < w->pause_us && MAX_WATCHED - w->received >= LEAST_FREE && is_amid_frame(g);
       paused += PAUSE_STEP_US) {
    if (w->hurried > 0) {
      w->hurried--;
      return 0;
    }
    pause_for(PAUSE_STEP_US);
    int more = read_datagrams(g);
    if (more == 0) w->hurried = HURRIED_AFTER_VAIN;
    if (more <= 0) return more;
  }
  return 0;
}

// Returns 0 when it is over, as it is when no packet was the reason to wake.
static int receive(watching *g) {
  if (read_datagrams(g) <= 0) return 0;
  int broken = await_frame(g) < 0;
  int goes_on = forward(g, g->began_ms + passed_ms(g));
  send_copies(g);
  return goes_on && !broken;
}

// Until the time is up, or the first of the reports has to be read.
static double left_ms(const watching *g) {
  const watch *w = g->w;
  double passed = passed_ms(g), left = w->wait_ms - passed;
  if (w->aside_count == 0) return left;
  double patience = w->aside[0].now_ms - g->began_ms + w->patience_ms - passed;
  return patience < left ? patience : left;
}

// `slots` has room for MAX_WATCHED datagrams, `arena` and `to` for MAX_BATCH copies.
EXPORT void stoa_watch(engine *e, watch *w, uint8_t *slots, uint32_t slots_bytes, uint8_t *arena, uint32_t arena_bytes,
                       destination *to) {
  if (!w) return;
  w->run_count = w->aside_count = w->taken = w->received = w->packets_out = w->bytes_out = w->dropped = 0;
  w->outcome = 0;
  if (!e || !slots || !arena || !to || w->session_count > MAX_SESSIONS) return;
  if (slots_bytes / SLOT_BYTES < MAX_WATCHED || arena_bytes / SLOT_BYTES < MAX_BATCH) return;
  for (uint32_t i = 0; i < w->session_count; i++) w->sessions[i].bytes_in = 0;
  watching g;
  g.e = e;
  g.w = w;
  g.slots = slots;
  g.arena = arena;
  g.arena_bytes = arena_bytes;
  g.to = to;
  g.copies = g.prepared = 0;
  g.began_ms = w->now_ms;
  g.began_at_ms = clock_ms();
  // A packet that waits makes the loop's descriptor readable as well, until it has been received. To wait there alone costs less
  // than at both; and if there is no packet then, it is something of the loop's.
  for (double left = w->wait_ms; left > 0; left = left_ms(&g)) {
    struct pollfd either = {.fd = w->loop >= 0 ? w->loop : w->fd, .events = POLLIN};
    int ready = poll(&either, 1, (int)left + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    if (!receive(&g) || MAX_WATCHED - w->received < LEAST_FREE) break;
  }
  w->now_ms = g.began_ms + passed_ms(&g);
}
