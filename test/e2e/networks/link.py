"""A link between two network namespaces: link.py NEAR FAR. Not every kernel has a scheduler for all of it.

Packets pass between a tun device in each namespace, delayed, lost and queued as the last line on stdin says:
{"down": {"rateKbit": 300, "bufferMs": 200, "delayMs": 20, "jitterMs": 0, "loss": 0, "silent": false}, "up": {…}}.
With "perFlow" the ports of each participant have a line of that rate to themselves, as if each were at a home of their own.
With "rateKbitOfPort" packets to each of these ports have a line with a rate of its own.
`{"report": true}` prints what has passed since the last report: of each way, the wait of every packet in the queue.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time

TUNSETIFF, TUN_NO_PI = 0x400454CA, 0x1001
DEFAULTS = {"rateKbit": 0, "bufferMs": 1000, "delayMs": 0, "jitterMs": 0, "loss": 0, "silent": False}
DEFAULTS |= {"perFlow": False, "rateKbitOfPort": {}}
libc = ctypes.CDLL(None, use_errno=True)


def tun(namespace, name):
    handle = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(handle, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), TUN_NO_PI))
    return device


class Line:
    def __init__(self):
        self.free_at = 0.0
        self.last_out = 0.0


def flow_of(packet):
    """Protocol and ports of an IPv4 packet."""
    header = (packet[0] & 15) * 4
    return packet[9:10] + packet[header : header + 4]


def target_port_of(packet):
    return str(int.from_bytes(flow_of(packet)[3:5], "big"))


class Way:
    def __init__(self, source, target):
        self.source, self.target = source, target
        self.options = dict(DEFAULTS)
        self.lines = {}
        self.order = 0
        self.queue = []
        self.reset()

    def reset(self):
        self.waits, self.passed, self.dropped, self.since = [], 0, 0, time.monotonic()

    def arrive(self, packet, now):
        options = self.options
        if options["silent"] or random.random() < options["loss"]:
            self.dropped += 1
            return
        rate = options["rateKbit"]
        flow = flow_of(packet) if options["perFlow"] else None
        if options["rateKbitOfPort"] and (port := target_port_of(packet)) in options["rateKbitOfPort"]:
            rate = options["rateKbitOfPort"][port]
            flow = port
        line = self.lines.setdefault(flow, Line())
        start = max(now, line.free_at)
        wait = start - now
        if rate > 0:
            if wait * 1000 > options["bufferMs"]:
                self.dropped += 1
                return
            line.free_at = start + len(packet) * 8 / (rate * 1000)
            start = line.free_at
        self.waits.append(round(wait * 1000, 1))
        # Jitter of real links keeps the order.
        out = start + options["delayMs"] / 1000 + random.random() * options["jitterMs"] / 1000
        line.last_out = max(out, line.last_out)
        self.order += 1
        heapq.heappush(self.queue, (line.last_out, self.order, packet))

    def deliver(self, now):
        while self.queue and self.queue[0][0] <= now:
            packet = heapq.heappop(self.queue)[2]
            self.passed += len(packet)
            try:
                os.write(self.target, packet)
            except OSError:
                self.dropped += 1

    def report(self):
        seconds = time.monotonic() - self.since
        told = {"seconds": seconds, "bytes": self.passed, "dropped": self.dropped, "waitsMs": self.waits}
        self.reset()
        return told


def main(near, far, name):
    a = tun(near, name)
    b = tun(far, name)
    ways = {"down": Way(a, b), "up": Way(b, a)}
    print(json.dumps({"ready": True}), flush=True)
    poller = select.poll()
    for descriptor in (a, b, 0):
        poller.register(descriptor, select.POLLIN)
    rest = b""
    while True:
        due = min((way.queue[0][0] for way in ways.values() if way.queue), default=None)
        timeout = 1000 if due is None else max(0, (due - time.monotonic()) * 1000)
        for descriptor, _ in poller.poll(timeout):
            if descriptor == 0:
                text = os.read(0, 65536)
                if not text:
                    return
                *lines, rest = (rest + text).split(b"\n")
                for line in lines:
                    order = json.loads(line)
                    if order.get("report"):
                        print(json.dumps({way: ways[way].report() for way in ways}), flush=True)
                        continue
                    for way, options in order.items():
                        ways[way].options = {**DEFAULTS, **options}
                continue
            way = ways["down"] if descriptor == a else ways["up"]
            for _ in range(64):
                try:
                    packet = os.read(descriptor, 65536)
                except BlockingIOError:
                    break
                way.arrive(packet, time.monotonic())
        now = time.monotonic()
        for way in ways.values():
            way.deliver(now)


main(*sys.argv[1:4])
